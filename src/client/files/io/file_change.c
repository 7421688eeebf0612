/* SPDX-License-Identifier: BSD-3-Clause */
/* Changing what of a file has room: truncating, allocating, punching holes; and finding holes. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"
#include "client/files/io/fs_extend.h"
#include "client/files/pool/fs_lost.h"

#define RESIZE_ROUNDS  4 /* an end is asked for so often because others have gone on meanwhile */
#define ALLOCATE_FLAGS (AFAR_ALLOCATE_KEEP_SIZE | AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_ZERO)

static struct file_piece piece_at(struct file_inode *inode, uint64_t offset, uint64_t length)
{
	struct file_piece piece;

	pthread_mutex_lock(&inode->lock);
	piece = file_map_piece(&inode->map, offset, length);
	pthread_mutex_unlock(&inode->lock);
	return piece;
}

static uint64_t size_of(struct file_inode *inode)
{
	uint64_t size;

	pthread_mutex_lock(&inode->lock);
	size = inode->size;
	pthread_mutex_unlock(&inode->lock);
	return size;
}

/* ---- Setting the size. The gate is shut. */

/* The bytes behind a new end, up to the end of its unit. They are zeroed before the file gets
 * shorter, because they would show again when it grows. */
struct tail {
	struct file_piece piece; /* a hole: there are none */
	char bytes[AFAR_FILE_BLOCK];
};

static int move_tail(struct afar_fs *fs, uint16_t opcode, struct tail *tail)
{
	struct target_piece piece = {
		.memory = {.addr = tail->bytes, .length = tail->piece.length},
		.offset = tail->piece.pool_offset,
	};

	return fs_transfer(fs, opcode, 0, &piece, 1);
}

static int zero_tail(struct file_inode *inode, uint64_t size, struct tail *tail)
{
	uint64_t length = FILE_UNIT - size % FILE_UNIT;
	struct fs_loss loss;
	int ret;

	tail->piece = length < FILE_UNIT ? piece_at(inode, size, length)
					 : (struct file_piece){.is_hole = true};
	if (tail->piece.is_hole)
		return 0;
	ret = move_tail(inode->fs, AFAR_OP_READ, tail);
	if (ret == 0)
		ret = fs_zero(inode->fs, tail->piece.pool_offset, tail->piece.length);
	/* Lost bytes never show again. */
	if (ret == -AFAR_ELOST &&
	    fs_find_loss(inode->fs, tail->piece.pool_offset, tail->piece.length, &loss)) {
		tail->piece.is_hole = true;
		return 0;
	}
	return ret;
}

/* Puts the tail back, because the file stays as it was; unless another session has taken it away, which
 * may be before we fail. Keeps the error. */
