/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Litmus tests of the memory model (docs/memory-model.md): small programs of two processes, run many times,
 * with outcomes that are forbidden. Each is also run without the order that forbids them, to see that they do
 * come about then: that is reported and not asserted.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/barrier.h>

#include "../transport.h"
#include "cluster.h"
#include "party.h"
#include "processes.h"

#define ROUNDS	     600
#define ROUNDS_VERBS 60 /* of an emulated network, which is slow, and slower with much data */
#define ROUNDS_LONG  100000
#define MUCH_DATA    65536U
#define MIB	     ((uint64_t)1 << 20)

static struct cluster *cluster;
static struct afar_session *session;
static struct afar_namespace *ns;

/* How the writer keeps its flag behind its data. */
enum order {
	BY_NOTHING,
	BY_AFTER,
	BY_FLUSH,	/* and a flag after that */
	BY_FLUSH_EARLY, /* the same, where writes complete early: flushes read behind them */
	BY_AFTER_EARLY, /* that does not suffice */
	BY_TWO_QUEUES,	/* data and flush through one, then the flag through another */
};

/* What a child is told, on its command line. */
struct role {
	char name; /* 'w'riter, 'r'eader, 'x' or 'y', 'b'egin or 'c'ome to a barrier */
	unsigned order;
	unsigned nr_rounds;
	unsigned data_bytes;
	unsigned is_pair; /* the reader asks for flag and data in one go */
};

/* ---- Message passing: the writer */

static void publish(struct party *party, const struct role *role)
{
	struct afar_op data = party_op(party, AFAR_OP_WRITE, 0, PARTY_DATA, role->data_bytes);
	struct afar_op flag = party_op(party, AFAR_OP_WRITE, 0, PARTY_FLAG_BYTE, 1);
	struct afar_op flush = party_flush(party, 0);

	if (role->order == BY_TWO_QUEUES) {
		party_run(party, 0, (struct afar_op[]){data, flush}, 2);
		party_run(party, 1, &flag, 1);
		return;
	}
	if (role->order == BY_NOTHING) {
		party_run(party, 0, (struct afar_op[]){data, flag}, 2);
		return;
	}
	flag.flags = AFAR_OP_AFTER;
	if (role->order == BY_AFTER || role->order == BY_AFTER_EARLY)
		party_run(party, 0, (struct afar_op[]){data, flag}, 2);
	else
		party_run(party, 0, (struct afar_op[]){data, flush, flag}, 3);
}

static void write_rounds(struct party *party, const struct role *role)
{
	struct afar_op answer = party_op(party, AFAR_OP_READ, 0, PARTY_ANSWER_BYTE, 1);

	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		for (size_t i = 0; i < role->data_bytes / sizeof(uint64_t); i++)
			party->data[i] = round;
		*party->flag = (uint8_t)round;
		publish(party, role);
		do
			party_run(party, 0, &answer, 1);
		while (*party->answer != (uint8_t)round);
	}
}

/* ---- Message passing: the reader */

struct findings {
	uint64_t nr_stale; /* rounds in which it saw the flag and then old data     */
	uint64_t nr_back;  /* reads of the flag that saw an older one than before */
};

/* Returns when the flag is that of the round, with the data read behind it. */
static void await_flag(struct party *party, const struct role *role, uint64_t round,
		       struct findings *findings)
{
	struct afar_op flag = party_op(party, AFAR_OP_READ, 0, PARTY_FLAG_BYTE, 1);
	struct afar_op data = party_op(party, AFAR_OP_READ, 0, PARTY_DATA, role->data_bytes);

	data.flags = AFAR_OP_AFTER;
	do {
		if (role->is_pair)
			party_run(party, 0, (struct afar_op[]){flag, data}, 2);
		else
			party_run(party, 0, &flag, 1);
		if (*party->flag != (uint8_t)round && *party->flag != (uint8_t)(round - 1))
			findings->nr_back++;
	} while (*party->flag != (uint8_t)round);
	if (!role->is_pair)
		party_run(party, 0, &data, 1);
}

static void read_rounds(struct party *party, const struct role *role, int say)
{
	struct afar_op answer = party_op(party, AFAR_OP_WRITE, 0, PARTY_ANSWER_BYTE, 1);
	struct findings findings = {0};

	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		bool is_stale = false;

		await_flag(party, role, round, &findings);
		for (size_t i = 0; i < role->data_bytes / sizeof(uint64_t); i++)
			is_stale |= party->data[i] != round;
		findings.nr_stale += is_stale;
		*party->answer = (uint8_t)round;
		party_run(party, 0, &answer, 1);
	}
	if (write(say, &findings, sizeof(findings)) != sizeof(findings))
		party_fail(party, "tell of it");
}

/* ---- Store buffering: each writes its own byte, then reads the other's */

