/* SPDX-License-Identifier: BSD-3-Clause */
/* Gates (fabric/mapped.h): whoever shuts one and then finds nobody inside may take what is behind it away. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/mapped.h"
#include "unit/group.h"

#define NR_THREADS 2
#define NR_ROUNDS  10000
#define OPEN	   1U
#define SHUT	   2U

static atomic_uint word = OPEN;
static atomic_bool is_gone, is_over, was_inside;
static atomic_uint nr_left;
static struct fabric_inside inside[EPOCH_NUMBERS];

static void left(const struct fabric_gate *gate)
{
	(void)gate;
	nr_left++;
}

static struct fabric_gate gate = {.word = &word, .open = OPEN, .inside = inside, .left = left};

static void *come_and_go(void *argument)
{
	(void)argument;
	while (!is_over) {
		epoch_enter();
		if (fabric_gate_enter(&gate)) {
			if (atomic_load_explicit(&is_gone, memory_order_relaxed))
				was_inside = true;
			fabric_gate_leave(&gate);
		}
		epoch_exit();
	}
	return NULL;
}

static bool is_anybody_inside(void)
{
	for (unsigned i = 0; i < EPOCH_NUMBERS; i++) {
		if (inside[i].nr != 0)
			return true;
	}
	return false;
}

/* False: somebody had been inside, and nobody has said since that he was the last. */
static bool shut_and_take(void)
{
	bool is_right = true;

	nr_left = 0;
	word = SHUT;
	epoch_reach_all();
	if (is_anybody_inside()) {
		while (is_anybody_inside())
			;
		epoch_wait();
		is_right = nr_left > 0;
	}
	is_gone = true;
	epoch_wait();
	is_gone = false;
	word = OPEN;
	return is_right;
}

static void keeps_out(void **state)
{
	pthread_t threads[NR_THREADS];
	unsigned nr_wrong = 0;

	(void)state;
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (unsigned i = 0; i < NR_ROUNDS; i++)
		nr_wrong += !shut_and_take();
	is_over = true;
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	is_over = false;
	assert_false(was_inside);
	assert_int_equal(nr_wrong, 0);
	assert_false(is_anybody_inside());
}

static void keeps_out_by_stores(void **state)
{
	gate.is_reached = epoch_is_reached();
	if (!gate.is_reached)
		skip();
	keeps_out(state);
}

TEST_GROUP(gate)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_out),
		cmocka_unit_test(keeps_out_by_stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
