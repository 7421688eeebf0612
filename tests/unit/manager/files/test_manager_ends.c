/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends that a session has for itself. Others that ask have it tell. If it is silent, or gone, a server reads them, and until then nobody else changes
 * the file.
 */
#include "lib/manager/manager_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/end_slot.h"
#include "unit/group.h"

#define HANDLE 1U
#define ROOM   (100 * FILE_UNIT)
#define TOLD   1000U /* bytes that the session has told of */
#define END    5000U /* and those that it has written since */

static uint64_t file;
static Afar__Reply *given, *answer;

/* Gives the end up, as a client that is asked does. */
static void give(uint64_t session, uint64_t ino)
{
	Afar__Request *request = ask_end(ino, END, 0);

	(void)session;
	hold_of(request)->end->gives_end = true;
	drop(given);
	fixture_send(&fixture, &client, ++client.next_id, request, &given);
}

static void give_and_keep_times(uint64_t session, uint64_t ino)
{
	Afar__Request *request = ask_end(ino, END, 0);

	(void)session;
	hold_of(request)->end->gives_end = true;
	hold_of(request)->end->keeps_times = true;
	drop(given);
	fixture_send(&fixture, &client, ++client.next_id, request, &given);
}

static bool has_end(const Afar__Reply *reply)
{
	assert_int_equal(reply->status, 0);
	assert_int_equal(reply->file_results->results[0]->status, 0);
	return reply->file_results->results[0]->has_end;
}

/* Tells of an end, and wants it, perhaps not to append. Returns whether it is the session's. */
static bool tell_as(struct fake_client *who, uint64_t ino, uint64_t end, bool asks_to_append)
{
	Afar__Request *request = ask_end(ino, end, 0);
	Afar__Reply *reply;
	bool is;

	hold_of(request)->end->wants_end = true;
	hold_of(request)->end->asks_to_append = asks_to_append;
	reply = fixture_ask(&fixture, who, request);
	is = has_end(reply);
	drop(reply);
	return is;
}

static bool tell(struct fake_client *who, uint64_t ino, uint64_t end)
{
	return tell_as(who, ino, end, false);
}

static uint64_t extend(struct fake_client *who, uint64_t ino, uint64_t length)
{
	Afar__Request *request = ask_extend(ino, 0, length);
	Afar__Reply *reply;
	uint64_t slot;

	change_of(request)->extend->wants_end = true;
	reply = fixture_ask(&fixture, who, request);
	assert_int_equal(reply->status, 0);
	assert_int_equal(reply->file_results->results[0]->status, 0);
	slot = reply->file_results->results[0]->slot;
	drop(reply);
	return slot;
}

/* All servers find that in slots. */
static void put_slot(uint64_t ino, uint64_t layout, uint64_t end)
{
	const struct end_slot slot = {ino, layout, end};

	for (size_t i = 0; i < 2; i++)
		end_slot_write(fixture.servers[i].slot, &slot);
}

static unsigned nr_reads(void)
{
	return fixture.servers[0].nr_reads + fixture.servers[1].nr_reads;
}

static unsigned nr_cleared(void)
{
	return fixture.servers[0].nr_cleared + fixture.servers[1].nr_cleared;
}

/* Slots cannot be read; 0: they can. */
static void refuse(int status)
{
	for (size_t i = 0; i < 2; i++)
		fixture.servers[i].refuse_to_read = status;
}

/* Nor can what is behind an end be zeroed. */
static void refuse_to_clear(int status)
{
	for (size_t i = 0; i < 2; i++)
		fixture.servers[i].refuse_to_clear = status;
}

/* A claim says that the session has the slot. */
static Afar__Request *with_slot(Afar__Request *request)
{
	hold_of(request)->reclaim->accesses[0] |= FILE_HAS_SLOT;
	return request;
}

static Afar__Request *ask_list(void)
{
	Afar__Request *list = ask_lookup(ROOT, "f");

	free(list->files_look->operations[0]->lookup->name);
	free(list->files_look->operations[0]->lookup);
	list->files_look->operations[0]->list = MESSAGE_NEW(afar__file_list, Afar__FileList);
	list->files_look->operations[0]->what_case = AFAR__FILE_LOOK__WHAT_LIST;
	list->files_look->operations[0]->list->dir = ROOT;
	list->files_look->operations[0]->list->with_attributes = true;
	return list;
}

