/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `rights`: what it takes to give access and to take it back. Keys for many extents at once, the
 * end of a session that holds many, and the zeroing of memory between two namespaces. (Suite `region`
 * has what rights cost a transfer: nothing may.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/harness.h"
#include "harness/process.h"
#include "harness/scene.h"
#include "peers/raw_fabric.h"

#define NR_ROWS(rows)	  (sizeof(rows) / sizeof((rows)[0]))
#define MIB		  (UINT64_C(1) << 20)
#define EXTENT_BYTES	  (2 * MIB) /* the least: the most extents for the memory */
#define NR_SERVERS	  4U
#define NR_EXTENTS	  1000U
#define SCRUB_BYTES	  (1024 * MIB)
#define REPORT_TIMEOUT_MS 30000
#define NAME_BYTES	  64

static double milliseconds_since(uint64_t begin)
{
	return (double)(clock_ns() - begin) / 1e6;
}

static void pause_ms(long milliseconds)
{
	const struct timespec pause = {.tv_nsec = milliseconds * 1000000};

	nanosleep(&pause, NULL);
}

/* ---- Keys for many extents, and their end */

struct rights_stage {
	struct cluster *cluster;
	struct scene operator;	   /* has the namespace, and its region of NR_EXTENTS extents */
	struct afar_region *small; /* of one extent on each server */
	unsigned nr_guests;
};

/* Somebody with a key of its own, who may read and write the namespace. */
struct guest {
	char name[NAME_BYTES];
	char key_file[NAME_BYTES];
	struct scene scene;
	struct afar_queue *queue;
};

static int write_key(const char *path, const char *name, const char *secret)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	bool is_written;

	if (!file)
		return bench_fail(-EIO, "the key file %s cannot be made", path);
	is_written = fprintf(file, "%s:%s\n", name, secret) > 0;
	return !fclose(file) && is_written ? 0 : bench_fail(-EIO, "%s cannot be written", path);
}

static int invite(struct rights_stage *state, struct guest *guest)
{
	char secret[AFAR_KEY_HEX_MAX];
	int ret;

	snprintf(guest->name, sizeof(guest->name), "guest-%u", state->nr_guests);
	snprintf(guest->key_file, sizeof(guest->key_file), "/tmp/afar-bench-%ld-%u.key",
		 (long)getpid(), state->nr_guests++);
	ret = afar_key_add(state->operator.session, guest->name, 0, secret);
	if (ret)
		return scene_fail("add a key", ret);
	ret = write_key(guest->key_file, guest->name, secret);
	if (ret)
		return ret;
	ret = afar_namespace_grant(state->operator.ns, guest->name,
				   AFAR_RIGHT_READ | AFAR_RIGHT_WRITE);
	return ret ? scene_fail("grant", ret) : 0;
}

/* A session of the guest's with a queue that is connected to all servers. */
static int enter(struct rights_stage *state, struct guest *guest)
{
	const struct afar_session_options session = {.size = sizeof(session),
						     .key_file = guest->key_file};
	const struct afar_queue_options queue = {.size = sizeof(queue), .depth = 16};
	struct scene *scene = &guest->scene;
	struct afar_region *small = NULL;
	int ret = afar_session_open(cluster_uri(state->cluster), &session, &scene->session);

	if (ret)
		return scene_fail("open a session", ret);
	ret = afar_namespace_open(scene->session, SCENE_NAMESPACE, &scene->ns);
	if (!ret)
		ret = afar_region_open(scene->ns, "small", &small);
	if (!ret)
		ret = afar_queue_open(scene->session, &queue, &guest->queue);
	if (!ret)
		ret = afar_queue_connect(guest->queue, afar_region_target(small));
	if (small)
		afar_region_close(small);
	return ret ? scene_fail("connect to the servers", ret) : 0;
}

/* Its session may have ended already: what closing says does not matter. */
static void leave(struct guest *guest)
{
	if (guest->queue)
		afar_queue_close(guest->queue);
	scene_close(&guest->scene);
	if (guest->key_file[0])
		unlink(guest->key_file);
}

static int open_named(struct guest *guest, const char *name)
{
	int ret = afar_region_open(guest->scene.ns, name, &guest->scene.region);

	if (ret)
		return scene_fail("open the region", ret);
	ret = afar_queue_connect(guest->queue, afar_region_target(guest->scene.region));
	return ret ? scene_fail("get the keys", ret) : 0;
}

