/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of frames, its changes and its queues. Called by the store's files; owns the frames, and
 * not their memory. */
#include "memory/cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/cache_history.h"

#define LONG_CHANGE  1024U /* blocks; those of more are in a list, and not counted by block */
#define CHANGING_MIN 16384U
#define HISTORY	     2U /* blocks that are remembered, for each frame */
#define LIFE	     4U /* a frame sinks after so many uses, for each frame of its share */
#define PINNED_SHARE 4U /* at most this part of the frames has pins */
#define AHEAD_SHARE  4U /* at most this part of a share's frames is ahead */

struct cache_share {
	struct cds_list_head empty;
	struct cds_list_head queues[CACHE_QUEUES]; /* VALID without pins; the next to sink first */
	uint64_t nr_uses; /* of its frames, ever: the clock of the queues */
	uint32_t nr_slabs;
	uint32_t nr_frames;
	uint32_t nr_ahead; /* frames that nobody has asked for yet */
};

struct cache_slab {
	struct cache_share *share; /* NULL: it is nobody's */
	bool is_recalled;	   /* its empty frames are in no list */
	uint32_t nr_used;
};

struct cache {
	struct cache_frame *frames;
	uint32_t nr_frames, slab_frames;
	struct cache_slab *slabs;
	struct cache_frame **buckets; /* of frames that are VALID, or FILLING and not doomed */
	uint32_t bucket_mask;
	struct cache_share *only; /* cache_open()'s */
	struct cache_history *history;
	/* How many changes stand around blocks with this hash. Two blocks may share a count: one is
	 * read past the table in vain then. */
	uint32_t *changing;
	uint32_t changing_mask;
	struct cds_list_head long_changes;
	uint64_t last_generation;
	uint32_t nr_pinned;
	struct cache_stat stat;
};

int cache_open_slabs(uint32_t nr_slabs, uint32_t slab_frames, struct cache **out)
{
	const uint32_t nr_frames = nr_slabs * slab_frames;
	struct cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->nr_frames = nr_frames;
	cache->slab_frames = slab_frames;
	cache->bucket_mask = cache_buckets(nr_frames) - 1;
	cache->changing_mask =
		cache_buckets(nr_frames > CHANGING_MIN ? nr_frames : CHANGING_MIN) - 1;
	cache->frames = calloc(nr_frames, sizeof(*cache->frames));
	cache->slabs = calloc(nr_slabs, sizeof(*cache->slabs));
	cache->buckets = calloc((size_t)cache->bucket_mask + 1, sizeof(struct cache_frame *));
	cache->changing = calloc((size_t)cache->changing_mask + 1, sizeof(*cache->changing));
	cache->history = cache_history_open(nr_frames * HISTORY);
	if (!cache->frames || !cache->slabs || !cache->buckets || !cache->changing ||
	    !cache->history) {
		cache_close(cache);
		return -ENOMEM;
	}
	CDS_INIT_LIST_HEAD(&cache->long_changes);
	for (uint32_t i = 0; i < nr_frames; i++)
		CDS_INIT_LIST_HEAD(&cache->frames[i].waits);
	*out = cache;
	return 0;
}

int cache_open(void *memory, uint32_t nr_frames, struct cache **out)
{
	struct cache *cache;
	int ret = cache_open_slabs(1, nr_frames, &cache);

	if (ret != 0)
		return ret;
	cache->only = cache_share_open();
	if (!cache->only) {
		cache_close(cache);
		return -ENOMEM;
	}
	cache_lend(cache, 0, cache->only, memory, NULL);
	*out = cache;
	return 0;
}

void cache_close(struct cache *cache)
{
	if (!cache)
		return;
	cache_history_close(cache->history);
	free(cache->frames);
	free(cache->slabs);
	free(cache->buckets);
	free(cache->changing);
	free(cache->only);
	free(cache);
}

void cache_stat(const struct cache *cache, struct cache_stat *out)
{
	*out = cache->stat;
}

static struct cache_slab *slab_of(const struct cache *cache, const struct cache_frame *frame)
{
	return &cache->slabs[cache_place(cache, frame) / cache->slab_frames];
}

static struct cache_share *share_of(const struct cache *cache, const struct cache_frame *frame)
{
	return slab_of(cache, frame)->share;
}

uint32_t cache_place(const struct cache *cache, const struct cache_frame *frame)
{
	return (uint32_t)(frame - cache->frames);
}

/* ---- Frames and their states */

