/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of files on their pool: moving bytes, zeroing, syncing. */
#ifndef CLIENT_FS_TRANSFER_H
#define CLIENT_FS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

struct afar_fs;
struct target_piece;

struct fs_syncs {
	uint64_t nr_begun, nr_ended;
	bool is_running;
	int status;	    /* of the last one */
	uint64_t nr_losses; /* syncs that told of lost writes */
	uint64_t nr_told;   /* of these, when afar_fs_sync() told of them last */
};

/* Moves pieces between memory and the pool, again and again while servers cannot be reached. */
int fs_transfer(struct afar_fs *fs, uint16_t opcode, uint32_t flags, struct target_piece *pieces,
		unsigned nr);
/* Zeroes a range of the pool likewise. Durably on flash. */
int fs_zero(struct afar_fs *fs, uint64_t pool_offset, uint64_t length);
/* Has all of the pool made durable. 0 also if something was lost: fs_losses.c knows of which inodes. */
int fs_sync_pool(struct afar_fs *fs);

#endif
