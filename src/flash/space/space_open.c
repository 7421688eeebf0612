/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens an address space from its records, and finishes the changes that a crash interrupted. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "flash/space/space_private.h"

/* A change that a crash interrupted, and that the open finishes. */
struct repeat {
	struct space_request request;
	struct cds_list_head node;
};

static int load_range(struct space_table *table, uint32_t id, const void *data)
{
	struct space_record record;
	struct space_entry *entry;
	int ret = space_record_decode(id, data, &record);

	if (!ret)
		ret = space_table_prepare(table);
	if (ret)
		return ret;
	if (!space_table_is_free(table, record.start, record.length, NULL))
		return error_fail(-EBADMSG,
				  "open an address space: range %u overlaps another; its records "
				  "are damaged",
				  id);
	ret = space_table_add(table, id, &entry);
	if (ret)
		return ret;
	entry->record = record;
	entry->visible = space_visible(&record);
	space_table_hold(table, entry, record.start, record.length, 0, 0);
	space_table_account_anyway(table, entry, record.reserved);
	return 0;
}

static int load(struct space *space)
{
	uint32_t id = ftl_record_next(space->ftl, 0);

	for (; id < SPACE_NR_RANGES; id = ftl_record_next(space->ftl, id + 1)) {
		int ret = load_range(&space->table, id, ftl_record(space->ftl, id));

		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Frees the repeated change. If it failed, the range stays as it is and the next open tries again.
 */
static void on_repeated(struct space_request *request)
{
	struct repeat *repeat = caa_container_of(request, struct repeat, request);

	cds_list_del(&repeat->node);
	free(repeat);
}

static int repeat_change(struct space *space, struct space_entry *entry)
{
	struct repeat *repeat;
	int ret;

	if (entry->record.intent == SPACE_SETTLED)
		return 0;
	ret = space_table_prepare(&space->table);
	if (ret)
		return ret;
	repeat = calloc(1, sizeof(*repeat));
	if (!repeat)
		return error_code(-ENOMEM);
	cds_list_add_tail(&repeat->node, &space->repeats);
	repeat->request.id = entry->id;
	repeat->request.done = on_repeated;
	space_resume(space, &repeat->request, entry);
	return 0;
}

/*
 * Repeats the changes that a crash interrupted. Without memory the rest waits for the next open.
 * The blocks that were to go cannot be found anyway. The open cannot fail any more, because the
 * layer already has requests.
 */
static void repeat_changes(struct space *space)
{
	for (size_t id = 0; id < space->table.nr_slots; id++) {
		struct space_entry *entry = space_table_get(&space->table, (uint32_t)id);

		if (entry && repeat_change(space, entry))
			return;
	}
}

int space_open(struct ftl *ftl, struct space **out)
{
	struct space *space = calloc(1, sizeof(*space));
	struct ftl_stat stat;
	int ret;

	if (!space)
		return error_code(-ENOMEM);
	ftl_stat(ftl, &stat);
	space->ftl = ftl;
	CDS_INIT_LIST_HEAD(&space->repeats);
	space_table_init(&space->table, stat.capacity_blocks, stat.map_slots);
	ret = load(space);
	if (ret) {
		space_close(space);
		return ret;
	}
	repeat_changes(space);
	*out = space;
	return 0;
}

void space_close(struct space *space)
{
	struct repeat *repeat, *next;

	cds_list_for_each_entry_safe (repeat, next, &space->repeats, node)
		free(repeat);
	space_table_free(&space->table);
	free(space);
}
