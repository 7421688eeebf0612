/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files as the manager keeps them, at random: two sessions, commits that fail, restarts, servers that end, sessions
 * that end while a server is silent. After every step no client believes in a part of the pool that is not its
 * file's. The records are compared with each other (files/check.c).
 */
#include "lib/manager/manager_files.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manager/regions/volumes.h"
#include "unit/group.h"

#define NR_INODES  48U
#define NR_NAMES   6U
#define NR_STEPS   20000U
#define NR_LOSSES  6U /* of servers */
#define GROWTH	   (POOL_BYTES / 2)
#define POOL_UNITS ((POOL_BYTES + NR_LOSSES * GROWTH) / FILE_UNIT)

/*
 * A client's belief: the parts of the pool that it would write to, of the files that it has open. None of
 * them may ever be free, or another file's. It believes what it was told until it closes the file, gives it
 * up, makes it shorter, or its session is fenced everywhere.
 */
struct belief {
	uint64_t ino; /* 0: nothing */
	bool units[POOL_UNITS];
};

/* An open file of a client's. */
struct opened {
	uint64_t handle; /* 0: none */
	uint64_t ino;
};

static struct actor {
	struct fake_client *client;
	bool is_lost; /* its session is being ended */
	struct opened opened[NR_INODES];
	struct belief beliefs[NR_INODES];
} actors[2];

static uint64_t inodes[NR_INODES]; /* numbers that were given */
static unsigned nr_losses;
static uint64_t next_handle;

static uint64_t any_inode(void)
{
	return inodes[random_below(NR_INODES)];
}

static void forget(struct actor *actor, uint64_t ino)
{
	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->beliefs[i].ino == ino)
			actor->beliefs[i] = (struct belief){0};
}

static void forget_all(struct actor *actor)
{
	memset(actor->opened, 0, sizeof(actor->opened));
	memset(actor->beliefs, 0, sizeof(actor->beliefs));
}

static void note_recall(uint64_t session, uint64_t ino)
{
	for (size_t i = 0; i < 2; i++)
		if (actors[i].client->session == session)
			forget(&actors[i], ino);
}

static void believe(struct actor *actor, uint64_t ino, const Afar__FileResult *result)
{
	struct belief *belief = NULL;

	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->beliefs[i].ino == ino)
			belief = &actor->beliefs[i];
	for (size_t i = 0; i < NR_INODES && belief == NULL; i++)
		if (actor->beliefs[i].ino == 0)
			belief = &actor->beliefs[i];
	assert_non_null(belief);
	belief->ino = ino;
	for (size_t i = 0; i + 2 < result->n_runs; i += 3)
		for (uint64_t unit = 0; unit < result->runs[i + 2]; unit++)
			belief->units[result->runs[i + 1] + unit] = true;
}

/* ---- Whose the pool is */

static uint64_t owners[POOL_UNITS]; /* 0: nobody's, 1: being zeroed; else 2 + ino */

static int note_owner(void *argument, uint64_t ino, const struct run *run)
{
	(void)argument;
	for (uint64_t i = 0; i < run->nr; i++)
		owners[run->pool_unit + i] = 2 + ino;
	return 0;
}

static void check_beliefs(void)
{
	memset(owners, 0, sizeof(owners));
	assert_int_equal(record_range_all_runs(fs_of(), note_owner, NULL), 0);
	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < NR_INODES; j++) {
			const struct belief *belief = &actors[i].beliefs[j];

			for (size_t unit = 0; unit < POOL_UNITS && belief->ino != 0; unit++)
				if (belief->units[unit] && owners[unit] != 2 + belief->ino)
					fail_msg("client %zu would write unit %zu for inode %llu: "
						 "it "
						 "is %llu's",
						 i, unit, (unsigned long long)belief->ino,
						 (unsigned long long)owners[unit]);
		}
}

/* ---- Steps */

static struct opened *find_opened(struct actor *actor, uint64_t handle)
{
	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->opened[i].handle == handle)
			return &actor->opened[i];
	return NULL;
}

static void note_closed(struct actor *actor, uint64_t handle)
{
	struct opened *opened = handle != 0 ? find_opened(actor, handle) : NULL;
	uint64_t ino;

	if (opened == NULL)
		return;
	ino = opened->ino;
	*opened = (struct opened){0};
	for (size_t i = 0; i < NR_INODES; i++)
		if (actor->opened[i].ino == ino)
			return;
	forget(actor, ino);
}

