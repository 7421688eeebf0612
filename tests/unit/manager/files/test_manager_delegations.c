/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager delegates inodes to sessions: before another session changes one, all that have it delegated
 * have dropped it, or have run out. The random test has two sessions that believe what they were told
 * until they are asked to drop it. It compares what they believe with what is so after every step.
 */
#include "lib/manager/manager_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manager/files/delegates.h"
#include "rpc/delegation.h"
#include "unit/group.h"

#define NR_NAMES 5U
#define NR_DIRS	 3U
#define NR_STEPS 20000U

static uint64_t last_number; /* of the delegation, in the last answer */
static bool is_delegated;    /* what the last answer told */
static uint64_t last_ino;

static bool takes_many; /* sessions that ask take questions about several inodes */

/* Asks a question that takes delegations. Returns its result's status. */
static int look_telling(struct fake_client *who, Afar__Request *request, uint64_t dropped)
{
	Afar__Reply *reply;
	const Afar__FileResult *result;
	int status;

	request->files_look->wants_delegation = true;
	request->files_look->dropped = dropped;
	request->files_look->takes_many = takes_many;
	reply = fixture_ask(&fixture, who, request);
	if (reply->status != 0) {
		status = reply->status;
		drop(reply);
		return status;
	}
	result = reply->file_results->results[0];
	last_number = reply->file_results->delegation;
	is_delegated = result->is_delegated;
	last_ino = result->attributes ? result->attributes->ino : 0;
	status = result->status;
	drop(reply);
	return status;
}

static int look(struct fake_client *who, Afar__Request *request)
{
	return look_telling(who, request, 0);
}

static void expect_delegated(struct fake_client *who, Afar__Request *request)
{
	int status = look(who, request);

	assert_true(status == 0 || status == -ENOENT);
	assert_true(is_delegated);
	assert_int_not_equal(last_number, 0);
}

/* ---- One by one */

static uint64_t file;	     /* "f", which there is when each test begins */
static Afar__Reply *changed; /* the answer to the last send_size() */

static int delegations_begin(void **state)
{
	files_begin(state);
	file = must_make(ROOT, "f", S_IFREG | 0644);
	takes_many = false;
	return 0;
}

#define DELEGATIONS_TEST(name) cmocka_unit_test_setup_teardown(name, delegations_begin, files_end)

/* The client changes the file. Its answer may have to wait. */
static void send_size(uint64_t bytes)
{
	file_send(&client, ask_size(file, bytes), &changed);
}

static void expect_changed_when_it_has_run_out(void)
{
	fixture_advance(&fixture, DELEGATION_KEPT_MS - 1);
	assert_null(changed);
	fixture_advance(&fixture, 1);
	expect_answer(changed, 0, NULL);
}

static void test_dropped_before_a_change(void **state)
{
	(void)state;
	expect_delegated(&other, ask_lookup(ROOT, "f"));
	expect_delegated(&other, ask_lookup(ROOT, "g"));
	FILE_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 1); /* f, and not its directory */
	/* An inode that was just taken back is not delegated at once. */
	assert_int_equal(look(&other, ask_stat(file)), 0);
	assert_false(is_delegated);
	must_make(ROOT, "g", S_IFREG | 0644);
	assert_int_equal(fixture.nr_revokes, 2);
	/* It has nothing any more. */
	must_make(ROOT, "h", S_IFREG | 0644);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fixture.nr_revokes, 2);
	/* Nobody has to drop what is its own. */
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	expect_delegated(&client, ask_lookup(ROOT, "g"));
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	assert_int_equal(fixture.nr_revokes, 2);
}

/* Both directories, what moves and what is replaced. */
static void test_all_that_a_rename_changes(void **state)
{
	uint64_t from = must_make(ROOT, "from", S_IFDIR | 0755);
	uint64_t to = must_make(ROOT, "to", S_IFDIR | 0755);
	uint64_t moved = must_make(from, "a", S_IFREG | 0644);
	uint64_t replaced = must_make(to, "b", S_IFREG | 0644);

	(void)state;
	expect_delegated(&other, ask_stat(from));
	expect_delegated(&other, ask_stat(to));
	expect_delegated(&other, ask_stat(moved));
	expect_delegated(&other, ask_stat(replaced));
	FILE_DO(ask_rename(from, "a", to, "b", 0), 0);
	assert_int_equal(fixture.nr_revokes, 4);
}

