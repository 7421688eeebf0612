/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that grow: getting room for them, and telling the manager how far they have been written. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/files/inode/fs_call.h"
#include "client/files/io/fs_ends.h"
#include "client/files/io/fs_extend.h"
#include "rpc/manager_features.h"

#define EXTEND_ROUNDS 64		  /* others may take what we made the pool larger for */
#define RANGES_MAX    4096U		  /* that a manager takes at once */
#define EXTEND_BYTES  ((uint64_t)1 << 30) /* at once: a file may have a stripe for each 64 KiB */

/* ---- Room */

static bool covers(struct file_inode *inode, const struct afar_file_vector *vector)
{
	bool is_covered;

	pthread_mutex_lock(&inode->lock);
	is_covered = file_map_covers(&inode->map, vector->offset, vector->length);
	pthread_mutex_unlock(&inode->lock);
	return is_covered;
}

struct extension {
	struct file_inode *inode;
	Afar__FileExtend extends[FS_CALL_MAX];
	Afar__FileChange operations[FS_CALL_MAX];
	Afar__FileChange *list[FS_CALL_MAX];
	unsigned nr;
	uint64_t bytes;	  /* that the failed ones need */
	bool is_anywhere; /* room of servers that are away will do */
	bool may_stray;	  /* so will room that is not where the file's layout says */
};

/* Adds an operation. The caller says which room it is to make. */
static Afar__FileExtend *add_operation(struct extension *extension, const struct file_wish *wish)
{
	unsigned i = extension->nr++;
	Afar__FileExtend *extend = &extension->extends[i];

	afar__file_extend__init(extend);
	extend->ino = extension->inode->ino;
	extend->is_exact = wish->is_exact;
	extend->size = wish->size;
	extend->gives_back = true;
	extend->wants_end =
		session_has_feature(extension->inode->fs->ns->session, RPC_FEATURE_ENDS);
	pthread_mutex_lock(&extension->inode->lock);
	extend->ahead_to = extension->inode->ahead.to;
	extend->ahead_used = extension->inode->ahead.nr_written;
	if (i == 0)
		extend->extra_used = extension->inode->around.nr_written;
	pthread_mutex_unlock(&extension->inode->lock);
	afar__file_change__init(&extension->operations[i]);
	extension->operations[i].what_case = AFAR__FILE_CHANGE__WHAT_EXTEND;
	extension->operations[i].extend = extend;
	extension->list[i] = &extension->operations[i];
	return extend;
}

static uint64_t bytes_of(const Afar__FileExtend *extend)
{
	uint64_t bytes = extend->length + 2 * FILE_UNIT;

	for (size_t i = 1; i < extend->n_ranges; i += 2)
		bytes += extend->ranges[i] * FILE_UNIT;
	return bytes;
}

static void take_ahead(struct file_inode *inode, const Afar__FileResult *result)
{
	pthread_mutex_lock(&inode->lock);
	file_ahead_begin(&inode->ahead, result->ahead_from, result->ahead_to);
	pthread_mutex_unlock(&inode->lock);
}

static int check_extra(const Afar__FileResult *result)
{
	const uint64_t *extra = result->extra, units_max = FILE_BYTES_MAX / FILE_UNIT;

	for (size_t i = 0; i < result->n_extra; i += 2)
		if (i + 1 == result->n_extra || extra[i] > units_max || extra[i + 1] > units_max)
			return error_fail(-AFAR_EMALFORMED,
					  "make room for inode %llu: the manager gave more than a "
					  "file can have",
					  (unsigned long long)result->attributes->ino);
	return 0;
}

/* Another thread may have asked where bytes are, and have written there before we come to this. So units that the map has count as
 * written. The lock is held. */
static void add_unknown(struct file_inode *inode, uint64_t unit, uint64_t nr)
{
	uint64_t offset = unit * FILE_UNIT, end = (unit + nr) * FILE_UNIT;

	while (offset < end) {
		struct file_piece piece = file_map_piece(&inode->map, offset, end - offset);

		if (piece.is_hole)
			file_around_add(&inode->around, offset / FILE_UNIT,
					(offset + piece.length) / FILE_UNIT);
		offset += piece.length;
	}
}

