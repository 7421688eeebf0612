/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads work on one exclusive volume on flash while its servers, the manager or both are killed,
 * again and again. No call fails, and each read shows what was written last, synced or not. When
 * the volume is closed after a sync, all of it survives one more kill.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/volume.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"

#define NR_THREADS  4U
#define NR_SERVERS  2U
#define PART_BYTES  (2 * MIB) /* of the volume: each thread's own */
#define PIECE_MAX   (96 * KIB)
#define FLASH_BYTES (192 * MIB)
#define RETRY_MS    120000U
#define IDLE_MS	    150U /* longer than a queue for blocking calls trusts its connections */

static struct afar_volume *volume;
static atomic_bool is_over;
static unsigned random_state;

struct worker {
	pthread_t thread;
	unsigned number;
	uint32_t random;
	atomic_uint nr_steps;
	uint8_t model[PART_BYTES];
	uint8_t memory[PIECE_MAX];
};
static struct worker workers[NR_THREADS];

static uint32_t roll(uint32_t *random, uint32_t sides)
{
	*random = *random * 1664525U + 1013904223U;
	return (*random >> 8) % sides;
}

/* Ends the process: cmocka's assertions are for the main thread alone. */
static _Noreturn void wrong(const struct worker *worker, const char *what, uint64_t offset,
			    uint64_t length)
{
	fprintf(stderr, "worker %u, step %u: %s %llu bytes at %llu: %s\n", worker->number,
		worker->nr_steps, what, (unsigned long long)length, (unsigned long long)offset,
		afar_last_error());
	_exit(1);
}

static void check_read(struct worker *worker, uint64_t offset, uint32_t length)
{
	uint64_t at = worker->number * PART_BYTES + offset;

	if (afar_volume_pread(volume, worker->memory, length, at) != (ssize_t)length)
		wrong(worker, "read", at, length);
	for (uint32_t i = 0; i < length; i++)
		if (worker->memory[i] != worker->model[offset + i])
			wrong(worker, "older or others' bytes in", at + i, length);
}

static void write_some(struct worker *worker, uint64_t offset, uint32_t length, unsigned flags)
{
	uint64_t at = worker->number * PART_BYTES + offset;
	uint8_t first = (uint8_t)roll(&worker->random, 256);

	for (uint32_t i = 0; i < length; i++)
		worker->memory[i] = (uint8_t)(first + i * 7);
	if (afar_volume_pwrite(volume, worker->memory, length, at, flags) != (ssize_t)length)
		wrong(worker, "write", at, length);
	memcpy(worker->model + offset, worker->memory, length);
}

static void clear_some(struct worker *worker, bool is_trim, uint64_t offset, uint32_t length,
		       unsigned flags)
{
	uint64_t at = worker->number * PART_BYTES + offset;
	int ret;

	if (is_trim) { /* whole blocks alone are sure to be zeros then */
		at -= at % AFAR_VOLUME_BLOCK;
		offset -= offset % AFAR_VOLUME_BLOCK;
		length = length / AFAR_VOLUME_BLOCK * AFAR_VOLUME_BLOCK;
	}
	ret = is_trim ? afar_volume_trim(volume, at, length, flags)
		      : afar_volume_zero(volume, at, length, flags);
	if (ret != 0)
		wrong(worker, is_trim ? "trim" : "zero", at, length);
	memset(worker->model + offset, 0, length);
}

static void step(struct worker *worker)
{
	uint32_t length = 1 + roll(&worker->random, roll(&worker->random, 4) ? 8192 : PIECE_MAX);
	uint64_t offset = roll(&worker->random, (uint32_t)(PART_BYTES - length));
	unsigned flags = roll(&worker->random, 4) == 0 ? AFAR_OP_DURABLE : 0;

	switch (roll(&worker->random, 16)) {
	case 0:
		if (afar_volume_sync(volume) != 0)
			wrong(worker, "sync", 0, 0);
		break;
	case 1:
		clear_some(worker, false, offset, length, flags);
		break;
	case 2:
		clear_some(worker, true, offset, length, flags);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
		check_read(worker, offset, length);
		break;
	default:
		write_some(worker, offset, length, flags);
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	while (!is_over) {
		step(worker);
		worker->nr_steps++;
	}
	return NULL;
}

/* ---- Killing */

static unsigned count_steps(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_THREADS; i++)
		nr += workers[i].nr_steps;
	return nr;
}

