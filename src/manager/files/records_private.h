/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by records.c and records_system.c. */
#ifndef MANAGER_FILES_RECORDS_PRIVATE_H
#define MANAGER_FILES_RECORDS_PRIVATE_H

#include <endian.h>
#include <string.h>

#include "manager/files/records.h"
#include "manager/tables/store.h"

/* The letters of the keys; those of store_private.h are other ones. */
enum record_kind {
	RECORD_SYSTEM = 'F',   /* fs                   FileSystem                    */
	RECORD_INODE = 'I',    /* fs ino               Inode                         */
	RECORD_NAME = 'D',     /* fs directory "name"  Dirent                        */
	RECORD_RUN = 'L',      /* fs ino unit          Run                           */
	RECORD_XATTR = 'X',    /* fs ino "name"        the value                     */
	RECORD_UNLINKED = 'O', /* fs ino               nothing: open, without a name */
	RECORD_AHEAD = 'A',    /* fs ino               nothing: open, with room ahead of its end */
	RECORD_SCRUB = 'Q',    /* fs number            Scrub                         */
	RECORD_SPACE = 'S',    /* fs segment           a bit for each unit: it is taken */
	RECORD_EMPTIED = 'Z',  /* fs                   nothing: deleted, and records are left */
};

static inline struct store *store_of(const struct fs *fs)
{
	return fs_core(fs)->store;
}

static inline uint64_t number_at(const void *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));
	return be64toh(number);
}

/* The number in a key that begins behind `nr` others. */
static inline uint64_t key_number(struct meta_bytes key, size_t nr)
{
	return number_at((const uint8_t *)key.data + 1 + nr * sizeof(uint64_t));
}

/* -EIO, with a sentence. */
int record_damaged(const struct fs *fs, const char *what);

#endif
