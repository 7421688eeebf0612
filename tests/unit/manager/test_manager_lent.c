/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests what the core and the writer do so that requests can be answered beside a batch
 * (test_manager_beside.c). */
#include "lib/manager/manager_beside.h"

#include <pthread.h>
#include <sys/stat.h>

#include "manager/dispatch/writer.h"
#include "unit/group.h"

/* ---- Records say what is read of a batch, whoever keeps them in memory besides */

static int visit_nothing(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	(void)argument;
	(void)key;
	(void)value;
	return 0;
}

static bool says_get(struct store_key key)
{
	struct store *store = fixture.core->store;
	size_t length;
	void *value;

	store_begin_beside(store);
	if (store_get(store, key, &value, &length) == 0)
		free(value);
	return store_end_beside(store);
}

static bool says_range(struct store_key prefix)
{
	struct store *store = fixture.core->store;

	store_begin_beside(store);
	store_range(store, prefix, (struct store_key){0}, SIZE_MAX, visit_nothing, NULL);
	return store_end_beside(store);
}

static void test_records_say_what_is_read(void **state)
{
	struct store *store = fixture.core->store;

	(void)state;
	for (uint64_t i = 1; i < 20; i++)
		store_put_bytes(store, STORE_KEY_NAMED('Y', "name", 5, 2 * i), "value", 5);
	store_delete(store, STORE_KEY_NAMED('Y', "gone", 5, 101));
	for (uint64_t i = 1; i < 20; i++) {
		assert_true(says_get(STORE_KEY_NAMED('Y', "name", 5, 2 * i)));
		assert_false(says_get(STORE_KEY_NAMED('Y', "name", 5, 2 * i + 1)));
		assert_false(says_get(STORE_KEY_NAMED('Y', "nam", 5, 2 * i)));
		assert_true(says_range(STORE_KEY('Y', 5, 2 * i)));
		assert_false(says_range(STORE_KEY('Y', 5, 2 * i + 1)));
		assert_true(says_range(STORE_KEY_NAMED('Y', "na", 5, 2 * i)));
	}
	assert_true(says_get(STORE_KEY_NAMED('Y', "gone", 5, 101)));
	assert_true(says_range(STORE_KEY('Y', 5, 101)));
	assert_false(says_range(STORE_KEY('Y', 6)));
	assert_false(says_range(STORE_KEY('W', 5)));
	assert_true(store_can_ask(store));
	undo_back(fixture.core->undo, 0);
	assert_false(says_get(STORE_KEY_NAMED('Y', "name", 5, 2)));
	assert_false(says_range(STORE_KEY('Y', 5)));
}

/* A question in the batch itself. */
static Afar__Reply *in_batch[2];

static void look_at_answers(void *argument, bool is_done)
{
	(void)argument;
	(void)is_done;
	assert_null(in_batch[0]);
	assert_non_null(in_batch[1]);
}

static void test_questions_of_the_batch(void **state)
{
	for (unsigned fails = 0; fails < 2; fails++) {
		struct question touched = {LOOKUP, "/", "new", ROOT}, free_of;
		Afar__Reply *made;

		make_tree();
		free_of = about(STAT, "/b/f");
		fixture_send(&fixture, &client, ++client.next_id,
			     ask_make(ROOT, "new", S_IFREG | 0644, 0, 0), &made);
		fixture_send(&fixture, &other, ++other.next_id, ask_of(&touched), &in_batch[0]);
		fixture_send(&fixture, &other, ++other.next_id, ask_of(&free_of), &in_batch[1]);
		run_batch(look_at_answers, fails);
		expect_answer(made, fails ? -ENOSPC : 0, NULL);
		assert_int_equal(in_batch[0]->file_results->results[0]->status,
				 fails ? -ENOENT : 0);
		drop(in_batch[0]);
		expect_answer(in_batch[1], 0, NULL);
		files_end(state);
		files_begin(state);
	}
}

/* ---- The writer's thread */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_held, may_go;
} hold = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void hold_commit(void *argument, bool is_done)
{
	(void)argument;
	if (is_done)
		return;
	pthread_mutex_lock(&hold.lock);
	hold.is_held = true;
	pthread_cond_broadcast(&hold.changed);
	while (!hold.may_go)
		pthread_cond_wait(&hold.changed, &hold.lock);
	pthread_mutex_unlock(&hold.lock);
}