static void test_a_link_and_its_file(void **state)
{
	(void)state;
	expect_delegated(&other, ask_stat(file));
	expect_delegated(&other, ask_stat(ROOT));
	FILE_DO(ask_link(file, ROOT, "g"), 0);
	assert_int_equal(fixture.nr_revokes, 2);
}

/* A session that writes tells of it without asking. */
static void test_opening_to_write(void **state)
{
	(void)state;
	expect_delegated(&other, ask_stat(file));
	FILE_DO(ask_file_open(file, 1), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	/* While it is open there, nobody else may answer from memory. */
	fixture_advance(&fixture, 2 * DELEGATION_KEPT_MS);
	assert_int_equal(look(&other, ask_stat(file)), 0);
	assert_false(is_delegated);
	expect_delegated(&client, ask_stat(file));
	FILE_DO(ask_file_close(1), 0);
	expect_delegated(&other, ask_stat(file));
}

/* The change waits until it has run out, and then goes on. */
static void test_one_that_does_not_answer(void **state)
{
	uint64_t number;

	(void)state;
	expect_delegated(&other, ask_stat(file));
	number = last_number;
	fixture.are_clients_silent = true;
	send_size(10);
	/* Its answer, when it comes, is about all that it was told before. */
	assert_int_equal(look(&other, ask_stat(file)), 0);
	assert_false(is_delegated);
	fixture_advance(&fixture, DELEGATION_KEPT_MS / 2);
	assert_null(changed);
	/* A session that owes an answer is not renewed by asking for more. */
	assert_int_equal(look(&other, ask_stat(ROOT)), 0);
	assert_int_equal(last_number, 0);
	fixture_advance(&fixture, DELEGATION_KEPT_MS / 2);
	expect_answer(changed, 0, NULL);
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	/* It hears that it has nothing any more. */
	expect_delegated(&other, ask_stat(file));
	assert_true(last_number > number);
}

/* Its connection is lost: it may go on with what it has until that has run out. */
static void test_one_that_is_away(void **state)
{
	(void)state;
	expect_delegated(&other, ask_stat(file));
	client_lose(&fixture, &other);
	send_size(10);
	expect_changed_when_it_has_run_out();
}

/* It is back, and is asked then. */
static void test_one_that_comes_back(void **state)
{
	(void)state;
	expect_delegated(&other, ask_stat(file));
	client_lose(&fixture, &other);
	send_size(10);
	fixture_advance(&fixture, 1);
	assert_null(changed);
	assert_int_equal(client_resume(&fixture, &other), 0);
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_revokes, 1);
	expect_answer(changed, 0, NULL);
}

/* It was asked, and did not get to answering. */
static void test_one_that_is_asked_again(void **state)
{
	(void)state;
	expect_delegated(&other, ask_stat(file));
	fixture.are_clients_silent = true;
	send_size(10);
	client_lose(&fixture, &other);
	fixture.are_clients_silent = false;
	assert_int_equal(client_resume(&fixture, &other), 0);
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_revokes, 1);
	expect_answer(changed, 0, NULL);
}

/* Its answer over the connection of before comes when it has the inode again: that is about the time before. */
static void test_one_that_answers_late(void **state)
{
	(void)state;
	expect_delegated(&other, ask_stat(file));
	fixture.silent_peer = other.peer;
	send_size(10);
	assert_null(changed);
	assert_int_equal(client_resume(&fixture, &other), 0);
	fixture_pump(&fixture);
	expect_answer(changed, 0, NULL);
	fixture_advance(&fixture, DELEGATION_KEPT_MS / 2);
	expect_delegated(&other, ask_stat(file));
	fixture.silent_peer = other.peer;
	send_size(20);
	assert_int_equal(fixture.nr_revokes, 2); /* the late answer was one */
	assert_null(changed);
	fixture.silent_peer = NULL;
	fixture_pump(&fixture);
	expect_answer(changed, 0, NULL);
}

