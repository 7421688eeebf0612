/* SPDX-License-Identifier: BSD-3-Clause */
/* Mounts through FUSE, for the length of a stage: Afar's, those of libfuse's examples, and GlusterFS's. */
#ifndef BENCH_FUSE_MOUNT_H
#define BENCH_FUSE_MOUNT_H

#include "peer.h"

/* Its zeroed form was not mounted. */
struct fuse_mount {
	struct peer peer; /* the process that serves it */
	char place[64];	  /* empty: nothing is mounted */
};

/* Return NULL if the mount can be made here; otherwise why not. */
const char *fuse_mount_missing(void);
const char *fuse_passthrough_missing(void);

/* Mounts file system `fs` of the cluster by `afar mount`, with further options of its (-o). Waits until it
 * answers. */
int fuse_mount_afar(struct fuse_mount *mount, const char *uri, const char *fs, const char *options);
/* Mounts `folder` by libfuse's passthrough_ll: inodes by handles, which it finds in a list. `cache`:
 * "auto" or "never". Names and attributes may be `old_s` seconds old; 0: they are asked for each time. The kernel reads ahead as
 * far as for `afar mount`. */
int fuse_mount_passthrough(struct fuse_mount *mount, const char *folder, const char *cache,
			   unsigned old_s);
/* Mounts `folder` by libfuse's passthrough_fh: inodes by paths, in a table, so that there may be many. Names
 * and attributes are asked for each time here, too. */
int fuse_mount_passthrough_paths(struct fuse_mount *mount, const char *folder);
/* Mounts what a volume file of GlusterFS describes. Names and attributes are asked for each time here, too. */
int fuse_mount_gluster(struct fuse_mount *mount, const char *volume);
/* Takes the mount away, ends its process, and removes the folder. A zeroed one is allowed. */
void fuse_mount_end(struct fuse_mount *mount);

#endif
