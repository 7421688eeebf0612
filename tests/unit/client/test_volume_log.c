/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of a volume's changes makes again what was done and not dropped, whatever came in whatever
 * order from however many threads. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "client/volume/volume_log.h"
#include "unit/group.h"

#define LOG_BYTES  VOLUME_LOG_MIN
#define DISK_BYTES ((uint64_t)260 << 10)

static struct volume_log *volume_log;
static uint64_t seed = 1;

static int setup(void **state)
{
	(void)state;
	seed = 1;
	return volume_log_open(0, &volume_log);
}

static int teardown(void **state)
{
	(void)state;
	volume_log_close(volume_log);
	return 0;
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static uint64_t next_random(uint64_t *state, uint64_t limit)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*state >> 24) % limit;
}

static uint64_t random_below(uint64_t limit)
{
	return next_random(&seed, limit);
}

static struct volume_change change_of(uint64_t offset, uint64_t length, const void *data)
{
	return (struct volume_change){.opcode = data ? AFAR_OP_WRITE : AFAR_OP_ZERO,
				      .offset = offset,
				      .length = length,
				      .data = data};
}

static struct log_entry *must_begin(uint64_t offset, uint64_t length, const void *data)
{
	const struct volume_change change = change_of(offset, length, data);
	struct log_entry *entry;

	assert_int_equal(volume_log_begin(volume_log, &change, &entry), 0);
	return entry;
}

static void must_do(uint64_t offset, uint64_t length, const void *data)
{
	volume_log_end(volume_log, must_begin(offset, length, data), true);
}

/* ---- What a replay makes */

/* A disk, and how often each byte was made. */
struct disk {
	uint8_t bytes[DISK_BYTES];
	uint8_t made[DISK_BYTES];
	unsigned nr_made;
	unsigned fail_at; /* the how many-th; 0: none */
};

static int make(void *context, const struct volume_change *change)
{
	struct disk *disk = context;

	if (++disk->nr_made == disk->fail_at)
		return -EIO;
	assert_true(change->length > 0 && change->offset + change->length <= DISK_BYTES);
	assert_int_equal(change->data != NULL, change->opcode == AFAR_OP_WRITE);
	if (change->data)
		memcpy(disk->bytes + change->offset, change->data, change->length);
	else
		memset(disk->bytes + change->offset, 0, change->length);
	for (uint64_t i = 0; i < change->length; i++)
		disk->made[change->offset + i]++;
	return 0;
}

/* Replays onto a disk that has 0xee everywhere. */
static void replay(struct disk *disk)
{
	memset(disk, 0, sizeof(*disk));
	memset(disk->bytes, 0xee, DISK_BYTES);
	assert_int_equal(volume_log_replay(volume_log, make, disk), 0);
	for (uint64_t i = 0; i < DISK_BYTES; i++)
		assert_true(disk->made[i] <= 1);
}

static void test_nothing(void **state)
{
	static struct disk disk;

	(void)state;
	replay(&disk);
	assert_int_equal(disk.nr_made, 0);
	volume_log_drop(volume_log, volume_log_mark(volume_log));
	replay(&disk);
	assert_int_equal(disk.nr_made, 0);
	volume_log_close(NULL);
}

static void test_later_bytes_supersede(void **state)
{
	static struct disk disk;

	(void)state;
	must_do(100, 10, "aaaaaaaaaa");
	must_do(104, 2, "bb");
	must_do(95, 7, "ccccccc");
	must_do(109, 3, NULL);
	must_do(300, 3, "eee");
	must_do(300, 3, "fff"); /* all of it */
	replay(&disk);
	assert_memory_equal(&disk.bytes[94],
			    "\xee"
			    "ccccccc"
			    "aa"
			    "bb"
			    "aaa"
			    "\0\0\0"
			    "\xee",
			    19);
	assert_memory_equal(&disk.bytes[299],
			    "\xee"
			    "fff"
			    "\xee",
			    5);
	assert_int_equal(disk.nr_made, 6);
}

