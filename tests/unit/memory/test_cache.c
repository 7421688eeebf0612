/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a store's pages. Random walks go through all orders of reads, fills, pins and changes.
 * The layer below is a table of versions, and readers look
 * at pages by their guards. Walks whose caller breaks a rule must be noticed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/effort.h"
#include "memory/cache.h"
#include "unit/group.h"

#define NR_RANGES  2U
#define NR_BLOCKS  4U /* of each */
#define NR_FRAMES  8U
#define NR_SLABS   4U
#define SLAB	   (NR_FRAMES / NR_SLABS) /* frames */
#define NR_SEEN	   8U			  /* references that readers remember */
#define NR_FLIGHTS 6U			  /* fills, pins and changes under way: of each */
#define NR_WAITS   64U
#define NR_STEPS   400U

/* The layer has this of a block, and so has a frame. */
struct content {
	uint32_t range, block;
	uint64_t version;
};

struct reader {
	struct cache_wait wait;
	bool is_waiting;
	unsigned range, block;
	uint64_t floor; /* the last change that had ended when it asked */
};

struct fill {
	struct cache_frame *frame; /* NULL: none */
	unsigned range, block;
	bool has_read, is_overtaken; /* a change of the block has begun since */
};

struct pin {
	struct cache_frame *frame;
	struct content content;
};

/* Somebody knows where a page is, and may read it without the table. */
struct seen {
	const struct cache_frame *frame; /* NULL: none */
	const struct page_guard *guard;
	const char *bytes;
	uint64_t generation;
	struct content content;
};

/* Memory of a slab is another place's when it has moved. */
struct memory {
	char bytes[SLAB * CACHE_BLOCK];
	struct page_guard guards[SLAB];
};

struct change {
	struct cache_change change;
	bool is_there, is_applied, is_life;
	unsigned range, first, count;
	uint64_t version;
};

enum rule { RULES_KEPT, BEGUN_LATE, ENDED_EARLY, NEVER_BEGUN, NR_RULES };

static struct walk {
	struct cache *cache;
	struct cache_share *shares[NR_RANGES];
	struct memory *memory;		  /* twice what the slabs need */
	struct memory *of_slab[NR_SLABS]; /* NULL: none */
	uint64_t random;
	enum rule broken;
	const char *found; /* what is wrong */
	struct seen seen[NR_SEEN];
	struct {
		uint64_t life, now[NR_BLOCKS], ended[NR_BLOCKS];
	} ranges[NR_RANGES];
	uint64_t version;
	struct reader readers[NR_WAITS];
	struct fill fills[NR_FLIGHTS];
	struct pin pins[NR_FLIGHTS];
	struct change changes[NR_FLIGHTS];
} walk;

static unsigned dice(unsigned sides)
{
	walk.random ^= walk.random << 13;
	walk.random ^= walk.random >> 7;
	walk.random ^= walk.random << 17;
	return (unsigned)(walk.random >> 32) % sides;
}

static void check(bool is_right, const char *what)
{
	if (!is_right && !walk.found)
		walk.found = what;
}

static uint64_t range_of(unsigned range)
{
	return cache_range(range, walk.ranges[range].life);
}

static struct content content_of(unsigned range, unsigned block)
{
	return (struct content){range, block, walk.ranges[range].now[block]};
}

static bool has(const struct cache_frame *frame, struct content content)
{
	struct content found;

	memcpy(&found, frame->bytes, sizeof(found));
	return found.range == content.range && found.block == content.block &&
	       found.version == content.version && frame->sum == (uint32_t)content.version;
}

/* ---- Readers and fills */

static void await(struct cache_frame *frame, unsigned range, unsigned block)
{
	struct reader *reader = walk.readers;

	while (reader->is_waiting)
		reader++;
	*reader = (struct reader){.is_waiting = true,
				  .range = range,
				  .block = block,
				  .floor = walk.ranges[range].ended[block]};
	cache_await(frame, &reader->wait);
}

