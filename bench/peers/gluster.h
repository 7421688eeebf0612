/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for files that a cluster file system keeps: GlusterFS with one brick, on 127.0.0.1. */
#ifndef BENCH_GLUSTER_H
#define BENCH_GLUSTER_H

#include "fuse_mount.h"

/* Its zeroed form was not opened. */
struct gluster {
	struct peer brick;
	struct fuse_mount mount;
};

/* Returns NULL if it can be used here; otherwise why not. */
const char *gluster_missing(void);

/* Starts a brick that keeps its files in `folder`, and mounts it at `mount.place`. */
int gluster_open(const char *folder, struct gluster *gluster);
void gluster_close(struct gluster *gluster);

#endif
