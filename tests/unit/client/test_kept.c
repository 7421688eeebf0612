/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session keeps holds of files that its programs have closed. These tests say which of them go, and when. The manager hears of each until it has
 * answered. The manager is this test.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/files/file.h"
#include "client/session.h"
#include "unit/group.h"

#define FIRST	 100U /* inodes */
#define SENT_MAX 16U

static struct afar_session session;
static struct afar_namespace ns;
static struct afar_fs fs;
static bool is_manager; /* else calls go where they went */

/* The handles to close of each message. */
static struct sent {
	uint64_t handles[256];
	size_t nr;
	rpc_done *done;
	void *argument;
} sent[SENT_MAX];
static unsigned nr_sent, nr_answered;

int __real_rpc_send(struct rpc_connection *connection, const struct rpc_envelope *envelope,
		    Afar__Request *request, rpc_done *done, void *argument);
int __wrap_rpc_send(struct rpc_connection *connection, const struct rpc_envelope *envelope,
		    Afar__Request *request, rpc_done *done, void *argument);

int __wrap_rpc_send(struct rpc_connection *connection, const struct rpc_envelope *envelope,
		    Afar__Request *request, rpc_done *done, void *argument)
{
	const Afar__FilesHold *ask = request->files_hold;
	struct sent *message = &sent[nr_sent];

	if (!is_manager)
		return __real_rpc_send(connection, envelope, request, done, argument);
	assert_int_equal(request->call_case, AFAR__REQUEST__CALL_FILES_HOLD);
	assert_int_equal(ask->fs, ns.number);
	assert_true(nr_sent++ < SENT_MAX);
	*message = (struct sent){.nr = ask->n_operations, .done = done, .argument = argument};
	for (size_t i = 0; i < ask->n_operations; i++) {
		assert_int_equal(ask->operations[i]->what_case, AFAR__FILE_HOLD__WHAT_CLOSE);
		message->handles[i] = ask->operations[i]->close->handle;
	}
	return 0;
}

/* Answers the next message: it is done, or its connection has ended. */
static void answer_next(int status)
{
	const struct sent *message = &sent[nr_answered++];
	Afar__FileResults results = AFAR__FILE_RESULTS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Frame frame = AFAR__FRAME__INIT;

	assert_true(nr_answered <= nr_sent);
	reply.result_case = AFAR__REPLY__RESULT_FILE_RESULTS;
	reply.file_results = &results;
	frame.reply = &reply;
	message->done(message->argument, status ? NULL : &frame, status);
}

static void expect_sent(uint64_t first, size_t nr)
{
	const struct sent *last = &sent[nr_sent - 1];

	assert_int_not_equal(nr_sent, 0);
	assert_int_equal(last->nr, nr);
	for (uint64_t handle = first; handle < first + nr; handle++) {
		bool is_there = false;

		for (size_t i = 0; i < nr; i++)
			is_there |= last->handles[i] == handle;
		assert_true(is_there);
	}
}

static int setup(void **state)
{
	(void)state;
	session = (struct afar_session){.state = SESSION_UP, .timeout_ms = 1000};
	ns = (struct afar_namespace){.number = 3, .session = &session};
	fs = (struct afar_fs){.ns = &ns};
	pthread_mutex_init(&session.lock, NULL);
	CDS_INIT_LIST_HEAD(&session.file_systems);
	pthread_mutex_init(&fs.lock, NULL);
	pthread_cond_init(&fs.changed, NULL);
	CDS_INIT_LIST_HEAD(&fs.holds);
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&fs.inodes[i]);
	writes_init(&fs.writes);
	attr_cache_init(&fs.attr_cache);
	kept_init(&fs.kept);
	cds_list_add(&fs.node, &session.file_systems);
	nr_sent = nr_answered = 0;
	is_manager = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kept_drop(&fs, 0);
	while (nr_answered < nr_sent)
		answer_next(0);
	fs_await_recalls(&fs);
	assert_true(cds_list_empty(&fs.holds));
	for (unsigned i = 0; i < FS_BUCKETS; i++)
		assert_true(cds_list_empty(&fs.inodes[i]));
	kept_free(&fs.kept);
	attr_cache_free(&fs.attr_cache);
	writes_free(&fs.writes);
	pthread_cond_destroy(&fs.changed);
	pthread_mutex_destroy(&fs.lock);
	pthread_mutex_destroy(&session.lock);
	is_manager = false;
	return 0;
}

