/* SPDX-License-Identifier: BSD-3-Clause */
/* A moment between two steps of a server; see moment.h. */
#include "lib/server/moment.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct {
	atomic_bool is_wanted;
	sem_t has_come, may_go;
} moment;

void moment_pass(void)
{
	if (!atomic_exchange(&moment.is_wanted, false))
		return;
	sem_post(&moment.has_come);
	sem_wait(&moment.may_go);
}

void moment_open(void)
{
	sem_init(&moment.has_come, 0, 0);
	sem_init(&moment.may_go, 0, 0);
	moment.is_wanted = true;
}

void moment_await(void)
{
	sem_wait(&moment.has_come);
}

void moment_close(void)
{
	sem_post(&moment.may_go);
}
