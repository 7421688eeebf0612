/* SPDX-License-Identifier: BSD-3-Clause */
/* A program whose server loses its power, and a model of what must be there; see power_world.h. */
#include "power_world.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/base/effort.h"
#include "lib/flash/flash_fake_image.h"
#include "lib/flash/flash_power.h"
#include "store_account.h"

#define SERVER_BYTES (4 * MIB)
#define FLASH_BYTES  (8 * MIB)
#define NR_PLACES    2U
#define SETTLE_MS    20000

static struct flash_power *power;
static uint64_t dice;
static uint8_t memory[POWER_REGION_BYTES];

/* ---- The model */

/* Versions of a block count from 1; 0: zeros. */
struct block {
	uint32_t written;   /* the last that was begun         */
	uint32_t completed; /* all see it                      */
	uint32_t durable;   /* it, or a later one, survives    */
	uint32_t found;	    /* when the region was read last   */
};

struct place {
	struct afar_region *region; /* NULL: there is none */
	uint32_t owner;		    /* no other region ever has this number */
	bool is_unsynced;	    /* writes have completed since the last sync */
	struct block blocks[POWER_BLOCKS];
};

static struct {
	struct afar_namespace *ns;
	struct place places[NR_PLACES];
	struct afar_queue *queue;
	uint32_t nr_owners, version;
	uint64_t reserved;
	bool is_ending;	  /* the server was told to end: a sync may say 0 if nothing is lost */
	bool was_cut;	  /* the power was cut since the server last ended in order */
	bool is_new;	  /* the server was started in this run: old connections may fail */
	uint64_t nr_seen; /* cuts that were dealt with */
	struct power_counts counts;
	struct {
		const char *name; /* NULL: there is none */
		const void *bytes;
		size_t length;
	} other; /* a region of another program's */
} world;

/* A block is nothing but this, again and again. */
static uint64_t word_of(const struct place *place, unsigned block, uint32_t version)
{
	return (uint64_t)place->owner << 40 | (uint64_t)block << 32 | version;
}

static void write_words(const struct place *place, unsigned block, uint32_t version, uint8_t *out)
{
	const uint64_t word = word_of(place, block, version);

	for (size_t at = 0; at < POWER_BLOCK; at += sizeof(word))
		memcpy(out + at, &word, sizeof(word));
}

/* Returns the version. Fails if the bytes are torn or another's. */
static uint32_t read_words(const struct place *place, unsigned block, const uint8_t *data)
{
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	if (memcmp(data, data + sizeof(word), POWER_BLOCK - sizeof(word)) != 0)
		fail_msg("block %u is torn", block);
	if (word != 0 && word != word_of(place, block, (uint32_t)word))
		fail_msg("block %u of owner %u has %#llx, which is another's", block, place->owner,
			 (unsigned long long)word);
	return (uint32_t)word;
}

/* ---- Cuts */

static bool has_cut(void)
{
	return power->nr_cuts > world.nr_seen;
}

static void keep_power(void)
{
	power->cut_at = FLASH_POWER_STAYS;
}

void power_cut_behind(uint64_t nr_events)
{
	power->cut_at = power->nr_events + nr_events;
}

/* Returns whether a call failed because the server is away, so the caller tries again. Fails the
 * test if no cut and no restart explains it. */
static bool is_away(int64_t ret)
{
	const bool is_so = ret == -AFAR_ESERVER || ret == -ETIMEDOUT || ret == -ENOTCONN ||
			   ret == -ECANCELED || ret == -AFAR_ENOSERVER || ret == -AFAR_ERESERVE ||
			   ret == -ENOSPC;

	if (!is_so || has_cut())
		return is_so;
	if (!world.is_new)
		fail_msg("%lld: %s", (long long)ret, afar_last_error());
	test_pause();
	return true;
}

/* Starts the server after a cut. Sometimes its start is cut, too. */
static void restart(void)
{
	world.was_cut = world.is_new = true;
	world.nr_seen = power->nr_cuts;
	keep_power();
	cluster_kill_server(cluster, 0);
	if (dice_below(&dice, 4) == 0)
		power_cut_behind(1 + dice_below(&dice, 40));
	while (cluster_restart_server(cluster, 0) != 0) {
		if (!has_cut())
			fail_msg("the server does not start on what survived");
		world.nr_seen = power->nr_cuts;
		world.counts.nr_starts++;
		keep_power();
		cluster_kill_server(cluster, 0);
	}
	keep_power();
}

/* ---- What must be there. These return false if the power was cut meanwhile. */

