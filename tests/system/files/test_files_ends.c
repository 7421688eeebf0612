/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends that sessions have for themselves. A process alone makes a file longer, and tells nobody. Others see where it ends all the same: at once while it
 * lives, and as it said last when it was killed or stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define FLASH_BYTES (192 * MIB)
#define NR_PAUSES   60000U /* at most: milliseconds */

static const char *where;
static struct afar_fs *fs;
static uint64_t root;

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(1 + (offset * 2654435761U >> 24) % 255);
}

static void fill_from(uint8_t *out, uint64_t offset, size_t length)
{
	for (size_t i = 0; i < length; i++)
		out[i] = byte_at(offset + i);
}

/* ---- The writer: a process that carries orders out */

enum what {
	WRITE,	/* `nr` times `length` bytes, behind what it wrote before */
	APPEND, /* likewise, wherever the file ends */
	GO_ON,	/* likewise for ever, and tells each end */
	SYNC,
	CUT, /* to `length` bytes */
	CLOSE,
	OPEN, /* again */
	SIZE,
};

struct order {
	enum what what;
	uint32_t nr, length;
	uint64_t at; /* where an APPEND begins, if others have appended; else 0 */
};

/* The end, or a negative errno. */
struct answer {
	int64_t value;
};

struct writer {
	struct afar_file *file, *appending;
	uint64_t end;
	int says;
};

static int64_t write_some(struct writer *writer, const struct order *order)
{
	static uint8_t bytes[64 * KIB];

	if (order->at != 0)
		writer->end = order->at;
	for (uint32_t i = 0; i < order->nr; i++) {
		uint64_t at = writer->end;
		ssize_t ret;

		fill_from(bytes, at, order->length);
		ret = order->what == APPEND
			      ? afar_file_append(writer->appending, bytes, order->length, 0, &at)
			      : afar_file_pwrite(writer->file, bytes, order->length, at);
		if (ret != (ssize_t)order->length)
			return ret < 0 ? ret : -EIO;
		writer->end = at + order->length;
		if (order->what == GO_ON) {
			struct answer answer = {(int64_t)writer->end};

			if (write(writer->says, &answer, sizeof(answer)) != sizeof(answer))
				exit(1);
		}
	}
	return (int64_t)writer->end;
}

static int64_t carry_out(struct writer *writer, const struct order *order)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int64_t ret;

	switch (order->what) {
	case SYNC:
		return afar_file_sync(writer->file);
	case CUT:
		ret = afar_file_truncate(writer->file, order->length);
		writer->end = order->length;
		return ret;
	case CLOSE:
		ret = afar_file_close(writer->appending);
		return ret ? ret : afar_file_close(writer->file);
	case SIZE:
		ret = afar_file_stat(writer->file, &stat);
		return ret ? ret : (int64_t)stat.bytes;
	default:
		return write_some(writer, order);
	}
}

/* It makes the file, whose name is its behaviour. */
static int writer_main(char **argv)
{
	struct afar_session *session_of_it;
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct writer writer = {.says = atoi(argv[3])};
	struct afar_fs *system;
	struct order order;

	if (afar_session_open(argv[2], NULL, &session_of_it) ||
	    afar_fs_open(session_of_it, "files", NULL, &system) || afar_fs_stat(system, &stat) ||
	    afar_file_create(system, NULL, stat.root, argv[1], 0644, O_RDWR, &writer.file, NULL) ||
	    afar_file_open(system, NULL, afar_file_ino(writer.file), O_WRONLY | O_APPEND,
			   &writer.appending)) {
		fprintf(stderr, "writer: %s\n", afar_last_error());
		return 1;
	}
	while (read(atoi(argv[4]), &order, sizeof(order)) == sizeof(order)) {
		struct answer answer = {carry_out(&writer, &order)};

		if (answer.value < 0)
			fprintf(stderr, "writer: %s\n", afar_last_error());
		if (write(writer.says, &answer, sizeof(answer)) != sizeof(answer))
			return 1;
	}
	return 0;
}

