/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `apps` about copy-on-write regions: the next version of a region of 1 GiB in which 1 % changes, from begin
 * to publish. The reference is a copy of the region, by which a program without them gives its readers a whole new
 * version.
 */
#include <stdlib.h>
#include <string.h>

#include <afar/cow.h>

#include "apps_cow.h"
#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/harness.h"
#include "harness/process.h"

#define MIB	     ((uint64_t)1 << 20)
#define REGION_BYTES (1024 * MIB)
#define NR_CHANGED   10U /* units of 1 MiB: 1 % */
#define PIECE_BYTES  (4 * MIB)
#define NR_SERVERS   2U
#define SERVER_BYTES (REGION_BYTES + 96 * MIB) /* of each: the region, its copy, new units */

/* A client over one transport. */
struct client {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *versions; /* copy-on-write */
	struct afar_region *copy;
};

struct cow_stage {
	struct cluster *cluster;
	uint8_t *piece; /* PIECE_BYTES */
	uint64_t turn;	/* where the changes of a version begin */
	struct client local, tcp;
};

static int fail(const char *asked, int status)
{
	return bench_fail(status, "%s: %s", asked, afar_last_error());
}

/* ---- The stage */

static int open_client(struct cow_stage *stage, const char *path, struct client *client)
{
	const struct afar_session_options options = {.size = sizeof(options), .path = path};
	int ret = afar_session_open(cluster_uri(stage->cluster), &options, &client->session);

	return ret ? fail("open a session", ret) : 0;
}

/* Copies whole regions. */
static int copy_region(const struct cow_stage *stage, struct afar_region *from,
		       struct afar_region *to)
{
	for (uint64_t at = 0; at < REGION_BYTES; at += PIECE_BYTES) {
		ssize_t n = from ? afar_region_pread(from, stage->piece, PIECE_BYTES, at)
				 : (ssize_t)PIECE_BYTES;

		if (n == (ssize_t)PIECE_BYTES)
			n = afar_region_pwrite(to, stage->piece, PIECE_BYTES, at);
		if (n != (ssize_t)PIECE_BYTES)
			return fail("copy a region", (int)n);
	}
	return 0;
}

/* Makes the regions, and the version that all others begin from. */
static int make_regions(struct cow_stage *stage, struct client *client)
{
	const struct afar_range all = {0, REGION_BYTES};
	int ret = afar_namespace_create(client->session, "cow", NULL, &client->ns);

	if (!ret)
		ret = afar_namespace_reserve(client->ns, 2 * REGION_BYTES + 64 * MIB);
	if (!ret)
		ret = afar_region_create(client->ns, "versions", REGION_BYTES, AFAR_ALLOC_COW,
					 &client->versions);
	if (!ret)
		ret = afar_region_begin(client->versions, &all, 1);
	if (ret)
		return fail("make a copy-on-write region", ret);
	ret = copy_region(stage, NULL, client->versions);
	if (ret)
		return ret;
	ret = afar_region_publish(client->versions);
	if (!ret)
		ret = afar_region_create(client->ns, "copy", REGION_BYTES, 0, &client->copy);
	return ret ? fail("publish a version", ret) : 0;
}

static int open_regions(struct client *client)
{
	int ret = afar_namespace_open(client->session, "cow", &client->ns);

	if (!ret)
		ret = afar_region_open(client->ns, "versions", &client->versions);
	if (!ret)
		ret = afar_region_open(client->ns, "copy", &client->copy);
	return ret ? fail("open the regions", ret) : 0;
}

static void teardown(void *state)
{
	struct cow_stage *stage = state;

	if (!stage)
		return;
	for (int i = 0; i < 2; i++) {
		struct client *client = i ? &stage->tcp : &stage->local;

		if (client->versions)
			afar_region_close(client->versions);
		if (client->copy)
			afar_region_close(client->copy);
		if (client->ns)
			afar_namespace_close(client->ns);
		if (client->session)
			afar_session_close(client->session);
	}
	cluster_stop(stage->cluster);
	free(stage->piece);
	free(stage);
}

/* ---- The rows */

static struct client *client_of(struct cow_stage *stage, const struct bench_row *row)
{
	return strcmp(row->parameters, "tcp") == 0 ? &stage->tcp : &stage->local;
}

/* Each version changes other units, far from each other. */
static int run_publish(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct cow_stage *stage = state;
	struct client *client = client_of(stage, row);
	struct afar_range ranges[NR_CHANGED];
	uint64_t began;
	int ret;

	memset(stage->piece, (int)repetition + 1, PIECE_BYTES);
	for (unsigned i = 0; i < NR_CHANGED; i++)
		ranges[i] = (struct afar_range){
			(stage->turn + i * (REGION_BYTES / NR_CHANGED / MIB)) * MIB % REGION_BYTES,
			MIB};
	stage->turn++;
	began = clock_ns();
	ret = afar_region_begin(client->versions, ranges, NR_CHANGED);
	for (unsigned i = 0; i < NR_CHANGED && !ret; i++) {
		ssize_t n =
			afar_region_pwrite(client->versions, stage->piece, MIB, ranges[i].offset);

		ret = n < 0 ? (int)n : 0;
	}
	if (!ret)
		ret = afar_region_publish(client->versions);
	*value = (double)(clock_ns() - began) / 1e6;
	return ret ? fail("publish a version", ret) : 0;
}

static int run_copy(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct cow_stage *stage = state;
	struct client *client = client_of(stage, row);
	uint64_t began = clock_ns();
	int ret = copy_region(stage, client->versions, client->copy);

	(void)repetition;
	*value = (double)(clock_ns() - began) / 1e6;
	return ret;
}

#define COPY "a copy of the region, by reads and writes of 4 MiB"
static struct bench_row rows[] = {
	{"publish 1 % of 1 GiB, local", "ms", BENCH_LOWER, COPY, BENCH_REPORTED, "local",
	 run_publish, run_copy},
	{"publish 1 % of 1 GiB, tcp", "ms", BENCH_LOWER, COPY, BENCH_REPORTED, "tcp", run_publish,
	 run_copy},
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static int setup(void **out)
{
	struct cow_stage *stage;
	int ret;

	*out = NULL;
	if (machine_available_bytes() < NR_SERVERS * SERVER_BYTES + 512 * MIB) {
		bench_skip(rows, NR_ROWS, "not measured: less than 2.7 GiB of memory are free");
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (stage)
		stage->piece = calloc(1, PIECE_BYTES);
	*out = stage;
	if (!stage || !stage->piece)
		return bench_fail(-1, "begin: no memory");
	ret = cluster_start_over(CLUSTER_LOCAL_AND_TCP, NR_SERVERS, SERVER_BYTES, &stage->cluster);
	if (!ret)
		ret = open_client(stage, "local", &stage->local);
	if (!ret)
		ret = open_client(stage, "tcp", &stage->tcp);
	if (!ret)
		ret = make_regions(stage, &stage->local);
	return ret ? ret : open_regions(&stage->tcp);
}

const struct bench_stage apps_cow_stage = {setup, teardown, rows, NR_ROWS};
