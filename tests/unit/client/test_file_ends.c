/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of files that the manager has left to this session. The seams below have things happen at their worst moments: while the bytes and the
 * slot are being written, and while the manager is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/files/file.h"
#include "client/files/io/file_plan.h"
#include "client/files/io/fs_ends.h"
#include "client/files/io/fs_extend.h"
#include "client/namespace/region.h"
#include "rpc/manager_features.h"
#include "unit/client/meanwhile.h"
#include "unit/group.h"

#define INO	 7U
#define LAYOUT	 5U
#define SLOT	 10U /* its unit of the pool */
#define NR_UNITS 64U

static struct afar_session session = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct afar_namespace ns = {.session = &session};
static struct afar_region pool;
static struct afar_fs fs;
static struct file_inode inode;
static struct afar_file appending = {
	.fs = &fs, .inode = &inode, .access = W_OK, .flags = O_WRONLY | O_APPEND};

/* ---- The seams */

static int (*transfer)(const struct target_piece *pieces, unsigned nr);
static unsigned nr_transfers;
static uint64_t slot_end; /* that the slot was given last */
static bool is_in_doubt, is_seamed;

int __real_target_transfer_pieces(struct afar_target *target, uint16_t opcode, uint32_t flags,
				  struct target_piece *pieces, unsigned nr);
int __wrap_target_transfer_pieces(struct afar_target *target, uint16_t opcode, uint32_t flags,
				  struct target_piece *pieces, unsigned nr);
bool __real_target_is_in_doubt(struct afar_target *target);
bool __wrap_target_is_in_doubt(struct afar_target *target);

static void note_slot(const struct target_piece *piece)
{
	uint8_t copy[END_SLOT_COPY_BYTES];

	if (piece->offset / FILE_UNIT != SLOT)
		return;
	assert_int_equal(piece->memory.length, END_SLOT_COPY_BYTES);
	memcpy(copy, piece->memory.addr, sizeof(copy));
	assert_true(end_slot_read(copy, sizeof(copy), INO, inode.layout, &slot_end));
}

int __wrap_target_transfer_pieces(struct afar_target *target, uint16_t opcode, uint32_t flags,
				  struct target_piece *pieces, unsigned nr)
{
	if (!is_seamed)
		return __real_target_transfer_pieces(target, opcode, flags, pieces, nr);
	nr_transfers++;
	for (unsigned i = 0; i < nr; i++)
		note_slot(&pieces[i]);
	return transfer ? transfer(pieces, nr) : 0;
}

bool __wrap_target_is_in_doubt(struct afar_target *target)
{
	return is_seamed ? is_in_doubt : __real_target_is_in_doubt(target);
}

/* The manager. */
static struct {
	unsigned nr_told;
	Afar__FileEnd last;
	bool gives_end;
	bool was_appending; /* when it was told */
} manager;

static Afar__FileAttributes attributes;
static Afar__FileResult result, *results = &result;

static int take_end(const Afar__FileHold *operation, struct fs_answer *out)
{
	assert_int_equal(operation->what_case, AFAR__FILE_HOLD__WHAT_END);
	manager.nr_told++;
	manager.last = *operation->end;
	manager.was_appending = inode.ends.is_appending;
	afar__file_attributes__init(&attributes);
	afar__file_result__init(&result);
	attributes.ino = INO;
	attributes.mode = S_IFREG | 0600;
	attributes.nlink = 1;
	attributes.size = operation->end->end;
	attributes.layout = operation->end->layout + (operation->end->voids_slot ? 1 : 0);
	result.attributes = &attributes;
	result.has_end = operation->end->wants_end && manager.gives_end;
	if (out)
		*out = (struct fs_answer){.results = &results};
	return 0;
}

/* The end is ours for long, and the file has room. */
static int setup(void **state)
{
	static uint64_t runs[] = {0, 20, 4};

	(void)state;
	pool.target.length = NR_UNITS * FILE_UNIT;
	pool.target.session = &session;
	session.features = RPC_FEATURE_ENDS;
	fs = (struct afar_fs){.ns = &ns, .region = &pool};
	writes_init(&fs.writes);
	pthread_mutex_init(&fs.lock, NULL);
	pthread_cond_init(&fs.changed, NULL);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&fs.inodes[i]);
	inode = (struct file_inode){.ino = INO, .fs = &fs, .layout = LAYOUT};
	pthread_mutex_init(&inode.lock, NULL);
	pthread_mutex_init(&inode.appending, NULL);
	pthread_cond_init(&inode.told, NULL);
	pthread_cond_init(&inode.gate_changed, NULL);
	CDS_INIT_LIST_HEAD(&inode.targets);
	assert_int_equal(file_map_add(&inode.map, runs, 3), 0);
	inode.ends = (struct file_ends){.slot = SLOT + 1, .until = CLOCK_NEVER, .may_append = true};
	answer_hold = take_end;
	memset(&manager, 0, sizeof(manager));
	nr_transfers = 0;
	slot_end = 0;
	is_in_doubt = false;
	is_seamed = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	is_seamed = false;
	transfer = NULL;
	answer_hold = NULL;
	file_map_free(&inode.map);
	pthread_cond_destroy(&inode.gate_changed);
	pthread_cond_destroy(&inode.told);
	pthread_mutex_destroy(&inode.appending);
	pthread_mutex_destroy(&inode.lock);
	pthread_cond_destroy(&fs.changed);
	pthread_mutex_destroy(&fs.lock);
	writes_free(&fs.writes);
	return 0;
}

