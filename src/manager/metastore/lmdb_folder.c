/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/metastore/lmdb_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "manager/metastore/lmdb_check.h"
#include "manager/metastore/lmdb_pages.h"

static void name_file(const struct lmdb_folder *folder, const char *file, char name[PATH_MAX + 16])
{
	snprintf(name, PATH_MAX + 16, "%s/%s", folder->path, file);
}

/* ---- Locks */

/* LMDB's own lock file lets several processes share a store; a manager must be alone. */
static int lock(struct lmdb_folder *folder)
{
	char name[PATH_MAX + 16];

	name_file(folder, "manager.lock", name);
	folder->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, LMDB_FILE_MODE);
	if (folder->lock_fd < 0)
		return error_fail(-errno, "open the store %s: %m; check the folder", folder->path);
	if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_fail(-EBUSY,
				  "open the store %s: another manager has it open; stop that one "
				  "or name another folder",
				  folder->path);
	return error_fail(-errno, "lock the store %s: %m", folder->path);
}

/* A program that has LMDB's file open, such as mdb_stat(1), keeps in lock.mdb which of the heads counts, and LMDB would believe that. */
static int refuse_others(const struct lmdb_folder *folder)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char name[PATH_MAX + 16];
	int fd, ret;

	name_file(folder, "lock.mdb", name);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_fail(-errno, "open %s: %m", name);
	ret = fcntl(fd, F_GETLK, &lock) < 0 ? -errno : 0;
	close(fd);
	if (ret < 0)
		return error_fail(ret, "look who has %s: %s", name, strerror(-ret));
	return lock.l_type == F_UNLCK
		       ? 0
		       : error_fail(-EBUSY,
				    "open the store %s: process %d has its data.mdb open; end that",
				    folder->path, (int)lock.l_pid);
}

/* ---- LMDB's file */

int lmdb_folder_open_file(struct lmdb_folder *folder)
{
	char name[PATH_MAX + 16];

	if (folder->fd >= 0)
		return 0;
	name_file(folder, "data.mdb", name);
	folder->fd = open(name, O_RDWR | O_CLOEXEC);
	if (folder->fd >= 0)
		return 0;
	return error_fail(-errno, "open the store %s: data.mdb: %m; check the folder",
			  folder->path);
}

ssize_t lmdb_folder_heads(const struct lmdb_folder *folder, uint8_t heads[REDO_HEADS_MAX])
{
	ssize_t n = pread(folder->fd, heads, REDO_HEADS_MAX, 0);
	size_t length;

	if (n < 0)
		return error_fail(-errno, "read the store %s: data.mdb: %m; check the disk",
				  folder->path);
	length = pages_heads_length(heads, (size_t)n);
	explicit_bzero(heads + length,
		       (size_t)n - length); /* pages behind the heads: they have secrets */
	if (length != 0)
		return (ssize_t)length;
	return error_fail(-EBADMSG,
			  "open the store %s: data.mdb does not begin as LMDB's files do; put the "
			  "whole folder back from a copy",
			  folder->path);
}

/* A file system that cannot sync a folder does that by itself, or not at all. */
int lmdb_folder_sync(const struct lmdb_folder *folder)
{
	int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;

	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
		ret = error_fail(-errno, "sync the folder %s: %m; check the disk", folder->path);
	if (fd >= 0)
		close(fd);
	return ret;
}

int lmdb_folder_take_new(const struct lmdb_folder *folder)
{
	char from[PATH_MAX + 16], to[PATH_MAX + 16];

	name_file(folder, "data.mdb.new", from);
	name_file(folder, "data.mdb", to);
	if (rename(from, to) < 0)
		return error_fail(-errno, "rename %s: %m; check the disk", from);
	return lmdb_folder_sync(folder);
}

/* Opens the new file that a store was getting with its sums when its manager ended, if the log goes with it. Returns its descriptor;
 * -ENOENT: there is none, or it does not count yet. -EBADMSG, with a sentence: it should, and is damaged. */
static int open_new(const struct lmdb_folder *folder)
{
	uint8_t heads[REDO_HEADS_MAX];
	struct redo_checkpoint checkpoint;
	char name[PATH_MAX + 16];
	ssize_t n;
	int fd;

	name_file(folder, "data.mdb.new", name);
	if (!folder->log || redo_last_checkpoint(folder->log).is_old)
		return -ENOENT;
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT
				       : error_fail(-errno, "open the store %s: data.mdb.new: %m",
						    folder->path);
	checkpoint = redo_last_checkpoint(folder->log);
	n = pread(fd, heads, checkpoint.length, 0);
	if (n == (ssize_t)checkpoint.length &&
	    memcmp(heads, checkpoint.heads, checkpoint.length) == 0)
		return fd;
	close(fd);
	return error_fail(
		-EBADMSG,
		"open the store %s: data.mdb.new is damaged, or does not go with redo.log; "
		"put the whole folder back from a copy",
		folder->path);
}

