/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A write that was given up must not land behind what the session writes after it, over whichever queue. One
 * of a server's threads stands still with the write before it, while the other would serve the next.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <afar/afar.h>
#include <afar/file.h>

#include "harness/cluster.h"
#include "lib/base/effort.h"

#define MIB   ((uint64_t)1 << 20)
#define BYTES 64U

/* The thread of the server that serves every second connection. */
static pid_t find_thread(pid_t server)
{
	char path[300], name[32];
	struct dirent *entry;
	pid_t found = 0;
	FILE *file;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)server);
	tasks = opendir(path);
	assert_non_null(tasks);
	while (found == 0 && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)server, entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && strcmp(name, "afar-data-1\n") == 0)
			found = (pid_t)atoi(entry->d_name);
		fclose(file);
	}
	closedir(tasks);
	assert_true(found > 0);
	return found;
}

static void thread_stop(pid_t thread)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SEIZE, thread, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
	assert_int_equal(waitpid(thread, &status, __WALL), thread);
	assert_true(WIFSTOPPED(status));
}

static void thread_continue(pid_t thread)
{
	assert_int_equal(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
}

static struct afar_queue *open_queue(struct afar_session *session)
{
	struct afar_queue *queue;

	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	return queue;
}

static int64_t write_to(struct afar_queue *queue, struct afar_target *target, char value)
{
	char bytes[BYTES];
	struct afar_iov iov = {.addr = bytes, .length = sizeof(bytes)};
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1, .target = target, .iov = &iov};
	struct afar_completion done;

	memset(bytes, value, sizeof(bytes));
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	return done.result;
}

static int64_t write_all(struct afar_queue *queue, struct afar_region *region, char value)
{
	return write_to(queue, afar_region_target(region), value);
}

static void expect(struct afar_region *region, char value)
{
	char bytes[BYTES] = "";

	assert_int_equal(afar_region_pread(region, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(bytes[0], value);
	assert_int_equal(bytes[BYTES - 1], value);
}

/* However long a server that goes on takes until it has come to it. */
static void connect_in_the_end(struct afar_queue *queue, struct afar_target *target)
{
	int ret;

	while ((ret = afar_queue_connect(queue, target)) == -ETIMEDOUT)
		;
	assert_int_equal(ret, 0);
}

static void test_given_up_writes_do_not_overtake(void **state)
{
	struct afar_session_options options = {.size = sizeof(options), .timeout_ms = 1500};
	struct afar_queue *first, *second, *third;
	struct afar_session *session;
	struct afar_target *target;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct cluster *cluster;
	char last[BYTES];
	pid_t thread;

	(void)state;
	assert_int_equal(cluster_start(1, 8 * MIB, &cluster), 0);
	thread = find_thread(cluster_server(cluster, 0));
	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &session), 0);
	assert_int_equal(afar_namespace_create(session, "n", NULL, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 2 * MIB), 0);
	assert_int_equal(afar_region_alloc(ns, BYTES, 0, &region), 0);
	target = afar_region_target(region);
	first = open_queue(session);
	second = open_queue(session);
	/* One connection on each thread. */
	assert_int_equal(afar_queue_connect(first, target), 0);
	assert_int_equal(afar_queue_connect(second, target), 0);
	assert_int_equal(write_all(second, region, 'A'), BYTES);

	thread_stop(thread);
	assert_int_equal(write_all(second, region, 'B'), -ETIMEDOUT);
	/* Neither its own queue, nor one that never had to do with it, nor a blocking call. */
	assert_int_equal(afar_queue_connect(second, target), -ETIMEDOUT);
	assert_int_equal(afar_queue_close(second), 0);
	third = open_queue(session);
	assert_int_equal(afar_queue_connect(third, target), -ETIMEDOUT);
	memset(last, 'C', sizeof(last));
	assert_int_equal(afar_region_pwrite(region, last, sizeof(last), 0), -ETIMEDOUT);
	thread_continue(thread);

	connect_in_the_end(third, target);
	assert_int_equal(write_all(third, region, 'D'), BYTES);
	expect(region, 'D');
	/* It is said once. */
	assert_int_equal(write_all(first, region, 'E'), BYTES);
	expect(region, 'E');
	assert_int_equal(afar_queue_close(first), 0);
	assert_int_equal(afar_queue_close(third), 0);
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_session_close(session), 0);
	cluster_stop(cluster);
}