/* Opens a session of a principal that may write, with the pool. */
static void open_as(struct fake_client *who, const char *name)
{
	EXPECT(&client, ask_user_key(name, 0, 0), 0);
	assert_int_equal(client_open_as(&fixture, who, name), 0);
	EXPECT(&client, ask_grant(fs_number, name, RIGHT_READ | RIGHT_WRITE), 0);
	open_pool(who);
}

/* Its session is ended, which it may not have heard of. */
static void test_one_that_is_ended(void **state)
{
	struct fake_client alice = {0};

	(void)state;
	open_as(&alice, "alice");
	expect_delegated(&alice, ask_stat(file));
	EXPECT(&client, ask_key_revoke("alice"), 0);
	fixture_pump(&fixture);
	send_size(10);
	expect_changed_when_it_has_run_out();
}

/* A manager that has just started waits, too, because it does not know what the one before has
 * delegated. */
static void test_one_that_is_ended_after_a_restart(void **state)
{
	struct fake_client alice = {0};
	Afar__Reply *opened = NULL;

	(void)state;
	open_as(&alice, "alice");
	expect_delegated(&alice, ask_stat(file));
	restart();
	reclaim_nothing();
	EXPECT(&client, ask_key_revoke("alice"), 0);
	fixture_pump(&fixture);
	send_size(10);
	file_send(&other, ask_file_open(file, 1), &opened);
	fixture_advance(&fixture, DELEGATION_KEPT_MS - 1);
	assert_true(!changed && !opened);
	fixture_advance(&fixture, 1);
	expect_answer(changed, 0, NULL);
	expect_answer(opened, 0, NULL);
}

/* The manager does not forget what is delegated, however many others are used. */
static void test_more_inodes_than_are_kept(void **state)
{
	char name[16];

	(void)state;
	fs_of()->max_cached = 8;
	expect_delegated(&other, ask_stat(file));
	for (unsigned i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "%u", i);
		must_make(ROOT, name, S_IFREG | 0644);
	}
	assert_true(fs_of()->nr_files <= 8 + 2);
	/* Used again, it stays where it is. */
	assert_int_equal(look(&other, ask_stat(file)), 0);
	FILE_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 1);
}

/* The manager of before may have delegated anything to a session that never says a word. */
static void test_silent_ones_after_a_restart(void **state)
{
	Afar__Reply *asked = NULL;
	Afar__Request *request = ask_stat(file);

	(void)state;
	expect_delegated(&other, ask_stat(file));
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &client), 0);
	FILE_DO(ask_reclaim(0, 0, 0), 0);
	send_size(10);
	assert_null(changed);
	/* The manager answers a question whose time is over before all have claimed, and delegates nothing with that. */
	request->files_look->wants_delegation = true;
	fixture.time_ns = 1000000000;
	file_send(&client, request, &asked);
	fixture.time_ns = 0;
	fixture_advance(&fixture, 800);
	assert_non_null(asked);
	assert_false(asked->file_results->results[0]->is_delegated);
	expect_answer(asked, 0, NULL);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	expect_answer(changed, 0, NULL);
}

/* A session that says that it has dropped all begins anew. */
static void test_dropping_all(void **state)
{
	uint64_t number;

	(void)state;
	expect_delegated(&other, ask_stat(file));
	number = last_number;
	assert_int_equal(look_telling(&other, ask_stat(ROOT), number), 0);
	assert_true(last_number > number);
	assert_true(is_delegated);
	FILE_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 0);
	/* Saying it late does nothing. */
	assert_int_equal(look_telling(&other, ask_stat(file), number), 0);
	FILE_DO(ask_size(file, 20), 0);
	assert_int_equal(fixture.nr_revokes, 1);
}