/* Changes that are under way, or were given up, are not made again, nor do they hide others. */
static void test_only_what_is_done(void **state)
{
	static struct disk disk;
	struct log_entry *pending;

	(void)state;
	must_do(0, 4, "aaaa");
	volume_log_end(volume_log, must_begin(2, 4, "bbbb"), false);
	pending = must_begin(1, 1, "c");
	must_do(8, 1, "d");
	replay(&disk);
	assert_memory_equal(disk.bytes,
			    "aaaa"
			    "\xee\xee\xee\xee"
			    "d"
			    "\xee",
			    10);
	assert_int_equal(disk.nr_made, 2);
	volume_log_end(volume_log, pending, true);
	replay(&disk);
	assert_memory_equal(disk.bytes, "acaa", 4);
}

static uint16_t opcodes[8];
static unsigned nr_opcodes;

static int note_opcode(void *context, const struct volume_change *change)
{
	(void)context;
	opcodes[nr_opcodes++] = change->opcode;
	return 0;
}

/* A trim may leave what is not a whole block. A part of one, which is not the part that was asked
 * for, must not leave other bytes than it did. */
static void test_parts_of_trims_are_zeros(void **state)
{
	struct volume_change trim = {.opcode = AFAR_OP_TRIM, .offset = 4096, .length = 8192};
	struct log_entry *entry;

	(void)state;
	nr_opcodes = 0;
	assert_int_equal(volume_log_begin(volume_log, &trim, &entry), 0);
	volume_log_end(volume_log, entry, true);
	assert_int_equal(volume_log_replay(volume_log, note_opcode, NULL), 0);
	assert_int_equal(nr_opcodes, 1);
	assert_int_equal(opcodes[0], AFAR_OP_TRIM);
	nr_opcodes = 0;
	must_do(5000, 4, "abcd");
	assert_int_equal(volume_log_replay(volume_log, note_opcode, NULL), 0);
	assert_int_equal(nr_opcodes, 3);
	assert_int_equal(opcodes[0], AFAR_OP_ZERO);
	assert_int_equal(opcodes[1], AFAR_OP_WRITE);
	assert_int_equal(opcodes[2], AFAR_OP_ZERO);
}

/* The first that fails is the last, and what is told. All is there for the next time. */
static void test_replay_that_fails(void **state)
{
	static struct disk disk;

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		must_do(2 * i, 1, "x");
	for (unsigned at = 1; at <= 10; at++) {
		memset(&disk, 0, sizeof(disk));
		disk.fail_at = at;
		assert_int_equal(volume_log_replay(volume_log, make, &disk), -EIO);
		assert_int_equal(disk.nr_made, at);
	}
	replay(&disk);
	assert_int_equal(disk.nr_made, 10);
}

/* ---- Syncs */

/* A change that ends behind the mark stays, and so do all behind it. */
static void test_drop_keeps_what_had_not_ended(void **state)
{
	static struct disk disk;
	struct log_entry *pending;
	uint64_t mark;

	(void)state;
	must_do(0, 1, "a");
	pending = must_begin(1, 1, "b");
	must_do(2, 1, "c");
	mark = volume_log_mark(volume_log);
	volume_log_end(volume_log, pending, true);
	must_do(3, 1, "d");
	volume_log_drop(volume_log, mark);
	replay(&disk);
	assert_int_equal(disk.bytes[0], 0xee);
	assert_int_equal(disk.bytes[1], 'b'); /* 'c' may be there */
	assert_int_equal(disk.bytes[3], 'd');
	volume_log_drop(volume_log, volume_log_mark(volume_log));
	replay(&disk);
	assert_int_equal(disk.nr_made, 0);
}

/* Two syncs run at once and end in either order. The earlier mark drops nothing that is newer, also
 * when the log has become empty in between and has begun anew. */
static void test_marks_of_two_syncs(void **state)
{
	static struct disk disk;
	uint64_t early, late;

	(void)state;
	for (int is_early_first = 0; is_early_first < 2; is_early_first++) {
		must_do(0, 1, "a");
		early = volume_log_mark(volume_log);
		must_do(1, 1, "b");
		late = volume_log_mark(volume_log);
		volume_log_drop(volume_log, is_early_first ? early : late);
		must_do(2, 1, "c");
		volume_log_drop(volume_log, is_early_first ? late : early);
		replay(&disk);
		assert_int_equal(disk.nr_made, 1);
		assert_int_equal(disk.bytes[2], 'c');
		volume_log_drop(volume_log, volume_log_mark(volume_log));
		volume_log_drop(volume_log, early);
		volume_log_drop(volume_log, late);
	}
}

