/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Litmus tests of the memory model (docs/memory-model.md): small programs of two processes, run many times,
 * with outcomes that are forbidden. Each is also run without the order that forbids them, to see that they do
 * come about then: that is reported and not asserted.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"
#include "lib/base/transport.h"
#include "party.h"
#include "programs.h"

#define ROUNDS_QUICK 150
#define ROUNDS	     600
#define ROUNDS_LONG  100000
#define MUCH_DATA    (448U << 10)
#define MIB	     ((uint64_t)1 << 20)

static struct cluster *cluster;
static struct afar_session *session;
static struct afar_namespace *ns;

/* ---- Two processes, and a region for them */

/* A new region of zeros: its namespace's memory is fresh. */
static void make_region(void)
{
	struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = PARTY_STRIPE};
	struct afar_region *region;

	assert_int_equal(afar_namespace_create(session, PARTY_NAME, &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 8 * MIB), 0);
	assert_int_equal(afar_region_create(ns, PARTY_NAME, PARTY_REGION_BYTES, 0, &region), 0);
	assert_int_equal(afar_region_close(region), 0);
}

static void drop_region(void)
{
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, PARTY_NAME, AFAR_DELETE_REGIONS), 0);
}

static void start_children(struct client_process *children, const char *names, struct role role)
{
	char words[ROLE_TEXT_MAX], ready;

	for (unsigned i = 0; i < 2; i++) {
		role.name = names[i];
		role_write(&role, words);
		client_start(&children[i], words, cluster_uri(cluster));
	}
	for (unsigned i = 0; i < 2; i++)
		client_hear(&children[i], &ready, 1);
}

/* Whichever ends first: when one of them fails, the other may wait for it for good. */
static struct findings hear_both(struct client_process *children)
{
	struct pollfd says[2] = {{.fd = children[0].says, .events = POLLIN},
				 {.fd = children[1].says, .events = POLLIN}};
	struct findings both = {0}, one;

	for (unsigned nr_heard = 0; nr_heard < 2;) {
		assert_true(poll(says, 2, -1) > 0);
		for (unsigned i = 0; i < 2; i++) {
			if (!says[i].revents)
				continue;
			client_hear(&children[i], &one, sizeof(one));
			both.nr_stale += one.nr_stale;
			both.nr_back += one.nr_back;
			says[i].fd = -1;
			nr_heard++;
		}
	}
	return both;
}

/* Lets the two play it, in a region that is new, and says how that went. Returns in how many rounds what is forbidden was
 * seen. */
static uint64_t play(const char *names, struct role role, const char *what)
{
	const unsigned nr_slots = names[0] == 'b' ? 1 : party_slots(role.data_bytes);
	struct client_process children[2];
	struct findings findings;
	uint64_t begin;

	role.nr_rounds /= nr_slots;
	role.meeting = meeting_new();
	make_region();
	start_children(children, names, role);
	begin = clock_ns();
	findings = hear_both(children);
	print_message("%-40s %7u bytes: %llu of %u rounds, in %.1f s\n", what, role.data_bytes,
		      (unsigned long long)findings.nr_stale, role.nr_rounds * nr_slots,
		      (double)(clock_ns() - begin) / 1e9);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(client_reap(&children[i]), 0);
	close(role.meeting);
	drop_region();
	assert_int_equal(findings.nr_back, 0);
	return findings.nr_stale;
}

/* ---- The tests */

/* Much data takes long on verbs, whose network is emulated. Over local nobody sleeps, so where there are fewer cores than
 * processes a round takes as long as the others run at a time. */
static unsigned fewer(unsigned nr_rounds, unsigned data_bytes)
{
	return is_on_local() || (is_on_verbs() && data_bytes == MUCH_DATA) ? nr_rounds / 10
									   : nr_rounds;
}

static unsigned nr_rounds(unsigned data_bytes)
{
	return fewer((unsigned)test_effort(ROUNDS_QUICK, ROUNDS, ROUNDS_LONG), data_bytes);
}

/* Rounds of a program without order, however often others run. */
static unsigned nr_reported(unsigned data_bytes)
{
	return fewer(ROUNDS, data_bytes);
}

static uint64_t pass_messages(enum order order, unsigned nr_rounds, unsigned data_bytes,
			      bool is_pair, const char *what)
{
	const struct role role = {
		.order = order,
		.nr_rounds = nr_rounds,
		.data_bytes = data_bytes,
		.is_pair = is_pair,
	};

	return play("wr", role, what);
}

static void expect_messages(enum order order, const char *what)
{
	static const unsigned sizes[] = {8, 4096, MUCH_DATA};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(pass_messages(order, nr_rounds(sizes[i]), sizes[i], i == 1, what),
				 0);
}

static void test_after(void **state)
{
	(void)state;
	/* Where a completed write may not be in memory yet, that does not suffice. */
	if (is_on_verbs())
		skip();
	expect_messages(BY_AFTER, "message, AFAR_OP_AFTER");
}

static void test_flush(void **state)
{
	(void)state;
	expect_messages(BY_FLUSH, "message, flush");
}

static void test_flush_of_early_writes(void **state)
{
	(void)state;
	expect_messages(BY_FLUSH_EARLY, "message, flush of early writes");
}

static void test_two_queues(void **state)
{
	(void)state;
	expect_messages(BY_TWO_QUEUES, "message, flush, two queues");
}

static void test_no_order(void **state)
{
	(void)state;
	pass_messages(BY_NOTHING, nr_reported(MUCH_DATA), MUCH_DATA, false, "(message, no order)");
	pass_messages(BY_AFTER_EARLY, nr_reported(MUCH_DATA), MUCH_DATA, false,
		      "(message, early writes without a flush)");
}

static uint64_t buffer_stores(enum order order, unsigned nr_rounds, const char *what)
{
	const struct role role = {.order = order, .nr_rounds = nr_rounds, .data_bytes = 1};

	return play("xy", role, what);
}

static void test_store_buffering(void **state)
{
	(void)state;
	assert_int_equal(buffer_stores(BY_FLUSH, nr_rounds(1), "store buffering, flush"), 0);
	assert_int_equal(buffer_stores(BY_FLUSH_EARLY, nr_rounds(1),
				       "store buffering, flush of early writes"),
			 0);
	buffer_stores(BY_NOTHING, nr_reported(1), "(store buffering, no order)");
}

static void test_barrier(void **state)
{
	const struct role role = {.order = BY_FLUSH, .nr_rounds = nr_rounds(1), .data_bytes = 1};

	(void)state;
	assert_int_equal(play("bc", role, "barrier"), 0);
}

static int start(void **state)
{
	(void)state;
	if (cluster_start(2, 64 * MIB, &cluster))
		return -1;
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

static int stop(void **state)
{
	int ret = afar_session_close(session);

	(void)state;
	cluster_stop(cluster);
	return ret;
}

int main(int argc, char **argv)
{
	if (argc == 5)
		return role_run(argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_flush_of_early_writes),
		cmocka_unit_test(test_two_queues),
		cmocka_unit_test(test_no_order),
		cmocka_unit_test(test_store_buffering),
		cmocka_unit_test(test_barrier),
	};

	cmocka_set_test_filter(getenv("AFAR_LITMUS"));
	return cmocka_run_group_tests(tests, start, stop);
}
