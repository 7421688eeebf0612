/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of files as the manager keeps them, against a model that knows for each byte who has it. Those who wait get
 * them in order, and circles of those who wait for each other are refused. Locks go at closing and at the fence, and
 * not with a restart.
 */
#include "lib/manager/manager_files.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/group.h"

#define LONG_MS	 60000U
#define SHARED	 1U
#define EXCLUDED 2U

static uint64_t one_file, other_file; /* both sessions have them open as 1 and 2 */

static int locks_begin(void **state)
{
	files_begin(state);
	one_file = must_make(ROOT, "one", S_IFREG | 0644);
	other_file = must_make(ROOT, "other", S_IFREG | 0644);
	FILE_DO(ask_file_open(one_file, 1), 0);
	FILE_DO(ask_file_open(other_file, 2), 0);
	OTHER_DO(ask_file_open(one_file, 1), 0);
	OTHER_DO(ask_file_open(other_file, 2), 0);
	return 0;
}

#define LOCKS_TEST(name) cmocka_unit_test_setup_teardown(name, locks_begin, files_end)

/* ---- What is asked */

#define READER 3U /* handles of `client` that may only read, or write */
#define WRITER 4U
#define WHOLE  2U /* the kind; the two kinds know nothing of each other */

/* They are asked for one after the other, and none waits. */
static const struct {
	const char *what;
	struct fake_client *who;
	uint64_t handle, owner;
	uint32_t mode;
	uint64_t start, length;
	int status;
	uint32_t kind; /* 0: a range */
} asks[] = {
	{"no such handle", &client, 9, 1, SHARED, 0, 1, -EBADF},
	{"no such mode", &client, 1, 1, 3, 0, 1, -EINVAL},
	{"no such kind", &client, 1, 1, SHARED, 0, 1, -EINVAL, .kind = 3},
	{"up to behind the last byte", &client, 1, 1, SHARED, INT64_MAX, 2, -EINVAL},
	{"behind the last byte", &client, 1, 1, SHARED, UINT64_MAX, 1, -EINVAL},
	{"too long", &client, 1, 1, SHARED, 1, UINT64_MAX, -EINVAL},
	{"the last byte", &client, 1, 1, SHARED, INT64_MAX, 1, 0},
	{"from there to the end", &client, 1, 1, SHARED, INT64_MAX, 0, 0},
	{"a reader shares", &client, READER, 1, SHARED, 0, 1, 0},
	{"a reader excludes", &client, READER, 1, EXCLUDED, 0, 1, -EBADF},
	{"a writer excludes", &client, WRITER, 2, EXCLUDED, 1, 1, 0},
	{"a writer shares", &client, WRITER, 2, SHARED, 0, 1, -EBADF},
	{"a reader unlocks", &client, READER, 1, 0, 0, 0, 0},
	{"a reader excludes of a whole file", &client, READER, 1, EXCLUDED, 0, 0, 0, WHOLE},
	{"a range beside that", &other, 1, 1, EXCLUDED, 0, 1, 0},
	{"the whole file beside that", &other, 1, 1, SHARED, 5, 5, -EAGAIN, WHOLE},
};

static void open_one(uint64_t handle, uint32_t access)
{
	Afar__Request *request = ask_file_open(one_file, handle);

	hold_of(request)->open->access = access;
	FILE_DO(request, 0);
}

static void test_what_is_asked(void **state)
{
	Afar__Request *request = ask_lock_look(1, 1, SHARED, 0, 1);

	(void)state;
	open_one(READER, R_OK);
	open_one(WRITER, W_OK);
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		Afar__Request *ask = ask_lock(asks[i].handle, asks[i].owner, asks[i].mode,
					      asks[i].start, asks[i].length, 0);

		if (asks[i].kind != 0)
			hold_of(ask)->lock->kind = asks[i].kind;
		expect_file_case(asks[i].what, asks[i].who, ask, asks[i].status);
	}
	afar__file_lock__free_unpacked(hold_of(request)->lock_look->lock, NULL);
	hold_of(request)->lock_look->lock = NULL;
	FILE_DO(request, -EINVAL);
}

/* Its lock in the way; the caller drops the reply. */
static const Afar__FileLock *look(struct fake_client *who, Afar__Request *request,
				  Afar__Reply **reply)
{
	*reply = must(who, request);
	assert_int_equal((*reply)->file_results->results[0]->status, 0);
	assert_non_null((*reply)->file_results->results[0]->lock);
	return (*reply)->file_results->results[0]->lock;
}

