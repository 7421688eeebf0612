/* SPDX-License-Identifier: BSD-3-Clause */
/* A signal that comes before what blocks ends it all the same, whichever thread it comes to. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/cli/interrupts.h"
#include "unit/group.h"

static void *interrupt_itself(void *argument)
{
	(void)argument;
	raise(SIGINT);
	return NULL;
}

static void test_reads_end_that_begin_later(void **state)
{
	pthread_t thread;
	int fds[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	signal(SIGINT, SIG_DFL); /* in the background it may be ignored */
	signal(SIGHUP, SIG_IGN);
	catch_interrupts();
	raise(SIGHUP);
	assert_false(is_interrupted());
	assert_int_equal(pthread_create(&thread, NULL, interrupt_itself, NULL), 0);
	pthread_join(thread, NULL);
	assert_true(is_interrupted());
	for (int i = 0; i < 3; i++) {
		assert_int_equal(read(fds[0], &byte, 1), -1);
		assert_int_equal(errno, EINTR);
	}
	close(fds[0]);
	close(fds[1]);
}

TEST_GROUP(interrupts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_end_that_begin_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