static bool has_place_for_reader(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_WAITS; i++)
		nr += walk.readers[i].is_waiting;
	return nr < NR_WAITS;
}

static struct fill *place_for_fill(void)
{
	for (unsigned i = 0; i < NR_FLIGHTS; i++) {
		if (!walk.fills[i].frame)
			return &walk.fills[i];
	}
	return NULL;
}

static bool is_shareable(unsigned range, unsigned block)
{
	for (unsigned i = 0; i < NR_FLIGHTS; i++) {
		const struct fill *fill = &walk.fills[i];

		if (fill->frame && fill->range == range && fill->block == block &&
		    !fill->is_overtaken)
			return true;
	}
	return false;
}

static void see(const struct cache_frame *frame, struct content content)
{
	walk.seen[dice(NR_SEEN)] =
		(struct seen){frame, frame->guard, frame->bytes, frame->generation, content};
}

/* A guard shows the page that it has shown, and no change of that has ended. */
static void check_seen(void)
{
	for (unsigned i = 0; i < NR_SEEN; i++) {
		struct seen *seen = &walk.seen[i];
		struct content found;

		if (!seen->frame || !page_guard_begin(seen->guard, seen->generation))
			continue;
		memcpy(&found, seen->bytes, sizeof(found));
		check(found.range == seen->content.range && found.block == seen->content.block &&
			      found.version == seen->content.version,
		      "a page that is shown has changed");
		check(found.version >= walk.ranges[found.range].ended[found.block],
		      "a page is shown that was changed");
	}
}

static void step_ask(unsigned range, unsigned block)
{
	struct fill *place = place_for_fill();
	const bool is_shared = is_shareable(range, block);
	struct cache_frame *frame;

	if (!place || !has_place_for_reader())
		return;
	switch (cache_ask_for(walk.cache, walk.shares[range], range_of(range), block, &frame)) {
	case CACHE_HIT:
		check(has(frame, content_of(range, block)), "a hit is not what the layer has");
		see(frame, content_of(range, block));
		if (dice(4) == 0)
			cache_hand_over(walk.cache, frame);
		break;
	case CACHE_WAIT:
		check(is_shared, "it waits for a read that nobody has begun, or that is doomed");
		await(frame, range, block);
		break;
	case CACHE_MISS:
		check(!is_shared, "a block is read twice");
		*place = (struct fill){.frame = frame, .range = range, .block = block};
		await(frame, range, block);
		break;
	case CACHE_PAST:
		check(!is_shared, "a block is read twice, past the table");
		break;
	}
}

/* Nobody waits for it yet. */
static void step_fetch(unsigned range, unsigned block)
{
	struct fill *place = place_for_fill();
	struct cache_frame *frame;

	if (!place || !cache_fetch(walk.cache, walk.shares[range], range_of(range), block, &frame))
		return;
	check(!is_shareable(range, block), "a block is read twice, ahead");
	*place = (struct fill){.frame = frame, .range = range, .block = block};
}

static void fill_read(struct fill *fill)
{
	const struct content content = content_of(fill->range, fill->block);

	if (fill->has_read)
		return;
	memcpy(fill->frame->bytes, &content, sizeof(content));
	fill->has_read = true;
}

static void fill_end(struct fill *fill, int result)
{
	struct content content;
	struct cache_wait *wait;

	fill_read(fill);
	memcpy(&content, fill->frame->bytes, sizeof(content));
	if (result != 0)
		memset(fill->frame->bytes, 0xee, sizeof(content));
	while ((wait = cache_next_wait(fill->frame))) {
		struct reader *reader = caa_container_of(wait, struct reader, wait);

		check(reader->is_waiting, "a reader is answered twice");
		check(reader->range == content.range && reader->block == content.block,
		      "a reader is given another block");
		check(content.version >= reader->floor,
		      "a reader does not see what had ended when it asked");
		reader->is_waiting = false;
	}
	cache_filled(walk.cache, fill->frame, result, (uint32_t)content.version);
	fill->frame = NULL;
}

