/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of a volume's changes. Positions count bytes that ever went in. An entry lies at its
 * position modulo the ring's length, and never wraps: a filler takes the rest of the ring. */
#include "client/volume/volume_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <afar/afar.h>
#include <urcu/list.h>

#include "base/error.h"

#define ENTRY_UNIT 64U /* entries begin at multiples of it */

enum entry_state { ENTRY_UNDER_WAY, ENTRY_DONE, ENTRY_VOID };

struct log_entry {
	struct cds_list_head node; /* of those under way */
	struct volume_change change;
	uint64_t number; /* counts up: later ones supersede earlier ones */
	uint64_t size;	 /* in the ring */
	enum entry_state state;
	_Alignas(16) uint8_t data[];
};

struct volume_log {
	pthread_mutex_t lock;
	pthread_cond_t ended; /* a change has */
	uint8_t *ring;
	uint64_t length; /* of the ring */
	uint64_t first;	 /* position of the oldest entry */
	uint64_t end;	 /* position behind the youngest */
	uint64_t nr_begun;
	struct cds_list_head under_way;
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

int volume_log_open(uint64_t bytes, struct volume_log **out)
{
	struct volume_log *log = calloc(1, sizeof(*log));

	if (!log)
		return error_code(-ENOMEM);
	log->length = round_up(bytes < VOLUME_LOG_MIN ? VOLUME_LOG_MIN : bytes, ENTRY_UNIT);
	log->ring = mmap(NULL, log->length, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (log->ring == MAP_FAILED) {
		free(log);
		return error_fail(-ENOMEM,
				  "open a volume: no memory for a log of %llu bytes; give it a "
				  "smaller one",
				  (unsigned long long)bytes);
	}
	pthread_mutex_init(&log->lock, NULL);
	pthread_cond_init(&log->ended, NULL);
	CDS_INIT_LIST_HEAD(&log->under_way);
	*out = log;
	return 0;
}

void volume_log_close(struct volume_log *log)
{
	if (!log)
		return;
	munmap(log->ring, log->length);
	pthread_cond_destroy(&log->ended);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

size_t volume_log_write_max(const struct volume_log *log)
{
	return log->length / 4;
}

static struct log_entry *entry_at(const struct volume_log *log, uint64_t position)
{
	return (struct log_entry *)(void *)(log->ring + position % log->length);
}

/* ---- Beginning and ending */

static bool overlaps(const struct volume_log *log, const struct volume_change *change)
{
	const struct log_entry *entry;

	cds_list_for_each_entry (entry, &log->under_way, node) {
		if (change->offset < entry->change.offset + entry->change.length &&
		    entry->change.offset < change->offset + change->length)
			return true;
	}
	return false;
}

/* Takes the next `size` bytes of the ring. NULL: there is no room. */
static struct log_entry *take_place(struct volume_log *log, uint64_t size)
{
	uint64_t to_wrap = log->length - log->end % log->length;
	uint64_t filler = to_wrap < size ? to_wrap : 0;
	struct log_entry *entry;

	if (log->end + filler + size - log->first > log->length)
		return NULL;
	/* A filler may be too short for an entry; the reader knows by the room that is left. */
	if (filler >= sizeof(*entry))
		*entry_at(log, log->end) = (struct log_entry){.size = filler, .state = ENTRY_VOID};
	log->end += filler;
	entry = entry_at(log, log->end);
	log->end += size;
	return entry;
}

/* Moves a position over a filler that is too short for an entry. */
static uint64_t skip_short(const struct volume_log *log, uint64_t position)
{
	uint64_t to_wrap = log->length - position % log->length;

	return to_wrap < sizeof(struct log_entry) ? position + to_wrap : position;
}

/* The position of the first entry that has not ended; the end: all have. */
static uint64_t first_under_way(const struct volume_log *log)
{
	uint64_t position = skip_short(log, log->first);

	while (position < log->end && entry_at(log, position)->state != ENTRY_UNDER_WAY)
		position = skip_short(log, position + entry_at(log, position)->size);
	return position < log->end ? position : log->end;
}

int volume_log_begin(struct volume_log *log, const struct volume_change *change,
		     struct log_entry **out)
{
	uint64_t bytes = change->data ? change->length : 0;
	uint64_t size = round_up(sizeof(struct log_entry) + bytes, ENTRY_UNIT);
	struct log_entry *entry = NULL;
	int ret = 0;

	pthread_mutex_lock(&log->lock);
	for (;;) {
		bool must_wait = overlaps(log, change);

		entry = must_wait ? NULL : take_place(log, size);
		if (entry)
			break;
		/* If it is full, a sync drops what has ended before the first that has not. */
		if (!must_wait && first_under_way(log) > log->first) {
			ret = -EAGAIN;
			break;
		}
		pthread_cond_wait(&log->ended, &log->lock);
	}
	if (entry) {
		entry->number = log->nr_begun++;
		entry->size = size;
		entry->state = ENTRY_UNDER_WAY;
		entry->change = *change;
		entry->change.data = change->data ? entry->data : NULL;
		cds_list_add_tail(&entry->node, &log->under_way);
	}
	pthread_mutex_unlock(&log->lock);
	if (ret == 0 && bytes != 0)
		memcpy(entry->data, change->data, bytes);
	*out = entry;
	return ret;
}

void volume_log_end(struct volume_log *log, struct log_entry *entry, bool is_done)
{
	pthread_mutex_lock(&log->lock);
	entry->state = is_done ? ENTRY_DONE : ENTRY_VOID;
	cds_list_del(&entry->node);
	pthread_cond_broadcast(&log->ended);
	pthread_mutex_unlock(&log->lock);
}

/* ---- Syncs and replays */

uint64_t volume_log_mark(struct volume_log *log)
{
	uint64_t mark;

	pthread_mutex_lock(&log->lock);
	mark = first_under_way(log);
	pthread_mutex_unlock(&log->lock);
	return mark;
}

void volume_log_drop(struct volume_log *log, uint64_t mark)
{
	pthread_mutex_lock(&log->lock);
	if (log->first < mark)
		log->first = mark;
	/* Goes on at the ring's beginning when it can, which is in the caches. */
	if (log->first == log->end)
		log->first = log->end = round_up(log->end, log->length);
	pthread_cond_broadcast(&log->ended);
	pthread_mutex_unlock(&log->lock);
}

/*
 * A replay gives each byte the value that it had last, and no other. It may be cut off, and a part of
 * the changes may have been made durable before the server ended. So older bytes must not come again,
 * not even for a moment.
 *
 * The changes are swept over in the order of their offsets. The youngest that covers a place counts;
 * it is the root of a heap.
 */
struct sweep {
	const struct log_entry **entries; /* done, in the order of their offsets */
	size_t nr_entries;
	const struct log_entry *
		*heap; /* of those that begin at or before the place; youngest first */
	size_t nr_heap;
};

static uint64_t end_of(const struct log_entry *entry)
{
	return entry->change.offset + entry->change.length;
}

static int compare_offsets(const void *left, const void *right)
{
	const struct log_entry *a = *(const struct log_entry *const *)left;
	const struct log_entry *b = *(const struct log_entry *const *)right;

	return a->change.offset < b->change.offset ? -1 : a->change.offset > b->change.offset;
}

static void heap_push(struct sweep *sweep, const struct log_entry *entry)
{
	size_t at = sweep->nr_heap++;

	for (; at > 0 && sweep->heap[(at - 1) / 2]->number < entry->number; at = (at - 1) / 2)
		sweep->heap[at] = sweep->heap[(at - 1) / 2];
	sweep->heap[at] = entry;
}

static void heap_pop(struct sweep *sweep)
{
	const struct log_entry *last = sweep->heap[--sweep->nr_heap];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < sweep->nr_heap) {
		if (child + 1 < sweep->nr_heap &&
		    sweep->heap[child]->number < sweep->heap[child + 1]->number)
			child++;
		if (last->number >= sweep->heap[child]->number)
			break;
		sweep->heap[at] = sweep->heap[child];
		at = child;
	}
	sweep->heap[at] = last;
}

/* The part of the entry's change that is in a range. */
static struct volume_change cut(const struct log_entry *entry, uint64_t start, uint64_t end)
{
	struct volume_change change = entry->change;

	if (change.data)
		change.data = (const char *)change.data + (start - change.offset);
	else if (end - start != change.length)
		change.opcode = AFAR_OP_ZERO; /* a part of a trim might leave a block as it is */
	change.offset = start;
	change.length = end - start;
	return change;
}

static int sweep_over(struct sweep *sweep,
		      int (*make)(void *context, const struct volume_change *change), void *context)
{
	const struct log_entry *owner = NULL; /* of the bytes from `start` on */
	uint64_t start = 0;
	size_t next = 0;
	int ret = 0;

	while (ret == 0 && (next < sweep->nr_entries || sweep->nr_heap > 0)) {
		uint64_t end = sweep->nr_heap > 0 ? end_of(sweep->heap[0]) : UINT64_MAX;

		if (next < sweep->nr_entries && sweep->entries[next]->change.offset < end) {
			end = sweep->entries[next]->change.offset;
			heap_push(sweep, sweep->entries[next++]);
		}
		while (sweep->nr_heap > 0 && end_of(sweep->heap[0]) <= end)
			heap_pop(sweep);
		if (sweep->nr_heap > 0 && sweep->heap[0] == owner)
			continue;
		if (owner && start < end) {
			struct volume_change change = cut(owner, start, end);

			ret = make(context, &change);
		}
		owner = sweep->nr_heap > 0 ? sweep->heap[0] : NULL;
		start = end;
	}
	return ret;
}

/* Collects the changes that are done, up to a position; returns how many. `entries` may be NULL. */
static size_t collect(const struct volume_log *log, uint64_t position, uint64_t end,
		      const struct log_entry **entries)
{
	size_t nr = 0;

	while ((position = skip_short(log, position)) < end) {
		const struct log_entry *entry = entry_at(log, position);

		position += entry->size;
		if (entry->state != ENTRY_DONE)
			continue;
		if (entries)
			entries[nr] = entry;
		nr++;
	}
	return nr;
}

int volume_log_replay(struct volume_log *log,
		      int (*make)(void *context, const struct volume_change *change), void *context)
{
	struct sweep sweep = {0};
	uint64_t first, end;
	int ret;

	pthread_mutex_lock(&log->lock);
	first = log->first;
	end = log->end;
	pthread_mutex_unlock(&log->lock);
	sweep.nr_entries = collect(log, first, end, NULL);
	if (sweep.nr_entries == 0)
		return 0;
	sweep.entries = reallocarray(NULL, sweep.nr_entries, 2 * sizeof(*sweep.entries));
	if (!sweep.entries)
		return error_code(-ENOMEM);
	sweep.heap = sweep.entries + sweep.nr_entries;
	collect(log, first, end, sweep.entries);
	qsort(sweep.entries, sweep.nr_entries, sizeof(*sweep.entries), compare_offsets);
	ret = sweep_over(&sweep, make, context);
	free(sweep.entries);
	return ret;
}
