/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that may pin little memory (RLIMIT_MEMLOCK). Over a transport that registers memory, its unregistered memory
 * goes through what could be registered. Its own buffers that cannot be registered are errors that say what to do.
 * Other transports do not notice.
 */
#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

#define BYTES	  (4 * MIB)
#define PINNED	  (1 * MIB)
#define NR_ROUNDS 8U

static struct afar_session *keeping;
static struct afar_namespace *ns, *kept_ns;
static struct afar_region *region, *kept_region;
static uint8_t *memory, *copy;
static FILE *warnings; /* standard error, meanwhile */
static int standard_error;

/* The superuser may pin without limits, as long as it has this capability: of this thread alone. */
static void drop_capability(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~(uint32_t)CAP_TO_MASK(CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void set_limit(uint64_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static int setup(void **state)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .registration_bytes = 16 * MIB};

	setenv("AFAR_LOG", "warn", 1);
	if (start(state) || afar_session_open(cluster_uri(cluster), &options, &keeping) ||
	    afar_namespace_create(session, "few", NULL, &ns) ||
	    afar_namespace_reserve(ns, 2 * BYTES) ||
	    afar_region_create(ns, "r", BYTES, 0, &region) ||
	    afar_namespace_open(keeping, "few", &kept_ns) ||
	    afar_region_open(kept_ns, "r", &kept_region))
		return -1;
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	copy = malloc(BYTES);
	/* The daemons go on logging where they did. */
	standard_error = dup(STDERR_FILENO);
	warnings = tmpfile();
	if (memory == MAP_FAILED || !copy || !warnings || dup2(fileno(warnings), STDERR_FILENO) < 0)
		return -1;
	drop_capability();
	set_limit(PINNED);
	return 0;
}

/* Prints all that was said meanwhile, because it explains failed tests. */
static void show_all(void)
{
	char line[512];

	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	rewind(warnings);
	while (fgets(line, sizeof(line), warnings))
		fputs(line, stderr);
	fclose(warnings);
}

static int teardown(void **state)
{
	show_all();
	free(copy);
	munmap(memory, BYTES);
	if (afar_region_close(kept_region) || afar_namespace_close(kept_ns) ||
	    afar_session_close(keeping) || afar_region_destroy(region) ||
	    afar_region_close(region) || afar_namespace_close(ns))
		return -1;
	return stop(state);
}

/* Checks how many came since the last look; on other transports there is
 * nothing to be warned of. */
static void expect_warnings(unsigned expected)
{
	static long seen;
	char line[512];
	unsigned count = 0;

	fseek(warnings, seen, SEEK_SET);
	while (fgets(line, sizeof(line), warnings)) {
		assert_non_null(strstr(line, "RLIMIT_MEMLOCK"));
		assert_non_null(strstr(line, "LimitMEMLOCK="));
		count++;
	}
	seen = ftell(warnings);
	fseek(warnings, 0, SEEK_END);
	assert_int_equal(count, is_on_verbs() ? expected : 0);
}

static void check(struct afar_region *of, uint64_t length, uint32_t seed)
{
	fill(memory, length, seed);
	assert_int_equal(afar_region_pwrite(of, memory, length, BYTES - length), length);
	memset(copy, 0, length);
	assert_int_equal(afar_region_pread(of, copy, length, BYTES - length), length);
	assert_memory_equal(copy, memory, length);
}

static void test_unregistered_memory(void **state)
{
	(void)state;
	check(region, 64 * KIB, 1);
	check(region, 256 * KIB, 2);
	expect_warnings(0);
	for (unsigned round = 0; round < NR_ROUNDS; round++)
		check(region, BYTES - round * 4099, round);
	expect_warnings(1);
	check(region, 100, 3);
}

/* More is to be kept than can be pinned: what was kept longest makes way. */
static void test_kept_registrations(void **state)
{
	(void)state;
	fill(copy, BYTES, 77);
	for (unsigned round = 0; round < NR_ROUNDS; round++)
		for (uint64_t offset = 0; offset < BYTES; offset += 256 * KIB) {
			memcpy(memory + offset, copy + offset, 256 * KIB);
			assert_int_equal(
				afar_region_pwrite(kept_region, memory + offset, 256 * KIB, offset),
				256 * KIB);
		}
	expect_warnings(0);
	memset(memory, 0, BYTES);
	assert_int_equal(afar_region_pread(kept_region, memory, BYTES, 0), BYTES);
	assert_memory_equal(copy, memory, BYTES);
	expect_warnings(1);
}

static void test_buffers(void **state)
{
	const struct afar_memory wanted = {.size = sizeof(wanted), .addr = memory, .length = BYTES};
	struct afar_buffer *buffer = NULL;

	(void)state;
	if (!is_on_verbs()) {
		assert_int_equal(afar_buffer_register(session, &wanted, AFAR_ACCESS_READ, &buffer),
				 0);
		assert_int_equal(afar_buffer_unregister(buffer), 0);
		return;
	}
	expect_error(afar_buffer_register(session, &wanted, AFAR_ACCESS_READ, &buffer), -ENOMEM);
	assert_non_null(strstr(afar_last_error(), "1024 KiB (RLIMIT_MEMLOCK)"));
	assert_non_null(strstr(afar_last_error(), "ulimit -l"));
	assert_non_null(strstr(afar_last_error(), "LimitMEMLOCK="));
	expect_error(afar_buffer_alloc(session, BYTES, &buffer), -ENOMEM);
	assert_non_null(strstr(afar_last_error(), "RLIMIT_MEMLOCK"));
	expect_warnings(0);
	/* A buffer that fits is not kept out by one that did not. */
	assert_int_equal(afar_buffer_alloc(session, 256 * KIB, &buffer), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
}

/* Queues register nothing, and so nothing can be refused them. */
static void test_queue(void **state)
{
	const struct afar_iov plain = {.addr = memory, .length = BYTES};
	struct afar_completion done;
	struct afar_queue *queue;
	struct afar_op op = {
		.opcode = AFAR_OP_WRITE,
		.nr_iov = 1,
		.iov = &plain,
		.target = afar_region_target(region),
	};

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	if (is_on_verbs()) {
		expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
	} else {
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.result, BYTES);
	}
	assert_int_equal(afar_queue_close(queue), 0);
}

/* When more may be pinned, more is, at once and without a word. */
static void test_limit_raised(void **state)
{
	struct rlimit limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	set_limit(limit.rlim_max);
	check(region, BYTES, 7);
	check(kept_region, BYTES, 8);
	expect_warnings(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unregistered_memory),
		cmocka_unit_test(test_kept_registrations),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_limit_raised),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
