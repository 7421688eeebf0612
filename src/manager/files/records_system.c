/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of file systems as a whole: their own, those of the free parts of their pools, and the rest of deleted ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/files/records_private.h"
#include "manager/stored.pb-c.h"

#define SEGMENT_UNITS (SPACE_SEGMENT_BYTES / FILE_UNIT)
#define EMPTY_AT_ONCE 4096U /* records that one batch deletes */

/* ---- Space: a segment's bits come from the free runs, in which nothing is twice */

static void clear_bits(uint8_t *bits, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		bits[i / 8] = (uint8_t)(bits[i / 8] & ~(1U << i % 8));
}

static size_t first_run_behind(const struct space *space, uint64_t offset)
{
	size_t low = 0, high = space->nr_runs;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (space->runs[middle].offset + space->runs[middle].length <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void put_segment(struct fs *fs, uint64_t segment)
{
	uint64_t start = segment * SPACE_SEGMENT_BYTES, end = start + SPACE_SEGMENT_BYTES;
	uint8_t bits[SEGMENT_UNITS / 8];

	memset(bits, 0xff, sizeof(bits));
	for (size_t i = first_run_behind(&fs->space, start);
	     i < fs->space.nr_runs && fs->space.runs[i].offset < end; i++) {
		const struct space_run *run = &fs->space.runs[i];
		uint64_t from = run->offset > start ? run->offset : start;
		uint64_t to = run->offset + run->length < end ? run->offset + run->length : end;

		clear_bits(bits, (from - start) / FILE_UNIT, (to - start) / FILE_UNIT);
	}
	/* Units that the pool does not have yet are free when it has them. */
	if (fs->space.length < end)
		clear_bits(bits,
			   fs->space.length > start ? (fs->space.length - start) / FILE_UNIT : 0,
			   SEGMENT_UNITS);
	store_put_bytes(store_of(fs), STORE_KEY(RECORD_SPACE, fs->number, segment), bits,
			sizeof(bits));
}

void record_put_space(struct fs *fs, uint64_t offset, uint64_t length)
{
	for (uint64_t i = offset / SPACE_SEGMENT_BYTES;
	     i <= (offset + length - 1) / SPACE_SEGMENT_BYTES; i++)
		put_segment(fs, i);
}

/* ---- The whole of a file system */

void record_put_system(const struct fs *fs)
{
	Stored__FileSystem record = STORED__FILE_SYSTEM__INIT;

	record.root = fs->root;
	record.next_ino = fs->next_ino;
	record.nr_inodes = fs->nr_inodes;
	record.max_inodes = fs->max_inodes;
	record.next_scrub = fs->next_scrub;
	record.nr_lost_units = fs->nr_lost_units;
	store_put_message(store_of(fs), STORE_KEY(RECORD_SYSTEM, fs->number), &record.base);
}

void record_delete_system(const struct fs *fs)
{
	store_delete(store_of(fs), STORE_KEY(RECORD_SYSTEM, fs->number));
}

static int load_system(struct fs *fs)
{
	Stored__FileSystem *record;
	size_t length;
	void *value;
	int ret = store_get(store_of(fs), STORE_KEY(RECORD_SYSTEM, fs->number), &value, &length);

	if (ret < 0)
		return ret == -ENOENT ? record_damaged(fs, "the record") : ret;
	record = stored__file_system__unpack(NULL, length, value);
	free(value);
	if (!record)
		return record_damaged(fs, "the record");
	fs->root = record->root;
	fs->next_ino = record->next_ino;
	fs->nr_inodes = record->nr_inodes;
	fs->max_inodes = record->max_inodes;
	fs->next_scrub = record->next_scrub;
	fs->nr_lost_units = record->nr_lost_units;
	stored__file_system__free_unpacked(record, NULL);
	return 0;
}

static int take_segment(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct fs *fs = argument;
	const uint8_t *bits = value.data;
	uint64_t start = key_number(key, 1) * SPACE_SEGMENT_BYTES;
	uint64_t from = 0;
	int ret;

	if (value.length != SEGMENT_UNITS / 8)
		return record_damaged(fs, "free space");
	for (uint64_t i = 0; i <= SEGMENT_UNITS; i++) {
		if (i < SEGMENT_UNITS && (bits[i / 8] & 1U << i % 8))
			continue;
		if (i > from) {
			ret = space_take_at(&fs->space, start + from * FILE_UNIT,
					    (i - from) * FILE_UNIT);
			if (ret == -EINVAL)
				return record_damaged(fs, "free space");
			if (ret < 0)
				return ret;
		}
		from = i + 1;
	}
	return 0;
}

static int take_scrub(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct fs *fs = argument;
	Stored__Scrub *record = stored__scrub__unpack(NULL, value.length, value.data);
	struct scrub *scrub;

	if (!record)
		return record_damaged(fs, "what is to be zeroed");
	scrub = calloc(1, sizeof(*scrub) + record->n_runs / 2 * sizeof(scrub->runs[0]));
	if (scrub) {
		scrub->fs = fs;
		scrub->number = key_number(key, 1);
		scrub->nr = record->n_runs / 2;
		for (size_t i = 0; i < scrub->nr; i++) {
			scrub->runs[i].pool_unit = record->runs[2 * i];
			scrub->runs[i].nr = record->runs[2 * i + 1];
			fs->pending_bytes += scrub->runs[i].nr * FILE_UNIT;
		}
		cds_list_add_tail(&scrub->node, &fs->scrubs);
	}
	stored__scrub__free_unpacked(record, NULL);
	return scrub ? 0 : error_code(-ENOMEM);
}

static int compare_numbers(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

bool fs_has_left(const struct fs *fs, uint64_t ino)
{
	return fs->nr_left != 0 &&
	       bsearch(&ino, fs->left, fs->nr_left, sizeof(*fs->left), compare_numbers);
}

/* Takes the number of a file without a name, or with room ahead. */
static int take_left(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct fs *fs = argument;
	uint64_t *more = reallocarray(fs->left, fs->nr_left + 1, sizeof(*more));

	(void)value;
	if (!more)
		return error_code(-ENOMEM);
	fs->left = more;
	fs->left[fs->nr_left++] = key_number(key, 1);
	return 0;
}

int record_load_system(struct fs *fs)
{
	const struct store_key first = {0};
	struct store *store = store_of(fs);
	int ret = load_system(fs);

	if (ret == 0)
		ret = store_range(store, STORE_KEY(RECORD_SPACE, fs->number), first, SIZE_MAX,
				  take_segment, fs);
	if (ret == 0)
		ret = store_range(store, STORE_KEY(RECORD_SCRUB, fs->number), first, SIZE_MAX,
				  take_scrub, fs);
	if (ret == 0)
		ret = store_range(store, STORE_KEY(RECORD_UNLINKED, fs->number), first, SIZE_MAX,
				  take_left, fs);
	if (ret == 0)
		ret = store_range(store, STORE_KEY(RECORD_AHEAD, fs->number), first, SIZE_MAX,
				  take_left, fs);
	if (ret == 0 && fs->nr_left != 0)
		qsort(fs->left, fs->nr_left, sizeof(*fs->left), compare_numbers);
	return ret;
}

/* ---- Deleted ones */

void record_put_emptied(struct core *core, uint64_t fs)
{
	store_put_bytes(core->store, STORE_KEY(RECORD_EMPTIED, fs), "", 0);
}

struct emptied_visit {
	int (*visit)(void *argument, uint64_t fs);
	void *argument;
};

static int visit_emptied(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	const struct emptied_visit *visit = argument;

	(void)value;
	return visit->visit(visit->argument, key_number(key, 0));
}

int record_load_emptied(struct core *core, int (*visit)(void *argument, uint64_t fs),
			void *argument)
{
	struct emptied_visit emptied = {visit, argument};

	return store_range(core->store, store_key_make(RECORD_EMPTIED, NULL, 0, NULL),
			   (struct store_key){0}, SIZE_MAX, visit_emptied, &emptied);
}

struct emptying {
	struct store *store;
	size_t nr;
};

static int delete_record(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct emptying *emptying = argument;
	struct store_key copy = {.length = (uint16_t)key.length};

	(void)value;
	if (key.length > sizeof(copy.bytes))
		return error_code(-EIO);
	memcpy(copy.bytes, key.data, key.length);
	store_delete(emptying->store, copy);
	emptying->nr++;
	return 0;
}

int record_empty(struct core *core, uint64_t fs, bool *is_over)
{
	static const char kinds[] = {RECORD_INODE,    RECORD_NAME,  RECORD_RUN,	  RECORD_XATTR,
				     RECORD_UNLINKED, RECORD_AHEAD, RECORD_SCRUB, RECORD_SPACE};
	struct emptying emptying = {.store = core->store};
	int ret = 0;

	for (size_t i = 0; i < sizeof(kinds) && ret == 0 && emptying.nr < EMPTY_AT_ONCE; i++)
		ret = store_range(core->store, STORE_KEY(kinds[i], fs), (struct store_key){0},
				  EMPTY_AT_ONCE - emptying.nr, delete_record, &emptying);
	*is_over = ret == 0 && emptying.nr < EMPTY_AT_ONCE;
	if (*is_over)
		store_delete(core->store, STORE_KEY(RECORD_EMPTIED, fs));
	return ret;
}
