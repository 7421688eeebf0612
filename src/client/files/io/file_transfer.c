/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing of files. */
#include "client/files/io/file_transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/blocking/merge.h"
#include "client/files/file.h"
#include "client/files/pool/fs_lost.h"
#include "client/target/same_host.h"

#define STALE_ROUNDS 16 /* a write is made again so often because the file was cut meanwhile */

/* ---- Plans */

#define HOLE UINT64_MAX /* the offset of a piece that is in no run */

void plan_init(struct plan *plan)
{
	plan->pieces = plan->first;
	plan->nr = 0;
	plan->max = PLAN_FIRST;
	plan_begin(plan, 0);
}

void plan_begin(struct plan *plan, uint64_t size)
{
	plan->size = size;
	plan->run = (struct plan_run){0};
	plan->has_holes = false;
}

void plan_free(struct plan *plan)
{
	if (plan->pieces != plan->first)
		free(plan->pieces);
}

static int make_room(struct plan *plan)
{
	struct target_piece *pieces;

	if (plan->nr < plan->max)
		return 0;
	if (plan->max > UINT_MAX / 2)
		return error_code(-EFBIG);
	pieces = calloc((size_t)plan->max * 2, sizeof(*pieces));
	if (!pieces)
		return error_code(-ENOMEM);
	memcpy(pieces, plan->pieces, plan->nr * sizeof(*pieces));
	plan_free(plan);
	plan->pieces = pieces;
	plan->max *= 2;
	return 0;
}

static struct plan_run find_run(const struct file_map *map, uint64_t offset, uint64_t size)
{
	const struct file_run *found = file_map_find(map, offset / FILE_UNIT);
	uint64_t begin = found ? found->unit * FILE_UNIT : UINT64_MAX;
	struct plan_run run = {.begin = offset, .end = begin, .is_hole = true};

	if (begin > offset)
		return run;
	run = (struct plan_run){.begin = begin,
				.end = begin + found->nr * FILE_UNIT,
				.pool_begin = found->pool_unit * FILE_UNIT};
	if (size > begin)
		run.reach = run.pool_begin + (size < run.end ? size : run.end) - begin;
	return run;
}

/* Adds the part of a range that is in one run, or in none, and takes it off the range. */
static int add_part(struct plan *plan, const struct file_map *map, struct afar_file_vector *left)
{
	struct plan_run *run = &plan->run;
	uint64_t length = left->length;
	int ret = make_room(plan);

	if (ret)
		return ret;
	if (left->offset < run->begin || left->offset >= run->end)
		*run = find_run(map, left->offset, plan->size);
	if (length > run->end - left->offset)
		length = run->end - left->offset;
	plan->pieces[plan->nr++] = (struct target_piece){
		.memory = {.addr = left->data, .length = length},
		.offset = run->is_hole ? HOLE : run->pool_begin + (left->offset - run->begin),
		.reach = run->reach,
	};
	plan->has_holes |= run->is_hole;
	left->data = (char *)left->data + length;
	left->offset += length;
	left->length -= length;
	return 0;
}

int plan_add(struct plan *plan, const struct file_map *map, const struct afar_file_vector *range)
{
	struct afar_file_vector left = *range;
	int ret = 0;

	while (left.length != 0 && ret == 0)
		ret = add_part(plan, map, &left);
	return ret;
}

void plan_fill_holes(struct plan *plan, unsigned from)
{
	unsigned nr = from;

	for (unsigned i = from; i < plan->nr; i++) {
		const struct target_piece *piece = &plan->pieces[i];

		if (piece->offset == HOLE)
			memset(piece->memory.addr, 0, piece->memory.length);
		else
			plan->pieces[nr++] = *piece;
	}
	plan->nr = nr;
}

/* Where in the file a piece is, by the range that its memory is of. */
static uint64_t offset_of(const struct target_piece *piece, const struct afar_file_vector *vectors,
			  unsigned nr)
{
	uintptr_t at = (uintptr_t)piece->memory.addr;

	for (unsigned i = 0; i < nr; i++) {
		uintptr_t begin = (uintptr_t)vectors[i].data;

		if (at >= begin && at - begin < vectors[i].length)
			return vectors[i].offset + (at - begin);
	}
	return 0;
}

int plan_fail(struct file_inode *inode, const char *verb, const struct target_piece *pieces,
	      unsigned nr_pieces, const struct afar_file_vector *vectors, unsigned nr, int status)
{
	for (unsigned i = 0; i < nr_pieces && status == -AFAR_ELOST; i++) {
		const struct file_piece piece = {.length = pieces[i].memory.length,
						 .pool_offset = pieces[i].offset};

		if (pieces[i].status == -AFAR_ELOST)
			status = inode_fail_lost(inode, verb, offset_of(&pieces[i], vectors, nr),
						 &piece, status);
	}
	return status;
}

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

/* ---- Ranges that touch */

/* Returns whether a range begins where another ends, in the file and in memory, and makes no transfer that is too long with it. */
static bool does_follow(const struct afar_file_vector *range, const struct afar_file_vector *before)
{
	return range->offset > before->offset && range->offset - before->offset == before->length &&
	       (char *)range->data == (char *)before->data + before->length &&
	       range->length <= MERGE_LENGTH_MAX - before->length;
}

/* Joins ranges that follow each other. Returns how many are left. `out`: NULL: only counts. */
static unsigned join(const struct afar_file_vector *vectors, unsigned nr,
		     struct afar_file_vector *out)
{
	struct afar_file_vector last = vectors[0];
	unsigned nr_out = 0;

