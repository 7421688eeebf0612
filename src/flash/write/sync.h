/* SPDX-License-Identifier: BSD-3-Clause */
/* Syncs. */
#ifndef FLASH_SYNC_H
#define FLASH_SYNC_H

struct ftl;

/* Has the journal flushed as far as syncs want, and ends those that wait no longer. */
void syncs_progress(struct ftl *ftl);

#endif
