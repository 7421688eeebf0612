/* SPDX-License-Identifier: BSD-3-Clause */
/* Replays the journal; for recovery alone. */
#ifndef FLASH_REPLAY_H
#define FLASH_REPLAY_H

#include <stdint.h>

struct ftl;
struct segment;

/*
 * Applies what the journal says since the checkpoint. `*end` is the block behind its last. 0, or a
 * negative code with a line.
 */
int recover_replay(struct ftl *ftl, uint64_t *end);
/* Makes a segment free that has no valid block, whatever its state is, but for BAD: see segment_forgive(). */
void recover_set_free(struct ftl *ftl, struct segment *segment);

#endif