	for (unsigned i = 1; i < nr; i++) {
		if (last.length <= MERGE_LENGTH_MAX && does_follow(&vectors[i], &last)) {
			last.length += vectors[i].length;
			continue;
		}
		if (out)
			out[nr_out] = last;
		nr_out++;
		last = vectors[i];
	}
	if (out)
		out[nr_out] = last;
	return nr_out + 1;
}

/* Joins the ranges of a list, if that leaves half of them at most. Returns the memory of the joined ones, or NULL if the list
 * stays as it is. */
static struct afar_file_vector *join_ranges(const struct afar_file_vector **vectors, unsigned *nr)
{
	struct afar_file_vector *joined = NULL;
	unsigned nr_joined = *nr > 1 ? join(*vectors, *nr, NULL) : *nr;

	if (nr_joined <= *nr / 2)
		joined = malloc(nr_joined * sizeof(*joined));
	if (!joined)
		return NULL;
	*nr = join(*vectors, *nr, joined);
	*vectors = joined;
	return joined;
}

/* ---- Near bytes */

struct same_host_range {
	const struct afar_file *file;
	uint64_t offset, length;
	bool is_write;
};

/* Within an epoch section: the file stays as long as its handle is open, and the glance as it is. */
static bool find_same_host(const void *argument, uint64_t *pool_offset)
{
	const struct same_host_range *range = argument;
	const struct afar_file *file = range->file;

	if (handle_is_shut(&file->handle) ||
	    !glance_find(&file->inode->glance, range->offset, range->length, pool_offset))
		return false;
	if (!range->is_write)
		return true;
	/* The first write since a sync notes more, and one to what others keep notes that it has arrived. */
	if (!atomic_load_explicit(&file->inode->is_unsynced, memory_order_relaxed) ||
	    atomic_load_explicit(&file->inode->kept, memory_order_relaxed) != INODE_NOT_KEPT)
		return false;
	inode_touch(file->inode);
	return true;
}

/* Moves bytes that are on this host, in the run that was used last. False: it has to go the long way. */
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
		*is_known &= range.length == vectors[i].length;
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
	if (nr == 1 && ret > 0)
		inode_set_glance(inode, vectors[0].offset);
	pthread_mutex_unlock(&inode->lock);
	return ret;
}

ssize_t file_read(struct afar_file *file, const struct afar_file_vector *vectors, unsigned nr)
{
	struct afar_file_vector *joined = join_ranges(&vectors, &nr);
	struct file_inode *inode = file->inode;
	struct plan plan;
	ssize_t sum;
	int ret = 0;

	plan_init(&plan);
	inode_enter(inode);
	sum = plan_known(&plan, inode, vectors, nr);
	if (sum > 0) {
		plan_fill_holes(&plan, 0);
		ret = fs_transfer(file->fs, AFAR_OP_READ, 0, plan.pieces, plan.nr);
		ret = plan_fail(inode, "read", plan.pieces, plan.nr, vectors, nr, ret);
	}
	inode_leave(inode);
	plan_free(&plan);
	free(joined);
	return ret ? ret : sum;
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
	if (ret == 0 && writing->nr == 1)
		inode_set_glance(inode, writing->vectors[0].offset);
	writing->layout = inode->layout;
	writing->has_grown = writing->end > inode->size;
	for (unsigned i = 0; i < writing->nr && ret == 0; i++)
		file_ahead_note(&inode->ahead, writing->vectors[i].offset,
				writing->vectors[i].length);
	if (ret == 0 && uses_first_unit(writing))
		atomic_store(&inode->is_prepared, false);
	pthread_mutex_unlock(&inode->lock);
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
		ret = fs_transfer(file->fs, AFAR_OP_WRITE, is_durable ? AFAR_OP_DURABLE : 0,
				  writing->plan.pieces, writing->plan.nr);
		inode_note_write(inode);
		inode_note_arrival(inode);
		ret = plan_fail(inode, "write", writing->plan.pieces, writing->plan.nr,
				writing->vectors, writing->nr, ret);
	}
	if (ret == 0 && writing->has_grown)
		ret = inode_tell_end(inode, writing->end, writing->layout);
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
	int ret;

	if (atomic_load(&file->inode->is_prepared) && !uses_first_unit(writing))
		file_unprepare(file);
	plan_init(&writing->plan);
	for (unsigned i = 0; i < STALE_ROUNDS; i++) {
		ret = write_once(writing);
		if (ret != -ESTALE)
			break;
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
		    bool is_durable)
{
	struct afar_file_vector *joined = join_ranges(&vectors, &nr);
	struct writing writing = {
		.file = file,
		.vectors = vectors,
		.nr = nr,
		.is_durable = is_durable || file->flags & (O_DSYNC | O_SYNC),
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
	int ret;

	if (!placed)
		return error_code(-ENOMEM);
	pthread_mutex_lock(&inode->appending);
	ret = inode_begin_append(inode);
	if (ret)
		goto out_free;
	pthread_mutex_lock(&inode->lock);
	offset = *at = inode->size;
	for (unsigned i = 0; i < nr; i++) {
		placed[i] = vectors[i];
		placed[i].offset = offset;
		offset += vectors[i].length;
	}
	inode->appending_to = offset;
	pthread_mutex_unlock(&inode->lock);
	ret = write_at(file, placed, nr, is_durable);
	pthread_mutex_lock(&inode->lock);
	inode->appending_to = 0;
	pthread_mutex_unlock(&inode->lock);
	inode_end_append(inode, is_more && ret == 0);
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
					 : write_at(file, vectors, nr, is_durable);

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
