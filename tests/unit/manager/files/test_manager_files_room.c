/* SPDX-License-Identifier: BSD-3-Clause */
/* A file system's pool: when a server ends, limits, what files get ahead, and what goes back. */
#include "lib/manager/manager_files.h"

#include <stdio.h>
#include <sys/stat.h>

#include "manager/regions/volumes.h"
#include "unit/group.h"

#define POOL_UNITS (POOL_BYTES / FILE_UNIT)

/* It comes back without its memory. A commit may fail meanwhile: it asks until it is let in. */
static void restart_server(size_t i)
{
	fixture_kill(&fixture, i);
	while (fixture_join(&fixture, i, 64 * MIB) < 0)
		;
}

static uint64_t lost_units(void)
{
	return layout_lost_bytes(volume_region(ns_of(fs_number))->layout) / FILE_UNIT;
}

/* Whatever is lost is a file's, or nobody's; what is not is a file's, free, or being zeroed. */
static void expect_units(uint64_t in_files, uint64_t lost_in_files)
{
	const struct fs *fs = fs_of();

	assert_int_equal(fs->nr_lost_units, lost_in_files);
	assert_int_equal((fs->space.free_bytes + fs->pending_bytes) / FILE_UNIT + in_files -
				 lost_in_files,
			 fs->space.length / FILE_UNIT - lost_units());
	check_files();
}

/* All is on the servers in turn: a file has as much on the one as on the other. */
static void test_a_server_ends(void **state)
{
	(void)state;
	for (uint64_t fails_at = 0; fails_at < 3; fails_at++) {
		char name[] = {(char)('a' + fails_at), '\0'};
		Afar__FileAttributes attributes;
		uint64_t lost_before = lost_units(), has = fs_of()->nr_lost_units, lost;

		assert_int_equal(file_do(&client,
					 ask_make(ROOT, name, S_IFREG | 0644, 1, POOL_BYTES / 4),
					 &attributes),
				 0);
		FILE_DO(ask_size(attributes.ino, POOL_BYTES / 4), 0);
		fixture.servers[0].refuse_to_zero = -EIO;
		FILE_DO(ask_size(attributes.ino, POOL_BYTES / 8), 0);
		fixture.store.fail_at = fails_at;
		fixture.store.failure = -ENOSPC;
		restart_server(1);
		fixture.store.fail_at = 0;
		assert_true(lost_units() > lost_before);
		lost = fs_of()->nr_lost_units - has;
		assert_true(lost != 0 && lost < POOL_UNITS / 8);
		expect_units(has + POOL_UNITS / 8, has + lost);
		restart();
		reclaim_nothing();
		expect_units(has + POOL_UNITS / 8, has + lost);
		/* Nobody gets what the file gives up there. */
		fixture.servers[0].refuse_to_zero = 0;
		fixture_advance(&fixture, 2000);
		FILE_DO(ask_remove(ROOT, name, false), 0);
		fixture_advance(&fixture, 2000);
		expect_units(has, has);
		assert_int_equal(fs_of()->pending_bytes, 0);
		EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
		EXPECT(&client,
		       ask_resize(fs_number, volume_region(ns_of(fs_number))->length + POOL_BYTES),
		       0);
	}
}

struct count {
	uint64_t ino, server, nr;
};

static int count_at(void *argument, uint64_t ino, const struct run *run)
{
	const struct layout *layout = volume_region(ns_of(fs_number))->layout;
	struct count *count = argument;

	for (uint64_t i = 0; i < run->nr && ino == count->ino; i++) {
		struct layout_piece at =
			layout_piece_at(layout, (run->pool_unit + i) * FILE_UNIT, FILE_UNIT);

		count->nr += layout->homes[at.copy->home].server == count->server;
	}
	return 0;
}

/* How many units a file has on a server. */
static uint64_t units_at(uint64_t ino, size_t server)
{
	struct count count = {.ino = ino, .server = fixture.servers[server].number};

	assert_int_equal(record_range_all_runs(fs_of(), count_at, &count), 0);
	return count.nr;
}