/* Comes before the runs are taken: others may write there from then on. */
static void take_extra(struct file_inode *inode, Afar__FileExtend *extend,
		       const Afar__FileResult *result)
{
	pthread_mutex_lock(&inode->lock);
	file_around_told(&inode->around, extend->extra_used, result->alone);
	/* The call may be made again. */
	extend->extra_used = 0;
	if (result->attributes->layout == inode->layout)
		for (size_t i = 0; i < result->n_extra; i += 2)
			add_unknown(inode, result->extra[i], result->extra[i + 1]);
	pthread_mutex_unlock(&inode->lock);
}

static int take_result(struct file_inode *inode, Afar__FileExtend *extend,
		       const Afar__FileResult *result)
{
	int ret = fs_result_fail(result);

	if (ret == 0)
		ret = fs_check_attributes(result->attributes);
	if (ret == 0)
		ret = check_extra(result);
	if (ret)
		return ret;
	take_extra(inode, extend, result);
	ret = inode_take(inode, result);
	return ret == 0 && result->slot != 0 ? end_take_slot(inode, result->slot) : ret;
}

/* Asks once. -ENOSPC: some found no room. */
static int extend_once(struct extension *extension)
{
	struct fs_answer answer;
	int ret, full = 0;

	for (unsigned i = 0; i < extension->nr; i++) {
		extension->extends[i].is_anywhere = extension->is_anywhere;
		extension->extends[i].may_stray = extension->may_stray;
	}
	ret = fs_change(extension->inode->fs, NULL, extension->list, extension->nr, &answer);
	if (ret)
		return ret;
	extension->bytes = 0;
	for (unsigned i = 0; i < extension->nr && ret == 0; i++) {
		if (answer.results[i]->status == -ENOSPC) {
			full = fs_result_fail(answer.results[i]);
			extension->bytes += bytes_of(&extension->extends[i]);
			continue;
		}
		ret = take_result(extension->inode, &extension->extends[i], answer.results[i]);
		if (ret == 0)
			take_ahead(extension->inode, answer.results[i]);
	}
	fs_answer_free(&answer);
	return ret ? ret : full;
}

static int extend_some(struct extension *extension)
{
	struct afar_fs *fs = extension->inode->fs;
	char why[ERROR_LINE_BYTES] = "";
	int ret = 0, full = 0;

	extension->is_anywhere = extension->may_stray = false;
	atomic_store(&extension->inode->has_grown, true);
	for (unsigned i = 0; i < EXTEND_ROUNDS; i++) {
		uint64_t pool_bytes = fs_pool(fs)->length;

		ret = extend_once(extension);
		if (ret != -ENOSPC)
			return ret;
		if (full)
			return error_fail(full, "%s", why);
		full = fs_grow(fs, pool_bytes, extension->bytes);
		/* Servers that are away may have room: who writes there waits for them. */
		extension->is_anywhere = full != 0;
		/* The pool has not grown where the file should be, or others are quicker: it is not to take the whole cluster. */
		extension->may_stray = full != 0 || i > 0;
		if (full)
			snprintf(why, sizeof(why), "%s", error_last_line());
	}
	return error_fail(-ENOSPC,
			  "make a file of '%s' longer: others take all room that its pool gets",
			  fs->ns->name);
}

/* Asks again while room may come back of what was removed just now. */
static int extend_patiently(struct extension *extension)
{
	unsigned nr = 0;
	int ret;

	do {
		ret = extend_some(extension);
	} while (used_again(extension->inode->fs, ret, &nr));
	return ret;
}

/* The thread that extended before us may have got more than it needed. */
static bool is_there(struct file_inode *inode, const struct file_wish *wish,
		     const struct afar_file_vector *vector)
{
	return vector->length == 0 || (wish->size == 0 && covers(inode, vector));
}

/* An operation for each range. */
static int extend_each(struct extension *extension, const struct file_wish *wish)
{
	int ret = 0;

	for (unsigned i = 0; i < wish->nr && ret == 0; i++) {
		const struct afar_file_vector *vector = &wish->vectors[i];
		Afar__FileExtend *extend;

		if (is_there(extension->inode, wish, vector))
			continue;
		extend = add_operation(extension, wish);
		extend->offset = vector->offset;
		extend->length = vector->length;
		if (extension->nr < FS_CALL_MAX)
			continue;
		ret = extend_patiently(extension);
		extension->nr = 0;
	}
	return ret == 0 && extension->nr != 0 ? extend_patiently(extension) : ret;
}

/* Some units: where they begin, and how many they are. */
struct range {
	uint64_t from, nr;
};

