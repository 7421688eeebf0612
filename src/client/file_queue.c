/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as targets of queues; file_queue.h says how. */
#include "client/file_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "client/call.h"

/* ---- Targets */

static const struct target_kind file_kind = {
	.noun = "inode",
	.is_numbered = true,
	.handle = HANDLE_FILE_TARGET,
	.opcodes =
		1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH | 1U << AFAR_OP_SYNC,
};

/* Lets the gate find it. The inode's lock is held. */
static void list_target(struct afar_file *file)
{
	_Atomic uint32_t *word = &file->target.handle.nr_users;

	cds_list_add(&file->target_node, &file->inode->targets);
	if (file->inode->nr_holding_up != 0)
		atomic_fetch_or(word, HANDLE_GATE);
	else
		atomic_fetch_and(word, ~HANDLE_GATE);
}

/* Makes the target, unless it is there. The inode's lock is held. */
static void open_target(struct afar_file *file)
{
	struct afar_target *target = &file->target, *pool = fs_pool(file->fs);

	if (handle_is(target, HANDLE_FILE_TARGET))
		return;
	target->kind = &file_kind;
	target->session = pool->session;
	target->ns = pool->ns;
	target->ns_name = pool->ns_name;
	target->address = file->inode->ino;
	target->rights = RIGHT_READ | RIGHT_WRITE; /* file_check_op() knows better */
	target->is_flash = pool->is_flash;
	target->carrier = pool;
	target->file = file;
	list_target(file);
	atomic_store_explicit(&target->handle.kind, HANDLE_FILE_TARGET, memory_order_release);
}

static int get_target(struct afar_file *file)
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = file_check(file, 0, "use on queues");
	if (ret == 0)
		ret = fs_work_begin(file->fs);
	if (ret == 0) {
		pthread_mutex_lock(&file->inode->lock);
		open_target(file);
		pthread_mutex_unlock(&file->inode->lock);
		/* Bytes whose place we know already go directly. */
		inode_show(file->inode);
	}
	handle_unuse(&file->handle);
	return ret;
}

struct afar_target *afar_file_target(struct afar_file *file)
{
	if (get_target(file)) {
		call_failed();
		return NULL;
	}
	return &file->target;
}

static bool has_operations(const struct afar_file *file)
{
	return file_nr_posted(file) != 0 ||
	       atomic_load_explicit(&file->nr_idle, memory_order_acquire) != 0;
}

/* Closes the handle, unless there are operations. The inode's lock is held. */
static int close_handle(struct afar_file *file)
{
	int ret = has_operations(file) ? -EBUSY : handle_close(&file->target, HANDLE_FILE_TARGET);

	if (ret)
		return ret;
	/* One may have become idle meanwhile. */
	if (has_operations(file)) {
		handle_reopen(&file->target, HANDLE_FILE_TARGET);
		return -EBUSY;
	}
	cds_list_del(&file->target_node);
	return 0;
}

int file_close_target(struct afar_file *file)
{
	int ret;

	if (!file->target.file)
		return 0;
	pthread_mutex_lock(&file->inode->lock);
	ret = close_handle(file);
	pthread_mutex_unlock(&file->inode->lock);
	if (ret == -EBUSY)
		return error_fail(ret,
				  "close inode %llu: operations on it are in flight on queues; "
				  "reap them first",
				  (unsigned long long)file->inode->ino);
	return ret ? error_fail(ret, "close a file: it is closed already") : 0;
}

void file_reopen_target(struct afar_file *file)
{
	if (!file->target.file)
		return;
	pthread_mutex_lock(&file->inode->lock);
	list_target(file);
	handle_reopen(&file->target, HANDLE_FILE_TARGET);
	pthread_mutex_unlock(&file->inode->lock);
}

/* ---- Counting */

/* Makes a user idle, and wakes who waits for that. As long as it is idle the file stays open. */
static void become_idle(struct afar_file *file)
{
	uint32_t users;

	atomic_fetch_add_explicit(&file->nr_idle, 1, memory_order_relaxed);
	users = atomic_fetch_sub_explicit(&file->target.handle.nr_users, 1, memory_order_release);
	if (users & HANDLE_GATE)
		inode_wake(file->inode);
}

