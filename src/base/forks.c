/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/forks.h"

#include <pthread.h>

static unsigned generation; /* changes only while a child has one thread */
static pthread_once_t heed_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
	generation++;
}

static void heed_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

unsigned forks_generation(void)
{
	pthread_once(&heed_once, heed_forks);
	return generation;
}
