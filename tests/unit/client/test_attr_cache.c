/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session of a file system keeps what is delegated to it. Answers come in another order than the manager gave them:
 * the session believes none that the manager may have taken back since.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"
#include "client/files/inode/attr_cache_table.h"
#include "client/files/inode/fs_call.h"
#include "client/files/inode/fs_drop.h"
#include "client/session.h"
#include "unit/group.h"

#define DIR  2U
#define FILE 7U

static struct afar_session session;
static struct afar_namespace ns;
static struct afar_fs fs;
unsigned nr_session_replies; /* test_files_meanwhile.c counts them, too */

#define CALL ((struct rpc_call *)(uintptr_t)1) /* of a manager's that is not there */

/* To the manager; others go where they went. */
void __real_rpc_reply_status(struct rpc_call *call, uint64_t incarnation, int status);
void __wrap_rpc_reply_status(struct rpc_call *call, uint64_t incarnation, int status);

void __wrap_rpc_reply_status(struct rpc_call *call, uint64_t incarnation, int status)
{
	if (call && call != CALL)
		__real_rpc_reply_status(call, incarnation, status);
	else
		nr_session_replies++;
}

static int setup(void **state)
{
	(void)state;
	ns.number = 3;
	fs.ns = &ns;
	attr_cache_init(&fs.attr_cache);
	pthread_mutex_init(&session.lock, NULL);
	CDS_INIT_LIST_HEAD(&session.file_systems);
	cds_list_add(&fs.node, &session.file_systems);
	nr_session_replies = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cds_list_del(&fs.node);
	pthread_mutex_destroy(&session.lock);
	attr_cache_free(&fs.attr_cache);
	fs = (struct afar_fs){0};
	return 0;
}

#define KNOWN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- What is asked and answered */

/* The manager's answer to a question about FILE that was asked at `mark`. */
static void answer_of(const struct attr_cache_mark *mark, uint64_t delegation, bool is_full)
{
	Afar__FileStat stat = AFAR__FILE_STAT__INIT;
	Afar__FileLook look = AFAR__FILE_LOOK__INIT, *looks[] = {&look};
	Afar__FileAttributes attributes = AFAR__FILE_ATTRIBUTES__INIT;
	Afar__FileResult result = AFAR__FILE_RESULT__INIT, *list[] = {&result};
	Afar__FileResults results = AFAR__FILE_RESULTS__INIT;

	stat.ino = attributes.ino = FILE;
	attributes.nlink = 1;
	look.what_case = AFAR__FILE_LOOK__WHAT_STAT;
	look.stat = &stat;
	result.attributes = &attributes;
	result.is_delegated = !is_full;
	results.n_results = 1;
	results.results = list;
	results.delegation = delegation;
	results.is_delegation_full = is_full;
	attr_cache_looked(&fs, mark, NULL, looks, &results);
}

static void ask_and_answer(uint64_t delegation, bool is_full)
{
	const struct attr_cache_mark mark = attr_cache_mark(&fs.attr_cache);

	answer_of(&mark, delegation, is_full);
}

/* The first answer tells of the delegation alone. */
static void begin(uint64_t delegation)
{
	ask_and_answer(delegation, false);
}

static bool is_known(uint64_t ino)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	return attr_cache_stat(&fs, ino, &stat) == 0;
}

/* Changes FILE, which has no extended attributes afterwards, or may have. */
static void change_xattrs(bool are_none)
{
	Afar__FileAttributes attributes = AFAR__FILE_ATTRIBUTES__INIT;

	attributes.ino = FILE;
	attributes.nlink = 1;
	attributes.has_no_xattrs = are_none;
	pthread_mutex_lock(&fs.attr_cache.lock);
	attr_cache_put_changed(&fs.attr_cache, &attributes);
	pthread_mutex_unlock(&fs.attr_cache.lock);
}

static void revoke(uint64_t ino)
{
	Afar__FileRevoke ask = AFAR__FILE_REVOKE__INIT;

	ask.fs = ns.number;
	ask.ino = ino;
	attr_cache_revoke(&session, &ask, NULL);
}

/* A change of FILE. The manager's answer is taken once `meanwhile` has happened, which may be NULL. */
static void change(Afar__FileChange *change, bool is_delegated, void (*meanwhile)(void))
{
	Afar__FileChange *changes[] = {change};
	Afar__FileAttributes attributes = AFAR__FILE_ATTRIBUTES__INIT;
	Afar__FileResult result = AFAR__FILE_RESULT__INIT, *list[] = {&result};
	Afar__FileResults results = AFAR__FILE_RESULTS__INIT;
	const struct attr_cache_mark mark = attr_cache_mark(&fs.attr_cache);

	attributes.ino = FILE;
	attributes.nlink = 1;
	attributes.mode = S_IFREG | 0644;
	result.attributes = &attributes;
	result.is_delegated = is_delegated;
	results.n_results = 1;
	results.results = list;
	attr_cache_begin_change(&fs, changes, 1);
	if (meanwhile)
		meanwhile();
	attr_cache_end_change(&fs, &mark, changes, 1, &results);
}

