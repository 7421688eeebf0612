/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for files over the network: NFS-Ganesha, which exports a folder over NFSv4 on 127.0.0.1. Its client is
 * libnfs, in this process and without the kernel, loaded when it is first needed.
 */
#ifndef BENCH_GANESHA_H
#define BENCH_GANESHA_H

#include <stddef.h>
#include <stdint.h>

struct ganesha; /* a server, and a client that has mounted its export */

/* Returns NULL if both can be used here; otherwise why not. */
const char *ganesha_missing(void);

/* Starts a server that exports `folder`, and mounts that. The folder must outlive it. */
int ganesha_open(const char *folder, struct ganesha **out);
/* NULL is allowed. */
void ganesha_close(struct ganesha *ganesha);

/* Each call is a program's: opening, moving and closing. Names are of files in the folder. They return 0, or a
 * negative code after bench_fail(). A read of another length fails. */
int ganesha_make(struct ganesha *ganesha, const char *name, const void *data, size_t length);
/* `end`: where the file ends. */
int ganesha_append(struct ganesha *ganesha, const char *name, uint64_t end, const void *data,
		   size_t length);
int ganesha_look(struct ganesha *ganesha, const char *name);
int ganesha_read(struct ganesha *ganesha, const char *name, void *data, size_t length);
int ganesha_remove(struct ganesha *ganesha, const char *name);

/* Reads `bytes` of a file from its beginning, in calls of `size`, into the same memory each time. */
int ganesha_stream(struct ganesha *ganesha, const char *name, void *data, size_t size,
		   uint64_t bytes);

#endif
