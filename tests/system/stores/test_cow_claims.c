/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The claim to write a version of a copy-on-write region. A writer that lives and does nothing loses it to whoever
 * waits for it, and nothing of its version is seen. One that reads and writes one-sided keeps it.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/cow.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

#define UNIT	(64 * KIB)
#define LENGTH	(4 * UNIT)
#define LONG_MS 60000U
#define ROUNDS	10

static uint32_t claim_ms;

static void expect_byte(struct afar_region *region, uint64_t offset, char byte)
{
	char got = 0;

	assert_int_equal(afar_region_pread(region, &got, 1, offset), 1);
	assert_int_equal(got, byte);
}

static void write_byte(struct afar_region *region, uint64_t offset, char byte)
{
	assert_int_equal(afar_region_pwrite(region, &byte, 1, offset), 1);
}

static void test_idle_writer_loses(void **state)
{
	const struct afar_range all = {0, LENGTH}, some = {0, UNIT};
	struct afar_namespace *ns = make_namespace("idle", UNIT, 16 * MIB);
	struct afar_region *region;
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct view other, reader;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", LENGTH, AFAR_ALLOC_COW, &region), 0);
	open_view(&other, "idle", "r");
	open_view(&reader, "idle", "r");
	assert_int_equal(afar_region_begin(region, &all, 1), 0);
	write_byte(region, 5, 'a');
	/* The answers say who has it, and since when. */
	expect_error(afar_region_begin(other.region, &some, 1), -EBUSY);
	assert_non_null(strstr(afar_last_error(), "has begun one "));
	assert_non_null(strstr(afar_last_error(), "s ago, and used it "));
	assert_int_equal(afar_region_stat(other.region, &stat), 0);
	assert_non_null(strstr(stat.writer, "used "));
	/* It does nothing, and somebody waits. */
	assert_int_equal(afar_region_begin_within(other.region, &some, 1, LONG_MS), 0);
	write_byte(other.region, 5, 'b');
	/* It does not know yet, and what it writes goes nowhere else. */
	write_byte(region, 5, 'x');
	expect_error(afar_region_publish(region), -ESTALE);
	assert_non_null(strstr(afar_last_error(), "has taken the claim"));
	expect_byte(other.region, 5, 'b');
	assert_int_equal(afar_region_publish(other.region), 0);
	expect_error(afar_region_publish(region), -ESTALE);
	expect_byte(reader.region, 5, 0);
	assert_int_equal(afar_region_refresh(reader.region), 0);
	assert_int_equal(afar_region_version(reader.region), 2);
	expect_byte(reader.region, 5, 'b');
	/* It goes on from there. */
	assert_int_equal(afar_region_abandon(region), 0);
	expect_byte(region, 5, 'b');
	assert_int_equal(afar_region_begin(region, &some, 1), 0);
	write_byte(region, 5, 'c');
	assert_int_equal(afar_region_publish(region), 0);
	assert_int_equal(afar_region_refresh(reader.region), 0);
	expect_byte(reader.region, 5, 'c');
	close_view(&other);
	close_view(&reader);
	drop_region(region);
	drop_namespace(ns, "idle");
}

struct waiter {
	struct afar_region *region;
	int ms;
	int ret;
	atomic_bool is_done;
};

static void *wait_for_it(void *argument)
{
	struct waiter *waiter = argument;

	waiter->ret = afar_region_begin_within(waiter->region, NULL, 0, waiter->ms);
	waiter->is_done = true;
	return NULL;
}

/* Somebody waits for longer than a claim lasts, while the writer writes. Returns what he gets. */
static int compete(struct afar_region *region, struct afar_region *other)
{
	struct waiter waiter = {.region = other, .ms = (int)(claim_ms + claim_ms / 2)};
	pthread_t thread;

	assert_int_equal(afar_region_begin(region, &(struct afar_range){0, LENGTH}, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
	while (!waiter.is_done)
		write_byte(region, 5, 'w');
	pthread_join(thread, NULL);
	return waiter.ret;
}

static void test_busy_writer_keeps(void **state)
{
	struct afar_namespace *ns = make_namespace("busy", UNIT, 16 * MIB);
	struct afar_region *region;
	struct view other;
	int ret;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", LENGTH, AFAR_ALLOC_COW, &region), 0);
	open_view(&other, "busy", "r");
	/* A machine that has too much to do may keep the writer from writing for so long: then once more. */
	for (int i = 0; i < ROUNDS; i++) {
		ret = compete(region, other.region);
		if (ret == -EBUSY)
			break;
		assert_int_equal(ret, 0);
		expect_error(afar_region_publish(region), -ESTALE);
		assert_int_equal(afar_region_abandon(region), 0);
		assert_int_equal(afar_region_abandon(other.region), 0);
	}
	assert_int_equal(ret, -EBUSY);
	assert_int_equal(afar_region_publish(region), 0);
	/* Then it is free at once. */
	assert_int_equal(afar_region_begin_within(other.region, NULL, 0, LONG_MS), 0);
	expect_byte(other.region, 5, 'w');
	assert_int_equal(afar_region_abandon(other.region), 0);
	close_view(&other);
	drop_region(region);
	drop_namespace(ns, "busy");
}

/* The command waits likewise, and says for whom. */
static void test_put_waits(void **state)
{
	struct afar_namespace *ns = make_namespace("put", UNIT, 16 * MIB);
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", 5, AFAR_ALLOC_COW, &region), 0);
	assert_int_equal(afar_region_begin(region, &(struct afar_range){0, 5}, 1), 0);
	setenv("AFAR_CLUSTER", cluster_uri(cluster), 1);
	assert_int_equal(system("printf 12345 >\"$TMP_FILE\" && "
				"\"$AFAR\" region put --cow \"$TMP_FILE\" put:r 2>&1 >/dev/null | "
				"grep -q 'it waits: .* has begun one'"),
			 0);
	expect_error(afar_region_publish(region), -ESTALE);
	assert_int_equal(afar_region_abandon(region), 0);
	expect_byte(region, 4, '5');
	drop_region(region);
	drop_namespace(ns, "put");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle_writer_loses),
		cmocka_unit_test(test_busy_writer_keeps),
		cmocka_unit_test(test_put_waits),
	};
	char text[16], file[] = "/tmp/afar-claims.XXXXXX";
	int fd = mkstemp(file), ret;

	claim_ms = 1000U * test_slowness();
	snprintf(text, sizeof(text), "%u", claim_ms);
	setenv("CLAIM_MS", text, 1);
	setenv("TMP_FILE", file, 1);
	ret = cmocka_run_group_tests(tests, start, stop);
	close(fd);
	unlink(file);
	return ret;
}