/* Its memory stays the region's while the write may land, and no longer, however long the session lives. */
static void test_closed_under_given_up_writes(void **state)
{
	struct afar_session_options options = {.size = sizeof(options), .timeout_ms = 1500};
	struct afar_session *session, *other;
	struct afar_queue *first, *second;
	struct afar_namespace *ns, *more;
	struct afar_region *region;
	struct cluster *cluster;
	pid_t thread;

	(void)state;
	assert_int_equal(cluster_start(1, 8 * MIB, &cluster), 0);
	thread = find_thread(cluster_server(cluster, 0));
	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &session), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &other), 0);
	assert_int_equal(afar_namespace_create(session, "n", NULL, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 2 * MIB), 0);
	assert_int_equal(afar_region_alloc(ns, BYTES, 0, &region), 0);
	first = open_queue(session);
	second = open_queue(session);
	assert_int_equal(afar_queue_connect(first, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_connect(second, afar_region_target(region)), 0);

	thread_stop(thread);
	assert_int_equal(write_all(second, region, 'A'), -ETIMEDOUT);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_region_close(region), -EINVAL);
	assert_int_equal(afar_namespace_delete(other, "n", AFAR_DELETE_REGIONS), -EBUSY);
	thread_continue(thread);

	/* It is found out when the session has to do with the server again. */
	assert_int_equal(afar_region_alloc(ns, BYTES, 0, &region), 0);
	connect_in_the_end(first, afar_region_target(region));
	assert_int_equal(write_all(first, region, 'B'), BYTES);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_delete(other, "n", AFAR_DELETE_REGIONS), 0);

	/* Closed when the server answers, it is over at once. */
	assert_int_equal(afar_namespace_create(session, "m", NULL, &more), 0);
	assert_int_equal(afar_namespace_reserve(more, 2 * MIB), 0);
	assert_int_equal(afar_region_alloc(more, BYTES, 0, &region), 0);
	assert_int_equal(afar_queue_connect(first, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_connect(second, afar_region_target(region)), 0);
	thread_stop(thread);
	if (write_all(first, region, 'C') == BYTES)
		assert_int_equal(write_all(second, region, 'C'), -ETIMEDOUT);
	thread_continue(thread);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_delete(other, "m", AFAR_DELETE_REGIONS), 0);

	assert_int_equal(afar_queue_close(first), 0);
	assert_int_equal(afar_queue_close(second), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_close(more), 0);
	assert_int_equal(afar_session_close(session), 0);
	assert_int_equal(afar_session_close(other), 0);
	cluster_stop(cluster);
}

/* ---- Files */

static uint64_t free_bytes(struct afar_fs *fs)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	return stat.free_bytes + stat.pending_bytes;
}

struct file_world {
	struct cluster *cluster;
	pid_t thread; /* of the server */
	struct afar_session *session, *other;
	struct afar_fs *fs, *other_fs;
	struct afar_queue *first, *second; /* each has a connection to one thread of the server */
	struct afar_file *file;
	uint64_t root, ino;
};

static void open_files(struct file_world *world)
{
	const struct afar_session_options options = {.size = sizeof(options), .timeout_ms = 1500};
	/* The manager asks others for a third of what a session waits: longer than they wait for a server. */
	const struct afar_session_options patient = {.size = sizeof(patient), .timeout_ms = 6000};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_target *target;

	assert_int_equal(cluster_start(1, 256 * MIB, &world->cluster), 0);
	world->thread = find_thread(cluster_server(world->cluster, 0));
	assert_int_equal(afar_session_open(cluster_uri(world->cluster), &patient, &world->other),
			 0);
	/* On a busy machine it may take longer to make a file system than a write is waited for. */
	assert_int_equal(afar_fs_create(world->other, "f", NULL, NULL), 0);
	assert_int_equal(afar_session_open(cluster_uri(world->cluster), &options, &world->session),
			 0);
	assert_int_equal(afar_fs_open(world->session, "f", NULL, &world->fs), 0);
	assert_int_equal(afar_fs_open(world->other, "f", NULL, &world->other_fs), 0);
	assert_int_equal(afar_fs_stat(world->fs, &stat), 0);
	world->root = stat.root;
	/* To make a file, too. */
	assert_int_equal(afar_file_create(world->other_fs, NULL, world->root, "x", 0600, O_RDWR,
					  &world->file, NULL),
			 0);
	world->ino = afar_file_ino(world->file);
	assert_int_equal(afar_file_close(world->file), 0);
	assert_int_equal(afar_file_open(world->fs, NULL, world->ino, O_RDWR, &world->file), 0);
	target = afar_file_target(world->file);
	assert_non_null(target);
	world->first = open_queue(world->session);
	world->second = open_queue(world->session);
	assert_int_equal(afar_queue_connect(world->first, target), 0);
	assert_int_equal(afar_queue_connect(world->second, target), 0);
	assert_int_equal(write_to(world->first, target, 'A'), BYTES);
}