/* A store was getting sums when its manager ended: the log tells which of the two files counts. */
static int settle_new(struct lmdb_folder *folder)
{
	char name[PATH_MAX + 16];
	int fd = open_new(folder);

	if (fd >= 0) {
		close(fd);
		return lmdb_folder_take_new(folder);
	}
	if (fd != -ENOENT)
		return fd;
	name_file(folder, "data.mdb.new", name);
	unlink(name); /* the old file counts */
	return 0;
}

static int look(const struct lmdb_folder *folder, const struct redo_checkpoint *checkpoint,
		struct lmdb_findings *findings)
{
	int ret = lmdb_check(folder->fd, checkpoint, NULL, NULL, findings);

	if (ret < 0)
		return error_fail(ret, "open the store %s: data.mdb: %s", folder->path,
				  error_last_line());
	if (findings->nr_pages == 0)
		return 0;
	return error_fail(-EBADMSG,
			  "open the store %s: data.mdb is damaged (%s); put the whole folder back "
			  "from a copy; 'afar manager check %s' shows all that is damaged",
			  folder->path, findings->first, folder->path);
}

/* Compares LMDB's file with the checkpoint. */
static int look_at_checkpoint(struct lmdb_folder *folder, const struct redo_checkpoint *checkpoint)
{
	struct lmdb_findings findings;
	int ret = look(folder, checkpoint, &findings);

	if (ret < 0 || folder->is_old)
		return ret;
	folder->totals = findings.totals;
	if (findings.nr_keys != 0)
		return error_fail(
			-EBADMSG,
			"open the store %s: in data.mdb the keys of %" PRIu64
			" records are damaged; put the whole folder back from a copy; 'afar "
			"manager check %s' shows them",
			folder->path, findings.nr_keys, folder->path);
	if (findings.totals.nr_pairs != checkpoint->totals.nr_pairs ||
	    (findings.nr_values == 0 && findings.totals.sum != checkpoint->totals.sum))
		return error_fail(-EBADMSG,
				  "open the store %s: data.mdb is not the one that goes with "
				  "redo.log (it has %" PRIu64 " records, of %" PRIu64
				  "); put the whole folder back from one copy",
				  folder->path, findings.totals.nr_pairs,
				  checkpoint->totals.nr_pairs);
	if (findings.nr_values != 0)
		log_error("the store %s: %" PRIu64
			  " records are damaged and cannot be read; 'afar manager check' shows "
			  "them",
			  folder->path, findings.nr_values);
	return 0;
}

/* A store without a log is new, or from before there were logs. */
static int look_without_log(struct lmdb_folder *folder)
{
	uint8_t heads[REDO_HEADS_MAX];
	struct redo_checkpoint checkpoint = {.heads = heads};
	struct lmdb_findings findings;
	struct stat stat;
	ssize_t length;
	int ret;

	if (fstat(folder->fd, &stat) == 0 && stat.st_size == 0)
		return 0;
	length = lmdb_folder_heads(folder, heads);
	if (length < 0)
		return (int)length;
	checkpoint.length = (size_t)length;
	ret = look(folder, &checkpoint, &findings);
	if (ret < 0 || findings.totals.nr_pairs == 0)
		return ret;
	folder->is_old = findings.nr_keys == findings.totals.nr_pairs;
	if (folder->is_old)
		return 0;
	return error_fail(-EBADMSG,
			  "open the store %s: redo.log is missing, and with it the last commits; "
			  "put the whole folder back from a copy",
			  folder->path);
}

static int put_heads_back(const struct lmdb_folder *folder,
			  const struct redo_checkpoint *checkpoint)
{
	uint8_t heads[REDO_HEADS_MAX];
	ssize_t n = pread(folder->fd, heads, checkpoint->length, 0);
	int ret;

	if (n == (ssize_t)checkpoint->length &&
	    memcmp(heads, checkpoint->heads, checkpoint->length) == 0)
		return 0;
	ret = refuse_others(folder);
	if (ret < 0)
		return ret;
	n = pwrite(folder->fd, checkpoint->heads, checkpoint->length, 0);
	if (n == (ssize_t)checkpoint->length && fdatasync(folder->fd) == 0)
		return 0;
	return error_fail(n < 0 ? -errno : -EIO,
			  "open the store %s: go back to the checkpoint: %m; check the disk",
			  folder->path);
}

static bool is_too_short(const struct lmdb_folder *folder, const struct redo_checkpoint *checkpoint)
{
	struct stat stat;

	return fstat(folder->fd, &stat) == 0 && (uint64_t)stat.st_size < checkpoint->file_bytes;
}

