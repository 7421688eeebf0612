/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests by dice and what they must have done; see world.h. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/error.h"
#include "lib/flash/flash_fake_image.h"

#define BLOCKS_MAX   40U
#define NR_RECORDS   5U
#define FIRST_RECORD 11U

enum kind { PUT, GET, SYNC, TRIM, CLONE };

struct world_records {
	bool is_there[NR_RECORDS];
	uint8_t data[NR_RECORDS][FTL_RECORD_BYTES];
};

struct world_op {
	struct world *world;
	enum kind kind;
	bool is_busy;
	union {
		struct ftl_put put;
		struct ftl_get get;
		struct ftl_sync sync;
		struct ftl_trim trim;
		struct ftl_clone clone;
	};
	struct iovec iov[2];
	uint8_t *memory;
	uint32_t block;
	uint32_t nr;
	size_t values[WORLD_BLOCKS]; /* of put, trim, clone: made; get: at least; sync: promised */
	size_t records;		     /* likewise, of theirs; 0: none                           */
	struct ftl_record_change change;
};

struct flash_fake_options world_device(uint32_t sector, uint64_t seed)
{
	return (struct flash_fake_options){.size = 4U << 20,
					   .sector = sector,
					   .discard_unit = 65536,
					   .depth = 8,
					   .seed = seed,
					   .latency_max = 4};
}

void world_create(struct flash_device *device)
{
	struct ftl_options options = {
		.segment_bytes = 65536, .journal_blocks = 24, .nr_map_pages = 8, .nr_records = 8};

	assert_int_equal(ftl_create(device, &options), 0);
}

static uint64_t hash_of(const uint8_t *data)
{
	const size_t half = FTL_BLOCK / 2;

	return (uint64_t)checksum_crc32c(data, half) << 32 | checksum_crc32c(data + half, half);
}

static uint64_t zero_hash(void)
{
	static const uint8_t zeros[FTL_BLOCK];

	return hash_of(zeros);
}

/* Ranges that a page of the map ends in the middle of. */
static uint64_t run_lba(uint32_t block)
{
	return ftl_lba(7 + block / WORLD_RANGE_BLOCKS * 3, block % WORLD_RANGE_BLOCKS + 400);
}

static uint64_t records_hash(const struct world_records *records)
{
	return checksum_crc32c(records->is_there, sizeof(records->is_there)) |
	       (uint64_t)checksum_crc32c(records->data, sizeof(records->data)) << 32;
}

static void add_value(struct world *world, uint32_t cell, uint64_t hash)
{
	struct world_cell *it = &world->cells[cell];

	if (it->nr == it->room) {
		it->room = 2 * it->room + 4;
		it->values = realloc(it->values, it->room * sizeof(*it->values));
		assert_non_null(it->values);
	}
	it->values[it->nr++] = (struct world_value){
		.event = world->device ? flash_fake_events(world->device) : 0, .hash = hash};
}

void world_init(struct world *world, uint64_t seed)
{
	*world = (struct world){.dice = seed};
	world->mirror = calloc(WORLD_BLOCKS, FTL_BLOCK);
	world->records = calloc(1, sizeof(*world->records));
	world->ops = calloc(WORLD_IN_FLIGHT, sizeof(*world->ops));
	assert_non_null(world->mirror);
	assert_non_null(world->records);
	assert_non_null(world->ops);
	for (unsigned i = 0; i < WORLD_IN_FLIGHT; i++) {
		world->ops[i].world = world;
		world->ops[i].memory = aligned_alloc(FTL_BLOCK, (BLOCKS_MAX + 2) * FTL_BLOCK);
		assert_non_null(world->ops[i].memory);
	}
	for (uint32_t block = 0; block < WORLD_BLOCKS; block++)
		add_value(world, block, zero_hash());
	add_value(world, WORLD_RECORDS, records_hash(world->records));
}

static void untie(struct world *world)
{
	for (size_t i = 0; i < world->nr_ties; i++)
		free(world->ties[i].values);
	world->nr_ties = 0;
}