/* It has closed the file system. */
static void test_leaving(void **state)
{
	Afar__RegionInfo *info;
	Afar__Reply *reply;

	(void)state;
	expect_delegated(&other, ask_stat(file));
	info = must_open(&other, ask_volume_open(fs_number, VOLUME_SHARED), &reply);
	EXPECT(&other, ask_close(info), 0); /* this time, */
	EXPECT(&other, ask_close(info), 0); /* and that of before */
	drop(reply);
	FILE_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 0);
	/* A session that does not have it open is told, and may not keep it. */
	assert_int_equal(look(&other, ask_stat(file)), 0);
	assert_false(is_delegated);
	assert_int_equal(last_number, 0);
	open_pool(&other);
}

/* A commit that fails changes nothing of what others were told. */
static void test_failed_changes(void **state)
{
	(void)state;
	expect_delegated(&client, ask_stat(file));
	expect_delegated(&client, ask_lookup(ROOT, "f"));
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	EXPECT(&client, ask_remove(ROOT, "f", false), -ENOSPC);
	fixture.store.fail_at = 0;
	/* It is still its own, and is asked for. */
	OTHER_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 1);
}

/* However many sessions there are. */
static void test_many_sessions(void **state)
{
	static struct fake_client many[70];

	(void)state;
	memset(many, 0, sizeof(many));
	for (size_t i = 0; i < 70; i++) {
		assert_int_equal(client_open(&fixture, &many[i]), 0);
		open_pool(&many[i]);
		expect_delegated(&many[i], ask_stat(file));
	}
	FILE_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 70);
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	/* Some have it again, and some of these end. */
	for (size_t i = 0; i < 70; i += 2)
		expect_delegated(&many[i], ask_stat(file));
	for (size_t i = 0; i < 70; i += 7)
		client_lose(&fixture, &many[i]);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	for (size_t i = 2; i < 70; i += 4)
		if (many[i].peer)
			assert_int_equal(look(&many[i], ask_stat(file)), 0);
	fixture.nr_revokes = 0;
	FILE_DO(ask_size(file, 20), 0);
	assert_int_equal(fixture.nr_revokes, 15); /* 2, 6, 10, … 66, but 14 and 42 */
	for (size_t i = 0; i < 70; i++)
		if (many[i].peer)
			client_lose(&fixture, &many[i]);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	assert_int_equal(fs_of()->nr_shared, 0);
	assert_null(fs_of()->delegates_by_session);
}

/* ---- In batches */

#define NR_FILES 20U

/* Others know all of a directory, and the client removes its files together. */
static void remove_together(void)
{
	Afar__Request *request = NULL;
	char name[8];

	for (unsigned i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "%u", i);
		expect_delegated(&other, ask_stat(must_make(ROOT, name, S_IFREG | 0644)));
		if (request)
			add_operations(request, ask_remove(ROOT, name, false));
		else
			request = ask_remove(ROOT, name, false);
	}
	expect_delegated(&other, ask_stat(ROOT));
	fixture.nr_revokes = fixture.nr_revoke_calls = 0;
	drop(must(&client, request));
	assert_int_equal(fixture.nr_revokes, NR_FILES + 1);
}

static void test_a_message_for_a_batch(void **state)
{
	(void)state;
	takes_many = true;
	remove_together();
	assert_int_equal(fixture.nr_revoke_calls, 1);
	/* It has dropped all of them. */
	fixture_advance(&fixture, DELEGATION_KEPT_MS / 4);
	assert_int_equal(look(&other, ask_stat(file)), 0);
	assert_int_equal(fs_of()->nr_shared, 1);
}

/* One of before knows messages with one inode. */
static void test_a_message_for_each(void **state)
{
	(void)state;
	remove_together();
	assert_int_equal(fixture.nr_revoke_calls, NR_FILES + 1);
}

