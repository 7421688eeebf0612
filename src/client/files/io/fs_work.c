/* SPDX-License-Identifier: BSD-3-Clause */
/* Carrying out operations of queues on files as the blocking calls do; see fs_work.h. */
#include "client/files/io/fs_work.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/files/file.h"
#include "client/queue/away.h"

#define TOGETHER_MAX  64U /* writes of one file that are carried out in one call */
#define VECTORS_FIRST 64U /* that need no memory of their own */

/* ---- What one thread carries out at once */

/* One operation; or several writes of one file, which share what the manager is told and asked. */
struct job {
	struct operation *operations[TOGETHER_MAX];
	unsigned nr;
	uint32_t nr_iov; /* of all */
	struct afar_file_vector *vectors, first[VECTORS_FIRST];
};

static int job_begin(struct job *job)
{
	job->nr_iov = 0;
	for (unsigned i = 0; i < job->nr; i++)
		job->nr_iov += job->operations[i]->nr_iov;
	job->vectors = job->nr_iov <= VECTORS_FIRST ? job->first
						    : calloc(job->nr_iov, sizeof(*job->vectors));
	return job->vectors ? 0 : error_code(-ENOMEM);
}

static void job_end(struct job *job)
{
	if (job->vectors != job->first)
		free(job->vectors);
}

static unsigned fill(struct afar_file_vector *vectors, const struct operation *operation)
{
	uint64_t offset = operation->begin;

	for (uint32_t i = 0; i < operation->nr_iov; i++) {
		const struct afar_iov *iov = &operation->iov[i];

		vectors[i] = (struct afar_file_vector){offset, iov->addr, iov->length};
		offset += iov->length;
	}
	return operation->nr_iov;
}

static int64_t carry_out_one(struct operation *operation, struct afar_file_vector *vectors)
{
	struct afar_file *file = file_of(operation->target);
	unsigned nr = fill(vectors, operation);

	switch (operation->opcode) {
	case AFAR_OP_SYNC:
		return file_sync(file);
	case AFAR_OP_READ:
		return file_read(file, vectors, nr);
	default:
		return file_write(file, vectors, nr, operation->flags & AFAR_OP_DURABLE);
	}
}

/* Writes all together. False: that failed, and does not say of which. */
static bool write_together(struct job *job)
{
	struct operation *first = job->operations[0];
	unsigned nr = 0;

	for (unsigned i = 0; i < job->nr; i++)
		nr += fill(&job->vectors[nr], job->operations[i]);
	if (file_write(file_of(first->target), job->vectors, nr, first->flags & AFAR_OP_DURABLE) <
	    0)
		return false;
	for (unsigned i = 0; i < job->nr; i++)
		job->operations[i]->answer = (int64_t)job->operations[i]->length;
	return true;
}

static void carry_out(struct job *job)
{
	struct file_inode *inode = file_of(job->operations[0]->target)->inode;
	int ret = job_begin(job);
	bool is_done = ret == 0 && job->nr > 1 && write_together(job);

	if (is_done)
		inode_show(inode);
	/* After the last one is given back, its file may be closed. */
	for (unsigned i = 0; i < job->nr; i++) {
		struct operation *operation = job->operations[i];

		if (!is_done) {
			operation->answer = ret ? ret : carry_out_one(operation, job->vectors);
			inode_show(inode);
		}
		operation_return(operation);
	}
	if (ret == 0)
		job_end(job);
}

/* ---- The threads */

static bool goes_with(const struct operation *first, const struct operation *other)
{
	return other->opcode == AFAR_OP_WRITE && other->target == first->target &&
	       !((other->flags ^ first->flags) & AFAR_OP_DURABLE);
}

/* Takes the first operation, and writes that go with it; none: there are none. The lock is held. */
static void take(struct fs_work *work, struct job *job)
{
	struct operation *operation, *next, *first = NULL;

	job->nr = 0;
	cds_list_for_each_entry_safe (operation, next, &work->waiting, waiting_node) {
		if (job->nr == TOGETHER_MAX)
			return;
		if (first && !goes_with(first, operation))
			continue;
		cds_list_del(&operation->waiting_node);
		job->operations[job->nr++] = operation;
		if (operation->opcode != AFAR_OP_WRITE)
			return;
		first = job->operations[0];
	}
}

static int start_thread(struct afar_fs *fs);

static void *work_on(void *argument)
{
	struct afar_fs *fs = argument;
	struct fs_work *work = &fs->work;
	struct job job;

	pthread_mutex_lock(&work->lock);
	while (!work->is_ending || !cds_list_empty(&work->waiting)) {
		take(work, &job);
		if (job.nr == 0) {
			work->nr_idle++;
			pthread_cond_wait(&work->more, &work->lock);
			work->nr_idle--;
			continue;
		}
		/* There is always one for what comes, because this one may wait long. */
		if (work->nr_idle == 0)
			start_thread(fs);
		pthread_mutex_unlock(&work->lock);
		carry_out(&job);
		pthread_mutex_lock(&work->lock);
	}
	pthread_mutex_unlock(&work->lock);
	return NULL;
}

/* Starts one more, if there may be more. The lock is held. */
static int start_thread(struct afar_fs *fs)
{
	struct fs_work *work = &fs->work;
	sigset_t all, old;
	int ret;

	if (work->nr_threads == FS_THREADS_MAX)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&work->threads[work->nr_threads], NULL, work_on, fs);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return -ret;
	work->nr_threads++;
	return 0;
}

void fs_work_init(struct fs_work *work)
{
	pthread_mutex_init(&work->lock, NULL);
	pthread_cond_init(&work->more, NULL);
	CDS_INIT_LIST_HEAD(&work->waiting);
}

int fs_work_begin(struct afar_fs *fs)
{
	int ret = 0;

	pthread_mutex_lock(&fs->work.lock);
	if (fs->work.nr_threads == 0)
		ret = start_thread(fs);
	pthread_mutex_unlock(&fs->work.lock);
	return ret ? error_fail(ret, "use a file on queues: no thread can be made (%s)",
				afar_strerror(ret))
		   : 0;
}

void fs_work_end(struct afar_fs *fs)
{
	struct fs_work *work = &fs->work;

	pthread_mutex_lock(&work->lock);
	work->is_ending = true;
	pthread_cond_broadcast(&work->more);
	pthread_mutex_unlock(&work->lock);
	/* No file is open, so no thread starts another one. */
	for (unsigned i = 0; i < work->nr_threads; i++)
		pthread_join(work->threads[i], NULL);
	pthread_cond_destroy(&work->more);
	pthread_mutex_destroy(&work->lock);
}

void fs_work_add(struct afar_fs *fs, struct operation *operation)
{
	struct fs_work *work = &fs->work;

	pthread_mutex_lock(&work->lock);
	cds_list_add_tail(&operation->waiting_node, &work->waiting);
	pthread_cond_signal(&work->more);
	pthread_mutex_unlock(&work->lock);
}

bool fs_work_take_back(struct afar_fs *fs, struct operation *operation)
{
	struct operation *waiting;
	bool is_ours = false;

	pthread_mutex_lock(&fs->work.lock);
	cds_list_for_each_entry (waiting, &fs->work.waiting, waiting_node) {
		is_ours = waiting == operation;
		if (is_ours)
			break;
	}
	if (is_ours)
		cds_list_del(&operation->waiting_node);
	pthread_mutex_unlock(&fs->work.lock);
	return is_ours;
}
