/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that coordinate by bytes in a region: bootstrap, phases, work and its reports. Members come late, leave
 * or die, whatever was in the memory before. On one server, and striped over two with the barrier across them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "puppet.h"

#define NR_BOOTSTRAPS 16
#define NR_CHURNS     20
#define NR_EQUALS     8
#define PHASES_QUICK  200
#define PHASES	      1000
#define NR_REOPENS    40
#define LONG_MS	      60000
#define SHORT_MS      300 /* for what does not come */
#define REGION_BYTES  (256 * KIB)
#define STRIPE	      (4 * KIB)

static struct client_process puppets[NR_BOOTSTRAPS];

/* Across the end of the first stripe, that is, across two servers if there are two. */
static uint64_t barrier_offset(unsigned nr_members)
{
	return STRIPE - 192 * (nr_members / 2);
}

static struct puppet_command to_open(unsigned nr_members, unsigned member, uint64_t work_bytes,
				     int timeout_ms)
{
	return (struct puppet_command){
		.order = PUPPET_OPEN,
		.nr_members = nr_members,
		.member = member,
		.offset = barrier_offset(nr_members),
		.work_bytes = work_bytes,
		.timeout_ms = timeout_ms,
	};
}

static struct puppet_reply order(unsigned i, enum puppet_order order, int64_t value, int timeout_ms)
{
	return puppet_do(
		&puppets[i],
		&(struct puppet_command){.order = order, .value = value, .timeout_ms = timeout_ms});
}

static void tell(unsigned i, enum puppet_order order, int timeout_ms)
{
	puppet_tell(&puppets[i],
		    &(struct puppet_command){.order = order, .timeout_ms = timeout_ms});
}

static void hear(unsigned i, int ret)
{
	struct puppet_reply reply = puppet_hear(&puppets[i]);

	if (reply.ret != ret)
		fail_msg("puppet %u: %d instead of %d: %s", i, reply.ret, ret, reply.line);
}

static void hear_value(unsigned i, int64_t value)
{
	struct puppet_reply reply = puppet_hear(&puppets[i]);

	if (reply.ret || reply.value != value)
		fail_msg("puppet %u: %d (%s), %lld instead of %lld", i, reply.ret, reply.line,
			 (long long)reply.value, (long long)value);
}

static void start_puppet(unsigned i, const char *name)
{
	struct puppet_command command = {.order = PUPPET_BOOTSTRAP, .bytes = REGION_BYTES};

	puppet_start(&puppets[i], cluster_uri(cluster), name);
	puppet_tell(&puppets[i], &command);
}

/* A namespace of that name, and puppets that have its first region open. The region holds random bytes,
 * for a barrier to make sense of. */