static void end_idle(struct afar_file *file)
{
	atomic_fetch_sub_explicit(&file->nr_idle, 1, memory_order_release);
}

void file_leave_shut(struct afar_file *file)
{
	become_idle(file);
	end_idle(file);
}

void file_hold(struct operation *operation)
{
	operation->is_idle = true;
	become_idle(operation->file);
}

void file_let_go(const struct operation *operation)
{
	if (operation->is_idle)
		end_idle(operation->file);
	else
		file_leave(operation->file);
}

/* Makes an operation a user of the target again. Returns whether the gate is open. */
static bool enter_gate(struct operation *operation)
{
	struct handle *handle = &operation->target->handle;

	if (operation->is_idle) {
		handle_use(handle);
		operation->is_idle = false;
		end_idle(operation->file);
	}
	return !(atomic_load_explicit(&handle->nr_users, memory_order_acquire) & HANDLE_GATE);
}

/* ---- What may be asked */

int file_check_flags(const struct afar_op *op)
{
	const struct afar_file *file = op->target->file;

	if (op->flags & (AFAR_OP_DRIVEN | AFAR_OP_CHECKED))
		return error_fail(-EOPNOTSUPP,
				  "submit an operation on inode %llu: files take neither "
				  "AFAR_OP_DRIVEN nor AFAR_OP_CHECKED; use a region",
				  (unsigned long long)file->inode->ino);
	if (op->flags & AFAR_OP_DURABLE && !op->target->is_flash)
		return error_fail(
			-EOPNOTSUPP,
			"submit a durable operation on inode %llu: file system '%s' is in "
			"memory, which does not survive its servers",
			(unsigned long long)file->inode->ino, op->target->ns_name);
	return 0;
}

static int check_write(const struct afar_op *op, uint64_t length)
{
	const struct afar_file *file = op->target->file;

	if (file->flags & O_APPEND || range_is_inside(op->offset, length, FILE_BYTES_MAX))
		return file_check(file, W_OK, "write");
	return error_fail(-EFBIG, "write %llu bytes at %llu of inode %llu: a file can have %llu",
			  (unsigned long long)length, (unsigned long long)op->offset,
			  (unsigned long long)file->inode->ino, (unsigned long long)FILE_BYTES_MAX);
}

int file_check_op(const struct afar_op *op, uint64_t length)
{
	const struct afar_file *file = op->target->file;

	if (op->offset > INT64_MAX)
		return error_fail(-EINVAL, "use inode %llu at %llu: the offset is above 2^63",
				  (unsigned long long)file->inode->ino,
				  (unsigned long long)op->offset);
	if (op->opcode == AFAR_OP_WRITE)
		return check_write(op, length);
	return op->opcode == AFAR_OP_READ ? file_check(file, R_OK, "read") : 0;
}

/* ---- What threads give back */

#define LINES 16U /* of failures, that are kept for afar_queue_explain() */

struct files_line {
	uint64_t user_data;
	int64_t result;
	char text[ERROR_LINE_BYTES];
};

struct queue_files {
	int event_fd;
	atomic_bool has_returned;
	pthread_mutex_t lock; /* guards the rest */
	struct cds_list_head returned;
	struct files_line lines[LINES];
	uint64_t nr_lines;
};

static int files_open(struct afar_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct queue_files *files;

	if (queue->files)
		return 0;
	files = calloc(1, sizeof(*files));
	if (!files)
		return error_code(-ENOMEM);
	files->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (files->event_fd < 0 ||
	    epoll_ctl(queue->sleep_fd, EPOLL_CTL_ADD, files->event_fd, &event)) {
		int ret = error_code(-errno);

		if (files->event_fd >= 0)
			close(files->event_fd);
		free(files);
		return ret;
	}
	CDS_INIT_LIST_HEAD(&files->returned);
	pthread_mutex_init(&files->lock, NULL);
	queue->files = files;
	return 0;
}

