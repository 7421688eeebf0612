/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies the journal's records to map, segments and callers' records: right after a request has
 * appended them, and when they are replayed. The pages of the map that they are about are loaded.
 */
#ifndef FLASH_APPLY_H
#define FLASH_APPLY_H

#include <stdint.h>

#include "flash/format.h"

struct ftl;
struct ftl_record_change;

/*
 * These append a record, for which the caller has reserved room, and apply it. They cannot fail:
 * where memory is short the layer fails, with ftl_fail(). `pace` is struct loss's.
 */
void ftl_record_put(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace);
/* These do the same in two steps: the first only appends the record, the second only applies it. */
void ftl_record_ahead(struct ftl *ftl, uint64_t lba, struct format_entry entry);
void ftl_apply_ahead(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace);
void ftl_record_move(struct ftl *ftl, uint64_t lba, struct format_entry entry);
/* The block at `from` was moved. It may be that of `lba`, of which nobody knows where it lies. */
void ftl_record_carry(struct ftl *ftl, uint64_t lba, uint32_t from, uint32_t to);
/* The block at `place`, which might have been that of `lba`, is not. */
void ftl_record_release(struct ftl *ftl, uint64_t lba, uint32_t place);
void ftl_record_trim(struct ftl *ftl, uint64_t lba, uint32_t count);
void ftl_record_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count);
void ftl_record_change(struct ftl *ftl, const struct ftl_record_change *change);

/* These apply alone, as replay does. 0, -ENOMEM or -ENOSPC. */
int apply_put(struct ftl *ftl, uint64_t lba, struct format_entry entry);
int apply_carry(struct ftl *ftl, uint64_t lba, uint32_t from, uint32_t to);
void apply_release(struct ftl *ftl, uint64_t lba, uint32_t place);
void apply_trim(struct ftl *ftl, uint64_t lba, uint32_t count);
int apply_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count);

#endif
