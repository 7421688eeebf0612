/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files whose manager or server is killed. Afterwards, what was written and told before is there, and
 * open files go on. Calls wait if they were asked to. Possible losses are said once for each open file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"

#define NR_SERVERS  2U
#define FLASH_BYTES (192 * MIB)
#define LENGTH	    (300 * KIB)
#define NR_PAUSES   100U /* for which a daemon is away: milliseconds */

static struct afar_fs *fs;
static uint64_t root;
static uint8_t data[LENGTH];

static void begin(uint32_t tier, uint32_t retry_ms)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = tier,
					      .stripe_bytes = 64 * KIB},
		.uid = geteuid(),
		.gid = getegid(),
	};
	const struct afar_fs_options options = {.size = sizeof(options), .retry_ms = retry_ms};
	const struct afar_session_options hasty = {.size = sizeof(hasty), .timeout_ms = 3000};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	fill(data, sizeof(data), 1);
	assert_int_equal(cluster_start_flash(NR_SERVERS, 128 * MIB, FLASH_BYTES, &cluster), 0);
	/* Servers on a busy machine may take longer than the tests wait to get a pool ready. */
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	assert_int_equal(afar_fs_create(session, "files", &policy, NULL), 0);
	assert_int_equal(afar_session_close(session), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), &hasty, &session), 0);
	assert_int_equal(afar_fs_open(session, "files", &options, &fs), 0);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	root = stat.root;
}

static void end(void)
{
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(session, "files"), 0);
	assert_int_equal(afar_session_close(session), 0);
	cluster_stop(cluster);
}

static struct afar_file *make_file(const char *name)
{
	struct afar_file *file;

	assert_int_equal(afar_file_create(fs, NULL, root, name, 0644, O_RDWR | O_EXCL, &file, NULL),
			 0);
	return file;
}

static void write_all(struct afar_file *file, uint64_t length)
{
	if (afar_file_pwrite(file, data, length, 0) != (ssize_t)length)
		fail_msg("write: %s", afar_last_error());
}

static void expect_all(struct afar_file *file, uint64_t length)
{
	static uint8_t got[LENGTH + 1];

	ssize_t ret = afar_file_pread(file, got, sizeof(got), 0);

	if (ret != (ssize_t)length)
		fail_msg("read: %zd: %s", ret, afar_last_error());
	assert_memory_equal(got, data, length);
}

static void restart_manager(void)
{
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
}

static void restart_server(unsigned i)
{
	cluster_kill_server(cluster, i);
	assert_int_equal(cluster_restart_server(cluster, i), 0);
}

/* ---- The manager */

static void test_manager_killed(void **state)
{
	const struct afar_fs_options patient = {.size = sizeof(patient), .retry_ms = 60000};
	struct afar_session *another;
	struct afar_file *file, *gone, *there, *shorter;
	struct afar_fs *other;
	char name[16];

	(void)state;
	begin(AFAR_TIER_DRAM, 60000);
	file = make_file("file");
	gone = make_file("gone");
	shorter = make_file("shorter");
	for (unsigned i = 0; i < 4; i++) {
		uint64_t length = LENGTH - (3 - i) * 50 * KIB;

		/* The size is in the manager's memory alone, and told again. */
		write_all(file, length);
		if (i == 0) {
			write_all(gone, LENGTH);
			write_all(shorter, LENGTH);
			assert_int_equal(afar_file_truncate(shorter, 1000), 0);
			assert_int_equal(afar_fs_unlink(fs, NULL, root, "gone"), 0);
		}
		restart_manager();
		expect_all(file, length);
		expect_all(gone, LENGTH);
		expect_all(shorter, 1000);
		assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
		assert_int_equal(afar_fs_open(another, "files", &patient, &other), 0);
		assert_int_equal(afar_file_open(other, NULL, afar_file_ino(file), O_RDONLY, &there),
				 0);
		expect_all(there, length);
		assert_int_equal(afar_file_close(there), 0);
		assert_int_equal(afar_fs_close(other), 0);
		assert_int_equal(afar_session_close(another), 0);
		snprintf(name, sizeof(name), "file-%u", i);
		assert_int_equal(afar_file_close(make_file(name)), 0);
	}
	assert_int_equal(afar_file_close(file), 0);
	assert_int_equal(afar_file_close(gone), 0);
	assert_int_equal(afar_file_close(shorter), 0);
	expect_error(afar_file_open(fs, NULL, 1234567, O_RDONLY, &file), -ESTALE);
	end();
}

