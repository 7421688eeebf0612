/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A moment between two steps of a server: a function of its that the linker replaces (--wrap) calls moment_pass() first,
 * which waits once a test wants that. So the test can do something there that may happen there.
 */
#ifndef TESTS_MOMENT_H
#define TESTS_MOMENT_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct {
	atomic_bool is_wanted;
	sem_t has_come, may_go;
} moment;

static inline void moment_pass(void)
{
	if (!atomic_exchange(&moment.is_wanted, false))
		return;
	sem_post(&moment.has_come);
	sem_wait(&moment.may_go);
}

static inline void moment_open(void)
{
	sem_init(&moment.has_come, 0, 0);
	sem_init(&moment.may_go, 0, 0);
	moment.is_wanted = true;
}

/* Returns when it has come; it lasts until it is closed. */
static inline void moment_await(void)
{
	sem_wait(&moment.has_come);
}

static inline void moment_close(void)
{
	sem_post(&moment.may_go);
}

#endif
