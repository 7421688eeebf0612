/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing of files. */
#include "client/files/io/file_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/io/file_join.h"
#include "client/files/io/fs_ends.h"
#include "client/files/io/fs_extend.h"
#include "client/files/pool/fs_lost.h"
#include "client/target/same_host.h"

#define STALE_ROUNDS 16 /* a write is made again so often because the file was cut meanwhile */

/* ---- What both directions check */

static int check_vectors(const struct afar_file *file, const char *verb,
			 const struct afar_file_vector *vectors, unsigned nr)
{
	uint64_t sum = 0;

	if (!vectors && nr != 0)
		return error_fail(-EINVAL, "%s a file: the ranges are null", verb);
	for (unsigned i = 0; i < nr; i++) {
		if (!vectors[i].data && vectors[i].length != 0)
			return error_fail(-EINVAL, "%s inode %llu: the memory is null", verb,
					  (unsigned long long)file->inode->ino);
		if (__builtin_add_overflow(sum, vectors[i].length, &sum) || sum > SSIZE_MAX)
			return error_fail(-EINVAL, "%s inode %llu: more than %lld bytes at once",
					  verb, (unsigned long long)file->inode->ino,
					  (long long)SSIZE_MAX);
	}
	return 0;
}

/* ---- Near bytes */

struct same_host_range {
	const struct afar_file *file;
	uint64_t offset, length;
	bool is_write;
};

/* Within an epoch section: the file stays as long as its handle is open, and so does the view. */
static bool find_same_host(const void *argument, uint64_t *pool_offset)
{
	const struct same_host_range *range = argument;
	const struct afar_file *file = range->file;
	struct file_inode *inode = file->inode;
	struct file_view *view;

	if (handle_is_shut(&file->handle))
		return false;
	view = atomic_load_explicit(&inode->view, memory_order_acquire);
	if (!view ||
	    !range_is_inside(range->offset, range->length,
			     atomic_load_explicit(&view->size, memory_order_relaxed)) ||
	    view_find(view, range->offset, range->length, pool_offset) != range->length)
		return false;
	if (!range->is_write)
		return true;
	/* The first write since a sync notes more, and one to what others keep, or was read ahead, notes that it has arrived. */
	if (!inode_has_noted_write(inode, range->offset) ||
	    file_around_may_have(&inode->around, range->offset, range->length) ||
	    streams_are_there(&inode->streams) ||
	    atomic_load_explicit(&inode->kept, memory_order_relaxed) != INODE_NOT_KEPT)
		return false;
	inode_touch(inode);
	return true;
}

/* Moves bytes that are on this host, in one run. False: it has to go the long way. */
static bool move_same_host(struct afar_file *file, void *data, size_t length, uint64_t offset,
			   bool is_write)
{
	const struct same_host_range range = {file, offset, length, is_write};
	uint32_t access = is_write ? W_OK : R_OK;

	if (!data || length == 0 || length > NEAR_CHOSEN_MAX || !(file->access & access) ||
	    (is_write && (file->flags & (O_APPEND | O_DSYNC | O_SYNC))))
		return false;
	return same_host_transfer_chosen(fs_pool(file->fs), is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
					 data, length, find_same_host, &range);
}

/* ---- Reading */

/* Returns how much of a range is inside so many bytes. */
static uint64_t inside(const struct afar_file_vector *vector, uint64_t bytes)
{
	if (vector->offset >= bytes)
		return 0;
	return vector->length < bytes - vector->offset ? vector->length : bytes - vector->offset;
}

/* Returns whether the file ends now where we know it to end: else another session may have made it longer. */
static bool ends_there(const struct file_inode *inode)
{
	uint64_t size;

	return attr_cache_size(&inode->fs->attr_cache, inode->ino, &size) && size == inode->size;
}

/* Plans what is inside the file. Returns how many bytes that is. `is_known`: set: that is all, and it is in runs. The
 * inode's lock is held. */
