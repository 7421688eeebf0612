/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: see the header. A write is uncertain from when it was submitted. It is certain, part of
 * `base`, when it was durable and ended, or a flush ended that was submitted after its end. Where
 * two overlap, the one that ended later is what is there: the stamp of a sector keeps an earlier
 * one from getting over it.
 */
#include "lib/flash/flash_fake_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum event_kind {
	EVENT_BEGIN,
	EVENT_END,   /* `value`: the reach     */
	EVENT_FLUSH, /* `value`: `nr_ended`    */
};

struct fake_event {
	enum event_kind kind;
	uint64_t value;
	struct fake_write *write;
};

static void free_write(struct fake_write *write)
{
	free(write->data);
	free(write);
}

int fake_log_open(struct flash_fake_log **out, const struct image *below, uint64_t size,
		  uint32_t sector, bool is_live)
{
	struct flash_fake_log *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	log->is_live = is_live;
	log->size = size;
	log->sector = sector;
	CDS_INIT_LIST_HEAD(&log->writes);
	CDS_INIT_LIST_HEAD(&log->uncertain);
	log->stamps = calloc(size / sector, sizeof(log->stamps[0]));
	if (!log->stamps || image_open(&log->base, below, size)) {
		fake_log_close(log);
		return -ENOMEM;
	}
	*out = log;
	return 0;
}

/* Those of a record are all in `writes`. */
static void forget(struct flash_fake_log *log, struct fake_write *write)
{
	cds_list_del(&write->node);
	if (log->is_live)
		free_write(write);
}

static void forget_all(struct flash_fake_log *log)
{
	struct fake_write *write, *next;

	cds_list_for_each_entry_safe (write, next, &log->uncertain, node)
		forget(log, write);
}

void fake_log_close(struct flash_fake_log *log)
{
	struct fake_write *write, *next;

	forget_all(log);
	cds_list_for_each_entry_safe (write, next, &log->writes, all)
		free_write(write);
	image_close(&log->base);
	free(log->stamps);
	free(log->events);
	free(log);
}

/* ---- Certainty */

static int copy_sector(const struct flash_fake_log *log, const struct fake_write *write,
		       uint64_t at, struct image *image)
{
	if (write->data)
		return image_write(image, write->offset + at, write->data + at, log->sector);
	return image_fill(image, write->offset + at, write->fill, log->sector);
}

/* It is part of `base`, where nothing is that ended later. */
static int absorb(struct flash_fake_log *log, const struct fake_write *write)
{
	int ret = 0;

	for (uint64_t at = 0; at < write->reach && !ret; at += log->sector) {
		uint64_t *stamp = &log->stamps[(write->offset + at) / log->sector];

		if (*stamp > write->order)
			continue;
		*stamp = write->order;
		ret = copy_sector(log, write, at, &log->base);
	}
	return ret;
}

static int end(struct flash_fake_log *log, struct fake_write *write, uint64_t reach)
{
	int ret = 0;

	write->reach = reach;
	write->order = ++log->nr_ended_at;
	if (write->is_durable)
		ret = absorb(log, write);
	if (write->is_durable || reach == 0)
		forget(log, write);
	return ret;
}

static int flush(struct flash_fake_log *log, uint64_t nr_ended)
{
	struct fake_write *write, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (write, next, &log->uncertain, node) {
		if (write->order > nr_ended)
			continue;
		if (!ret)
			ret = absorb(log, write);
		forget(log, write);
	}
	return ret;
}

static int apply(struct flash_fake_log *log, const struct fake_event *event)
{
	struct fake_write *write = event->write;

	log->at++;
	switch (event->kind) {
	case EVENT_BEGIN:
		write->reach = write->length;
		write->order = UINT64_MAX;
		cds_list_add_tail(&write->node, &log->uncertain);
		return 0;
	case EVENT_END:
		return end(log, write, event->value);
	case EVENT_FLUSH:
		return flush(log, event->value);
	}
	return 0;
}

/* ---- Events */

static int note(struct flash_fake_log *log, struct fake_event event)
{
	if (log->is_live)
		return apply(log, &event);
	if (log->nr_events == log->room) {
		size_t room = log->room ? 2 * log->room : 1024;
		struct fake_event *events = realloc(log->events, room * sizeof(*events));

		if (!events)
			return -ENOMEM;
		log->events = events;
		log->room = room;
	}
	log->events[log->nr_events++] = event;
	return 0;
}

