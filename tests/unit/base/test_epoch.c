/* SPDX-License-Identifier: BSD-3-Clause */
/* Holds: who is waited for, and who is not. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/epoch.h"
#include "lib/base/child.h"
#include "unit/group.h"

#define NR_THREADS 4
#define NR_ROUNDS  20000

struct holder {
	sem_t holds, may_end;
	pthread_t thread;
	atomic_bool has_ended;
	unsigned number;
};

static void *hold_once(void *argument)
{
	struct holder *holder = argument;

	epoch_enter();
	holder->number = epoch_number();
	sem_post(&holder->holds);
	sem_wait(&holder->may_end);
	holder->has_ended = true;
	epoch_exit();
	return NULL;
}

static void start(struct holder *holder)
{
	sem_init(&holder->holds, 0, 0);
	sem_init(&holder->may_end, 0, 0);
	holder->has_ended = false;
	assert_int_equal(pthread_create(&holder->thread, NULL, hold_once, holder), 0);
	sem_wait(&holder->holds);
}

static void finish(struct holder *holder)
{
	sem_post(&holder->may_end);
	pthread_join(holder->thread, NULL);
	sem_destroy(&holder->holds);
	sem_destroy(&holder->may_end);
}

static void *let_end(void *argument)
{
	struct holder *holder = argument;

	sem_post(&holder->may_end);
	return NULL;
}

static void waits_for_who_holds(void **state)
{
	struct holder holder;
	pthread_t other;

	(void)state;
	epoch_wait();
	start(&holder);
	assert_int_equal(pthread_create(&other, NULL, let_end, &holder), 0);
	epoch_wait();
	assert_true(holder.has_ended);
	pthread_join(other, NULL);
	finish(&holder);
	/* The thread that held is gone. */
	epoch_wait();
}

/* A child that is forked while another thread holds has no such thread. */
static void waits_for_nobody_in_a_child(void **state)
{
	struct holder holder;
	int status;
	pid_t pid;

	(void)state;
	epoch_enter(); /* so that the thread that forks is known */
	epoch_exit();
	start(&holder);
	pid = fork_child();
	assert_true(pid >= 0);
	if (pid == 0) {
		epoch_wait();
		epoch_enter();
		epoch_exit();
		epoch_wait();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	finish(&holder);
}

/* ---- Numbers */

/* Those that are there at once have each its own, but for those that are too many; whose time is over makes room. */
static void numbers_are_ones_own(void **state)
{
	struct holder holders[EPOCH_NUMBERS + NR_THREADS];
	bool is_had[EPOCH_NUMBERS] = {false};
	const unsigned nr = EPOCH_NUMBERS + NR_THREADS;
	unsigned nr_shared = 0;

	(void)state;
	epoch_enter();
	is_had[epoch_number()] = true;
	epoch_exit();
	for (unsigned i = 0; i < nr; i++) {
		start(&holders[i]);
		assert_true(holders[i].number < EPOCH_NUMBERS);
		nr_shared += holders[i].number == EPOCH_SHARED;
		assert_false(holders[i].number != EPOCH_SHARED && is_had[holders[i].number]);
		is_had[holders[i].number] = true;
	}
	assert_int_equal(nr_shared, nr + 1 - EPOCH_SHARED);
	for (unsigned i = 0; i < nr; i++)
		finish(&holders[i]);
	start(&holders[0]);
	assert_int_not_equal(holders[0].number, EPOCH_SHARED);
	finish(&holders[0]);
}

/* ---- What is found within an epoch section is not taken away */

static uint64_t *_Atomic found;
static atomic_bool is_over;

static void *look(void *argument)
{
	const uint64_t *here;

	while (!is_over) {
		epoch_enter();
		here = atomic_load_explicit(&found, memory_order_acquire);
		if (here && *here != 1)
			*(bool *)argument = false;
		epoch_exit();
	}
	return NULL;
}

static void keeps_what_is_found(void **state)
{
	pthread_t threads[NR_THREADS];
	bool are_well[NR_THREADS];

	(void)state;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		are_well[i] = true;
		assert_int_equal(pthread_create(&threads[i], NULL, look, &are_well[i]), 0);
	}
	for (unsigned i = 0; i < NR_ROUNDS; i++) {
		uint64_t *mine = malloc(sizeof(*mine));

		assert_non_null(mine);
		*mine = 1;
		mine = atomic_exchange(&found, mine);
		epoch_wait();
		if (mine)
			*mine = 0;
		free(mine);
	}
	is_over = true;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(are_well[i]);
	}
	free(found);
}

TEST_GROUP(epoch)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_for_who_holds),
		cmocka_unit_test(waits_for_nobody_in_a_child),
		cmocka_unit_test(numbers_are_ones_own),
		cmocka_unit_test(keeps_what_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