static void store_rounds(struct party *party, const struct role *role, int say, int go)
{
	bool is_x = role->name == 'x';
	enum party_piece own = is_x ? PARTY_FLAG_BYTE : PARTY_ANSWER_BYTE;
	enum party_piece other = is_x ? PARTY_ANSWER_BYTE : PARTY_FLAG_BYTE;
	uint8_t *own_byte = is_x ? party->flag : party->answer;
	uint8_t *other_byte = is_x ? party->answer : party->flag;
	struct afar_op ops[3] = {
		party_op(party, AFAR_OP_WRITE, 0, own, 1),
		party_flush(party, 0),
		party_op(party, AFAR_OP_READ, AFAR_OP_AFTER, other, 1),
	};
	uint8_t round;

	if (role->order == BY_NOTHING)
		ops[1] = party_op(party, AFAR_OP_READ, 0, other, 1);
	while (read(go, &round, 1) == 1) {
		*own_byte = round;
		party_run(party, 0, ops, role->order == BY_NOTHING ? 2 : 3);
		if (write(say, other_byte, 1) != 1)
			party_fail(party, "tell of it");
	}
}

/* ---- A barrier: each writes its own byte, and reads the other's behind the barrier */

static void meet_rounds(struct party *party, const struct role *role, int say)
{
	const struct afar_barrier_options options = {
		.size = sizeof(options),
		.offset = PARTY_BARRIER,
		.nr_members = 2,
		.member = role->name == 'c',
	};
	enum party_piece own = options.member ? PARTY_ANSWER_BYTE : PARTY_FLAG_BYTE;
	enum party_piece other = options.member ? PARTY_FLAG_BYTE : PARTY_ANSWER_BYTE;
	uint8_t *own_byte = options.member ? party->answer : party->flag;
	uint8_t *other_byte = options.member ? party->flag : party->answer;
	struct afar_op publish[] = {party_op(party, AFAR_OP_WRITE, 0, own, 1),
				    party_flush(party, 0)};
	struct afar_op look = party_op(party, AFAR_OP_READ, 0, other, 1);
	struct findings findings = {0};
	struct afar_barrier *barrier;

	if (afar_barrier_open(party->region, &options, -1, &barrier))
		party_fail(party, "open the barrier");
	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		*own_byte = (uint8_t)round;
		party_run(party, 0, publish, 2);
		if (afar_barrier_wait(barrier, -1))
			party_fail(party, "wait at the barrier");
		party_run(party, 0, &look, 1);
		findings.nr_stale += *other_byte != (uint8_t)round;
		/* Nobody writes the next before both have looked. */
		if (afar_barrier_wait(barrier, -1))
			party_fail(party, "wait at the barrier");
	}
	if (write(say, &findings, sizeof(findings)) != sizeof(findings))
		party_fail(party, "tell of it");
	afar_barrier_close(barrier);
}

/* ---- The children */

static int run_child(char **argv)
{
	static struct party party;
	struct role role;
	int say = atoi(argv[3]), go = atoi(argv[4]);
	char ready = 0;

	if (sscanf(argv[1], "%c %u %u %u %u", &role.name, &role.order, &role.nr_rounds,
		   &role.data_bytes, &role.is_pair) != 5)
		return 1;
	party_open(&party, argv[1], argv[2],
		   role.order == BY_FLUSH_EARLY || role.order == BY_AFTER_EARLY);
	if (write(say, &ready, 1) != 1)
		return 1;
	if (role.name == 'w')
		write_rounds(&party, &role);
	else if (role.name == 'r')
		read_rounds(&party, &role, say);
	else if (role.name == 'b' || role.name == 'c')
		meet_rounds(&party, &role, say);
	else
		store_rounds(&party, &role, say, go);
	party_close(&party);
	return 0;
}

static void start_child(struct client_process *child, struct role role)
{
	char words[64], ready;

	snprintf(words, sizeof(words), "%c %u %u %u %u", role.name, role.order, role.nr_rounds,
		 role.data_bytes, role.is_pair);
	client_start(child, words, cluster_uri(cluster));
	client_hear(child, &ready, 1);
}

/* ---- The tests */

static unsigned nr_rounds(unsigned data_bytes)
{
	unsigned nr = is_on_tcp() ? ROUNDS : ROUNDS_VERBS;

	if (getenv("AFAR_LONG"))
		nr = ROUNDS_LONG;
	return !is_on_tcp() && data_bytes > MUCH_DATA ? nr / 10 : nr;
}

/* A new region of zeros: its namespace's memory is fresh. */
static int make_region(void **state)
{
	struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = PARTY_STRIPE};
	struct afar_region *region;

	(void)state;
	if (afar_namespace_create(session, PARTY_NAME, &policy, &ns) ||
	    afar_namespace_reserve(ns, 8 * MIB) ||
	    afar_region_create(ns, PARTY_NAME, PARTY_REGION_BYTES, 0, &region))
		return -1;
	return afar_region_close(region);
}

static int drop_region(void **state)
{
	(void)state;
	if (afar_namespace_close(ns))
		return -1;
	return afar_namespace_delete(session, PARTY_NAME, AFAR_DELETE_REGIONS);
}

