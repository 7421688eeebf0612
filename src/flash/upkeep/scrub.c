/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads all blocks at a limited rate; see scrub.h. */
#include "flash/upkeep/scrub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define READ_BLOCKS  16U
#define KEEP_BLOCKS  (16U << 10)
#define PAUSE_MIN_NS UINT64_C(1000000000)

/* The scrub's record in the layer. */
struct scrub_record {
	uint64_t passes;
	uint64_t position;
	uint64_t nr_blocks;
	uint64_t nr_bad;
	uint64_t last_bad;
	uint64_t unused;
};
_Static_assert(sizeof(struct scrub_record) == FTL_RECORD_BYTES, "record of a scrub");

struct scrub_read {
	struct ftl_get get;
	struct iovec iov;
	struct scrub *scrub;
	char *memory;
	bool is_in_flight;
};

struct scrub {
	struct ftl *ftl;
	struct scrub_options options;
	struct scrub_record state;
	unsigned nr_in_flight;
	uint64_t due_ns;     /* the next read may begin */
	uint64_t since_kept; /* blocks */
	bool is_at_end;	     /* all of the pass is read, or being read */
	bool has_ended;
	bool is_stopped;
	bool is_keeping;
	struct ftl_record_change change;
	struct ftl_trim keep;
	char *memory;
	struct scrub_read reads[];
};

/* ---- how far it has come */

static void on_kept(struct ftl_trim *trim)
{
	struct scrub *scrub = caa_container_of(trim, struct scrub, keep);

	/*
	 * An error is ignored: without the record, only the next scrub begins at the first block.
	 */
	scrub->is_keeping = false;
}

/* Returns the first block of this pass that may not have been read yet: reads are in flight. */
static uint64_t first_unread(const struct scrub *scrub)
{
	uint64_t lba = scrub->state.position;

	for (unsigned i = 0; i < scrub->options.depth; i++) {
		const struct scrub_read *read = &scrub->reads[i];

		if (read->is_in_flight && read->get.lba < lba)
			lba = read->get.lba;
	}
	return lba;
}

static void keep_state(struct scrub *scrub)
{
	struct scrub_record state = scrub->state;

	if (scrub->options.is_once || scrub->is_keeping)
		return;
	scrub->since_kept = 0;
	scrub->is_keeping = true;
	scrub->change = (struct ftl_record_change){.id = SCRUB_RECORD};
	state.position = first_unread(scrub);
	memcpy(scrub->change.data, &state, sizeof(state));
	scrub->keep = (struct ftl_trim){.change = &scrub->change, .done = on_kept};
	ftl_trim(scrub->ftl, &scrub->keep);
}

static void load_state(struct scrub *scrub)
{
	const void *data = ftl_record(scrub->ftl, SCRUB_RECORD);

	/* Any position will do, because ftl_next() finds the next block that exists. */
	if (data && !scrub->options.is_once)
		memcpy(&scrub->state, data, sizeof(scrub->state));
}

/* ---- reading */

static void on_page(struct ftl_get *get, size_t at, size_t length, int result)
{
	struct scrub *scrub = caa_container_of(get, struct scrub_read, get)->scrub;

	(void)length;
	scrub->state.nr_blocks++;
	scrub->since_kept++;
	/* Other errors are the layer's, not the block's. */
	if (result != -EIO && result != -EBADMSG)
		return;
	scrub->state.nr_bad++;
	if (scrub->options.bad)
		scrub->options.bad(scrub->options.context, get->lba + at / FTL_BLOCK, result);
}

static void on_read(struct ftl_get *get)
{
	struct scrub_read *read = caa_container_of(get, struct scrub_read, get);

	read->is_in_flight = false;
	read->scrub->nr_in_flight--;
}

/* Starts a read of blocks from `lba` on, within its range. */
static void start_read(struct scrub *scrub, struct scrub_read *read, uint64_t lba)
{
	uint64_t left = (UINT64_C(1) << 32) - ftl_lba_block(lba);
	uint64_t nr = left < READ_BLOCKS ? left : READ_BLOCKS;

	read->is_in_flight = true;
	scrub->nr_in_flight++;
	scrub->state.position = lba + nr;
	read->iov = (struct iovec){read->memory, nr * FTL_BLOCK};
	read->get = (struct ftl_get){
		.lba = lba,
		.length = nr * FTL_BLOCK,
		.iov = &read->iov,
		.nr_iov = 1,
		.page = on_page,
		.done = on_read,
	};
	ftl_get(scrub->ftl, &read->get);
}