/* From a session that is connected already to one that has the keys of all of the region's extents. */
static int run_grant(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct rights_stage *state = stage;
	struct guest guest = {0};
	uint64_t begin;
	int ret = invite(state, &guest);

	(void)repetition;
	if (!ret)
		ret = enter(state, &guest);
	begin = clock_ns();
	if (!ret)
		ret = open_named(&guest, row->parameters);
	*value = milliseconds_since(begin);
	leave(&guest);
	if (!ret && afar_key_revoke(state->operator.session, guest.name))
		ret = bench_fail(-EIO, "the guest's key cannot be revoked");
	return ret;
}

static int run_ten_milliseconds(void *stage, const struct bench_row *row, unsigned repetition,
				double *value)
{
	(void)stage;
	(void)row;
	(void)repetition;
	*value = 10;
	return 0;
}

static bool is_listed(const json_t *status, const char *principal)
{
	const json_t *sessions = json_object_get(status, "sessions");
	const json_t *session;
	size_t index;

	json_array_foreach(sessions, index, session)
	{
		const char *name = json_string_value(json_object_get(session, "principal"));

		if (name && !strcmp(name, principal))
			return true;
	}
	return false;
}

/* A session is listed until every server has closed what it had. */
static int await_fenced(struct rights_stage *state, const char *principal)
{
	uint64_t deadline = clock_deadline_ms(REPORT_TIMEOUT_MS);
	bool is_ending = true;

	while (is_ending && clock_remaining_ms(deadline) && !bench_is_interrupted()) {
		json_t *json;
		int ret = scene_status(&state->operator, & json);

		if (ret)
			return ret;
		is_ending = is_listed(json, principal);
		json_decref(json);
	}
	return is_ending ? bench_fail(-ETIMEDOUT, "the session of %s does not end", principal) : 0;
}

static int run_revoke(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct rights_stage *state = stage;
	struct guest guest = {0};
	uint64_t begin;
	int ret = invite(state, &guest);

	(void)row;
	(void)repetition;
	if (!ret)
		ret = enter(state, &guest);
	if (!ret)
		ret = open_named(&guest, SCENE_REGION);
	begin = clock_ns();
	if (!ret && afar_key_revoke(state->operator.session, guest.name))
		ret = bench_fail(-EIO, "the guest's key cannot be revoked");
	if (!ret)
		ret = await_fenced(state, guest.name);
	*value = milliseconds_since(begin);
	leave(&guest);
	return ret;
}

static void teardown_rights(void *stage)
{
	struct rights_stage *state = stage;

	if (state->small)
		afar_region_close(state->small);
	scene_close(&state->operator);
	cluster_stop(state->cluster);
	free(state);
}

/* Extents come as they are reserved: one at a time. */
static int reserve_extents(struct afar_namespace *ns, unsigned nr)
{
	int ret = 0;

	for (unsigned i = 0; i < nr && !ret; i++) {
		if (bench_is_interrupted())
			return bench_fail(-EINTR, "interrupted");
		ret = afar_namespace_reserve(ns, EXTENT_BYTES);
	}
	return ret ? scene_fail("reserve", ret) : 0;
}

static int setup_rights(void **stage)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_DRAM, .stripe_bytes = EXTENT_BYTES};
	struct rights_stage *state = calloc(1, sizeof(*state));
	struct scene *scene;
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	scene = &state->operator;
	ret = cluster_start(NR_SERVERS, 1024 * MIB, &state->cluster);
	if (!ret)
		ret = scene_open(scene, cluster_uri(state->cluster), 0);
	if (!ret && afar_namespace_create(scene->session, SCENE_NAMESPACE, &policy, &scene->ns))
		ret = bench_fail(-EIO, "create a namespace: %s", afar_last_error());
	if (!ret)
		ret = reserve_extents(scene->ns, NR_EXTENTS + NR_SERVERS);
	if (!ret &&
	    afar_region_create(scene->ns, "small", NR_SERVERS * EXTENT_BYTES, 0, &state->small))
		ret = bench_fail(-EIO, "create a region: %s", afar_last_error());
	if (!ret && afar_region_create(scene->ns, SCENE_REGION, NR_EXTENTS * EXTENT_BYTES, 0,
				       &scene->region))
		ret = bench_fail(-EIO, "create a region: %s", afar_last_error());
	if (ret) {
		teardown_rights(state);
		return ret;
	}
	*stage = state;
	return 0;
}

static const struct bench_row rights_rows[] = {
	{"open a region of 4 extents on 4 servers, keys granted", "ms", BENCH_LOWER,
	 "the bar of 10 ms", 1, "small", run_grant, run_ten_milliseconds},
	{"open a region of 1000 extents on 4 servers, keys granted", "ms", BENCH_LOWER,
	 "the bar of 10 ms", 1, SCENE_REGION, run_grant, run_ten_milliseconds},
	{"revoke a session with 1000 extents until fenced", "ms", BENCH_LOWER, NULL, BENCH_REPORTED,
	 NULL, run_revoke, NULL},
};