static struct findings pass_messages(enum order order, unsigned data_bytes, unsigned is_pair)
{
	struct role role = {'w', order, nr_rounds(data_bytes), data_bytes, is_pair};
	struct client_process writer, reader;
	struct findings findings;

	assert_int_equal(make_region(NULL), 0);
	start_child(&writer, role);
	role.name = 'r';
	start_child(&reader, role);
	client_hear(&reader, &findings, sizeof(findings));
	assert_int_equal(client_reap(&reader), 0);
	assert_int_equal(client_reap(&writer), 0);
	assert_int_equal(drop_region(NULL), 0);
	assert_int_equal(findings.nr_back, 0);
	return findings;
}

static const unsigned sizes[] = {8, 4096, 448 << 10};
#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void expect_messages(enum order order)
{
	for (unsigned i = 0; i < NR_SIZES; i++)
		assert_int_equal(pass_messages(order, sizes[i], i == 1).nr_stale, 0);
}

static void test_after(void **state)
{
	(void)state;
	expect_messages(BY_AFTER);
}

static void test_flush(void **state)
{
	(void)state;
	expect_messages(BY_FLUSH);
}

static void test_flush_of_early_writes(void **state)
{
	(void)state;
	expect_messages(BY_FLUSH_EARLY);
}

static void test_two_queues(void **state)
{
	(void)state;
	expect_messages(BY_TWO_QUEUES);
}

static void report_messages(enum order order, const char *how)
{
	unsigned data_bytes = sizes[NR_SIZES - 1];

	print_message("message of %u bytes %s: old data in %llu of %u rounds\n", data_bytes, how,
		      (unsigned long long)pass_messages(order, data_bytes, 0).nr_stale,
		      nr_rounds(data_bytes));
}

static void test_no_order(void **state)
{
	(void)state;
	report_messages(BY_NOTHING, "without order");
	report_messages(is_on_tcp() ? BY_AFTER_EARLY : BY_AFTER,
			"without a flush, of writes that complete early");
}

/* How often each saw the other's old byte. */
static unsigned store_and_look(enum order order)
{
	struct role role = {'x', order, nr_rounds(0), 0, 0};
	struct client_process children[2];
	unsigned nr_both_old = 0;

	assert_int_equal(make_region(NULL), 0);
	start_child(&children[0], role);
	role.name = 'y';
	start_child(&children[1], role);
	for (unsigned round = 1; round <= role.nr_rounds; round++) {
		uint8_t byte = (uint8_t)round, seen[2];

		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(write(children[i].go, &byte, 1), 1);
		for (unsigned i = 0; i < 2; i++)
			client_hear(&children[i], &seen[i], 1);
		nr_both_old += seen[0] != byte && seen[1] != byte;
	}
	for (unsigned i = 0; i < 2; i++) {
		close(children[i].go);
		children[i].go = -1;
		assert_int_equal(client_reap(&children[i]), 0);
	}
	assert_int_equal(drop_region(NULL), 0);
	return nr_both_old;
}

static void test_store_buffering(void **state)
{
	(void)state;
	assert_int_equal(store_and_look(BY_FLUSH), 0);
	if (is_on_tcp())
		assert_int_equal(store_and_look(BY_FLUSH_EARLY), 0);
	print_message("store buffering without order: both saw the old byte in %u of %u rounds\n",
		      store_and_look(BY_NOTHING), nr_rounds(0));
}

static void test_barrier(void **state)
{
	struct role role = {'b', BY_FLUSH, nr_rounds(0), 0, 0};
	struct client_process children[2];

	(void)state;
	assert_int_equal(make_region(NULL), 0);
	start_child(&children[0], role);
	role.name = 'c';
	start_child(&children[1], role);
	for (unsigned i = 0; i < 2; i++) {
		struct findings findings;

		client_hear(&children[i], &findings, sizeof(findings));
		assert_int_equal(findings.nr_stale, 0);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(client_reap(&children[i]), 0);
	assert_int_equal(drop_region(NULL), 0);
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
		return run_child(argv);
	/* On verbs writes complete early by themselves. */
	const struct CMUnitTest on_tcp[] = {
		cmocka_unit_test(test_after),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_flush_of_early_writes),
		cmocka_unit_test(test_two_queues),
		cmocka_unit_test(test_no_order),
		cmocka_unit_test(test_store_buffering),
		cmocka_unit_test(test_barrier),
	};
	const struct CMUnitTest on_verbs[] = {
		cmocka_unit_test(test_flush),	 cmocka_unit_test(test_two_queues),
		cmocka_unit_test(test_no_order), cmocka_unit_test(test_store_buffering),
		cmocka_unit_test(test_barrier),
	};

	return is_on_tcp() ? cmocka_run_group_tests(on_tcp, start, stop)
			   : cmocka_run_group_tests(on_verbs, start, stop);
}