static Afar__Request *any_request(struct actor *actor)
{
	char name[2] = {(char)('a' + random_below(NR_NAMES)), 0};
	char other_name[2] = {(char)('a' + random_below(NR_NAMES)), 0};
	const struct opened *opened = &actor->opened[random_below(NR_INODES)];
	bool has_room = find_opened(actor, 0) != NULL;

	switch (random_below(14)) {
	case 0:
	case 1:
		return ask_make(any_inode(), name, S_IFREG | 0644,
				has_room && random_below(2) ? ++next_handle : 0,
				random_below(2) * random_below(65536));
	case 2:
		return ask_make(any_inode(), name, S_IFDIR | 0755, 0, 0);
	case 3:
		return ask_remove(any_inode(), name, random_below(2));
	case 4:
	case 5:
		return ask_rename(any_inode(), name, any_inode(), other_name,
				  (uint32_t)random_below(6));
	case 6:
		return ask_link(any_inode(), any_inode(), name);
	case 7:
	case 8:
		return ask_size(any_inode(), random_below(200000));
	case 9:
		return ask_extend(opened->ino, random_below(200000), 1 + random_below(50000));
	case 10:
		return ask_punch(opened->ino, random_below(100000), random_below(50000));
	case 11:
	case 12:
		return has_room ? ask_file_open(any_inode(), ++next_handle)
				: ask_file_close(opened->handle);
	default:
		return random_below(2)
			       ? ask_file_close(opened->handle)
			       : ask_sync_close(opened->ino, random_below(200000), opened->handle);
	}
}

static void note_opened(struct actor *actor, uint64_t handle, const Afar__FileResult *result)
{
	struct opened *opened = find_opened(actor, 0);

	assert_non_null(opened);
	*opened = (struct opened){handle, result->attributes->ino};
	believe(actor, result->attributes->ino, result);
}

/* Notes what it believes once a change has been answered. */
static void note_change(struct actor *actor, const Afar__FileChange *ask,
			const Afar__FileResult *result)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (ask->make->handle != 0)
			note_opened(actor, ask->make->handle, result);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		believe(actor, ask->extend->ino, result);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		forget(actor, ask->set->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		forget(actor, ask->punch->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		/* It may have given back what lies behind the end. */
		forget(actor, ask->sync->ino);
		note_closed(actor, ask->sync->close);
		break;
	default:
		break;
	}
}