/* The only one that changes states. */
static void become(struct cache_frame *frame, enum cache_state state)
{
	static const bool is_allowed[4][4] = {
		[CACHE_EMPTY] = {[CACHE_FILLING] = true},
		[CACHE_FILLING] = {[CACHE_VALID] = true, [CACHE_EMPTY] = true},
		[CACHE_VALID] = {[CACHE_RETIRED] = true},
		[CACHE_RETIRED] = {[CACHE_EMPTY] = true},
	};

	assert(is_allowed[frame->state][state]);
	frame->state = state;
}

static struct cache_frame **link_to(const struct cache *cache, uint64_t range, uint32_t block)
{
	struct cache_frame **link = &cache->buckets[cache_hash(range, block) & cache->bucket_mask];

	while (*link && ((*link)->range != range || (*link)->block != block))
		link = &(*link)->next;
	return link;
}

/* Nobody finds it any more. */
static void hide(struct cache *cache, const struct cache_frame *frame)
{
	struct cache_frame **link = link_to(cache, frame->range, frame->block);

	assert(*link == frame);
	*link = frame->next;
}

/* Somebody has asked for it, or it goes. */
static void end_ahead(const struct cache *cache, struct cache_frame *frame)
{
	if (!frame->is_ahead)
		return;
	share_of(cache, frame)->nr_ahead--;
	frame->is_ahead = false;
}

/* A frame of a slab that is being taken back is in no list then. */
static void make_empty(struct cache *cache, struct cache_frame *frame)
{
	struct cache_slab *slab = slab_of(cache, frame);

	assert(frame->nr_pins == 0 && cds_list_empty(&frame->waits));
	end_ahead(cache, frame);
	become(frame, CACHE_EMPTY);
	cache->stat.nr_used--;
	slab->nr_used--;
	if (!slab->is_recalled)
		cds_list_add(&frame->node, &slab->share->empty);
}

static void show(struct cache *cache, struct cache_frame *frame)
{
	frame->generation = ++cache->last_generation;
	if (frame->guard)
		page_guard_show(frame->guard, frame->generation);
}

/* ---- Which goes first */

static void enqueue(struct cache_share *share, struct cache_frame *frame, unsigned queue)
{
	frame->sinks_at = share->nr_uses + (uint64_t)LIFE * share->nr_frames;
	cds_list_add_tail(&frame->node, &share->queues[queue]);
}

/* Puts it behind the others of as many uses, or before all. One that is ahead is above those that were used once: others that are
 * read ahead, or once, would drive it out before its use. */
static void enqueue_used(struct cache_share *share, struct cache_frame *frame)
{
	unsigned queue = 31 - (unsigned)__builtin_clz(frame->nr_uses);

	if (frame->is_ahead && queue == 0)
		queue = 1;
	if (frame->is_handed_over)
		cds_list_add(&frame->node, &share->queues[0]);
	else
		enqueue(share, frame, queue < CACHE_QUEUES ? queue : CACHE_QUEUES - 1);
}

/* Has the first of each queue sink, if its time has come. */
static void sink(struct cache_share *share)
{
	for (unsigned i = 1; i < CACHE_QUEUES; i++) {
		struct cache_frame *frame;

		if (cds_list_empty(&share->queues[i]))
			continue;
		frame = cds_list_first_entry(&share->queues[i], struct cache_frame, node);
		if (frame->sinks_at > share->nr_uses)
			continue;
		cds_list_del(&frame->node);
		enqueue(share, frame, i - 1);
	}
}

/* A frame without pins is in its queue, the others are in none. */
static void use(const struct cache *cache, struct cache_frame *frame)
{
	struct cache_share *share = share_of(cache, frame);

	share->nr_uses++;
	frame->nr_uses += frame->nr_uses < UINT32_MAX && !frame->is_ahead;
	frame->is_handed_over = false;
	end_ahead(cache, frame);
	if (frame->nr_pins == 0) {
		cds_list_del(&frame->node);
		enqueue_used(share, frame);
	}
	sink(share);
}

void cache_hand_over(struct cache *cache, struct cache_frame *frame)
{
	assert(frame->state == CACHE_VALID);
	/* The reader's own use says nothing of others'. */
	frame->nr_uses -= frame->nr_uses > 1;
	if (frame->nr_uses > 1)
		return;
	frame->is_handed_over = true;
	if (frame->nr_pins > 0)
		return;
	cds_list_del(&frame->node);
	enqueue_used(share_of(cache, frame), frame);
}

