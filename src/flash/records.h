/* SPDX-License-Identifier: BSD-3-Clause */
/* The small records that callers keep in a layer, as they are in memory. */
#ifndef FLASH_RECORDS_H
#define FLASH_RECORDS_H

#include <stdint.h>

struct format_table_record;
struct ftl_record_change;
struct records;

/* NULL: no memory. */
struct records *records_open(uint32_t nr_max);
void records_close(struct records *records);
uint32_t records_nr(const struct records *records);
/* The `n`-th, in order of their ids. */
void records_at(const struct records *records, uint32_t n, struct format_table_record *out);
/* -ENOSPC: there are as many as can be. */
int records_check(const struct records *records, const struct ftl_record_change *change);
int records_apply(struct records *records, const struct ftl_record_change *change);
const void *records_find(const struct records *records, uint32_t id);
uint32_t records_next(const struct records *records, uint32_t id);

#endif
