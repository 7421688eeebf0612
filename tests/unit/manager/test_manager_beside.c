/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests about files in the middle of a commit. A question that reads nothing of the batch is answered at once. Its
 * answer holds before the batch and behind it, whatever becomes of that. One that reads something of it is answered
 * behind the commit. Nobody hears of what is not committed. In the same way files are opened and closed: a batch that
 * fails takes back no such thing.
 */
#include "lib/manager/manager_beside.h"

#include <sys/stat.h>

#include "rpc/delegation.h"
#include "unit/group.h"

/* ---- What waits, and what does not */

static Afar__Request *make_in_a(void)
{
	return ask_make(ino_of("/a"), "new", S_IFREG | 0644, 0, 0);
}
static Afar__Request *remove_from_a(void)
{
	return ask_remove(ino_of("/a"), "l", false);
}
static Afar__Request *rename_in_a(void)
{
	return ask_rename(ino_of("/a"), "f", ino_of("/a"), "new", 0);
}
static Afar__Request *rename_from_a(void)
{
	return ask_rename(ino_of("/a"), "f", ROOT, "new", 0);
}
static Afar__Request *link_from_a(void)
{
	return ask_link(ino_of("/a/f"), ROOT, "new");
}
static Afar__Request *cut_f(void)
{
	return ask_size(ino_of("/a/f"), 3);
}
static Afar__Request *extend_f(void)
{
	return ask_extend(ino_of("/a/f"), 200000, 10000);
}
static Afar__Request *set_xattr_of_f(void)
{
	return ask_xattr(ino_of("/a/f"), "user.y", "more");
}

static const struct wait_case {
	Afar__Request *(*change)(void);
	struct question question;
	bool is_kept;
} wait_cases[] = {
	{make_in_a, {STAT, "/a"}, true},
	{make_in_a, {LIST, "/a"}, true},
	{make_in_a, {LIST_ALL, "/a"}, true},
	{make_in_a, {LIST_ALL, "/"}, true},
	{make_in_a, {LOOKUP, "/a", "new"}, true},
	{make_in_a, {LOOKUP, "/a", "none"}, true},
	{make_in_a, {LOOKUP, "/", "a"}, true},
	{make_in_a, {WALK, "/a/new"}, true},
	{make_in_a, {WALK, "/a/f"}, true},
	{make_in_a, {STAT, "/a/f"}, false},
	{make_in_a, {MAP, "/a/f"}, false},
	{make_in_a, {XATTR, "/a/f", "user.x"}, false},
	{make_in_a, {XATTRS, "/a/f"}, false},
	{make_in_a, {STAT, "/"}, false},
	{make_in_a, {LIST, "/"}, false},
	{make_in_a, {STAT, "/b"}, false},
	{make_in_a, {LIST, "/b"}, false},
	{make_in_a, {LIST_ALL, "/b"}, false},
	{make_in_a, {LOOKUP, "/b", "f"}, false},
	{make_in_a, {LOOKUP, "/b", "new"}, false},
	{make_in_a, {WALK, "/b/l"}, false},
	{make_in_a, {LINK, "/b/l"}, false},
	{remove_from_a, {STAT, "/a/l"}, true},
	{remove_from_a, {LINK, "/a/l"}, true},
	{remove_from_a, {LOOKUP, "/a", "l"}, true},
	{remove_from_a, {LIST, "/a"}, true},
	{remove_from_a, {LINK, "/b/l"}, false},
	{rename_in_a, {LOOKUP, "/a", "f"}, true},
	{rename_in_a, {LOOKUP, "/a", "new"}, true},
	{rename_in_a, {LIST, "/a"}, true},
	{rename_in_a, {STAT, "/b/f"}, false},
	{rename_from_a, {STAT, "/"}, true},
	{rename_from_a, {LIST, "/"}, true},
	{rename_from_a, {LOOKUP, "/", "new"}, true},
	{rename_from_a, {LOOKUP, "/a", "f"}, true},
	{rename_from_a, {WALK, "/b/f"}, true}, /* over the root directory */
	{rename_from_a, {LOOKUP, "/b", "f"}, false},
	{link_from_a, {STAT, "/a/f"}, true},
	{link_from_a, {STAT, "/"}, true},
	{link_from_a, {STAT, "/a"}, false},
	{cut_f, {STAT, "/a/f"}, true},
	{cut_f, {MAP, "/a/f"}, true},
	{cut_f, {LOOKUP, "/a", "f"}, true},
	{cut_f, {LIST_ALL, "/a"}, true},
	{cut_f, {LIST, "/a"}, false},
	{cut_f, {STAT, "/a"}, false},
	{cut_f, {MAP, "/b/f"}, false},
	{extend_f, {STAT, "/a/f"}, true},
	{extend_f, {MAP, "/a/f"}, true},
	{extend_f, {MAP, "/b/f"}, false},
	{set_xattr_of_f, {XATTR, "/a/f", "user.x"}, true},
	{set_xattr_of_f, {XATTR, "/a/f", "user.y"}, true},
	{set_xattr_of_f, {XATTRS, "/a/f"}, true},
	{set_xattr_of_f, {STAT, "/a/f"}, true},
	{set_xattr_of_f, {XATTR, "/b/f", "user.x"}, false},
	{set_xattr_of_f, {XATTRS, "/b/f"}, false},
	{set_xattr_of_f, {XATTR, "/b/f", "user.y"}, false},
};

