/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load of one client, and its model of what must be there. Each block of 4 KiB carries its
 * region, its number and a version. Zeros stand for the last version that was zeros. A read may
 * show any version from the last that is known to be durable to the last that was written. Where
 * nothing is durable it may show zeros. If no server was killed since a write completed, a read
 * shows at least that version.
 */
#include "store_load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <afar/afar.h>

#include "lib/base/effort.h"

#define BLOCK	   4096U
#define BLOCKS_MAX 96U
#define BATCH_MAX  8U
#define MARK_MAGIC 0x6b72616d72616661ULL
#define MORE_BYTES ((uint64_t)4 << 20) /* to reserve at a time */

/* A block is nothing but this, again and again. */
struct mark {
	uint64_t magic, address, client, generation, block, version, spare[2];
};
_Static_assert(BLOCK % sizeof(struct mark) == 0, "marks fill blocks");

struct block {
	uint64_t written;   /* the last version that was begun */
	uint64_t completed; /* a version that all see; 0: none */
	uint64_t durable;   /* a version that survives; 0: none */
	uint64_t zeroed;    /* the last version that was zeros; 0: none */
	unsigned nr_begun;  /* kills, when the write of `completed` was begun */
};

/* A region, and what is known of it. */
struct slot {
	struct afar_region *region; /* NULL: there is none */
	char name[48];
	uint64_t address;
	unsigned generation, nr_blocks;
	bool is_everywhere; /* each server has a part of it */
	struct block blocks[BLOCKS_MAX];
	bool is_unsynced;	 /* writes have completed since the last sync */
	unsigned unsynced_since; /* kills begun, after the first of them had */
	unsigned heard;		 /* kills that the handle has heard of for sure */
};

struct client {
	struct load_shared *shared;
	unsigned number;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_queue *queue;
	struct slot slots[LOAD_SLOTS];
	uint64_t version;
	uint32_t random;
	uint8_t memory[BLOCKS_MAX * BLOCK];
};