/* Its connection is lost before it has answered. It is asked about all of them over the next one. */
static void test_a_batch_is_asked_again(void **state)
{
	uint64_t second = must_make(ROOT, "g", S_IFREG | 0644);
	Afar__Request *request = ask_size(file, 10);

	(void)state;
	takes_many = true;
	expect_delegated(&other, ask_stat(file));
	expect_delegated(&other, ask_stat(second));
	add_operations(request, ask_size(second, 10));
	fixture.are_clients_silent = true;
	file_send(&client, request, &changed);
	client_lose(&fixture, &other);
	fixture.are_clients_silent = false;
	assert_int_equal(client_resume(&fixture, &other), 0);
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_revokes, 2);
	assert_int_equal(fixture.nr_revoke_calls, 1);
	expect_answer(changed, 0, NULL);
}

#define NR_REMOVED 100U

static void remove_number(unsigned i)
{
	char name[8];

	snprintf(name, sizeof(name), "%u", i);
	FILE_DO(ask_remove(ROOT, name, false), 0);
}

/* Its files are removed one by one. */
static void test_few_messages_for_a_directory(void **state)
{
	char name[8];

	(void)state;
	takes_many = true;
	for (unsigned i = 0; i < NR_REMOVED; i++) {
		snprintf(name, sizeof(name), "%u", i);
		must_make(ROOT, name, S_IFREG | 0644);
	}
	for (unsigned i = 0; i < NR_REMOVED; i++) {
		snprintf(name, sizeof(name), "%u", i);
		expect_delegated(&other, ask_lookup(ROOT, name));
	}
	/* One of them, and later another one, say nothing of the others. */
	fixture.nr_revokes = 0;
	remove_number(0);
	assert_int_equal(fixture.nr_revokes, 2);
	fixture_advance(&fixture, 11);
	remove_number(1);
	assert_int_equal(fixture.nr_revokes, 3);
	fixture.nr_revoke_calls = 0;
	for (unsigned i = 2; i < NR_REMOVED; i++)
		remove_number(i);
	assert_int_equal(fixture.nr_revokes, NR_REMOVED + 1);
	assert_int_equal(fixture.nr_revoke_calls, 6); /* 2, 4, 8, 16, 32 and the rest */
}

/* ---- How much is looked at */

/* A tree that is watched, and how often it was walked through. */
static const void *watched;
static unsigned nr_walks;

void __real_tree_walk(const void *root, bool (*visit)(void *argument, void *row), void *argument);
void __wrap_tree_walk(const void *root, bool (*visit)(void *argument, void *row), void *argument);

void __wrap_tree_walk(const void *root, bool (*visit)(void *argument, void *row), void *argument)
{
	if (root && root == watched)
		nr_walks++;
	__real_tree_walk(root, visit, argument);
}

/* A session that ends, or drops all, has nobody look at what it does not have. */
static void test_ends_look_at_no_others(void **state)
{
	Afar__RegionInfo *info;
	Afar__Reply *reply;

	(void)state;
	info = must_open(&other, ask_volume_open(fs_number, VOLUME_SHARED), &reply);
	expect_delegated(&client, ask_stat(file));
	expect_delegated(&other, ask_stat(file));
	watched = fs_of()->files_by_ino;
	nr_walks = 0;
	assert_int_equal(look_telling(&other, ask_stat(file), last_number), 0);
	assert_int_equal(fs_of()->nr_shared, 2);
	EXPECT(&other, ask_close(info), 0); /* this time, */
	EXPECT(&other, ask_close(info), 0); /* and that of before */
	assert_int_equal(fs_of()->nr_shared, 1);
	assert_int_equal(nr_walks, 0);
	watched = NULL;
	drop(reply);
	open_pool(&other);
}

static unsigned nr_looked; /* at sessions: whether what they have has run out */

bool __real_delegate_has_run_out(const struct fs *fs, const struct delegate *delegate);
bool __wrap_delegate_has_run_out(const struct fs *fs, const struct delegate *delegate);

bool __wrap_delegate_has_run_out(const struct fs *fs, const struct delegate *delegate)
{
	nr_looked++;
	return __real_delegate_has_run_out(fs, delegate);
}