static void start_puppets(const char *name, unsigned count)
{
	struct afar_namespace *ns = make_namespace(name, STRIPE, 4 * MIB);
	uint8_t *garbage = malloc(REGION_BYTES);
	struct afar_region *region;
	int is_first;

	assert_int_equal(afar_region_bootstrap(ns, REGION_BYTES, &region, &is_first), 0);
	assert_int_equal(is_first, 1);
	fill(garbage, REGION_BYTES, (uint32_t)(uintptr_t)name);
	assert_int_equal(afar_region_pwrite(region, garbage, REGION_BYTES, 0), REGION_BYTES);
	free(garbage);
	for (unsigned i = 0; i < count; i++)
		start_puppet(i, name);
	for (unsigned i = 0; i < count; i++)
		hear_value(i, 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
}

static void open_all(unsigned count, uint64_t work_bytes)
{
	for (unsigned i = count; i-- > 0;) {
		struct puppet_command command = to_open(count, i, work_bytes, LONG_MS);

		puppet_tell(&puppets[i], &command);
	}
	for (unsigned i = 0; i < count; i++)
		hear(i, 0);
}

static void end_puppets(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		puppet_end(&puppets[i]);
}

/* ---- Bootstrap */

/* Exactly one of sixteen makes the region, though there is memory for one only. */
static void test_bootstrap(void **state)
{
	struct afar_namespace *ns = make_namespace("bootstrap", 0, 2 * MIB);
	struct puppet_command command = {.order = PUPPET_BOOTSTRAP};
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	int64_t nr_first = 0;

	(void)state;
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	command.bytes = stat.reserved_bytes;
	for (unsigned i = 0; i < NR_BOOTSTRAPS; i++) {
		puppet_start(&puppets[i], cluster_uri(cluster), "bootstrap");
		order(i, PUPPET_CPU, 0, 0); /* it has its session */
	}
	for (unsigned i = 0; i < NR_BOOTSTRAPS; i++)
		puppet_tell(&puppets[i], &command);
	for (unsigned i = 0; i < NR_BOOTSTRAPS; i++) {
		struct puppet_reply reply = puppet_hear(&puppets[i]);

		if (reply.ret)
			fail_msg("puppet %u: %s", i, reply.line);
		nr_first += reply.value;
	}
	assert_int_equal(nr_first, 1);
	expect_error(afar_region_bootstrap(ns, stat.reserved_bytes + 1, &region, NULL), -ERANGE);
	expect_error(afar_region_bootstrap(ns, 0, &region, NULL), -EINVAL);
	end_puppets(NR_BOOTSTRAPS);
	assert_int_equal(afar_region_delete_at(ns, AFAR_FIRST_ADDRESS), 0);
	expect_error(afar_region_bootstrap(ns, stat.reserved_bytes + 1, &region, NULL),
		     -AFAR_ERESERVE);
	drop_namespace(ns, "bootstrap");
}

/* Each maker frees the region at once, under the others, who then make another. */
static void test_bootstrap_of_what_is_freed(void **state)
{
	struct afar_namespace *ns = make_namespace("churn", 0, 4 * MIB);
	struct puppet_command command = {
		.order = PUPPET_CHURN, .bytes = 4 * KIB, .count = NR_CHURNS};
	int64_t nr_first = 0;

	(void)state;
	for (unsigned i = 0; i < NR_EQUALS; i++) {
		puppet_start(&puppets[i], cluster_uri(cluster), "churn");
		order(i, PUPPET_CPU, 0, 0);
	}
	for (unsigned i = 0; i < NR_EQUALS; i++)
		puppet_tell(&puppets[i], &command);
	for (unsigned i = 0; i < NR_EQUALS; i++) {
		struct puppet_reply reply = puppet_hear(&puppets[i]);

		if (reply.ret)
			fail_msg("puppet %u: %s", i, reply.line);
		nr_first += reply.value;
	}
	assert_true(nr_first >= 1 && nr_first <= NR_EQUALS * NR_CHURNS);
	end_puppets(NR_EQUALS);
	drop_namespace(ns, "churn"); /* all that were made are freed */
}

/* ---- Equals */

static void test_phases(void **state)
{
	struct puppet_command command = to_open(NR_EQUALS, 0, 0, LONG_MS);

	(void)state;
	start_puppets("phases", NR_EQUALS);
	open_all(NR_EQUALS, 0);
	command.order = PUPPET_PHASES;
	command.count = (uint32_t)test_effort(PHASES_QUICK, PHASES, PHASES);
	for (unsigned i = 0; i < NR_EQUALS; i++)
		puppet_tell(&puppets[i], &command);
	for (unsigned i = 0; i < NR_EQUALS; i++)
		hear_value(i, 0); /* nobody was ahead or behind */
	end_puppets(NR_EQUALS);
}

/* Barriers at one place, each opened while some may still be in the one before. */
static void test_opened_again_and_again(void **state)
{
	static const enum puppet_order orders[] = {PUPPET_REOPENS, PUPPET_SEND_OFF};

	(void)state;
	start_puppets("again", 4);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 4; i++) {
			struct puppet_command command = to_open(4, i, PUPPET_WORK_BYTES, LONG_MS);

			command.order = orders[round];
			command.count = NR_REOPENS;
			puppet_tell(&puppets[i], &command);
		}
		for (unsigned i = 0; i < 4; i++)
			hear_value(i, 0);
	}
	end_puppets(4);
}

/* ---- Work and reports */