/* Writes to the file until a write is given up, because its thread of the server stands still. */
static void give_up_a_write(struct file_world *world)
{
	struct afar_target *target = afar_file_target(world->file);

	thread_stop(world->thread);
	if (write_to(world->first, target, 'B') == BYTES)
		assert_int_equal(write_to(world->second, target, 'B'), -ETIMEDOUT);
}

static void close_session(struct file_world *world)
{
	assert_int_equal(afar_queue_close(world->first), 0);
	assert_int_equal(afar_queue_close(world->second), 0);
	assert_int_equal(afar_session_close(world->session), 0);
}

static void close_files(struct file_world *world)
{
	assert_int_equal(afar_fs_close(world->other_fs), 0);
	assert_int_equal(afar_session_close(world->other), 0);
	cluster_stop(world->cluster);
}

/* While the write may land, nobody makes the file shorter. */
static void expect_uncut(struct file_world *world)
{
	struct afar_file *file;

	assert_int_equal(afar_file_open(world->other_fs, NULL, world->ino, O_RDWR, &file), 0);
	assert_int_equal(afar_file_truncate(file, 0), -EBUSY);
	assert_int_equal(afar_file_close(file), 0);
}

/* While the write may land, the manager also has the file open, however it was closed: its room does
 * not become another file's. */
static void expect_held(struct file_world *world)
{
	uint64_t before = free_bytes(world->other_fs);

	expect_uncut(world);
	assert_int_equal(afar_fs_unlink(world->other_fs, NULL, world->root, "x"), 0);
	assert_int_equal(free_bytes(world->other_fs), before);
}

static void close_under_given_up_write(int (*close)(struct afar_file *file))
{
	struct file_world world;
	uint64_t before;

	open_files(&world);
	give_up_a_write(&world);
	assert_int_equal(close(world.file), 0);
	expect_held(&world);
	before = free_bytes(world.other_fs);
	thread_continue(world.thread);
	/* The session closes it by itself, when the server has closed the connection. */
	while (free_bytes(world.other_fs) == before)
		test_pause();
	assert_int_equal(afar_fs_close(world.fs), 0);
	close_session(&world);
	close_files(&world);
}

static void test_file_closed_under_given_up_write(void **state)
{
	(void)state;
	close_under_given_up_write(afar_file_close);
}

static void test_file_closed_later_under_given_up_write(void **state)
{
	(void)state;
	close_under_given_up_write(afar_file_close_later);
}

/* The file system is closed, too, while the server does not answer: the file is held until the session has ended. */
static void test_file_system_closed_under_given_up_write(void **state)
{
	struct afar_file *directory;
	struct file_world world;
	uint64_t before;

	(void)state;
	open_files(&world);
	assert_int_equal(afar_file_open(world.fs, NULL, world.root, O_RDONLY, &directory), 0);
	give_up_a_write(&world);
	assert_int_equal(afar_file_close(world.file), 0);
	/* Also if that fails. */
	assert_int_equal(afar_fs_close(world.fs), -EBUSY);
	expect_uncut(&world);
	assert_int_equal(afar_file_close(directory), 0);
	assert_int_equal(afar_fs_close(world.fs), 0);
	expect_held(&world);
	before = free_bytes(world.other_fs);
	thread_continue(world.thread);
	assert_int_equal(free_bytes(world.other_fs), before);
	close_session(&world);
	while (free_bytes(world.other_fs) == before)
		test_pause();
	close_files(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_closed_under_given_up_write),
		cmocka_unit_test(test_file_closed_later_under_given_up_write),
		cmocka_unit_test(test_file_system_closed_under_given_up_write),
		cmocka_unit_test(test_closed_under_given_up_writes),
		cmocka_unit_test(test_given_up_writes_do_not_overtake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