static ssize_t plan_read(struct plan *plan, const struct file_inode *inode,
			 const struct afar_file_vector *vectors, unsigned nr, bool *is_known)
{
	ssize_t sum = 0;

	plan->nr = 0;
	plan_begin(plan, inode->size);
	*is_known = true;
	for (unsigned i = 0; i < nr; i++) {
		struct afar_file_vector range = vectors[i];
		int ret;

		range.length = inside(&vectors[i], inode->size);
		*is_known &= range.length == vectors[i].length || ends_there(inode);
		ret = plan_add(plan, &inode->map, &range);
		if (ret)
			return ret;
		sum += (ssize_t)range.length;
	}
	*is_known &= !plan->has_holes;
	return sum;
}

/* Asks the manager about ranges, because others may have written there. */
static int fetch(struct file_inode *inode, const struct afar_file_vector *vectors, unsigned nr)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < nr; i++) {
		uint64_t length = inside(&vectors[i], FILE_BYTES_MAX);

		if (vectors[i].offset < begin)
			begin = vectors[i].offset;
		if (vectors[i].offset + length > end)
			end = vectors[i].offset + length;
	}
	return begin < end ? inode_fetch(inode, begin, end - begin) : 0;
}

static ssize_t plan_known(struct plan *plan, struct file_inode *inode,
			  const struct afar_file_vector *vectors, unsigned nr)
{
	bool is_known;
	ssize_t ret;

	pthread_mutex_lock(&inode->lock);
	ret = plan_read(plan, inode, vectors, nr, &is_known);
	if (ret >= 0 && !is_known) {
		pthread_mutex_unlock(&inode->lock);
		ret = fetch(inode, vectors, nr);
		if (ret)
			return ret;
		pthread_mutex_lock(&inode->lock);
		ret = plan_read(plan, inode, vectors, nr, &is_known);
	}
	pthread_mutex_unlock(&inode->lock);
	return ret;
}

/* Reads from inside the gate. `is_once`: does not try again while servers cannot be reached. */
static ssize_t read_inside(struct file_inode *inode, const struct afar_file_vector *vectors,
			   unsigned nr, bool is_once)
{
	struct afar_file_vector *joined = file_join(&vectors, &nr);
	struct plan plan;
	ssize_t sum;
	int ret = 0;

	plan_init(&plan);
	sum = plan_known(&plan, inode, vectors, nr);
	/* A file may be closed while it is read ahead. Then nobody uses views of the inode. */
	if (nr == 1 && sum > 0 && !is_once)
		inode_show_near(inode);
	if (sum > 0) {
		plan_fill_holes(&plan, 0);
		ret = is_once ? target_transfer_pieces(fs_pool(inode->fs), AFAR_OP_READ, 0,
						       plan.pieces, plan.nr)
			      : fs_transfer(inode->fs, AFAR_OP_READ, 0, plan.pieces, plan.nr);
		ret = plan_fail(inode, "read", plan.pieces, plan.nr, vectors, nr, ret);
	}
	plan_free(&plan);
	free(joined);
	return ret ? ret : sum;
}

ssize_t file_read(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr)
{
	ssize_t ret;

	inode_enter(file->inode);
	ret = read_inside(file->inode, vectors, nr, false);
	inode_leave(file->inode);
	return ret;
}

static bool is_all_known(struct file_inode *inode, const struct afar_file_vector *vector)
{
	uint64_t length;
	bool is;

	pthread_mutex_lock(&inode->lock);
	length = inside(vector, inode->size);
	is = file_map_covers(&inode->map, vector->offset, length) &&
	     (length == vector->length || ends_there(inode));
	pthread_mutex_unlock(&inode->lock);
	return is;
}

static ssize_t read_once(struct file_inode *inode, void *data, size_t length, uint64_t offset)
{
	const struct afar_file_vector vector = {.offset = offset, .data = data, .length = length};
	ssize_t ret = 0;

	if (!inode_try_enter(inode))
		return 0;
	if (is_all_known(inode, &vector))
		ret = read_inside(inode, &vector, 1, true);
	inode_leave(inode);
	return ret;
}

static ssize_t read_entered(struct afar_file *file, const struct afar_file_vector *vectors,
			    unsigned nr)
{
	ssize_t ret = file_check(file, R_OK, "read");

	if (ret == 0)
		ret = check_vectors(file, "read", vectors, nr);
	return ret ? ret : file_read(file, vectors, nr);
}

