/* SPDX-License-Identifier: BSD-3-Clause */
/* Which inodes a program uses by their number, and what the manager is told when it asks: client/files/io/fs_used.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/files/inode/fs_call.h"
#include "client/session.h"
#include "rpc/protobuf.h"
#include "unit/group.h"

#define NR_INODES 3000U
#define NR_STEPS  100000U

static struct afar_session session;
static struct afar_namespace ns;
static struct afar_fs fs;

/* The last answer to the manager. */
static char call;
static unsigned nr_replies;
static uint64_t told[NR_INODES];
static size_t nr_told;

void __real_rpc_reply(struct rpc_call *call_, uint64_t incarnation, Afar__Reply *reply);
void __wrap_rpc_reply(struct rpc_call *call_, uint64_t incarnation, Afar__Reply *reply);

void __wrap_rpc_reply(struct rpc_call *call_, uint64_t incarnation, Afar__Reply *reply)
{
	if (call_ != (void *)&call) {
		__real_rpc_reply(call_, incarnation, reply);
		return;
	}
	nr_replies++;
	assert_int_equal(reply->result_case, AFAR__REPLY__RESULT_FILES_USED);
	nr_told = reply->files_used->n_inos;
	for (size_t i = 0; i < nr_told; i++)
		told[i] = reply->files_used->inos[i];
}

static unsigned nr_gone;

static void gone(void *argument, uint64_t dir, const char *name, uint64_t ino)
{
	assert_ptr_equal(argument, &nr_gone);
	assert_int_equal(dir, 1);
	assert_string_equal(name, "a name");
	assert_int_not_equal(ino, 0);
	nr_gone++;
}

static int setup_used(void **state)
{
	const struct afar_fs_options options = {
		.flags = AFAR_FS_COUNT_USES, .gone = gone, .argument = &nr_gone};

	(void)state;
	ns.number = 3;
	fs.ns = &ns;
	used_init(&fs.used, &options);
	pthread_mutex_init(&session.lock, NULL);
	CDS_INIT_LIST_HEAD(&session.file_systems);
	cds_list_add(&fs.node, &session.file_systems);
	nr_replies = nr_gone = 0;
	return 0;
}

static int teardown_used(void **state)
{
	(void)state;
	pthread_mutex_destroy(&session.lock);
	used_free(&fs.used);
	fs = (struct afar_fs){0};
	return 0;
}

#define USED_TEST(name) cmocka_unit_test_setup_teardown(name, setup_used, teardown_used)

/* The manager asks for inodes 1 to `nr`. */
static void ask(uint64_t nr)
{
	Afar__FilesGone *message = MESSAGE_NEW(afar__files_gone, Afar__FilesGone);

	message->fs = ns.number;
	message->files = calloc(nr, sizeof(*message->files));
	for (uint64_t i = 0; i < nr; i++) {
		message->files[i] = MESSAGE_NEW(afar__file_gone, Afar__FileGone);
		message->files[i]->ino = i + 1;
		message->files[i]->dir = 1;
		message->files[i]->name = strdup("a name");
	}
	message->n_files = nr;
	used_ask(&session, RPC_REQUEST(FILES_GONE, files_gone, message), (struct rpc_call *)&call);
}

static void find(uint64_t ino)
{
	used_end(&fs, used_begin(&fs), ino);
}

static void test_what_is_used_is_told(void **state)
{
	(void)state;
	find(2);
	find(4);
	find(4);
	used_forget(&fs, 4, 1);
	find(5);
	used_forget(&fs, 5, 1);
	ask(5);
	assert_int_equal(nr_replies, 1);
	assert_int_equal(nr_told, 2);
	assert_int_equal(told[0], 2);
	assert_int_equal(told[1], 4);
	assert_int_equal(nr_gone, 2);
}

/* It may have been answered before the name went. */
static void test_calls_under_way_are_waited_for(void **state)
{
	unsigned first = used_begin(&fs), second = used_begin(&fs), later;

	(void)state;
	ask(5);
	assert_int_equal(nr_replies, 0);
	/* This one cannot find what is gone. */
	later = used_begin(&fs);
	used_end(&fs, first, 3);
	assert_int_equal(nr_replies, 0);
	used_end(&fs, second, 0);
	assert_int_equal(nr_replies, 1);
	assert_int_equal(nr_told, 1);
	assert_int_equal(told[0], 3);
	/* But it is waited for by the next question. */
	ask(5);
	assert_int_equal(nr_replies, 1);
	used_end(&fs, later, 5);
	assert_int_equal(nr_replies, 2);
	assert_int_equal(nr_told, 2);
}

static uint64_t dice = 88172645463325252U;

static uint64_t random_below(uint64_t limit)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % limit;
}

static void test_counts_at_random(void **state)
{
	static unsigned counts[NR_INODES + 1];
	size_t nr = 0;

	(void)state;
	for (unsigned i = 0; i < NR_STEPS; i++) {
		uint64_t ino = 1 + random_below(NR_INODES);

		if (random_below(2)) {
			find(ino);
			counts[ino]++;
		} else {
			unsigned less = 1 + (unsigned)random_below(2);

			used_forget(&fs, ino, less);
			counts[ino] -= less < counts[ino] ? less : counts[ino];
		}
	}
	ask(NR_INODES);
	for (uint64_t ino = 1; ino <= NR_INODES; ino++)
		if (counts[ino] != 0)
			assert_int_equal(told[nr++], ino);
	assert_int_equal(nr_told, nr);
	assert_int_equal(nr_gone, nr);
}

TEST_GROUP(used)
{
	const struct CMUnitTest tests[] = {
		USED_TEST(test_what_is_used_is_told),
		USED_TEST(test_calls_under_way_are_waited_for),
		USED_TEST(test_counts_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