static void test_work(void **state)
{
	struct puppet_reply reply;

	(void)state;
	start_puppets("work", 4);
	open_all(4, PUPPET_WORK_BYTES);
	for (int64_t phase = 1; phase <= 70; phase++) {
		for (unsigned i = 1; i < 4; i++)
			tell(i, PUPPET_NEXT, LONG_MS);
		assert_int_equal(order(0, PUPPET_START, 100 * phase, 0).ret, 0);
		for (unsigned i = 1; i < 4; i++)
			hear_value(i, 100 * phase + i);
		/* Each phase another one fails, with another code. */
		for (unsigned i = 1; i < 4; i++)
			assert_int_equal(
				order(i, PUPPET_REPORT, i == phase % 4 ? -phase : 0, 0).ret, 0);
		reply = order(0, PUPPET_COLLECT, 0, LONG_MS);
		assert_int_equal(reply.ret, phase % 4 != 0);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(reply.statuses[i], i && i == phase % 4 ? -phase : 0);
	}
	end_puppets(4);
}

/* An equal that has failed holds the others until member 0 has decided. */
static void test_wait_hears_of_errors(void **state)
{
	(void)state;
	start_puppets("failing", 3);
	open_all(3, 0);
	assert_int_equal(order(2, PUPPET_REPORT, -EIO, 0).ret, 0);
	tell(1, PUPPET_WAIT, LONG_MS);
	tell(2, PUPPET_WAIT, SHORT_MS);
	assert_int_equal(order(0, PUPPET_WAIT, 0, LONG_MS).ret, 1);
	hear(2, -ETIMEDOUT);
	assert_int_equal(order(0, PUPPET_START, 0, 0).ret, 0);
	hear(1, 0);
	assert_int_equal(order(2, PUPPET_WAIT, 0, LONG_MS).ret, 0); /* goes on waiting */
	end_puppets(3);
}

/* ---- Coming and going */