int files_connect(struct afar_queue *queue, struct afar_file *file)
{
	int ret;

	/* Nobody should wait for servers that we wait for. */
	become_idle(file);
	ret = files_open(queue);
	if (ret == 0)
		ret = queue_connect(queue, fs_pool(file->fs), session_deadline(queue->session));
	end_idle(file);
	return ret;
}

void files_close(struct afar_queue *queue)
{
	struct queue_files *files = queue->files;

	if (!files)
		return;
	/* The thread that gave back the last one may still be about to unlock. */
	pthread_mutex_lock(&files->lock);
	pthread_mutex_unlock(&files->lock);
	pthread_mutex_destroy(&files->lock);
	close(files->event_fd);
	free(files);
}

int files_fd(const struct queue_files *files)
{
	return files->event_fd;
}

bool files_have_returned(const struct queue_files *files)
{
	return atomic_load_explicit(&files->has_returned, memory_order_relaxed);
}

void file_returned(struct operation *operation)
{
	struct queue_files *files = operation->queue->files;
	const uint64_t one = 1;

	pthread_mutex_lock(&files->lock);
	if (operation->answer < 0) {
		struct files_line *line = &files->lines[files->nr_lines++ % LINES];

		line->user_data = operation->user_data;
		line->result = operation->answer;
		strncpy(line->text, error_last_line(), sizeof(line->text) - 1);
	}
	cds_list_add_tail(&operation->waiting_node, &files->returned);
	if (!files_have_returned(files)) {
		atomic_store_explicit(&files->has_returned, true, memory_order_relaxed);
		/* It has room for more than we ever add. */
		(void)!write(files->event_fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&files->lock);
}

bool files_take_returned(struct afar_queue *queue, files_finish *finish)
{
	struct queue_files *files = queue->files;
	struct operation *operation, *next;
	CDS_LIST_HEAD(returned);
	uint64_t nr;

	if (!files_have_returned(files))
		return false;
	pthread_mutex_lock(&files->lock);
	cds_list_splice(&files->returned, &returned);
	CDS_INIT_LIST_HEAD(&files->returned);
	atomic_store_explicit(&files->has_returned, false, memory_order_relaxed);
	(void)!read(files->event_fd, &nr, sizeof(nr));
	pthread_mutex_unlock(&files->lock);
	cds_list_for_each_entry_safe (operation, next, &returned, waiting_node) {
		cds_list_del(&operation->waiting_node);
		operation->waits = WAITS_NOT;
		queue->nr_away--;
		finish(queue, operation);
	}
	return true;
}

bool files_say(const struct queue_files *files, const struct afar_completion *completion)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&files->lock;
	bool is_known = false;

	pthread_mutex_lock(lock);
	for (unsigned i = 1; i <= LINES && i <= files->nr_lines && !is_known; i++) {
		const struct files_line *line = &files->lines[(files->nr_lines - i) % LINES];

		is_known = line->user_data == completion->user_data &&
			   line->result == completion->result;
		if (is_known)
			error_fail((int)completion->result, "%s", line->text);
	}
	pthread_mutex_unlock(lock);
	return is_known;
}

/* ---- Starting */

static int hand_over(struct afar_queue *queue, struct operation *operation)
{
	if (!operation->is_idle)
		file_hold(operation);
	operation->waits = WAITS_FOR_THREAD;
	operation->status = 0;
	operation->remaining = 0;
	operation->queue = queue;
	queue->nr_away++;
	fs_work_add(operation->file->fs, operation);
	return -EAGAIN;
}

/* Gives the operation the run that its next byte is in. Returns how much of `length` bytes is in it; 0: we know of
 * none. Within a hold. */
static inline uint64_t take_run(struct operation *operation, struct file_view *view,
				uint64_t length)
{
	uint64_t pool_offset, found = view_find(view, operation->offset, length, &pool_offset);

	if (found == 0)
		return 0;
	operation->shift = pool_offset - operation->offset;
	operation->run_end = operation->offset + found;
	return found;
}

