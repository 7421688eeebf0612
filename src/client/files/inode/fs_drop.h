/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages that the program keeps of files, as a mount's kernel does. The manager has them dropped (FileRevoke): the program is told, and the manager
 * is answered when it says that it has. So whoever is about to write elsewhere, or has written, waits for that.
 */
#ifndef CLIENT_FS_DROP_H
#define CLIENT_FS_DROP_H

#include <stdint.h>
#include <urcu/list.h>

#include <afar/file.h>

#include "rpc/rpc.h"

/* The drops of a file system. A lock of fs_drop.c's guards it. */
struct fs_drops {
	afar_fs_drop tell; /* NULL: the program keeps nothing */
	void *argument;
	struct cds_list_head list; /* struct afar_drop: the manager waits for these */
	unsigned nr_telling;
};

void drops_init(struct fs_drops *drops, const struct afar_fs_options *options);
/* Takes a call over that the program is to be told of. NULL: it keeps nothing, or there is no memory: then it does not take it. */
struct afar_drop *drop_new(struct fs_drops *drops, uint64_t ino, struct rpc_call *call);
/* Tells it. */
void drop_tell(struct afar_drop *drop);
/* The file system is closed: answers all that is left. */
void drops_end(struct fs_drops *drops);

#endif
