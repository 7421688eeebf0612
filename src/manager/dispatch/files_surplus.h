/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives back room of pools by itself; for files_work.c. */
#ifndef MANAGER_FILES_SURPLUS_H
#define MANAGER_FILES_SURPLUS_H

#include <stdint.h>

struct fs;

/* Watches what is free, between batches; gives back, in one, what nobody has needed for long. */
void shrink_drive(struct fs *fs);
int shrink_work(struct fs *fs);
uint64_t shrink_next(const struct fs *fs);

#endif