static void test_who_is_in_the_way(void **state)
{
	const Afar__FileLock *lock;
	Afar__Reply *reply;

	(void)state;
	FILE_DO(ask_lock(1, 77, SHARED, 100, 50, 0), 0);
	lock = look(&other, ask_lock_look(1, 5, SHARED, 0, 0), &reply);
	assert_int_equal(lock->mode, 0);
	drop(reply);
	lock = look(&other, ask_lock_look(1, 5, EXCLUDED, 149, 1), &reply);
	assert_int_equal(lock->mode, SHARED);
	assert_int_equal(lock->start, 100);
	assert_int_equal(lock->length, 50);
	assert_int_equal(lock->pid, 0);
	drop(reply);
	lock = look(&client, ask_lock_look(1, 5, EXCLUDED, 0, 0), &reply);
	assert_int_equal(lock->pid, 77);
	assert_int_equal(lock->owner, 77);
	drop(reply);
	lock = look(&client, ask_lock_look(1, 77, EXCLUDED, 0, 0), &reply);
	assert_int_equal(lock->mode, 0);
	drop(reply);
}

static void test_no_more_than_so_many(void **state)
{
	const unsigned max = 16384;

	(void)state;
	for (unsigned i = 0; i < max; i += 256) {
		Afar__Request *request = ask_lock(1, 1, SHARED, UINT64_C(2) * i, 1, 0);
		Afar__FilesHold *hold = request->files_hold;

		hold->operations = reallocarray(hold->operations, 256, sizeof(*hold->operations));
		for (unsigned j = 1; j < 256; j++) {
			Afar__Request *more = ask_lock(1, 1, SHARED, UINT64_C(2) * (i + j), 1, 0);

			hold->operations[hold->n_operations++] = more->files_hold->operations[0];
			more->files_hold->n_operations = 0;
			afar__request__free_unpacked(more, NULL);
		}
		drop(must(&client, request));
	}
	FILE_DO(ask_lock(1, 1, SHARED, 5000000, 1, 0), -ENOLCK);
	FILE_DO(ask_lock(2, 2, SHARED, 0, 1, 0), -ENOLCK);
	OTHER_DO(ask_lock(1, 1, SHARED, 0, 1, 0), 0);
	/* One range over all of them is one. */
	FILE_DO(ask_lock(1, 1, SHARED, 0, 0, 0), 0);
	FILE_DO(ask_lock(2, 2, SHARED, 0, 1, 0), 0);
}

/* ---- Waiting */

/* Asks for all of the file, having waited so long in earlier calls. */
static void begin_again(struct fake_client *who, uint64_t owner, uint32_t waited_ms,
			Afar__Reply **answer)
{
	Afar__Request *request = ask_lock(1, owner, EXCLUDED, 0, 0, LONG_MS);

	hold_of(request)->lock->waited_ms = waited_ms;
	file_send(who, request, answer);
	assert_null(*answer);
}

static void test_who_came_first_is_first(void **state)
{
	Afar__Reply *answers[4];

	(void)state;
	FILE_DO(ask_lock(1, 9, EXCLUDED, 0, 10, 0), 0);
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 5, 10, 0), -EAGAIN);
	fixture_advance(&fixture, 100);
	begin_again(&other, 3, 0, &answers[3]);
	begin_again(&client, 2, 20, &answers[2]);
	begin_again(&client, 0, UINT32_MAX, &answers[0]);
	begin_again(&other, 1, 50, &answers[1]);
	FILE_DO(ask_lock(1, 9, 0, 0, 0, 0), 0);
	for (uint64_t i = 0; i < 4; i++) {
		for (uint64_t j = i + 1; j < 4; j++)
			assert_null(answers[j]);
		expect_result(&answers[i], 0);
		assert_int_equal(
			file_do(i % 2 ? &other : &client, ask_lock(1, i, 0, 0, 0, 0), NULL), 0);
	}
}