static Afar__Request *anywhere(Afar__Request *request)
{
	change_of(request)->extend->is_anywhere = true;
	return request;
}

static Afar__Request *without(Afar__Request *request)
{
	change_of(request)->make->goes_without = true;
	return request;
}

/* One server is away: the others give room, and it gives what they have not, if that is wanted. */
static void test_room_is_where_servers_are(void **state)
{
	const uint64_t half = POOL_UNITS / 2;
	Afar__FileAttributes attributes;
	uint64_t file, small;

	(void)state;
	fixture_kill(&fixture, 1);
	file = must_make(ROOT, "f", S_IFREG | 0644);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, half / 2 * FILE_UNIT), 0);
	assert_int_equal(units_at(file, 1), 0);
	assert_int_equal(units_at(file, 0), half / 2);
	assert_int_equal(
		file_do(&client, ask_make(ROOT, "g", S_IFREG | 0644, 2, FILE_UNIT), &attributes),
		0);
	small = attributes.ino;
	assert_int_equal(units_at(small, 1), 0);
	assert_int_equal(units_at(small, 0), 1);
	FILE_DO(ask_extend(small, 0, (half - half / 2 + 1) * FILE_UNIT), -ENOSPC);
	check_files();
	/* All that is there, and no more. */
	FILE_DO(ask_extend(small, 0, (half - half / 2) * FILE_UNIT), 0);
	assert_int_equal(units_at(small, 0), half - half / 2);
	FILE_DO(ask_extend(file, POOL_BYTES, FILE_UNIT), -ENOSPC);
	FILE_DO(ask_make(ROOT, "h", S_IFREG | 0644, 3, FILE_UNIT), -ENOSPC);
	assert_int_equal(file_do(&client,
				 without(ask_make(ROOT, "h", S_IFREG | 0644, 3, FILE_UNIT)),
				 &attributes),
			 0);
	assert_int_equal(units_at(attributes.ino, 1), 0);
	FILE_DO(anywhere(ask_extend(file, POOL_BYTES, 3 * FILE_UNIT)), 0);
	assert_int_equal(units_at(file, 1), 3);
	check_files();
	restart_server(1);
	assert_int_equal(fs_of()->nr_lost_units, 3);
}

/* A sweep has just ended, so the next one rests: unless somebody needs what it gives back. */
static void test_zeroing_rests(void **state)
{
	const uint64_t half = POOL_BYTES / 2;
	Afar__Reply *extended = NULL;
	uint64_t file;

	(void)state;
	FILE_DO(ask_make(ROOT, "a", S_IFREG | 0644, 0, FILE_UNIT), 0);
	FILE_DO(ask_make(ROOT, "b", S_IFREG | 0644, 0, half), 0);
	FILE_DO(ask_remove(ROOT, "a", false), 0);
	assert_int_equal(fs_of()->pending_bytes, 0);
	file = must_make(ROOT, "f", S_IFREG | 0644);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_remove(ROOT, "b", false), 0);
	assert_int_equal(fs_of()->pending_bytes, half);
	fixture_send(&fixture, &client, ++client.next_id,
		     ask_extend(file, 0, POOL_BYTES - 2 * FILE_UNIT), &extended);
	fixture_pump(&fixture);
	assert_non_null(extended); /* no time has gone by */
	assert_int_equal(extended->file_results->results[0]->status, 0);
	expect_answer(extended, 0, NULL);
	assert_int_equal(fs_of()->pending_bytes, 0);
	FILE_DO(ask_file_close(1), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_true(fs_of()->pending_bytes != 0);
	fixture_advance(&fixture, 100);
	assert_int_equal(fs_of()->pending_bytes, 0);
}

