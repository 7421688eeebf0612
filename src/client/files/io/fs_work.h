/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of a file system. They carry out operations of queues that need the manager, as the
 * blocking calls do, because the queue's own thread cannot. file_queue.c says which. There are none
 * until a file is asked for its target, and more come as there is work for them.
 */
#ifndef CLIENT_FS_WORK_H
#define CLIENT_FS_WORK_H

#include <pthread.h>
#include <stdbool.h>

#include <urcu/list.h>

#define FS_THREADS_MAX 8U

struct afar_fs;
struct operation;

struct fs_work {
	pthread_mutex_t lock; /* guards all below; held for moments */
	pthread_cond_t more;
	struct cds_list_head waiting; /* operations, by their waiting_node */
	pthread_t threads[FS_THREADS_MAX];
	unsigned nr_threads, nr_idle;
	bool is_ending;
};

void fs_work_init(struct fs_work *work);
/* Makes sure that there is a thread. Returns 0 or the error of making it, with a sentence. */
int fs_work_begin(struct afar_fs *fs);
/* Ends the threads of a file system that has no files. */
void fs_work_end(struct afar_fs *fs);
/* Hands over an operation of a file. operation_return() gives it back. Neither waits nor allocates. */
void fs_work_add(struct afar_fs *fs, struct operation *operation);
/* Takes one back that no thread has begun. False: one has. */
bool fs_work_take_back(struct afar_fs *fs, struct operation *operation);

#endif