static int compare_ranges(const void *left, const void *right)
{
	uint64_t a = ((const struct range *)left)->from, b = ((const struct range *)right)->from;

	return (a > b) - (a < b);
}

/* Joins those that touch or overlap. They ascend. Returns how many are left. */
static size_t join_ranges(struct range *ranges, size_t nr)
{
	size_t last = 0;

	for (size_t i = 1; i < nr; i++) {
		uint64_t behind = ranges[last].from + ranges[last].nr;
		uint64_t end = ranges[i].from + ranges[i].nr;

		if (ranges[i].from > behind)
			ranges[++last] = ranges[i];
		else if (end > behind)
			ranges[last].nr = end - ranges[last].from;
	}
	return nr != 0 ? last + 1 : 0;
}

/* Lists the units that a wish lacks. */
static size_t find_ranges(struct file_inode *inode, const struct file_wish *wish,
			  struct range *ranges)
{
	size_t nr = 0;

	for (unsigned i = 0; i < wish->nr; i++) {
		const struct afar_file_vector *vector = &wish->vectors[i];
		uint64_t from = vector->offset / FILE_UNIT;

		if (!is_there(inode, wish, vector))
			ranges[nr++] = (struct range){
				from, file_units_up(vector->offset + vector->length) - from};
	}
	qsort(ranges, nr, sizeof(*ranges), compare_ranges);
	return join_ranges(ranges, nr);
}

/* One operation for many of them. */
static int extend_ranges(struct extension *extension, const struct file_wish *wish)
{
	struct range *ranges = calloc(wish->nr, sizeof(*ranges));
	size_t nr = ranges ? find_ranges(extension->inode, wish, ranges) : 0;
	int ret = ranges ? 0 : error_code(-ENOMEM);

	for (size_t i = 0; i < nr && ret == 0; i += RANGES_MAX) {
		size_t more = nr - i < RANGES_MAX ? nr - i : RANGES_MAX;
		Afar__FileExtend *extend = add_operation(extension, wish);

		extend->ranges = (uint64_t *)&ranges[i];
		extend->n_ranges = 2 * more;
		ret = extend_patiently(extension);
		extension->nr = 0;
	}
	free(ranges);
	return ret;
}

static int extend_part(struct extension *extension, const struct file_wish *wish)
{
	if (wish->nr > 1 &&
	    session_has_feature(extension->inode->fs->ns->session, RPC_FEATURE_RANGES))
		return extend_ranges(extension, wish);
	return extend_each(extension, wish);
}

/* The size changes with the last one. */
static int extend_long(struct extension *extension, const struct file_wish *wish)
{
	uint64_t offset = wish->vectors->offset, left = wish->vectors->length;
	int ret = 0;

	while (ret == 0 && left != 0) {
		uint64_t length = left < EXTEND_BYTES ? left : EXTEND_BYTES;
		const struct afar_file_vector vector = {.offset = offset, .length = length};
		const struct file_wish part = {
			.vectors = &vector,
			.nr = 1,
			.is_exact = wish->is_exact,
			.size = length == left ? wish->size : 0,
		};

		ret = extend_part(extension, &part);
		offset += length;
		left -= length;
	}
	return ret;
}

/* In parts that do not keep the manager long. */
static int extend_parts(struct extension *extension, const struct file_wish *wish)
{
	int ret = 0;

	for (unsigned i = 0; i < wish->nr && ret == 0;) {
		uint64_t bytes = wish->vectors[i].length;
		struct file_wish part = *wish;

		part.vectors = &wish->vectors[i];
		part.nr = 1;
		while (i + part.nr < wish->nr && bytes < EXTEND_BYTES &&
		       part.vectors[part.nr].length <= EXTEND_BYTES - bytes)
			bytes += part.vectors[part.nr++].length;
		i += part.nr;
		part.size = i == wish->nr ? wish->size : 0;
		ret = bytes > EXTEND_BYTES ? extend_long(extension, &part)
					   : extend_part(extension, &part);
	}
	return ret;
}

int inode_extend(struct file_inode *inode, const struct file_wish *wish)
{
	struct extension *extension = calloc(1, sizeof(*extension));
	int ret;

	if (!extension)
		return error_code(-ENOMEM);
	extension->inode = inode;
	pthread_mutex_lock(&inode->extending);
	ret = extend_parts(extension, wish);
	pthread_mutex_unlock(&inode->extending);
	free(extension);
	return ret;
}

/* ---- Ends */