void world_free(struct world *world)
{
	untie(world);
	free(world->ties);
	free(world->records);
	for (unsigned i = 0; i < WORLD_IN_FLIGHT; i++)
		free(world->ops[i].memory);
	for (uint32_t cell = 0; cell < WORLD_CELLS; cell++)
		free(world->cells[cell].values);
	free(world->ops);
	free(world->mirror);
	free(world->promises);
}

/* ---- ending ---- */

static void finish(struct world_op *op, int result)
{
	if (result && !op->world->is_cut)
		fail_msg("kind %d at block %u: %d, %s", op->kind, op->block, result,
			 error_last_line());
	op->is_busy = false;
	op->world->nr_in_flight--;
}

static void changed(struct world_op *op, int result)
{
	struct world *world = op->world;

	for (uint32_t i = 0; i < op->nr; i++)
		world->cells[op->block + i].ended = op->values[i];
	if (op->records)
		world->cells[WORLD_RECORDS].ended = op->records;
	finish(op, result);
}

static void put_done(struct ftl_put *put)
{
	changed(caa_container_of(put, struct world_op, put), put->result);
}

static void trim_done(struct ftl_trim *trim)
{
	changed(caa_container_of(trim, struct world_op, trim), trim->result);
}

static void clone_done(struct ftl_clone *clone)
{
	struct world_op *op = caa_container_of(clone, struct world_op, clone);

	op->world->clones_in_flight -= op->nr;
	changed(op, clone->result);
}

static void promise(struct world *world, uint32_t cell, size_t value)
{
	if (value <= world->cells[cell].synced)
		return;
	world->cells[cell].synced = value;
	if (!world->has_promises)
		return;
	if (world->nr_promises == world->room_promises) {
		world->room_promises = 2 * world->room_promises + 1024;
		world->promises =
			realloc(world->promises, world->room_promises * sizeof(*world->promises));
		assert_non_null(world->promises);
	}
	world->promises[world->nr_promises++] = (struct world_promise){
		.event = flash_fake_events(world->device), .cell = cell, .value = (uint32_t)value};
}

static void sync_done(struct ftl_sync *sync)
{
	struct world_op *op = caa_container_of(sync, struct world_op, sync);

	for (uint32_t i = 0; i < op->nr && !sync->result; i++)
		promise(op->world, op->block + i, op->values[i]);
	if (!sync->result)
		promise(op->world, WORLD_RECORDS, op->records);
	finish(op, sync->result);
}

static bool is_among(const struct world_cell *cell, size_t from, size_t to, uint64_t hash,
		     size_t *which)
{
	for (size_t i = to + 1; i-- > from;) {
		if (cell->values[i].hash == hash) {
			*which = i;
			return true;
		}
	}
	return false;
}

static void get_done(struct ftl_get *get)
{
	struct world_op *op = caa_container_of(get, struct world_op, get);

	for (uint32_t i = 0; i < op->nr && !get->result; i++) {
		const struct world_cell *block = &op->world->cells[op->block + i];
		size_t which;

		if (!is_among(block, op->values[i], block->nr - 1,
			      hash_of((uint8_t *)op->iov[0].iov_base + (size_t)i * FTL_BLOCK),
			      &which))
			fail_msg("block %u was read as what it never was, or no longer",
				 op->block + i);
	}
	finish(op, get->result);
}

/* ---- beginning ---- */

static uint64_t below(struct world *world, uint64_t nr)
{
	return dice_below(&world->dice, nr);
}

/* A run of blocks in one range, of ten in eight cases among the first of it. */
static void choose_run(struct world *world, struct world_op *op, uint32_t nr_max)
{
	uint32_t range = (uint32_t)below(world, WORLD_RANGES);
	uint32_t among = below(world, 10) < 8 ? WORLD_RANGE_BLOCKS / 5 : WORLD_RANGE_BLOCKS;
	uint32_t at = (uint32_t)below(world, among);

	op->nr = 1 + (uint32_t)below(world, nr_max);
	if (op->nr > WORLD_RANGE_BLOCKS - at)
		op->nr = WORLD_RANGE_BLOCKS - at;
	op->block = range * WORLD_RANGE_BLOCKS + at;
}

