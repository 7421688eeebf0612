/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small files at once. A round opens up to 256 files in one call, moves the bytes of all
 * together, and closes them in one call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"
#include "client/files/io/file_plan.h"
#include "client/files/io/fs_extend.h"

#define ROUND_FILES FS_CALL_MAX
#define FULL_ROUNDS 64 /* others may take what we made the pool larger for */

struct small {
	struct afar_small_file file; /* our copy of … */
	void *given;		     /* … the program's */
	uint64_t handle;
	struct file_inode *inode;
	struct fs_hold *hold;
	bool is_open;	    /* at the manager */
	bool is_inside;	    /* we are inside the inode's gate */
	uint64_t length;    /* to move */
	uint64_t layout;    /* that the plan goes by */
	unsigned nr_pieces; /* of the plan */
};

struct round {
	struct afar_fs *fs;
	const struct fs_who *who;
	bool is_writing;
	uint64_t nr_reclaims; /* when it began */
	uint64_t nr_outdated;
	unsigned nr;
	struct small smalls[ROUND_FILES];
	struct plan plan;
	int status; /* the first failure of all rounds */
	char why[ERROR_LINE_BYTES];
};

/* Gives a file its failure, of which the last line tells. */
static void fail(struct round *round, struct small *small, int status)
{
	small->file.status = status;
	if (round->status != 0)
		return;
	round->status = status;
	strncpy(round->why, error_last_line(), sizeof(round->why) - 1);
}

static void fail_all(struct round *round, int status)
{
	for (unsigned i = 0; i < round->nr; i++)
		if (round->smalls[i].file.status == 0)
			fail(round, &round->smalls[i], status);
}

/* ---- Opening */

/* If the manager has not answered about one file, each of the others would wait as long for it. */
static bool is_manager_gone(int status)
{
	return status == -AFAR_EMANAGER || status == -AFAR_ESESSION || status == -ETIMEDOUT;
}

/* Takes what the manager has told of a file that it has opened. */
static int adopt(struct round *round, struct small *small, const Afar__FileResult *result)
{
	int ret = fs_check_attributes(result->attributes);

	if (ret)
		return ret;
	small->is_open = true;
	if (!small->inode)
		small->inode = inode_get(round->fs, result->attributes->ino);
	if (small->inode && !small->hold)
		small->hold =
			fs_hold_new(small->inode, small->handle, round->is_writing ? W_OK : R_OK);
	if (!small->inode || !small->hold)
		return -ENOMEM;
	if (!S_ISREG(result->attributes->mode))
		return error_fail(-EISDIR, "read inode %llu: it is no file",
				  (unsigned long long)small->inode->ino);
	if (is_manager_gone(round->status))
		return round->status;
	/* If the manager has restarted, it may have forgotten what it had just opened, and given back what the
	 * answer tells of. */
	if (round->nr_reclaims != fs_count_reclaims(round->fs)) {
		ret = fs_reclaim_again(round->fs, small->hold);
		inode_set_outdated(round->fs, small->inode->ino);
	}
	return ret ? ret : inode_adopt(small->inode, result, round->nr_outdated);
}

struct making {
	Afar__FileMake makes[ROUND_FILES];
	Afar__FileChange operations[ROUND_FILES];
	Afar__FileChange *list[ROUND_FILES];
	struct small *smalls[ROUND_FILES];
	unsigned nr;
};

static void make_add(struct making *making, struct small *small)
{
	unsigned i = making->nr++;
	Afar__FileMake *make = &making->makes[i];

	afar__file_make__init(make);
	make->dir = small->file.dir;
	make->name = (char *)small->file.name;
	make->mode = S_IFREG | (small->file.mode & 07777U);
	make->handle = small->handle;
	make->access = W_OK;
	make->bytes = small->file.length;
	afar__file_change__init(&making->operations[i]);
	making->operations[i].what_case = AFAR__FILE_CHANGE__WHAT_MAKE;
	making->operations[i].make = make;
	making->list[i] = &making->operations[i];
	making->smalls[i] = small;
}

