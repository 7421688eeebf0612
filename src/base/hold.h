/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds: a thread that holds keeps what it finds by shared pointers from being taken away under it; who takes something away
 * makes it impossible to find, waits for the holds of that moment, and then ends it. To hold costs two stores to a word of
 * the thread's own, and no atomic instruction: whoever waits has the kernel put barriers into all threads (membarrier).
 *
 * It is what RCU is. liburcu has that, with one state for the whole process, which a library cannot keep right over a
 * fork() when others in the process use it too; this one is the library's own.
 *
 * A hold is for moments: within one a thread takes no lock, waits for nothing, and begins no other.
 *
 * Threads that hold have small numbers, for what each keeps apart from the others: all but the last are one thread's own.
 */
#ifndef BASE_HOLD_H
#define BASE_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <urcu/list.h>

#define HOLD_NUMBERS 32U
#define HOLD_SHARED  (HOLD_NUMBERS - 1) /* the number of those who come when the others are taken */

/* A thread that has ever held. In static storage, so that it is found without a call. */
struct hold_thread {
	struct cds_list_head node;
	atomic_ulong word; /* odd: it holds. It only grows */
	bool is_known;
	unsigned number; /* another's, in turn, when it has ended */
};

extern __thread struct hold_thread hold_mine __attribute__((tls_model("initial-exec")));
extern atomic_bool hold_needs_fence; /* the kernel has no barriers to give */

/* Makes the thread known to hold_wait(). */
void hold_join(void);

static inline void hold_begin(void)
{
	if (__builtin_expect(!hold_mine.is_known, 0))
		hold_join();
	atomic_store_explicit(&hold_mine.word,
			      atomic_load_explicit(&hold_mine.word, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* What is looked at from here on is looked at behind the store: hold_wait() sees to that. */
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&hold_needs_fence, memory_order_relaxed), 0))
		atomic_thread_fence(memory_order_seq_cst);
}

static inline void hold_end(void)
{
	atomic_store_explicit(&hold_mine.word,
			      atomic_load_explicit(&hold_mine.word, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* The thread's, within a hold. */
static inline unsigned hold_number(void)
{
	return hold_mine.number;
}

/* Waits until all holds have ended that had begun, and is a full memory barrier. Not within a hold. */
void hold_wait(void);

/* Whether other processes' hold_reach_all() reaches this one's threads from now on. */
bool hold_is_reached(void);
/* A full memory barrier, in this thread and in all threads of the processes that are reached. False: the kernel has none
 * for us, and it was one in this thread alone. */
bool hold_reach_all(void);

#endif