static void changes(struct world *world, struct world_op *op)
{
	for (uint32_t i = 0; i < op->nr; i++) {
		uint32_t block = op->block + i;

		add_value(world, block, hash_of(world->mirror + (size_t)block * FTL_BLOCK));
		op->values[i] = world->cells[block].nr - 1;
	}
}

/* The op has done its work on its blocks where the records have this value or a later one. */
static void tie(struct world *world, const struct world_op *op, size_t records)
{
	struct world_tie *it;

	if (world->nr_ties == world->room_ties) {
		world->room_ties = 2 * world->room_ties + 64;
		world->ties = realloc(world->ties, world->room_ties * sizeof(*world->ties));
		assert_non_null(world->ties);
	}
	it = &world->ties[world->nr_ties++];
	*it = (struct world_tie){.records = records, .block = op->block, .nr = op->nr};
	it->values = malloc((op->nr + 1) * sizeof(*it->values));
	assert_non_null(it->values);
	memcpy(it->values, op->values, op->nr * sizeof(*it->values));
}

static void fill(struct world *world, uint8_t *memory, size_t length)
{
	uint64_t word = ++world->next_content * 0x9e3779b97f4a7c15U;

	for (size_t i = 0; i < length; i += 8, word += 0x632be59bd9b4e019U)
		memcpy(memory + i, &word, length - i < 8 ? length - i : 8);
}

/*
 * Every third trim or clone changes a record, too. NULL: not this one. A change of nothing would be
 * no value of its own.
 */
static const struct ftl_record_change *maybe_change(struct world *world, struct world_op *op)
{
	struct world_records *records = world->records;
	uint32_t n = (uint32_t)below(world, NR_RECORDS);

	if (below(world, 3))
		return NULL;
	op->change = (struct ftl_record_change){
		.id = FIRST_RECORD + n, .is_removal = records->is_there[n] && below(world, 3) == 0};
	memset(records->data[n], 0, FTL_RECORD_BYTES);
	records->is_there[n] = !op->change.is_removal;
	if (!op->change.is_removal) {
		fill(world, op->change.data, FTL_RECORD_BYTES);
		memcpy(records->data[n], op->change.data, FTL_RECORD_BYTES);
	}
	add_value(world, WORLD_RECORDS, records_hash(records));
	op->records = world->cells[WORLD_RECORDS].nr - 1;
	tie(world, op, op->records);
	return &op->change;
}

static void begin_put(struct world *world, struct world_op *op)
{
	bool is_partial = below(world, 5) == 0, is_odd = below(world, 6) == 0;
	size_t offset = 0, length;
	uint8_t *memory = op->memory + (is_odd ? 8 * (1 + below(world, 500)) : 0);

	choose_run(world, op, below(world, 20) == 0 ? BLOCKS_MAX : 6);
	length = op->nr * FTL_BLOCK;
	if (is_partial) {
		offset = below(world, FTL_BLOCK - 1);
		length -= offset + below(world, FTL_BLOCK - offset);
	}
	if (length == 0)
		length = 1;
	fill(world, memory, length);
	memcpy(world->mirror + (size_t)op->block * FTL_BLOCK + offset, memory, length);
	op->nr = (uint32_t)((offset + length + FTL_BLOCK - 1) / FTL_BLOCK);
	changes(world, op);
	op->iov[0] = (struct iovec){memory, length};
	op->iov[1] = (struct iovec){0};
	if (length > FTL_BLOCK && below(world, 3) == 0) {
		op->iov[0].iov_len = below(world, 2) ? FTL_BLOCK : length / 3;
		op->iov[1] =
			(struct iovec){memory + op->iov[0].iov_len, length - op->iov[0].iov_len};
	}
	op->put = (struct ftl_put){.lba = run_lba(op->block),
				   .offset = offset,
				   .length = length,
				   .iov = op->iov,
				   .nr_iov = 2,
				   .heat = (uint8_t)(below(world, 2) * (60 + below(world, 140))),
				   .done = put_done};
	ftl_put(world->ftl, &op->put);
}