static void make(void (*meanwhile)(void))
{
	Afar__FileMake message = AFAR__FILE_MAKE__INIT;
	Afar__FileChange operation = AFAR__FILE_CHANGE__INIT;

	message.dir = DIR;
	message.name = (char *)(uintptr_t) "f";
	operation.what_case = AFAR__FILE_CHANGE__WHAT_MAKE;
	operation.make = &message;
	change(&operation, true, meanwhile);
}

/* A program that has looked up the name knows the number. */
static void set_size(void)
{
	Afar__FileSet message = AFAR__FILE_SET__INIT;
	Afar__FileChange operation = AFAR__FILE_CHANGE__INIT;

	message.ino = FILE;
	operation.what_case = AFAR__FILE_CHANGE__WHAT_SET;
	operation.set = &message;
	change(&operation, false, NULL);
}

static void revoke_file(void)
{
	revoke(FILE);
}

static void revoke_another(void)
{
	revoke(FILE + 1);
}

/* ---- The tests */

static void test_made(void **state)
{
	(void)state;
	begin(1);
	make(NULL);
	assert_true(is_known(FILE));
	make(revoke_another);
	assert_true(is_known(FILE));
	revoke(FILE);
	assert_false(is_known(FILE));
	assert_int_equal(nr_session_replies, 2);
}

static void test_no_extended_attributes(void **state)
{
	(void)state;
	begin(1);
	make(NULL);
	/* A manager of before does not say. */
	assert_false(attr_cache_no_xattrs(&fs, FILE));
	change_xattrs(true);
	assert_true(attr_cache_no_xattrs(&fs, FILE));
	change_xattrs(false);
	assert_false(attr_cache_no_xattrs(&fs, FILE));
	change_xattrs(true);
	revoke(FILE);
	assert_false(attr_cache_no_xattrs(&fs, FILE));
}

/* Another session has changed the new file before the answer was taken that tells of it. */
static void test_revoked_before_it_is_known_as_made(void **state)
{
	(void)state;
	begin(1);
	make(revoke_file);
	assert_false(is_known(FILE));
	/* The session believes what it asks afterwards. */
	ask_and_answer(1, false);
	assert_true(is_known(FILE));
}

/* So has another thread, whose answer was the first to be taken. */
static void test_changed_before_it_is_known_as_made(void **state)
{
	(void)state;
	begin(1);
	make(set_size);
	assert_false(is_known(FILE));
}

static void test_revoked_before_the_answer(void **state)
{
	struct attr_cache_mark mark;

	(void)state;
	begin(1);
	mark = attr_cache_mark(&fs.attr_cache);
	revoke(FILE);
	answer_of(&mark, 1, false);
	assert_false(is_known(FILE));
}

/* Another thread's answer that the name has gone, and the file with it, was the first to be taken. */
static void test_removed_before_the_answer(void **state)
{
	Afar__FileRemove remove = AFAR__FILE_REMOVE__INIT;
	Afar__FileChange operation = AFAR__FILE_CHANGE__INIT, *operations[] = {&operation};
	Afar__FileAttributes gone = AFAR__FILE_ATTRIBUTES__INIT, *changed[] = {&gone};
	Afar__FileResult result = AFAR__FILE_RESULT__INIT, *list[] = {&result};
	Afar__FileResults results = AFAR__FILE_RESULTS__INIT;
	struct attr_cache_mark mark;

	(void)state;
	begin(1);
	mark = attr_cache_mark(&fs.attr_cache);
	remove.dir = DIR;
	remove.name = (char *)(uintptr_t) "f";
	operation.what_case = AFAR__FILE_CHANGE__WHAT_REMOVE;
	operation.remove = &remove;
	gone.ino = FILE;
	result.changed = changed;
	result.n_changed = 1;
	results.results = list;
	results.n_results = 1;
	attr_cache_begin_change(&fs, operations, 1);
	attr_cache_end_change(&fs, &mark, operations, 1, &results);
	answer_of(&mark, 1, false);
	assert_false(attr_cache_is_delegated(&fs.attr_cache, FILE));
	assert_false(is_known(FILE));
}

/* A session that is told no more drops all. The manager may hear of it later, and answers until then as before: it forgets
 * what it delegates with these answers when it does. */
static void test_refused(void **state)
{
	(void)state;
	begin(1);
	ask_and_answer(1, false);
	assert_true(is_known(FILE));
	ask_and_answer(1, true);
	assert_false(is_known(FILE));
	assert_int_equal(attr_cache_take_dropped(&fs.attr_cache), 1);
	assert_int_equal(attr_cache_take_dropped(&fs.attr_cache), 0);
	for (int i = 0; i < 2; i++) {
		ask_and_answer(1, false);
		assert_false(is_known(FILE));
	}
	begin(2);
	ask_and_answer(2, false);
	assert_true(is_known(FILE));
	/* An answer that was overtaken does not bring the one of before back. */
	ask_and_answer(1, false);
	assert_true(is_known(FILE));
	assert_int_equal(fs.attr_cache.number, 2);
}