static const struct bench_stage rights_stage = {setup_rights, teardown_rights, rights_rows,
						NR_ROWS(rights_rows)};

/* ---- Scrubbing */

struct scrub_stage {
	struct cluster *cluster;
	struct scene scene;
	void *memory;
};

/* Waits for the rate at which the server scrubbed last. A report comes when its numbers have
 * changed. */
static int await_rate(const struct scrub_stage *state, uint64_t scrubbed_before, double *value)
{
	uint64_t deadline = clock_deadline_ms(REPORT_TIMEOUT_MS);

	while (clock_remaining_ms(deadline) && !bench_is_interrupted()) {
		json_t *json;
		int ret = scene_status(&state->scene, &json);
		bool is_done;

		if (ret)
			return ret;
		is_done = status_sum(json, "scrubbed_bytes") >= scrubbed_before + SCRUB_BYTES &&
			  status_sum(json, "dirty_bytes") == 0;
		*value = (double)status_sum(json, "scrub_bytes_per_s") / 1e9;
		json_decref(json);
		if (is_done)
			return 0;
		pause_ms(20);
	}
	return bench_fail(-ETIMEDOUT, "the server does not report that it has scrubbed");
}

/* The server's memory full of what is not 0: zeroes over zeroes may cost a machine less. */
static int fill_and_release(struct scrub_stage *state)
{
	struct scene *scene = &state->scene;
	ssize_t written;
	int ret;

	ret = afar_namespace_reserve(scene->ns, SCRUB_BYTES);
	if (!ret)
		ret = afar_region_alloc(scene->ns, SCRUB_BYTES, 0, &scene->region);
	if (ret)
		return scene_fail("reserve a region", ret);
	written = afar_region_pwrite(scene->region, state->memory, SCRUB_BYTES, 0);
	scene_free_region(scene);
	if (written != (ssize_t)SCRUB_BYTES)
		return scene_fail("fill a region", (int)written);
	ret = afar_namespace_release(scene->ns, SCRUB_BYTES, NULL);
	return ret ? scene_fail("release", ret) : 0;
}

static int run_scrub(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct scrub_stage *state = stage;
	uint64_t scrubbed;
	json_t *json;
	int ret;

	(void)row;
	memset(state->memory, (int)(repetition % 200) + 1, SCRUB_BYTES);
	ret = scene_status(&state->scene, &json);
	if (ret)
		return ret;
	scrubbed = status_sum(json, "scrubbed_bytes");
	json_decref(json);
	ret = fill_and_release(state);
	return ret ? ret : await_rate(state, scrubbed, value);
}

static int run_memset(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct scrub_stage *state = stage;
	uint64_t begin;

	(void)row;
	memset(state->memory, (int)(repetition % 200) + 1, SCRUB_BYTES);
	begin = clock_ns();
	memset(state->memory, 0, SCRUB_BYTES);
	*value = (double)SCRUB_BYTES / (double)(clock_ns() - begin);
	return 0;
}

static void teardown_scrub(void *stage)
{
	struct scrub_stage *state = stage;

	bench_memory_unmap(state->memory, SCRUB_BYTES);
	scene_close(&state->scene);
	cluster_stop(state->cluster);
	free(state);
}

static int setup_scrub(void **stage)
{
	const struct afar_policy policy = {.size = sizeof(policy), .tier = AFAR_TIER_DRAM};
	struct scrub_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->memory = bench_memory_map(SCRUB_BYTES);
	ret = state->memory ? 0 : bench_fail(-ENOMEM, "no memory for the reference");
	if (!ret)
		ret = cluster_start(1, SCRUB_BYTES, &state->cluster);
	if (!ret)
		ret = scene_open(&state->scene, cluster_uri(state->cluster), 0);
	if (!ret &&
	    afar_namespace_create(state->scene.session, SCENE_NAMESPACE, &policy, &state->scene.ns))
		ret = bench_fail(-EIO, "create a namespace: %s", afar_last_error());
	if (ret) {
		teardown_scrub(state);
		return ret;
	}
	*stage = state;
	return 0;
}

static const struct bench_row scrub_rows[] = {
	{"scrub 1 GiB", "GB/s", BENCH_HIGHER,
	 "memset of as much populated memory of the same kind, one thread", 0.8, NULL, run_scrub,
	 run_memset},
};

static const struct bench_stage scrub_stage = {setup_scrub, teardown_scrub, scrub_rows,
					       NR_ROWS(scrub_rows)};

static const struct bench_stage *const stages[] = {&rights_stage, &scrub_stage};

const struct bench_suite bench_suite_rights = {
	.name = "rights",
	.summary = "giving access and taking it back: keys for many extents, fencing, scrubbing",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