/* Returns whether all of a range is in runs. Within a hold. */
static bool is_covered(struct file_view *view, uint64_t offset, uint64_t length)
{
	while (length != 0) {
		uint64_t pool_offset, found = view_find(view, offset, length, &pool_offset);

		if (found == 0)
			return false;
		offset += found;
		length -= found;
	}
	return true;
}

/* Gives the operation its first run, if all of it is in runs and inside the size. */
static inline bool take_first_run(struct operation *operation)
{
	uint64_t length = operation->length, found;
	struct file_view *view;
	bool is_known;

	hold_begin();
	view = atomic_load_explicit(&operation->file->inode->view, memory_order_acquire);
	is_known = view && range_is_inside(operation->offset, length,
					   atomic_load_explicit(&view->size, memory_order_relaxed));
	if (is_known) {
		found = take_run(operation, view, length);
		is_known = found == length ||
			   (found != 0 && is_covered(view, operation->run_end, length - found));
	}
	hold_end();
	return is_known;
}

/* Returns whether a write needs nothing from the manager, nor has anything to note that may take memory. */
static bool is_plain_write(const struct operation *operation)
{
	const struct afar_file *file = operation->file;
	const struct file_inode *inode = file->inode;

	return !(file->flags & O_APPEND) &&
	       atomic_load_explicit(&inode->is_unsynced, memory_order_relaxed) &&
	       !(operation->offset < FILE_UNIT &&
		 atomic_load_explicit(&inode->is_prepared, memory_order_relaxed));
}

static void note_start(struct operation *operation)
{
	if (operation->opcode != AFAR_OP_WRITE)
		return;
	inode_touch(operation->file->inode);
	if (operation->file->flags & (O_DSYNC | O_SYNC) && operation->target->is_flash)
		operation->flags |= AFAR_OP_DURABLE;
}

static int start_transfer(struct afar_queue *queue, struct operation *operation)
{
	if (operation->opcode == AFAR_OP_WRITE && !is_plain_write(operation))
		return hand_over(queue, operation);
	if (!enter_gate(operation) || !take_first_run(operation))
		return hand_over(queue, operation);
	operation->is_direct = true;
	note_start(operation);
	return 0;
}

int file_start(struct afar_queue *queue, struct operation *operation)
{
	if (operation->is_direct || operation->status || operation->remaining == 0)
		return 0;
	if (!queue->files)
		return -ENOTCONN;
	switch (operation->opcode) {
	case AFAR_OP_FLUSH:
		return 0;
	case AFAR_OP_SYNC:
		return hand_over(queue, operation);
	default:
		return start_transfer(queue, operation);
	}
}

void file_next_run(struct operation *operation)
{
	/* The view had all of it at the start, and only gets more while we are counted in. */
	hold_begin();
	take_run(operation,
		 atomic_load_explicit(&operation->file->inode->view, memory_order_acquire),
		 operation->remaining);
	hold_end();
}

/* ---- Finishing */

/* Returns whether an operation that ended so is done again by a thread: that waits for servers as the blocking calls
 * do, and says what is lost. */
static bool is_done_again(const struct operation *operation)
{
	if (operation->is_given_up)
		return false;
	switch (operation->status) {
	case -AFAR_ELOST:
	case -AFAR_ESERVER:
	case -ENOTCONN:
		return true;
	default:
		return false;
	}
}

static void note_end(struct operation *operation)
{
	struct file_inode *inode = operation->file->inode;

	if (operation->opcode != AFAR_OP_WRITE)
		return;
	/* A sync that has begun meanwhile may not cover it. */
	inode_note_write(inode);
	if (atomic_load_explicit(&inode->touched, memory_order_relaxed) != INODE_UNTOLD)
		inode_touch(inode);
}

bool file_finish(struct afar_queue *queue, struct operation *operation)
{
	if (!operation->is_direct)
		return false;
	note_end(operation);
	operation->is_direct = false;
	return is_done_again(operation) && hand_over(queue, operation) == -EAGAIN;
}

bool file_take_back(struct afar_queue *queue, struct operation *operation)
{
	if (!fs_work_take_back(operation->file->fs, operation))
		return false;
	operation->waits = WAITS_NOT;
	queue->nr_away--;
	return true;
}
