/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume is taken over from a holder that was stopped (SIGSTOP) among its writes. When it goes on,
 * nothing of it lands, whatever it had begun, and it hears that its session has ended. Each kind of
 * holder: one that waits for its servers and makes changes again, too.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <afar/volume.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define NR_SERVERS   2U
#define VOLUME_BYTES (8 * MIB)
#define FLASH_BYTES  (64 * MIB)
#define PIECE	     (256 * KIB)
#define NR_THREADS   4U
#define OLD	     0x0d
#define NEW	     0x2e

/* ---- The holder, in a process of its own */

static struct afar_volume *held;
static atomic_int ended_with;
static atomic_uint nr_written;

static void *write_on(void *argument)
{
	const unsigned first = *(unsigned *)argument;
	uint8_t *bytes = malloc(PIECE);

	memset(bytes, OLD, PIECE);
	for (uint64_t i = first;; i += NR_THREADS) {
		ssize_t ret = afar_volume_pwrite(held, bytes, PIECE, i * PIECE % VOLUME_BYTES, 0);

		if (ret < 0) {
			atomic_store(&ended_with, (int)ret);
			break;
		}
		nr_written++;
	}
	free(bytes);
	return NULL;
}

/* Writes until that fails, and tells why: "ready" as one byte before, the code after. */
static int hold(const char *uri, uint32_t retry_ms, int say)
{
	const struct afar_volume_options options = {.size = sizeof(options), .retry_ms = retry_ms};
	unsigned numbers[NR_THREADS];
	pthread_t threads[NR_THREADS];
	int code;

	if (afar_session_open(uri, NULL, &session) ||
	    afar_volume_open(session, "disk", &options, &held))
		return 1;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, write_on, &numbers[i]))
			return 1;
	}
	while (nr_written < 8)
		test_pause();
	if (write(say, "r", 1) != 1)
		return 1;
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	code = ended_with;
	return write(say, &code, sizeof(code)) != sizeof(code);
}

/* ---- The test */

static void fill_all(struct afar_volume *volume, uint8_t value)
{
	uint8_t *bytes = malloc(VOLUME_BYTES);

	memset(bytes, value, VOLUME_BYTES);
	assert_int_equal(afar_volume_pwrite(volume, bytes, VOLUME_BYTES, 0, 0), VOLUME_BYTES);
	free(bytes);
}

static void expect_all(struct afar_volume *volume, uint8_t value)
{
	uint8_t *bytes = malloc(VOLUME_BYTES);

	assert_int_equal(afar_volume_pread(volume, bytes, VOLUME_BYTES, 0), VOLUME_BYTES);
	assert_int_equal(count_bytes(bytes, VOLUME_BYTES, value), VOLUME_BYTES);
	free(bytes);
}

static void take_over(const char *kind, uint32_t tier)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = tier, .stripe_bytes = 64 * KIB};
	const struct afar_volume_options taking = {.size = sizeof(taking),
						   .flags = AFAR_VOLUME_TAKE_OVER};
	struct client_process holder;
	struct afar_volume *volume;
	char byte;
	int code;

	assert_int_equal(afar_volume_create(session, "disk", VOLUME_BYTES, &policy, NULL), 0);
	client_start(&holder, kind, cluster_uri(cluster));
	client_hear(&holder, &byte, 1);
	process_stop(holder.pid);
	expect_error(afar_volume_open(session, "disk", NULL, &volume), -EBUSY);
	assert_int_equal(afar_volume_open(session, "disk", &taking, &volume), 0);
	fill_all(volume, NEW);
	process_continue(holder.pid);
	client_hear(&holder, &code, sizeof(code));
	assert_int_equal(code, -AFAR_ESESSION);
	assert_int_equal(client_reap(&holder), 0);
	expect_all(volume, NEW);
	assert_int_equal(afar_volume_close(volume), 0);
	assert_int_equal(afar_volume_delete(session, "disk"), 0);
}

static void test_in_memory(void **state)
{
	(void)state;
	take_over("plain", AFAR_TIER_DRAM);
}

static void test_on_flash(void **state)
{
	(void)state;
	take_over("plain", AFAR_TIER_FLASH);
}

static void test_one_that_waits(void **state)
{
	(void)state;
	take_over("waiting", AFAR_TIER_FLASH);
}

static int begin(void **state)
{
	(void)state;
	return cluster_start_flash(NR_SERVERS, 64 * MIB, FLASH_BYTES, &cluster) ||
	       afar_session_open(cluster_uri(cluster), NULL, &session);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_memory),
		cmocka_unit_test(test_on_flash),
		cmocka_unit_test(test_one_that_waits),
	};

	if (argc == 5 && strcmp(argv[0], "client") == 0)
		return hold(argv[2], strcmp(argv[1], "waiting") == 0 ? 60000 : 0, atoi(argv[3]));
	return cmocka_run_group_tests(tests, begin, stop);
}