/* In one batch: it is unlocked, and another asks, while somebody waits. */
static void test_nobody_overtakes(void **state)
{
	Afar__Reply *first, *unlocked = NULL, *second = NULL;

	(void)state;
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 10, 0), 0);
	file_send(&other, ask_lock(1, 1, EXCLUDED, 0, 10, LONG_MS), &first);
	fixture_advance(&fixture, 10);
	fixture_send(&fixture, &client, ++client.next_id, ask_lock(1, 1, 0, 0, 10, 0), &unlocked);
	fixture_send(&fixture, &client, ++client.next_id, ask_lock(1, 2, EXCLUDED, 0, 10, LONG_MS),
		     &second);
	fixture_pump(&fixture);
	expect_result(&unlocked, 0);
	expect_result(&first, 0);
	assert_null(second);
	OTHER_DO(ask_file_close(1), 0);
	expect_result(&second, 0);
}

static void test_waits_end(void **state)
{
	Afar__Reply *waiting, *unnumbered;
	Afar__Request *request;

	(void)state;
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 10, 0), 0);
	file_send(&other, ask_lock(1, 1, SHARED, 5, 10, 1000), &waiting);
	fixture_advance(&fixture, 999);
	assert_null(waiting);
	fixture_advance(&fixture, 1);
	expect_result(&waiting, -EAGAIN);
	request = ask_lock(1, 1, SHARED, 5, 10, LONG_MS);
	hold_of(request)->lock->wait = 7;
	file_send(&other, request, &waiting);
	file_send(&other, ask_lock(1, 2, SHARED, 5, 10, LONG_MS), &unnumbered);
	FILE_DO(ask_lock_cancel(7), 0); /* it is another session's */
	OTHER_DO(ask_lock_cancel(8), 0);
	OTHER_DO(ask_lock_cancel(0), 0);
	assert_null(waiting);
	assert_null(unnumbered);
	OTHER_DO(ask_lock_cancel(7), 0);
	expect_result(&waiting, -EAGAIN);
	/* With the handle's end. */
	file_send(&other, ask_lock(1, 1, SHARED, 5, 10, LONG_MS), &waiting);
	OTHER_DO(ask_file_close(1), 0);
	expect_result(&waiting, -EBADF);
	expect_result(&unnumbered, -EBADF);
}

/* The changes of a batch are taken back if it cannot be committed, and nobody believes them. */
static void test_a_batch_fails(void **state)
{
	Afar__Reply *unlocked = NULL, *made = NULL, *waiting;

	(void)state;
	FILE_DO(ask_lock(1, 1, EXCLUDED, 10, 10, 0), 0);
	file_send(&other, ask_lock(1, 1, EXCLUDED, 15, 1, LONG_MS), &waiting);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	fixture_send(&fixture, &client, ++client.next_id, ask_lock(1, 1, 0, 12, 6, 0), &unlocked);
	fixture_send(&fixture, &client, ++client.next_id, ask_make(ROOT, "x", S_IFREG, 0, 0),
		     &made);
	fixture_pump(&fixture);
	expect_answer(unlocked, -ENOSPC, NULL);
	expect_answer(made, -ENOSPC, NULL);
	fixture.store.fail_at = 0;
	fixture_advance(&fixture, 2000);
	assert_null(waiting);
	OTHER_DO(ask_lock(1, 1, SHARED, 19, 1, 0), -EAGAIN);
	FILE_DO(ask_lock(1, 1, 0, 12, 6, 0), 0);
	expect_result(&waiting, 0);
	OTHER_DO(ask_lock(1, 1, SHARED, 19, 1, 0), -EAGAIN);
	OTHER_DO(ask_lock(1, 1, SHARED, 12, 3, 0), 0);
}

/* One who waits for what that batch has locked is given it. */
static void test_a_batch_that_locks_fails(void **state)
{
	Afar__Reply *locked = NULL, *waiting = NULL, *made = NULL;

	(void)state;
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	fixture_send(&fixture, &client, ++client.next_id, ask_lock(1, 1, EXCLUDED, 0, 10, 0),
		     &locked);
	fixture_send(&fixture, &other, ++other.next_id, ask_lock(1, 1, EXCLUDED, 0, 10, LONG_MS),
		     &waiting);
	fixture_send(&fixture, &client, ++client.next_id, ask_make(ROOT, "x", S_IFREG, 0, 0),
		     &made);
	fixture_pump(&fixture);
	fixture.store.fail_at = 0;
	expect_answer(locked, -ENOSPC, NULL);
	expect_answer(made, -ENOSPC, NULL);
	expect_result(&waiting, 0);
}

/* ---- Circles */