PUBLIC_CALL(ssize_t, afar_file_readx,
	    (struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr),
	    (file, vectors, nr))
{
	ssize_t ret = file_enter(file);

	if (ret)
		return ret;
	ret = read_entered(file, vectors, nr);
	handle_unuse(&file->handle);
	return ret;
}

PUBLIC_CALL(ssize_t, afar_file_pread,
	    (struct afar_file *file, void *data, size_t length, uint64_t offset),
	    (file, data, length, offset))
{
	const struct afar_file_vector vector = {.offset = offset, .data = data, .length = length};
	ssize_t ret = file_check_handle(file);

	if (ret)
		return ret;
	if (move_same_host(file, data, length, offset, false))
		return (ssize_t)length;
	ret = file_enter(file);
	if (ret)
		return ret;
	if (file_is_streamed(file) && file_stream_read(file, data, length, offset, read_once))
		ret = (ssize_t)length;
	else
		ret = read_entered(file, &vector, 1);
	handle_unuse(&file->handle);
	return ret;
}

/* ---- Writing */

struct writing {
	struct afar_file *file;
	const struct afar_file_vector *vectors;
	unsigned nr;
	uint64_t end;	 /* of the last range */
	uint64_t layout; /* that the plan goes by */
	bool has_grown;	 /* the file, as far as we know */
	bool is_durable; /* on flash, when it is done */
	bool is_append;
	struct plan plan;
};

static bool uses_first_unit(const struct writing *writing)
{
	for (unsigned i = 0; i < writing->nr; i++)
		if (writing->vectors[i].length != 0 && writing->vectors[i].offset < FILE_UNIT)
			return true;
	return false;
}

/* Plans all ranges, if the map covers them; else -EAGAIN. */
static int plan_write(struct writing *writing)
{
	struct file_inode *inode = writing->file->inode;
	int ret = 0;

	writing->plan.nr = 0;
	plan_begin(&writing->plan, 0);
	pthread_mutex_lock(&inode->lock);
	for (unsigned i = 0; i < writing->nr && ret == 0; i++) {
		ret = plan_add(&writing->plan, &inode->map, &writing->vectors[i]);
		if (ret == 0 && writing->plan.has_holes)
			ret = -EAGAIN;
	}
	for (unsigned i = 0; i < writing->nr && ret == 0; i++)
		inode_note_range(inode, &writing->vectors[i]);
	writing->layout = inode->layout;
	writing->has_grown = writing->end > inode->size;
	if (ret == 0 && uses_first_unit(writing))
		atomic_store(&inode->is_prepared, false);
	pthread_mutex_unlock(&inode->lock);
	if (ret == 0 && writing->nr == 1)
		inode_show_near(inode);
	return ret;
}

/* Makes room for what has none, and plans. */
static int make_covered(struct writing *writing)
{
	const struct file_wish wish = {.vectors = writing->vectors, .nr = writing->nr};
	struct file_inode *inode = writing->file->inode;
	int ret = plan_write(writing);

	if (ret != -EAGAIN)
		return ret;
	ret = inode_extend(inode, &wish);
	if (ret == 0)
		ret = plan_write(writing);
	if (ret == -EAGAIN) /* in more runs than one answer has */
		ret = fetch(inode, writing->vectors, writing->nr);
	else
		return ret;
	if (ret == 0)
		ret = plan_write(writing);
	return ret == -EAGAIN ? error_fail(-AFAR_EMALFORMED,
					   "write inode %llu: the manager made no "
					   "room, and says that it did",
					   (unsigned long long)inode->ino)
			      : ret;
}

/* Bytes have arrived, or may have: what was read ahead there is old. */
static void drop_ahead(const struct writing *writing)
{
	struct streams *streams = &writing->file->inode->streams;

	for (unsigned i = 0; i < writing->nr && streams_are_there(streams); i++)
		streams_drop(streams, writing->vectors[i].offset, writing->vectors[i].length);
}

