/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which request comes before which. Those that change something are in a list from their beginning
 * to their end, in the order in which they came, each with a ticket. A sync is not in the list: it
 * compares its own ticket with theirs.
 */
#ifndef FLASH_ORDER_H
#define FLASH_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/ftl.h"

/* Puts the request at the end of the list, with the next ticket. */
void order_begin(struct ftl *ftl, struct ftl_order *order);
void order_end(struct ftl_order *order);

bool order_overlaps(const struct ftl_order *order, uint64_t lba, uint64_t count);
/* Returns whether one with an earlier ticket than `ticket`, which has not ended, has one of the
 * blocks. */
bool order_has_earlier(struct ftl *ftl, uint64_t ticket, uint64_t lba, uint64_t count);
/* Returns whether all of those are puts whose records are in the journal. */
bool order_is_recorded(struct ftl *ftl, uint64_t ticket, uint64_t lba, uint64_t count);
/* Notes that a sync waits for all that are in the list and have one of the blocks. */
void order_await(struct ftl *ftl, uint64_t lba, uint64_t count);

#endif