/* Ends the client, and with it the test. `slot` may be NULL. */
__attribute__((format(printf, 3, 4))) static _Noreturn void
wrong(const struct client *client, const struct slot *slot, const char *format, ...)
{
	const struct load_shared *shared = client->shared;
	char what[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	fprintf(stderr, "client %u, region %s: %s (kills: %u begun, %u over, %u back)\n",
		client->number, slot ? slot->name : "none", what, shared->nr_begun, shared->nr_over,
		shared->nr_back);
	_exit(1);
}

static unsigned dice(struct client *client, unsigned sides)
{
	client->random = client->random * 1664525U + 1013904223U;
	return (client->random >> 8) % sides;
}

/* True if a call may fail so while daemons are away. Counts it, and leaves them the processor. */
static bool is_away(struct client *client, int64_t ret)
{
	if (ret != -AFAR_ESERVER && ret != -ETIMEDOUT && ret != -ENOTCONN && ret != -ECANCELED &&
	    ret != -AFAR_EMANAGER && ret != -AFAR_ENOSERVER)
		return false;
	client->shared->clients[client->number].nr_failures++;
	test_pause();
	return true;
}

static void expect_away(struct client *client, const struct slot *slot, const char *what,
			int64_t ret)
{
	if (!is_away(client, ret))
		wrong(client, slot, "%s: %lld: %s", what, (long long)ret, afar_last_error());
}

/* ---- Bytes */

static void mark_block(const struct client *client, const struct slot *slot, unsigned block,
		       uint64_t version, void *out)
{
	const struct mark mark = {
		.magic = MARK_MAGIC,
		.address = slot->address,
		.client = client->number,
		.generation = slot->generation,
		.block = block,
		.version = version,
	};

	for (size_t at = 0; at < BLOCK; at += sizeof(mark))
		memcpy((uint8_t *)out + at, &mark, sizeof(mark));
}

static bool is_zeros(const uint8_t *data)
{
	return data[0] == 0 && memcmp(data, data + 1, BLOCK - 1) == 0;
}

/* Returns the version of a block that was read, 0 for zeros. Nothing but the region's own bytes may
 * be there. */
static uint64_t read_version(const struct client *client, const struct slot *slot, unsigned owner,
			     unsigned block, const uint8_t *data)
{
	struct mark mark;

	if (is_zeros(data))
		return 0;
	memcpy(&mark, data, sizeof(mark));
	if (mark.magic != MARK_MAGIC || mark.client != owner || mark.address != slot->address ||
	    mark.generation != slot->generation || mark.block != block)
		wrong(client, slot,
		      "block %u has the bytes of client %llu, region %#llx, generation %llu, block "
		      "%llu, magic %llx",
		      block, (unsigned long long)mark.client, (unsigned long long)mark.address,
		      (unsigned long long)mark.generation, (unsigned long long)mark.block,
		      (unsigned long long)mark.magic);
	if (memcmp(data, data + sizeof(mark), BLOCK - sizeof(mark)) != 0)
		wrong(client, slot, "block %u is torn", block);
	return mark.version;
}

static void check_block(const struct client *client, const struct slot *slot, unsigned block,
			const uint8_t *data, unsigned nr_begun)
{
	const struct block *known = &slot->blocks[block];
	uint64_t version = read_version(client, slot, client->number, block, data);

	if (version == 0)
		version = known->zeroed;
	if (version > known->written)
		wrong(client, slot, "block %u has version %llu, which was not written yet", block,
		      (unsigned long long)version);
	if (version < known->durable)
		wrong(client, slot, "block %u has version %llu, but %llu was durable", block,
		      (unsigned long long)version, (unsigned long long)known->durable);
	if (known->completed && known->nr_begun == nr_begun && version < known->completed)
		wrong(client, slot, "block %u has version %llu, but %llu had completed", block,
		      (unsigned long long)version, (unsigned long long)known->completed);
}

/* ---- Reads and writes */

static bool read_blocks(struct client *client, struct slot *slot, unsigned first, unsigned nr)
{
	ssize_t ret = afar_region_pread(slot->region, client->memory, (size_t)nr * BLOCK,
					(uint64_t)first * BLOCK);
	unsigned nr_begun = client->shared->nr_begun;

	if (ret < 0) {
		expect_away(client, slot, "read", ret);
		return false;
	}
	for (unsigned i = 0; i < nr; i++)
		check_block(client, slot, first + i, client->memory + (size_t)i * BLOCK, nr_begun);
	return true;
}

/* `nr_begun`: the kills that had begun when the write did. */
static void note_completed(const struct client *client, struct slot *slot, unsigned block,
			   uint64_t version, unsigned nr_begun, bool is_durable)
{
	struct block *known = &slot->blocks[block];

	known->completed = version;
	known->nr_begun = nr_begun;
	if (is_durable) {
		known->durable = version;
	} else if (!slot->is_unsynced) {
		slot->is_unsynced = true;
		slot->unsynced_since = client->shared->nr_begun;
	}
}

static void write_blocks(struct client *client, struct slot *slot, unsigned first, unsigned nr)
{
	uint64_t version = ++client->version;
	unsigned nr_begun = client->shared->nr_begun;
	ssize_t ret;

	for (unsigned i = 0; i < nr; i++) {
		slot->blocks[first + i].written = version;
		mark_block(client, slot, first + i, version, client->memory + (size_t)i * BLOCK);
	}
	ret = afar_region_pwrite(slot->region, client->memory, (size_t)nr * BLOCK,
				 (uint64_t)first * BLOCK);
	if (ret < 0)
		expect_away(client, slot, "write", ret);
	for (unsigned i = 0; ret > 0 && i < nr; i++)
		note_completed(client, slot, first + i, version, nr_begun, false);
}

/* ---- Syncs */

/* Takes a sync's result. `before`: kills that were over when it was submitted. */
static void take_sync(struct client *client, struct slot *slot, unsigned before, int64_t ret)
{
	unsigned nr_begun = client->shared->nr_begun;

	if (ret != 0 && ret != -AFAR_EUNSYNCED) {
		expect_away(client, slot, "sync", ret);
		return;
	}
	if (ret == 0 && slot->is_everywhere && slot->is_unsynced && before > slot->unsynced_since)
		wrong(client, slot, "a sync said 0, but writes were completed before kill %u",
		      slot->unsynced_since + 1);
	if (ret && nr_begun == slot->heard)
		wrong(client, slot, "a sync said twice that writes may be lost");
	for (unsigned i = 0; i < slot->nr_blocks; i++) {
		struct block *block = &slot->blocks[i];

		if (ret)
			block->completed = 0;
		else if (block->completed > block->durable)
			block->durable = block->completed;
	}
	slot->is_unsynced = false;
	slot->heard = before;
	client->shared->clients[client->number].nr_syncs++;
	client->shared->clients[client->number].nr_unsynced += ret != 0;
}

static void sync_slot(struct client *client, struct slot *slot)
{
	unsigned before = client->shared->nr_over;

	take_sync(client, slot, before, afar_region_sync(slot->region));
}

/* ---- Batches on the queue */

struct batch {
	struct afar_op ops[BATCH_MAX + 1];
	struct afar_iov iov[BATCH_MAX];
	unsigned blocks[BATCH_MAX];
	uint64_t versions[BATCH_MAX];
	unsigned nr;
	unsigned nr_begun; /* kills, when it was begun */
};

static bool is_taken(const struct batch *batch, unsigned block)
{
	for (unsigned i = 0; i < batch->nr; i++) {
		if (batch->blocks[i] == block)
			return true;
	}
	return false;
}

static void add_to_batch(struct client *client, struct slot *slot, struct batch *batch)
{
	unsigned i = batch->nr, block = dice(client, slot->nr_blocks);
	uint8_t *data = client->memory + (size_t)i * BLOCK;
	bool is_read = dice(client, 3) == 0, is_zero = !is_read && dice(client, 4) == 0;
	bool is_checked = !is_zero && dice(client, 2) == 0;

	if (is_taken(batch, block))
		return;
	batch->blocks[i] = block;
	batch->iov[i] = (struct afar_iov){NULL, data, BLOCK};
	batch->ops[i] = (struct afar_op){
		.opcode = is_read   ? AFAR_OP_READ
			  : is_zero ? AFAR_OP_ZERO
				    : AFAR_OP_WRITE,
		.flags = (!is_read && dice(client, 3) == 0 ? AFAR_OP_DURABLE : 0) |
			 (is_checked ? AFAR_OP_CHECKED : 0),
		.target = afar_region_target(slot->region),
		.offset = (uint64_t)block * BLOCK,
		.iov = is_zero ? NULL : &batch->iov[i],
		.nr_iov = !is_zero,
		.operand = is_zero ? BLOCK : 0,
		.user_data = i,
	};
	if (!is_read)
		batch->versions[i] = slot->blocks[block].written = ++client->version;
	if (is_zero)
		slot->blocks[block].zeroed = client->version;
	else if (!is_read)
		mark_block(client, slot, block, client->version, data);
	batch->nr++;
}

static void take_completion(struct client *client, struct slot *slot, const struct batch *batch,
			    const struct afar_completion *done)
{
	const struct afar_op *op = &batch->ops[done->user_data];
	unsigned block = batch->blocks[done->user_data];

	if (done->result < 0)
		expect_away(client, slot, "operation", done->result);
	else if (op->opcode == AFAR_OP_READ)
		check_block(client, slot, block, op->iov->addr, client->shared->nr_begun);
	else
		note_completed(client, slot, block, batch->versions[done->user_data],
			       batch->nr_begun, op->flags & AFAR_OP_DURABLE);
}

/* Runs a few operations on different blocks at once, and sometimes a sync behind them. */
static void run_batch(struct client *client, struct slot *slot)
{
	struct batch batch = {.nr_begun = client->shared->nr_begun};
	struct afar_completion done[BATCH_MAX + 1];
	bool has_sync = dice(client, 3) == 0;
	unsigned nr, before;
	int ret = afar_queue_connect(client->queue, afar_region_target(slot->region));

	if (ret) {
		expect_away(client, slot, "connect", ret);
		return;
	}
	for (unsigned i = 1 + dice(client, BATCH_MAX); i > 0; i--)
		add_to_batch(client, slot, &batch);
	nr = batch.nr;
	if (has_sync)
		batch.ops[nr++] = (struct afar_op){.opcode = AFAR_OP_SYNC,
						   .target = afar_region_target(slot->region),
						   .user_data = BATCH_MAX};
	before = client->shared->nr_over;
	if (afar_queue_submit(client->queue, batch.ops, nr) != (int)nr ||
	    afar_queue_wait(client->queue, done, nr, nr, -1) != (int)nr)
		wrong(client, slot, "a queue lost operations: %s", afar_last_error());
	for (unsigned i = 0; i < nr; i++) {
		if (done[i].user_data != BATCH_MAX)
			take_completion(client, slot, &batch, &done[i]);
	}
	/* It covers all of them, and so is looked at last. */
	for (unsigned i = 0; i < nr; i++) {
		if (done[i].user_data == BATCH_MAX)
			take_sync(client, slot, before, done[i].result);
	}
}

/* ---- Regions come and go */

/* Finds out where the region is. False: it is freed, or daemons are away. */
static bool open_slot(struct client *client, struct slot *slot)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	int ret = afar_region_stat(slot->region, &stat);

	if (ret && ret != -AFAR_EFREED)
		expect_away(client, slot, "stat", ret);
	slot->address = stat.address;
	slot->is_everywhere = stat.width == client->shared->nr_servers;
	return ret == 0;
}