static Afar__Request *ask_open_to_read(uint64_t ino, uint64_t handle)
{
	Afar__Request *request = ask_file_open(ino, handle);

	hold_of(request)->open->access = R_OK;
	return request;
}

/* The client has a file that it has written on. */
static void begin_on(void)
{
	file = must_make(ROOT, "f", S_IFREG | 0644);
	FILE_DO(ask_file_open(file, HANDLE), 0);
	/* One that does not grow again has no slot. */
	assert_int_equal(extend(&client, file, ROOM / 4), 0);
	assert_false(tell(&client, file, TOLD));
	assert_int_not_equal(extend(&client, file, ROOM), 0);
	assert_true(tell(&client, file, TOLD));
	put_slot(file, 0, END);
	fixture.revoked = give;
}

static int ends_begin(void **state)
{
	files_begin(state);
	begin_on();
	return 0;
}

static int ends_begin_on_flash(void **state)
{
	files_begin_on_flash(state);
	begin_on();
	return 0;
}

static int ends_end(void **state)
{
	drop(given);
	given = NULL;
	refuse(0);
	refuse_to_clear(0);
	fixture.time_ns = 0;
	fixture.are_clients_silent = false;
	if (client.peer == NULL) {
		assert_int_equal(client_open(&fixture, &client), 0);
		open_pool(&client);
	}
	return files_end(state);
}

#define ENDS_TEST(name)	      cmocka_unit_test_setup_teardown(name, ends_begin, ends_end)
#define ENDS_TEST_FLASH(name) cmocka_unit_test_setup_teardown(name, ends_begin_on_flash, ends_end)