static int restore_tail(struct file_inode *inode, uint64_t size, struct tail *tail, int status)
{
	char why[ERROR_LINE_BYTES];
	struct file_piece now;

	if (tail->piece.is_hole)
		return status;
	strncpy(why, error_last_line(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	inode_forget(inode);
	if (inode_fetch(inode, size, 1) == 0 && size_of(inode) > size) {
		now = piece_at(inode, size, tail->piece.length);
		if (!now.is_hole && now.pool_offset == tail->piece.pool_offset)
			move_tail(inode->fs, AFAR_OP_WRITE, tail);
	}
	return error_fail(status, "%s", why);
}

enum cut {
	CUT,	      /* nothing had to be zeroed                      */
	CUT_ASKS,     /* others give the file up, and nothing else yet */
	CUT_GIVEN_UP, /* which they have; -EAGAIN: they have gone on   */
};

static int call_set_size(struct afar_file *file, const struct fs_who *who, uint64_t size,
			 enum cut cut)
{
	Afar__FileSet message = AFAR__FILE_SET__INIT;
	struct fs_answer answer;
	int ret;

	message.ino = file->inode->ino;
	message.mask = AFAR_SET_SIZE;
	message.size = size;
	message.handle = file->hold->handle;
	message.only_asks = cut == CUT_ASKS;
	message.is_given_up = cut == CUT_GIVEN_UP;
	ret = fs_change_one(file->fs, who, FILE_CHANGE(SET, set, &message), &answer);
	if (ret)
		return ret;
	ret = inode_retake(file->inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

/* Says no more of ends behind that one: a reclaim would make the file longer again. */
static void lower_ends(struct file_inode *inode, uint64_t size)
{
	pthread_mutex_lock(&inode->lock);
	if (inode->end > size)
		inode->end = size;
	if (inode->wanted > size)
		inode->wanted = size;
	pthread_mutex_unlock(&inode->lock);
}

/* A new end in the middle of a unit that has room has a tail behind it. */
static bool has_tail(struct file_inode *inode, uint64_t bytes)
{
	return bytes < size_of(inode) && bytes % FILE_UNIT != 0 &&
	       !piece_at(inode, bytes, 1).is_hole;
}

/* Others could write the tail after it was zeroed, and show that when the file grows again: they give the file up first.
 * -EAGAIN: they have gone on since, because all of this took too long. */
static int resize_once(struct afar_file *file, const struct fs_who *who, uint64_t bytes)
{
	struct file_inode *inode = file->inode;
	struct tail tail = {.piece.is_hole = true};
	enum cut cut = CUT;
	/* Others may have written. */
	int ret = inode_fetch(inode, bytes, 1);

	if (ret == 0 && has_tail(inode, bytes)) {
		cut = CUT_GIVEN_UP;
		ret = call_set_size(file, who, bytes, CUT_ASKS);
		if (ret == 0)
			ret = inode_fetch(inode, bytes, 1);
		if (ret == 0 && bytes < size_of(inode))
			ret = zero_tail(inode, bytes, &tail);
	}
	if (ret)
		return ret;
	lower_ends(inode, bytes);
	ret = call_set_size(file, who, bytes, cut);
	if (ret == 0)
		return 0;
	ret = restore_tail(inode, bytes, &tail, ret);
	/* It may have been done: then the room is another file's. */
	inode_forget(inode);
	return ret;
}

static int resize(struct afar_file *file, const struct fs_who *who, uint64_t bytes)
{
	int ret = -EAGAIN;

	for (unsigned i = 0; i < RESIZE_ROUNDS && ret == -EAGAIN; i++)
		ret = resize_once(file, who, bytes);
	return ret;
}

int file_resize(struct afar_file *file, const struct fs_who *who, uint64_t bytes)
{
	int ret;

	if (bytes > FILE_BYTES_MAX)
		return error_fail(-EFBIG, "make inode %llu %llu bytes long: a file can have %llu",
				  (unsigned long long)file->inode->ino, (unsigned long long)bytes,
				  (unsigned long long)FILE_BYTES_MAX);
	if (atomic_load(&file->inode->is_prepared) && bytes != 0)
		file_unprepare(file);
	ret = inode_shut(file->inode, inode_shut_deadline(file->inode));
	if (ret)
		return ret;
	ret = resize(file, who, bytes);
	inode_reopen(file->inode);
	return ret;
}

PUBLIC_CALL(int, afar_file_truncate, (struct afar_file *file, uint64_t bytes), (file, bytes))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = file_check(file, W_OK, "truncate");
	if (ret == 0)
		ret = file_resize(file, &file->who, bytes);
	handle_unuse(&file->handle);
	return ret;
}

/* ---- Allocating */

/* Zeroes what of a range has room. */
static int zero_range(struct file_inode *inode, uint64_t offset, uint64_t end)
{
	int ret = 0;

	while (offset < end && ret == 0) {
		const struct file_piece piece = piece_at(inode, offset, end - offset);

		if (!piece.is_hole)
			ret = inode_fail_lost(inode, "zero", offset, &piece,
					      fs_zero(inode->fs, piece.pool_offset, piece.length));
		offset += piece.length;
	}
	return ret;
}

/* `is_spare`: only if nobody has used it yet, in any session. */
static int call_punch(struct afar_file *file, uint64_t from, uint64_t to, bool is_spare)
{
	Afar__FilePunch message = AFAR__FILE_PUNCH__INIT;
	struct fs_answer answer;
	int ret;

	message.ino = file->inode->ino;
	message.offset = from * FILE_UNIT;
	message.length = (to - from) * FILE_UNIT;
	message.is_spare = is_spare;
	ret = fs_change_one(file->fs, &file->who, FILE_CHANGE(PUNCH, punch, &message), &answer);
	if (ret)
		return ret;
	ret = inode_retake(file->inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

/* The gate is shut. */
static int punch_units(struct afar_file *file, uint64_t from, uint64_t to, bool is_spare)
{
	int ret = call_punch(file, from, to, is_spare);

	/* It may have been done: then the room is another file's. */
	if (ret)
		inode_forget(file->inode);
	return ret;
}

void file_unprepare(struct afar_file *file)
{
	/* A thread that waits for others' operations here might be the one that should reap them. */
	if (inode_shut(file->inode, 0))
		return;
	if (atomic_exchange(&file->inode->is_prepared, false))
		punch_units(file, 0, 1, true);
	inode_reopen(file->inode);
}

/* Gives whole units back, and zeroes the rest of the range. The gate is shut. */
static int punch(struct afar_file *file, uint64_t offset, uint64_t end)
{
	struct file_inode *inode = file->inode;
	uint64_t from = file_units_up(offset), to = end / FILE_UNIT;
	int ret = inode_fetch(inode, offset, end - offset);

	if (ret == 0)
		ret = file_note_write(file);
	if (ret)
		return ret;
	/* The file's last unit goes as a whole if the range goes on behind the end. */
	if (end > size_of(inode))
		to = file_units_up(end);
	if (from >= to)
		return zero_range(inode, offset, end);
	ret = punch_units(file, from, to, false);
	/* Others may have made it shorter just before. */
	if (ret == 0)
		ret = inode_fetch(inode, offset, end - offset);
	if (ret == 0)
		ret = zero_range(inode, offset, from * FILE_UNIT);
	return ret == 0 ? zero_range(inode, to * FILE_UNIT, end) : ret;
}

static int make_room(struct afar_file *file, unsigned flags, uint64_t offset, uint64_t length)
{
	const struct afar_file_vector vector = {.offset = offset, .length = length};
	const struct file_wish wish = {
		.vectors = &vector,
		.nr = 1,
		.is_exact = true,
		.size = flags & AFAR_ALLOCATE_KEEP_SIZE ? 0 : offset + length,
	};
	int ret = inode_extend(file->inode, &wish);

	pthread_mutex_lock(&file->inode->lock);
	inode_note_range(file->inode, &vector);
	pthread_mutex_unlock(&file->inode->lock);
	return ret;
}

/* Zeroes what has room, and then makes room, which is zeros. The gate is shut. */
static int clear(struct afar_file *file, unsigned flags, uint64_t offset, uint64_t length)
{
	int ret = inode_fetch(file->inode, offset, length);

	if (ret == 0)
		ret = file_note_write(file);
	if (ret)
		return ret;
	ret = zero_range(file->inode, offset, offset + length);
	return ret == 0 ? make_room(file, flags, offset, length) : ret;
}

static int allocate(struct afar_file *file, unsigned flags, uint64_t offset, uint64_t length)
{
	struct file_inode *inode = file->inode;
	int ret;

	if (atomic_load(&inode->is_prepared))
		file_unprepare(file);
	if (!(flags & (AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_ZERO))) {
		inode_enter(inode);
		ret = make_room(file, flags, offset, length);
		inode_leave(inode);
		return ret;
	}
	ret = inode_shut(inode, inode_shut_deadline(inode));
	if (ret)
		return ret;
	ret = flags & AFAR_ALLOCATE_PUNCH ? punch(file, offset, offset + length)
					  : clear(file, flags, offset, length);
	inode_reopen(inode);
	return ret;
}

static int check_allocate(const struct afar_file *file, unsigned flags, uint64_t offset,
			  uint64_t length)
{
	int ret = file_check(file, W_OK, "allocate");

	if (ret)
		return ret;
	if (flags & ~ALLOCATE_FLAGS)
		return error_fail(-EOPNOTSUPP, "allocate: flags are unknown");
	if ((flags & AFAR_ALLOCATE_PUNCH) &&
	    (!(flags & AFAR_ALLOCATE_KEEP_SIZE) || (flags & AFAR_ALLOCATE_ZERO)))
		return error_fail(-EOPNOTSUPP, "punch a hole: AFAR_ALLOCATE_PUNCH goes with "
					       "AFAR_ALLOCATE_KEEP_SIZE, and with nothing else");
	if (length == 0)
		return error_fail(-EINVAL, "allocate 0 bytes");
	if (length > FILE_BYTES_MAX || offset > FILE_BYTES_MAX - length)
		return error_fail(-EFBIG, "allocate %llu bytes at %llu: a file can have %llu",
				  (unsigned long long)length, (unsigned long long)offset,
				  (unsigned long long)FILE_BYTES_MAX);
	return 0;
}

PUBLIC_CALL(int, afar_file_allocate,
	    (struct afar_file *file, unsigned flags, uint64_t offset, uint64_t length),
	    (file, flags, offset, length))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = check_allocate(file, flags, offset, length);
	if (ret == 0)
		ret = allocate(file, flags, offset, length);
	handle_unuse(&file->handle);
	return ret;
}

/* ---- Seeking */

/* Returns where data begins at `offset` or behind; the size: nowhere. The inode's lock is held. */
static uint64_t find_data(const struct file_inode *inode, uint64_t offset)
{
	const struct file_run *run = file_map_find(&inode->map, offset / FILE_UNIT);
	uint64_t begin = run ? run->unit * FILE_UNIT : inode->size;

	return begin > offset ? begin : offset;
}

static uint64_t find_hole(const struct file_inode *inode, uint64_t offset)
{
	while (offset < inode->size) {
		const struct file_piece piece =
			file_map_piece(&inode->map, offset, inode->size - offset);

		if (piece.is_hole)
			break;
		offset += piece.length;
	}
	return offset;
}

static int64_t seek(struct afar_file *file, uint64_t offset, bool is_hole)
{
	struct file_inode *inode = file->inode;
	uint64_t found;
	int64_t ret;

	inode_enter(inode);
	ret = inode_fetch(inode, offset, UINT64_MAX);
	inode_leave(inode);
	if (ret)
		return ret;
	pthread_mutex_lock(&inode->lock);
	found = is_hole ? find_hole(inode, offset) : find_data(inode, offset);
	ret = offset < inode->size && (is_hole || found < inode->size) ? (int64_t)found : -ENXIO;
	pthread_mutex_unlock(&inode->lock);
	return ret < 0 ? error_code((int)ret) : ret;
}

PUBLIC_CALL(int64_t, afar_file_seek, (struct afar_file *file, uint64_t offset, bool is_hole),
	    (file, offset, is_hole))
{
	int64_t ret = file_enter(file);

	if (ret)
		return ret;
	ret = file_check(file, 0, "seek in");
	if (ret == 0 && offset > FILE_BYTES_MAX)
		ret = error_code(-ENXIO);
	if (ret == 0)
		ret = seek(file, offset, is_hole);
	handle_unuse(&file->handle);
	return ret;
}