static void step_fill(struct fill *fill)
{
	if (!fill->frame)
		return;
	if (dice(2))
		fill_read(fill);
	else
		fill_end(fill, dice(8) == 0 ? -EBADMSG : 0);
}

/* ---- Pins */

static void step_pin(struct pin *pin)
{
	const unsigned range = dice(NR_RANGES), block = dice(NR_BLOCKS);

	if (pin->frame) {
		check(has(pin->frame, pin->content), "what is being sent has changed");
		cache_unpin(walk.cache, pin->frame);
		pin->frame = NULL;
		return;
	}
	pin->frame = cache_pin(walk.cache, range_of(range), block);
	if (!pin->frame)
		return;
	pin->content = content_of(range, block);
	if (dice(4) == 0)
		cache_hand_over(walk.cache, pin->frame);
	check(has(pin->frame, pin->content), "what is sent is not what the layer has");
}

/* ---- Changes */

static void tell_begin(struct change *change)
{
	cache_change_begin(walk.cache, &change->change, range_of(change->range), change->first,
			   change->is_life ? UINT64_MAX : change->count);
}

static void change_begin(struct change *change)
{
	*change = (struct change){.is_there = true, .range = dice(NR_RANGES)};
	change->first = dice(NR_BLOCKS);
	change->count = 1 + dice(NR_BLOCKS - change->first);
	change->is_life = dice(8) == 0;
	if (change->is_life) {
		change->first = 0;
		change->count = NR_BLOCKS;
	}
	if (walk.broken != BEGUN_LATE && walk.broken != NEVER_BEGUN)
		tell_begin(change);
	if (walk.broken == ENDED_EARLY)
		cache_change_end(walk.cache, &change->change);
	for (unsigned i = 0; i < NR_FLIGHTS; i++) {
		struct fill *fill = &walk.fills[i];

		if (fill->range == change->range && fill->block >= change->first &&
		    fill->block - change->first < change->count)
			fill->is_overtaken = true;
	}
}

/* The layer has the new bytes from now on. */
static void change_apply(struct change *change)
{
	change->is_applied = true;
	change->version = ++walk.version;
	for (unsigned i = 0; i < change->count; i++)
		walk.ranges[change->range].now[change->first + i] = change->version;
}

static bool is_alone(const struct change *change)
{
	for (unsigned i = 0; i < NR_FLIGHTS; i++) {
		if ((&walk.changes[i] != change && walk.changes[i].is_there &&
		     walk.changes[i].range == change->range) ||
		    (walk.fills[i].frame && walk.fills[i].range == change->range))
			return false;
	}
	return true;
}

static void change_end(struct change *change)
{
	if (walk.broken == BEGUN_LATE)
		tell_begin(change);
	if (walk.broken != ENDED_EARLY && walk.broken != NEVER_BEGUN)
		cache_change_end(walk.cache, &change->change);
	change->is_there = false;
	for (unsigned i = 0; i < change->count; i++) {
		uint64_t *ended = &walk.ranges[change->range].ended[change->first + i];

		*ended = change->version > *ended ? change->version : *ended;
	}
	/* The range has gone, and its number is another's. */
	if (change->is_life && is_alone(change))
		walk.ranges[change->range].life++;
}

static void step_change(struct change *change)
{
	if (!change->is_there)
		change_begin(change);
	else if (!change->is_applied)
		change_apply(change);
	else
		change_end(change);
}

/* ---- Slabs */

static struct memory *spare_memory(void)
{
	unsigned i = 0;

	for (unsigned slab = 0; slab < NR_SLABS; slab++) {
		if (walk.of_slab[slab] == &walk.memory[i]) {
			i++;
			slab = UINT32_MAX;
		}
	}
	return &walk.memory[i];
}

static bool is_in(const struct cache_frame *frame, const struct memory *memory)
{
	return frame->bytes >= memory->bytes &&
	       frame->bytes < memory->bytes + sizeof(memory->bytes);
}

