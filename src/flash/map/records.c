/* SPDX-License-Identifier: BSD-3-Clause */
/* The small records that callers keep, in a sorted array. The journal has the changes, checkpoints
 * have all records. */
#include "flash/map/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flash/ftl_private.h"

struct records {
	uint32_t nr, nr_max;
	struct format_table_record at[];
};

struct records *records_open(uint32_t nr_max)
{
	struct records *records =
		calloc(1, sizeof(*records) + nr_max * sizeof(struct format_table_record));

	if (records)
		records->nr_max = nr_max;
	return records;
}

void records_close(struct records *records)
{
	free(records);
}

uint32_t records_nr(const struct records *records)
{
	return records->nr;
}

void records_at(const struct records *records, uint32_t n, struct format_table_record *out)
{
	*out = records->at[n];
}

/* Returns the index of the first record from `id` on. */
static uint32_t find(const struct records *records, uint32_t id)
{
	uint32_t low = 0, nr = records->nr;

	while (nr > 0) {
		uint32_t half = nr / 2;
		bool is_before = records->at[low + half].id < id;

		low = is_before ? low + half + 1 : low;
		nr = is_before ? nr - half - 1 : half;
	}
	return low;
}

static bool is_at(const struct records *records, uint32_t place, uint32_t id)
{
	return place < records->nr && records->at[place].id == id;
}

const void *records_find(const struct records *records, uint32_t id)
{
	uint32_t place = find(records, id);

	return is_at(records, place, id) ? records->at[place].data : NULL;
}

uint32_t records_next(const struct records *records, uint32_t id)
{
	uint32_t place = find(records, id);

	return place < records->nr ? records->at[place].id : FTL_NR_RANGES;
}

int records_check(const struct records *records, const struct ftl_record_change *change)
{
	if (change->id >= FTL_NR_RANGES)
		return error_fail(-EINVAL, "keep a record: its number %u is too high", change->id);
	if (!change->is_removal && records->nr == records->nr_max &&
	    !records_find(records, change->id))
		return error_fail(-ENOSPC, "keep a record: there are %u, and no room for more",
				  records->nr);
	return 0;
}

int records_apply(struct records *records, const struct ftl_record_change *change)
{
	uint32_t place = find(records, change->id);
	struct format_table_record *at = &records->at[place];
	bool is_there = is_at(records, place, change->id);
	int ret = records_check(records, change);

	if (ret)
		return ret;
	if (change->is_removal) {
		if (is_there)
			memmove(at, at + 1, (--records->nr - place) * sizeof(*at));
		return 0;
	}
	if (!is_there)
		memmove(at + 1, at, (records->nr++ - place) * sizeof(*at));
	*at = (struct format_table_record){.id = change->id};
	memcpy(at->data, change->data, sizeof(at->data));
	return 0;
}

const void *ftl_record(struct ftl *ftl, uint32_t id)
{
	return records_find(ftl->records, id);
}

uint32_t ftl_record_next(struct ftl *ftl, uint32_t id)
{
	return records_next(ftl->records, id);
}
