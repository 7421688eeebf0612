/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files as targets of queues.
 *
 * A file's bytes are ranges of its pool, which is a region. An operation goes directly, on its queue's thread, if its
 * bytes are all in runs that we know and inside the size that we know. Then post.c finds each next byte in the
 * inode's view (file_view.h), and from there on it is an operation on the pool. This takes no lock, allocates nothing
 * and calls nobody.
 *
 * All others take a thread of the file system (fs_work.c). They make the file longer, need room, read holes or at the
 * end, append, sync, or are the first write since a sync. All operations take one while the gate is shut. One whose
 * direct attempt failed with its server takes one, too. The thread carries the operation out from its beginning as the
 * blocking call does, and gives it back with the result. So growth, ends, recalls, lost servers and waiting for servers
 * are handled in one place, the blocking calls. It then shows what it has learned in the view, and the next operation
 * goes directly.
 *
 *   submit → start → direct: transfers → completion → finish → done
 *              │                                         │ failed with a server
 *              └──────────→ away: a thread ←─────────────┘
 *                              └→ operation_return → away_take_returned → done
 *
 * Runs stay as they are while transfers are posted. An operation is a user of the target's handle from before it looks at
 * the view until all its transfers have ended. A thread that has runs taken away sets HANDLE_GATE in the same word, and
 * waits until there are no users. Only then does it shut the gate for blocking calls. An operation that comes then sees
 * the bit, and takes a thread. One that is held, or away, is none of the users, but idle: nobody waits for it. A write
 * whose connection has ended is in doubt; inode_shut() has its server close the connection first. Only the program's
 * thread can end its operations, by reaping. If it does not, another session's truncate answers -EBUSY, and so does one
 * of this process, after a while.
 *
 * An operation that is away ends when the blocking call does.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/queue/away.h"

static struct file_inode *inode_of(const struct operation *operation)
{
	return file_of(operation->target)->inode;
}

/* ---- Targets */

static const struct target_ops file_ops;

static const struct target_kind file_kind = {
	.noun = "inode",
	.called = "file",
	.is_numbered = true,
	.handle = HANDLE_FILE_TARGET,
	.opcodes =
		1U << AFAR_OP_READ | 1U << AFAR_OP_WRITE | 1U << AFAR_OP_FLUSH | 1U << AFAR_OP_SYNC,
	.ops = &file_ops,
};