/* A device may take long for it: manager_fixture.c looks at the time that the manager gives. */
static void test_flash_is_zeroed(void **state)
{
	(void)state;
	FILE_DO(ask_make(ROOT, "a", S_IFREG | 0644, 0, POOL_BYTES / 2), 0);
	FILE_DO(ask_remove(ROOT, "a", false), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(fs_of()->pending_bytes, 0);
	assert_int_equal(fixture.stores[0].nr_trimmed + fixture.stores[1].nr_trimmed,
			 POOL_BYTES / 2);
}

static void test_limits(void **state)
{
	uint64_t file;

	(void)state;
	EXPECT(&client, ask_limits(MIB, 2), 0);
	file = must_make(ROOT, "f", S_IFREG | 0644);
	must_make(ROOT, "g", S_IFREG | 0644);
	FILE_DO(ask_make(ROOT, "h", S_IFREG | 0644, 0, 0), -EDQUOT);
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, MIB + 1), -EDQUOT);
	FILE_DO(ask_extend(file, 0, MIB), 0);
	FILE_DO(ask_extend(file, MIB, 1), -EDQUOT);
	/* A limit below what it has takes nothing away. */
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	EXPECT(&client, ask_limits(FILE_UNIT, 1), -ENOSPC);
	assert_int_equal(fs_of()->max_inodes, 2);
	assert_int_equal(ns_of(fs_number)->max_bytes, MIB);
	EXPECT(&client, ask_limits(FILE_UNIT, 1), 0);
	FILE_DO(ask_extend(file, 0, MIB), 0);
	FILE_DO(ask_extend(file, MIB, 1), -EDQUOT);
	restart();
	reclaim_nothing();
	assert_int_equal(fs_of()->max_inodes, 1);
	assert_int_equal(ns_of(fs_number)->max_bytes, FILE_UNIT);
}

static uint64_t free_units(void)
{
	return fs_of()->space.free_bytes / FILE_UNIT;
}

/* Each write farther on than the last: what the file gets ahead stays below 1 MiB, or an eighth of it, together. */
static void test_little_is_left_behind(void **state)
{
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644), all;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, FILE_UNIT), 0); /* looks at the pool */
	all = free_units() + 1;
	for (uint64_t i = 0; i < 200; i++) {
		FILE_DO(ask_extend(file, i * 1000 * FILE_UNIT, FILE_UNIT), 0);
		assert_true(all - free_units() <= i + 1 + MIB / FILE_UNIT);
	}
	/* It goes on in one piece, then. */
	for (uint64_t i = 0; i < 100; i++)
		FILE_DO(ask_extend(file, (200000 + i) * FILE_UNIT, FILE_UNIT), 0);
	assert_true(all - free_units() <= 300 + MIB / FILE_UNIT);
}

/* A client that writes on and on says what it has written of what came ahead, and goes on getting
 * some. */
static void test_who_writes_on_gets_more(void **state)
{
	const struct inode *inode;
	uint64_t file = must_make(ROOT, "f", S_IFREG | 0644), used = 0, to = 0;
	unsigned nr_extends = 0;

	(void)state;
	FILE_DO(ask_file_open(file, 1), 0);
	for (uint64_t unit = 0; unit < POOL_UNITS * 3 / 4; unit++) {
		Afar__Request *request;

		if (unit < to) {
			used++; /* without a word to the manager */
			continue;
		}
		request = ask_extend(file, unit * FILE_UNIT, FILE_UNIT);
		change_of(request)->extend->ahead_to = to;
		change_of(request)->extend->ahead_used = used;
		FILE_DO(request, 0);
		inode = file_cached(fs_of(), file)->inode;
		to = inode->spare_to;
		used = 0;
		nr_extends++;
	}
	assert_true(nr_extends < 20);
	/* If it says less than all, the rest counts; if it says more than there is, no more
	 * does. */
	for (uint64_t said = 0; said < 3; said++) {
		uint64_t behind = inode->nr_behind, nr = inode->spare_to - inode->spare_from;
		Afar__Request *request = ask_extend(file, (to + said) * FILE_UNIT, FILE_UNIT);

		if (nr == 0)
			break;
		change_of(request)->extend->ahead_to = said == 1 ? to + 1 : to;
		change_of(request)->extend->ahead_used = said == 0 ? nr - 1 : UINT64_MAX;
		FILE_DO(request, 0);
		inode = file_cached(fs_of(), file)->inode;
		assert_int_equal(inode->nr_behind, behind + (said == 0 ? 1 : said == 1 ? nr : 0));
		to = inode->spare_to;
	}
}

