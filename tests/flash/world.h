/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A translation layer with requests by dice in flight, beside a model of what they make of each block: every value that was
 * put there, in order, and up to which one it is known to survive a crash. The records that a caller keeps are one more such
 * cell, of all of them together, since their changes are in order. For the search of power cuts and the long random run.
 */
#ifndef TESTS_FLASH_WORLD_H
#define TESTS_FLASH_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/ftl.h"
#include "lib/flash_fake.h"

#define WORLD_RANGES	   3U
#define WORLD_RANGE_BLOCKS 210U
#define WORLD_BLOCKS	   (WORLD_RANGES * WORLD_RANGE_BLOCKS)
#define WORLD_RECORDS	   WORLD_BLOCKS /* the cell of the records */
#define WORLD_CELLS	   (WORLD_BLOCKS + 1)
#define WORLD_IN_FLIGHT	   12U

struct world_value {
	uint64_t event; /* of the device, when it was submitted */
	uint64_t hash;
};

/* One block, or the records: values[0] is what it was first. */
struct world_cell {
	struct world_value *values;
	size_t nr, room;
	size_t ended;  /* the value of the last request that ended  */
	size_t synced; /* the first of those that a crash may leave */
};

/* At an event it was known that a cell has not less than a value. */
struct world_promise {
	uint64_t event;
	uint32_t cell;
	uint32_t value;
};

/* What a value of the records says: that a trim or a clone before it, or with it, is done. */
struct world_tie {
	size_t records; /* the first of their values that says so */
	uint32_t block;
	uint32_t nr;
	size_t *values; /* of blocks: not less */
};

struct world_op;
struct world_records;

struct world {
	uint64_t dice;
	struct flash_device *device;
	struct ftl *ftl;
	struct world_cell cells[WORLD_CELLS];
	uint8_t *mirror;	       /* of what was submitted */
	struct world_records *records; /* likewise */
	struct world_tie *ties;
	size_t nr_ties, room_ties;
	struct world_promise *promises; /* if they are kept */
	size_t nr_promises, room_promises;
	bool has_promises;
	struct world_op *ops;
	unsigned nr_in_flight;
	uint64_t nr_ops; /* submitted */
	uint64_t clones_in_flight;
	uint64_t next_content;
	bool is_cut; /* what fails now is forgiven */
};

/* How the device and the layer on it are made. */
struct flash_fake_options world_device(uint32_t sector, uint64_t seed);
void world_create(struct flash_device *device);

void world_init(struct world *world, uint64_t seed);
void world_free(struct world *world);

/* Submits a request by dice, or a put and a sync of it, after polling until there is room for it. False: the device is gone. */
bool world_step(struct world *world);
/* Polls until nothing is in flight. */
bool world_drain(struct world *world);
/* All are forgotten: the layer was abandoned. */
void world_forget(struct world *world);

/*
 * Reads all blocks and records of `ftl` and checks that each cell is one of its values from `floor[cell]` to `last[cell]`, which
 * becomes `found[cell]` (any may be NULL: those of the model), and that what the records say is done. Fails the test
 * otherwise, and says where.
 */
void world_verify(struct world *world, struct ftl *ftl, const size_t *floor, const size_t *last,
		  size_t *found, const char *when, uint64_t number);

/* What was found is what is there, and synced: after a crash. */
void world_settle(struct world *world, const size_t *found);

/* A put, a sync, and what it put is there. */
void world_use(struct ftl *ftl);

#endif
