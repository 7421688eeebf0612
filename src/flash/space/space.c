/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the address space. Each makes a few calls to the layer, one after the other: records
 * in an order that a crash may cut anywhere, then a sync. The ranges in memory are in
 * space_table.h, space_look.c finds them, and space_open.c has what was changing when the last
 * process ended.
 *
 * Before its first call a change holds all addresses and room that it will need. It keeps what it
 * gives up until its last call has ended. So it can always be finished or undone.
 */
#include "flash/space/space.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "flash/space/space_private.h"

/* ---- calling the layer */

static void finish(struct space_request *request, int result)
{
	request->space->nr_under_way--;
	request->result = result;
	request->done(request);
}

/* Ends a change, and marks its range as not changing before it calls `done`. */
static void finish_change(struct space_request *request, int result)
{
	struct space_entry *entry = space_table_get(&request->space->table, request->id);

	entry->is_changing = false;
	request->start = entry->record.start;
	finish(request, result);
}

static void on_trimmed(struct ftl_trim *trim)
{
	struct space_request *request = caa_container_of(trim, struct space_request, call.trim);

	request->step(request, trim->result);
}

static void on_cloned(struct ftl_clone *clone)
{
	struct space_request *request = caa_container_of(clone, struct space_request, call.clone);

	request->step(request, clone->result);
}

static void on_synced(struct ftl_sync *sync)
{
	struct space_request *request = caa_container_of(sync, struct space_request, call.sync);

	request->step(request, sync->result);
}

/* Trims blocks [from, from + count) of the request's range, and then changes the range's record to
 * `record`; NULL removes it. */
static void change(struct space_request *request, const struct space_record *record, uint32_t from,
		   uint64_t count, void (*step)(struct space_request *request, int result))
{
	request->change.id = request->id;
	request->change.is_removal = !record;
	memset(request->change.data, 0, sizeof(request->change.data));
	if (record)
		memcpy(request->change.data, record, sizeof(*record));
	request->step = step;
	request->call.trim = (struct ftl_trim){
		.lba = ftl_lba(request->id, from),
		.count = count,
		.change = &request->change,
		.done = on_trimmed,
	};
	ftl_trim(request->space->ftl, &request->call.trim);
}

/* Makes all changes of records that have ended durable, and blocks [lba, lba + count) with them. */
static void sync_up(struct space_request *request, uint64_t lba, uint64_t count,
		    void (*step)(struct space_request *request, int result))
{
	request->step = step;
	request->call.sync = (struct ftl_sync){.lba = lba, .count = count, .done = on_synced};
	ftl_sync(request->space->ftl, &request->call.sync);
}

/* Returns the record that the change under way has written. */
static struct space_record written(const struct space_request *request)
{
	struct space_record record;

	memcpy(&record, request->change.data, sizeof(record));
	return record;
}

static void begin(struct space *space, struct space_request *request, struct space_entry *entry)
{
	request->space = space;
	entry->is_changing = true;
	space->nr_under_way++;
}

/* ---- what is refused at once */

static int refuse_extent(void)
{
	return error_fail(-EINVAL,
			  "change a range: it would have no blocks, more than 2^32 or some beyond "
			  "64 bits");
}

static int refuse_taken(uint64_t start, uint64_t length)
{
	return error_fail(-EEXIST,
			  "place a range at %#llx: others are within its %llu blocks; choose "
			  "another place",
			  (unsigned long long)start, (unsigned long long)length);
}

/*
 * Finds the range that is to be changed. NULL: it cannot be; `*ret` has the error, with a reason.
 */
static struct space_entry *find_entry(const struct space *space, uint32_t id, int *ret)
{
	struct space_entry *entry = space_table_get(&space->table, id);

	/* A range that is being made cannot be found yet. */
	if (!entry || (!entry->visible && entry->record.intent != SPACE_REMOVING)) {
		*ret = error_fail(-ENOENT, "change range %u: there is none of this number", id);
		return NULL;
	}
	if (entry->is_changing) {
		*ret = error_fail(-EBUSY, "change range %u: another change is under way", id);
		return NULL;
	}
	return entry;
}

