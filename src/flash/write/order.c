/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of requests; see order.h. */
#include "flash/write/order.h"

#include <urcu/list.h>

#include "flash/ftl_private.h"

void order_begin(struct ftl *ftl, struct ftl_order *order)
{
	order->ticket = ++ftl->ticket;
	order->is_awaited = order->is_recorded = false;
	cds_list_add_tail(&order->node, &ftl->order);
}

void order_end(struct ftl_order *order)
{
	cds_list_del(&order->node);
}

static bool overlap(uint64_t lba, uint64_t count, uint64_t other, uint64_t other_count)
{
	return count && other_count &&
	       (lba < other ? other - lba < count : lba - other < other_count);
}

bool order_overlaps(const struct ftl_order *order, uint64_t lba, uint64_t count)
{
	return overlap(order->lba[0], order->count[0], lba, count) ||
	       overlap(order->lba[1], order->count[1], lba, count);
}

bool order_has_earlier(struct ftl *ftl, uint64_t ticket, uint64_t lba, uint64_t count)
{
	struct ftl_order *order;

	cds_list_for_each_entry (order, &ftl->order, node) {
		if (order->ticket >= ticket)
			break;
		/* FTL_ALL includes requests that have no blocks but change a record. */
		if (count == FTL_ALL || order_overlaps(order, lba, count))
			return true;
	}
	return false;
}

bool order_is_recorded(struct ftl *ftl, uint64_t ticket, uint64_t lba, uint64_t count)
{
	struct ftl_order *order;

	cds_list_for_each_entry (order, &ftl->order, node) {
		if (order->ticket >= ticket)
			break;
		if (!order->is_recorded && (count == FTL_ALL || order_overlaps(order, lba, count)))
			return false;
	}
	return true;
}

void order_await(struct ftl *ftl, uint64_t lba, uint64_t count)
{
	struct ftl_order *order;

	cds_list_for_each_entry (order, &ftl->order, node) {
		if (count == FTL_ALL || order_overlaps(order, lba, count))
			order->is_awaited = true;
	}
}