#define ENDS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void append_one(void)
{
	const struct afar_file_vector vector = {.data = (char[]){'x'}, .length = 1};

	assert_int_equal(file_write(&appending, &vector, 1, false), 1);
}

/* ---- Appending */

/* The end goes with the bytes, and the manager hears nothing. */
static void tells_nobody(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 3; i++) {
		append_one();
		assert_int_equal(inode.size, i);
		assert_int_equal(slot_end, i);
	}
	assert_int_equal(nr_transfers, 3);
	assert_int_equal(manager.nr_told, 0);
	assert_int_equal(inode.ends.untold, 3);
}

/* The manager asks for the end while the bytes are on their way. */
static int ask_meanwhile(const struct target_piece *pieces, unsigned nr)
{
	(void)pieces;
	(void)nr;
	ends_stop(&inode.ends);
	return 0;
}

/* Others append behind the bytes. So the end is given up when the manager knows of them, and not before. */
static void tells_before_others_append(void **state)
{
	(void)state;
	transfer = ask_meanwhile;
	append_one();
	assert_int_equal(manager.nr_told, 1);
	assert_int_equal(manager.last.end, 1);
	assert_true(manager.was_appending);
	assert_false(inode.ends.is_appending);
}

static bool begins_append(void)
{
	bool begins;

	pthread_mutex_lock(&inode.lock);
	begins = end_begin_append(&inode);
	inode.ends.is_appending = false;
	pthread_mutex_unlock(&inode.lock);
	return begins;
}

/* The manager knows that we append before we do so unasked: if we go silent, it keeps others from it. */
static void appends_when_the_manager_knows(void **state)
{
	(void)state;
	manager.gives_end = true;
	inode.ends.until = 0;
	assert_int_equal(inode_tell_end(&inode, 10, LAYOUT), 0);
	assert_true(manager.last.asks_to_append);
	assert_true(inode.ends.until != 0);
	assert_false(begins_append());
	inode.ends.until = 0;
	assert_int_equal(inode_tell_end(&inode, 20, LAYOUT), 0);
	assert_false(manager.last.asks_to_append);
	assert_true(begins_append());
}

/* If we and the manager end at once, the slot alone says what it was told. */
static void leaves_in_the_slot_what_was_told(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 2; i++) {
		manager.gives_end = i == 1;
		inode.ends.until = 0;
		assert_int_equal(inode_tell_end(&inode, 100 * i, LAYOUT), 0);
		assert_int_equal(manager.nr_told, i);
		assert_int_equal(inode.size, 100 * i);
		assert_int_equal(slot_end, 100 * i);
	}
}

/* ---- Slots whose writes fail */

static int fail_once(const struct target_piece *pieces, unsigned nr)
{
	(void)pieces;
	(void)nr;
	transfer = NULL;
	return error_fail(-ETIMEDOUT, "the server does not answer");
}

static void fail_slot(uint64_t end)
{
	struct end_claim claim;

	transfer = fail_once;
	assert_true(end_begin_claim(&inode, end, LAYOUT, &claim));
	end_claimed(&inode, &claim, end_write(&inode, &claim));
	assert_int_equal(inode.size, 0);
}

/* It may say an end that the file never had. So it is not written again before the manager knows that. */
static void voids_a_slot_that_failed(void **state)
{
	struct end_claim claim;

	(void)state;
	fail_slot(1000);
	assert_int_equal(end_take_slot(&inode, SLOT + 1), 0);
	assert_false(end_begin_claim(&inode, 10, LAYOUT, &claim));
	/* It is written again under the other layout. */
	assert_int_equal(inode_tell_end(&inode, 10, LAYOUT), -ESTALE);
	assert_int_equal(manager.last.end, 10);
	assert_true(manager.last.voids_slot);
	assert_false(manager.last.wants_end);
	assert_int_equal(inode.layout, LAYOUT + 1);
	assert_int_equal(inode.size, 10);
	assert_int_equal(end_take_slot(&inode, SLOT + 1), 0);
	assert_int_equal(inode_tell_end(&inode, 20, LAYOUT + 1), 0);
	assert_false(manager.last.voids_slot);
	assert_true(manager.last.wants_end);
}

/* A session that gives the end up says so, too. */
static void voids_it_with_the_end(void **state)
{
	(void)state;
	inode.end = inode.ends.untold = 1;
	fail_slot(1000);
	assert_int_equal(inode_know_end(&inode), 0);
	assert_int_equal(manager.last.end, 1);
	assert_true(manager.last.gives_end);
	assert_true(manager.last.voids_slot);
}

/* A write may still land that was given up. */
static void takes_no_slot_in_doubt(void **state)
{
	(void)state;
	inode.ends.slot = 0;
	is_in_doubt = true;
	assert_int_equal(end_take_slot(&inode, SLOT + 1), 0);
	assert_int_equal(inode.ends.slot, 0);
	is_in_doubt = false;
	assert_int_equal(end_take_slot(&inode, SLOT + 1), 0);
	assert_int_equal(inode.ends.slot, SLOT + 1);
}

TEST_GROUP(file_ends)
{
	const struct CMUnitTest tests[] = {
		ENDS_TEST(tells_nobody),
		ENDS_TEST(tells_before_others_append),
		ENDS_TEST(appends_when_the_manager_knows),
		ENDS_TEST(leaves_in_the_slot_what_was_told),
		ENDS_TEST(voids_a_slot_that_failed),
		ENDS_TEST(voids_it_with_the_end),
		ENDS_TEST(takes_no_slot_in_doubt),
	};

	return cmocka_run_group_tests_name("file_ends", tests, NULL, NULL);
}