static void test_two_wait_for_each_other(void **state)
{
	Afar__Reply *waiting;

	(void)state;
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 1, 0), 0);
	OTHER_DO(ask_lock(2, 1, EXCLUDED, 0, 1, 0), 0);
	file_send(&client, ask_lock(2, 1, SHARED, 0, 1, LONG_MS), &waiting);
	assert_null(waiting);
	/* Another owner of that session may wait. */
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 0, 1, 0), -EAGAIN);
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 0, 1, LONG_MS), -EDEADLK);
	assert_null(waiting);
	OTHER_DO(ask_lock(2, 1, 0, 0, 1, 0), 0);
	expect_result(&waiting, 0);
}

/* Five wait for each other; the last one closes the circle. One more who waits for it closes none. */
static void test_many_wait_for_each_other(void **state)
{
	Afar__Reply *waiting[5] = {0}, *outside;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(file_do(i % 2 ? &client : &other,
					 ask_lock(1 + i % 2, i, EXCLUDED, i, 1, 0), NULL),
				 0);
	for (uint64_t i = 0; i < 4; i++) {
		file_send(i % 2 ? &client : &other,
			  ask_lock(1 + (i + 1) % 2, i, EXCLUDED, i + 1, 1, LONG_MS), &waiting[i]);
		assert_null(waiting[i]);
	}
	file_send(&client, ask_lock(1, 100, EXCLUDED, 0, 1, LONG_MS), &outside);
	assert_null(outside);
	OTHER_DO(ask_lock(1, 4, EXCLUDED, 0, 1, LONG_MS), -EDEADLK);
	/* Unwinds it. */
	OTHER_DO(ask_lock(1, 4, 0, 0, 0, 0), 0);
	for (unsigned i = 4; i > 0; i--) {
		uint64_t owner = i - 1;

		expect_result(&waiting[owner], 0);
		for (uint64_t handle = 1; handle <= 2; handle++)
			assert_int_equal(file_do(owner % 2 ? &client : &other,
						 ask_lock(handle, owner, 0, 0, 0, 0), NULL),
					 0);
	}
	expect_result(&outside, 0);
}

/* ---- When locks go */

static void test_closing_unlocks(void **state)
{
	(void)state;
	FILE_DO(ask_file_open(one_file, 3), 0);
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 10, 0), 0);
	FILE_DO(ask_lock(3, 1, EXCLUDED, 4, 2, 0), 0);
	FILE_DO(ask_file_close(1), 0);
	/* The locks through the other handle stay. */
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 0, 4, 0), 0);
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 6, 4, 0), 0);
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 4, 1, 0), -EAGAIN);
	FILE_DO(ask_sync_close(one_file, 0, 3), 0);
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 0, 10, 0), 0);
}

/* While a server has not answered, what a session that ended has posted may land there. */
static void test_locks_go_on_at_the_fence(void **state)
{
	Afar__Reply *waiting;

	(void)state;
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 10, 0), 0);
	file_send(&other, ask_lock(1, 1, EXCLUDED, 5, 10, LONG_MS), &waiting);
	fixture.servers[0].is_silent = true;
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	assert_null(state_session(fixture.core->state, client.session)->live);
	assert_null(waiting);
	OTHER_DO(ask_lock(1, 1, SHARED, 0, 1, 0), -EAGAIN);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	expect_result(&waiting, 0);
	memset(&client, 0, sizeof(client));
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
}

static void test_a_wait_ends_with_its_session(void **state)
{
	Afar__Reply *waiting;

	(void)state;
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 10, 0), 0);
	file_send(&other, ask_lock(1, 1, EXCLUDED, 5, 10, LONG_MS), &waiting);
	/* One of a connection that was lost is nobody's any more; its caller asks again. */
	client_lose(&fixture, &other);
	assert_int_equal(client_resume(&fixture, &other), 0);
	expect_answer(waiting, -AFAR_ESESSION, NULL);
	file_send(&other, ask_lock(1, 1, EXCLUDED, 5, 10, LONG_MS), &waiting);
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 10 * FIXTURE_LEASE_MS);
	FILE_DO(ask_lock(1, 1, 0, 0, 10, 0), 0);
	FILE_DO(ask_lock(1, 2, EXCLUDED, 0, 0, 0), 0);
	drop(waiting);
	memset(&other, 0, sizeof(other));
	assert_int_equal(client_open(&fixture, &other), 0);
	open_pool(&other);
}

/* ---- Ends of the manager */