/* A VALID frame goes: at once, or when its last pin does. */
static void retire(struct cache *cache, struct cache_frame *frame)
{
	if (frame->guard)
		page_guard_hide(frame->guard);
	hide(cache, frame);
	become(frame, CACHE_RETIRED);
	if (frame->nr_pins > 0)
		return;
	cds_list_del(&frame->node);
	make_empty(cache, frame);
}

static void remember(struct cache *cache, const struct cache_frame *frame)
{
	cache_history_add(cache->history, frame->range, frame->block, frame->nr_uses);
}

/* Returns an empty frame, for which another may have to go; NULL: all are in use. */
static struct cache_frame *take_frame(struct cache *cache, struct cache_share *share)
{
	struct cache_frame *frame;

	for (unsigned i = 0; i < CACHE_QUEUES && cds_list_empty(&share->empty); i++) {
		if (cds_list_empty(&share->queues[i]))
			continue;
		frame = cds_list_first_entry(&share->queues[i], struct cache_frame, node);
		remember(cache, frame);
		retire(cache, frame);
	}
	if (cds_list_empty(&share->empty))
		return NULL;
	frame = cds_list_first_entry(&share->empty, struct cache_frame, node);
	cds_list_del(&frame->node);
	return frame;
}

/* ---- Reading */

static bool is_changing(const struct cache *cache, uint64_t range, uint32_t block)
{
	const struct cache_change *change;

	if (cache->changing[cache_hash(range, block) & cache->changing_mask] > 0)
		return true;
	cds_list_for_each_entry (change, &cache->long_changes, node) {
		if (change->range == range && block >= change->block &&
		    block - change->block < change->count)
			return true;
	}
	return false;
}

/* Returns a frame that is FILLING now; NULL: there is none. */
static struct cache_frame *begin_filling(struct cache *cache, struct cache_share *share,
					 uint64_t range, uint32_t block)
{
	struct cache_frame *frame =
		!share || is_changing(cache, range, block) ? NULL : take_frame(cache, share);
	struct cache_frame **link;

	if (!frame)
		return NULL;
	become(frame, CACHE_FILLING);
	frame->range = range;
	frame->block = block;
	frame->is_doomed = false;
	frame->is_handed_over = false;
	frame->nr_uses = cache_history_take(cache->history, range, block);
	frame->nr_uses += frame->nr_uses < UINT32_MAX;
	slab_of(cache, frame)->nr_used++;
	link = &cache->buckets[cache_hash(range, block) & cache->bucket_mask];
	frame->next = *link;
	*link = frame;
	cache->stat.nr_used++;
	return frame;
}

static enum cache_answer miss(struct cache *cache, struct cache_share *share, uint64_t range,
			      uint32_t block, struct cache_frame **out)
{
	*out = begin_filling(cache, share, range, block);
	if (!*out) {
		cache->stat.nr_past++;
		return CACHE_PAST;
	}
	share->nr_uses++;
	cache->stat.nr_misses++;
	return CACHE_MISS;
}

bool cache_fetch(struct cache *cache, struct cache_share *share, uint64_t range, uint32_t block,
		 struct cache_frame **out)
{
	if (cache_has(cache, range, block) || share->nr_ahead >= share->nr_frames / AHEAD_SHARE)
		return false;
	*out = begin_filling(cache, share, range, block);
	if (!*out)
		return false;
	(*out)->is_ahead = true;
	share->nr_ahead++;
	cache->stat.nr_ahead++;
	return true;
}

enum cache_answer cache_ask(struct cache *cache, uint64_t range, uint32_t block,
			    struct cache_frame **out)
{
	return cache_ask_for(cache, cache->only, range, block, out);
}

enum cache_answer cache_ask_for(struct cache *cache, struct cache_share *share, uint64_t range,
				uint32_t block, struct cache_frame **out)
{
	struct cache_frame *frame = *link_to(cache, range, block);

	if (!frame)
		return miss(cache, share, range, block, out);
	*out = frame;
	if (frame->state == CACHE_FILLING) {
		end_ahead(cache, frame);
		cache->stat.nr_shared++;
		return CACHE_WAIT;
	}
	cache->stat.nr_hits++;
	use(cache, frame);
	return CACHE_HIT;
}

bool cache_has(const struct cache *cache, uint64_t range, uint32_t block)
{
	return *link_to(cache, range, block);
}

void cache_await(struct cache_frame *frame, struct cache_wait *wait)
{
	assert(frame->state == CACHE_FILLING);
	cds_list_add_tail(&wait->node, &frame->waits);
}

