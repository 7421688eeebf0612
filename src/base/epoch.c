/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epoch sections: the threads that may be in one, and waiting for them. A thread is on the list from its first section to its end; in a forked
 * child only the one that has forked is.
 */
#include "base/epoch.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif
#define PAUSES_MAX 1000U /* before others may run */

__thread struct epoch_thread epoch_mine;
atomic_bool epoch_needs_fence;

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static CDS_LIST_HEAD(threads);
static atomic_bool is_reached;
static bool is_taken[EPOCH_SHARED]; /* numbers */

static bool membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void register_process(void)
{
	epoch_needs_fence = !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	is_reached = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

/* ---- Threads come and go */

/* With the lock held, as is give_number(): so what one thread did with a number is seen by the next. */
static unsigned take_number(void)
{
	unsigned number = 0;

	while (number < EPOCH_SHARED && is_taken[number])
		number++;
	if (number < EPOCH_SHARED)
		is_taken[number] = true;
	return number;
}

static void give_number(unsigned number)
{
	if (number < EPOCH_SHARED)
		is_taken[number] = false;
}

static void leave(void *mine)
{
	struct epoch_thread *thread = mine;

	pthread_mutex_lock(&lock);
	cds_list_del(&thread->node);
	give_number(thread->number);
	pthread_mutex_unlock(&lock);
	thread->is_known = false;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	CDS_INIT_LIST_HEAD(&threads);
	memset(is_taken, 0, sizeof(is_taken));
	if (epoch_mine.is_known) {
		cds_list_add(&epoch_mine.node, &threads);
		epoch_mine.number = take_number();
	}
	register_process();
	pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
	register_process();
	pthread_key_create(&at_thread_end, leave);
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void epoch_prepare(void)
{
	pthread_once(&prepared, prepare);
}

void epoch_join(void)
{
	epoch_prepare();
	pthread_mutex_lock(&lock);
	cds_list_add(&epoch_mine.node, &threads);
	epoch_mine.number = take_number();
	pthread_mutex_unlock(&lock);
	epoch_mine.is_known = true;
	pthread_setspecific(at_thread_end, &epoch_mine);
}

/* ---- Waiting */

static void wait_for(const struct epoch_thread *thread)
{
	unsigned long word = atomic_load_explicit(&thread->word, memory_order_acquire);

	if (word % 2 == 0)
		return;
	for (unsigned i = 0; atomic_load_explicit(&thread->word, memory_order_acquire) == word;
	     i++) {
		if (i < PAUSES_MAX)
			PAUSE();
		else
			sched_yield();
	}
}

void epoch_wait(void)
{
	const struct epoch_thread *thread;

	pthread_once(&prepared, prepare);
	/* Either a thread's word shows that it is in a section, or its section begins behind its barrier. In that case it
	 * sees only what we have left. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!epoch_needs_fence)
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	pthread_mutex_lock(&lock);
	cds_list_for_each_entry (thread, &threads, node)
		wait_for(thread);
	pthread_mutex_unlock(&lock);
}

/* ---- Reaching other processes */

bool epoch_is_reached(void)
{
	epoch_prepare();
	return is_reached;
}

bool epoch_reach_all(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