static void tell(const struct client_process *writer, enum what what, uint32_t nr, uint32_t length,
		 uint64_t at)
{
	const struct order order = {what, nr, length, at};

	assert_int_equal(write(writer->go, &order, sizeof(order)), sizeof(order));
}

static int64_t hear(struct client_process *writer)
{
	struct answer answer;

	client_hear(writer, &answer, sizeof(answer));
	if (answer.value < 0)
		fail_msg("the writer failed: %lld", (long long)answer.value);
	return answer.value;
}

static uint64_t have(struct client_process *writer, enum what what, uint32_t nr, uint32_t length)
{
	tell(writer, what, nr, length, 0);
	return (uint64_t)hear(writer);
}

/* Returns what the last whole answers say that are there. */
static uint64_t hear_rest(struct client_process *writer, uint64_t last)
{
	struct answer answer;

	while (read(writer->says, &answer, sizeof(answer)) == sizeof(answer))
		last = (uint64_t)answer.value;
	return last;
}

/* ---- The others */

static bool is_on_flash(void)
{
	return strcmp(where, "flash") == 0;
}

static void begin(void)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = is_on_flash() ? AFAR_TIER_FLASH
								    : AFAR_TIER_DRAM,
					      .stripe_bytes = 64 * KIB},
		.uid = geteuid(),
		.gid = getegid(),
	};
	const struct afar_fs_options options = {.size = sizeof(options), .retry_ms = 60000};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = is_on_flash() ? cluster_start_flash(2, 128 * MIB, FLASH_BYTES, &cluster)
				: cluster_start(2, 128 * MIB, &cluster);

	assert_int_equal(ret, 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	assert_int_equal(afar_fs_create(session, "files", &policy, NULL), 0);
	assert_int_equal(afar_fs_open(session, "files", &options, &fs), 0);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	root = stat.root;
}

static void end(void)
{
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_session_close(session), 0);
	cluster_stop(cluster);
}

static struct afar_file_stat look_up(const char *name)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	if (afar_fs_lookup(fs, NULL, root, name, &stat) != 0)
		fail_msg("look up: %s", afar_last_error());
	return stat;
}

static uint64_t size_of(const char *name)
{
	return look_up(name).bytes;
}

static void check_bytes(struct afar_file *file, uint64_t length)
{
	static uint8_t got[64 * KIB], wanted[64 * KIB];

	for (uint64_t at = 0; at < length; at += sizeof(got)) {
		size_t part = length - at < sizeof(got) ? length - at : sizeof(got);

		assert_int_equal(afar_file_pread(file, got, part, at), part);
		fill_from(wanted, at, part);
		assert_memory_equal(got, wanted, part);
	}
}

static struct afar_file *open_it(const char *name, int flags)
{
	struct afar_file *file;

	if (afar_file_open(fs, NULL, look_up(name).ino, flags, &file) != 0)
		fail_msg("open: %s", afar_last_error());
	return file;
}

/* Opens the file, and checks that it has just these bytes. */
static void expect_bytes(const char *name, uint64_t length)
{
	struct afar_file *file = open_it(name, O_RDONLY);
	uint8_t byte;

	check_bytes(file, length);
	assert_int_equal(afar_file_pread(file, &byte, 1, length), 0);
	assert_int_equal(afar_file_close(file), 0);
}

static void start_writer(struct client_process *writer, const char *name)
{
	client_start(writer, name, cluster_uri(cluster));
}

static void end_writer(struct client_process *writer)
{
	int says = dup(writer->says);

	have(writer, CLOSE, 0, 0);
	close(writer->go);
	writer->go = says;
	client_reap(writer);
}

/* ---- While it lives */