static void run_case(const struct wait_case *wait_case, bool is_done, bool fails)
{
	struct question question = wait_case->question;
	Afar__Reply *reply;

	question.ino = question.ask == WALK ? 0 : ino_of(question.path);
	add_question(question, is_done);
	fixture_send(&fixture, &client, ++client.next_id, wait_case->change(), &reply);
	run_batch(ask_beside, fails);
	expect_answer(reply, fails ? -ENOSPC : 0, NULL);
	assert_true(asked[0].is_asked);
	if (asked[0].is_kept != wait_case->is_kept)
		fail_msg("case %zu, question %u about '%s' %s", (size_t)(wait_case - wait_cases),
			 question.ask, question.path,
			 wait_case->is_kept ? "did not wait" : "waited");
	check_answers();
}

static void test_what_a_batch_has_changed_waits(void **state)
{
	for (size_t i = 0; i < sizeof(wait_cases) / sizeof(wait_cases[0]); i++)
		for (unsigned way = 0; way < 3; way++) {
			make_tree();
			run_case(&wait_cases[i], way == 1, way == 2);
			files_end(state);
			files_begin(state);
		}
}

/* ---- The rest of what is read */

static Afar__Request *(*ask_in_commit)(void);
static Afar__Reply *answer_in_commit;
static bool was_lent;

static void ask_one(void *argument, bool is_done)
{
	(void)argument;
	was_lent = was_lent || fixture.is_lent;
	if (is_done || ask_in_commit == NULL)
		return;
	assert_false(fixture_ask_beside(&fixture, &other, ask_in_commit(), &answer_in_commit));
	ask_in_commit = NULL;
}

static Afar__Request *ask_system(void)
{
	Afar__Request *request = ask_stat(ROOT);
	Afar__FileLook *look = request->files_look->operations[0];

	afar__file_stat__free_unpacked(look->stat, NULL);
	look->what_case = AFAR__FILE_LOOK__WHAT_SYSTEM;
	look->system = MESSAGE_NEW(afar__file_system_stat, Afar__FileSystemStat);
	return request;
}

static Afar__Request *ask_root(void)
{
	return ask_stat(ROOT);
}

/* `is_lent`: questions are looked at while the change is committed. */
static void expect_wait(Afar__Request *change, Afar__Request *(*question)(void), bool is_lent)
{
	Afar__Reply *reply;

	ask_in_commit = question;
	was_lent = false;
	fixture_send(&fixture, &client, ++client.next_id, change, &reply);
	run_batch(ask_one, false);
	expect_answer(reply, 0, NULL);
	expect_answer(answer_in_commit, 0, NULL);
	assert_int_equal(was_lent, is_lent);
}

