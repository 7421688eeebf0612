/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests in the middle of commits, at random: batches of two sessions, of which some fail, questions and holds
 * beside them, restarts. No answer tells of what is not committed, and whoever was told that a file is open has
 * it open.
 */
#include "lib/manager/manager_beside.h"

#include <string.h>
#include <sys/stat.h>

#include "unit/group.h"

#define HANDLES_MAX 8U
#define NR_STEPS    3000U
#define NR_BATCH    4U
#define NR_NAMES    4U

static uint64_t inodes[32];

static uint64_t any_inode(void)
{
	return inodes[random_below(32)];
}

static const char *any_name(void)
{
	static const char *const names[NR_NAMES] = {"a", "b", "c", "d"};

	return names[random_below(NR_NAMES)];
}

/* The handles that each session has open by its own account, because it was told so. */
static uint64_t opened[2][HANDLES_MAX + 1];

static uint64_t any_handle(void)
{
	return 1 + random_below(HANDLES_MAX);
}

static Afar__Request *any_make(void)
{
	Afar__Request *request =
		ask_make(any_inode(), any_name(), S_IFREG | 0644, random_below(2) * any_handle(),
			 random_below(2) * random_below(65536));

	change_of(request)->make->may_exist = random_below(2) == 0;
	return request;
}

static Afar__Request *any_change(void)
{
	switch (random_below(12)) {
	case 0:
	case 1:
		return any_make();
	case 10:
		return ask_sync_close(any_inode(), random_below(200000), any_handle());
	case 2:
		return ask_make(any_inode(), any_name(), S_IFDIR | 0755, 0, 0);
	case 3:
		return ask_remove(any_inode(), any_name(), random_below(2));
	case 4:
		return ask_rename(any_inode(), any_name(), any_inode(), any_name(),
				  (uint32_t)random_below(3));
	case 5:
		return ask_link(any_inode(), any_inode(), any_name());
	case 6:
		return ask_size(any_inode(), random_below(200000));
	case 7:
		return ask_link_to(any_inode(), any_name(), any_name());
	default:
		return ask_xattr(any_inode(), random_below(2) ? "user.x" : "user.y", any_name());
	}
}

static Afar__Request *any_hold(void)
{
	switch (random_below(10)) {
	case 0:
		has_told = true;
		return ask_end(any_inode(), random_below(200000), 0);
	case 1:
	case 2:
	case 3:
		return ask_file_close(any_handle());
	default:
		return ask_file_open(any_inode(), any_handle());
	}
}

/* A request that changes something, by one of the two, and how that goes on. */
struct sent {
	size_t who;
	uint64_t opens, closes; /* handles; 0: none */
	bool is_sent, is_kept;
	Afar__Reply *reply;
};

static struct fake_client *const clients[2] = {&client, &other};