/* Each way to look at a file tells where it ends. */
static void test_seen(void **state)
{
	struct client_process writer;
	struct afar_file_stat stat = {.size = sizeof(stat)}, last;
	uint64_t size;

	(void)state;
	begin();
	start_writer(&writer, "seen");
	for (unsigned i = 0; i < 12; i++) {
		size = have(&writer, i % 2 ? APPEND : WRITE, 10, 700 + 300 * i);
		assert_int_equal(have(&writer, SIZE, 0, 0), size);
		switch (i % 3) {
		case 0:
			assert_int_equal(size_of("seen"), size);
			break;
		case 1:
			assert_int_equal(afar_fs_getattr(fs, look_up("seen").ino, &stat), 0);
			assert_int_equal(stat.bytes, size);
			break;
		default:
			expect_bytes("seen", size);
			break;
		}
	}
	last = look_up("seen");
	size = have(&writer, WRITE, 1, 100);
	assert_int_equal(afar_fs_getattr(fs, last.ino, &stat), 0);
	assert_int_equal(stat.bytes, size);
	assert_true(stat.mtime > last.mtime);
	end_writer(&writer);
	expect_bytes("seen", size);
	end();
}

/* Another session opens it to write: neither loses what the other has written. */
static void test_two_writers(void **state)
{
	struct client_process writer;
	struct afar_file *file;
	uint8_t bytes[500];
	uint64_t at, size;

	(void)state;
	begin();
	start_writer(&writer, "two");
	size = have(&writer, APPEND, 50, 500);
	file = open_it("two", O_RDWR);
	for (unsigned i = 0; i < 20; i++) {
		tell(&writer, APPEND, 1, 500, size);
		size = (uint64_t)hear(&writer);
		fill_from(bytes, size, sizeof(bytes));
		assert_int_equal(afar_file_append(file, bytes, sizeof(bytes), 0, &at),
				 sizeof(bytes));
		assert_int_equal(at, size);
		size += sizeof(bytes);
	}
	assert_int_equal(afar_file_close(file), 0);
	tell(&writer, APPEND, 50, 500, size);
	size = (uint64_t)hear(&writer);
	expect_bytes("two", size);
	end_writer(&writer);
	expect_bytes("two", size);
	end();
}

/* It is made shorter here and there. */
static void test_cut(void **state)
{
	struct client_process writer;
	struct afar_file *file;
	uint64_t size;

	(void)state;
	begin();
	start_writer(&writer, "cut");
	have(&writer, WRITE, 50, 1000);
	/* By the writer, to what the manager has not been told of. */
	have(&writer, CUT, 1, 45000);
	assert_int_equal(size_of("cut"), 45000);
	size = have(&writer, WRITE, 20, 1000);
	assert_int_equal(size, 65000);
	file = open_it("cut", O_RDWR);
	assert_int_equal(afar_file_truncate(file, 61000), 0);
	assert_int_equal(afar_file_close(file), 0);
	assert_int_equal(size_of("cut"), 61000);
	have(&writer, CUT, 1, 60000);
	size = have(&writer, WRITE, 30, 1000);
	assert_int_equal(size, 90000);
	expect_bytes("cut", size);
	assert_int_equal(afar_fs_unlink(fs, NULL, root, "cut"), 0);
	have(&writer, WRITE, 30, 1000);
	assert_int_equal(have(&writer, SIZE, 0, 0), 120000);
	end_writer(&writer);
	end();
}

/* ---- It dies, or is stopped */

/* All that it has said is there. The size has all or nothing of what it had begun. */
static void expect_after(const char *name, uint64_t said, uint32_t length)
{
	struct afar_file *file;
	uint64_t size = size_of(name);

	if (size != said && size != said + length)
		fail_msg("it has said that it wrote %llu bytes, and there are %llu",
			 (unsigned long long)said, (unsigned long long)size);
	file = open_it(name, O_RDONLY);
	check_bytes(file, said);
	assert_int_equal(afar_file_close(file), 0);
}

/* Kills it while it writes. Returns what it has said. */
static uint64_t kill_writing(struct client_process *writer, uint32_t length, unsigned nr)
{
	uint64_t said = 0;
	int says = dup(writer->says);

	tell(writer, GO_ON, UINT32_MAX, length, 0);
	for (unsigned i = 0; i < nr; i++)
		said = (uint64_t)hear(writer);
	kill(writer->pid, SIGKILL);
	client_reap(writer);
	writer->says = says;
	said = hear_rest(writer, said);
	close(says);
	return said;
}