/* The memory becomes another's. */
static void give_away(unsigned slab)
{
	struct memory *memory = walk.of_slab[slab];

	if (!memory || !cache_is_recalled(walk.cache, slab))
		return;
	check_seen();
	memset(memory->bytes, 0xdd, sizeof(memory->bytes));
	walk.of_slab[slab] = NULL;
}

static void lend(unsigned slab, unsigned share)
{
	if (walk.of_slab[slab])
		return;
	walk.of_slab[slab] = spare_memory();
	cache_lend(walk.cache, slab, walk.shares[share], walk.of_slab[slab]->bytes,
		   walk.of_slab[slab]->guards);
}

static void recall(unsigned slab)
{
	cache_recall(walk.cache, slab);
	for (unsigned i = 0; i < NR_FLIGHTS; i++) {
		struct fill *fill = &walk.fills[i];

		if (fill->frame && walk.of_slab[slab] && is_in(fill->frame, walk.of_slab[slab]))
			fill->is_overtaken = true;
	}
	check(!cache_slab_share(walk.cache, slab), "a slab that is taken back is a share's");
}

/* Nothing is read into the memory that it had. */
static void move(unsigned slab)
{
	struct memory *old = walk.of_slab[slab], *new = spare_memory();

	if (!old || !cache_slab_share(walk.cache, slab) || !cache_may_move(walk.cache, slab))
		return;
	cache_move(walk.cache, slab, new->bytes, new->guards);
	check_seen();
	walk.of_slab[slab] = new;
	memset(old->bytes, 0xcc, sizeof(old->bytes));
}

static void step_slab(unsigned slab)
{
	give_away(slab);
	switch (dice(4)) {
	case 0:
		recall(slab);
		break;
	case 1:
		move(slab);
		break;
	default:
		lend(slab, dice(NR_RANGES));
	}
}

/* ---- Walks */

static void end_all(void)
{
	for (unsigned i = 0; i < NR_FLIGHTS; i++) {
		while (walk.changes[i].is_there)
			step_change(&walk.changes[i]);
		if (walk.fills[i].frame)
			fill_end(&walk.fills[i], 0);
		if (walk.pins[i].frame)
			step_pin(&walk.pins[i]);
	}
	for (unsigned i = 0; i < NR_WAITS; i++)
		check(!walk.readers[i].is_waiting, "a reader is not answered");
}

/* When nothing is under way every block can be kept. */
static void check_quiet(void)
{
	struct cache_stat before, after;
	struct cache_frame *frame;

	for (unsigned i = 0; i < NR_SLABS; i++) {
		recall(i);
		check(cache_is_recalled(walk.cache, i), "a frame that is taken back is in use");
		give_away(i);
	}
	for (unsigned i = 0; i < NR_SLABS; i++)
		lend(i, i % NR_RANGES);
	for (unsigned i = 0; i < NR_RANGES * NR_BLOCKS; i++) {
		step_ask(i / NR_BLOCKS, i % NR_BLOCKS);
		end_all();
	}
	cache_stat(walk.cache, &before);
	for (unsigned i = 0; i < NR_RANGES * NR_BLOCKS; i++) {
		check(cache_ask_for(walk.cache, walk.shares[i / NR_BLOCKS], range_of(i / NR_BLOCKS),
				    i % NR_BLOCKS, &frame) == CACHE_HIT,
		      "a block is not kept, although there is a frame for each");
	}
	cache_stat(walk.cache, &after);
	check(after.nr_hits - before.nr_hits == NR_RANGES * NR_BLOCKS && after.nr_used == NR_FRAMES,
	      "it is counted wrong");
}

