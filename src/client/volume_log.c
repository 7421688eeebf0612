/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of a volume's changes. Positions count bytes that ever went in; an entry lies at its
 * position modulo the ring's length, and never wraps: a filler takes the rest of the ring. */
#include "client/volume_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <urcu/list.h>

#include "base/error.h"

#define ENTRY_UNIT 64U /* entries begin at multiples of it */

enum entry_state { ENTRY_UNDER_WAY, ENTRY_DONE, ENTRY_VOID };

struct log_entry {
	struct cds_list_head node; /* of those under way */
	struct volume_change change;
	uint64_t size; /* in the ring */
	enum entry_state state;
	uint8_t data[];
};

struct volume_log {
	pthread_mutex_t lock;
	pthread_cond_t ended; /* a change has */
	uint8_t *ring;
	uint64_t length; /* of the ring */
	uint64_t first;	 /* position of the oldest entry */
	uint64_t end;	 /* position behind the youngest */
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
		return error_code(-ENOMEM);
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

int volume_log_replay(struct volume_log *log,
		      int (*make)(void *context, const struct volume_change *change), void *context)
{
	uint64_t position, end;
	int ret = 0;

	pthread_mutex_lock(&log->lock);
	position = log->first;
	end = log->end;
	pthread_mutex_unlock(&log->lock);
	for (;;) {
		const struct log_entry *entry;

		position = skip_short(log, position);
		if (position >= end || ret != 0)
			return ret;
		entry = entry_at(log, position);
		if (entry->state == ENTRY_DONE)
			ret = make(context, &entry->change);
		position += entry->size;
	}
}