int fake_log_begin(struct flash_fake_log *log, const struct fake_write *like,
		   struct fake_write **out)
{
	struct fake_write *write = malloc(sizeof(*write));
	int ret;

	if (!write)
		return -ENOMEM;
	*write = *like;
	ret = note(log, (struct fake_event){EVENT_BEGIN, 0, write});
	if (ret) {
		free(write);
		return ret;
	}
	if (!log->is_live)
		cds_list_add_tail(&write->all, &log->writes);
	*out = write;
	return 0;
}

int fake_log_end(struct flash_fake_log *log, struct fake_write *write, uint64_t reach)
{
	log->nr_ended++;
	return note(log, (struct fake_event){EVENT_END, reach, write});
}

int fake_log_flush(struct flash_fake_log *log, uint64_t nr_ended)
{
	return note(log, (struct fake_event){EVENT_FLUSH, nr_ended, NULL});
}

/* ---- Cuts */

static void begin_anew(struct flash_fake_log *log)
{
	forget_all(log);
	image_clear(&log->base);
	memset(log->stamps, 0, log->size / log->sector * sizeof(log->stamps[0]));
	log->at = log->nr_ended_at = 0;
}

int fake_log_go(struct flash_fake_log *log, uint64_t nr_events)
{
	int ret = 0;

	if (nr_events < log->at)
		begin_anew(log);
	while (log->at < nr_events && !ret)
		ret = apply(log, &log->events[log->at]);
	return ret;
}

void fake_log_settle(struct flash_fake_log *log)
{
	forget_all(log);
	memset(log->stamps, 0, log->size / log->sector * sizeof(log->stamps[0]));
	log->nr_ended = log->nr_ended_at = 0;
}

/*
 * How a cut treats what is uncertain: the extremes, which a coin for each would hardly ever give,
 * are cases of their own.
 */
enum fate {
	FATE_NONE,    /* nothing survives                       */
	FATE_ALL,     /* everything                             */
	FATE_ORDERLY, /* all that was submitted before some one */
	FATE_MIXED,   /* of each write all, nothing, or a part  */
	NR_FATES = 6, /* mixed is what remains                  */
};

struct dice {
	uint64_t state;
	uint64_t fate;
	uint64_t nr_before; /* of FATE_ORDERLY                */
	uint64_t odds;	    /* of FATE_MIXED: of 4, to be there */
};

static struct dice throw(const struct flash_fake_log *log, uint64_t seed)
{
	struct dice dice = {.state = seed};
	struct cds_list_head *node;
	uint64_t nr = 0;

	cds_list_for_each (node, &log->uncertain)
		nr++;
	dice.fate = dice_below(&dice.state, NR_FATES);
	dice.nr_before = dice_below(&dice.state, nr + 1);
	dice.odds = 1 + dice_below(&dice.state, 3);
	return dice;
}

/* A part is any sectors of it. */
static bool survives(struct dice *dice, bool is_torn)
{
	return is_torn ? dice_below(&dice->state, 2) == 0
		       : dice_below(&dice->state, 4) < dice->odds;
}

/* Returns whether there is something to be copied; `is_torn`: each sector for itself. */
static bool write_survives(struct dice *dice, uint64_t number, bool *is_torn)
{
	*is_torn = false;
	switch (dice->fate) {
	case FATE_NONE:
		return false;
	case FATE_ALL:
		return true;
	case FATE_ORDERLY:
		*is_torn = number == dice->nr_before;
		return number <= dice->nr_before;
	default:
		*is_torn = dice_below(&dice->state, 3) == 0;
		return *is_torn || survives(dice, false);
	}
}

int fake_log_survive(const struct flash_fake_log *log, uint64_t seed, struct image *image)
{
	struct dice dice = throw(log, seed);
	const struct fake_write *write;
	uint64_t number = 0;
	int ret = 0;

	cds_list_for_each_entry (write, &log->uncertain, node) {
		bool is_torn;

		if (!write_survives(&dice, number++, &is_torn))
			continue;
		for (uint64_t at = 0; at < write->reach && !ret; at += log->sector) {
			if (is_torn && !survives(&dice, true))
				continue;
			if (log->stamps[(write->offset + at) / log->sector] < write->order)
				ret = copy_sector(log, write, at, image);
		}
	}
	return ret;
}