static void check_block(struct place *place, unsigned i, const uint8_t *data)
{
	struct block *block = &place->blocks[i];

	block->found = read_words(place, i, data);
	if (block->found > block->written)
		fail_msg("block %u has version %u, which was not written", i, block->found);
	if (block->found < block->durable)
		fail_msg("block %u has version %u, but %u was durable", i, block->found,
			 block->durable);
}

static bool read_place(struct place *place)
{
	int64_t ret;

	do {
		ret = afar_region_pread(place->region, memory, POWER_REGION_BYTES, 0);
		if (has_cut())
			return false;
	} while (is_away(ret));
	assert_int_equal(ret, POWER_REGION_BYTES);
	for (unsigned i = 0; i < POWER_BLOCKS; i++)
		check_block(place, i, memory + (size_t)i * POWER_BLOCK);
	return true;
}

static bool sync_place(const struct place *place, int *ret)
{
	do {
		*ret = afar_region_sync(place->region);
		if (has_cut())
			return false;
	} while (is_away(*ret));
	return true;
}

/* Returns whether writes are lost that had completed. */
static bool has_lost(const struct place *place)
{
	for (unsigned i = 0; i < POWER_BLOCKS; i++) {
		if (place->blocks[i].found < place->blocks[i].completed)
			return true;
	}
	return false;
}

/* From now on the model is what was found. */
static void settle(struct place *place)
{
	for (unsigned i = 0; i < POWER_BLOCKS; i++) {
		struct block *block = &place->blocks[i];

		block->written = block->completed = block->durable = block->found;
	}
	place->is_unsynced = false;
}

static bool check_place(struct place *place)
{
	bool is_lost;
	int ret;

	if (!read_place(place) || !sync_place(place, &ret))
		return false;
	is_lost = has_lost(place);
	world.counts.nr_lost += is_lost;
	if (ret == 0 && is_lost)
		fail_msg("a sync said 0, and writes are lost");
	if (ret == 0 && world.was_cut && !world.is_ending && place->is_unsynced)
		fail_msg("a sync said 0 after a cut, and there were writes that it should cover");
	if (ret != 0 && !(ret == -AFAR_EUNSYNCED && world.was_cut))
		fail_msg("a sync said %d: %s", ret, afar_last_error());
	world.counts.nr_unsynced += ret != 0;
	settle(place);
	if (!sync_place(place, &ret))
		return false;
	if (ret != 0)
		fail_msg("the sync after that said %d: %s", ret, afar_last_error());
	return true;
}

static uint64_t count_used(uint64_t *allocated)
{
	uint64_t bytes = (world.other.length + POWER_BLOCK - 1) / POWER_BLOCK * POWER_BLOCK;

	*allocated = bytes;
	for (unsigned i = 0; i < NR_PLACES; i++) {
		const struct place *place = &world.places[i];

		*allocated += place->region ? POWER_REGION_BYTES : 0;
		for (unsigned b = 0; b < POWER_BLOCKS && place->region; b++)
			bytes += place->blocks[b].found ? POWER_BLOCK : 0;
	}
	return bytes;
}

/* Waits, because trims and releases end in the background. */
static bool check_figures(void)
{
	const uint64_t deadline = clock_deadline_ms(SETTLE_MS);
	uint64_t allocated, used = count_used(&allocated);
	struct account account;

	for (;;) {
		account_take(session, &account);
		if (has_cut())
			return false;
		if (account.reserved == world.reserved && account.allocated == allocated &&
		    account.granted == world.reserved && account.reported == account.granted &&
		    account.used == used && account.releasing == 0 && account.nr_orphans == 0)
			return true;
		if (clock_remaining_ms(deadline) == 0)
			break;
		test_pause();
	}
	fail_msg("%llu bytes are reserved, %llu granted, %llu there, %llu allocated of %llu, %llu "
		 "used of %llu; %llu being released, %llu orphans",
		 (unsigned long long)account.reserved, (unsigned long long)account.granted,
		 (unsigned long long)account.reported, (unsigned long long)account.allocated,
		 (unsigned long long)allocated, (unsigned long long)account.used,
		 (unsigned long long)used, (unsigned long long)account.releasing,
		 (unsigned long long)account.nr_orphans);
	return false;
}

static bool check_other(void)
{
	struct afar_region *region;
	int64_t ret;

	if (!world.other.name)
		return true;
	assert_int_equal(afar_region_open(world.ns, world.other.name, &region), 0);
	do {
		ret = afar_region_pread(region, memory, world.other.length, 0);
	} while (!has_cut() && is_away(ret));
	assert_int_equal(afar_region_close(region), 0);
	if (has_cut())
		return false;
	assert_int_equal(ret, world.other.length);
	if (memcmp(memory, world.other.bytes, world.other.length) != 0)
		fail_msg("region %s is not what it was", world.other.name);
	return true;
}