/* Asks once. Keeps in the list those that found no room, and gives how much they need. */
static int make_once(struct round *round, struct making *making, uint64_t *bytes)
{
	unsigned nr = making->nr;
	struct fs_answer answer;
	int ret = fs_change(round->fs, round->who, making->list, nr, &answer);

	if (ret)
		return ret;
	making->nr = 0;
	*bytes = 0;
	for (unsigned i = 0; i < nr; i++) {
		struct small *small = making->smalls[i];

		if (answer.results[i]->status == -ENOSPC) {
			fs_result_fail(answer.results[i]); /* leaves its line */
			make_add(making, small);
			*bytes += small->file.length + 2 * FILE_UNIT;
			continue;
		}
		ret = fs_result_fail(answer.results[i]);
		if (ret == 0)
			ret = adopt(round, small, answer.results[i]);
		if (ret)
			fail(round, small, ret);
	}
	fs_answer_free(&answer);
	return 0;
}

static int make_files(struct round *round)
{
	struct making *making = calloc(1, sizeof(*making));
	uint64_t bytes, pool_bytes;
	int ret = 0;

	if (!making)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < round->nr; i++) {
		round->smalls[i].handle = fs_new_handle(round->fs);
		make_add(making, &round->smalls[i]);
	}
	for (unsigned i = 0; i < FULL_ROUNDS && making->nr != 0 && ret == 0; i++) {
		pool_bytes = fs_pool(round->fs)->length;
		ret = make_once(round, making, &bytes);
		if (ret == 0 && making->nr != 0)
			ret = fs_grow(round->fs, pool_bytes, bytes);
	}
	if (ret == 0 && making->nr != 0)
		ret = error_fail(-ENOSPC,
				 "make files in '%s': others take all room that its pool gets",
				 round->fs->ns->name);
	for (unsigned i = 0; i < making->nr && ret; i++)
		if (making->smalls[i]->file.status == 0)
			fail(round, making->smalls[i], ret);
	free(making);
	return 0;
}

struct opening {
	Afar__FileOpen opens[ROUND_FILES];
	Afar__FileHold operations[ROUND_FILES];
	Afar__FileHold *list[ROUND_FILES];
};

/* Notes the holds before it asks, so that they are told again if the manager restarts meanwhile. */
static int prepare_open(struct round *round, struct opening *opening)
{
	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];
		Afar__FileOpen *open = &opening->opens[i];

		small->handle = fs_new_handle(round->fs);
		small->inode = inode_get(round->fs, small->file.ino);
		small->hold = small->inode ? fs_hold_new(small->inode, small->handle, R_OK) : NULL;
		if (!small->hold)
			return -ENOMEM;
		afar__file_open__init(open);
		open->ino = small->file.ino;
		open->handle = small->handle;
		open->access = R_OK;
		afar__file_hold__init(&opening->operations[i]);
		opening->operations[i].what_case = AFAR__FILE_HOLD__WHAT_OPEN;
		opening->operations[i].open = open;
		opening->list[i] = &opening->operations[i];
	}
	return 0;
}

static int open_files(struct round *round)
{
	struct opening *opening = calloc(1, sizeof(*opening));
	struct fs_answer answer;
	int ret = opening ? prepare_open(round, opening) : error_code(-ENOMEM);

	if (ret == 0)
		ret = fs_hold(round->fs, round->who, opening->list, round->nr, &answer);
	free(opening);
	if (ret)
		return ret;
	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];

		ret = fs_result_fail(answer.results[i]);
		if (ret == 0)
			ret = adopt(round, small, answer.results[i]);
		if (ret)
			fail(round, small, ret);
	}
	fs_answer_free(&answer);
	return 0;
}

/* ---- Moving */

/* Adds what a file moves to the plan. From inside its gate. */
static int plan_small(struct round *round, struct small *small)
{
	struct file_inode *inode = small->inode;
	struct afar_file_vector range = {.data = small->file.data};
	unsigned before = round->plan.nr;
	int ret;

	plan_begin(&round->plan, 0);
	pthread_mutex_lock(&inode->lock);
	small->length = small->file.length;
	small->layout = inode->layout;
	small->nr_pieces = 0;
	if (!round->is_writing && inode->size < small->length)
		small->length = inode->size;
	range.length = small->length;
	ret = round->is_writing && !file_map_covers(&inode->map, 0, range.length)
		      ? error_fail(-AFAR_EMALFORMED,
				   "write inode %llu: the manager made no room for it",
				   (unsigned long long)inode->ino)
		      : plan_add(&round->plan, &inode->map, &range);
	/* Another file of the inode may have got this room. */
	if (round->is_writing && ret == 0)
		inode_note_range(inode, &range);
	pthread_mutex_unlock(&inode->lock);
	if (ret) {
		round->plan.nr = before;
		return ret;
	}
	if (!round->is_writing)
		plan_fill_holes(&round->plan, before);
	small->nr_pieces = round->plan.nr - before;
	return 0;
}