/* ---- Full */

static void test_full(void **state)
{
	const size_t max = volume_log_write_max(volume_log);
	static struct disk disk;
	struct volume_change change;
	struct log_entry *entry;
	uint8_t *data = malloc(max);
	unsigned nr = 0;

	(void)state;
	assert_true(max >= LOG_BYTES / 8 && max <= DISK_BYTES);
	memset(data, 'x', max);
	change = change_of(0, max, data);
	for (int round = 0; round < 20; round++) {
		while (volume_log_begin(volume_log, &change, &entry) == 0) {
			volume_log_end(volume_log, entry, true);
			nr++;
			assert_true(nr < 100 * 20);
		}
		/* Small ones fit until it is full to the last place. */
		change.length = 1;
		while (volume_log_begin(volume_log, &change, &entry) == 0)
			volume_log_end(volume_log, entry, true);
		change.length = max;
		replay(&disk);
		assert_int_equal(disk.bytes[max - 1], 'x');
		volume_log_drop(volume_log, volume_log_mark(volume_log));
		for (uint64_t i = random_below(500); i > 0; i--)
			must_do(0, 1 + random_below(100), data);
	}
	assert_true(nr >= 3 * 20);
	free(data);
}

/* Around the ring, with room in front that was not all: nothing runs into the oldest that is left. */
static void test_wraps(void **state)
{
	const size_t max = volume_log_write_max(volume_log);
	uint8_t *data = malloc(max);
	static struct disk disk;

	(void)state;
	for (int round = 0; round < 50; round++) {
		uint64_t length = max / 2 + random_below(max / 2);
		struct volume_change change = change_of(1000, length, data);
		struct log_entry *oldest, *entry;
		uint64_t mark;

		for (uint64_t i = 1 + random_below(3); i > 0; i--)
			must_do(1000, max - random_below(max / 2), data);
		oldest = must_begin(0, 500, memset(data, 1 + round, 500));
		mark = volume_log_mark(volume_log);
		volume_log_end(volume_log, oldest, true);
		volume_log_drop(volume_log, mark);
		memset(data, 100 + round, max);
		while (volume_log_begin(volume_log, &change, &entry) == 0)
			volume_log_end(volume_log, entry, true);
		replay(&disk);
		for (size_t i = 0; i < 500; i++)
			assert_int_equal(disk.bytes[i], 1 + round);
		assert_memory_equal(&disk.bytes[1000], data, length);
		volume_log_drop(volume_log, volume_log_mark(volume_log));
	}
	free(data);
}

/* A log that is full of changes that were given up is not full for good. */
static void test_full_of_what_was_given_up(void **state)
{
	const size_t max = volume_log_write_max(volume_log);
	uint8_t *data = calloc(1, max);
	struct volume_change change = change_of(0, max, data);
	struct log_entry *entry;

	(void)state;
	for (int i = 0; i < 100; i++) {
		if (volume_log_begin(volume_log, &change, &entry) == -EAGAIN) {
			volume_log_drop(volume_log, volume_log_mark(volume_log));
			assert_int_equal(volume_log_begin(volume_log, &change, &entry), 0);
		}
		volume_log_end(volume_log, entry, false);
	}
	free(data);
}

/* ---- Random changes of one thread, against the list of them */

#define MODEL_MAX 4000

static struct {
	struct volume_change change;
	uint8_t *data;
	struct log_entry *entry; /* NULL: it has ended */
	bool is_done;
} model[MODEL_MAX];
static size_t nr_model, first_model; /* what was begun; the first that no sync covers */

static bool overlaps_pending(uint64_t offset, uint64_t length)
{
	for (size_t i = first_model; i < nr_model; i++)
		if (model[i].entry && model[i].change.offset < offset + length &&
		    offset < model[i].change.offset + model[i].change.length)
			return true;
	return false;
}

