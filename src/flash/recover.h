/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens what a crash, or an orderly end, has left: recover.c reads the checkpoint, replay.c the
 * journal since.
 */
#ifndef FLASH_RECOVER_H
#define FLASH_RECOVER_H

#include <stdint.h>

struct ftl;
struct segment;

/* Fills an empty layer. 0, or a negative code with a line. */
int ftl_recover(struct ftl *ftl);

/* ---- replay.c ---- */

/*
 * Applies what the journal says since the checkpoint. `*end` is the block behind its last. 0, or a
 * negative code with a line.
 */
int recover_replay(struct ftl *ftl, uint64_t *end);
/* Makes a segment free that has no valid block, whatever its state is, but for BAD: see segment_forgive(). */
void recover_set_free(struct ftl *ftl, struct segment *segment);

#endif