/* Waits until nothing of the name is there. An earlier call may or may not have made it. */
static void forget_name(struct client *client, const struct slot *slot)
{
	int ret;

	do {
		ret = afar_region_delete(client->ns, slot->name);
		if (ret && ret != -ENOENT)
			expect_away(client, slot, "delete", ret);
	} while (ret && ret != -ENOENT);
}

static void make_slot(struct client *client, struct slot *slot)
{
	static unsigned generation;
	unsigned nr_back = client->shared->nr_back, number = (unsigned)(slot - client->slots);
	int ret;

	memset(slot, 0, sizeof(*slot));
	slot->generation = ++generation;
	slot->nr_blocks = 1 + dice(client, BLOCKS_MAX);
	slot->heard = nr_back;
	snprintf(slot->name, sizeof(slot->name), "c%u.%u.%u", client->number, number,
		 slot->generation);
	ret = afar_region_create(client->ns, slot->name, (uint64_t)slot->nr_blocks * BLOCK, 0,
				 &slot->region);
	if (ret == -AFAR_ERESERVE)
		ret = afar_namespace_reserve(client->ns, MORE_BYTES);
	else if (ret)
		expect_away(client, slot, "create", ret);
	if (ret && ret != -ENOSPC)
		expect_away(client, slot, "reserve", ret);
	if (!slot->region) {
		forget_name(client, slot);
		return;
	}
	while (!open_slot(client, slot))
		;
	client->shared->clients[client->number].generations[number] = slot->generation;
	read_blocks(client, slot, 0, slot->nr_blocks); /* zeros */
}