/* `client` has written a new file up to `end`, and has got more ahead; `other` has it open, too. */
static uint64_t make_ahead(const char *name, uint64_t end)
{
	uint64_t file = must_make(ROOT, name, S_IFREG | 0644), all;

	FILE_DO(ask_file_open(file, 1), 0);
	OTHER_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, FILE_UNIT), 0); /* looks at the pool */
	all = free_units() + 1;
	FILE_DO(ask_extend(file, 0, end), 0);
	FILE_DO(ask_extend(file, end, FILE_UNIT), 0);
	FILE_DO(ask_end(file, end, 0), 0);
	assert_true(all - free_units() > end / FILE_UNIT + 1);
	return file;
}

/* Room that `client` has got ahead, or asked for, and not written goes back when the last one closes the file, whoever
 * that is. */
static void test_room_ahead_goes_back(void **state)
{
	uint64_t end = 5 * FILE_UNIT, file, all;

	(void)state;
	FILE_DO(ask_make(ROOT, "a", S_IFREG | 0644, 9, FILE_UNIT), 0);
	FILE_DO(ask_file_close(9), 0); /* nothing was written */
	fixture_advance(&fixture, 1000);
	all = free_units();
	assert_int_equal(all, POOL_UNITS);

	file = make_ahead("f", end);
	FILE_DO(ask_sync_close(file, end, 1), 0);
	fixture_advance(&fixture, 1000);
	assert_true(all - free_units() > 5);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	OTHER_DO(ask_file_close(1), -ENOSPC);
	check_files();
	assert_true(all - free_units() > 5);
	OTHER_DO(ask_file_close(1), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(all - free_units(), 5);
	check_files();
	expect_size(file, end);

	/* Killed: its servers have closed its connections before. */
	file = make_ahead("g", end);
	OTHER_DO(ask_file_close(1), 0);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	assert_int_equal(all - free_units(), 10);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
	expect_size(file, end);
	check_files();
}

/* After a restart others may have it open, and write there, who have still to tell. */
static void test_room_ahead_of_those_who_have_not_told(void **state)
{
	uint64_t end = 5 * FILE_UNIT, file = make_ahead("f", end), all;

	(void)state;
	restart();
	FILE_DO(ask_reclaim(1, file, end), 0);
	all = free_units();
	FILE_DO(ask_file_close(1), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), all);
	OTHER_DO(ask_reclaim(1, file, end + 1), 0);
	OTHER_DO(ask_file_close(1), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS - 6);
	expect_size(file, end + 1);
}

/* The manager ends, and then the writer, who has not told what he had open. Bytes that nobody has committed are not
 * there. */
static void test_room_ahead_of_a_writer_who_ends_with_the_manager(void **state)
{
	uint64_t end = 5 * FILE_UNIT, file = make_ahead("f", end), gone;
	Afar__FileAttributes attributes;

	(void)state;
	gone = must_make(ROOT, "g", S_IFREG | 0644);
	FILE_DO(ask_file_open(gone, 2), 0);
	FILE_DO(ask_extend(gone, 0, end), 0);
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	fixture_advance(&fixture, 1000);
	assert_true(free_units() < POOL_UNITS - 10);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	fixture_advance(&fixture, 1000);
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
	check_files();
	assert_int_equal(file_do(&client, ask_stat(file), &attributes), 0);
	assert_int_equal(free_units(), POOL_UNITS - attributes.size / FILE_UNIT);
	/* One who goes on keeps it until he closes. */
	FILE_DO(ask_file_open(file, 1), 0);
	FILE_DO(ask_extend(file, 0, end), 0);
	FILE_DO(ask_extend(file, end, FILE_UNIT), 0);
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	FILE_DO(ask_reclaim_of(1, file, end, attributes.layout), 0);
	fixture_advance(&fixture, 1000);
	assert_true(free_units() < POOL_UNITS - 6);
	FILE_DO(ask_file_close(1), 0);
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS - 5);
	FILE_DO(ask_stat(gone), -ESTALE);
	restart();
	assert_int_equal(fs_of()->nr_left, 0); /* nothing is noted any more */
	reclaim_nothing();
}