static void await_steps(unsigned nr)
{
	unsigned until = count_steps() + nr;

	while (count_steps() < until)
		test_pause();
}

static void run_round(void)
{
	unsigned what = roll(&random_state, 4), first = roll(&random_state, NR_SERVERS);
	unsigned nr = what == 0 ? 0 : 1 + roll(&random_state, NR_SERVERS);

	await_steps(1 + roll(&random_state, 200));
	for (unsigned i = 0; i < nr; i++)
		cluster_kill_server(cluster, (first + i) % NR_SERVERS);
	if (what < 2)
		cluster_kill_manager(cluster);
	for (unsigned left = roll(&random_state, 20); left > 0; left--)
		test_pause();
	if (what < 2)
		assert_int_equal(cluster_restart_manager(cluster), 0);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(cluster_restart_server(cluster, (first + i) % NR_SERVERS), 0);
	await_steps(40);
}

/* ---- The test */

static void open_volume(uint32_t mode, uint32_t retry_ms)
{
	const struct afar_volume_options options = {
		.size = sizeof(options), .mode = mode, .retry_ms = retry_ms, .log_bytes = MIB};

	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	assert_int_equal(afar_volume_open(session, "disk", &options, &volume), 0);
}

static void close_volume(void)
{
	assert_int_equal(afar_volume_close(volume), 0);
	assert_int_equal(afar_session_close(session), 0);
}

static void test_kills(void **state)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = 64 * KIB};
	const unsigned nr_rounds = (unsigned)test_effort(6, 20, 200);
	const char *seed = getenv("AFAR_SEED");

	(void)state;
	random_state = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
	print_message("AFAR_SEED=%u\n", random_state);
	assert_int_equal(cluster_start_flash(NR_SERVERS, 64 * MIB, FLASH_BYTES, &cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	assert_int_equal(
		afar_volume_create(session, "disk", NR_THREADS * PART_BYTES, &policy, NULL), 0);
	assert_int_equal(afar_session_close(session), 0);
	open_volume(AFAR_VOLUME_EXCLUSIVE, RETRY_MS);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		workers[i].number = i;
		workers[i].random = roll(&random_state, UINT32_MAX);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < nr_rounds; i++)
		run_round();
	is_over = true;
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	print_message("%u rounds, %u steps\n", nr_rounds, count_steps());
	assert_int_equal(afar_volume_sync(volume), 0);
	close_volume();
	for (unsigned i = 0; i < NR_SERVERS; i++)
		cluster_kill_server(cluster, i);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		assert_int_equal(cluster_restart_server(cluster, i), 0);
	open_volume(AFAR_VOLUME_READ_ONLY, 0);
	for (unsigned i = 0; i < NR_THREADS; i++)
		for (uint64_t at = 0; at < PART_BYTES; at += 64 * KIB)
			check_read(&workers[i], at, 64 * KIB);
	close_volume();
	cluster_stop(cluster);
}

/* A volume that nobody uses while its servers restart connects anew before anything of it has failed. The
 * first call then, whichever it is, must find the changes made again. */
static void test_idle_over_a_restart(void **state)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = 64 * KIB};
	struct worker *worker = &workers[0];

	(void)state;
	memset(worker, 0, sizeof(*worker));
	assert_int_equal(cluster_start_flash(NR_SERVERS, 64 * MIB, FLASH_BYTES, &cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	assert_int_equal(afar_volume_create(session, "disk", PART_BYTES, &policy, NULL), 0);
	assert_int_equal(afar_session_close(session), 0);
	open_volume(AFAR_VOLUME_EXCLUSIVE, RETRY_MS);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 8; i++)
			write_some(worker, i * 64 * KIB, 64 * KIB, 0);
		for (unsigned i = 0; i < NR_SERVERS; i++)
			cluster_kill_server(cluster, i);
		for (unsigned i = 0; i < NR_SERVERS; i++)
			assert_int_equal(cluster_restart_server(cluster, i), 0);
		for (unsigned i = 0; i < IDLE_MS; i++)
			test_pause();
		if (round % 2 == 1)
			assert_int_equal(afar_volume_sync(volume), 0);
		check_read(worker, 0, 64 * KIB);
		for (unsigned i = 0; i < 8; i++)
			check_read(worker, i * 64 * KIB, 64 * KIB);
	}
	close_volume();
	cluster_stop(cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kills),
		cmocka_unit_test(test_idle_over_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
