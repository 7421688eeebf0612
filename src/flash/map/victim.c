/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of segments that could be cleaned, and the choice among them; see victim.h. Each stream
 * has a list for each number of valid blocks; for several numbers, if segments are large. Each list
 * that is not empty has a bit.
 */
#include "victim.h"

#include <assert.h>
#include <stdlib.h>

#define LISTS_MAX    1024U /* of a stream, for segments with any valid block                 */
#define WORD_BITS    64U
#define NR_WORDS     (LISTS_MAX / WORD_BITS + 1)
#define LOOKS_MAX    16U /* at segments that keep quiet, per stream and choice      */
#define FADE_DIVISOR 4U	 /* updates count half after a quarter of the device's size */

/*
 * A segment that is overwritten in sequence is left alone for twice the expected time, unless that
 * is more than 1/16 of the device's blocks.
 */
#define QUIET_SLACK   2U
#define QUIET_DIVISOR 16U

struct stream {
	struct cds_list_head *lists;	/* by valid blocks >> shift              */
	uint64_t occupied[NR_WORDS];	/* a bit for each list that is not empty */
	struct victims_stream measured; /* of all its segments                   */
};

struct victims {
	unsigned nr_streams;
	unsigned shift;
	uint32_t segment_blocks;
	uint32_t nr_lists;
	uint64_t fade_after; /* updates               */
	uint64_t nr_updates; /* since the last fading */
	uint64_t quiet_max;  /* ticks                 */
	const double *shares;
	struct stream streams[];
};

/* ---- Lists */

/* Returns the list for that number of valid blocks. 0 has a list of its own. */
static uint32_t list_of_valid(const struct victims *victims, uint32_t valid)
{
	return valid ? ((valid - 1) >> victims->shift) + 1 : 0;
}

static uint32_t list_of(const struct victims *victims, const struct victim_segment *segment)
{
	return list_of_valid(victims, segment->valid);
}

static void link_segment(struct victims *victims, struct victim_segment *segment)
{
	struct stream *stream = &victims->streams[segment->stream];
	uint32_t list = list_of(victims, segment);

	cds_list_add(&segment->node, &stream->lists[list]);
	stream->occupied[list / WORD_BITS] |= UINT64_C(1) << list % WORD_BITS;
}

static void unlink_segment(struct victims *victims, struct victim_segment *segment)
{
	struct stream *stream = &victims->streams[segment->stream];
	uint32_t list = list_of(victims, segment);

	cds_list_del(&segment->node);
	if (cds_list_empty(&stream->lists[list]))
		stream->occupied[list / WORD_BITS] &= ~(UINT64_C(1) << list % WORD_BITS);
}

/* Returns the first list from `list` on that is not empty, or nr_lists. */
static uint32_t next_list(const struct victims *victims, const struct stream *stream, uint32_t list)
{
	uint64_t word;

	for (uint32_t at = list / WORD_BITS; at * WORD_BITS < victims->nr_lists; at++) {
		word = stream->occupied[at];
		if (at == list / WORD_BITS)
			word &= ~UINT64_C(0) << list % WORD_BITS;
		if (word)
			return at * WORD_BITS + (uint32_t)__builtin_ctzll(word);
	}
	return victims->nr_lists;
}

struct victims *victims_open(unsigned nr_streams, uint32_t segment_blocks, uint64_t nr_blocks)
{
	struct victims *victims;
	struct cds_list_head *lists;

	victims = calloc(1, sizeof(*victims) + nr_streams * sizeof(victims->streams[0]));
	if (!victims)
		return NULL;
	victims->nr_streams = nr_streams;
	victims->segment_blocks = segment_blocks;
	while (list_of_valid(victims, segment_blocks) > LISTS_MAX)
		victims->shift++;
	victims->nr_lists = list_of_valid(victims, segment_blocks) + 1;
	victims->fade_after = nr_blocks / FADE_DIVISOR + 1;
	victims->quiet_max = nr_blocks / QUIET_DIVISOR;
	lists = malloc(nr_streams * victims->nr_lists * sizeof(*lists));
	if (!lists) {
		free(victims);
		return NULL;
	}
	for (unsigned i = 0; i < nr_streams * victims->nr_lists; i++)
		CDS_INIT_LIST_HEAD(&lists[i]);
	for (unsigned i = 0; i < nr_streams; i++)
		victims->streams[i].lists = lists + i * victims->nr_lists;
	return victims;
}

void victims_close(struct victims *victims)
{
	if (!victims)
		return;
	free(victims->streams[0].lists);
	free(victims);
}

void victims_set_shares(struct victims *victims, const double *shares)
{
	victims->shares = shares;
}

/* ---- What becomes of segments */

void victims_begin(struct victims *victims, struct victim_segment *segment, unsigned stream)
{
	assert(stream < victims->nr_streams);
	*segment = (struct victim_segment){.stream = (uint8_t)stream};
}