struct cache_wait *cache_next_wait(struct cache_frame *frame)
{
	struct cache_wait *wait;

	if (cds_list_empty(&frame->waits))
		return NULL;
	wait = cds_list_first_entry(&frame->waits, struct cache_wait, node);
	cds_list_del(&wait->node);
	return wait;
}

void cache_filled(struct cache *cache, struct cache_frame *frame, int result, uint32_t sum)
{
	struct cache_share *share = share_of(cache, frame);

	if (result == 0 && !frame->is_doomed) {
		become(frame, CACHE_VALID);
		frame->sum = sum;
		show(cache, frame);
		enqueue_used(share, frame);
		sink(share);
		return;
	}
	if (!frame->is_doomed)
		hide(cache, frame);
	make_empty(cache, frame);
}

/* ---- Pins */

struct cache_frame *cache_pin(struct cache *cache, uint64_t range, uint32_t block)
{
	struct cache_frame *frame = *link_to(cache, range, block);

	if (!frame || frame->state != CACHE_VALID)
		return NULL;
	if (frame->nr_pins == 0 && cache->nr_pinned >= cache->stat.nr_frames / PINNED_SHARE)
		return NULL;
	if (frame->nr_pins++ == 0) {
		cds_list_del(&frame->node);
		cache->nr_pinned++;
	}
	cache->stat.nr_hits++;
	use(cache, frame);
	return frame;
}

void cache_unpin(struct cache *cache, struct cache_frame *frame)
{
	if (--frame->nr_pins > 0)
		return;
	cache->nr_pinned--;
	if (frame->state == CACHE_RETIRED)
		make_empty(cache, frame);
	else
		enqueue_used(share_of(cache, frame), frame);
}

bool cache_note_use(struct cache *cache, uint32_t place, uint32_t generation)
{
	struct cache_frame *frame = place < cache->nr_frames ? &cache->frames[place] : NULL;

	if (!frame || frame->state != CACHE_VALID || (uint32_t)frame->generation != generation)
		return false;
	use(cache, frame);
	return true;
}

/* ---- Changes */

static void invalidate(struct cache *cache, struct cache_frame *frame)
{
	if (frame->state == CACHE_FILLING) {
		hide(cache, frame);
		frame->is_doomed = true;
	} else {
		retire(cache, frame);
	}
}

/* A short change is counted at each of its blocks. The uses of those stay known. */
static void begin_by_block(struct cache *cache, const struct cache_change *change)
{
	for (uint64_t i = 0; i < change->count; i++) {
		const uint32_t block = (uint32_t)(change->block + i);
		struct cache_frame *frame = *link_to(cache, change->range, block);

		cache->changing[cache_hash(change->range, block) & cache->changing_mask]++;
		if (frame && frame->state == CACHE_VALID)
			remember(cache, frame);
		if (frame)
			invalidate(cache, frame);
	}
}

/* Goes through the frames of the cache. */
static void look_through(struct cache *cache, const struct cache_change *change)
{
	for (uint32_t i = 0; i < cache->nr_frames; i++) {
		struct cache_frame *frame = &cache->frames[i];
		bool is_found = frame->state == CACHE_VALID ||
				(frame->state == CACHE_FILLING && !frame->is_doomed);

		if (is_found && frame->range == change->range && frame->block >= change->block &&
		    frame->block - change->block < change->count)
			invalidate(cache, frame);
	}
}

/* Looks each block or each frame up, whichever are fewer. */
static void begin_long(struct cache *cache, struct cache_change *change)
{
	cds_list_add(&change->node, &cache->long_changes);
	if (change->count >= cache->nr_frames) {
		look_through(cache, change);
		return;
	}
	for (uint64_t i = 0; i < change->count; i++) {
		struct cache_frame *frame =
			*link_to(cache, change->range, (uint32_t)(change->block + i));

		if (frame)
			invalidate(cache, frame);
	}
}

void cache_change_begin(struct cache *cache, struct cache_change *change, uint64_t range,
			uint64_t block, uint64_t count)
{
	if (!cache)
		return;
	change->range = range;
	change->block = block;
	change->count = count;
	if (count > LONG_CHANGE)
		begin_long(cache, change);
	else
		begin_by_block(cache, change);
}

void cache_change_end(struct cache *cache, struct cache_change *change)
{
	if (!cache)
		return;
	if (change->count > LONG_CHANGE) {
		cds_list_del(&change->node);
		return;
	}
	for (uint64_t i = 0; i < change->count; i++)
		cache->changing[cache_hash(change->range, (uint32_t)(change->block + i)) &
				cache->changing_mask]--;
}