static void begin_get(struct world *world, struct world_op *op)
{
	bool is_odd = below(world, 4) == 0;

	choose_run(world, op, 16);
	for (uint32_t i = 0; i < op->nr; i++)
		op->values[i] = world->cells[op->block + i].ended;
	op->iov[0] = (struct iovec){op->memory + (is_odd ? 24 : 0), op->nr * FTL_BLOCK};
	op->get = (struct ftl_get){.lba = run_lba(op->block),
				   .length = op->nr * FTL_BLOCK,
				   .iov = op->iov,
				   .nr_iov = 1,
				   .done = get_done};
	ftl_get(world->ftl, &op->get);
}

/* Syncs the blocks of the run; if these are all that there are, all of the layer. */
static void submit_sync(struct world *world, struct world_op *op)
{
	op->sync = (struct ftl_sync){.lba = 0, .count = FTL_ALL, .done = sync_done};
	if (op->nr < WORLD_BLOCKS) {
		op->sync.lba = run_lba(op->block);
		op->sync.count = op->nr;
	}
	for (uint32_t i = 0; i < op->nr; i++)
		op->values[i] = world->cells[op->block + i].nr - 1;
	op->records = op->nr < WORLD_BLOCKS ? 0 : world->cells[WORLD_RECORDS].nr - 1;
	ftl_sync(world->ftl, &op->sync);
}

static void begin_sync(struct world *world, struct world_op *op)
{
	op->block = 0;
	op->nr = WORLD_BLOCKS;
	if (below(world, 2))
		choose_run(world, op, 100);
	submit_sync(world, op);
}

static void begin_trim(struct world *world, struct world_op *op)
{
	const struct ftl_record_change *change;

	choose_run(world, op, 30);
	if (below(world, 6) == 0)
		op->nr = 0;
	memset(world->mirror + (size_t)op->block * FTL_BLOCK, 0, (size_t)op->nr * FTL_BLOCK);
	changes(world, op);
	change = maybe_change(world, op);
	/* The next change tells of a trim without one. */
	if (!change)
		tie(world, op, world->cells[WORLD_RECORDS].nr);
	op->trim = (struct ftl_trim){
		.lba = run_lba(op->block), .count = op->nr, .change = change, .done = trim_done};
	ftl_trim(world->ftl, &op->trim);
}

static void begin_clone(struct world *world, struct world_op *op)
{
	struct ftl_stat stat;
	uint32_t source, nr;

	choose_run(world, op, 12);
	source = op->block;
	nr = op->nr;
	choose_run(world, op, 12);
	op->nr = op->nr < nr ? op->nr : nr;
	ftl_stat(world->ftl, &stat);
	if ((source < op->block + op->nr && op->block < source + op->nr) ||
	    stat.shares + 2 * (world->clones_in_flight + op->nr) > stat.shares_max) {
		begin_get(world, op);
		op->kind = GET;
		return;
	}
	memcpy(world->mirror + (size_t)op->block * FTL_BLOCK,
	       world->mirror + (size_t)source * FTL_BLOCK, (size_t)op->nr * FTL_BLOCK);
	changes(world, op);
	world->clones_in_flight += op->nr;
	op->clone = (struct ftl_clone){.source = run_lba(source),
				       .target = run_lba(op->block),
				       .count = op->nr,
				       .change = maybe_change(world, op),
				       .done = clone_done};
	ftl_clone(world->ftl, &op->clone);
}

static struct world_op *take_op(struct world *world, enum kind kind)
{
	struct world_op *op = world->ops;

	while (op->is_busy)
		op++;
	op->kind = kind;
	op->is_busy = true;
	op->records = 0;
	world->nr_in_flight++;
	world->nr_ops++;
	return op;
}

/* One in three who put wants it to be durable, and says so at once. */
static void maybe_sync(struct world *world, const struct world_op *put)
{
	struct world_op *op;

	if (world->nr_in_flight == WORLD_IN_FLIGHT || below(world, 3))
		return;
	op = take_op(world, SYNC);
	op->block = put->block;
	op->nr = put->nr;
	submit_sync(world, op);
}

