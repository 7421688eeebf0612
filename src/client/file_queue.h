/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files as targets of queues.
 *
 * A file's bytes are ranges of its pool, which is a region. An operation whose bytes are all in runs that we know, and inside
 * the size that we know, goes its way directly, on the queue's own thread: progress.c finds each next byte in the
 * inode's view (file_view.h), and from there on it is an operation on the pool. This takes no lock, allocates
 * nothing and calls nobody.
 *
 * All others take a thread of the file system (fs_work.c): those that make the file longer, need room, read holes or at the
 * end; appends; syncs; the first write since a sync; and all while the gate is shut or after a direct attempt failed with
 * its server. The thread carries the operation out from its beginning as the blocking call does, and gives it
 * back with the result. So growth, ends, recalls, lost servers and waiting for servers are handled in one place, the blocking
 * calls. It then shows what it has learned in the view, and the next operation goes directly.
 *
 *   submit → file_start → direct: transfers → completion → file_finish → done
 *                │                                              │ failed with a server
 *                └────────────→ away: a thread ←────────────────┘
 *                                  └→ file_returned → files_take_returned → done
 *
 * What keeps runs as they are while transfers are posted: an operation is a user of the target's handle from before
 * it looks at the view until all its transfers have ended. Whoever has runs taken away sets HANDLE_GATE in the same
 * word, waits until there are no users, and only then shuts the gate for blocking calls. An operation that comes then sees the
 * bit, and takes a thread. One that is held, or away, is none of the users, but idle: nobody waits for it. A write whose connection has ended is loose; inode_shut() has its
 * server close the connection first. Only the program's thread can end its operations, by reaping. If it does
 * not, another session's truncate answers -EBUSY, and so does one of this process, after a while.
 *
 * An operation that is away is not ended by its deadline: the thread may be using its memory. It ends when the
 * blocking call does.
 */
#ifndef CLIENT_FILE_QUEUE_H
#define CLIENT_FILE_QUEUE_H

#include "client/fs.h"
#include "client/queue.h"

/* ---- Counting */

/* Returns how many of a file's operations may have something posted. */
static inline unsigned file_nr_posted(const struct afar_file *file)
{
	return atomic_load_explicit(&file->target.handle.nr_users, memory_order_acquire) &
	       ~(HANDLE_GATE | HANDLE_SHUT);
}

/* Counts an operation out that was a user of the target, while the gate is shut. */
__attribute__((cold)) void file_leave_shut(struct afar_file *file);

/* Counts an operation out that was a user of the target. The file may be closed then. */
static inline void file_leave(struct afar_file *file)
{
	_Atomic uint32_t *word = &file->target.handle.nr_users;
	uint32_t users = atomic_load_explicit(word, memory_order_relaxed);

	while (!(users & HANDLE_GATE)) {
		if (atomic_compare_exchange_weak_explicit(
			    word, &users, users - 1, memory_order_release, memory_order_relaxed))
			return;
	}
	file_leave_shut(file);
}

/* ---- Targets */

/* Closes the target of a file that is being closed, if it has one. -EBUSY, with a sentence. */
int file_close_target(struct afar_file *file);
void file_reopen_target(struct afar_file *file);
/* Check an operation on a file, beyond what is checked of all. */
int file_check_flags(const struct afar_op *op);
int file_check_op(const struct afar_op *op, uint64_t length);

/* ---- A queue's part; queue.c, progress.c and wait.c call these, on the queue's thread */

/* A queue has this for files. It is made when the queue is connected to the first one. */
struct queue_files;

/* Connects a queue to a file's servers, for a caller who is a user of its target, and counts it out. */
int files_connect(struct afar_queue *queue, struct afar_file *file);
void files_close(struct afar_queue *queue);
/* The descriptor that polls readable when threads have given something back. */
int files_fd(const struct queue_files *files);
/* Returns whether threads have given something back. */
bool files_have_returned(const struct queue_files *files);
/* Takes that, and gives it to `finish`, with the status or length set. Returns whether there was any. */
typedef void files_finish(struct afar_queue *queue, struct operation *operation);
bool files_take_returned(struct afar_queue *queue, files_finish *finish);
/* Leaves the line of an operation that a thread has failed to carry out. False: it is forgotten. */
bool files_say(const struct queue_files *files, const struct afar_completion *completion);

/* An operation, which is a user of the target, begins with waiting: it becomes idle. */
void file_hold(struct operation *operation);
/* Counts one out that has ended. */
void file_let_go(const struct operation *operation);
/* Starts an operation that may start now. 0: it goes on directly; -EAGAIN: a thread has it. Other
 * errors: it has failed. Called again, it changes nothing. */
int file_start(struct afar_queue *queue, struct operation *operation);
/* Finds the next run of a direct operation. */
void file_next_run(struct operation *operation);
/* An operation has no transfers in flight and nothing left. Returns whether a thread does it again. */
bool file_finish(struct afar_queue *queue, struct operation *operation);
/* Takes one back that is away, to end it. False: a thread has begun it. */
bool file_take_back(struct afar_queue *queue, struct operation *operation);

/* ---- On threads of the file system */

/* Gives an operation back, with its answer. If that is an error, its line is the thread's last. */
void file_returned(struct operation *operation);

#endif