/* Each of many sessions has an answer of its own, and two wait for them. */
static void test_answers_look_at_no_others(void **state)
{
	static struct fake_client many[70];
	Afar__Reply *too = NULL;

	(void)state;
	memset(many, 0, sizeof(many));
	for (size_t i = 0; i < 70; i++) {
		assert_int_equal(client_open(&fixture, &many[i]), 0);
		open_pool(&many[i]);
		expect_delegated(&many[i], ask_stat(file));
	}
	expect_delegated(&client, ask_stat(file));
	expect_delegated(&other, ask_stat(file));
	fixture.are_clients_silent = true;
	file_send(&client, ask_size(file, 10), &changed);
	file_send(&other, ask_size(file, 20), &too);
	nr_looked = 0;
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_revokes, 72);
	assert_in_range(nr_looked, 72, 72 * 10);
	expect_answer(changed, 0, NULL);
	expect_answer(too, 0, NULL);
	for (size_t i = 0; i < 70; i++)
		client_lose(&fixture, &many[i]);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
}

/* A session that has asked lately keeps what it has. */
static void test_more_than_is_delegated_at_a_time(void **state)
{
	uint64_t number;

	(void)state;
	fs_of()->max_shared = 2;
	expect_delegated(&other, ask_stat(file));
	expect_delegated(&other, ask_stat(ROOT));
	number = last_number;
	assert_int_equal(look(&client, ask_stat(file)), 0);
	assert_false(is_delegated);
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	/* It keeps the other one by that. */
	expect_delegated(&other, ask_stat(file));
	assert_int_equal(look(&client, ask_stat(file)), 0);
	assert_false(is_delegated);
	fixture_advance(&fixture, DELEGATION_KEPT_MS);
	expect_delegated(&client, ask_stat(file));
	assert_int_equal(fs_of()->nr_shared, 1);
	expect_delegated(&other, ask_stat(file));
	assert_true(last_number > number);
	FILE_DO(ask_size(file, 10), 0);
	assert_int_equal(fixture.nr_revokes, 1);
}

/* ---- At random */

/* A session's beliefs about an inode, and about names. */
struct believed_inode {
	bool is_known;
	uint64_t ino, change, size, nlink, mode;
};

struct believed_name {
	bool is_known;
	uint64_t dir, ino; /* 0: it is not there */
	char name[2];
};

#define NR_BELIEVED 64U

static struct believer {
	struct fake_client *client;
	struct believed_inode inodes[NR_BELIEVED];
	struct believed_name names[NR_BELIEVED];
	unsigned next_inode, next_name;
	uint64_t number, renewed_at;
	uint64_t handle, opened; /* an open file; 0: none */
} believers[2];
static unsigned nr_checked;

static void forget_inode(struct believer *believer, uint64_t ino)
{
	for (size_t i = 0; i < NR_BELIEVED; i++) {
		if (believer->inodes[i].ino == ino)
			believer->inodes[i].is_known = false;
		if (believer->names[i].dir == ino)
			believer->names[i].is_known = false;
	}
}

static void note_revoke(uint64_t session, uint64_t ino)
{
	for (size_t i = 0; i < 2; i++)
		if (believers[i].client->session == session)
			forget_inode(&believers[i], ino);
}

static void believe_inode(struct believer *believer, const Afar__FileAttributes *attributes)
{
	struct believed_inode *inode = NULL;

	for (size_t i = 0; i < NR_BELIEVED; i++)
		if (believer->inodes[i].is_known && believer->inodes[i].ino == attributes->ino)
			inode = &believer->inodes[i];
	if (!inode)
		inode = &believer->inodes[believer->next_inode++ % NR_BELIEVED];
	*inode = (struct believed_inode){true,
					 attributes->ino,
					 attributes->change,
					 attributes->size,
					 attributes->nlink,
					 attributes->mode};
}

static void believe_name(struct believer *believer, uint64_t dir, const char *name, uint64_t ino)
{
	struct believed_name *believed = &believer->names[believer->next_name++ % NR_BELIEVED];

	*believed = (struct believed_name){true, dir, ino, {name[0], 0}};
}