/* One without a name, whose writer goes on after a restart and gives it one, is remembered over the next restart. */
static void test_room_ahead_of_one_that_gets_a_name(void **state)
{
	Afar__Request *request = ask_make(ROOT, "", S_IFREG | 0644, 1, 0);
	Afar__FileAttributes attributes;

	(void)state;
	change_of(request)->make->is_nameless = change_of(request)->make->is_linkable = true;
	assert_int_equal(file_do(&client, request, &attributes), 0);
	FILE_DO(ask_extend(attributes.ino, 0, 4 * FILE_UNIT), 0);
	FILE_DO(ask_extend(attributes.ino, 4 * FILE_UNIT, FILE_UNIT), 0);
	assert_true(free_units() < POOL_UNITS - 5);
	restart();
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	FILE_DO(ask_reclaim(1, attributes.ino, 5 * FILE_UNIT), 0);
	fixture_advance(&fixture, 1000);
	FILE_DO(ask_link(attributes.ino, ROOT, "f"), 0);
	request = ask_sync_close(attributes.ino, 5 * FILE_UNIT, 0);
	change_of(request)->sync->is_trimmed = false;
	FILE_DO(request, 0);
	restart();
	reclaim_nothing();
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), POOL_UNITS - 5);
	expect_size(attributes.ino, 5 * FILE_UNIT);
}

#define MANY 300U

/* The most that ended in one commit, and how many were left to end at the last one. */
static size_t most_at_once, nr_left_before;

static void look_at_left(void *argument, bool is_done)
{
	size_t nr = fs_of()->nr_left, ended = nr_left_before - nr;

	(void)argument;
	if (!is_done)
		return;
	if (nr < nr_left_before && ended > most_at_once)
		most_at_once = ended;
	nr_left_before = nr;
}

/* Many files had room ahead: others get their turn between them. */
static void test_many_with_room_ahead(void **state)
{
	char name[8];

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		Afar__FileAttributes attributes;

		snprintf(name, sizeof(name), "f%u", (unsigned)i);
		assert_int_equal(file_do(&client, ask_make(ROOT, name, S_IFREG | 0644, i + 1, 0),
					 &attributes),
				 0);
		FILE_DO(ask_extend(attributes.ino, 0, FILE_UNIT), 0);
	}
	assert_true(free_units() < POOL_UNITS - MANY);
	restart();
	nr_left_before = fs_of()->nr_left;
	assert_int_equal(nr_left_before, MANY);
	most_at_once = 0;
	fixture.store.hold = look_at_left;
	reclaim_nothing();
	fixture_advance(&fixture, 1000);
	fixture.store.hold = NULL;
	assert_int_equal(fs_of()->nr_left, 0);
	assert_true(most_at_once != 0 && most_at_once < MANY);
	assert_int_equal(free_units(), POOL_UNITS);
}

/* ---- Records of runs are damaged */

static const struct metastore_ops *whole_ops;
static struct metastore_ops damaged_ops;

static int range_without_runs(struct metastore *base, struct meta_bytes prefix,
			      struct meta_bytes after, size_t max,
			      int (*visit)(void *argument, struct meta_bytes key,
					   struct meta_bytes value),
			      void *argument)
{
	if (prefix.length > 9 && *(const char *)prefix.data == 'L')
		return error_fail(-EBADMSG, "a run's record is damaged");
	return whole_ops->range(base, prefix, after, max, visit, argument);
}