static int transfer(struct round *round)
{
	return fs_transfer(round->fs, round->is_writing ? AFAR_OP_WRITE : AFAR_OP_READ, 0,
			   round->plan.pieces, round->plan.nr);
}

/* Moves the bytes of one file by itself, as any file's: others make it shorter meanwhile. */
static void move_one(struct round *round, struct small *small)
{
	struct afar_file file = {
		.fs = round->fs,
		.inode = small->inode,
		.access = round->is_writing ? W_OK : R_OK,
	};
	const struct afar_file_vector all = {.data = small->file.data,
					     .length = small->file.length};
	ssize_t ret =
		round->is_writing ? file_write(&file, &all, 1, false) : file_read(&file, &all, 1);

	if (ret < 0)
		fail(round, small, (int)ret);
	else
		small->length = (uint64_t)ret;
}

/* Goes inside, if the gate is open, and what we know of the file counts. */
static bool enter(const struct round *round, struct file_inode *inode)
{
	if (!inode_try_enter(inode))
		return false;
	if (!inode_is_outdated(inode, round->nr_outdated))
		return true;
	inode_leave(inode);
	return false;
}

/* A thread that waits for a gate must be inside none, so the round leaves those that are shut. */
static void plan_free_ones(struct round *round)
{
	round->plan.nr = 0;
	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];
		int ret;

		if (small->file.status != 0)
			continue;
		small->is_inside = enter(round, small->inode);
		ret = small->is_inside ? plan_small(round, small) : 0;
		if (ret)
			fail(round, small, ret);
	}
}

/* Gives a file the failure of its pieces, if there is one. */
static void fail_pieces(struct round *round, struct small *small, const struct target_piece *pieces)
{
	const struct afar_file_vector all = {.data = small->file.data, .length = small->length};

	for (unsigned p = 0; p < small->nr_pieces && small->file.status == 0; p++) {
		if (pieces[p].status == 0)
			continue;
		fail(round, small,
		     plan_fail(small->inode, round->is_writing ? "write" : "read", &pieces[p], 1,
			       &all, 1, pieces[p].status));
	}
}

/* Gives each file whose pieces were moved what has become of them, and leaves its gate. */
static void end_pieces(struct round *round, int status)
{
	const struct target_piece *next = round->plan.pieces;

	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];

		if (!small->is_inside)
			continue;
		if (status)
			fail_pieces(round, small, next);
		next += small->nr_pieces;
		inode_leave(small->inode);
	}
}

static void move_files(struct round *round)
{
	plan_free_ones(round);
	end_pieces(round, round->plan.nr != 0 ? transfer(round) : 0);
	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];

		if (small->file.status == 0 && !small->is_inside)
			move_one(round, small);
	}
}

/* ---- Closing */

struct closing {
	Afar__FileSync syncs[ROUND_FILES];
	Afar__FileSet sets[ROUND_FILES];
	Afar__FileRemove removes[ROUND_FILES];
	Afar__FileChange operations[2 * ROUND_FILES];
	Afar__FileChange *list[2 * ROUND_FILES];
	struct small *smalls[2 * ROUND_FILES];
	unsigned nr;
};

static Afar__FileChange *closing_add(struct closing *closing, struct small *small,
				     Afar__FileChange__WhatCase what)
{
	unsigned i = closing->nr++;

	afar__file_change__init(&closing->operations[i]);
	closing->operations[i].what_case = what;
	closing->list[i] = &closing->operations[i];
	closing->smalls[i] = small;
	return &closing->operations[i];
}