static void check_inode(const struct believed_inode *inode)
{
	struct file *is;
	uint64_t size;

	if (!inode->is_known)
		return;
	assert_int_equal(file_get(fs_of(), inode->ino, &is), 0);
	size = inode_is_directory(is->inode) ? FILE_UNIT : is->inode->size;
	assert_int_equal(inode->change, is->inode->change);
	assert_int_equal(inode->size, size);
	assert_int_equal(inode->nlink, is->inode->nlink);
	assert_int_equal(inode->mode, is->inode->mode);
	nr_checked++;
}

static void check_name_believed(const struct believed_name *name)
{
	uint64_t ino = 0;
	uint32_t type;
	int ret;

	if (!name->is_known)
		return;
	ret = record_get_name(fs_of(), name->dir, name->name, &ino, &type);
	assert_true(ret == 0 || ret == -ENOENT);
	assert_int_equal(ret == 0 ? ino : 0, name->ino);
	nr_checked++;
}

static bool has_run_out(const struct believer *believer)
{
	return fixture.now - believer->renewed_at >= (uint64_t)DELEGATION_USED_MS * 1000000U;
}

static void check_beliefs(void)
{
	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < NR_BELIEVED && !has_run_out(&believers[i]); j++) {
			check_inode(&believers[i].inodes[j]);
			check_name_believed(&believers[i].names[j]);
		}
}

static uint64_t dirs[NR_DIRS];

static uint64_t any_dir(void)
{
	return dirs[random_below(NR_DIRS)];
}

/* The session does not believe meanwhile in what it is about to change by itself; then it is told
 * anew. */
static void change(struct believer *believer, Afar__Request *request)
{
	Afar__Reply *reply;

	for (size_t i = 0; i < NR_BELIEVED; i++)
		believer->inodes[i].is_known = believer->names[i].is_known = false;
	reply = fixture_ask(&fixture, believer->client, request);
	if (reply->status == 0) {
		const Afar__FileResult *result = reply->file_results->results[0];

		if (result->status == 0 && result->is_delegated)
			believe_inode(believer, result->attributes);
	}
	drop(reply);
}

static void open_or_close(struct believer *believer)
{
	static uint64_t next_handle;
	Afar__FileAttributes attributes;

	if (believer->handle != 0) {
		if (random_below(2)) {
			forget_inode(believer, believer->opened);
			file_do(believer->client, ask_end(believer->opened, random_below(9000), 0),
				NULL);
			return;
		}
		file_do(believer->client, ask_file_close(believer->handle), NULL);
		believer->handle = 0;
		return;
	}
	believer->opened = 2 + random_below(40);
	if (file_do(believer->client, ask_file_open(believer->opened, ++next_handle),
		    &attributes) == 0)
		believer->handle = next_handle;
}

static void forget_everything(struct believer *believer)
{
	memset(believer->inodes, 0, sizeof(believer->inodes));
	memset(believer->names, 0, sizeof(believer->names));
}

static void renew(struct believer *believer, uint64_t number)
{
	if (number == 0)
		return;
	if (number != believer->number)
		forget_everything(believer);
	believer->number = number;
	believer->renewed_at = fixture.now;
}

static void ask_and_believe(struct believer *believer, const char *name)
{
	uint64_t dir = any_dir();
	Afar__Request *request =
		random_below(2) ? ask_lookup(dir, name) : ask_stat(1 + random_below(40));
	bool is_lookup =
		request->files_look->operations[0]->what_case == AFAR__FILE_LOOK__WHAT_LOOKUP;
	const Afar__FileResult *result;
	Afar__Reply *reply;

	request->files_look->wants_delegation = true;
	request->files_look->takes_many = believer == &believers[0];
	reply = fixture_ask(&fixture, believer->client, request);
	result = reply->status == 0 ? reply->file_results->results[0] : NULL;
	if (result)
		renew(believer, reply->file_results->delegation);
	if (result && result->is_delegated) {
		if (result->dir)
			believe_inode(believer, result->dir);
		if (result->status == 0)
			believe_inode(believer, result->attributes);
		if (is_lookup)
			believe_name(believer, dir, name,
				     result->status == 0 ? result->attributes->ino : 0);
	}
	drop(reply);
}