static Afar__Request *any_request(struct sent *sent, bool is_hold)
{
	Afar__Request *request = is_hold ? any_hold() : any_change();

	*sent = (struct sent){.who = random_below(2)};
	if (is_hold && hold_of(request)->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
		sent->opens = hold_of(request)->open->handle;
	else if (is_hold && hold_of(request)->what_case == AFAR__FILE_HOLD__WHAT_CLOSE)
		sent->closes = hold_of(request)->close->handle;
	else if (!is_hold && change_of(request)->what_case == AFAR__FILE_CHANGE__WHAT_MAKE)
		sent->opens = change_of(request)->make->handle;
	else if (!is_hold && change_of(request)->what_case == AFAR__FILE_CHANGE__WHAT_SYNC)
		sent->closes = change_of(request)->sync->close;
	return request;
}

static struct question any_question(void)
{
	struct question question = {.ask = (enum ask)random_below(NR_ASKS), .ino = any_inode()};

	question.path = question.ask == WALK ? "/a/b/c" : "an inode";
	question.name = question.ask == XATTR ? "user.x" : any_name();
	return question;
}

static void note_handles(const struct sent *sent)
{
	const Afar__FileResult *result =
		sent->reply->status == 0 ? sent->reply->file_results->results[0] : NULL;

	if (result == NULL || result->status != 0)
		return;
	if (sent->opens != 0)
		opened[sent->who][sent->opens] = result->attributes->ino;
	if (sent->closes != 0)
		opened[sent->who][sent->closes] = 0;
}

static void check_handles(void)
{
	for (size_t who = 0; who < 2; who++)
		for (uint64_t handle = 1; handle <= HANDLES_MAX; handle++) {
			const struct hold *hold = hold_find(fs_of(), clients[who]->session, handle);

			assert_int_equal(hold != NULL ? hold->file->ino : 0, opened[who][handle]);
		}
}

static struct sent sent_beside;

static void act_beside(void *argument, bool is_done)
{
	ask_beside(argument, is_done);
	if (!sent_beside.is_sent && random_below(2) == 0) {
		Afar__Request *request = any_request(&sent_beside, true);

		sent_beside.is_sent = true;
		sent_beside.is_kept = !fixture_ask_beside(&fixture, clients[sent_beside.who],
							  request, &sent_beside.reply);
	}
}

static void note_inode(const Afar__Reply *reply)
{
	const Afar__FileResult *result =
		reply->status == 0 ? reply->file_results->results[0] : NULL;

	if (result != NULL && result->status == 0 && result->attributes != NULL)
		inodes[1 + random_below(31)] = result->attributes->ino;
}

/* A batch of some requests, with others in the middle of its commit. Adds how many of these waited, and did not. */
static void run_any_batch(size_t *nr_kept, size_t *nr_beside)
{
	struct sent sent[NR_BATCH];
	size_t nr = 1 + random_below(NR_BATCH);

	has_told = false;
	while (nr_asked < NR_QUESTIONS)
		add_question(any_question(), random_below(2));
	for (size_t i = 0; i < nr; i++) {
		Afar__Request *request = any_request(&sent[i], random_below(3) == 0);
		struct fake_client *who = clients[sent[i].who];

		fixture_send(&fixture, who, ++who->next_id, request, &sent[i].reply);
		cds_list_entry(fixture.events.prev, struct event, node)->settled_below =
			who->next_id - NR_BATCH;
	}
	memset(&sent_beside, 0, sizeof(sent_beside));
	run_batch(act_beside, random_below(4) == 0);
	for (size_t i = 0; i < nr; i++) {
		note_inode(sent[i].reply);
		note_handles(&sent[i]);
		drop(sent[i].reply);
	}
	if (sent_beside.is_sent) {
		note_handles(&sent_beside);
		drop(sent_beside.reply);
	}
	check_handles();
	for (size_t i = 0; i < nr_asked; i++) {
		*nr_kept += asked[i].is_asked && asked[i].is_kept;
		*nr_beside += asked[i].is_asked && !asked[i].is_kept;
	}
	*nr_kept += sent_beside.is_sent && sent_beside.is_kept;
	*nr_beside += sent_beside.is_sent && !sent_beside.is_kept;
	check_answers();
}

static void test_at_random(void **state)
{
	size_t nr_kept = 0, nr_beside = 0;

	(void)state;
	memset(opened, 0, sizeof(opened));
	for (size_t i = 0; i < 32; i++)
		inodes[i] = ROOT;
	for (unsigned step = 0; step < NR_STEPS; step++) {
		run_any_batch(&nr_kept, &nr_beside);
		if (random_below(32) == 0)
			check_files();
		if (random_below(256) == 0) {
			restart();
			memset(opened, 0, sizeof(opened));
			reclaim_nothing();
		}
	}
	assert_true(nr_kept > NR_STEPS / 4);
	assert_true(nr_beside > NR_STEPS / 4);
}

TEST_GROUP(manager_beside_random)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