static bool check_all(void)
{
	for (unsigned i = 0; i < NR_PLACES; i++) {
		if (world.places[i].region && !check_place(&world.places[i]))
			return false;
	}
	return check_other() && check_figures();
}

/* After a cut: starts the server and looks at everything. */
static void recover(void)
{
	do
		restart();
	while (!check_all());
}

/* ---- Steps */

int power_make_namespace(const struct power_step *step)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = 64 * KIB};

	(void)step;
	return afar_namespace_create(session, POWER_NAMESPACE, &policy, &world.ns);
}

int power_reserve(const struct power_step *step)
{
	int ret = afar_namespace_reserve(world.ns, POWER_RESERVE_BYTES);

	(void)step;
	world.reserved += ret == 0 ? POWER_RESERVE_BYTES : 0;
	return ret;
}

int power_release(const struct power_step *step)
{
	uint64_t released = 0;
	int ret = afar_namespace_release(world.ns, UINT64_MAX, &released);

	(void)step;
	world.reserved -= released;
	return ret;
}

/* Deletes a region that a failed call may have made. */
static int forget_region(const char *name, int failure)
{
	int ret = afar_region_delete(world.ns, name);

	if (ret != -ENOENT)
		assert_int_equal(ret, 0);
	return failure;
}

int power_make_region(const struct power_step *step)
{
	struct place *place = &world.places[step->place];
	char name[16];
	int ret;

	memset(place, 0, sizeof(*place));
	place->owner = ++world.nr_owners;
	snprintf(name, sizeof(name), "r%u", place->owner);
	ret = afar_region_create(world.ns, name, POWER_REGION_BYTES, 0, &place->region);
	if (ret != 0)
		return forget_region(name, ret);
	while (!read_place(place)) /* zeros */
		recover();
	return 0;
}

int power_free_region(const struct power_step *step)
{
	struct place *place = &world.places[step->place];
	int ret = afar_region_destroy(place->region);

	if (ret != 0 && ret != -AFAR_EFREED)
		return ret;
	assert_int_equal(afar_region_close(place->region), 0);
	place->region = NULL;
	return 0;
}

/* A write of many blocks is several operations, all under way at once. */
#define BLOCKS_AN_OP 4U
#define OPS_MAX	     (POWER_BLOCKS / BLOCKS_AN_OP)

static void note_completed(struct place *place, unsigned first, uint32_t version, bool is_durable)
{
	for (unsigned i = first; i < first + BLOCKS_AN_OP; i++) {
		place->blocks[i].completed = version;
		if (is_durable)
			place->blocks[i].durable = version;
	}
	place->is_unsynced |= !is_durable;
}

static void note_synced(struct place *place)
{
	for (unsigned i = 0; i < POWER_BLOCKS; i++)
		place->blocks[i].durable = place->blocks[i].completed;
	place->is_unsynced = false;
}

static void begin_write(struct place *place, unsigned first, uint32_t version, uint32_t flags,
			struct afar_iov *iov, struct afar_op *op)
{
	uint8_t *data = memory + (size_t)first * POWER_BLOCK;

	for (unsigned i = 0; i < BLOCKS_AN_OP; i++) {
		place->blocks[first + i].written = version;
		write_words(place, first + i, version, data + (size_t)i * POWER_BLOCK);
	}
	*iov = (struct afar_iov){NULL, data, (size_t)BLOCKS_AN_OP * POWER_BLOCK};
	*op = (struct afar_op){.opcode = AFAR_OP_WRITE,
			       .flags = flags,
			       .target = afar_region_target(place->region),
			       .offset = (uint64_t)first * POWER_BLOCK,
			       .iov = iov,
			       .nr_iov = 1,
			       .user_data = first};
}

/* Writes blocks, and has `behind` follow: a flush, a sync, or 0: nothing. */
static int write_blocks(const struct power_step *step, uint32_t flags, uint16_t behind)
{
	struct place *place = &world.places[step->place];
	const uint32_t version = ++world.version;
	struct afar_completion done[OPS_MAX + 1];
	struct afar_iov iov[OPS_MAX];
	struct afar_op ops[OPS_MAX + 1];
	unsigned nr = step->nr / BLOCKS_AN_OP;
	int ret = afar_queue_connect(world.queue, afar_region_target(place->region));
	bool is_synced = false;

	if (ret != 0)
		return ret;
	for (unsigned i = 0; i < nr; i++)
		begin_write(place, step->first + i * BLOCKS_AN_OP, version, flags, &iov[i],
			    &ops[i]);
	if (behind)
		ops[nr++] = (struct afar_op){
			.opcode = behind, .target = ops[0].target, .user_data = POWER_BLOCKS};
	assert_int_equal(afar_queue_submit(world.queue, ops, nr), nr);
	assert_int_equal(afar_queue_wait(world.queue, done, nr, nr, -1), nr);
	for (unsigned i = 0; i < nr; i++) {
		if (done[i].result < 0)
			ret = (int)done[i].result;
		else if (done[i].user_data == POWER_BLOCKS)
			is_synced = behind == AFAR_OP_SYNC;
		else
			note_completed(place, (unsigned)done[i].user_data, version,
				       flags & AFAR_OP_DURABLE);
	}
	if (is_synced)
		note_synced(place);
	return ret;
}