static void step(struct believer *believer)
{
	const char name[2] = {(char)('a' + random_below(NR_NAMES)), 0};
	const char to[2] = {(char)('a' + random_below(NR_NAMES)), 0};

	switch (random_below(16)) {
	case 0:
		change(believer, ask_make(any_dir(), name, S_IFREG | 0644, 0, 0));
		break;
	case 1:
		change(believer, ask_remove(any_dir(), name, false));
		break;
	case 2:
		change(believer,
		       ask_rename(any_dir(), name, any_dir(), to, (uint32_t)random_below(3)));
		break;
	case 3:
		change(believer, ask_link(2 + random_below(40), any_dir(), name));
		break;
	case 4:
		change(believer, ask_size(2 + random_below(40), random_below(9000)));
		break;
	case 5:
		open_or_close(believer);
		break;
	default:
		ask_and_believe(believer, name);
		break;
	}
}

static void restart_all(void)
{
	for (size_t i = 0; i < 2; i++) {
		forget_everything(&believers[i]);
		believers[i].handle = 0;
	}
	restart();
	reclaim_nothing();
}

static void test_at_random(void **state)
{
	(void)state;
	memset(believers, 0, sizeof(believers));
	believers[0].client = &client;
	believers[1].client = &other;
	fixture.revoked = note_revoke;
	nr_checked = 0;
	dirs[0] = ROOT;
	dirs[1] = must_make(ROOT, "x", S_IFDIR | 0755);
	dirs[2] = must_make(dirs[1], "y", S_IFDIR | 0755);
	for (unsigned i = 0; i < NR_STEPS; i++) {
		if (random_below(16) == 0) {
			fixture.store.fail_at = 1;
			fixture.store.failure = -ENOSPC;
		}
		step(&believers[random_below(2)]);
		fixture.store.fail_at = 0;
		check_beliefs();
		if (random_below(1000) == 0)
			restart_all();
		if (random_below(16) == 0)
			fixture_advance(&fixture, random_below(DELEGATION_KEPT_MS));
	}
	assert_true(nr_checked > NR_STEPS);
	assert_true(fixture.nr_revokes > NR_STEPS / 20);
	restart_all();
}

TEST_GROUP(manager_delegations)
{
	const struct CMUnitTest tests[] = {
		DELEGATIONS_TEST(test_dropped_before_a_change),
		DELEGATIONS_TEST(test_all_that_a_rename_changes),
		DELEGATIONS_TEST(test_a_link_and_its_file),
		DELEGATIONS_TEST(test_opening_to_write),
		DELEGATIONS_TEST(test_one_that_does_not_answer),
		DELEGATIONS_TEST(test_one_that_is_away),
		DELEGATIONS_TEST(test_one_that_comes_back),
		DELEGATIONS_TEST(test_one_that_is_asked_again),
		DELEGATIONS_TEST(test_one_that_answers_late),
		DELEGATIONS_TEST(test_one_that_is_ended),
		DELEGATIONS_TEST(test_one_that_is_ended_after_a_restart),
		DELEGATIONS_TEST(test_more_inodes_than_are_kept),
		DELEGATIONS_TEST(test_silent_ones_after_a_restart),
		DELEGATIONS_TEST(test_dropping_all),
		DELEGATIONS_TEST(test_leaving),
		DELEGATIONS_TEST(test_failed_changes),
		DELEGATIONS_TEST(test_a_message_for_a_batch),
		DELEGATIONS_TEST(test_a_message_for_each),
		DELEGATIONS_TEST(test_a_batch_is_asked_again),
		DELEGATIONS_TEST(test_few_messages_for_a_directory),
		DELEGATIONS_TEST(test_many_sessions),
		DELEGATIONS_TEST(test_ends_look_at_no_others),
		DELEGATIONS_TEST(test_answers_look_at_no_others),
		DELEGATIONS_TEST(test_more_than_is_delegated_at_a_time),
		FILES_TEST(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
