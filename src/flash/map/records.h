/* SPDX-License-Identifier: BSD-3-Clause */
/* The small records that callers keep in a layer, in memory, in order of their ids. */
#ifndef FLASH_RECORDS_H
#define FLASH_RECORDS_H

#include <stdint.h>

struct format_table_record;
struct ftl_record_change;
struct records;

/* Makes an empty table for at most `nr_max` records. NULL: no memory. */
struct records *records_open(uint32_t nr_max);
void records_close(struct records *records);
uint32_t records_nr(const struct records *records);
/* Copies the `n`-th record, which must exist. */
void records_at(const struct records *records, uint32_t n, struct format_table_record *out);
/* Checks whether the change can be made. Returns 0; -EINVAL: its id is not below FTL_NR_RANGES;
 * -ENOSPC: there are `nr_max` records already. */
int records_check(const struct records *records, const struct ftl_record_change *change);
/* Makes the change. Errors as records_check()'s. Removing a record that is not there is none. */
int records_apply(struct records *records, const struct ftl_record_change *change);
/* Returns the record's FTL_RECORD_BYTES, valid until the next change; NULL: there is none. */
const void *records_find(const struct records *records, uint32_t id);
/* Returns the lowest id from `id` on that has a record; FTL_NR_RANGES: none has. */
uint32_t records_next(const struct records *records, uint32_t id);

#endif