static const char *walk_once(uint64_t seed, enum rule broken)
{
	memset(&walk, 0, sizeof(walk));
	walk.random = seed * 2 + 1;
	walk.broken = broken;
	walk.memory = aligned_alloc(64, 2 * NR_SLABS * sizeof(*walk.memory));
	assert_non_null(walk.memory);
	memset(walk.memory, 0, 2 * NR_SLABS * sizeof(*walk.memory));
	assert_int_equal(cache_open_slabs(NR_SLABS, SLAB, &walk.cache), 0);
	for (unsigned i = 0; i < NR_RANGES; i++) {
		walk.shares[i] = cache_share_open();
		assert_non_null(walk.shares[i]);
	}
	for (unsigned i = 0; i < NR_SLABS; i++)
		lend(i, i % NR_RANGES);
	for (unsigned i = 0; i < 8; i++)
		dice(2);
	for (unsigned i = 0; i < NR_STEPS && !walk.found; i++) {
		const unsigned which = dice(NR_FLIGHTS);

		if (dice(24) == 0)
			step_slab(dice(NR_SLABS));
		check_seen();
		switch (dice(5)) {
		case 0:
			step_change(&walk.changes[which]);
			break;
		case 1:
			step_pin(&walk.pins[which]);
			break;
		case 2:
			step_fill(&walk.fills[which]);
			break;
		default:
			(dice(4) == 0 ? step_fetch : step_ask)(dice(NR_RANGES), dice(NR_BLOCKS));
		}
	}
	if (!walk.found && broken == RULES_KEPT) {
		end_all();
		check_quiet();
	}
	cache_close(walk.cache);
	for (unsigned i = 0; i < NR_RANGES; i++)
		free(walk.shares[i]);
	free(walk.memory);
	return walk.found;
}

static void test_walks(void **state)
{
	const uint64_t nr = test_effort(3000, 20000, 2000000);

	(void)state;
	for (uint64_t seed = 1; seed <= nr; seed++) {
		const char *found = walk_once(seed, RULES_KEPT);

		if (found)
			fail_msg("walk %llu: %s", (unsigned long long)seed, found);
	}
}

static void test_broken_rules_are_found(void **state)
{
	(void)state;
	for (enum rule rule = BEGUN_LATE; rule < NR_RULES; rule++) {
		uint64_t seed = 1;

		while (!walk_once(seed, rule))
			assert_true(seed++ < 1000);
	}
}

/* ---- Long changes */

static bool is_hit(struct cache *cache, uint32_t block)
{
	struct cache_frame *frame;
	const enum cache_answer answer = cache_ask(cache, 1, block, &frame);

	assert_int_not_equal(answer, CACHE_WAIT);
	if (answer == CACHE_MISS)
		cache_filled(cache, frame, 0, 0);
	return answer == CACHE_HIT;
}

/* The blocks that change go, and the others stay, whether there are more blocks or more frames. */
static void test_long_changes(void **state)
{
	enum { FRAMES = 2048, FIRST = 100 };
	static const uint64_t counts[] = {1000, 1500, 2040, 1ULL << 32};
	char *memory = malloc((size_t)FRAMES * CACHE_BLOCK);
	struct cache_change change;
	struct cache_stat stat;
	struct cache *cache;

	(void)state;
	assert_int_equal(cache_open(memory, FRAMES, &cache), 0);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		const uint32_t end =
			counts[i] < FRAMES - FIRST ? FIRST + (uint32_t)counts[i] : FRAMES;

		for (uint32_t block = 0; block < FRAMES; block++)
			is_hit(cache, block);
		cache_change_begin(cache, &change, 1, FIRST, counts[i]);
		cache_stat(cache, &stat);
		assert_int_equal(stat.nr_used, FRAMES - (end - FIRST));
		for (uint32_t block = 0; block < FRAMES; block++)
			assert_int_equal(is_hit(cache, block), block < FIRST || block >= end);
		cache_change_end(cache, &change);
		cache_stat(cache, &stat);
		/* Nothing was kept meanwhile, and everything can be again. */
		assert_int_equal(stat.nr_used, FRAMES - (end - FIRST));
		assert_false(is_hit(cache, FIRST));
		assert_true(is_hit(cache, FIRST));
	}
	cache_close(cache);
	free(memory);
}

/* ---- Which frame goes */

#define NR_HOT	 24U
#define NR_COLD	 4000U
#define NR_ROOM	 64U
#define NR_WORLD 2000U
#define NR_OWN	 100U /* blocks that the client itself keeps */
#define NR_KEPT	 200U