/* Those that a sync covers, as a number of the model. */
static size_t model_mark(void)
{
	size_t mark = first_model;

	while (mark < nr_model && !model[mark].entry)
		mark++;
	return mark;
}

static void begin_random(void)
{
	uint64_t length = 1 + random_below(random_below(4) ? 300 : 40000);
	uint64_t offset = random_below(DISK_BYTES - length);
	int ret;

	if (nr_model == MODEL_MAX || overlaps_pending(offset, length))
		return;
	model[nr_model].data = NULL;
	if (random_below(5)) {
		model[nr_model].data = malloc(length);
		memset(model[nr_model].data, 1 + (int)random_below(200), length);
	}
	model[nr_model].change = change_of(offset, length, model[nr_model].data);
	model[nr_model].is_done = false;
	/* With the oldest one under way, it would wait for that. */
	if (first_model < nr_model && model[first_model].entry && nr_model - first_model > 15) {
		free(model[nr_model].data);
		return;
	}
	ret = volume_log_begin(volume_log, &model[nr_model].change, &model[nr_model].entry);
	if (ret == 0) {
		nr_model++;
		return;
	}
	assert_int_equal(ret, -EAGAIN);
	free(model[nr_model].data);
	first_model = model_mark();
	volume_log_drop(volume_log, volume_log_mark(volume_log));
}

static void end_random(void)
{
	size_t which = first_model + random_below(nr_model - first_model + 1);

	if (which == nr_model || !model[which].entry)
		return;
	model[which].is_done = random_below(8) != 0;
	volume_log_end(volume_log, model[which].entry, model[which].is_done);
	model[which].entry = NULL;
}

static void expect_model(void)
{
	static struct disk is, should;

	memset(should.bytes, 0xee, DISK_BYTES);
	for (size_t i = first_model; i < nr_model; i++) {
		const struct volume_change *change = &model[i].change;

		if (!model[i].is_done)
			continue;
		if (model[i].data)
			memcpy(&should.bytes[change->offset], model[i].data, change->length);
		else
			memset(&should.bytes[change->offset], 0, change->length);
	}
	replay(&is);
	assert_memory_equal(is.bytes, should.bytes, DISK_BYTES);
}

static void test_random_changes(void **state)
{
	(void)state;
	for (int round = 0; round < 40; round++) {
		uint64_t mark = 0;
		size_t mark_of_model = 0;
		bool has_mark = false;

		for (int step = 0; step < 1500 && nr_model < MODEL_MAX; step++) {
			switch (random_below(has_mark ? 30 : 20)) {
			case 0:
				mark = volume_log_mark(volume_log);
				mark_of_model = model_mark();
				has_mark = true;
				break;
			case 20:
				volume_log_drop(volume_log, mark);
				if (first_model < mark_of_model)
					first_model = mark_of_model;
				has_mark = false;
				break;
			case 1:
				if (random_below(10) == 0)
					expect_model();
				break;
			default:
				if (random_below(2))
					begin_random();
				else
					end_random();
				break;
			}
		}
		for (size_t i = first_model; i < nr_model; i++)
			if (model[i].entry) {
				volume_log_end(volume_log, model[i].entry, true);
				model[i].entry = NULL;
				model[i].is_done = true;
			}
		expect_model();
		volume_log_drop(volume_log, volume_log_mark(volume_log));
		for (size_t i = 0; i < nr_model; i++)
			free(model[i].data);
		nr_model = first_model = 0;
		expect_model();
	}
}

/* ---- Several threads */

#define NR_THREADS 4
#define NR_CHANGES 3000
#define CELLS	   512U /* of 8 bytes, that the threads write, alone or overlapping */

static struct {
	/* Nobody else orders writes to this medium: two that write a cell at once would be seen. */
	_Atomic uint64_t cells[CELLS];
	_Atomic uint32_t nr_writers[CELLS];
	pthread_rwlock_t gate; /* as a volume's: replays are alone, and so are no drops */
} medium;