/* Sends what was just put into the fixture's events. */
static void submit_last(struct writer *writer)
{
	struct event *event = cds_list_entry(fixture.events.prev, struct event, node);

	cds_list_del(&event->node);
	writer_submit(writer, event);
}

static void test_the_writer_answers_while_it_waits(void **state)
{
	struct question touched = {STAT, "/", NULL, ROOT}, free_of;
	bool is_answered, is_early;
	Afar__Reply *made, *kept, *beside, *opened;
	struct writer *writer;

	(void)state;
	make_tree();
	free_of = about(STAT, "/b/f");
	hold.is_held = hold.may_go = false;
	fixture.store.hold = hold_commit;
	assert_int_equal(writer_start(fixture.core, &writer), 0);
	fixture_send(&fixture, &client, ++client.next_id,
		     ask_make(ROOT, "new", S_IFREG | 0644, 0, 0), &made);
	submit_last(writer);
	pthread_mutex_lock(&hold.lock);
	while (!hold.is_held)
		pthread_cond_wait(&hold.changed, &hold.lock);
	pthread_mutex_unlock(&hold.lock);
	fixture_send(&fixture, &other, ++other.next_id, ask_of(&touched), &kept);
	submit_last(writer);
	fixture_send(&fixture, &other, ++other.next_id, ask_of(&free_of), &beside);
	submit_last(writer);
	/* Not before the question of its own connection that is kept. */
	fixture_send(&fixture, &other, ++other.next_id, ask_file_open(free_of.ino, 1), &opened);
	submit_last(writer);
	is_answered = beside != NULL;
	is_early = made != NULL || kept != NULL || opened != NULL;
	pthread_mutex_lock(&hold.lock);
	hold.may_go = true;
	pthread_cond_broadcast(&hold.changed);
	pthread_mutex_unlock(&hold.lock);
	writer_stop(writer);
	fixture.store.hold = NULL;
	core_set_lend(fixture.core, NULL, NULL);
	assert_true(is_answered);
	assert_false(is_early);
	expect_answer(beside, 0, NULL);
	expect_answer(made, 0, NULL);
	expect_answer(kept, 0, NULL);
	expect_answer(opened, 0, NULL);
}

/* ---- Who may overtake whom */

static struct event *last_event(void)
{
	return cds_list_entry(fixture.events.prev, struct event, node);
}

static void test_order_of_a_connection(void **state)
{
	struct event *answer = event_new(EVENT_ANSWER, other.peer), *change, *question, *hold_event;
	struct event *gone = event_new(EVENT_GONE, other.peer);
	Afar__Reply *replies[3];

	(void)state;
	assert_true(answer != NULL && gone != NULL);
	fixture_send(&fixture, &other, ++other.next_id, ask_make(ROOT, "n", S_IFREG, 0, 0),
		     &replies[0]);
	change = last_event();
	fixture_send(&fixture, &other, ++other.next_id, ask_stat(ROOT), &replies[1]);
	question = last_event();
	fixture_send(&fixture, &other, ++other.next_id, ask_file_open(ROOT, 1), &replies[2]);
	hold_event = last_event();
	/* It has given up what it asks for, or has gone. */
	assert_false(core_can_overtake(question, answer));
	assert_false(core_can_overtake(hold_event, answer));
	assert_false(core_can_overtake(question, gone));
	assert_true(core_can_overtake(question, change));
	assert_false(core_can_overtake(hold_event, change));
	assert_false(core_can_overtake(hold_event, question));
	answer->peer = gone->peer = client.peer;
	assert_true(core_can_overtake(hold_event, answer));
	assert_true(core_can_overtake(question, gone));
	event_free(answer);
	event_free(gone);
	fixture_pump(&fixture);
	for (size_t i = 0; i < 3; i++)
		drop(replies[i]);
}

TEST_GROUP(manager_lent)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_records_say_what_is_read),
		FILES_TEST(test_questions_of_the_batch),
		FILES_TEST(test_order_of_a_connection),
		FILES_TEST(test_the_writer_answers_while_it_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