static struct space_entry *find_quiet(const struct space *space, uint32_t id, int *ret)
{
	struct space_entry *entry = find_entry(space, id, ret);

	if (entry && entry->nr_clones) {
		*ret = error_fail(-EBUSY, "change range %u: it is being cloned", id);
		return NULL;
	}
	return entry;
}

/* Like find_quiet(), but refuses a range whose shrinking or removal did not finish. */
static struct space_entry *find_settled(const struct space *space, uint32_t id, int *ret)
{
	struct space_entry *entry = find_quiet(space, id, ret);

	if (entry && entry->record.intent != SPACE_SETTLED) {
		*ret = error_fail(-EBUSY,
				  "change range %u: it could not be trimmed before; do that again "
				  "first",
				  id);
		return NULL;
	}
	return entry;
}

/* ---- changes of one record: it is written, then takes effect here, then is synced */

/* Gives up what the change held beyond the range's record. */
static void undo(struct space_request *request, struct space_entry *entry)
{
	struct space_table *table = &request->space->table;

	space_table_hold(table, entry, entry->record.start, entry->record.length, 0, 0);
	space_table_account_anyway(table, entry, entry->record.reserved);
}

static void on_changed(struct space_request *request, int result)
{
	struct space_table *table = &request->space->table;
	struct space_entry *entry = space_table_get(table, request->id);
	struct space_record record = written(request);

	if (result) {
		undo(request, entry);
		finish_change(request, result);
		return;
	}
	space_table_hold(table, entry, record.start, record.length, 0, 0);
	space_table_account_anyway(table, entry, record.reserved);
	entry->record = record;
	entry->visible = record.length;
	sync_up(request, ftl_lba(request->id, 0), 0, finish_change);
}

static void on_created(struct space_request *request, int result)
{
	struct space_table *table = &request->space->table;

	if (result) {
		space_table_remove(table, space_table_get(table, request->id));
		finish(request, result);
		return;
	}
	on_changed(request, 0);
}

/* Finds a place for a new range, and holds it. */
static int place(struct space_table *table, struct space_entry *entry,
		 const struct space_request *request)
{
	uint64_t start = request->start;
	int ret = space_table_prepare(table);

	if (ret)
		return ret;
	if (start == SPACE_ANYWHERE) {
		ret = space_table_first_fit(table, request->length, &start);
		if (ret)
			return ret;
	}
	if (!space_extent_is_sane(start, request->length))
		return refuse_extent();
	if (!space_table_is_free(table, start, request->length, NULL))
		return refuse_taken(start, request->length);
	ret = space_table_account(table, entry,
				  request->is_thin ? request->reserved : request->length);
	if (ret)
		return ret;
	space_table_hold(table, entry, start, request->length, 0, 0);
	return 0;
}

int space_create(struct space *space, struct space_request *request)
{
	struct space_table *table = &space->table;
	uint32_t id = space_table_free_id(table);
	struct space_entry *entry;
	int ret;

	if (!space_extent_is_sane(0, request->length) ||
	    (request->is_thin && request->reserved > request->length))
		return refuse_extent();
	if (id >= SPACE_NR_RANGES)
		return error_fail(-ENOSPC, "make a range: there are %u already", SPACE_NR_RANGES);
	ret = space_table_add(table, id, &entry);
	if (ret)
		return ret;
	ret = place(table, entry, request);
	if (ret) {
		space_table_remove(table, entry);
		return ret;
	}
	entry->record.owner = request->owner;
	entry->record.length = request->length;
	entry->record.reserved = entry->held;
	request->id = id;
	begin(space, request, entry);
	change(request, &entry->record, 0, 0, on_created);
	return 0;
}

/* Finds a place for a range that grows, in place or elsewhere, and holds it. */
static int stretch(struct space_table *table, struct space_entry *entry, uint64_t length,
		   bool is_fixed, uint64_t *start)
{
	*start = entry->record.start;
	if (space_extent_is_sane(*start, length) &&
	    space_table_is_free(table, *start, length, entry)) {
		space_table_hold(table, entry, *start, length, 0, 0);
		return 0;
	}
	if (is_fixed)
		return refuse_taken(*start, length);
	if (space_table_first_fit(table, length, start))
		return -ENOSPC;
	space_table_hold(table, entry, entry->record.start, entry->record.length, *start, length);
	return 0;
}

