/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file: two slots for the header, of which the newer that is whole counts, and the records. A record begins at a block of
 * its own, so that no write touches what is durable already. It bears the checkpoint's number and salt, a number that nobody
 * can guess. Otherwise the rest of earlier records could be taken for one, because their values are what clients have
 * written.
 *
 * The blocks are written once when the file is made. So on file systems that overwrite in place, a record changes no metadata.
 *
 * Each record is durable before the next one is written, and each header before the next record. So one that is not whole, and
 * has later ones behind it, was damaged.
 */
#include "manager/metastore/redo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/error.h"

#define BLOCK	      ((size_t)4096)
#define SLOT_BYTES    (BLOCK + REDO_HEADS_MAX)
#define RECORDS_START (2 * SLOT_BYTES)
#define RECORDS_BYTES ((size_t)2 << 20)
#define FILE_BYTES    (RECORDS_START + RECORDS_BYTES)
#define FILE_MODE     0600
#define MAGIC	      0x32306a7261666100U
#define MAGIC_OLD     0x31306a7261666100U /* its header ends before the totals */
#define DELETED	      UINT32_MAX	  /* the length of no value */

struct header {
	uint64_t magic;
	uint64_t generation; /* the checkpoint's number */
	uint64_t salt;	     /* of its records */
	uint64_t file_bytes;
	uint32_t heads_length;
	uint32_t is_closed;
	uint32_t checksum; /* of this with 0 here, and of the heads behind */
	uint32_t unused;
	struct meta_totals totals;
};

struct record {
	uint64_t generation;
	uint64_t salt;
	uint64_t number;   /* of records before it, since the checkpoint */
	uint32_t length;   /* of the changes behind */
	uint32_t checksum; /* of this with 0 here, and of them */
};

struct change {
	uint32_t key_length;
	uint32_t value_length;
};

struct redo_log {
	int fd;
	bool is_broken;
	uint64_t nr_records; /* since the checkpoint */
	size_t last, end;    /* where the last record begins and ends, from the records' start */
	char path[PATH_MAX];
	struct header header;
	uint8_t heads[REDO_HEADS_MAX];
	uint8_t buffer[RECORDS_BYTES]; /* of the record that is written, or of all that are read */
};

static int fail(const struct redo_log *log, const char *asked, int ret)
{
	if (ret == -ENOSPC)
		return error_fail(ret,
				  "%s the manager's redo log %s: its disk is full; make room on it",
				  asked, log->path);
	return error_fail(ret, "%s the redo log %s: %s; check the disk", asked, log->path,
			  strerror(-ret));
}

static int fail_damaged(const struct redo_log *log)
{
	return error_fail(-EILSEQ,
			  "open the redo log %s: it is damaged, and with it the last commits; put "
			  "the whole folder back from a copy",
			  log->path);
}

bool redo_is_broken(const struct redo_log *log)
{
	return log->is_broken;
}

