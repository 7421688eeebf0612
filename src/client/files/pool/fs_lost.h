/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lost bytes of a file system: they went with a server's memory, or with a store. Its layout names the chunks. A call
 * that asks for bytes there is answered with -EIO, and a line that says of which file, and which server had them.
 */
#ifndef CLIENT_FS_LOST_H
#define CLIENT_FS_LOST_H

#include "client/files/fs.h"

/* A range of the pool that is lost. */
struct fs_loss {
	uint64_t pool_offset;
	uint64_t length;
	uint64_t server; /* the number of the server that had it in memory, */
	uint64_t store;	 /* or of the store that had it; else 0 */
};

/* Finds the first lost bytes of a range of the pool, as far as is known here. False: there are none. */
bool fs_find_loss(struct afar_fs *fs, uint64_t pool_offset, uint64_t length, struct fs_loss *out);
/* Returns how many bytes of the pool are lost. */
uint64_t fs_lost_bytes(struct afar_fs *fs);
/* Gives the failure of an operation on a part of a file: `status`. It becomes -EIO, with the sentence,
 * if it is -AFAR_ELOST because the part is lost. */
int inode_fail_lost(struct file_inode *inode, const char *verb, uint64_t offset,
		    const struct file_piece *piece, int status);

#endif