/* Makes the target, unless it is there. The inode's lock is held. */
static void open_target(struct afar_file *file)
{
	struct afar_target *target = &file->target, *pool = fs_pool(file->fs);

	if (handle_is(target, HANDLE_FILE_TARGET))
		return;
	target->session = pool->session;
	target->ns = pool->ns;
	target->ns_name = pool->ns_name;
	target->address = file->inode->ino;
	target->rights = RIGHT_READ | RIGHT_WRITE; /* check() knows better */
	target->is_flash = pool->is_flash;
	target->carrier = pool;
	target->kind = &file_kind;
	file_list_target(file);
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
		file->inode->around.is_kept = true;
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

/* ---- Counting */

/* Makes a user idle, and wakes who waits for that. The file stays open as long as it is idle. */
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

/* Counts an operation out that was a user of the target. The file may be closed then. */
static void leave(struct afar_target *target)
{
	_Atomic uint32_t *word = &target->handle.nr_users;
	uint32_t users = atomic_load_explicit(word, memory_order_relaxed);

	while (!(users & HANDLE_GATE)) {
		if (atomic_compare_exchange_weak_explicit(
			    word, &users, users - 1, memory_order_release, memory_order_relaxed))
			return;
	}
	become_idle(file_of(target));
	end_idle(file_of(target));
}

static void hold(struct operation *operation)
{
	operation->is_idle = true;
	become_idle(file_of(operation->target));
}

static void let_go(const struct operation *operation)
{
	if (operation->is_idle)
		end_idle(file_of(operation->target));
	else
		leave(operation->target);
}

/* Makes an operation a user of the target again. Returns whether the gate is open. */
static bool enter_gate(struct operation *operation)
{
	struct handle *handle = &operation->target->handle;

	if (operation->is_idle) {
		handle_use(handle);
		operation->is_idle = false;
		end_idle(file_of(operation->target));
	}
	return !(atomic_load_explicit(&handle->nr_users, memory_order_acquire) & HANDLE_GATE);
}

/* ---- What may be asked */

static int check_flags(const struct afar_op *op)
{
	const struct afar_file *file = file_of(op->target);

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
	const struct afar_file *file = file_of(op->target);

	if (file->flags & O_APPEND || range_is_inside(op->offset, length, FILE_BYTES_MAX))
		return file_check(file, W_OK, "write");
	return error_fail(-EFBIG, "write %llu bytes at %llu of inode %llu: a file can have %llu",
			  (unsigned long long)length, (unsigned long long)op->offset,
			  (unsigned long long)file->inode->ino, (unsigned long long)FILE_BYTES_MAX);
}

static int check(const struct afar_op *op, uint64_t length)
{
	const struct afar_file *file = file_of(op->target);

	if (op->offset > INT64_MAX)
		return error_fail(-EINVAL, "use inode %llu at %llu: the offset is above 2^63",
				  (unsigned long long)file->inode->ino,
				  (unsigned long long)op->offset);
	if (op->opcode == AFAR_OP_WRITE)
		return check_write(op, length);
	return op->opcode == AFAR_OP_READ ? file_check(file, R_OK, "read") : 0;
}

/* ---- Connecting */

static int connect_to_pool(struct afar_queue *queue, struct afar_target *target)
{
	struct afar_file *file = file_of(target);
	int ret;

	/* Nobody should wait for servers that we wait for. */
	become_idle(file);
	ret = away_open(queue);
	if (ret == 0)
		ret = queue_connect(queue, fs_pool(file->fs), session_deadline(queue->session));
	end_idle(file);
	return ret;
}

/* ---- Starting */

static int hand_over(struct afar_queue *queue, struct operation *operation)
{
	if (!operation->is_idle)
		hold(operation);
	operation_go_away(queue, operation);
	fs_work_add(file_of(operation->target)->fs, operation);
	return -EAGAIN;
}

/* Gives the operation the run that its next byte is in. Returns how much of `length` bytes is in it; 0: we know of
 * none. Within an epoch section. */
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

/* Returns whether all of a range is in runs. Within an epoch section. */
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

	epoch_enter();
	view = atomic_load_explicit(&inode_of(operation)->view, memory_order_acquire);
	is_known = view && range_is_inside(operation->offset, length,
					   atomic_load_explicit(&view->size, memory_order_relaxed));
	if (is_known) {
		found = take_run(operation, view, length);
		is_known = found == length ||
			   (found != 0 && is_covered(view, operation->run_end, length - found));
	}
	epoch_exit();
	return is_known;
}

/* Returns whether a write needs nothing from the manager, nor has anything to note that may take memory. */
static bool is_plain_write(const struct operation *operation)
{
	const struct afar_file *file = file_of(operation->target);

	return !(file->flags & O_APPEND) && inode_has_noted_write(file->inode, operation->offset);
}

static void note_start(struct operation *operation)
{
	if (operation->opcode != AFAR_OP_WRITE)
		return;
	inode_touch(inode_of(operation));
	if (file_of(operation->target)->flags & (O_DSYNC | O_SYNC) && operation->target->is_flash)
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

static int start(struct afar_queue *queue, struct operation *operation)
{
	if (operation->is_direct || operation->status || operation->remaining == 0)
		return 0;
	if (!queue->away)
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

static void next_run(struct operation *operation)
{
	/* The view had all of it at the start, and only gets more while we are counted in. */
	epoch_enter();
	take_run(operation, atomic_load_explicit(&inode_of(operation)->view, memory_order_acquire),
		 operation->remaining);
	epoch_exit();
}

/* ---- Finishing */

/* Returns whether a thread does an operation again that ended so. The thread waits for servers as the blocking calls
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
	struct file_inode *inode = inode_of(operation);

	if (operation->opcode != AFAR_OP_WRITE)
		return;
	/* A sync that has begun meanwhile may not cover it. */
	inode_note_write(inode);
	inode_note_arrival(inode);
	streams_drop(&inode->streams, operation->begin, operation->length);
}

static bool finish(struct afar_queue *queue, struct operation *operation)
{
	if (!operation->is_direct)
		return false;
	note_end(operation);
	operation->is_direct = false;
	return is_done_again(operation) && hand_over(queue, operation) == -EAGAIN;
}

static bool take_back(struct afar_queue *queue, struct operation *operation)
{
	if (!fs_work_take_back(file_of(operation->target)->fs, operation))
		return false;
	operation_come_back(queue, operation);
	return true;
}

/* ---- What queues call */

static const struct target_ops file_ops = {
	.check_flags = check_flags,
	.check = check,
	.connect = connect_to_pool,
	.leave = leave,
	.hold = hold,
	.start = start,
	.next_run = next_run,
	.finish = finish,
	.let_go = let_go,
	.take_back = take_back,
};
