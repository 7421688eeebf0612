/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The units that a file got ahead last, and which of them this process has written. The manager sees no writes, and is
 * told with the next call that makes room. A process that writes on and on gets more ahead; one that passes by its
 * units does not. Pure memory; the inode's lock guards it.
 */
#ifndef CLIENT_FILE_AHEAD_H
#define CLIENT_FILE_AHEAD_H

#include <stdint.h>

#define FILE_AHEAD_MAX 65536U /* units; of more nothing is known */

struct file_ahead {
	uint64_t from, to; /* in the file; equal: nothing is known */
	uint64_t nr_written;
	uint8_t *written; /* a bit for each */
};

/* These have come; those before are forgotten. Without memory nothing is known of them. */
void file_ahead_begin(struct file_ahead *ahead, uint64_t from, uint64_t to);
/* Forgets them. */
void file_ahead_end(struct file_ahead *ahead);
/* A range of bytes is being written. */
void file_ahead_note(struct file_ahead *ahead, uint64_t offset, uint64_t length);

#endif