int space_grow(struct space *space, struct space_request *request)
{
	struct space_table *table = &space->table;
	struct space_record record;
	struct space_entry *entry;
	int ret = 0;

	entry = find_settled(space, request->id, &ret);
	if (!entry)
		return ret;
	record = entry->record;
	if (request->length <= record.length || request->length > SPACE_LENGTH_MAX)
		return refuse_extent();
	if (record.reserved == record.length)
		record.reserved = request->length;
	ret = space_table_prepare(table);
	if (!ret)
		ret = space_table_account(table, entry, record.reserved);
	if (ret)
		return ret;
	ret = stretch(table, entry, request->length, request->is_fixed, &record.start);
	if (ret) {
		space_table_account_anyway(table, entry, entry->record.reserved);
		return ret;
	}
	record.length = request->length;
	begin(space, request, entry);
	change(request, &record, 0, 0, on_changed);
	return 0;
}

int space_reserve(struct space *space, struct space_request *request)
{
	struct space_record record;
	struct space_entry *entry;
	int ret = 0;

	entry = find_settled(space, request->id, &ret);
	if (!entry)
		return ret;
	record = entry->record;
	if (request->reserved > record.length)
		return refuse_extent();
	/* A smaller reservation frees room for others only once it is recorded. */
	ret = request->reserved > entry->held
		      ? space_table_account(&space->table, entry, request->reserved)
		      : 0;
	if (!ret)
		ret = space_table_prepare(&space->table);
	if (ret) {
		space_table_account_anyway(&space->table, entry, record.reserved);
		return ret;
	}
	record.reserved = request->reserved;
	begin(space, request, entry);
	change(request, &record, 0, 0, on_changed);
	return 0;
}

int space_relocate(struct space *space, struct space_request *request)
{
	struct space_table *table = &space->table;
	struct space_record record;
	struct space_entry *entry;
	int ret = 0;

	entry = find_settled(space, request->id, &ret);
	if (!entry)
		return ret;
	record = entry->record;
	ret = space_table_prepare(table);
	if (ret)
		return ret;
	if (request->start != SPACE_ANYWHERE)
		record.start = request->start;
	else if (space_table_first_fit(table, record.length, &record.start))
		return -ENOSPC;
	if (!space_extent_is_sane(record.start, record.length))
		return refuse_extent();
	if (!space_table_is_free(table, record.start, record.length, entry))
		return refuse_taken(record.start, record.length);
	space_table_hold(table, entry, entry->record.start, record.length, record.start,
			 record.length);
	begin(space, request, entry);
	change(request, &record, 0, 0, on_changed);
	return 0;
}

/*
 * ---- shrinking: writes a record of the intent, then trims and writes the new record with the last
 * step. It trims to the end of what a range can be, because a damaged page of the map may have
 * entries behind the range's end.
 */

static void on_shrunk(struct space_request *request, int result)
{
	struct space_entry *entry = space_table_get(&request->space->table, request->id);

	/* The intent stays on record, so blocks that were not trimmed cannot be found. */
	if (result) {
		finish_change(request, result);
		return;
	}
	assert(entry->record.intent == SPACE_SHRINKING);
	on_changed(request, 0);
}

static void trim_tail(struct space_request *request, const struct space_entry *entry)
{
	struct space_record record = entry->record;

	record.length = record.keep;
	if (record.reserved > record.length)
		record.reserved = record.length;
	record.intent = SPACE_SETTLED;
	record.keep = 0;
	change(request, &record, (uint32_t)record.length, SPACE_LENGTH_MAX - record.length,
	       on_shrunk);
}

/* Ends the writing of an intent. If it was written, `go_on` does the next step. */
static void take_intent(struct space_request *request, int result,
			void (*go_on)(struct space_request *, const struct space_entry *))
{
	struct space_entry *entry = space_table_get(&request->space->table, request->id);

	if (!result)
		entry->record = written(request);
	entry->visible = space_visible(&entry->record);
	if (result)
		finish_change(request, result);
	else
		go_on(request, entry);
}