static struct scrub_read *find_idle(struct scrub *scrub)
{
	for (unsigned i = 0; i < scrub->options.depth; i++) {
		if (!scrub->reads[i].is_in_flight)
			return &scrub->reads[i];
	}
	return NULL;
}

static void end_pass(struct scrub *scrub, uint64_t now_ns)
{
	struct scrub_record *state = &scrub->state;

	state->passes++;
	state->last_bad = state->nr_bad;
	scrub->is_at_end = false;
	if (scrub->options.is_once) {
		scrub->has_ended = true;
		return;
	}
	state->position = 0;
	state->nr_blocks = 0;
	state->nr_bad = 0;
	keep_state(scrub);
	if (scrub->due_ns < now_ns + scrub->options.pause_ns)
		scrub->due_ns = now_ns + scrub->options.pause_ns;
}

/*
 * Computes when the next read may begin, after one of `bytes`. Time that was not used is not made
 * up for.
 */
static void charge(struct scrub *scrub, uint64_t now_ns, uint64_t bytes)
{
	uint64_t rate = scrub->options.bytes_per_s;
	uint64_t from = scrub->due_ns > now_ns ? scrub->due_ns : now_ns;

	/* At most 64 KiB × 10^9, which fits. */
	if (rate)
		scrub->due_ns = from + bytes * UINT64_C(1000000000) / rate;
}

uint64_t scrub_progress(struct scrub *scrub, uint64_t now_ns)
{
	while (!scrub->has_ended && !scrub->is_stopped) {
		struct scrub_read *read = find_idle(scrub);
		uint64_t lba;

		if (scrub->since_kept >= scrub->options.keep_blocks)
			keep_state(scrub);
		if (now_ns < scrub->due_ns)
			return scrub->due_ns;
		if (!read)
			return SCRUB_NEVER;
		lba = scrub->is_at_end ? FTL_NONE : ftl_next(scrub->ftl, scrub->state.position);
		if (lba != FTL_NONE) {
			start_read(scrub, read, lba);
			charge(scrub, now_ns, read->get.length);
			continue;
		}
		/* The pass ends when its last read has. */
		scrub->is_at_end = true;
		if (scrub->nr_in_flight)
			return SCRUB_NEVER;
		end_pass(scrub, now_ns);
	}
	return SCRUB_NEVER;
}

/* ---- the door */

int scrub_open(struct ftl *ftl, const struct scrub_options *options, struct scrub **out)
{
	unsigned depth = options->depth ? options->depth : 1;
	const size_t bytes = READ_BLOCKS * FTL_BLOCK;
	struct scrub *scrub;

	if (depth > SCRUB_DEPTH_MAX)
		depth = SCRUB_DEPTH_MAX;
	scrub = calloc(1, sizeof(*scrub) + depth * sizeof(scrub->reads[0]));
	if (!scrub)
		return error_code(-ENOMEM);
	scrub->memory = aligned_alloc(FTL_BLOCK, depth * bytes);
	if (!scrub->memory) {
		free(scrub);
		return error_code(-ENOMEM);
	}
	scrub->ftl = ftl;
	scrub->options = *options;
	scrub->options.depth = depth;
	if (scrub->options.pause_ns < PAUSE_MIN_NS)
		scrub->options.pause_ns = PAUSE_MIN_NS;
	if (!scrub->options.keep_blocks)
		scrub->options.keep_blocks = KEEP_BLOCKS;
	for (unsigned i = 0; i < depth; i++) {
		scrub->reads[i].scrub = scrub;
		scrub->reads[i].memory = scrub->memory + i * bytes;
	}
	load_state(scrub);
	*out = scrub;
	return 0;
}

bool scrub_is_busy(const struct scrub *scrub)
{
	return scrub->nr_in_flight || scrub->is_keeping;
}

void scrub_close(struct scrub *scrub)
{
	free(scrub->memory);
	free(scrub);
}

void scrub_stop(struct scrub *scrub)
{
	scrub->is_stopped = true;
	/* If a record is being written already, that one is recent enough. */
	keep_state(scrub);
}

bool scrub_has_ended(const struct scrub *scrub)
{
	return scrub->has_ended;
}

void scrub_stat(const struct scrub *scrub, struct scrub_stat *out)
{
	*out = (struct scrub_stat){
		.passes = scrub->state.passes,
		.position = scrub->state.position,
		.nr_blocks = scrub->state.nr_blocks,
		.nr_bad = scrub->state.nr_bad,
		.last_bad = scrub->state.last_bad,
	};
}