struct call {
	pthread_t thread;
	struct afar_file *file;
	uint64_t length;
	bool is_write;
};

static void *carry_out(void *argument)
{
	const struct call *call = argument;

	if (call->is_write)
		write_all(call->file, call->length);
	else
		expect_all(call->file, call->length);
	return NULL;
}

/* Daemons end with the thread that has started them, so the call is made by another one. */
static void begin_call(struct call *call)
{
	assert_int_equal(pthread_create(&call->thread, NULL, carry_out, call), 0);
	for (unsigned i = 0; i < NR_PAUSES; i++)
		test_pause();
}

/* Calls wait while the manager is away. */
static void test_manager_away(void **state)
{
	struct call call = {.length = LENGTH, .is_write = true};

	(void)state;
	begin(AFAR_TIER_DRAM, 60000);
	call.file = make_file("file");
	cluster_kill_manager(cluster);
	begin_call(&call);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	pthread_join(call.thread, NULL);
	expect_all(call.file, LENGTH);
	assert_int_equal(afar_file_sync(call.file), 0);
	assert_int_equal(afar_file_close(call.file), 0);
	end();
}

/* ---- A server with flash */

static void test_server_away(void **state)
{
	struct call call = {.length = LENGTH / 2};

	(void)state;
	begin(AFAR_TIER_FLASH, 60000);
	call.file = make_file("file");
	write_all(call.file, LENGTH / 2);
	assert_int_equal(afar_file_sync(call.file), 0);
	for (unsigned i = 0; i < 4; i++) {
		call.is_write = i == 3;
		call.length = call.is_write ? LENGTH : LENGTH / 2;
		cluster_kill_server(cluster, i % NR_SERVERS);
		begin_call(&call);
		assert_int_equal(cluster_restart_server(cluster, i % NR_SERVERS), 0);
		pthread_join(call.thread, NULL);
	}
	expect_all(call.file, LENGTH);
	assert_int_equal(afar_file_close(call.file), 0);
	end();
}

/* Without retry_ms they fail, and go on when the server is back. */
static void test_server_gone(void **state)
{
	struct afar_file *file;
	ssize_t ret;

	(void)state;
	begin(AFAR_TIER_FLASH, 0);
	file = make_file("file");
	write_all(file, LENGTH);
	assert_int_equal(afar_file_sync(file), 0);
	cluster_kill_server(cluster, 0);
	ret = afar_file_pwrite(file, data, LENGTH, 0);
	if (ret != -AFAR_ESERVER && ret != -ETIMEDOUT)
		fail_msg("%zd: %s", ret, afar_last_error());
	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	expect_all(file, LENGTH);
	assert_int_equal(afar_file_close(file), 0);
	end();
}

static void test_losses(void **state)
{
	struct afar_file *first, *second, *quiet, *closed;

	(void)state;
	begin(AFAR_TIER_FLASH, 60000);
	first = make_file("first");
	second = make_file("second");
	quiet = make_file("quiet");
	closed = make_file("closed");
	write_all(quiet, LENGTH);
	assert_int_equal(afar_file_sync(quiet), 0);
	write_all(first, LENGTH);
	write_all(second, LENGTH);
	write_all(closed, LENGTH);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		restart_server(i);
	expect_error(afar_file_sync(first), -AFAR_EUNSYNCED);
	assert_int_equal(afar_file_sync(quiet), 0);
	expect_error(afar_file_sync(second), -AFAR_EUNSYNCED);
	assert_int_equal(afar_file_sync(first), 0);
	assert_int_equal(afar_file_sync(second), 0);
	expect_error(afar_file_close(closed), -AFAR_EUNSYNCED);
	expect_error(afar_file_close(closed), -EINVAL);
	write_all(first, LENGTH);
	assert_int_equal(afar_file_sync(first), 0);
	expect_all(first, LENGTH);
	assert_int_equal(afar_file_close(first), 0);
	assert_int_equal(afar_file_close(second), 0);
	assert_int_equal(afar_file_close(quiet), 0);
	end();
}

static struct afar_file *open_file(uint64_t ino)
{
	struct afar_file *file;