/* The question that tells of the drop does not arrive, so the next one tells again. */
static void test_refused_unheard(void **state)
{
	Afar__FileLook look = AFAR__FILE_LOOK__INIT, *looks[] = {&look};
	struct fs_answer answer = {0};

	(void)state;
	begin(1);
	ask_and_answer(1, true);
	ns.session = &session;
	session.state = SESSION_ENDED;
	assert_true(fs_look_until(&fs, 0, NULL, looks, 1, &answer) < 0);
	assert_int_equal(attr_cache_take_dropped(&fs.attr_cache), 1);
}

/* ---- Attributes that the program keeps */

static int keep(void)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	const int left_ms = attr_cache_keep(&fs.attr_cache, FILE, &stat);

	assert_in_range(left_ms, 0, 500);
	return left_ms;
}

static void test_kept_no_longer_than_known(void **state)
{
	Afar__FileSync sync = AFAR__FILE_SYNC__INIT;
	Afar__FileChange change = AFAR__FILE_CHANGE__INIT, *changes[] = {&change};

	(void)state;
	begin(1);
	assert_int_equal(keep(), 0);
	ask_and_answer(1, false);
	assert_true(keep() > 0);
	sync.ino = FILE;
	change.what_case = AFAR__FILE_CHANGE__WHAT_SYNC;
	change.sync = &sync;
	attr_cache_begin_change(&fs, changes, 1);
	assert_int_equal(keep(), 0);
	attr_cache_end_change(&fs, NULL, changes, 1, NULL);
	ask_and_answer(1, false);
	assert_true(keep() > 0);
	revoke(FILE);
	assert_int_equal(keep(), 0);
}

/* Others may change it as soon as the manager hears of the drop. */
static void test_refused_while_kept(void **state)
{
	uint64_t until;

	(void)state;
	begin(1);
	ask_and_answer(1, false);
	until = clock_ns() + (uint64_t)keep() * 1000000U;
	ask_and_answer(1, true);
	assert_int_equal(keep(), 0);
	assert_int_equal(attr_cache_take_dropped(&fs.attr_cache), 0);
	attr_cache_await_kept(&fs.attr_cache);
	assert_true(clock_ns() >= until);
	assert_int_equal(attr_cache_take_dropped(&fs.attr_cache), 1);
}

/* ---- Pages of the program's */

static struct afar_drop *told[3];
static uint64_t told_inos[3];
static unsigned nr_told;

static void tell(void *argument, uint64_t ino, struct afar_drop *drop)
{
	(void)argument;
	assert_true(nr_told < 3);
	told[nr_told] = drop;
	told_inos[nr_told++] = ino;
}

static void revoke_three(void)
{
	uint64_t inos[] = {FILE, FILE + 1, DIR};
	Afar__FileRevoke ask = AFAR__FILE_REVOKE__INIT;

	nr_told = 0;
	ask.fs = ns.number;
	ask.inos = inos;
	ask.n_inos = 3;
	attr_cache_revoke(&session, &ask, CALL);
	assert_int_equal(nr_told, 3);
	assert_memory_equal(told_inos, inos, sizeof(inos));
}

/* The manager is answered when the last of them is dropped; at once, if it names none. */
static void test_several_are_dropped(void **state)
{
	const struct afar_fs_options options = {.size = sizeof(options), .drop = tell};

	(void)state;
	drops_init(&fs.drops, &options);
	begin(1);
	ask_and_answer(1, false);
	revoke_three();
	assert_false(is_known(FILE));
	afar_fs_dropped(told[1]);
	afar_fs_dropped(told[0]);
	assert_int_equal(nr_session_replies, 0);
	revoke(0);
	assert_int_equal(nr_session_replies, 1);
	afar_fs_dropped(told[2]);
	assert_int_equal(nr_session_replies, 2);
	/* The file system is closed before all are. */
	revoke_three();
	afar_fs_dropped(told[2]);
	drops_end(&fs.drops);
	assert_int_equal(nr_session_replies, 3);
	afar_fs_dropped(told[0]);
	afar_fs_dropped(told[1]);
	assert_int_equal(nr_session_replies, 3);
}

TEST_GROUP(attr_cache)
{
	const struct CMUnitTest tests[] = {
		KNOWN_TEST(test_made),
		KNOWN_TEST(test_revoked_before_it_is_known_as_made),
		KNOWN_TEST(test_no_extended_attributes),
		KNOWN_TEST(test_changed_before_it_is_known_as_made),
		KNOWN_TEST(test_revoked_before_the_answer),
		KNOWN_TEST(test_removed_before_the_answer),
		KNOWN_TEST(test_refused),
		KNOWN_TEST(test_refused_unheard),
		KNOWN_TEST(test_kept_no_longer_than_known),
		KNOWN_TEST(test_refused_while_kept),
		KNOWN_TEST(test_several_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