static int look_with_log(struct lmdb_folder *folder)
{
	struct redo_checkpoint checkpoint = redo_last_checkpoint(folder->log);
	int ret;

	folder->is_old = checkpoint.is_old;
	if (folder->fd < 0 || is_too_short(folder, &checkpoint))
		return error_fail(
			-EBADMSG,
			"open the store %s: data.mdb is %s, so it does not go with redo.log; put "
			"the whole folder back from a copy",
			folder->path, folder->fd < 0 ? "missing" : "shorter than it was");
	ret = look_at_checkpoint(folder, &checkpoint);
	return ret < 0 ? ret : put_heads_back(folder, &checkpoint);
}

int lmdb_folder_open(struct lmdb_folder *folder, const char *path)
{
	int ret;

	*folder = (struct lmdb_folder){.lock_fd = -1, .fd = -1};
	snprintf(folder->path, sizeof(folder->path), "%s", path);
	ret = lock(folder);
	if (ret == 0)
		ret = redo_open(path, &folder->log);
	if (ret == 0)
		ret = settle_new(folder);
	if (ret < 0)
		return ret;
	ret = lmdb_folder_open_file(folder);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	if (folder->log)
		return look_with_log(folder);
	return folder->fd >= 0 ? look_without_log(folder) : 0;
}

void lmdb_folder_close(struct lmdb_folder *folder)
{
	redo_close(folder->log);
	if (folder->fd >= 0)
		close(folder->fd);
	if (folder->lock_fd >= 0)
		close(folder->lock_fd);
	folder->log = NULL;
	folder->fd = folder->lock_fd = -1;
}

/* ---- Looking without opening it */

static int ignore(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	(void)argument, (void)key, (void)value;
	return 0;
}

static int64_t check_file(struct lmdb_folder *folder, const struct redo_checkpoint *checkpoint,
			  metastore_found *found, void *argument)
{
	struct lmdb_findings findings;
	char sentence[128];
	int ret;

	if (!folder->log || checkpoint->is_old) {
		ret = lmdb_check(folder->fd, checkpoint, NULL, NULL, &findings);
		if (ret < 0)
			return ret;
		if (findings.nr_keys == findings.totals.nr_pairs) { /* it has no sums yet */
			if (findings.nr_pages != 0)
				found(argument, (struct meta_bytes){0}, findings.first);
			return (int64_t)findings.totals.nr_pairs;
		}
		found(argument, (struct meta_bytes){0}, "redo.log is missing");
	}
	ret = lmdb_check(folder->fd, checkpoint, found, argument, &findings);
	if (ret < 0)
		return ret;
	if (folder->log && findings.nr_pages == 0 &&
	    (findings.totals.nr_pairs != checkpoint->totals.nr_pairs ||
	     (findings.nr_values + findings.nr_keys == 0 &&
	      findings.totals.sum != checkpoint->totals.sum))) {
		snprintf(sentence, sizeof(sentence),
			 "data.mdb is not the one that goes with redo.log: it has %" PRIu64
			 " records, of %" PRIu64,
			 findings.totals.nr_pairs, checkpoint->totals.nr_pairs);
		found(argument, (struct meta_bytes){0}, sentence);
	}
	return (int64_t)findings.totals.nr_pairs;
}

static int64_t check_folder(struct lmdb_folder *folder, metastore_found *found, void *argument)
{
	uint8_t heads[REDO_HEADS_MAX];
	struct redo_checkpoint checkpoint = {.heads = heads};
	ssize_t length;
	int64_t nr;
	int ret;

	if (folder->log) {
		checkpoint = redo_last_checkpoint(folder->log);
		if (is_too_short(folder, &checkpoint))
			found(argument, (struct meta_bytes){0}, "data.mdb is shorter than it was");
	} else {
		length = lmdb_folder_heads(folder, heads);
		if (length < 0)
			return (int64_t)length;
		checkpoint.length = (size_t)length;
	}
	nr = check_file(folder, &checkpoint, found, argument);
	ret = folder->log ? redo_replay(folder->log, ignore, NULL) : 0;
	if (ret < 0)
		found(argument, (struct meta_bytes){0}, error_last_line());
	return nr;
}

int64_t metastore_lmdb_check(const char *path, metastore_found *found, void *argument)
{
	struct lmdb_folder folder = {.lock_fd = -1, .fd = -1};
	char name[PATH_MAX + 16];
	int64_t ret;

	snprintf(folder.path, sizeof(folder.path), "%s", path);
	name_file(&folder, "data.mdb", name);
	if (access(name, F_OK) < 0)
		return error_fail(
			-errno, "check the store %s: data.mdb: %m; name a manager's folder", path);
	ret = lock(&folder);
	if (ret == 0)
		ret = redo_open(path, &folder.log);
	if (ret == 0) {
		folder.fd = open_new(&folder);
		ret = folder.fd < 0 && folder.fd != -ENOENT ? folder.fd : 0;
	}
	if (ret == 0)
		ret = lmdb_folder_open_file(&folder);
	if (ret == 0)
		ret = check_folder(&folder, found, argument);
	lmdb_folder_close(&folder);
	return ret;
}