static Afar__Request *ask_claim_both(bool is_last)
{
	Afar__Request *request = ask_reclaim(1, one_file, 0);
	Afar__FileReclaim *claim = hold_of(request)->reclaim;

	claim->is_last = is_last;
	return request;
}

static void test_locks_are_claimed(void **state)
{
	Afar__Reply *waiting, *looking;
	Afar__Request *claim;

	(void)state;
	FILE_DO(ask_lock(1, 1, SHARED, 0, 10, 0), 0);
	OTHER_DO(ask_lock(1, 1, SHARED, 5, 10, 0), 0);
	restart();
	FILE_DO(ask_claim_both(true), 0);
	/* The other one may have it. */
	file_send(&client, ask_lock(1, 1, EXCLUDED, 14, 1, 0), &waiting);
	assert_null(waiting);
	file_send(&client, ask_lock_look(1, 1, EXCLUDED, 14, 1), &looking);
	assert_null(looking);
	FILE_DO(ask_lock(1, 1, 0, 0, 10, 0), 0);
	claim = ask_claim_both(true);
	claim_lock(claim, 1, 1, SHARED, 5, 10);
	claim_lock(claim, 99, 1, SHARED, 5, 10); /* a file that has ended */
	OTHER_DO(claim, 0);
	expect_result(&waiting, -EAGAIN);
	assert_non_null(looking);
	assert_int_equal(looking->file_results->results[0]->lock->mode, SHARED);
	drop(looking);
	FILE_DO(ask_lock(1, 1, EXCLUDED, 0, 5, 0), 0);
	/* A claim that comes late, of what another one has by now, is passed over. */
	claim = ask_claim_both(false);
	claim_lock(claim, 1, 1, SHARED, 4, 2);
	OTHER_DO(claim, 0);
	FILE_DO(ask_lock(1, 2, SHARED, 4, 1, 0), -EAGAIN);
	FILE_DO(ask_lock(1, 1, 0, 4, 1, 0), 0);
	FILE_DO(ask_lock(1, 2, EXCLUDED, 4, 1, 0), 0);
}

/* One that never comes back is fenced first. */
static void test_nobody_claims_a_lock(void **state)
{
	Afar__Reply *waiting;

	(void)state;
	OTHER_DO(ask_lock(1, 1, EXCLUDED, 5, 10, 0), 0);
	restart();
	FILE_DO(ask_claim_both(true), 0);
	/* A caller that does not wait so long is told before its time is over. */
	fixture.time_ns = UINT64_C(400000000);
	file_send(&client, ask_lock(1, 1, SHARED, 100, 1, LONG_MS), &waiting);
	assert_null(waiting);
	fixture_advance(&fixture, 300);
	expect_result(&waiting, -EAGAIN);
	fixture.time_ns = 0;
	file_send(&client, ask_lock(1, 1, EXCLUDED, 5, 1, LONG_MS), &waiting);
	fixture.servers[0].is_silent = true;
	client_lose(&fixture, &other);
	fixture_advance(&fixture, 5 * FIXTURE_LEASE_MS);
	assert_null(waiting);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	expect_result(&waiting, 0);
	memset(&other, 0, sizeof(other));
	assert_int_equal(client_open(&fixture, &other), 0);
	open_pool(&other);
}

/* ---- At random, against a model that knows every byte */

#define NR_BYTES   24U
#define NR_OWNERS  4U /* two of each session; owner i is of session i % 2 */
#define NR_HANDLES 2U /* of each session */
#define NR_STEPS   10000U

/* An owner's lock of a byte. */
struct byte {
	uint32_t mode;
	uint64_t handle;
};

static struct byte model[NR_OWNERS][NR_BYTES];

static struct fake_client *client_of(size_t owner)
{
	return owner % 2 ? &other : &client;
}

static bool is_free(size_t owner, uint32_t mode, size_t from, size_t to)
{
	for (size_t i = 0; i < NR_OWNERS; i++)
		for (size_t byte = from; byte < to; byte++)
			if (i != owner && mode != 0 && model[i][byte].mode != 0 &&
			    (mode == EXCLUDED || model[i][byte].mode == EXCLUDED))
				return false;
	return true;
}

/* Counts the ranges, as few as there can be. */
static unsigned count_ranges(size_t session)
{
	unsigned nr = 0;

	for (size_t i = session; i < NR_OWNERS; i += 2)
		for (size_t byte = 0; byte < NR_BYTES; byte++) {
			const struct byte *at = &model[i][byte], *before = byte ? at - 1 : NULL;

			nr += at->mode != 0 &&
			      (!before || before->mode != at->mode || before->handle != at->handle);
		}
	return nr;
}