static int write_at(int fd, const void *data, size_t length, size_t offset)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = pwrite(fd, (const uint8_t *)data + done, length - done,
				   (off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int read_at(int fd, void *data, size_t length, size_t offset)
{
	for (size_t done = 0; done < length;) {
		ssize_t n =
			pread(fd, (uint8_t *)data + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EILSEQ; /* it is too short */
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static struct redo_log *redo_new(const char *folder)
{
	struct redo_log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->fd = -1;
	snprintf(log->path, sizeof(log->path), "%s/redo.log", folder);
	return log;
}

void redo_close(struct redo_log *log)
{
	if (!log)
		return;
	if (log->fd >= 0)
		close(log->fd);
	explicit_bzero(log, sizeof(*log)); /* what was read may have had secrets */
	free(log);
}

/* ---- The header */

static size_t header_bytes(const struct header *header)
{
	return header->magic == MAGIC_OLD ? offsetof(struct header, totals) : sizeof(*header);
}

static uint32_t sum_header(struct header header, const void *heads)
{
	header.checksum = 0;
	return checksum_crc32c_seeded(checksum_crc32c(&header, header_bytes(&header)), heads,
				      header.heads_length);
}

/* Takes the slot's header if it is whole, and newer than what was taken before. */
static int read_slot(struct redo_log *log, size_t slot)
{
	const uint8_t *bytes = log->buffer, *heads;
	struct header header;
	int ret = read_at(log->fd, log->buffer, SLOT_BYTES, slot * SLOT_BYTES);

	if (ret < 0)
		return ret == -EILSEQ ? fail_damaged(log) : fail(log, "read", ret);
	memcpy(&header, bytes, sizeof(header));
	heads = bytes + header_bytes(&header);
	if ((header.magic != MAGIC && header.magic != MAGIC_OLD) ||
	    header.heads_length > REDO_HEADS_MAX || header.checksum != sum_header(header, heads) ||
	    header.generation <= log->header.generation)
		return 0;
	log->header = header;
	memcpy(log->heads, heads, header.heads_length);
	return 0;
}

int redo_open(const char *folder, struct redo_log **out)
{
	struct redo_log *log = redo_new(folder);
	int ret = 0;

	*out = NULL;
	if (!log)
		return error_code(-ENOMEM);
	log->fd = open(log->path, O_RDWR | O_DSYNC | O_CLOEXEC);
	if (log->fd < 0 && errno == ENOENT)
		goto out_close;
	if (log->fd < 0)
		ret = fail(log, "open", -errno);
	for (size_t slot = 0; slot < 2 && ret == 0; slot++)
		ret = read_slot(log, slot);
	if (ret == 0 && log->header.generation == 0)
		ret = fail_damaged(log);
	if (ret < 0)
		goto out_close;
	*out = log;
	return 0;

out_close:
	redo_close(log);
	return ret;
}

struct redo_checkpoint redo_last_checkpoint(const struct redo_log *log)
{
	const struct header *header = &log->header;

	return (struct redo_checkpoint){
		.heads = log->heads,
		.length = header->heads_length,
		.file_bytes = header->file_bytes,
		.is_closed = header->is_closed,
		.is_old = header->magic == MAGIC_OLD,
		.totals = header->magic == MAGIC_OLD ? (struct meta_totals){0} : header->totals,
	};
}

int redo_restart(struct redo_log *log, const struct redo_checkpoint *checkpoint)
{
	struct header *header = &log->header;
	const size_t length = checkpoint->length;
	uint64_t salt;
	int ret;

	if (length > REDO_HEADS_MAX)
		return error_fail(-EINVAL, "start the redo log %s: %zu bytes of heads; at most %zu",
				  log->path, length, REDO_HEADS_MAX);
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return fail(log, "start", -EIO);
	*header = (struct header){
		.magic = MAGIC,
		.generation = header->generation + 1,
		.salt = salt,
		.file_bytes = checkpoint->file_bytes,
		.heads_length = (uint32_t)length,
		.is_closed = checkpoint->is_closed,
		.totals = checkpoint->totals,
	};
	header->checksum = sum_header(*header, checkpoint->heads);
	memcpy(log->heads, checkpoint->heads, length);
	memcpy(log->buffer, header, sizeof(*header));
	memcpy(log->buffer + sizeof(*header), checkpoint->heads, length);
	ret = write_at(log->fd, log->buffer, sizeof(*header) + length,
		       header->generation % 2 * SLOT_BYTES);
	log->end = log->nr_records = 0;
	log->is_broken = ret < 0; /* it may be there or not */
	return ret < 0 ? fail(log, "start", ret) : 0;
}

/* A file system that cannot do that does it by itself, or not at all. */
static int sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
	close(fd);
	return ret;
}

static int write_new(struct redo_log *log, const char *path,
		     const struct redo_checkpoint *checkpoint)
{
	int ret = 0;

	log->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
	if (log->fd < 0)
		return fail(log, "make", -errno);
	for (size_t at = 0; at < FILE_BYTES && ret == 0; at += RECORDS_BYTES) {
		size_t left = FILE_BYTES - at;

		ret = write_at(log->fd, log->buffer, left < RECORDS_BYTES ? left : RECORDS_BYTES,
			       at);
	}
	if (ret < 0)
		return fail(log, "make", ret);
	ret = redo_restart(log, checkpoint);
	if (ret == 0 && fsync(log->fd) < 0)
		ret = fail(log, "make", -errno);
	close(log->fd);
	log->fd = -1;
	return ret;
}

/* It has its name when it is whole: so a damaged one is no one that was never finished. */
int redo_make(const char *folder, const struct redo_checkpoint *checkpoint, struct redo_log **out)
{
	struct redo_log *log = redo_new(folder);
	char path[PATH_MAX + 8];
	int ret;

	if (!log)
		return error_code(-ENOMEM);
	snprintf(path, sizeof(path), "%s.new", log->path);
	ret = write_new(log, path, checkpoint);
	if (ret < 0)
		goto out_unlink;
	if (rename(path, log->path) < 0)
		ret = -errno;
	if (ret == 0)
		ret = sync_folder(folder);
	if (ret == 0)
		log->fd = open(log->path, O_RDWR | O_DSYNC | O_CLOEXEC);
	if (ret == 0 && log->fd < 0)
		ret = -errno;
	if (ret < 0) {
		ret = fail(log, "make", ret);
		goto out_unlink;
	}
	*out = log;
	return 0;

out_unlink:
	unlink(path);
	redo_close(log);
	return ret;
}

/* ---- Records */

static uint64_t round_up(uint64_t length)
{
	return (length + BLOCK - 1) / BLOCK * BLOCK;
}

static uint32_t sum_record(struct record record, const void *changes)
{
	record.checksum = 0;
	return checksum_crc32c_seeded(checksum_crc32c(&record, sizeof(record)), changes,
				      record.length);
}

/* Returns where the next change goes, or UINT64_MAX: behind the end of what there is room for. */
static uint64_t add_change(struct redo_log *log, uint64_t at, struct meta_bytes key,
			   struct meta_bytes value, bool is_deleted)
{
	const struct change change = {(uint32_t)key.length,
				      is_deleted ? DELETED : (uint32_t)value.length};
	uint64_t length = sizeof(change) + key.length + value.length;

	if (at == UINT64_MAX || length > RECORDS_BYTES - log->end - at)
		return UINT64_MAX;
	memcpy(log->buffer + at, &change, sizeof(change));
	at += sizeof(change);
	memcpy(log->buffer + at, key.data, key.length);
	at += key.length;
	if (value.length)
		memcpy(log->buffer + at, value.data, value.length);
	return at + value.length;
}

/* Wipes the buffer, because the records in it may have had secrets. */
static void forget(struct redo_log *log)
{
	explicit_bzero(log->buffer, RECORDS_BYTES);
}

/* Nothing begins at the offset. */
static int write_nothing(struct redo_log *log, size_t offset)
{
	memset(log->buffer, 0, BLOCK);
	return write_at(log->fd, log->buffer, BLOCK, RECORDS_START + offset);
}

int redo_append(struct redo_log *log, const struct meta_put *puts, size_t nr_puts,
		const struct meta_bytes *deletes, size_t nr_deletes)
{
	struct record record = {.generation = log->header.generation,
				.salt = log->header.salt,
				.number = log->nr_records};
	uint64_t at = sizeof(record), blocks;
	int ret;

	if (RECORDS_BYTES - log->end < BLOCK)
		return -ENOBUFS;
	for (size_t i = 0; i < nr_deletes; i++)
		at = add_change(log, at, deletes[i], (struct meta_bytes){0}, true);
	for (size_t i = 0; i < nr_puts; i++)
		at = add_change(log, at, puts[i].key, puts[i].value, false);
	if (at == UINT64_MAX) {
		forget(log);
		return log->end == 0 ? -E2BIG : -ENOBUFS;
	}
	record.length = (uint32_t)(at - sizeof(record));
	record.checksum = sum_record(record, log->buffer + sizeof(record));
	memcpy(log->buffer, &record, sizeof(record));
	blocks = round_up(at);
	memset(log->buffer + at, 0, blocks - at);
	ret = write_at(log->fd, log->buffer, blocks, RECORDS_START + log->end);
	explicit_bzero(log->buffer, blocks); /* it may have had secrets */
	if (ret < 0) {
		/* It may be there all the same. */
		log->is_broken = write_nothing(log, log->end) < 0;
		return fail(log, "write", ret);
	}
	log->last = log->end;
	log->end += blocks;
	log->nr_records++;
	return 0;
}

int redo_take_back(struct redo_log *log)
{
	int ret = write_nothing(log, log->last);

	log->is_broken = ret < 0;
	if (ret < 0)
		return fail(log, "write", ret);
	log->end = log->last;
	log->nr_records--;
	return 0;
}

static int show_changes(const uint8_t *bytes, size_t length,
			int (*show)(void *argument, struct meta_bytes key, struct meta_bytes value),
			void *argument)
{
	struct change change;

	for (size_t at = 0; at < length;) {
		struct meta_bytes key, value = {0};
		int ret;

		if (length - at < sizeof(change))
			return -EILSEQ;
		memcpy(&change, bytes + at, sizeof(change));
		at += sizeof(change);
		key = (struct meta_bytes){bytes + at, change.key_length};
		if (change.key_length > length - at)
			return -EILSEQ;
		at += change.key_length;
		if (change.value_length != DELETED) {
			value = (struct meta_bytes){bytes + at, change.value_length};
			if (change.value_length > length - at)
				return -EILSEQ;
			at += change.value_length;
		}
		ret = show(argument, key, value);
		if (ret != 0)
			return ret;
	}
	return 0;
}

/* Returns whether a record of this checkpoint begins at the offset. */
static bool find_record(const struct redo_log *log, size_t offset, struct record *record)
{
	if (RECORDS_BYTES - offset < sizeof(*record))
		return false;
	memcpy(record, log->buffer + offset, sizeof(*record));
	return record->generation == log->header.generation && record->salt == log->header.salt;
}

static bool is_whole(const struct redo_log *log, size_t offset, const struct record *record)
{
	return record->length <= RECORDS_BYTES - offset - sizeof(*record) &&
	       record->checksum == sum_record(*record, log->buffer + offset + sizeof(*record));
}

/* Returns whether there is a record that comes after those that were shown, or after a header that is
 * gone. */
static bool is_record_missing(const struct redo_log *log)
{
	struct record record;

	if (!find_record(log, 0, &record) && record.generation > log->header.generation &&
	    is_whole(log, 0, &record))
		return true;
	for (size_t at = log->end; at < RECORDS_BYTES; at += BLOCK)
		if (find_record(log, at, &record) && is_whole(log, at, &record))
			return true;
	return false;
}

/* The records are in the buffer. */
static int replay(struct redo_log *log,
		  int (*change)(void *argument, struct meta_bytes key, struct meta_bytes value),
		  void *argument)
{
	struct record record;

	while (find_record(log, log->end, &record) && record.number == log->nr_records &&
	       is_whole(log, log->end, &record)) {
		const uint8_t *bytes = log->buffer + log->end + sizeof(record);

		int ret = show_changes(bytes, record.length, change, argument);

		if (ret == -EILSEQ)
			return fail_damaged(log);
		if (ret != 0)
			return ret;
		log->end += round_up(sizeof(record) + record.length);
		log->nr_records++;
	}
	return is_record_missing(log) ? fail_damaged(log) : 0;
}

int redo_replay(struct redo_log *log,
		int (*change)(void *argument, struct meta_bytes key, struct meta_bytes value),
		void *argument)
{
	int ret = read_at(log->fd, log->buffer, RECORDS_BYTES, RECORDS_START);

	if (ret < 0)
		ret = ret == -EILSEQ ? fail_damaged(log) : fail(log, "read", ret);
	else
		ret = replay(log, change, argument);
	forget(log);
	return ret;
}