static void write_medium(uint64_t first, uint64_t nr, const uint64_t *values)
{
	for (uint64_t i = 0; i < nr; i++)
		assert_int_equal(atomic_fetch_add(&medium.nr_writers[first + i], 1), 0);
	for (uint64_t i = 0; i < nr; i++)
		medium.cells[first + i] = values[i];
	sched_yield();
	for (uint64_t i = 0; i < nr; i++)
		atomic_fetch_sub(&medium.nr_writers[first + i], 1);
}

static void sync_log(void)
{
	uint64_t mark;

	pthread_rwlock_rdlock(&medium.gate);
	mark = volume_log_mark(volume_log);
	sched_yield();
	volume_log_drop(volume_log, mark);
	pthread_rwlock_unlock(&medium.gate);
}

static void *change_cells(void *argument)
{
	uint64_t id = (uint64_t)(uintptr_t)argument, random = id + 77, values[64];
	uint8_t filling[2000] = {0};

	for (uint64_t step = 0; step < NR_CHANGES; step++) {
		uint64_t nr = 1 + next_random(&random, 64);
		uint64_t first = next_random(&random, CELLS - nr);
		bool is_done = next_random(&random, 10) != 0;
		struct volume_change change =
			change_of(first * sizeof(uint64_t), nr * sizeof(uint64_t), values);
		struct log_entry *entry;

		for (uint64_t i = 0; i < nr; i++)
			values[i] = id << 56 | step << 16 | i;
		/* Long ones beside the cells fill it up. */
		if (step % 4 == 0)
			change = change_of(CELLS * 8 + id * 4096, sizeof(filling), filling);
		while (volume_log_begin(volume_log, &change, &entry) == -EAGAIN)
			sync_log();
		pthread_rwlock_rdlock(&medium.gate);
		if (is_done && step % 4 != 0)
			write_medium(first, nr, values);
		volume_log_end(volume_log, entry, is_done);
		pthread_rwlock_unlock(&medium.gate);
		if (next_random(&random, 50) == 0)
			sync_log();
	}
	return NULL;
}

static int compare_cell(void *context, const struct volume_change *change)
{
	const uint64_t *values = change->data;

	(void)context;
	if (change->offset >= CELLS * 8)
		return 0;
	assert_int_equal(change->offset % 8, 0);
	for (uint64_t i = 0; i < change->length / 8; i++)
		assert_int_equal(medium.cells[change->offset / 8 + i], values[i]);
	return 0;
}

static void *replay_again_and_again(void *argument)
{
	const atomic_bool *is_over = argument;

	while (!*is_over) {
		pthread_rwlock_wrlock(&medium.gate);
		assert_int_equal(volume_log_replay(volume_log, compare_cell, NULL), 0);
		pthread_rwlock_unlock(&medium.gate);
		sched_yield();
	}
	return NULL;
}

/* Changes that overlap are never made at once, and replays find what the medium has: the last of
 * them. */
static void test_threads(void **state)
{
	pthread_t threads[NR_THREADS], replayer;
	pthread_rwlockattr_t attributes;
	atomic_bool is_over = false;

	(void)state;
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&medium.gate, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	pthread_create(&replayer, NULL, replay_again_and_again, &is_over);
	for (uintptr_t i = 0; i < NR_THREADS; i++)
		pthread_create(&threads[i], NULL, change_cells, (void *)i);
	for (size_t i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	is_over = true;
	pthread_join(replayer, NULL);
	pthread_rwlock_destroy(&medium.gate);
}

TEST_GROUP(volume_log)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(test_nothing),
		LOG_TEST(test_later_bytes_supersede),
		LOG_TEST(test_only_what_is_done),
		LOG_TEST(test_parts_of_trims_are_zeros),
		LOG_TEST(test_replay_that_fails),
		LOG_TEST(test_drop_keeps_what_had_not_ended),
		LOG_TEST(test_marks_of_two_syncs),
		LOG_TEST(test_full),
		LOG_TEST(test_wraps),
		LOG_TEST(test_full_of_what_was_given_up),
		LOG_TEST(test_random_changes),
		LOG_TEST(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