static size_t count_sessions(void)
{
	const struct session *session;
	size_t nr = 0;

	cds_list_for_each_entry (session, &fixture.core->state->sessions, node)
		nr++;
	return nr;
}

static void expect_left(const char *name, uint64_t file, uint64_t gone)
{
	/* The rest went on: the manager's own work, and the end of the writer. */
	assert_int_equal(fs_of()->nr_left, 0);
	assert_true(fixture.core->retry_at == 0 && fixture.core->files->retry_at == 0);
	FILE_DO(ask_make(ROOT, name, S_IFREG | 0644, 0, FILE_UNIT), 0);
	FILE_DO(ask_remove(ROOT, name, false), 0);
	fixture_advance(&fixture, 1000);
	assert_int_equal(fs_of()->pending_bytes, 0);
	FILE_DO(ask_stat(file), 0);
	FILE_DO(ask_stat(gone), 0);
}

/* One file with room ahead, and one without a name: they keep what they have until their records can be read. */
static void test_damaged_records_hold_up_nothing(void **state)
{
	uint64_t end = 5 * FILE_UNIT, file = make_ahead("f", end), gone;
	Afar__FileAttributes attributes;

	(void)state;
	assert_int_equal(
		file_do(&client, ask_make(ROOT, "g", S_IFREG | 0644, 7, FILE_UNIT), &attributes),
		0);
	gone = attributes.ino;
	FILE_DO(ask_remove(ROOT, "g", false), 0);
	whole_ops = fixture.store.base.ops;
	damaged_ops = *whole_ops;
	damaged_ops.range = range_without_runs;
	restart();
	fixture.store.base.ops = &damaged_ops;
	reclaim_nothing();
	fixture_advance(&fixture, 1000);
	expect_left("a", file, gone);
	fixture.store.base.ops = whole_ops;
	/* Those who had them open end. */
	restart();
	FILE_DO(ask_reclaim(1, file, end), 0);
	FILE_DO(ask_reclaim(7, gone, 0), 0);
	OTHER_DO(ask_reclaim(0, 0, 0), 0);
	fixture.store.base.ops = &damaged_ops;
	client_lose(&fixture, &client);
	fixture_advance(&fixture, 10000);
	fixture_advance(&fixture, 1000);
	assert_int_equal(count_sessions(), 1);
	assert_true(cds_list_empty(&fixture.core->state->ending));
	assert_int_equal(client_open(&fixture, &client), 0);
	open_pool(&client);
	expect_left("a", file, gone);
	fixture.store.base.ops = whole_ops;
	restart();
	reclaim_nothing();
	fixture_advance(&fixture, 1000);
	FILE_DO(ask_stat(gone), -ESTALE);
	expect_size(file, end);
	assert_int_equal(free_units(), POOL_UNITS - 5);
	check_files();
}

/* Releases all that can be; returns how much that was. */
static uint64_t release_all(void)
{
	Afar__Reply *reply = must(&client, ask_release(fs_number, UINT64_MAX));
	uint64_t bytes = reply->namespace_released->bytes;

	drop(reply);
	check_files();
	return bytes;
}

static void grow_pool(uint64_t bytes)
{
	EXPECT(&client, ask_reserve(fs_number, bytes), 0);
	EXPECT(&client, ask_resize(fs_number, volume_region(ns_of(fs_number))->length + bytes), 0);
}

static uint64_t granted(void)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(fixture.servers[i].granted,
				 state_server(fixture.core->state, fixture.servers[i].number)
					 ->dram.granted_bytes);
		bytes += fixture.servers[i].granted;
	}
	return bytes;
}