static void begin(struct world *world)
{
	uint64_t roll = below(world, 100);
	struct world_op *op = take_op(world, roll < 62	 ? PUT
					     : roll < 74 ? GET
					     : roll < 86 ? SYNC
					     : roll < 92 ? TRIM
							 : CLONE);

	switch (op->kind) {
	case PUT:
		begin_put(world, op);
		maybe_sync(world, op);
		break;
	case GET:
		begin_get(world, op);
		break;
	case SYNC:
		begin_sync(world, op);
		break;
	case TRIM:
		begin_trim(world, op);
		break;
	case CLONE:
		begin_clone(world, op);
		break;
	}
}

bool world_step(struct world *world)
{
	while (world->nr_in_flight == WORLD_IN_FLIGHT ||
	       (world->nr_in_flight && below(world, 3) == 0)) {
		if (ftl_poll(world->ftl, -1) < 0)
			return false;
	}
	begin(world);
	return true;
}

bool world_drain(struct world *world)
{
	while (world->nr_in_flight) {
		if (ftl_poll(world->ftl, -1) < 0)
			return false;
	}
	return true;
}

void world_forget(struct world *world)
{
	for (unsigned i = 0; i < WORLD_IN_FLIGHT; i++)
		world->ops[i].is_busy = false;
	world->nr_in_flight = 0;
	world->clones_in_flight = 0;
}

/* ---- verifying ---- */

struct reading {
	struct ftl_get get;
	struct iovec iov;
	bool has_ended;
};

static void reading_done(struct ftl_get *get)
{
	caa_container_of(get, struct reading, get)->has_ended = true;
}

/* Checks that this is one of the cell's values that it may have. Returns which. */
static size_t check_value(const struct world *world, uint32_t cell, uint64_t hash,
			  const size_t *floor, const size_t *last, const char *when,
			  uint64_t number)
{
	const struct world_cell *it = &world->cells[cell];
	size_t from = floor ? floor[cell] : it->synced;
	size_t to = last ? last[cell] : it->nr - 1, which = 0, other = 0;
	bool is_known;

	if (is_among(it, from, to, hash, &which))
		return which;
	is_known = is_among(it, 0, it->nr - 1, hash, &other);
	fail_msg("%s %llu: %s %u is %s: value %zu, and may be %zu to %zu", when,
		 (unsigned long long)number, cell == WORLD_RECORDS ? "the records, cell" : "block",
		 cell, is_known ? "stale or of the future" : "torn or foreign", other, from, to);
	return 0;
}

static void read_records(struct ftl *ftl, struct world_records *records)
{
	*records = (struct world_records){0};
	for (uint32_t i = 0; i < NR_RECORDS; i++) {
		const void *data = ftl_record(ftl, FIRST_RECORD + i);

		records->is_there[i] = data;
		if (data)
			memcpy(records->data[i], data, FTL_RECORD_BYTES);
	}
}

/*
 * Records may come back to what they were, if some are removed: the oldest value is meant that it
 * can be. Those that are synced say nothing more, since what they say was so before.
 */
static void check_ties(const struct world *world, size_t floor, const size_t *found,
		       const char *when, uint64_t number)
{
	const struct world_cell *records = &world->cells[WORLD_RECORDS];
	size_t value = floor;

	while (records->values[value].hash != records->values[found[WORLD_RECORDS]].hash)
		value++;
	for (const struct world_tie *tie = world->ties; tie < world->ties + world->nr_ties; tie++) {
		for (uint32_t i = 0; tie->records <= value && i < tie->nr; i++) {
			if (found[tie->block + i] < tie->values[i])
				fail_msg("%s %llu: the records, of value %zu, say that block %u is "
					 "not less "
					 "than value %zu; it is %zu",
					 when, (unsigned long long)number, value, tie->block + i,
					 tie->values[i], found[tie->block + i]);
		}
	}
}