static void expect_other_size(uint64_t bytes)
{
	Afar__FileAttributes attributes = {0};

	assert_int_equal(file_do(&other, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.size, bytes);
}

/* ---- The session lives */

/* Each of these is told where the file ends. */
static void test_asked(void **state)
{
	(void)state;
	expect_other_size(END);
	assert_int_equal(fixture.nr_revokes, 1);
	/* For a moment it does not get the end back. */
	assert_false(tell(&client, file, END));
	fixture_advance(&fixture, 200);
	for (unsigned i = 0; i < 5; i++) {
		assert_true(tell(&client, file, END));
		switch (i) {
		case 0:
			OTHER_DO(ask_lookup(ROOT, "f"), 0);
			break;
		case 1:
			OTHER_DO(ask_walk("/f", true), 0);
			break;
		case 2:
			OTHER_DO(ask_map(file), 0);
			break;
		case 3:
			OTHER_DO(ask_link(file, ROOT, "g"), 0);
			break;
		default:
			OTHER_DO(ask_list(), 0);
			break;
		}
		assert_int_equal(fixture.nr_revokes, 2 + i);
		fixture_advance(&fixture, 200);
	}
	assert_int_equal(nr_reads(), 0);
}

/* It has told of nothing for long, and is asked all the same: it lives, as far as anybody knows. */
static void test_rested(void **state)
{
	(void)state;
	fixture_advance(&fixture, 3000);
	expect_other_size(END);
	assert_int_equal(fixture.nr_revokes, 1);
	assert_int_equal(nr_reads(), 0);
}

/* Nobody gets the end of a file that another one has open. */
static void test_shared(void **state)
{
	(void)state;
	OTHER_DO(ask_file_open(file, 2), 0);
	fixture_advance(&fixture, 200);
	assert_false(tell(&client, file, END));
	assert_false(tell(&other, file, END));
	assert_int_equal(extend(&other, file, 3 * ROOM), 0);
	OTHER_DO(ask_file_close(2), 0);
	assert_true(tell(&client, file, END));
}

/* It has the end until it is told that it has not, whatever it asks itself. */
static void test_not_asked(void **state)
{
	(void)state;
	FILE_DO(ask_stat(file), 0);
	FILE_DO(ask_map(file), 0);
	OTHER_DO(ask_stat(ROOT), 0);
	FILE_DO(ask_sync_close(file, END, HANDLE), 0);
	expect_other_size(END);
	assert_int_equal(fixture.nr_revokes, 0);
	assert_int_equal(nr_reads(), 0);
}

/* One call closes the file, of which all has been told, and opens it again. Nothing has to be found out for that. */
static void test_closed_and_opened(void **state)
{
	Afar__Request *both = ask_file_close(HANDLE), *open = ask_open_to_read(file, 2);

	(void)state;
	hold_of(both)->close->is_told = true;
	both->files_hold->operations =
		reallocarray(both->files_hold->operations, 2, sizeof(Afar__FileHold *));
	both->files_hold->operations[both->files_hold->n_operations++] = hold_of(open);
	open->files_hold->n_operations = 0;
	afar__request__free_unpacked(open, NULL);
	answer = fixture_ask(&fixture, &client, both);
	assert_int_equal(answer->status, 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(answer->file_results->results[i]->status, 0);
	drop(answer);
	answer = NULL;
	assert_int_equal(nr_reads(), 0);
	FILE_DO(ask_file_close(2), 0);
}

/* It closes the file, and tells nothing. */
static void test_closed(void **state)
{
	(void)state;
	FILE_DO(ask_file_close(HANDLE), 0);
	expect_other_size(END);
	assert_int_equal(nr_reads(), 1);
	/* The rest of its last unit may have been written. */
	assert_int_equal(nr_cleared(), 1);
	assert_int_equal(fixture.servers[0].cleared + fixture.servers[1].cleared,
			 2 * FILE_UNIT - END);
}

/* ---- It is silent */

static void test_silent(void **state)
{
	Afar__Reply *appended = NULL;

	(void)state;
	fixture.are_clients_silent = true;
	file_send(&other, ask_file_open(file, 2), &answer);
	assert_null(answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	expect_result(&answer, 0);
	expect_other_size(END);
	assert_int_equal(nr_reads(), 1);
	/* It may write there yet. */
	assert_int_equal(nr_cleared(), 0);
	/* And it may be appending. */
	file_send(&other, ask_append(file), &appended);
	fixture_advance(&fixture, 200);
	assert_null(appended);
	fixture.are_clients_silent = false;
	give(0, file);
	fixture_pump(&fixture);
	expect_result(&appended, 0);
	OTHER_DO(ask_appended(file), 0);
	OTHER_DO(ask_file_close(2), 0);
}

/* It said once that it would append more, and has had the end for that long since. */
static void test_silent_after_more(void **state)
{
	FILE_DO(ask_append(file), 0);
	FILE_DO(ask_appended_more(file), 0);
	assert_true(tell(&client, file, TOLD));
	fixture_advance(&fixture, 200);
	assert_true(tell(&client, file, TOLD));
	test_silent(state);
}

/* It does not append unasked, so others need not wait for it to do so. */
static void test_silent_and_asks(void **state)
{
	(void)state;
	assert_true(tell_as(&client, file, TOLD, true));
	fixture.are_clients_silent = true;
	file_send(&other, ask_file_open(file, 2), &answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	expect_result(&answer, 0);
	OTHER_DO(ask_append(file), 0);
	OTHER_DO(ask_appended(file), 0);
	OTHER_DO(ask_file_close(2), 0);
}

/* A call that has no time to wait for it is told nothing. */
static void test_silent_for_too_long(void **state)
{
	(void)state;
	fixture.are_clients_silent = true;
	fixture.time_ns = UINT64_C(300000000);
	file_send(&other, ask_file_open(file, 2), &answer);
	fixture_advance(&fixture, 250);
	expect_result(&answer, -EBUSY);
	file_send(&other, ask_stat(file), &answer);
	fixture_advance(&fixture, 250);
	expect_result(&answer, -EBUSY);
	fixture.time_ns = 0;
	fixture.are_clients_silent = false;
	expect_other_size(END);
}

/* It tells while the slot is being read: it is not kept waiting, and others may append. */
static void test_silent_and_back(void **state)
{
	(void)state;
	fixture.are_clients_silent = true;
	refuse(-EAGAIN);
	file_send(&other, ask_file_open(file, 2), &answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	assert_null(answer);
	fixture.are_clients_silent = false;
	give(0, file);
	refuse(0);
	fixture_advance(&fixture, 2000);
	expect_result(&answer, 0);
	OTHER_DO(ask_append(file), 0);
	OTHER_DO(ask_appended(file), 0);
	OTHER_DO(ask_file_close(2), 0);
}

/* It tells while the slot cannot be read. Nobody waits for that any more. */
static void test_silent_and_back_while_away(void **state)
{
	(void)state;
	fixture.are_clients_silent = true;
	refuse(-EAGAIN);
	file_send(&other, ask_stat(file), &answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	assert_null(answer);
	fixture.are_clients_silent = false;
	give(0, file);
	fixture_advance(&fixture, 1);
	expect_result(&answer, 0);
	expect_other_size(END);
	/* It is given to nobody before that. */
	assert_false(tell(&client, file, END));
	refuse(0);
	fixture_advance(&fixture, 2000);
	assert_true(tell(&client, file, END));
}

/* A server has gone, perhaps with the slot. */
static void test_told_when_a_server_goes(void **state)
{
	Afar__FileAttributes attributes = {0};

	(void)state;
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.size, TOLD);
	fixture_disconnect(&fixture, 1);
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.size, END);
	assert_int_equal(fixture_join(&fixture, 1, fixture.servers[1].capacity), 0);
}

/* Its times were set after what it wrote, and stay. */
static void test_given_with_times_set(void **state)
{
	Afar__FileAttributes before = {0}, after = {0};

	(void)state;
	assert_int_equal(file_do(&client, ask_stat(file), &before), 0);
	fixture_advance(&fixture, 1000);
	fixture.revoked = give_and_keep_times;
	assert_int_equal(file_do(&other, ask_stat(file), &after), 0);
	assert_int_equal(after.size, END);
	assert_int_equal(after.mtime, before.mtime);
}

/* Its connection has ended with the question. It is back and idle, and asked once more by who appends. */
static void test_asked_again(void **state)
{
	(void)state;
	fixture.are_clients_silent = true;
	file_send(&other, ask_file_open(file, 2), &answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	expect_result(&answer, 0);
	client_lose(&fixture, &client);
	fixture_pump(&fixture);
	fixture.are_clients_silent = false;
	assert_int_equal(client_resume(&fixture, &client), 0);
	fixture.nr_revokes = 0;
	OTHER_DO(ask_append(file), 0);
	assert_int_equal(fixture.nr_revokes, 1);
	OTHER_DO(ask_appended(file), 0);
	OTHER_DO(ask_file_close(2), 0);
}

/* ---- It is gone */

static void lose_client(void)
{
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	fixture_advance(&fixture, 100);
}

static void test_gone(void **state)
{
	Afar__FileAttributes attributes = {0};

	(void)state;
	lose_client();
	assert_int_equal(nr_reads(), 1);
	assert_int_equal(nr_cleared(), 1);
	assert_int_equal(file_do(&other, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.size, END);
	assert_int_equal(attributes.allocated, 2 * FILE_UNIT);
	OTHER_DO(ask_file_open(file, 2), 0);
	OTHER_DO(ask_sync_close(file, 2 * END, 2), 0);
}

/* Others have asked before its session has ended. */
static void test_gone_after_that(void **state)
{
	(void)state;
	fixture.are_clients_silent = true;
	file_send(&other, ask_stat(file), &answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	expect_result(&answer, 0);
	assert_int_equal(nr_cleared(), 0);
	/* It has gone on until then, because its machine slept. */
	put_slot(file, 0, END + 1000);
	lose_client();
	assert_int_equal(nr_reads(), 2);
	assert_int_equal(nr_cleared(), 1);
	expect_other_size(END + 1000);
}

/* It has answered before it went, so nothing is left to read. */
static void test_gone_after_its_answer(void **state)
{
	(void)state;
	fixture.are_clients_silent = true;
	file_send(&other, ask_stat(file), &answer);
	fixture_advance(&fixture, END_GIVEN_MS);
	fixture_advance(&fixture, 100);
	expect_result(&answer, 0);
	fixture.are_clients_silent = false;
	give(0, file);
	put_slot(file, 0, END + 1000);
	lose_client();
	assert_int_equal(nr_reads(), 1);
	assert_int_equal(nr_cleared(), 1);
	expect_other_size(END);
}

/* The server cannot be asked. Nobody is told an end, nor changes the file meanwhile, and its room stays. */
static void test_away(void **state)
{
	Afar__FileAttributes attributes = {0};
	Afar__Reply *others[6] = {NULL};

	(void)state;
	refuse(-EAGAIN);
	lose_client();
	fixture.time_ns = UINT64_C(5000000000);
	file_send(&other, ask_stat(file), &others[0]);
	file_send(&other, ask_lookup(ROOT, "f"), &others[1]);
	file_send(&other, ask_map(file), &others[2]);
	file_send(&other, ask_open_to_read(file, 2), &others[3]);
	file_send(&other, ask_file_open(file, 2), &others[4]);
	file_send(&other, ask_size(file, 10), &others[5]);
	fixture_advance(&fixture, 2000);
	for (size_t i = 0; i < 6; i++)
		assert_null(others[i]);
	fixture_advance(&fixture, 2200);
	for (size_t i = 0; i < 6; i++)
		expect_result(&others[i], -EBUSY);
	fixture.time_ns = 0;
	/* One that waits for longer is told when the server is back. */
	file_send(&other, ask_stat(file), &answer);
	fixture_advance(&fixture, 20000);
	assert_null(answer);
	refuse(0);
	fixture_advance(&fixture, 2000);
	assert_non_null(answer);
	attributes = *answer->file_results->results[0]->attributes;
	assert_int_equal(attributes.size, END);
	expect_result(&answer, 0);
	assert_int_equal(file_do(&other, ask_stat(file), &attributes), 0);
	assert_int_equal(attributes.allocated, 2 * FILE_UNIT);
}

/* A listing does not wait for long, and tells nothing of such a file. */
static void test_away_and_listed(void **state)
{
	const Afar__FileResult *result;

	(void)state;
	refuse(-EAGAIN);
	lose_client();
	file_send(&other, ask_list(), &answer);
	fixture_advance(&fixture, 1000);
	assert_null(answer);
	fixture_advance(&fixture, 1100);
	assert_non_null(answer);
	result = answer->file_results->results[0];
	assert_int_equal(result->n_entries, 1);
	assert_int_equal(result->entries[0]->attributes->ino, file);
	assert_int_equal(result->entries[0]->attributes->nlink, 0);
	assert_int_equal(result->entries[0]->attributes->size, 0);
	expect_result(&answer, 0);
	/* Nor does a change of what does not need the end. */
	fixture.time_ns = UINT64_C(5000000000);
	OTHER_DO(ask_rename(ROOT, "f", ROOT, "g", 0), 0);
	OTHER_DO(ask_rename(ROOT, "g", ROOT, "f", 0), 0);
}

/* The device cannot read the slot, however often. So its end is lost, and the file is not. */
static void test_unreadable(void **state)
{
	(void)state;
	refuse(-EIO);
	lose_client();
	file_send(&other, ask_file_open(file, 2), &answer);
	fixture_advance(&fixture, 3000);
	assert_null(answer);
	for (unsigned i = 0; i < 10; i++)
		fixture_advance(&fixture, 1100);
	expect_result(&answer, 0);
	expect_other_size(TOLD);
	OTHER_DO(ask_size(file, 10), 0);
	OTHER_DO(ask_file_close(2), 0);
}

/* It reads the slot at last. */
static void test_unreadable_at_first(void **state)
{
	(void)state;
	refuse(-EIO);
	lose_client();
	fixture_advance(&fixture, 3000);
	refuse(0);
	fixture_advance(&fixture, 1100);
	expect_other_size(END);
}

/* A removed file needs no end. */
static void test_removed(void **state)
{
	(void)state;
	refuse(-EAGAIN);
	OTHER_DO(ask_remove(ROOT, "f", false), 0);
	lose_client();
	OTHER_DO(ask_stat(file), -ESTALE);
	assert_int_equal(fs_of()->space.free_bytes, POOL_BYTES);
}

/* A job of many files has died. */
static void test_many(void **state)
{
	enum { NR_FILES = 100 };
	uint64_t inos[NR_FILES];
	Afar__FileAttributes attributes;
	unsigned nr_slots = 0;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "many-%u", i);
		inos[i] = must_make(ROOT, name, S_IFREG | 0644);
		FILE_DO(ask_file_open(inos[i], 100 + i), 0);
		extend(&client, inos[i], 1);
		tell(&client, inos[i], 1);
		nr_slots += extend(&client, inos[i], 2 * FILE_UNIT + 1) != 0;
		tell(&client, inos[i], TOLD);
	}
	lose_client();
	/* Some files at the end of the room have no slots. */
	assert_in_range(nr_slots, 65, NR_FILES);
	for (unsigned i = 0; i < NR_FILES; i++)
		assert_int_equal(file_do(&other, ask_stat(inos[i]), &attributes), 0);
	expect_other_size(END);
	assert_null(fs_of()->lost_ends.by_ino);
	for (unsigned i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "many-%u", i);
		OTHER_DO(ask_remove(ROOT, name, false), 0);
	}
}

/* ---- The rest of the last unit */

/* Its file has been removed before it could be zeroed: it may be another's. */
static void test_tail_of_removed(void **state)
{
	(void)state;
	refuse_to_clear(-EAGAIN);
	lose_client();
	expect_other_size(END); /* that is known */
	OTHER_DO(ask_remove(ROOT, "f", false), 0);
	refuse_to_clear(0);
	fixture_advance(&fixture, 5000);
	assert_int_equal(nr_cleared(), 0);
}

/* Others that would write there wait. */
static void test_tail_first(void **state)
{
	(void)state;
	refuse_to_clear(-EAGAIN);
	lose_client();
	OTHER_DO(ask_open_to_read(file, 3), 0);
	file_send(&other, ask_file_open(file, 2), &answer);
	fixture_advance(&fixture, 2000);
	assert_null(answer);
	refuse_to_clear(0);
	fixture_advance(&fixture, 2000);
	expect_result(&answer, 0);
	assert_int_equal(nr_cleared(), 1);
	OTHER_DO(ask_sync_close(file, 2 * END, 2), 0);
	OTHER_DO(ask_file_close(3), 0);
}

/* The session has given its end up, so that the slot says nothing that counts. */
static void test_given_and_gone(void **state)
{
	(void)state;
	expect_other_size(END);
	put_slot(file, 0, 2 * END); /* of a write that failed */
	lose_client();
	expect_other_size(END);
	assert_int_equal(nr_reads(), 0);
	assert_int_equal(nr_cleared(), 1);
}

/* ---- After a restart */

static void test_restarted(void **state)
{
	(void)state;
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	lose_client();
	expect_other_size(END);
	assert_int_equal(nr_reads(), 1);
}

/* A call that comes before the session has ended waits for that. */
static void test_restarted_and_asked(void **state)
{
	Afar__Reply *opened = NULL;

	(void)state;
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	client_lose(&fixture, &client);
	file_send(&other, ask_stat(file), &answer);
	file_send(&other, ask_file_open(file, 2), &opened);
	fixture_advance(&fixture, FIXTURE_LEASE_MS - 100);
	assert_null(answer);
	assert_null(opened);
	fixture_advance(&fixture, 200);
	assert_non_null(answer);
	assert_int_equal(answer->file_results->results[0]->attributes->size, END);
	expect_result(&answer, 0);
	assert_non_null(opened);
	assert_int_equal(opened->file_results->results[0]->attributes->size, END);
	expect_result(&opened, 0);
	OTHER_DO(ask_file_close(2), 0);
}

/* Another session has it open, and knows nothing of the end. */
static void test_restarted_and_held(void **state)
{
	static const uint32_t accesses[] = {R_OK, R_OK | W_OK};
	Afar__Request *claim;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		restart();
		claim = ask_reclaim(2, file, TOLD);
		hold_of(claim)->reclaim->accesses[0] = accesses[i];
		OTHER_DO(claim, 0);
		if (i == 0) {
			FILE_DO(with_slot(ask_reclaim(HANDLE, file, END)), 0);
			assert_int_equal(nr_reads(), 0);
			put_slot(file, 0, END + 1);
			continue;
		}
		lose_client();
		expect_other_size(END + 1);
		assert_int_equal(nr_reads(), 1);
	}
	OTHER_DO(ask_file_close(2), 0);
}

/* A session that lives tells itself. */
static void test_restarted_and_claimed(void **state)
{
	(void)state;
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	FILE_DO(with_slot(ask_reclaim(HANDLE, file, 2 * END)), 0);
	expect_other_size(2 * END);
	assert_int_equal(nr_reads(), 0);
	assert_true(tell(&client, file, 2 * END));
}

/* A write of the slot has failed, or may land late. The slot counts for nothing then, also after a restart. */
static void test_void(void **state)
{
	Afar__FileAttributes attributes = {0};
	Afar__Request *request = ask_end(file, TOLD + 1, 0);

	(void)state;
	hold_of(request)->end->voids_slot = true;
	assert_int_equal(file_do(&client, request, &attributes), 0);
	assert_int_equal(attributes.layout, 1);
	assert_int_equal(attributes.size, TOLD + 1);
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	lose_client();
	expect_other_size(TOLD + 1);
	assert_int_equal(nr_reads(), 1);
}

/* ---- Slots that say what cannot be */

static void expect_told(void)
{
	lose_client();
	expect_other_size(TOLD);
	OTHER_DO(ask_size(file, 0), 0);
}

static void test_beyond_its_room(void **state)
{
	(void)state;
	put_slot(file, 0, 1000 * ROOM);
	expect_told();
}

static void test_of_another_layout(void **state)
{
	(void)state;
	put_slot(file, 1, END);
	expect_told();
}

static void test_shorter(void **state)
{
	(void)state;
	put_slot(file, 0, TOLD - 1);
	expect_told();
}

/* The commit that its session ends with fails once, and then the same comes about. */
static void test_failed_commit(void **state)
{
	(void)state;
	fixture.store.is_broken = true;
	lose_client();
	fixture.store.is_broken = false;
	fixture_advance(&fixture, 5000);
	expect_other_size(END);
}

/* The commit of the end that was read fails. Nothing is zeroed behind an end that nobody has stored. */
static void test_failed_commit_of_end(void **state)
{
	(void)state;
	refuse(-EAGAIN);
	lose_client();
	fixture.store.is_broken = true;
	refuse(0);
	fixture_advance(&fixture, 3000);
	assert_int_not_equal(nr_reads(), 0);
	assert_int_equal(nr_cleared(), 0);
	put_slot(file, 0, END + 1);
	fixture.store.is_broken = false;
	fixture_advance(&fixture, 5000);
	expect_other_size(END + 1);
	assert_int_equal(nr_cleared(), 1);
	assert_int_equal(fixture.servers[0].cleared + fixture.servers[1].cleared,
			 2 * FILE_UNIT - END - 1);
}

TEST_GROUP(manager_ends)
{
	const struct CMUnitTest tests[] = {
		ENDS_TEST(test_asked),
		ENDS_TEST(test_rested),
		ENDS_TEST(test_shared),
		ENDS_TEST(test_not_asked),
		ENDS_TEST(test_closed_and_opened),
		ENDS_TEST(test_closed),
		ENDS_TEST(test_silent),
		ENDS_TEST(test_silent_after_more),
		ENDS_TEST(test_silent_and_asks),
		ENDS_TEST(test_silent_for_too_long),
		ENDS_TEST(test_silent_and_back),
		ENDS_TEST(test_silent_and_back_while_away),
		ENDS_TEST(test_told_when_a_server_goes),
		ENDS_TEST(test_given_with_times_set),
		ENDS_TEST(test_asked_again),
		ENDS_TEST(test_gone),
		ENDS_TEST_FLASH(test_gone),
		ENDS_TEST(test_gone_after_that),
		ENDS_TEST(test_gone_after_its_answer),
		ENDS_TEST(test_away),
		ENDS_TEST(test_away_and_listed),
		ENDS_TEST(test_unreadable),
		ENDS_TEST(test_unreadable_at_first),
		ENDS_TEST(test_removed),
		ENDS_TEST(test_many),
		ENDS_TEST(test_tail_of_removed),
		ENDS_TEST(test_tail_first),
		ENDS_TEST(test_given_and_gone),
		ENDS_TEST(test_restarted),
		ENDS_TEST(test_restarted_and_asked),
		ENDS_TEST(test_restarted_and_held),
		ENDS_TEST(test_restarted_and_claimed),
		ENDS_TEST(test_void),
		ENDS_TEST(test_beyond_its_room),
		ENDS_TEST(test_of_another_layout),
		ENDS_TEST(test_shorter),
		ENDS_TEST(test_failed_commit),
		ENDS_TEST(test_failed_commit_of_end),
	};

	return cmocka_run_group_tests_name("manager_ends", tests, NULL, NULL);
}
