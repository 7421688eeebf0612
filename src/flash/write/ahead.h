/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Appends a put's records to the journal before its data is written, if a sync waits for the put.
 * ahead.c says why this is safe.
 */
#ifndef FLASH_AHEAD_H
#define FLASH_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

struct ftl;
struct ftl_put;
struct piece;

/* Appends the records of a piece that has its place and is to be written, if that is of use. */
void ahead_place(struct piece *piece);
/* Declares the records of a piece void, which could not be written. It goes elsewhere, or fails. */
void ahead_void(struct piece *piece);
/* Notes that a piece was written whose records are there. The caller applies them. */
void ahead_settle(struct piece *piece);
/*
 * Finds out anew whether all records of the put are in the journal. To be called when one of its
 * pieces was split, or has ended.
 */
void ahead_note(struct ftl_put *put);
/* Returns whether recovery could still read void records of the piece, and find it done. */
bool ahead_is_in_doubt(const struct piece *piece);
/* Returns whether a write of the block is in flight that has its record. */
bool ahead_has(struct ftl *ftl, uint64_t lba);

#endif