void world_verify(struct world *world, struct ftl *ftl, const size_t *floor, const size_t *last,
		  size_t *found, const char *when, uint64_t number)
{
	static _Alignas(FTL_BLOCK) uint8_t memory[WORLD_RANGE_BLOCKS * FTL_BLOCK];
	static size_t own_found[WORLD_CELLS];
	struct world_records records;

	found = found ? found : own_found;
	for (uint32_t range = 0; range < WORLD_RANGES; range++) {
		struct reading reading = {.iov = {memory, sizeof(memory)}};

		reading.get = (struct ftl_get){.lba = run_lba(range * WORLD_RANGE_BLOCKS),
					       .length = sizeof(memory),
					       .iov = &reading.iov,
					       .nr_iov = 1,
					       .done = reading_done};
		ftl_get(ftl, &reading.get);
		while (!reading.has_ended)
			assert_true(ftl_poll(ftl, -1) >= 0);
		if (reading.get.result)
			fail_msg("%s %llu: range %u reads as %d, %s", when,
				 (unsigned long long)number, range, reading.get.result,
				 error_last_line());
		for (uint32_t i = 0; i < WORLD_RANGE_BLOCKS; i++) {
			uint32_t block = range * WORLD_RANGE_BLOCKS + i;

			found[block] =
				check_value(world, block, hash_of(memory + (size_t)i * FTL_BLOCK),
					    floor, last, when, number);
		}
	}
	read_records(ftl, &records);
	found[WORLD_RECORDS] = check_value(world, WORLD_RECORDS, records_hash(&records), floor,
					   last, when, number);
	check_ties(world, floor ? floor[WORLD_RECORDS] : world->cells[WORLD_RECORDS].synced, found,
		   when, number);
}

void world_settle(struct world *world, const size_t *found)
{
	static _Alignas(FTL_BLOCK) uint8_t memory[FTL_BLOCK];

	untie(world);
	read_records(world->ftl, world->records);
	for (uint32_t cell = 0; cell < WORLD_CELLS; cell++) {
		struct world_cell *it = &world->cells[cell];

		it->values[0] = it->values[found[cell]];
		it->nr = 1;
		it->ended = it->synced = 0;
	}
	for (uint32_t block = 0; block < WORLD_BLOCKS; block++) {
		struct reading reading = {.iov = {memory, sizeof(memory)}};

		reading.get = (struct ftl_get){.lba = run_lba(block),
					       .length = FTL_BLOCK,
					       .iov = &reading.iov,
					       .nr_iov = 1,
					       .done = reading_done};
		ftl_get(world->ftl, &reading.get);
		while (!reading.has_ended)
			assert_true(ftl_poll(world->ftl, -1) >= 0);
		memcpy(world->mirror + (size_t)block * FTL_BLOCK, memory, FTL_BLOCK);
	}
}

struct using
{
	struct ftl_put put;
	struct ftl_sync sync;
	struct iovec iov;
	unsigned nr_ended;
};

static void using_put_done(struct ftl_put *put)
{
	assert_int_equal(put->result, 0);
	caa_container_of(put, struct using, put)->nr_ended++;
}

static void using_sync_done(struct ftl_sync *sync)
{
	assert_int_equal(sync->result, 0);
	caa_container_of(sync, struct using, sync)->nr_ended++;
}

void world_use(struct ftl *ftl)
{
	static _Alignas(FTL_BLOCK) uint8_t memory[4 * FTL_BLOCK];
	struct using using = {.iov = {memory, sizeof(memory)}};

	memset(memory, 0x5a, sizeof(memory));
	using.put = (struct ftl_put){.lba = run_lba(3),
				     .length = sizeof(memory),
				     .iov = &using.iov,
				     .nr_iov = 1,
				     .done = using_put_done};
	using.sync = (struct ftl_sync){.count = FTL_ALL, .done = using_sync_done};
	ftl_put(ftl, &using.put);
	ftl_sync(ftl, &using.sync);
	while (using.nr_ended < 2)
		assert_true(ftl_poll(ftl, -1) >= 0);
}