static void note_hold(struct actor *actor, const Afar__FileHold *ask,
		      const Afar__FileResult *result)
{
	if (ask->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
		note_opened(actor, ask->open->handle, result);
	else if (ask->what_case == AFAR__FILE_HOLD__WHAT_CLOSE)
		note_closed(actor, ask->close->handle);
}

static void note_inode(const Afar__FileResult *result)
{
	if (result->attributes == NULL)
		return;
	for (size_t i = 0; i < NR_INODES; i++)
		if (inodes[i] == result->attributes->ino)
			return;
	inodes[1 + random_below(NR_INODES - 1)] = result->attributes->ino;
}

/* The request is its to read until the core has freed it: a copy is made. */
static Afar__Request *copy_request(const Afar__Request *request)
{
	size_t length = afar__request__get_packed_size(request);
	uint8_t *packed = malloc(length + 1);
	Afar__Request *copy;

	afar__request__pack(request, packed);
	copy = afar__request__unpack(NULL, length, packed);
	free(packed);
	return copy;
}

static void act(struct actor *actor)
{
	Afar__Request *request = any_request(actor), *copy = copy_request(request);
	Afar__Reply *reply = fixture_ask(&fixture, actor->client, request);
	const Afar__FileResult *result =
		reply->status == 0 ? reply->file_results->results[0] : NULL;

	if (result != NULL && result->status == 0) {
		note_inode(result);
		if (copy->call_case == AFAR__REQUEST__CALL_FILES_CHANGE)
			note_change(actor, change_of(copy), result);
		else
			note_hold(actor, hold_of(copy), result);
	}
	afar__request__free_unpacked(copy, NULL);
	drop(reply);
}

/* ---- What goes wrong */

static void reclaim(struct actor *actor)
{
	Afar__Request *request = ask_reclaim(0, 0, 0);
	Afar__FileReclaim *ask = hold_of(request)->reclaim;

	ask->handles = calloc(NR_INODES, sizeof(uint64_t));
	ask->inos = calloc(NR_INODES, sizeof(uint64_t));
	ask->accesses = calloc(NR_INODES, sizeof(uint32_t));
	ask->ends = calloc(NR_INODES, sizeof(uint64_t));
	ask->layouts = calloc(NR_INODES, sizeof(uint64_t));
	for (size_t i = 0; i < NR_INODES; i++) {
		if (actor->opened[i].handle == 0)
			continue;
		ask->handles[ask->n_handles++] = actor->opened[i].handle;
		ask->inos[ask->n_inos++] = actor->opened[i].ino;
		ask->accesses[ask->n_accesses++] = R_OK | W_OK;
		ask->ends[ask->n_ends++] = random_below(100000);
		ask->layouts[ask->n_layouts++] = random_below(3);
	}
	assert_int_equal(file_do(actor->client, request, NULL), 0);
}

static void restart_and_claim(void)
{
	restart();
	reclaim(&actors[0]);
	reclaim(&actors[1]);
	fixture_advance(&fixture, 10);
}

/* Its session ends. A server does not answer at first: what it posted there may still land. */
static void lose(struct actor *actor)
{
	fixture.servers[0].is_silent = true;
	client_lose(&fixture, actor->client);
	fixture_advance(&fixture, 2 * FIXTURE_LEASE_MS);
	check_beliefs();
	for (unsigned i = 0; i < 10; i++) {
		struct actor *left = actor == &actors[0] ? &actors[1] : &actors[0];

		/* Without a server that answers, a change may have to wait. */
		if (left->client->peer != NULL && fixture.servers[0].peer != NULL)
			fixture_pump(&fixture);
		check_beliefs();
	}
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	forget_all(actor);
	memset(actor->client, 0, sizeof(*actor->client));
	assert_int_equal(client_open(&fixture, actor->client), 0);
	open_pool(actor->client);
}

/* A server ends, and begins anew with nothing. The commit of that may fail. The pool grows by as much
 * elsewhere, or there. */
static void lose_server(void)
{
	size_t index = random_below(2);
	uint64_t bytes;

	fixture_kill(&fixture, index);
	if (random_below(2)) {
		fixture.store.fail_at = 1;
		fixture.store.failure = -ENOSPC;
		assert_int_equal(fixture_join(&fixture, index, 64 * MIB), -ENOSPC);
		fixture.store.fail_at = 0;
		check_files();
	}
	assert_int_equal(fixture_join(&fixture, index, 64 * MIB), 0);
	check_beliefs();
	check_files();
	bytes = volume_region(ns_of(fs_number))->length + GROWTH;
	EXPECT(actors[0].client, ask_reserve(fs_number, GROWTH), 0);
	EXPECT(actors[0].client, ask_resize(fs_number, bytes), 0);
	nr_losses++;
}

static void disturb(void)
{
	if (random_below(512) == 0)
		restart_and_claim();
	if (random_below(1024) == 0)
		lose(&actors[1]);
	if (random_below(2048) == 0 && nr_losses < NR_LOSSES)
		lose_server();
	if (random_below(64) == 0)
		fixture.servers[0].refuse_to_zero = random_below(2) ? -EIO : 0;
	if (random_below(64) == 0)
		fixture_advance(&fixture, 2);
}

static void test_at_random(void **state)
{
	(void)state;
	memset(actors, 0, sizeof(actors));
	actors[0].client = &client;
	actors[1].client = &other;
	fixture.recalled = note_recall;
	nr_losses = 0;
	for (size_t i = 0; i < NR_INODES; i++)
		inodes[i] = ROOT;
	for (unsigned i = 0; i < NR_STEPS; i++) {
		if (random_below(8) == 0) {
			fixture.store.fail_at = 1;
			fixture.store.failure = -ENOSPC;
		}
		act(&actors[random_below(2)]);
		fixture.store.fail_at = 0;
		check_beliefs();
		if (random_below(8) == 0)
			check_files();
		disturb();
	}
	fixture.servers[0].refuse_to_zero = 0;
	restart_and_claim();
	fixture_advance(&fixture, 3000);
	check_files();
	assert_int_equal(fs_of()->pending_bytes, 0);
	assert_true(nr_losses > 0);
}

TEST_GROUP(manager_files_random)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
