/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A translation layer with random requests in flight, and a model of each block. The model has all
 * values that were put there, in order, and knows which of them a crash may leave. Each block is a
 * cell of the model. All of the caller's records together are one more cell, because their changes
 * are in order. For the search of power cuts and the long random run.
 */
#ifndef TESTS_FLASH_WORLD_H
#define TESTS_FLASH_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flash/ftl.h"
#include "lib/flash/flash_fake.h"

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

/* One block, or the records. values[0] is the first value. */
struct world_cell {
	struct world_value *values;
	size_t nr, room;
	size_t ended;  /* index of the value of the last request that ended */
	size_t synced; /* index of the first value that a crash may leave */
};

/* From this event on, a crash may not leave an older value than this in the cell. */
struct world_promise {
	uint64_t event;
	uint32_t cell;
	uint32_t value;
};

/*
 * A trim or a clone that is known to be done if the records have a certain value, or a later one.
 */
struct world_tie {
	size_t records; /* index of that value */
	uint32_t block;
	uint32_t nr;
	size_t *values; /* of each block: the oldest value that it may have then */
};

struct world_op;
struct world_records;

struct world {
	uint64_t dice;
	struct flash_device *device;
	struct ftl *ftl;
	struct world_cell cells[WORLD_CELLS];
	uint8_t *mirror;	       /* the blocks, after all that was submitted */
	struct world_records *records; /* the records, likewise */
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
	bool is_cut; /* power is cut: requests may fail now */
};

/* These make the options of the fake device, and the layer on it. */
struct flash_fake_options world_device(uint32_t sector, uint64_t seed);
void world_create(struct flash_device *device);

void world_init(struct world *world, uint64_t seed);
void world_free(struct world *world);

/*
 * Submits a random request, or a put and its sync, after polling until fewer are in flight than
 * WORLD_IN_FLIGHT. False: the device is gone.
 */
bool world_step(struct world *world);
/* Polls until nothing is in flight. False: the device is gone. */
bool world_drain(struct world *world);
/* Forgets the requests in flight, after the layer was abandoned. */
void world_forget(struct world *world);

/*
 * Reads all blocks and records of `ftl`. Checks that each cell has one of its values from
 * `floor[cell]` to `last[cell]` (NULL: those of the model). Checks that all trims and clones that
 * the records name are done. Otherwise fails the test, and says where. `found[cell]`, unless NULL,
 * is set to the value's index.
 */
void world_verify(struct world *world, struct ftl *ftl, const size_t *floor, const size_t *last,
		  size_t *found, const char *when, uint64_t number);

/* Sets the model to the values found after a crash. They are durable. */
void world_settle(struct world *world, const size_t *found);

/* Puts and syncs a block, and checks that it is there. */
void world_use(struct ftl *ftl);

#endif