static void check_model(void)
{
	const size_t owner = random_below(NR_OWNERS);
	const uint32_t mode = (uint32_t)random_below(2) + 1;
	const size_t from = random_below(NR_BYTES);
	Afar__Reply *reply;
	const Afar__FileLock *lock =
		look(client_of(owner), ask_lock_look(1, owner, mode, from, 1), &reply);

	assert_int_equal(lock->mode == 0, is_free(owner, mode, from, from + 1));
	drop(reply);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
			state_session(fixture.core->state, client_of(i)->session)->nr_locks,
			count_ranges(i));
}

static void lock_any(void)
{
	const size_t owner = random_below(NR_OWNERS), from = random_below(NR_BYTES);
	const size_t to = from + 1 + random_below(NR_BYTES - from);
	const uint64_t handle = 1 + random_below(NR_HANDLES);
	const uint32_t mode = (uint32_t)random_below(3);
	const bool can = is_free(owner, mode, from, to);

	assert_int_equal(
		file_do(client_of(owner), ask_lock(handle, owner, mode, from, to - from, 0), NULL),
		can ? 0 : -EAGAIN);
	for (size_t byte = from; byte < to && can; byte++)
		model[owner][byte] = (struct byte){mode, handle};
}

static void close_any(void)
{
	const size_t session = random_below(2);
	const uint64_t handle = 1 + random_below(NR_HANDLES);

	assert_int_equal(file_do(client_of(session), ask_file_close(handle), NULL), 0);
	assert_int_equal(file_do(client_of(session), ask_file_open(one_file, handle), NULL), 0);
	for (size_t i = session; i < NR_OWNERS; i += 2)
		for (size_t byte = 0; byte < NR_BYTES; byte++)
			if (model[i][byte].handle == handle)
				model[i][byte] = (struct byte){0};
}

static void claim_all(size_t session)
{
	Afar__Request *claim;

	for (uint64_t handle = 1; handle <= NR_HANDLES; handle++) {
		claim = ask_reclaim(handle, one_file, 0);
		hold_of(claim)->reclaim->is_last = handle == NR_HANDLES;
		for (size_t i = session; i < NR_OWNERS; i += 2)
			for (size_t byte = 0; byte < NR_BYTES; byte++)
				if (model[i][byte].mode != 0 && model[i][byte].handle == handle)
					claim_lock(claim, handle, i, model[i][byte].mode, byte, 1);
		assert_int_equal(file_do(client_of(session), claim, NULL), 0);
	}
}

static void test_ranges_at_random(void **state)
{
	(void)state;
	memset(model, 0, sizeof(model));
	one_file = must_make(ROOT, "one", S_IFREG | 0644);
	for (size_t i = 0; i < 2 * NR_HANDLES; i++)
		assert_int_equal(file_do(client_of(i), ask_file_open(one_file, 1 + i / 2), NULL),
				 0);
	for (unsigned i = 0; i < NR_STEPS; i++) {
		lock_any();
		check_model();
		if (random_below(64) == 0)
			close_any();
		if (random_below(2048) == 0) {
			restart();
			claim_all(0);
			claim_all(1);
		}
	}
}

TEST_GROUP(manager_locks)
{
	const struct CMUnitTest tests[] = {
		LOCKS_TEST(test_what_is_asked),
		LOCKS_TEST(test_who_is_in_the_way),
		LOCKS_TEST(test_no_more_than_so_many),
		LOCKS_TEST(test_who_came_first_is_first),
		LOCKS_TEST(test_nobody_overtakes),
		LOCKS_TEST(test_waits_end),
		LOCKS_TEST(test_a_batch_fails),
		LOCKS_TEST(test_a_batch_that_locks_fails),
		LOCKS_TEST(test_two_wait_for_each_other),
		LOCKS_TEST(test_many_wait_for_each_other),
		LOCKS_TEST(test_closing_unlocks),
		LOCKS_TEST(test_locks_go_on_at_the_fence),
		LOCKS_TEST(test_a_wait_ends_with_its_session),
		LOCKS_TEST(test_locks_are_claimed),
		LOCKS_TEST(test_nobody_claims_a_lock),
		FILES_TEST(test_ranges_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