static void drop_slot(struct client *client, struct slot *slot)
{
	int ret;

	client->shared->clients[client->number].generations[slot - client->slots] = 0;
	do {
		ret = afar_region_destroy(slot->region);
		if (ret && ret != -AFAR_EFREED)
			expect_away(client, slot, "free", ret);
	} while (ret && ret != -AFAR_EFREED);
	if (afar_region_close(slot->region))
		wrong(client, slot, "close: %s", afar_last_error());
	slot->region = NULL;
}

/* Another handle shows what must be there, too. */
static void reopen_slot(struct client *client, struct slot *slot)
{
	unsigned nr_back = client->shared->nr_back;
	struct afar_region *region;
	int ret = afar_region_open(client->ns, slot->name, &region);

	if (ret) {
		expect_away(client, slot, "open", ret);
		return;
	}
	if (afar_region_close(slot->region))
		wrong(client, slot, "close: %s", afar_last_error());
	slot->region = region;
	slot->heard = nr_back;
	/* The new handle does not answer for what completed under the old one. */
	slot->is_unsynced = false;
	for (unsigned i = 0; i < slot->nr_blocks; i++)
		slot->blocks[i].completed = 0;
	read_blocks(client, slot, 0, slot->nr_blocks);
}

/* Looks at a region of another client, which may be writing it. */
static void peek(struct client *client)
{
	unsigned owner = (client->number + 2) % LOAD_CLIENTS, number = dice(client, LOAD_SLOTS);
	struct slot slot = {.generation = client->shared->clients[owner].generations[number]};
	uint8_t data[BLOCK];
	ssize_t ret;

	if (slot.generation == 0)
		return;
	snprintf(slot.name, sizeof(slot.name), "c%u.%u.%u", owner, number, slot.generation);
	ret = afar_region_open(client->ns, slot.name, &slot.region);
	if (ret && ret != -ENOENT)
		expect_away(client, &slot, "open", ret);
	if (ret)
		return;
	ret = open_slot(client, &slot) ? afar_region_pread(slot.region, data, BLOCK, 0) : 0;
	if (ret < 0)
		expect_away(client, &slot, "peek", ret);
	/* A block that is being written may be torn for those who look, but it is nobody else's. */
	if (ret > 0) {
		for (unsigned i = (unsigned)sizeof(struct mark); i < BLOCK;
		     i += (unsigned)sizeof(struct mark))
			memcpy(data + i, data, sizeof(struct mark));
		read_version(client, &slot, owner, 0, data);
	}
	if (afar_region_close(slot.region))
		wrong(client, &slot, "close: %s", afar_last_error());
}