static void test_what_does_not_say_what_it_reads_waits(void **state)
{
	(void)state;
	make_tree();
	expect_wait(ask_make(ino_of("/a"), "1", S_IFREG | 0644, 0, 0), ask_system, true);
	expect_wait(ask_make(ino_of("/a"), "2", S_IFREG | 0644, 0, 0), ask_check, true);
	expect_wait(ask_make(ino_of("/a"), "3", S_IFREG | 0644, 0, 0), ask_status, true);
	/* Nobody is asked while tables are changed: of namespaces, keys, rights, and sessions. */
	expect_wait(ask_create("n", 0, 65536), ask_root, false);
	expect_wait(ask_key_add("user", false), ask_root, false);
	expect_wait(ask_grant(fs_number, "user", 1), ask_root, false);
	expect_wait(ask_key_revoke("user"), ask_root, false);
	expect_wait(ask_delete("n", false), ask_root, false);
}

/* ---- What is in memory alone: who has which file open, and how long writers say that it is */

static Afar__Request *open_existing_r(void)
{
	Afar__Request *request = ask_make(ROOT, "r", S_IFREG | 0644, 3, 0);

	change_of(request)->make->may_exist = true;
	return request;
}
static Afar__Request *close_with_change(void)
{
	return ask_sync_close(ino_of("/b/f"), 0, TREE_HANDLE + 1);
}
static Afar__Request *open_r(void)
{
	return ask_file_open(ino_of("/r"), 5);
}
static Afar__Request *open_f(void)
{
	return ask_file_open(ino_of("/a/f"), 5);
}
static Afar__Request *close_of_r(void)
{
	return ask_file_close(4);
}

static Afar__Request *end_of_r(void)
{
	return ask_end(ino_of("/r"), 777, 0);
}
static Afar__Request *end_of_f(void)
{
	return ask_end(ino_of("/a/f"), 77777, 0);
}

static const struct hold_case {
	Afar__Request *(*change)(void); /* by `client` */
	Afar__Request *(*hold)(void);
	struct fake_client *who;
	bool is_kept;
} hold_cases[] = {
	{make_in_a, open_r, &other, false},
	{make_in_a, open_f, &other, false},
	{make_in_a, close_of_r, &other, false},
	{make_in_a, open_r, &client, false},
	{cut_f, open_r, &other, false},
	{cut_f, open_f, &other, true},
	{make_in_a, end_of_r, &other, false},
	{make_in_a, end_of_f, &client, false},
	{set_xattr_of_f, end_of_r, &other, false},
	{set_xattr_of_f, end_of_f, &client, true},
	{open_existing_r, end_of_r, &other, true},
	{open_existing_r, open_f, &other, false},
	{open_existing_r, open_r, &other, true},
	{open_existing_r, close_of_r, &other, true},
	{open_existing_r, open_f, &client, true}, /* one session's are not changed by two */
	{close_with_change, open_r, &other, false},
	{close_with_change, open_r, &client, true},
};

static struct {
	struct fake_client *who;
	Afar__Request *request;
	Afar__Reply *reply;
	bool is_kept;
} holding;

static void hold_beside(void *argument, bool is_done)
{
	(void)argument;
	if (is_done || holding.request == NULL)
		return;
	holding.is_kept =
		!fixture_ask_beside(&fixture, holding.who, holding.request, &holding.reply);
	holding.request = NULL;
}

/* It is so, whatever has become of the batch. */
static void check_held(const struct hold_case *hold_case)
{
	Afar__FileAttributes attributes;

	if (hold_case->hold == open_r || hold_case->hold == open_f)
		assert_non_null(hold_find(fs_of(), hold_case->who->session, 5));
	if (hold_case->hold == close_of_r)
		assert_null(hold_find(fs_of(), hold_case->who->session, 4));
	if (hold_case->hold == end_of_r) {
		assert_int_equal(file_do(&other, ask_stat(ino_of("/r")), &attributes), 0);
		assert_int_equal(attributes.size, 777);
	}
	if (hold_case->hold == end_of_f) {
		assert_int_equal(file_do(&other, ask_stat(ino_of("/a/f")), &attributes), 0);
		assert_int_equal(attributes.size, 77777);
	}
}