/* Extents in which files have nothing go back, and the pool grows elsewhere. */
static void test_free_extents_go_back(void **state)
{
	const struct region *pool = volume_region(ns_of(fs_number));
	uint64_t number;

	(void)state;
	grow_pool(POOL_BYTES);
	FILE_DO(ask_make(ROOT, "small", S_IFREG | 0644, 0, FILE_UNIT), 0);
	FILE_DO(ask_make(ROOT, "large", S_IFREG | 0644, 0, 2 * POOL_BYTES - 2 * FILE_UNIT), 0);
	assert_int_equal(release_all(), 0);
	assert_int_equal(granted(), 2 * POOL_BYTES);
	FILE_DO(ask_remove(ROOT, "large", false), 0);
	/* A release that cannot be committed has not happened. */
	number = pool->layout_number;
	fixture_advance(&fixture, 1000);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	EXPECT(&client, ask_release(fs_number, UINT64_MAX), -ENOSPC);
	check_files();
	assert_int_equal(pool->layout_number, number);
	assert_int_equal(granted(), 2 * POOL_BYTES);
	assert_int_equal(release_all(), 2 * POOL_BYTES - 2 * MIB);
	assert_true(pool->layout_number > number); /* so clients look again */
	assert_int_equal(pool->length, 2 * POOL_BYTES);
	fixture_advance(&fixture, 1000);
	assert_int_equal(granted(), 2 * MIB);
	assert_int_equal(free_units(), 2 * MIB / FILE_UNIT - 1);
	restart();
	reclaim_nothing();
	fixture_advance(&fixture, 1000);
	assert_int_equal(free_units(), 2 * MIB / FILE_UNIT - 1);
	expect_units(1, 0);
	/* The next one finds nothing more, and what it grows by goes, too. */
	assert_int_equal(release_all(), 0);
	grow_pool(POOL_BYTES);
	FILE_DO(ask_make(ROOT, "large", S_IFREG | 0644, 0, POOL_BYTES), 0);
	expect_units(1 + POOL_BYTES / FILE_UNIT, 0);
	FILE_DO(ask_remove(ROOT, "large", false), 0);
	FILE_DO(ask_remove(ROOT, "small", false), 0);
	assert_int_equal(release_all(), POOL_BYTES + 2 * MIB);
	fixture_advance(&fixture, 1000);
	assert_int_equal(granted(), 0);
	/* The layout does not grow with each time. */
	pool = volume_region(ns_of(fs_number));
	assert_int_equal(pool->layout->nr_groups, 1);
	grow_pool(POOL_BYTES);
	FILE_DO(ask_make(ROOT, "large", S_IFREG | 0644, 0, POOL_BYTES), 0);
	expect_units(POOL_BYTES / FILE_UNIT, 0);
}