#define KEPT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* A file that is open. Its handle is the inode's number, as long as it is the only one. */
static struct fs_hold *open_one(uint64_t ino, uint64_t handle, uint32_t access)
{
	struct file_inode *inode = inode_get(&fs, ino);
	struct fs_hold *hold = inode ? fs_hold_new(inode, handle, access) : NULL;

	assert_non_null(hold);
	return hold;
}

static void end_one(struct fs_hold *hold)
{
	struct file_inode *inode = hold->inode;

	fs_hold_end(&fs, hold);
	inode_put(inode);
}

static void keep(uint64_t ino)
{
	assert_true(kept_add(open_one(ino, ino, R_OK)));
}

static unsigned nr_kept(void)
{
	return atomic_load(&fs.kept.nr);
}

static unsigned nr_epochs; /* that somebody has waited for */

void __real_epoch_wait(void);
void __wrap_epoch_wait(void);

void __wrap_epoch_wait(void)
{
	nr_epochs++;
	__real_epoch_wait();
}

/* ---- Who gets it, and who has it let go */

static void test_opened_again(void **state)
{
	struct fs_hold *hold;

	(void)state;
	keep(FIRST);
	/* Opened for something else, it is another hold. */
	assert_null(kept_take(&fs, FIRST, R_OK | FS_KEEPS_PAGES));
	assert_null(kept_take(&fs, FIRST + 1, R_OK));
	hold = kept_take(&fs, FIRST, R_OK);
	assert_non_null(hold);
	assert_int_equal(hold->handle, FIRST);
	assert_null(kept_take(&fs, FIRST, R_OK));
	/* A file that is open does not lose it. */
	kept_drop(&fs, FIRST);
	assert_true(kept_add(hold));
	assert_int_equal(nr_sent, 0);
}

static void test_one_inode(void **state)
{
	(void)state;
	keep(FIRST);
	keep(FIRST + 1);
	assert_true(kept_add(open_one(FIRST, FIRST + 2, R_OK)));
	kept_drop(&fs, FIRST + FS_BUCKETS);
	assert_int_equal(nr_sent, 0);
	kept_drop(&fs, FIRST + 1);
	expect_sent(FIRST + 1, 1);
	kept_drop(&fs, FIRST);
	assert_int_equal(sent[1].nr, 2);
	assert_int_equal(nr_kept(), 0);
}

/* A lock goes with its handle. A writer who closes is the last one, so that room goes back. */
static void test_not_beside_writers_and_locks(void **state)
{
	struct fs_hold *writer = open_one(FIRST, 1, W_OK), *reader = open_one(FIRST, 2, R_OK);
	struct fs_lock lock = {.handle = 2};

	(void)state;
	assert_false(kept_add(reader));
	end_one(writer);
	cds_list_add(&lock.node, &reader->inode->locks);
	assert_false(kept_add(reader));
	cds_list_del(&lock.node);
	assert_true(kept_add(reader));
}

/* The manager hears that before it has the answer, so what it waits to change is open here no more. */
static void test_revoked(void **state)
{
	Afar__FileRevoke ask = AFAR__FILE_REVOKE__INIT;

	(void)state;
	keep(FIRST);
	keep(FIRST + 1);
	ask.fs = ns.number;
	attr_cache_revoke(&session, &ask, NULL);
	assert_int_equal(nr_sent, 0);
	ask.ino = FIRST;
	attr_cache_revoke(&session, &ask, NULL);
	expect_sent(FIRST, 1);
	assert_int_equal(nr_kept(), 1);
}