/* Moves the bytes, and with them the end of the file, if that is ours: then the manager need not be told. */
static int move(struct writing *writing, uint32_t flags)
{
	struct file_inode *inode = writing->file->inode;
	struct plan *plan = &writing->plan;
	struct end_claim claim;
	int ret = -EAGAIN;

	if (writing->has_grown && end_begin_claim(inode, writing->end, writing->layout, &claim)) {
		ret = plan_add_piece(plan, end_piece(&claim));
		if (ret == 0) {
			ret = target_transfer_pieces(fs_pool(inode->fs), AFAR_OP_WRITE, flags,
						     plan->pieces, plan->nr);
			plan->nr--;
		}
		end_claimed(inode, &claim, ret);
	}
	/* The server of the slot may be away, and that of the bytes not. */
	return ret ? fs_transfer(inode->fs, AFAR_OP_WRITE, flags, plan->pieces, plan->nr) : 0;
}

/* Writes once. -ESTALE: the file was made shorter meanwhile, so it has to be done again. */
static int write_once(struct writing *writing)
{
	struct afar_file *file = writing->file;
	struct file_inode *inode = file->inode;
	bool is_durable = fs_pool(file->fs)->is_flash && writing->is_durable;
	int ret;

	inode_enter(inode);
	ret = make_covered(writing);
	if (ret == 0)
		ret = file_note_write(file);
	if (ret == 0) {
		ret = move(writing, is_durable ? AFAR_OP_DURABLE : 0);
		inode_note_write(inode);
		inode_note_arrival(inode);
		drop_ahead(writing);
		ret = plan_fail(inode, "write", writing->plan.pieces, writing->plan.nr,
				writing->vectors, writing->nr, ret);
	}
	if (ret == 0 && writing->has_grown)
		ret = inode_tell_end(inode, writing->end, writing->layout);
	if (writing->is_append) /* the end is given to others only when it is told */
		end_end_append(inode);
	if (ret == -ESTALE) {
		int fetched = fetch(inode, writing->vectors, writing->nr);

		ret = fetched ? fetched : -ESTALE;
	}
	inode_leave(inode);
	return ret;
}

static int write_all(struct writing *writing)
{
	struct afar_file *file = writing->file;
	bool has_given = false;
	int ret;

	if (atomic_load(&file->inode->is_prepared) && !uses_first_unit(writing))
		file_unprepare(file);
	plan_init(&writing->plan);
	for (unsigned i = 0; i < STALE_ROUNDS; i++) {
		ret = write_once(writing);
		if (ret == -ESTALE)
			continue;
		/* There is room that this file has, and has no use for. */
		if ((ret != -ENOSPC && ret != -EDQUOT) || has_given || !file_give_back(file))
			break;
		has_given = true;
	}
	plan_free(&writing->plan);
	if (ret == 0 && writing->has_grown && writing->is_durable)
		ret = file_commit(file);
	return ret;
}

/* Finds the end of the ranges. */
static int find_end(struct writing *writing)
{
	writing->end = 0;
	for (unsigned i = 0; i < writing->nr; i++) {
		const struct afar_file_vector *vector = &writing->vectors[i];

		if (vector->length == 0)
			continue;
		if (inside(vector, FILE_BYTES_MAX) != vector->length)
			return error_fail(-EFBIG,
					  "write %zu bytes at %llu of inode %llu: a file can have "
					  "%llu",
					  vector->length, (unsigned long long)vector->offset,
					  (unsigned long long)writing->file->inode->ino,
					  (unsigned long long)FILE_BYTES_MAX);
		if (vector->offset + vector->length > writing->end)
			writing->end = vector->offset + vector->length;
	}
	return 0;
}

static int write_at(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr,
		    bool is_durable, bool is_append)
{
	struct afar_file_vector *joined = file_join(&vectors, &nr);
	struct writing writing = {
		.file = file,
		.vectors = vectors,
		.nr = nr,
		.is_durable = is_durable || file->flags & (O_DSYNC | O_SYNC),
		.is_append = is_append,
	};
	int ret = find_end(&writing);

	if (ret == 0 && writing.end != 0)
		ret = write_all(&writing);
	free(joined);
	return ret;
}

