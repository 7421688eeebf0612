/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds the town and looks after it. The honest client is a thread with a session of its own. */
#include "town.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/cluster.h"
#include "harness/process.h"
#include "lib/base/effort.h"

static struct cluster *cluster;
static char server_log[256], manager_log[256];
static unsigned nr_refusals_seen;

/* ---- The honest client */

static struct {
	pthread_t thread;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	atomic_uint nr_rounds;
	atomic_int status;
	atomic_bool is_over;
	char sentence[256];
} honest;

static int work_once(uint8_t *memory, uint8_t value)
{
	int64_t ret;

	memset(memory, value, HONEST_BYTES);
	ret = afar_region_pwrite(honest.region, memory, HONEST_BYTES, 0);
	memset(memory, 0, HONEST_BYTES);
	if (ret >= 0)
		ret = afar_region_pread(honest.region, memory, HONEST_BYTES, 0);
	if (ret < 0)
		return (int)ret;
	return count_bytes(memory, HONEST_BYTES, value) == HONEST_BYTES ? 0 : -EIO;
}

static void *work(void *argument)
{
	uint8_t *memory = malloc(HONEST_BYTES);
	uint8_t value = 1;
	int status = memory ? 0 : -ENOMEM;

	(void)argument;
	for (; status == 0 && !atomic_load(&honest.is_over); value = (uint8_t)(value % 63 + 1)) {
		status = work_once(memory, value);
		atomic_fetch_add(&honest.nr_rounds, 1);
		test_pause();
	}
	if (status)
		snprintf(honest.sentence, sizeof(honest.sentence), "%s", afar_last_error());
	atomic_store(&honest.status, status);
	free(memory);
	return NULL;
}

static int start_honest(void)
{
	atomic_store(&honest.nr_rounds, 0);
	atomic_store(&honest.status, 0);
	atomic_store(&honest.is_over, false);
	if (afar_session_open(cluster_uri(cluster), NULL, &honest.session) ||
	    afar_namespace_create(honest.session, "honest", NULL, &honest.ns) ||
	    afar_namespace_reserve(honest.ns, HONEST_BYTES) ||
	    afar_region_create(honest.ns, "r", HONEST_BYTES, 0, &honest.region))
		return -1;
	return pthread_create(&honest.thread, NULL, work, NULL);
}

static void stop_honest(void)
{
	atomic_store(&honest.is_over, true);
	pthread_join(honest.thread, NULL);
	afar_region_close(honest.region);
	afar_namespace_close(honest.ns);
	afar_session_close(honest.session);
}

static void expect_honest_goes_on(void)
{
	unsigned seen = atomic_load(&honest.nr_rounds);

	while (atomic_load(&honest.nr_rounds) < seen + 2 && !atomic_load(&honest.status))
		test_pause();
	if (atomic_load(&honest.status))
		fail_msg("the honest client was disturbed: %s", honest.sentence);
}

/* ---- The log */

static unsigned count_lines(const char *log, const char *what, const char *or_what)
{
	FILE *file = fopen(log, "re");
	unsigned count = 0;
	char line[1024];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, what) || strstr(line, or_what);
	fclose(file);
	return count;
}

static unsigned count_refusals(void)
{
	return count_lines(server_log, "refused", "rejected");
}

unsigned town_server_says(const char *what)
{
	return count_lines(server_log, what, what);
}

unsigned town_manager_says(const char *what)
{
	return count_lines(manager_log, what, what);
}

/* ---- The town */

/* afar://HOST:PORT?key=FOLDER/manager/key */
static void read_uri(struct town *town)
{
	const char *address = strstr(cluster_uri(cluster), "://") + 3;
	const char *key = strstr(address, "?key=") + 5;
	const char *colon = strchr(address, ':');
	int folder_length = (int)(strstr(key, "/manager/key") - key);

	snprintf(town->host, sizeof(town->host), "%.*s", (int)(colon - address), address);
	town->port = (uint16_t)atoi(colon + 1);
	snprintf(server_log, sizeof(server_log), "%.*s/server-0/log", folder_length, key);
	snprintf(manager_log, sizeof(manager_log), "%.*s/manager/log", folder_length, key);
}

static int make_key(struct town *town, const char *name, struct key *out)
{
	char secret[AFAR_KEY_HEX_MAX], line[128];

	if (afar_key_add(town->admin, name, 0, secret))
		return -1;
	snprintf(line, sizeof(line), "%s:%s\n", name, secret);
	return key_parse(line, strlen(line), "a line", out, 1) == 1 ? 0 : -1;
}