/* Blocks that are used again and again outlast a reader of everything. */
static void test_a_scan_leaves_what_is_used(void **state)
{
	char *memory = malloc(NR_ROOM * CACHE_BLOCK);
	struct cache *cache;
	unsigned nr_hits = 0;

	(void)state;
	assert_int_equal(cache_open(memory, NR_ROOM, &cache), 0);
	for (unsigned i = 0; i < 8 * NR_HOT; i++)
		is_hit(cache, i % NR_HOT);
	for (unsigned i = 0; i < 2 * NR_ROOM; i++)
		is_hit(cache, NR_HOT + i);
	for (unsigned i = 0; i < NR_HOT; i++)
		nr_hits += is_hit(cache, i);
	assert_int_equal(nr_hits, NR_HOT);
	/* They do go, when nobody uses them any more. */
	for (unsigned i = 0; i < NR_COLD; i++)
		is_hit(cache, NR_HOT + i);
	nr_hits = 0;
	for (unsigned i = 0; i < NR_HOT; i++)
		nr_hits += is_hit(cache, i);
	assert_int_equal(nr_hits, 0);
	cache_close(cache);
	free(memory);
}

static bool is_hit_once(struct cache *cache, uint32_t block)
{
	struct cache_frame *frame;
	const enum cache_answer answer = cache_ask_for(cache, NULL, 1, block, &frame);

	assert_true(answer == CACHE_HIT || answer == CACHE_PAST);
	if (answer == CACHE_HIT)
		cache_hand_over(cache, frame);
	return answer == CACHE_HIT;
}

/* One who keeps nothing takes no frame. A frame whose block he was given goes first, with pins or
 * without, unless others use it, too. */
static void test_what_is_handed_over_goes_first(void **state)
{
	char *memory = malloc(NR_ROOM * CACHE_BLOCK);
	struct cache_frame *pinned;
	struct cache_stat stat;
	struct cache *cache;

	(void)state;
	assert_int_equal(cache_open(memory, NR_ROOM, &cache), 0);
	for (unsigned i = 0; i < NR_ROOM; i++)
		is_hit(cache, i);
	for (unsigned i = 0; i < NR_COLD; i++)
		assert_false(is_hit_once(cache, NR_ROOM + i));
	cache_stat(cache, &stat);
	assert_int_equal(stat.nr_past, NR_COLD);
	assert_int_equal(stat.nr_used, NR_ROOM);
	assert_true(is_hit_once(cache, 3));
	assert_true(is_hit_once(cache, 5));
	assert_true(is_hit(cache, 5));
	/* Others read it again and again. */
	assert_true(is_hit(cache, 0));
	assert_true(is_hit_once(cache, 0));
	pinned = cache_pin(cache, 1, 7);
	cache_hand_over(cache, pinned);
	cache_unpin(cache, pinned);
	for (unsigned i = 0; i < 2; i++)
		assert_false(is_hit(cache, NR_ROOM + i));
	for (unsigned i = 0; i < NR_ROOM; i++)
		assert_int_equal(cache_has(cache, 1, i), i != 3 && i != 7);
	cache_close(cache);
	free(memory);
}

static bool fetch(struct cache *cache, uint32_t block)
{
	struct cache_frame *frame;

	if (!cache_fetch(cache, cache_slab_share(cache, 0), 1, block, &frame))
		return false;
	cache_filled(cache, frame, 0, 0);
	return true;
}

/* A client may say of as many blocks as it likes that it will need them. They take a part of the frames. One that it then reads
 * counts as read once, and makes room for the next. */
