/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses where blocks go and what is cleaned. The decisions are those of streams.h and victim.h;
 * this tells them what the layer knows.
 */
#ifndef FLASH_POLICY_H
#define FLASH_POLICY_H

#include <stdint.h>

struct ftl;
struct map_page;
struct piece;
struct segment;

/* Begins with `nr_streams` streams; 0: as many as pay. */
void policy_open(struct ftl *ftl, unsigned nr_streams);
/* Chooses the streams of all blocks of the piece, whose pages are loaded. */
void policy_put(struct ftl *ftl, struct piece *piece);
/* Returns the stream of a block that is moved out of the victim. Its page is loaded. */
unsigned policy_move(struct ftl *ftl, const struct segment *victim, struct map_page *page,
		     uint64_t lba);
/* Returns the segment to be cleaned next; NULL: none has anything to give. */
struct segment *policy_victim(struct ftl *ftl);

#endif