/* Gives what is not used back, so that extents go from one namespace to the other. */
static void release(struct client *client)
{
	int ret = afar_namespace_release(client->ns, UINT64_MAX, NULL);

	if (ret)
		expect_away(client, NULL, "release", ret);
}

/* ---- The client */

static void step(struct client *client)
{
	struct slot *slot = &client->slots[dice(client, LOAD_SLOTS)];
	unsigned what = dice(client, 100);
	unsigned first, nr;

	client->shared->clients[client->number].nr_steps++;
	if (!slot->region) {
		make_slot(client, slot);
		return;
	}
	first = dice(client, slot->nr_blocks);
	nr = 1 + dice(client, slot->nr_blocks - first);
	if (what < 25)
		write_blocks(client, slot, first, nr);
	else if (what < 55)
		run_batch(client, slot);
	else if (what < 75)
		read_blocks(client, slot, first, nr);
	else if (what < 85)
		sync_slot(client, slot);
	else if (what < 90)
		drop_slot(client, slot);
	else if (what < 93)
		reopen_slot(client, slot);
	else if (what < 98)
		peek(client);
	else
		release(client);
}

/* Everything that must be there is, and then nothing is left. */
static void finish(struct client *client)
{
	for (unsigned i = 0; i < LOAD_SLOTS; i++) {
		struct slot *slot = &client->slots[i];

		if (!slot->region)
			continue;
		while (!read_blocks(client, slot, 0, slot->nr_blocks))
			;
		reopen_slot(client, slot);
		drop_slot(client, slot);
	}
}

int load_run(struct load_shared *shared, unsigned number, const char *uri, const char *ns)
{
	struct client *client = calloc(1, sizeof(*client));
	int ret;

	if (!client)
		return 1;
	client->shared = shared;
	client->number = number;
	client->random = number * 7919U + 17U;
	if (afar_session_open(uri, NULL, &client->session) ||
	    afar_namespace_open(client->session, ns, &client->ns) ||
	    afar_queue_open(client->session, NULL, &client->queue)) {
		fprintf(stderr, "client %u: %s\n", number, afar_last_error());
		free(client);
		return 1;
	}
	while (!shared->is_over)
		step(client);
	finish(client);
	ret = afar_queue_close(client->queue) || afar_namespace_close(client->ns) ||
	      afar_session_close(client->session);
	free(client);
	return ret;
}