static void test_killed(void **state)
{
	static const uint32_t lengths[] = {100, 4096, 5000, 16384};
	char name[16];

	(void)state;
	begin();
	for (unsigned i = 0; i < test_effort(4, 8, 100); i++) {
		const uint32_t length = lengths[i % 4];
		struct client_process writer;
		uint64_t said;

		snprintf(name, sizeof(name), "killed-%u", i);
		start_writer(&writer, name);
		said = kill_writing(&writer, length, 40 + 30 * i);
		expect_after(name, said, length);
	}
	end();
}

/* Nobody asks before its session has ended, and its room has gone back. */
static void test_forgotten(void **state)
{
	struct client_process writer;
	struct afar_file_stat stat;
	struct afar_file *file;
	uint64_t size;

	(void)state;
	begin();
	start_writer(&writer, "forgotten");
	size = have(&writer, WRITE, 100, 1000);
	kill(writer.pid, SIGKILL);
	client_reap(&writer);
	for (unsigned i = 0; i < NR_PAUSES; i++) {
		stat = look_up("forgotten");
		if (stat.allocated == (size + 4095) / 4096 * 4096)
			break;
		test_pause();
	}
	assert_int_equal(stat.allocated, (size + 4095) / 4096 * 4096);
	expect_bytes("forgotten", size);
	/* Bytes behind the end are zeros, and may be written. */
	file = open_it("forgotten", O_RDWR);
	assert_int_equal(afar_file_truncate(file, size + 10000), 0);
	assert_int_equal(afar_file_truncate(file, size), 0);
	assert_int_equal(afar_file_close(file), 0);
	expect_bytes("forgotten", size);
	end();
}

/* The manager restarts before and after it dies. */
static void test_restarted(void **state)
{
	struct client_process writer, another;
	uint64_t size, other;

	(void)state;
	begin();
	start_writer(&writer, "restarted");
	start_writer(&another, "lives");
	have(&writer, WRITE, 50, 1000);
	have(&another, WRITE, 50, 1000);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	other = have(&another, WRITE, 50, 1000);
	size = have(&writer, WRITE, 50, 1000);
	kill(writer.pid, SIGKILL);
	client_reap(&writer);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	/* A look waits for sessions of before, too. */
	assert_int_equal(size_of("restarted"), size);
	expect_bytes("restarted", size);
	expect_bytes("lives", other);
	other = have(&another, APPEND, 50, 1000);
	expect_bytes("lives", other);
	end_writer(&another);
	end();
}

/* It stands still, and goes on. */
static void test_stopped(void **state)
{
	struct client_process writer;
	uint64_t size;

	(void)state;
	begin();
	start_writer(&writer, "stopped");
	size = have(&writer, WRITE, 50, 1000);
	process_stop(writer.pid);
	expect_bytes("stopped", size);
	process_continue(writer.pid);
	size = have(&writer, APPEND, 50, 1000);
	expect_bytes("stopped", size);
	end_writer(&writer);
	expect_bytes("stopped", size);
	end();
}

/* The server that has the bytes, and the end, stands still when the writer dies. */
static void test_server_stopped(void **state)
{
	struct client_process writer;
	uint64_t size;

	(void)state;
	begin();
	start_writer(&writer, "away");
	size = have(&writer, WRITE, 10, 1000);
	for (unsigned i = 0; i < 2; i++)
		process_stop(cluster_server(cluster, i));
	kill(writer.pid, SIGKILL);
	client_reap(&writer);
	for (unsigned i = 0; i < 2; i++)
		process_continue(cluster_server(cluster, i));
	assert_int_equal(size_of("away"), size);
	expect_bytes("away", size);
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seen),	  cmocka_unit_test(test_two_writers),
		cmocka_unit_test(test_cut),	  cmocka_unit_test(test_killed),
		cmocka_unit_test(test_forgotten), cmocka_unit_test(test_restarted),
		cmocka_unit_test(test_stopped),	  cmocka_unit_test(test_server_stopped),
	};

	if (argc == 5 && strcmp(argv[0], "client") == 0)
		return writer_main(argv);
	where = argc > 1 ? argv[1] : "memory";
	if (argc > 2) /* one of them */
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