static void test_several_are_revoked(void **state)
{
	uint64_t inos[] = {FIRST + 1, FIRST + 2};
	Afar__FileRevoke ask = AFAR__FILE_REVOKE__INIT;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		keep(FIRST + i);
	ask.fs = ns.number;
	ask.inos = inos;
	ask.n_inos = 2;
	attr_cache_revoke(&session, &ask, NULL);
	assert_int_equal(nr_sent, 1);
	expect_sent(FIRST + 1, 2);
	assert_int_equal(nr_kept(), 1);
}

static void test_too_many(void **state)
{
	(void)state;
	fs.kept.max = 16;
	for (unsigned i = 0; i < 16; i++)
		keep(FIRST + i);
	/* It is the newest again. */
	assert_true(kept_add(kept_take(&fs, FIRST, R_OK)));
	assert_int_equal(nr_sent, 0);
	keep(FIRST + 16);
	assert_int_equal(nr_sent, 1);
	expect_sent(FIRST + 1, 5);
	assert_int_equal(nr_kept(), 12);
}

/* ---- The manager hears of it */

static void resume(void)
{
	pthread_mutex_lock(&session.lock);
	fs.nr_reclaims++;
	kept_resumed(&fs);
	pthread_mutex_unlock(&session.lock);
}

/* It has not heard of it when the connection is lost, or nobody knows. */
static void test_told_again(void **state)
{
	(void)state;
	keep(FIRST);
	keep(FIRST + 1);
	kept_drop(&fs, FIRST);
	session.state = SESSION_DOWN;
	kept_drop(&fs, FIRST + 1);
	answer_next(-ECONNRESET);
	assert_int_equal(nr_sent, 1);
	session.state = SESSION_UP;
	resume();
	assert_int_equal(nr_sent, 2);
	expect_sent(FIRST, 2);
}

/* The session has resumed before the loss is heard of here. */
static void test_told_again_at_once(void **state)
{
	(void)state;
	keep(FIRST);
	kept_drop(&fs, FIRST);
	resume();
	assert_int_equal(nr_sent, 1);
	answer_next(-ECONNRESET);
	assert_int_equal(nr_sent, 2);
	expect_sent(FIRST, 1);
	answer_next(0);
	resume();
	assert_int_equal(nr_sent, 2);
}

/* Nothing is claimed that is kept: another manager does not know of it. */
static void test_resumed(void **state)
{
	struct fs_hold *used = open_one(FIRST + 300, FIRST + 300, R_OK);

	(void)state;
	for (unsigned i = 0; i < 300; i++)
		keep(FIRST + i);
	resume();
	assert_int_equal(nr_sent, 2);
	assert_int_equal(sent[0].nr + sent[1].nr, 300);
	assert_int_equal(nr_kept(), 0);
	assert_ptr_equal(fs.holds.next, &used->node);
	assert_ptr_equal(fs.holds.prev, &used->node);
	end_one(used);
}

/* Many inodes are freed while the session's lock is held. They wait together until nobody goes by their views. */
static void test_freed_together(void **state)
{
	uint64_t runs[] = {0, 1, 1};

	(void)state;
	for (uint64_t ino = FIRST; ino < FIRST + 4; ino++) {
		struct fs_hold *hold = open_one(ino, ino, R_OK);

		assert_int_equal(file_map_add(&hold->inode->map, runs, 3), 0);
		inode_show(hold->inode);
		assert_non_null(hold->inode->view);
		assert_true(kept_add(hold));
	}
	nr_epochs = 0;
	kept_resumed(&fs);
	assert_int_equal(nr_epochs, 1);
	assert_int_equal(nr_kept(), 0);
}

TEST_GROUP(kept)
{
	const struct CMUnitTest tests[] = {
		KEPT_TEST(test_opened_again),
		KEPT_TEST(test_one_inode),
		KEPT_TEST(test_revoked),
		KEPT_TEST(test_several_are_revoked),
		KEPT_TEST(test_not_beside_writers_and_locks),
		KEPT_TEST(test_too_many),
		KEPT_TEST(test_told_again),
		KEPT_TEST(test_told_again_at_once),
		KEPT_TEST(test_resumed),
		KEPT_TEST(test_freed_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
