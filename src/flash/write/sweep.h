/* SPDX-License-Identifier: BSD-3-Clause */
/* Trims and clones. */
#ifndef FLASH_SWEEP_H
#define FLASH_SWEEP_H

struct ftl;

/* Moves on those that nothing before them is in the way of. */
void sweeps_progress(struct ftl *ftl);

#endif