static void run_hold_case(const struct hold_case *hold_case, bool fails)
{
	Afar__Reply *reply;

	make_tree();
	assert_int_equal(file_do(&other, ask_file_open(ino_of("/r"), 4), NULL), 0);
	holding.who = hold_case->who;
	holding.request = hold_case->hold();
	fixture_send(&fixture, &client, ++client.next_id, hold_case->change(), &reply);
	run_batch(hold_beside, fails);
	assert_int_equal(reply->status, fails ? -ENOSPC : 0);
	if (!fails)
		assert_int_equal(reply->file_results->results[0]->status, 0);
	drop(reply);
	assert_int_equal(holding.reply->file_results->results[0]->status, 0);
	drop(holding.reply);
	if (holding.is_kept != hold_case->is_kept)
		fail_msg("case %zu %s", (size_t)(hold_case - hold_cases),
			 hold_case->is_kept ? "did not wait" : "waited");
	check_held(hold_case);
}

static void test_what_is_in_memory_alone_is_no_batchs(void **state)
{
	for (size_t i = 0; i < sizeof(hold_cases) / sizeof(hold_cases[0]); i++)
		for (unsigned fails = 0; fails < 2; fails++) {
			run_hold_case(&hold_cases[i], fails);
			files_end(state);
			files_begin(state);
		}
}

/* Nobody may answer from memory what somebody writes: he who closes with a batch writes on if that fails. */
static void test_what_is_written_is_not_delegated(void **state)
{
	for (unsigned fails = 0; fails < 2; fails++) {
		Afar__Reply *made, *closed;

		make_tree();
		FILE_DO(ask_file_open(ino_of("/r"), 1), 0);
		holding.who = &other;
		holding.request = ask_stat(ino_of("/r"));
		holding.request->files_look->wants_delegation = true;
		fixture_send(&fixture, &client, ++client.next_id,
			     ask_make(ROOT, "new", S_IFREG | 0644, 2, 0), &made);
		fixture_send(&fixture, &client, ++client.next_id, ask_file_close(1), &closed);
		run_batch(hold_beside, fails);
		expect_answer(made, fails ? -ENOSPC : 0, NULL);
		expect_answer(closed, fails ? -ENOSPC : 0, NULL);
		assert_true(holding.is_kept);
		assert_true(holding.reply->file_results->results[0]->is_delegated == !fails);
		drop(holding.reply);
		files_end(state);
		files_begin(state);
	}
}

/* ---- Answers that come while a batch is committed */

static uint64_t written;
static Afar__Reply *looked, *told;

/* Asks when the file was written. The writer tells at once, and the commit takes longer than the manager waits for writers. */
static void ask_in_a_long_commit(void *argument, bool is_done)
{
	Afar__Request *request;

	(void)argument;
	if (is_done || written == 0)
		return;
	request = ask_stat(written);
	request->files_look->operations[0]->stat->asks_writers = true;
	assert_false(fixture_ask_beside(&fixture, &other, request, &looked));
	fixture_send(&fixture, &client, ++client.next_id, ask_end(written, 0, 0), &told);
	assert_true(fixture_serve(&fixture));
	fixture.now += 2 * (uint64_t)DELEGATION_KEPT_MS * 1000000U;
	written = 0;
}

static void test_an_answer_in_time_counts(void **state)
{
	Afar__FileAttributes before;
	Afar__Reply *made;

	(void)state;
	make_tree();
	written = ino_of("/r");
	FILE_DO(ask_file_open(written, 1), 0);
	assert_int_equal(file_do(&client, ask_stat(written), &before), 0);
	fixture_send(&fixture, &client, ++client.next_id, make_in_a(), &made);
	run_batch(ask_in_a_long_commit, false);
	expect_answer(made, 0, NULL);
	expect_result(&told, 0);
	assert_true(looked->file_results->results[0]->attributes->mtime > before.mtime);
	expect_result(&looked, 0);
}

TEST_GROUP(manager_beside)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_what_a_batch_has_changed_waits),
		FILES_TEST(test_what_does_not_say_what_it_reads_waits),
		FILES_TEST(test_what_is_in_memory_alone_is_no_batchs),
		FILES_TEST(test_what_is_written_is_not_delegated),
		FILES_TEST(test_an_answer_in_time_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