void victims_load(struct victims *victims, struct victim_segment *segment, unsigned stream,
		  uint32_t written, uint32_t valid)
{
	assert(valid <= written && written <= victims->segment_blocks);
	victims_begin(victims, segment, stream);
	segment->written = written;
	segment->valid = valid;
	victims->streams[stream].measured.blocks += written;
	victims->streams[stream].measured.valid += valid;
}

void victims_gain(struct victims *victims, struct victim_segment *segment)
{
	struct victims_stream *measured = &victims->streams[segment->stream].measured;

	assert(!segment->is_full && segment->written < victims->segment_blocks);
	segment->written++;
	segment->valid++;
	measured->blocks++;
	measured->valid++;
}

void victims_fill(struct victims *victims, struct victim_segment *segment)
{
	assert(!segment->is_full);
	segment->is_full = true;
	link_segment(victims, segment);
}

static void fade(struct victims *victims)
{
	if (++victims->nr_updates < victims->fade_after)
		return;
	victims->nr_updates = 0;
	for (unsigned i = 0; i < victims->nr_streams; i++)
		victims->streams[i].measured.updates /= 2;
}

static void expect_sequence(const struct victims *victims, struct victim_segment *segment,
			    uint64_t now, uint64_t pace)
{
	uint64_t left;

	if (__builtin_mul_overflow(pace, (uint64_t)QUIET_SLACK * segment->valid, &left) ||
	    left > victims->quiet_max)
		return;
	segment->quiet_until = now + left;
}

void victims_lose(struct victims *victims, struct victim_segment *segment, uint64_t now,
		  uint64_t pace)
{
	struct victims_stream *measured = &victims->streams[segment->stream].measured;
	bool changes_list = segment->is_full &&
			    list_of(victims, segment) != list_of_valid(victims, segment->valid - 1);

	assert(segment->valid);
	if (changes_list)
		unlink_segment(victims, segment);
	segment->valid--;
	if (changes_list)
		link_segment(victims, segment);
	measured->valid--;
	measured->updates++;
	if (pace)
		expect_sequence(victims, segment, now, pace);
	fade(victims);
}

void victims_take(struct victims *victims, struct victim_segment *segment)
{
	assert(segment->is_full);
	unlink_segment(victims, segment);
	segment->is_full = false;
}

void victims_move(struct victims *victims, struct victim_segment *segment)
{
	assert(!segment->is_full && segment->valid);
	segment->valid--;
	victims->streams[segment->stream].measured.valid--;
}

void victims_end(struct victims *victims, struct victim_segment *segment)
{
	struct victims_stream *measured = &victims->streams[segment->stream].measured;

	if (segment->is_full)
		victims_take(victims, segment);
	measured->blocks -= segment->written;
	measured->valid -= segment->valid;
}

/* ---- The choice */

/*
 * Finds the stream's segment with the fewest valid blocks that may be taken; NULL: there is none.
 */
static struct victim_segment *least(const struct victims *victims, const struct stream *stream,
				    uint64_t now, bool also_quiet)
{
	struct victim_segment *segment;
	unsigned looks = 0;

	for (uint32_t list = next_list(victims, stream, 0); list < victims->nr_lists;
	     list = next_list(victims, stream, list + 1)) {
		cds_list_for_each_entry (segment, &stream->lists[list], node) {
			if (segment->valid == victims->segment_blocks)
				continue;
			if (also_quiet || !segment->valid || segment->quiet_until <= now)
				return segment;
			if (++looks == LOOKS_MAX)
				return NULL;
		}
	}
	return NULL;
}

/* Returns how far the stream is over its share, to compare streams: the square of spare / share. */
static double excess(const struct victims *victims, unsigned number)
{
	const struct victims_stream *measured = &victims->streams[number].measured;
	double spare = (double)(measured->blocks - measured->valid);

	if (victims->shares)
		return spare * spare / (victims->shares[number] * victims->shares[number]);
	return spare * spare / ((measured->updates + 1) * ((double)measured->valid + 1));
}

static struct victim_segment *choose(const struct victims *victims, uint64_t now, bool also_quiet)
{
	struct victim_segment *best = NULL, *segment;
	double most = 0;

	for (unsigned i = 0; i < victims->nr_streams; i++) {
		segment = least(victims, &victims->streams[i], now, also_quiet);
		if (!segment)
			continue;
		if (!segment->valid)
			return segment;
		if (!best || excess(victims, i) > most) {
			best = segment;
			most = excess(victims, i);
		}
	}
	return best;
}

struct victim_segment *victims_choose(const struct victims *victims, uint64_t now)
{
	struct victim_segment *segment = choose(victims, now, false);

	return segment ? segment : choose(victims, now, true);
}

void victims_stat(const struct victims *victims, unsigned stream, struct victims_stream *out)
{
	*out = victims->streams[stream].measured;
}