static void add_close(struct closing *closing, struct small *small, unsigned i)
{
	Afar__FileSync *sync = &closing->syncs[i];

	afar__file_sync__init(sync);
	sync->ino = small->inode->ino;
	sync->end = small->file.status == 0 ? small->file.length : 0;
	sync->layout = small->layout;
	sync->is_written = true;
	sync->close = small->handle;
	closing_add(closing, small, AFAR__FILE_CHANGE__WHAT_SYNC)->sync = sync;
}

static void add_set(struct closing *closing, struct small *small, unsigned i)
{
	const struct afar_small_file *file = &small->file;
	Afar__FileSet *set = &closing->sets[i];

	afar__file_set__init(set);
	set->ino = small->inode->ino;
	set->mask = (file->has_owner ? AFAR_SET_UID | AFAR_SET_GID : 0) |
		    (file->mtime != 0 ? AFAR_SET_MTIME : 0);
	set->uid = file->uid;
	set->gid = file->gid;
	set->mtime = file->mtime;
	if (set->mask != 0)
		closing_add(closing, small, AFAR__FILE_CHANGE__WHAT_SET)->set = set;
}

/* A file without its content goes again. */
static void add_remove(struct closing *closing, struct small *small, unsigned i)
{
	Afar__FileRemove *message = &closing->removes[i];

	afar__file_remove__init(message);
	message->dir = small->file.dir;
	message->name = (char *)small->file.name;
	closing_add(closing, small, AFAR__FILE_CHANGE__WHAT_REMOVE)->remove = message;
}

static void send_closing(struct round *round, struct closing *closing)
{
	unsigned nr;

	for (unsigned first = 0; first < closing->nr; first += nr) {
		struct fs_answer answer;
		int ret;

		nr = closing->nr - first < FS_CALL_MAX ? closing->nr - first : FS_CALL_MAX;
		ret = fs_change(round->fs, round->who, &closing->list[first], nr, &answer);
		for (unsigned i = first; i < first + nr; i++) {
			int status = ret ? ret : fs_result_fail(answer.results[i - first]);

			if (status && closing->smalls[i]->file.status == 0)
				fail(round, closing->smalls[i], status);
		}
		if (ret == 0)
			fs_answer_free(&answer);
	}
}

static int close_written(struct round *round)
{
	struct closing *closing = calloc(1, sizeof(*closing));

	if (!closing)
		return error_code(-ENOMEM);
	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];

		if (!small->is_open || !small->inode)
			continue;
		small->file.ino = small->inode->ino;
		add_close(closing, small, i);
		if (small->file.status == 0)
			add_set(closing, small, i);
		else
			add_remove(closing, small, i);
	}
	send_closing(round, closing);
	free(closing);
	return 0;
}

/* Closes without committing anything: what was read, or what the manager may have been told again that
 * it is open. */
static int close_all(struct round *round)
{
	Afar__FileClose *closes = calloc(ROUND_FILES, sizeof(*closes));
	Afar__FileHold *operations = calloc(ROUND_FILES, sizeof(*operations));
	Afar__FileHold *list[ROUND_FILES];
	struct fs_answer answer;
	unsigned nr = 0;
	int ret = closes && operations ? 0 : error_code(-ENOMEM);

	for (unsigned i = 0; i < round->nr && ret == 0; i++) {
		if (!round->smalls[i].hold)
			continue;
		fs_fill_close(&operations[nr], &closes[nr], round->smalls[i].handle);
		list[nr] = &operations[nr];
		nr++;
	}
	if (ret == 0 && nr != 0)
		ret = fs_hold(round->fs, NULL, list, nr, &answer);
	if (ret == 0 && nr != 0)
		fs_answer_free(&answer);
	free(operations);
	free(closes);
	return ret;
}

static void close_files(struct round *round)
{
	int ret = round->is_writing ? close_written(round) : close_all(round);

	if (ret)
		fail_all(round, ret);
	if (round->is_writing && round->nr_reclaims != fs_count_reclaims(round->fs))
		close_all(round);
	for (unsigned i = 0; i < round->nr; i++) {
		struct small *small = &round->smalls[i];

		fs_hold_end(round->fs, small->hold);
		if (small->inode)
			inode_put(small->inode);
		if (!round->is_writing && small->file.status == 0)
			small->file.length = small->length;
	}
}

/* ---- Rounds */

