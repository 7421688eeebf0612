/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages that the program keeps of files, as a mount's kernel does. The manager has them dropped (FileRevoke). The program is told, and the manager
 * is answered when it has dropped them of all files that the call names. So whoever is about to write elsewhere, or has written, waits for that.
 */
#ifndef CLIENT_FS_DROP_H
#define CLIENT_FS_DROP_H

#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include <afar/file.h>

#include "rpc/rpc.h"

struct drop_call;

/* The drops of a file system. A lock of fs_drop.c's guards it. */
struct fs_drops {
	afar_fs_drop tell; /* NULL: the program keeps nothing */
	void *argument;
	struct cds_list_head list; /* struct afar_drop: the manager waits for these */
	unsigned nr_telling;
};

void drops_init(struct fs_drops *drops, const struct afar_fs_options *options);
/* Takes a call over that the program is to be told of. NULL: it keeps nothing, or there is no memory: then it does not take it. */
struct drop_call *drop_call_new(struct fs_drops *drops, const uint64_t *inos, size_t nr,
				struct rpc_call *call);
/* Tells it. */
void drop_call_tell(struct drop_call *call);
/* The file system is closed: answers all that is left. */
void drops_end(struct fs_drops *drops);

#endif
