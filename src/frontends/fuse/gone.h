/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names that are gone. The kernel keeps what it has found, also if another mount or program removes it. It does so until memory is short,
 * or somebody comes by that name again. Meanwhile the manager keeps what has no other name. So the kernel is told.
 */
#ifndef FUSE_GONE_H
#define FUSE_GONE_H

#include <stdbool.h>
#include <stdint.h>

struct mount;

/* From when requests are served, until they are not any more. */
void gone_begin(struct mount *mount);
/* Returns false if the kernel still keeps the thread: then libfuse's session must stay. */
bool gone_end(void);
/* For the library: afar_fs_gone. `mount` need not have begun. */
void gone_tell(void *mount, uint64_t dir, const char *name, uint64_t ino);

#endif