static void test_late_members(void **state)
{
	struct puppet_command first = to_open(3, 1, 0, SHORT_MS);
	struct puppet_command coordinator = to_open(3, 0, 0, SHORT_MS);
	struct puppet_command last = to_open(3, 2, 0, SHORT_MS);
	struct puppet_reply reply;

	(void)state;
	start_puppets("late", 3);
	/* Member 1 is there long before any other. It hears nothing, and nothing false. */
	assert_int_equal(puppet_do(&puppets[1], &first).ret, -ETIMEDOUT);
	first.timeout_ms = LONG_MS;
	puppet_tell(&puppets[1], &first);
	/* Member 0 misses member 2, gives up, and comes again; as often as it takes to find member 1. */
	do {
		reply = puppet_do(&puppets[0], &coordinator);
		assert_int_equal(reply.ret, -ETIMEDOUT);
	} while (strstr(reply.line, "not come: 1, 2"));
	assert_non_null(strstr(reply.line, "not come: 2"));
	coordinator.timeout_ms = LONG_MS;
	puppet_tell(&puppets[0], &coordinator);
	last.timeout_ms = LONG_MS;
	puppet_tell(&puppets[2], &last);
	for (unsigned i = 0; i < 3; i++)
		hear(i, 0);
	for (unsigned i = 0; i < 3; i++)
		tell(i, PUPPET_WAIT, LONG_MS);
	for (unsigned i = 0; i < 3; i++)
		hear(i, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(order(i, PUPPET_CLOSE, 0, 0).ret, 0);

	/* A member that had come and has given up is not counted on. */
	puppet_tell(&puppets[0], &coordinator);
	first.timeout_ms = last.timeout_ms = SHORT_MS;
	do {
		reply = puppet_do(&puppets[1], &first);
		assert_int_equal(reply.ret, -ETIMEDOUT);
	} while (strstr(reply.line, "member 0 has not come"));
	assert_int_equal(puppet_do(&puppets[2], &last).ret, -ETIMEDOUT);
	first.timeout_ms = last.timeout_ms = LONG_MS;
	puppet_tell(&puppets[1], &first);
	puppet_tell(&puppets[2], &last);
	for (unsigned i = 0; i < 3; i++)
		hear(i, 0);
	end_puppets(3);
}

/* Waits until the bytes of a slot's hello are not what they were. */
static void await_hello(struct afar_region *region, uint64_t offset, const uint8_t before[16])
{
	uint8_t now[16];

	do {
		assert_int_equal(afar_region_pread(region, now, sizeof(now), offset), sizeof(now));
	} while (!memcmp(now, before, sizeof(now)));
}

static void test_doubles(void **state)
{
	struct puppet_command command = to_open(2, 1, 0, LONG_MS);
	const uint64_t hello = command.offset + 192 + 64;
	struct afar_namespace *ns;
	struct afar_region *region;
	uint8_t before[16];

	(void)state;
	start_puppets("doubles", 3);
	assert_int_equal(afar_namespace_open(session, "doubles", &ns), 0);
	assert_int_equal(afar_region_open_at(ns, AFAR_FIRST_ADDRESS, &region), 0);
	assert_int_equal(afar_region_pread(region, before, sizeof(before), hello), sizeof(before));
	puppet_tell(&puppets[1], &command);
	await_hello(region, hello, before);
	puppet_tell(&puppets[2], &command);
	hear(1, -EEXIST);
	command.member = 0;
	puppet_tell(&puppets[0], &command);
	hear(0, 0);
	hear(2, 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	end_puppets(3);
}

/* Members that expect another count, or other work, are told so; the right one is still let in. */
static void test_other_options(void **state)
{
	struct puppet_command command = to_open(2, 0, 8, LONG_MS);

	(void)state;
	start_puppets("options", 2);
	puppet_tell(&puppets[0], &command);
	command.member = 1;
	command.nr_members = 3;
	assert_int_equal(puppet_do(&puppets[1], &command).ret, -EINVAL);
	command.nr_members = 2;
	command.work_bytes = 16;
	assert_int_equal(puppet_do(&puppets[1], &command).ret, -EINVAL);
	command.work_bytes = 8;
	assert_int_equal(puppet_do(&puppets[1], &command).ret, 0);
	hear(0, 0);
	end_puppets(2);
}

static void test_leaving(void **state)
{
	struct puppet_reply reply;

	(void)state;
	start_puppets("leaving", 3);
	open_all(3, 0);
	assert_int_equal(order(0, PUPPET_START, 0, 0).ret, 0);
	for (unsigned i = 1; i < 3; i++)
		assert_int_equal(order(i, PUPPET_NEXT, 0, LONG_MS).ret, 0);
	/* One leaves with its report, the other without. */
	assert_int_equal(order(1, PUPPET_REPORT, -EDOM, 0).ret, 0);
	assert_int_equal(order(1, PUPPET_CLOSE, 0, 0).ret, 0);
	assert_int_equal(order(2, PUPPET_CLOSE, 0, 0).ret, 0);
	reply = order(0, PUPPET_COLLECT, 0, -1);
	assert_int_equal(reply.ret, 2);
	assert_int_equal(reply.statuses[1], -EDOM);
	assert_int_equal(reply.statuses[2], -ESHUTDOWN);
	/* Both stay away, for longer than the phases in a byte last. */
	for (unsigned i = 0; i < 70; i++) {
		assert_int_equal(order(0, PUPPET_START, 0, 0).ret, 0);
		reply = order(0, PUPPET_COLLECT, 0, -1);
		assert_int_equal(reply.ret, 2);
		assert_int_equal(reply.statuses[1], -ESHUTDOWN);
		assert_int_equal(reply.statuses[2], -ESHUTDOWN);
	}
	assert_int_equal(order(0, PUPPET_CLOSE, 0, 0).ret, 0);

	/* Member 0 leaves: what it has begun is done, and there is no more. */
	open_all(3, 0);
	tell(1, PUPPET_NEXT, -1);
	assert_int_equal(order(0, PUPPET_START, 0, 0).ret, 0);
	assert_int_equal(order(0, PUPPET_CLOSE, 0, 0).ret, 0);
	hear(1, 0);
	assert_int_equal(order(2, PUPPET_NEXT, 0, -1).ret, 0);
	for (unsigned i = 1; i < 3; i++)
		assert_int_equal(order(i, PUPPET_WAIT, 0, -1).ret, -ESHUTDOWN);
	end_puppets(3);
}

/* ---- Deaths */

static void test_member_dies(void **state)
{
	struct puppet_reply reply;

	(void)state;
	start_puppets("death", 4);
	open_all(4, 0);
	assert_int_equal(order(0, PUPPET_START, 0, 0).ret, 0);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(order(i, PUPPET_NEXT, 0, LONG_MS).ret, 0);
	puppet_kill(&puppets[2]);
	assert_int_equal(order(1, PUPPET_REPORT, 0, 0).ret, 0);
	assert_int_equal(order(3, PUPPET_REPORT, -EIO, 0).ret, 0);
	reply = order(0, PUPPET_COLLECT, 0, SHORT_MS);
	assert_int_equal(reply.ret, -ETIMEDOUT);
	assert_int_equal(reply.statuses[1], 0);
	assert_int_equal(reply.statuses[2], -ETIMEDOUT);
	assert_int_equal(reply.statuses[3], -EIO);
	assert_non_null(strstr(reply.line, "not reported it: 2"));
	assert_int_equal(order(0, PUPPET_START, 0, 0).ret, -EBUSY);
	/* The others wait in vain until they are told. */
	tell(1, PUPPET_NEXT, LONG_MS);
	assert_int_equal(order(3, PUPPET_NEXT, 0, SHORT_MS).ret, -ETIMEDOUT);
	assert_int_equal(order(0, PUPPET_CLOSE, 0, 0).ret, 0);
	hear(1, -ESHUTDOWN);
	assert_int_equal(order(3, PUPPET_NEXT, 0, LONG_MS).ret, -ESHUTDOWN);
	assert_int_equal(order(1, PUPPET_CLOSE, 0, 0).ret, 0);
	assert_int_equal(order(3, PUPPET_CLOSE, 0, 0).ret, 0);
	/* Another process in its place. */
	start_puppet(2, "death");
	hear_value(2, 0);
	open_all(4, 0);
	for (unsigned i = 0; i < 4; i++)
		tell(i, PUPPET_WAIT, LONG_MS);
	for (unsigned i = 0; i < 4; i++)
		hear(i, 0);
	end_puppets(4);
}

static void test_coordinator_dies(void **state)
{
	struct puppet_command command = to_open(3, 1, 0, LONG_MS);

	(void)state;
	start_puppets("headless", 3);
	open_all(3, 0);
	tell(1, PUPPET_WAIT, 2 * SHORT_MS);
	tell(2, PUPPET_WAIT, LONG_MS); /* it has much time */
	puppet_kill(&puppets[0]);
	hear(1, -ETIMEDOUT);
	assert_int_equal(order(1, PUPPET_CLOSE, 0, 0).ret, 0);
	/* Another takes its place, and makes do with two: member 2 of the old one hears of that. */
	start_puppet(0, "headless");
	hear_value(0, 0);
	command = to_open(2, 1, 0, LONG_MS);
	command.offset = barrier_offset(3);
	puppet_tell(&puppets[1], &command);
	command.member = 0;
	puppet_tell(&puppets[0], &command);
	hear(0, 0);
	hear(1, 0);
	hear(2, -ESHUTDOWN);
	assert_int_equal(order(2, PUPPET_CLOSE, 0, 0).ret, 0);
	tell(1, PUPPET_WAIT, LONG_MS);
	tell(0, PUPPET_WAIT, LONG_MS);
	hear(1, 0);
	hear(0, 0);
	end_puppets(3);
}

/* A member that was given up and goes on later does not report for the one that has its number
 * now. */
static void test_late_report(void **state)
{
	struct puppet_command command;

	(void)state;
	start_puppets("ghost", 3);
	open_all(2, 0);
	assert_int_equal(order(0, PUPPET_CLOSE, 0, 0).ret, 0);
	command = to_open(2, 1, 0, LONG_MS);
	puppet_tell(&puppets[2], &command);
	command.member = 0;
	puppet_tell(&puppets[0], &command);
	hear(2, 0);
	hear(0, 0);
	assert_int_equal(order(1, PUPPET_REPORT, 0, 0).ret, 0);
	assert_int_equal(order(0, PUPPET_COLLECT, 0, SHORT_MS).ret, -ETIMEDOUT);
	assert_int_equal(order(2, PUPPET_REPORT, 0, 0).ret, 0);
	assert_int_equal(order(0, PUPPET_COLLECT, 0, LONG_MS).ret, 0);
	end_puppets(3);
}

/* ---- Misuse */

static void test_misuse(void **state)
{
	struct afar_barrier_options options = {.size = sizeof(options), .nr_members = 1};
	struct afar_namespace *ns = make_namespace("misuse", 0, 4 * MIB);
	struct afar_barrier *barrier;
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, AFAR_BARRIER_BYTES(1, 0), 0, &region), 0);
	options.nr_members = 0;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -EINVAL);
	options.nr_members = AFAR_BARRIER_MEMBERS_MAX + 1;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -EINVAL);
	options.nr_members = options.member = 1;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -EINVAL);
	options.member = 0;
	options.offset = 8;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -EINVAL);
	options.offset = 64;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -ERANGE);
	options.offset = 0;
	options.work_bytes = UINT64_MAX;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -ERANGE);
	options.work_bytes = 0;
	options.size = 8;
	expect_error(afar_barrier_open(region, &options, 0, &barrier), -EINVAL);
	options.size = sizeof(options);
	expect_error(afar_barrier_open(region, NULL, 0, &barrier), -EINVAL);
	expect_error(afar_barrier_open(NULL, &options, 0, &barrier), -EINVAL);

	/* A barrier for one is no barrier. */
	assert_int_equal(afar_barrier_open(region, &options, 0, &barrier), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(afar_barrier_wait(barrier, 0), 0);
	expect_error(afar_barrier_start(barrier, NULL), -EBUSY);
	expect_error(afar_barrier_next(barrier, NULL, 0), -EINVAL);
	expect_error(afar_barrier_report(barrier, 0), -EINVAL);
	expect_error(afar_region_close(region), -EBUSY);
	assert_int_equal(afar_barrier_close(barrier), 0);
	expect_error(afar_barrier_close(barrier), -EINVAL);
	expect_error(afar_barrier_wait(barrier, 0), -EINVAL);
	expect_error(afar_barrier_wait(NULL, 0), -EINVAL);
	drop_region(region);
	drop_namespace(ns, "misuse");

	start_puppets("abuse", 2);
	open_all(2, 0);
	assert_int_equal(order(1, PUPPET_START, 0, 0).ret, -EINVAL);
	assert_int_equal(order(1, PUPPET_COLLECT, 0, 0).ret, -EINVAL);
	assert_int_equal(order(1, PUPPET_REPORT, 1, 0).ret, -EINVAL);
	assert_int_equal(order(1, PUPPET_REPORT, 0, 0).ret, 0);
	assert_int_equal(order(1, PUPPET_REPORT, 0, 0).ret, -EINVAL);
	assert_int_equal(order(0, PUPPET_START, 0, 0).ret, 0);
	assert_int_equal(order(1, PUPPET_NEXT, 0, LONG_MS).ret, 0);
	assert_int_equal(order(1, PUPPET_NEXT, 0, LONG_MS).ret, -EINVAL);
	end_puppets(2);
}

static int start_one(void **state)
{
	(void)state;
	if (cluster_start(1, 512 * MIB, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bootstrap),
		cmocka_unit_test(test_bootstrap_of_what_is_freed),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_opened_again_and_again),
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_wait_hears_of_errors),
		cmocka_unit_test(test_late_members),
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_other_options),
		cmocka_unit_test(test_leaving),
		cmocka_unit_test(test_member_dies),
		cmocka_unit_test(test_coordinator_dies),
		cmocka_unit_test(test_late_report),
		cmocka_unit_test(test_misuse),
	};

	if (argc > 1 && !strcmp(argv[0], "client"))
		return puppet_main(argv);
	if (argc > 1 && !strcmp(argv[1], "one-server"))
		return cmocka_run_group_tests_name("one server", tests, start_one, stop);
	return cmocka_run_group_tests_name("two servers", tests, start, stop);
}