int power_write(const struct power_step *step)
{
	return write_blocks(step, 0, 0);
}

int power_write_durable(const struct power_step *step)
{
	return write_blocks(step, AFAR_OP_DURABLE, 0);
}

int power_write_and_sync(const struct power_step *step)
{
	return write_blocks(step, 0, AFAR_OP_SYNC);
}

int power_write_and_flush(const struct power_step *step)
{
	return write_blocks(step, 0, AFAR_OP_FLUSH);
}

int power_sync(const struct power_step *step)
{
	int ret = afar_region_sync(world.places[step->place].region);

	if (ret == 0)
		note_synced(&world.places[step->place]);
	return ret;
}

void power_run(const struct power_step *step)
{
	int ret;

	while (is_away(ret = step->run(step))) {
		if (has_cut())
			recover();
	}
	if (ret != 0)
		fail_msg("a step on region %u: %d: %s", step->place, ret, afar_last_error());
}

int power_restart(const struct power_step *step)
{
	(void)step;
	world.is_ending = true;
	cluster_stop_server(cluster, 0);
	if (!has_cut()) {
		for (unsigned i = 0; i < NR_PLACES; i++)
			note_synced(&world.places[i]);
		world.was_cut = false;
		world.is_new = true;
		if (cluster_restart_server(cluster, 0) != 0 && !has_cut())
			fail_msg("the server does not start after it was ended in order");
	}
	if (has_cut())
		recover();
	world.is_ending = false;
	return 0;
}

void power_look(void)
{
	if (!check_all())
		recover();
	keep_power();
}

void power_cut_now(void)
{
	const struct power_step use = {power_write_durable, 1, 0, BLOCKS_AN_OP};

	power_cut_behind(0);
	assert_true(is_away(use.run(&use)));
	assert_true(has_cut());
	recover();
}

void power_expect(const char *name, const void *bytes, size_t length)
{
	assert_true(length <= sizeof(memory));
	world.other.name = name;
	world.other.bytes = bytes;
	world.other.length = length;
	world.reserved += POWER_RESERVE_BYTES;
}

void power_clear(void)
{
	keep_power();
	for (unsigned i = 0; i < NR_PLACES; i++) {
		if (world.places[i].region)
			assert_int_equal(power_free_region(&(struct power_step){.place = i}), 0);
	}
	if (world.other.name)
		assert_int_equal(afar_region_delete(world.ns, world.other.name), 0);
	memset(&world.other, 0, sizeof(world.other));
	assert_int_equal(afar_namespace_close(world.ns), 0);
	assert_int_equal(afar_namespace_delete(session, POWER_NAMESPACE, 0), 0);
	world.reserved = 0;
	assert_true(check_figures());
	world.was_cut = world.is_new = false;
}

/* ---- All of it */

static void share_power(void)
{
	char path[64];
	int fd = memfd_create("power", MFD_CLOEXEC);

	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	assert_int_equal(setenv(FLASH_POWER, path, 1), 0);
	assert_int_equal(ftruncate(fd, sizeof(*power)), 0);
	power = mmap(NULL, sizeof(*power), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(power, MAP_FAILED);
	power->seed = dice_roll(&dice);
	keep_power();
}

int power_start(void **state)
{
	const char *seed = getenv("AFAR_SEED");

	(void)state;
	dice = seed ? (uint64_t)strtoull(seed, NULL, 10) : (uint64_t)getpid();
	print_message("AFAR_SEED=%llu\n", (unsigned long long)dice);
	share_power();
	return cluster_start_flash(1, SERVER_BYTES, FLASH_BYTES, &cluster) ||
	       afar_session_open(cluster_uri(cluster), NULL, &session) ||
	       afar_queue_open(session, NULL, &world.queue);
}

int power_stop(void **state)
{
	int ret = afar_queue_close(world.queue);

	return stop(state) || ret;
}

uint64_t power_dice(uint64_t sides)
{
	return dice_below(&dice, sides);
}

uint64_t power_nr_events(void)
{
	return power->nr_events;
}

uint64_t power_nr_cuts(void)
{
	return power->nr_cuts;
}

struct power_counts power_counts(void)
{
	return world.counts;
}