/* No more than is asked for, and not what is being zeroed, unless it soon is. */
static void test_release_waits_for_zeroing(void **state)
{
	Afar__Reply *reply;

	(void)state;
	FILE_DO(ask_make(ROOT, "f", S_IFREG | 0644, 0, POOL_BYTES), 0);
	fixture.servers[0].refuse_to_zero = -EIO;
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	assert_int_equal(fs_of()->pending_bytes, POOL_BYTES);
	assert_int_equal(release_all(), 0);
	fixture.servers[0].refuse_to_zero = 0;
	fixture_advance(&fixture, 2000);
	FILE_DO(ask_make(ROOT, "f", S_IFREG | 0644, 0, POOL_BYTES), 0);
	FILE_DO(ask_make(ROOT, "g", S_IFREG | 0644, 0, 0), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	reply = must(&client, ask_release(fs_number, 3 * MIB));
	assert_int_equal(reply->namespace_released->bytes, 2 * MIB);
	drop(reply);
	assert_int_equal(free_units(), 2 * MIB / FILE_UNIT);
	assert_int_equal(release_all(), 2 * MIB);
	assert_int_equal(free_units(), 0);
}

static void eleven_minutes(void)
{
	fixture_advance(&fixture, 660000);
	fixture_advance(&fixture, 1);
}

/* An emptied pool goes back by itself when nobody has needed it for ten minutes. */
static void test_an_emptied_pool_goes_back(void **state)
{
	const uint64_t minutes = 60000;

	(void)state;
	FILE_DO(ask_make(ROOT, "f", S_IFREG | 0644, 0, POOL_BYTES), 0);
	FILE_DO(ask_make(ROOT, "g", S_IFREG | 0644, 0, 0), 0);
	fixture_advance(&fixture, 30 * minutes);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	fixture_advance(&fixture, 1000);
	fixture_advance(&fixture, 9 * minutes);
	assert_int_equal(granted(), POOL_BYTES);
	/* It was needed for a moment, and then a little is. */
	FILE_DO(ask_make(ROOT, "f", S_IFREG | 0644, 0, POOL_BYTES - FILE_UNIT), 0);
	FILE_DO(ask_remove(ROOT, "f", false), 0);
	fixture_advance(&fixture, 1000);
	fixture_advance(&fixture, 2 * minutes);
	fixture_advance(&fixture, 1);
	assert_int_equal(granted(), POOL_BYTES);
	FILE_DO(ask_make(ROOT, "h", S_IFREG | 0644, 0, FILE_UNIT), 0);
	eleven_minutes();
	eleven_minutes();
	assert_int_equal(granted(), POOL_BYTES);
	FILE_DO(ask_remove(ROOT, "h", false), 0);
	fixture_advance(&fixture, 1000);
	/* Records of an older copy say nothing of what is free. */
	ns_of(fs_number)->is_suspect = true;
	eleven_minutes();
	eleven_minutes();
	EXPECT(&client, ask_release(fs_number, UINT64_MAX), -EBADMSG);
	assert_int_equal(granted(), POOL_BYTES);
	ns_of(fs_number)->is_suspect = false;
	/* Room that somebody has just reserved stays. */
	EXPECT(&client, ask_reserve(fs_number, POOL_BYTES), 0);
	eleven_minutes();
	eleven_minutes();
	assert_int_equal(granted(), 2 * POOL_BYTES);
	EXPECT(&client, ask_resize(fs_number, volume_region(ns_of(fs_number))->length + POOL_BYTES),
	       0);
	fixture.store.fail_at = 1;
	fixture.store.failure = -ENOSPC;
	FILE_DO(ask_make(ROOT, "h", S_IFREG | 0644, 0, FILE_UNIT), -ENOSPC);
	FILE_DO(ask_make(ROOT, "h", S_IFREG | 0644, 0, FILE_UNIT), 0); /* looks at the pool */
	FILE_DO(ask_remove(ROOT, "h", false), 0);
	eleven_minutes();
	fixture.store.fail_at = 1;
	eleven_minutes();
	check_files();
	eleven_minutes();
	assert_int_equal(granted(), 0);
	check_files();
	grow_pool(POOL_BYTES);
	FILE_DO(ask_make(ROOT, "f", S_IFREG | 0644, 0, POOL_BYTES), 0);
}

TEST_GROUP(manager_files_room)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_a_server_ends),
		FILES_TEST(test_room_is_where_servers_are),
		FILES_TEST(test_zeroing_rests),
		cmocka_unit_test_setup_teardown(test_flash_is_zeroed, files_begin_on_flash,
						files_end),
		FILES_TEST(test_limits),
		FILES_TEST(test_little_is_left_behind),
		FILES_TEST(test_who_writes_on_gets_more),
		FILES_TEST(test_room_ahead_goes_back),
		FILES_TEST(test_room_ahead_of_those_who_have_not_told),
		FILES_TEST(test_room_ahead_of_a_writer_who_ends_with_the_manager),
		FILES_TEST(test_room_ahead_of_one_that_gets_a_name),
		FILES_TEST(test_many_with_room_ahead),
		FILES_TEST(test_damaged_records_hold_up_nothing),
		FILES_TEST(test_free_extents_go_back),
		FILES_TEST(test_release_waits_for_zeroing),
		FILES_TEST(test_an_emptied_pool_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
