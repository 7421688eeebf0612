/* SPDX-License-Identifier: BSD-3-Clause */
/* Has file systems do what nobody asks for, in its order (files_work.c). */
#ifndef MANAGER_FILES_WORK_H
#define MANAGER_FILES_WORK_H

#include "manager/core_private.h"

/* In a batch of the core's own: deletes records of deleted file systems, bit by bit. */
void files_work(struct core *core);
/* Between batches: tells servers what to zero; drops inodes that nobody uses. */
void files_drive(struct core *core);
uint64_t files_next(const struct core *core);

#endif