/* Writes the ranges one behind another at the end of the file, whatever their offsets. `at`: where that was. */
static int append(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr,
		  bool is_durable, bool is_more, uint64_t *at)
{
	struct file_inode *inode = file->inode;
	struct afar_file_vector *placed = calloc((size_t)nr + 1, sizeof(*placed));
	uint64_t offset;
	bool is_ours;
	int ret = 0;

	if (!placed)
		return error_code(-ENOMEM);
	pthread_mutex_lock(&inode->appending);
	pthread_mutex_lock(&inode->lock);
	/* Between the parts of what belongs together the manager alone keeps others out. */
	is_ours = !is_more && !inode->appends_more && end_begin_append(inode);
	if (!is_ours) {
		pthread_mutex_unlock(&inode->lock);
		ret = inode_begin_append(inode);
		if (ret)
			goto out_free;
		pthread_mutex_lock(&inode->lock);
	}
	offset = *at = inode->size;
	for (unsigned i = 0; i < nr; i++) {
		placed[i] = vectors[i];
		placed[i].offset = offset;
		offset += vectors[i].length;
	}
	inode->appending_to = offset;
	pthread_mutex_unlock(&inode->lock);
	ret = write_at(file, placed, nr, is_durable, is_ours);
	pthread_mutex_lock(&inode->lock);
	inode->appending_to = 0;
	pthread_mutex_unlock(&inode->lock);
	inode->appends_more = is_more && ret == 0;
	if (is_ours)
		end_end_append(inode);
	else
		inode_end_append(inode, inode->appends_more);
out_free:
	pthread_mutex_unlock(&inode->appending);
	free(placed);
	return ret;
}

ssize_t file_write(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr,
		   bool is_durable)
{
	ssize_t sum = 0;
	uint64_t at;
	int ret = file->flags & O_APPEND ? append(file, vectors, nr, is_durable, false, &at)
					 : write_at(file, vectors, nr, is_durable, false);

	for (unsigned i = 0; i < nr; i++)
		sum += (ssize_t)vectors[i].length;
	return ret ? ret : sum;
}

static ssize_t write_entered(struct afar_file *file, const struct afar_file_vector *vectors,
			     unsigned nr)
{
	ssize_t ret = file_check(file, W_OK, "write");

	if (ret == 0)
		ret = check_vectors(file, "write", vectors, nr);
	return ret ? ret : file_write(file, vectors, nr, false);
}

PUBLIC_CALL(ssize_t, afar_file_writex,
	    (struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr),
	    (file, vectors, nr))
{
	ssize_t ret = file_enter(file);

	if (ret)
		return ret;
	ret = write_entered(file, vectors, nr);
	handle_unuse(&file->handle);
	return ret;
}

PUBLIC_CALL(ssize_t, afar_file_pwrite,
	    (struct afar_file *file, const void *data, size_t length, uint64_t offset),
	    (file, data, length, offset))
{
	const struct afar_file_vector vector = {
		.offset = offset, .data = (void *)data, .length = length};
	ssize_t ret = file_check_handle(file);

	if (ret)
		return ret;
	if (move_same_host(file, (void *)data, length, offset, true))
		return (ssize_t)length;
	ret = file_enter(file);
	if (ret)
		return ret;
	ret = write_entered(file, &vector, 1);
	handle_unuse(&file->handle);
	return ret;
}

PUBLIC_CALL(ssize_t, afar_file_append,
	    (struct afar_file *file, const void *data, size_t length, unsigned flags,
	     uint64_t *out_offset),
	    (file, data, length, flags, out_offset))
{
	const struct afar_file_vector vector = {.data = (void *)data, .length = length};
	uint64_t offset = 0;
	int ret;

	if (flags & ~AFAR_APPEND_MORE)
		return error_fail(-EINVAL, "append: flags are unknown");
	ret = file_enter(file);
	if (ret)
		return ret;
	ret = file_check(file, W_OK, "append");
	if (ret == 0)
		ret = check_vectors(file, "append", &vector, 1);
	if (ret == 0)
		ret = append(file, &vector, 1, false, flags & AFAR_APPEND_MORE, &offset);
	if (ret == 0 && out_offset)
		*out_offset = offset;
	handle_unuse(&file->handle);
	return ret ? ret : (ssize_t)length;
}