/* ---- Shares and slabs */

struct cache_share *cache_share_open(void)
{
	struct cache_share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	CDS_INIT_LIST_HEAD(&share->empty);
	for (unsigned i = 0; i < CACHE_QUEUES; i++)
		CDS_INIT_LIST_HEAD(&share->queues[i]);
	return share;
}

void cache_share_close(struct cache_share *share)
{
	assert(!share || share->nr_slabs == 0);
	free(share);
}

bool cache_share_is_full(struct cache_share *share)
{
	return cds_list_empty(&share->empty);
}

uint64_t cache_share_uses(const struct cache_share *share)
{
	return share->nr_uses;
}

uint32_t cache_share_slabs(const struct cache_share *share)
{
	return share->nr_slabs;
}

static void count_slab(struct cache *cache, struct cache_share *share, int change)
{
	share->nr_slabs += (uint32_t)change;
	share->nr_frames += (uint32_t)change * cache->slab_frames;
	cache->stat.nr_frames += (uint32_t)change * cache->slab_frames;
}

void cache_lend(struct cache *cache, uint32_t number, struct cache_share *share, char *memory,
		struct page_guard *guards)
{
	struct cache_frame *frames = &cache->frames[(size_t)number * cache->slab_frames];

	cache->slabs[number] = (struct cache_slab){.share = share};
	count_slab(cache, share, 1);
	for (uint32_t i = 0; i < cache->slab_frames; i++) {
		frames[i].bytes = memory + (size_t)i * CACHE_BLOCK;
		frames[i].guard = guards ? &guards[i] : NULL;
		cds_list_add_tail(&frames[i].node, &share->empty);
	}
}

/* The share may go before the frame is EMPTY. */
static void withdraw(struct cache *cache, struct cache_frame *frame)
{
	end_ahead(cache, frame);
	if (frame->state == CACHE_EMPTY) {
		cds_list_del(&frame->node);
		return;
	}
	if (frame->state == CACHE_VALID)
		remember(cache, frame);
	if (frame->state == CACHE_VALID || (frame->state == CACHE_FILLING && !frame->is_doomed))
		invalidate(cache, frame);
}

void cache_recall(struct cache *cache, uint32_t number)
{
	struct cache_frame *frames = &cache->frames[(size_t)number * cache->slab_frames];
	struct cache_slab *slab = &cache->slabs[number];

	if (!slab->share || slab->is_recalled)
		return;
	slab->is_recalled = true;
	count_slab(cache, slab->share, -1);
	for (uint32_t i = 0; i < cache->slab_frames; i++)
		withdraw(cache, &frames[i]);
}

bool cache_is_recalled(const struct cache *cache, uint32_t number)
{
	const struct cache_slab *slab = &cache->slabs[number];

	return !slab->share || (slab->is_recalled && slab->nr_used == 0);
}

static bool is_idle(const struct cache_frame *frame)
{
	return frame->state == CACHE_EMPTY || (frame->state == CACHE_VALID && frame->nr_pins == 0);
}

bool cache_may_move(const struct cache *cache, uint32_t number)
{
	const struct cache_frame *frames = &cache->frames[(size_t)number * cache->slab_frames];
	uint32_t i = 0;

	while (i < cache->slab_frames && is_idle(&frames[i]))
		i++;
	return i == cache->slab_frames;
}

void cache_move(struct cache *cache, uint32_t number, char *memory, struct page_guard *guards)
{
	struct cache_frame *frames = &cache->frames[(size_t)number * cache->slab_frames];

	for (uint32_t i = 0; i < cache->slab_frames; i++) {
		char *to = memory + (size_t)i * CACHE_BLOCK;

		if (frames[i].state == CACHE_VALID) {
			memcpy(to, frames[i].bytes, CACHE_BLOCK);
			if (frames[i].guard)
				page_guard_hide(frames[i].guard);
		}
		frames[i].bytes = to;
		frames[i].guard = guards ? &guards[i] : NULL;
		if (frames[i].state == CACHE_VALID)
			show(cache, &frames[i]);
	}
}

uint32_t cache_slab_used(const struct cache *cache, uint32_t number)
{
	return cache->slabs[number].nr_used;
}

struct cache_share *cache_slab_share(const struct cache *cache, uint32_t number)
{
	const struct cache_slab *slab = &cache->slabs[number];

	return slab->is_recalled ? NULL : slab->share;
}