	assert_int_equal(afar_file_open(fs, NULL, ino, O_RDWR, &file), 0);
	return file;
}

/* Any session's sync tells of losses, not only the writer's; also if the file was closed meanwhile. */
static void test_losses_of_others(void **state)
{
	struct afar_file *writer, *syncer, *later, *another;
	uint64_t closed, ino;

	(void)state;
	begin(AFAR_TIER_FLASH, 60000);
	writer = make_file("closed");
	closed = afar_file_ino(writer);
	write_all(writer, LENGTH);
	assert_int_equal(afar_file_close(writer), 0);
	writer = make_file("file");
	ino = afar_file_ino(writer);
	write_all(writer, LENGTH);
	syncer = open_file(ino);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		restart_server(i);
	expect_error(afar_file_sync(syncer), -AFAR_EUNSYNCED);
	assert_int_equal(afar_file_sync(syncer), 0);
	later = open_file(ino);
	assert_int_equal(afar_file_sync(later), 0);
	assert_int_equal(afar_file_close(later), 0);
	expect_error(afar_file_sync(writer), -AFAR_EUNSYNCED);
	assert_int_equal(afar_file_sync(writer), 0);
	another = open_file(closed);
	expect_error(afar_file_sync(another), -AFAR_EUNSYNCED);
	assert_int_equal(afar_file_sync(another), 0);
	assert_int_equal(afar_file_close(another), 0);
	assert_int_equal(afar_file_close(writer), 0);
	assert_int_equal(afar_file_close(syncer), 0);
	end();
}

/* Data that was synced, or written with O_DSYNC, survives all of them. */
static void test_synced(void **state)
{
	struct afar_file *synced, *durable;
	uint64_t inos[2];

	(void)state;
	begin(AFAR_TIER_FLASH, 60000);
	synced = make_file("synced");
	assert_int_equal(afar_file_create(fs, NULL, root, "durable", 0644,
					  O_RDWR | O_DSYNC | O_EXCL, &durable, NULL),
			 0);
	inos[0] = afar_file_ino(synced);
	inos[1] = afar_file_ino(durable);
	write_all(synced, LENGTH);
	assert_int_equal(afar_file_sync(synced), 0);
	write_all(durable, LENGTH);
	cluster_kill_manager(cluster);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		cluster_kill_server(cluster, i);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		assert_int_equal(cluster_restart_server(cluster, i), 0);
	expect_all(synced, LENGTH);
	expect_all(durable, LENGTH);
	assert_int_equal(afar_file_close(synced), 0);
	assert_int_equal(afar_file_sync(durable), -AFAR_EUNSYNCED);
	assert_int_equal(afar_file_close(durable), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(afar_file_open(fs, NULL, inos[i], O_RDONLY, &synced), 0);
		expect_all(synced, LENGTH);
		assert_int_equal(afar_file_close(synced), 0);
	}
	end();
}

/* The call that closes a file, of which nobody is told, fails as a whole: it is sent again, and the size is not lost. */
static void test_closed_later(void **state)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct afar_session *another;
	struct afar_file *file;
	struct afar_fs *other;
	uint64_t ino;

	(void)state;
	begin(AFAR_TIER_DRAM, 0);
	file = make_file("file");
	ino = afar_file_ino(file);
	write_all(file, LENGTH);
	cluster_kill_manager(cluster);
	assert_int_equal(afar_file_close_later(file), 0);
	/* This waits as long as that call, which begins a moment later, and fails long before the manager is there again. */
	assert_true(afar_fs_getattr(fs, ino + 1000, &stat) < 0);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	assert_int_equal(afar_fs_open(another, "files", NULL, &other), 0);
	assert_int_equal(afar_fs_getattr(other, ino, &stat), 0);
	assert_int_equal(stat.bytes, LENGTH);
	assert_int_equal(afar_fs_close(other), 0);
	assert_int_equal(afar_session_close(another), 0);
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manager_killed), cmocka_unit_test(test_manager_away),
		cmocka_unit_test(test_server_away),    cmocka_unit_test(test_server_gone),
		cmocka_unit_test(test_losses),	       cmocka_unit_test(test_losses_of_others),
		cmocka_unit_test(test_synced),	       cmocka_unit_test(test_closed_later),
	};

	if (argc > 1) /* one of them */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