static void test_what_is_read_ahead_is_little(void **state)
{
	char *memory = malloc(NR_ROOM * CACHE_BLOCK);
	struct cache_frame *pinned, *frame;
	struct cache_stat stat;
	struct cache *cache;
	unsigned nr = 0;

	(void)state;
	assert_int_equal(cache_open(memory, NR_ROOM, &cache), 0);
	for (unsigned i = 0; i < NR_ROOM; i++)
		is_hit(cache, i);
	for (unsigned i = 1; i < NR_ROOM; i++)
		assert_true(is_hit(cache, i));
	pinned = cache_pin(cache, 1, 0);
	assert_false(fetch(cache, 1));
	for (unsigned i = 0; i < 10 * NR_ROOM; i++)
		nr += fetch(cache, NR_ROOM + i);
	assert_int_equal(nr, NR_ROOM / 4);
	cache_stat(cache, &stat);
	assert_int_equal(stat.nr_ahead, nr);
	assert_int_equal(stat.nr_misses, NR_ROOM);
	assert_ptr_equal(cache_pin(cache, 1, 0), pinned);
	assert_int_equal(cache_ask(cache, 1, NR_ROOM, &frame), CACHE_HIT);
	assert_int_equal(frame->nr_uses, 1);
	assert_true(fetch(cache, 20 * NR_ROOM));
	assert_false(fetch(cache, 20 * NR_ROOM + 1));
	/* Its reader keeps nothing. */
	assert_true(is_hit_once(cache, 20 * NR_ROOM));
	assert_true(fetch(cache, 20 * NR_ROOM + 1));
	assert_false(cache_has(cache, 1, 20 * NR_ROOM));
	cache_unpin(cache, pinned);
	cache_unpin(cache, pinned);
	cache_close(cache);
	free(memory);
}

/* A list of blocks, the last used first. */
struct lru {
	uint32_t blocks[NR_KEPT];
	unsigned nr, nr_max;
};

static bool lru_has(struct lru *lru, uint32_t block)
{
	unsigned at = 0;
	bool is_there;

	while (at < lru->nr && lru->blocks[at] != block)
		at++;
	is_there = at < lru->nr;
	if (!is_there && lru->nr < lru->nr_max)
		lru->nr++;
	if (!is_there)
		at = lru->nr - 1;
	memmove(&lru->blocks[1], lru->blocks, at * sizeof(lru->blocks[0]));
	lru->blocks[0] = block;
	return is_there;
}

/* Draws a block, with the weights 1, 1/2, 1/3 … */
static uint32_t draw(const double *sums)
{
	const double at = sums[NR_WORLD - 1] * (dice(1 << 24) + 0.5) / (1 << 24);
	uint32_t low = 0, high = NR_WORLD - 1;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (sums[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The client has the blocks that it used last. So the server sees few uses of a block, and far
 * between; the order of uses tells it little. */
static void test_more_hits_behind_a_cache_than_lru(void **state)
{
	struct lru client = {.nr_max = NR_OWN}, other = {.nr_max = NR_KEPT};
	char *memory = malloc(NR_KEPT * CACHE_BLOCK);
	unsigned nr_hits = 0, nr_other = 0, nr_asked = 0;
	double sums[NR_WORLD];
	struct cache *cache;

	(void)state;
	walk.random = 7;
	for (unsigned i = 0; i < NR_WORLD; i++)
		sums[i] = (i > 0 ? sums[i - 1] : 0) + 1.0 / (i + 1);
	assert_int_equal(cache_open(memory, NR_KEPT, &cache), 0);
	for (unsigned i = 0; i < 100000; i++) {
		const uint32_t block = draw(sums);

		if (lru_has(&client, block))
			continue;
		nr_asked++;
		nr_hits += is_hit(cache, block);
		nr_other += lru_has(&other, block);
	}
	print_message("of %u: %u hits, of LRU %u\n", nr_asked, nr_hits, nr_other);
	assert_true(nr_hits > 2 * nr_other); /* without the history it has 1.87 × */
	cache_close(cache);
	free(memory);
}

TEST_GROUP(cache)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walks),
		cmocka_unit_test(test_broken_rules_are_found),
		cmocka_unit_test(test_long_changes),
		cmocka_unit_test(test_a_scan_leaves_what_is_used),
		cmocka_unit_test(test_what_is_handed_over_goes_first),
		cmocka_unit_test(test_what_is_read_ahead_is_little),
		cmocka_unit_test(test_more_hits_behind_a_cache_than_lru),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
