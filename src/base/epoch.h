/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epoch sections protect what threads find by shared pointers. While a thread is in one, nothing that it
 * finds is freed. To free something, make it impossible to find, wait for the sections of that moment
 * (epoch_wait()), and then free it. A section costs two stores to a word of the thread's own, and no
 * atomic instruction. Instead the waiting thread has the kernel put barriers into all threads
 * (membarrier).
 *
 * This is RCU. liburcu has it, but with one state for the whole process. A library cannot keep that
 * state right over a fork() if others in the process use liburcu too. So this one is the library's
 * own.
 *
 * A section is short. Within it a thread takes no lock, waits for nothing, and enters no
 * other section.
 *
 * Threads that have been in a section have small numbers, for data that each keeps apart from the others. All numbers
 * but the last belong to one thread alone.
 */
#ifndef BASE_EPOCH_H
#define BASE_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include <urcu/list.h>

#define EPOCH_NUMBERS 32U
#define EPOCH_SHARED  (EPOCH_NUMBERS - 1) /* shared by threads that come when all others are taken */

/* A thread that has been in a section at least once. It is in static storage, so that it is found without a
 * call. */
struct epoch_thread {
	struct cds_list_head node;
	atomic_ulong word; /* odd within a section; only grows */
	bool is_known;
	unsigned number; /* given to another thread when this one has ended */
};

extern __thread struct epoch_thread epoch_mine __attribute__((tls_model("initial-exec")));
extern atomic_bool epoch_needs_fence; /* the kernel has no such barriers */

/* Registers the process with the kernel, which the first section does otherwise. Call it before the
 * process starts threads: later it takes the kernel up to tens of milliseconds. */
void epoch_prepare(void);

/* Makes the calling thread known to epoch_wait(). */
void epoch_join(void);

static inline void epoch_enter(void)
{
	if (__builtin_expect(!epoch_mine.is_known, 0))
		epoch_join();
	atomic_store_explicit(&epoch_mine.word,
			      atomic_load_explicit(&epoch_mine.word, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* epoch_wait() makes sure that everything read from here on is read behind the store. */
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&epoch_needs_fence, memory_order_relaxed), 0))
		atomic_thread_fence(memory_order_seq_cst);
}

static inline void epoch_exit(void)
{
	atomic_store_explicit(&epoch_mine.word,
			      atomic_load_explicit(&epoch_mine.word, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* Returns the calling thread's number. Call it within an epoch section. */
static inline unsigned epoch_number(void)
{
	return epoch_mine.number;
}

/* Waits until all sections that have begun have ended. It is a full memory barrier. Do not call it
 * within an epoch section. */
void epoch_wait(void);

/* True if other processes' epoch_reach_all() reaches this process's threads from now on. */
bool epoch_is_reached(void);
/* Is a full memory barrier in this thread, and in all threads of the processes that can be reached.
 * False: the kernel has none for us, and it was a barrier in this thread alone. */
bool epoch_reach_all(void);

#endif