static int call_end(struct file_inode *inode, uint64_t end, uint64_t layout)
{
	Afar__FileEnd message = AFAR__FILE_END__INIT;
	struct inode_commit commit;
	uint64_t nr_reclaims, number, asked_at;
	struct fs_answer answer;
	bool is_answered;
	int ret;

	number = end_begin_asking(inode, &message);
	/* With the end it hears that the file was written. */
	inode_begin_commit(inode, &commit);
	atomic_store(&inode->touched, INODE_TOLD);
	message.ino = inode->ino;
	message.end = end;
	message.layout = layout;
	is_answered = message.wants_end || message.voids_slot;
	do {
		/* If the manager has restarted since it answered, it was not told of this end. */
		nr_reclaims = fs_count_reclaims(inode->fs);
		asked_at = clock_ns();
		ret = fs_hold_one(inode->fs, NULL, FILE_HOLD(END, end, &message),
				  is_answered ? &answer : NULL);
		if (ret) {
			atomic_store(&inode->touched, INODE_UNTOLD);
			break;
		}
		pthread_mutex_lock(&inode->lock);
		if (end > inode->end)
			inode->end = end;
		if (end >= inode->ends.untold)
			inode->ends.untold = 0;
		pthread_mutex_unlock(&inode->lock);
		if (!is_answered)
			continue;
		end_asked(inode, number, asked_at, &message, answer.results[0]->has_end);
		/* It has another layout then. */
		if (message.voids_slot)
			ret = inode_take(inode, answer.results[0]);
		fs_answer_free(&answer);
		if (ret)
			break;
	} while (nr_reclaims != fs_count_reclaims(inode->fs));
	inode_end_commit(inode, &commit);
	return ret;
}

int inode_begin_append(struct file_inode *inode)
{
	Afar__FileAppend message = AFAR__FILE_APPEND__INIT;
	struct fs_answer answer;
	int ret;

	message.ino = inode->ino;
	ret = fs_hold_one(inode->fs, NULL, FILE_HOLD(APPEND, append, &message), &answer);
	if (ret)
		return ret;
	ret = inode_take(inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

void inode_end_append(struct file_inode *inode, bool is_more)
{
	Afar__FileAppended message = AFAR__FILE_APPENDED__INIT;
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT, *operations = &operation;
	Afar__FilesHold hold = AFAR__FILES_HOLD__INIT;

	message.ino = inode->ino;
	message.is_more = is_more;
	operation.what_case = AFAR__FILE_HOLD__WHAT_APPENDED;
	operation.appended = &message;
	hold.fs = inode->fs->ns->number;
	hold.operations = &operations;
	hold.n_operations = 1;
	/* Nobody waits for the answer. If it does not arrive, the reclaim that follows lets go. */
	session_tell(inode->fs->ns->session, RPC_REQUEST(FILES_HOLD, files_hold, &hold));
}

int inode_tell_end(struct file_inode *inode, uint64_t end, uint64_t layout)
{
	int ret = 0;

	pthread_mutex_lock(&inode->lock);
	if (end > inode->wanted)
		inode->wanted = end;
	while (inode->size < end && inode->layout == layout && ret == 0) {
		uint64_t told = inode->wanted;
		struct end_claim claim;

		/* One thread tells for all that have written meanwhile. */
		if (inode->is_telling) {
			pthread_cond_wait(&inode->told, &inode->lock);
			continue;
		}
		if (end_claim(inode, end, layout, &claim)) {
			pthread_mutex_unlock(&inode->lock);
			end_claimed(inode, &claim, end_write(inode, &claim));
			pthread_mutex_lock(&inode->lock);
			continue;
		}
		inode->is_telling = true;
		pthread_mutex_unlock(&inode->lock);
		ret = call_end(inode, told, layout);
		pthread_mutex_lock(&inode->lock);
		inode->is_telling = false;
		/* It may end together with us, so the slot says that, too. */
		if (ret == 0 && end_claim_told(inode, told, layout, &claim)) {
			pthread_mutex_unlock(&inode->lock);
			end_claimed(inode, &claim, end_write(inode, &claim));
			pthread_mutex_lock(&inode->lock);
		}
		if (ret == 0 && inode->layout == layout)
			inode_take_size(inode, told);
		pthread_cond_broadcast(&inode->told);
	}
	if (ret == 0 && inode->layout != layout)
		ret = -ESTALE;
	pthread_mutex_unlock(&inode->lock);
	return ret;
}