static void run(struct round *round)
{
	int ret;

	round->nr_reclaims = fs_count_reclaims(round->fs);
	round->nr_outdated = inode_count_outdated(round->fs);
	plan_init(&round->plan);
	ret = round->is_writing ? make_files(round) : open_files(round);
	if (ret)
		fail_all(round, ret);
	move_files(round);
	close_files(round);
	plan_free(&round->plan);
}

static int check_file(const struct afar_small_file *file, bool is_writing)
{
	if ((is_writing && !file->name) || (!file->data && file->length != 0))
		return error_fail(-EINVAL, "move many files: a name, or memory, is null");
	if (is_writing && strlen(file->name) > AFAR_FILE_NAME_MAX)
		return error_fail(-ENAMETOOLONG,
				  "make many files: a name has %zu bytes; at most %u",
				  strlen(file->name), AFAR_FILE_NAME_MAX);
	if (file->length > SSIZE_MAX)
		return error_fail(-EINVAL, "move many files: one has too many bytes");
	return 0;
}

/* Takes the program's file `i`. */
static int take(const struct afar_small_file *files, unsigned i, struct small *out)
{
	const size_t size = files->size;

	*out = (struct small){.given = (char *)files + i * size};
	memcpy(&out->file.size, out->given, sizeof(out->file.size));
	if (out->file.size != size)
		return error_fail(-EINVAL, "move many files: set the size of each to sizeof(struct "
					   "afar_small_file)");
	return ABI_TAKE(&out->file, out->given, afar_small_file, status);
}

static void give(const struct small *small)
{
	abi_give(small->given, small->file.size, &small->file, sizeof(small->file));
}

/* Puts the next files that can be tried into a round. Returns where it stopped. */
static unsigned fill(struct round *round, struct afar_small_file *files, unsigned next, unsigned nr)
{
	round->nr = 0;
	for (; next < nr && round->nr < ROUND_FILES; next++) {
		struct small *small = &round->smalls[round->nr];
		int ret;

		take(files, next, small);
		small->file.status = 0;
		ret = check_file(&small->file, round->is_writing);
		if (ret) {
			fail(round, small, ret);
			give(small);
		} else {
			round->nr++;
		}
	}
	return next;
}

static int move_many(struct afar_fs *fs, const struct fs_who *who, bool is_writing,
		     struct afar_small_file *files, unsigned nr)
{
	struct round *round = calloc(1, sizeof(*round));
	unsigned next = 0;
	int ret;

	if (!round)
		return error_code(-ENOMEM);
	round->fs = fs;
	round->who = who;
	round->is_writing = is_writing;
	while (next < nr) {
		next = fill(round, files, next, nr);
		if (round->nr != 0)
			run(round);
		for (unsigned i = 0; i < round->nr; i++)
			give(&round->smalls[i]);
	}
	ret = round->status ? error_fail(round->status, "%s", round->why) : 0;
	free(round);
	return ret;
}

static int move_entered(struct afar_fs *fs, const struct afar_who *given, bool is_writing,
			struct afar_small_file *files, unsigned nr)
{
	struct fs_who who;
	struct small small;
	int ret = fs_who_take(given, &who);

	if (ret == 0 && !files && nr != 0)
		ret = error_fail(-EINVAL, "move many files: they are null");
	for (unsigned i = 0; i < nr && ret == 0; i++)
		ret = take(files, i, &small);
	if (ret == 0 && is_writing)
		ret = fs_check_writable(fs, "make files");
	return ret ? ret : move_many(fs, &who, is_writing, files, nr);
}

PUBLIC_CALL(int, afar_fs_write_files,
	    (struct afar_fs *fs, const struct afar_who *given, struct afar_small_file *files,
	     unsigned nr),
	    (fs, given, files, nr))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	ret = move_entered(fs, given, true, files, nr);
	handle_unuse(&fs->handle);
	return ret;
}

PUBLIC_CALL(int, afar_fs_read_files,
	    (struct afar_fs *fs, const struct afar_who *given, struct afar_small_file *files,
	     unsigned nr),
	    (fs, given, files, nr))
{
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	ret = move_entered(fs, given, false, files, nr);
	handle_unuse(&fs->handle);
	return ret;
}