static int make_victim(struct town *town)
{
	static uint8_t memory[VICTIM_BYTES];

	memset(memory, VICTIM_BYTE, sizeof(memory));
	if (afar_namespace_create(town->admin, "victim", NULL, &town->victim) ||
	    afar_namespace_reserve(town->victim, VICTIM_BYTES) ||
	    afar_region_create(town->victim, "r", VICTIM_BYTES, 0, &town->victim_region) ||
	    afar_region_pwrite(town->victim_region, memory, VICTIM_BYTES, 0) < 0)
		return -1;
	return 0;
}

int town_open(struct town *town)
{
	nr_refusals_seen = 0;
	if (cluster_start(1, TOWN_BYTES, &cluster))
		return -1;
	read_uri(town);
	if (afar_session_open(cluster_uri(cluster), NULL, &town->admin) ||
	    make_key(town, "mallory", &town->mallory) || make_victim(town) || start_honest()) {
		fprintf(stderr, "%s\n", afar_last_error());
		return -1;
	}
	return 0;
}

void town_close(struct town *town)
{
	stop_honest();
	afar_region_close(town->victim_region);
	afar_namespace_close(town->victim);
	afar_session_close(town->admin);
	cluster_stop(cluster);
}

uint64_t town_server_bytes(void)
{
	return process_resident_bytes(cluster_server(cluster, 0));
}

uint64_t town_manager_bytes(void)
{
	return process_resident_bytes(cluster_manager(cluster));
}

void town_expect_peace(struct town *town, unsigned nr_refusals)
{
	static uint8_t memory[VICTIM_BYTES];
	unsigned nr_logged = count_refusals() - nr_refusals_seen;

	nr_refusals_seen += nr_logged;
	if (nr_logged < nr_refusals)
		fail_msg("the server logged %u of %u refusals", nr_logged, nr_refusals);
	memset(memory, 0, sizeof(memory));
	assert_int_equal(afar_region_pread(town->victim_region, memory, sizeof(memory), 0),
			 sizeof(memory));
	assert_int_equal(count_bytes(memory, sizeof(memory), VICTIM_BYTE), sizeof(memory));
	expect_honest_goes_on();
}

bool town_knows(struct town *town, uint64_t session)
{
	char number[24], *json;
	bool is_there;

	snprintf(number, sizeof(number), "\"%016llx\"", (unsigned long long)session);
	assert_int_equal(afar_session_status(town->admin, &json), 0);
	is_there = strstr(json, number) != NULL;
	free(json);
	return is_there;
}

/* ---- Who comes next */

static void expect_all(struct afar_region *region, uint64_t bytes, uint8_t value)
{
	uint8_t *memory = malloc(bytes);

	assert_non_null(memory);
	memset(memory, (uint8_t)~value, bytes);
	assert_int_equal(afar_region_pread(region, memory, bytes, 0), bytes);
	assert_int_equal(count_bytes(memory, bytes, value), bytes);
	free(memory);
}

static void fill_all(struct afar_region *region, uint64_t bytes)
{
	uint8_t *memory = malloc(bytes);

	assert_non_null(memory);
	memset(memory, NEXT_BYTE, bytes);
	assert_int_equal(afar_region_pwrite(region, memory, bytes, 0), bytes);
	free(memory);
}

void town_move_in(struct town *town, uint64_t bytes, struct next_owner *out)
{
	int ret;

	out->bytes = bytes;
	assert_int_equal(afar_namespace_create(town->admin, "next", NULL, &out->ns), 0);
	while ((ret = afar_namespace_reserve(out->ns, bytes)) == -ENOSPC)
		sched_yield();
	assert_int_equal(ret, 0);
	assert_int_equal(afar_region_create(out->ns, "r", bytes, 0, &out->region), 0);
	expect_all(out->region, bytes, 0);
	fill_all(out->region, bytes);
}

void town_move_out(struct town *town, struct next_owner *next)
{
	expect_all(next->region, next->bytes, NEXT_BYTE);
	assert_int_equal(afar_region_close(next->region), 0);
	assert_int_equal(afar_namespace_close(next->ns), 0);
	assert_int_equal(afar_namespace_delete(town->admin, "next", AFAR_DELETE_REGIONS), 0);
}