static void on_shrink_intended(struct space_request *request, int result)
{
	take_intent(request, result, trim_tail);
}

int space_shrink(struct space *space, struct space_request *request)
{
	struct space_record record;
	struct space_entry *entry;
	int ret = 0;

	entry = find_quiet(space, request->id, &ret);
	if (!entry)
		return ret;
	record = entry->record;
	if (record.intent == SPACE_REMOVING)
		return error_fail(-ENOENT, "shrink range %u: it was removed", request->id);
	/* A shrinking that failed before may be repeated. */
	if (!request->length || request->length > entry->visible ||
	    request->length == record.length)
		return refuse_extent();
	ret = space_table_prepare(&space->table);
	if (ret)
		return ret;
	record.intent = SPACE_SHRINKING;
	record.keep = (uint32_t)request->length;
	entry->visible = request->length;
	begin(space, request, entry);
	change(request, &record, 0, 0, on_shrink_intended);
	return 0;
}

/* ---- removing, in the same way */

static void on_removed(struct space_request *request, int result)
{
	struct space_table *table = &request->space->table;

	if (result) {
		finish_change(request, result);
		return;
	}
	space_table_remove(table, space_table_get(table, request->id));
	sync_up(request, ftl_lba(request->id, 0), 0, finish);
}

static void trim_all(struct space_request *request, const struct space_entry *entry)
{
	(void)entry;
	change(request, NULL, 0, SPACE_LENGTH_MAX, on_removed);
}

static void on_removal_intended(struct space_request *request, int result)
{
	take_intent(request, result, trim_all);
}

int space_remove(struct space *space, struct space_request *request)
{
	struct space_record record;
	struct space_entry *entry;
	int ret = 0;

	entry = find_quiet(space, request->id, &ret);
	if (!entry)
		return ret;
	record = entry->record;
	record.intent = SPACE_REMOVING;
	record.keep = 0;
	entry->visible = 0;
	begin(space, request, entry);
	change(request, &record, 0, 0, on_removal_intended);
	return 0;
}

void space_resume(struct space *space, struct space_request *request, struct space_entry *entry)
{
	begin(space, request, entry);
	if (entry->record.intent == SPACE_SHRINKING)
		trim_tail(request, entry);
	else
		trim_all(request, entry);
}

/* ---- cloning */

static void finish_clone(struct space_request *request, int result)
{
	const struct space_table *table = &request->space->table;

	space_table_get(table, request->id)->nr_clones--;
	space_table_get(table, request->target)->nr_clones--;
	finish(request, result);
}

static void on_clone_done(struct space_request *request, int result)
{
	if (result)
		finish_clone(request, result);
	else
		sync_up(request, request->call.clone.target, request->length, finish_clone);
}

static bool is_within(const struct space_entry *entry, uint64_t offset, uint64_t length)
{
	return length && length <= entry->visible && offset <= entry->visible - length;
}

int space_clone_range(struct space *space, struct space_request *request)
{
	uint64_t length = request->length;
	struct space_entry *source, *target;
	int ret = 0;

	source = find_entry(space, request->id, &ret);
	target = source ? find_entry(space, request->target, &ret) : NULL;
	if (!target)
		return ret;
	if (!is_within(source, request->offset, length) ||
	    !is_within(target, request->target_offset, length))
		return error_fail(-EINVAL,
				  "clone %llu blocks of range %u: they are not all within the "
				  "two ranges",
				  (unsigned long long)length, request->id);
	if (source == target && request->offset < request->target_offset + length &&
	    request->target_offset < request->offset + length)
		return error_fail(-EINVAL, "clone a part of range %u: it would be onto itself",
				  request->id);
	source->nr_clones++;
	target->nr_clones++;
	request->space = space;
	space->nr_under_way++;
	request->step = on_clone_done;
	request->call.clone = (struct ftl_clone){
		.source = ftl_lba(request->id, (uint32_t)request->offset),
		.target = ftl_lba(request->target, (uint32_t)request->target_offset),
		.count = length,
		.done = on_cloned,
	};
	ftl_clone(space->ftl, &request->call.clone);
	return 0;
}
