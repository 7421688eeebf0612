/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files as targets of queues, against real daemons. Queues and blocking calls read and write the same bytes. Files
 * grow; order and syncs hold. A call of another session, or of this one, waits for what is posted, and for nothing
 * else. `memory` or `flash` says on which tier. Many sessions at once, while daemons are killed: test_files_shared.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define UNIT	    ((uint64_t)AFAR_FILE_BLOCK)
#define FLASH_BYTES (256 * MIB)
#define DEPTH	    32U
#define NR_SERVERS  2U

static uint32_t tier;
static struct afar_fs *fs;
static uint64_t root;
static struct afar_queue *queue;

/* ---- Helpers */

static int begin(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = tier,
					      .stripe_bytes = 64 * KIB},
		.uid = geteuid(),
		.gid = getegid(),
	};
	const struct afar_queue_options options = {.size = sizeof(options), .depth = DEPTH};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	(void)state;
	assert_int_equal(afar_fs_create(session, "queued", &policy, NULL), 0);
	assert_int_equal(afar_fs_open(session, "queued", NULL, &fs), 0);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	root = stat.root;
	assert_int_equal(afar_queue_open(session, &options, &queue), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(session, "queued"), 0);
	return 0;
}

#define QUEUE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static struct afar_file *make_file(const char *name, int flags)
{
	struct afar_file *file;

	assert_int_equal(afar_file_create(fs, NULL, root, name, 0644, flags | O_EXCL, &file, NULL),
			 0);
	return file;
}

static struct afar_target *target_of(struct afar_file *file)
{
	struct afar_target *target = afar_file_target(file);

	if (!target)
		fail_msg("%s", afar_last_error());
	if (afar_queue_connect(queue, target))
		fail_msg("%s", afar_last_error());
	return target;
}

/* A file with these bytes, and its target. */
static struct afar_file *make_filled(const char *name, const void *data, uint64_t length,
				     struct afar_target **target)
{
	struct afar_file *file = make_file(name, O_RDWR);

	assert_int_equal(afar_file_pwrite(file, data, length, 0), length);
	*target = target_of(file);
	return file;
}

static struct afar_op op_of(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
			    uint64_t offset)
{
	return (struct afar_op){
		.opcode = opcode,
		.target = target,
		.offset = offset,
		.nr_iov = iov ? 1 : 0,
		.iov = iov,
		.user_data = 1,
	};
}

static void submit(const struct afar_op *op)
{
	if (afar_queue_submit(queue, op, 1) != 1)
		fail_msg("submit: %s", afar_last_error());
}

static int64_t reap(uint64_t user_data)
{
	struct afar_completion completion;

	assert_int_equal(afar_queue_wait_one(queue, user_data, &completion, 60000), 0);
	if (completion.result < 0)
		assert_int_equal(afar_queue_explain(queue, &completion), completion.result);
	return completion.result;
}

static int64_t run(const struct afar_op *op)
{
	submit(op);
	return reap(op->user_data);
}

static int64_t write_at(struct afar_target *target, const void *data, uint64_t length,
			uint64_t offset)
{
	const struct afar_iov iov = {.addr = (void *)data, .length = length};
	const struct afar_op op = op_of(target, AFAR_OP_WRITE, &iov, offset);

	return run(&op);
}

static int64_t read_at(struct afar_target *target, void *data, uint64_t length, uint64_t offset)
{
	const struct afar_iov iov = {.addr = data, .length = length};
	const struct afar_op op = op_of(target, AFAR_OP_READ, &iov, offset);

	return run(&op);
}

static int64_t sync_all(struct afar_target *target)
{
	const struct afar_op op = op_of(target, AFAR_OP_SYNC, NULL, 0);

	return run(&op);
}

static void expect_content(struct afar_file *file, const void *data, uint64_t length)
{
	uint8_t *got = malloc(length + 10);

	assert_non_null(got);
	assert_int_equal(afar_file_pread(file, got, length + 10, 0), length);
	assert_memory_equal(got, data, length);
	free(got);
}

/* Another session that has the file system open. */
struct other {
	struct afar_session *session;
	struct afar_fs *fs;
};

static void open_other(struct other *other, uint32_t timeout_ms)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .timeout_ms = timeout_ms};

	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &other->session), 0);
	assert_int_equal(afar_fs_open(other->session, "queued", NULL, &other->fs), 0);
}

static void close_other(struct other *other)
{
	assert_int_equal(afar_fs_close(other->fs), 0);
	assert_int_equal(afar_session_close(other->session), 0);
}

/* ---- What an operation does */

static void test_reads_and_writes(void **state)
{
	static uint8_t data[200 * KIB], got[201 * KIB];
	struct afar_file *file = make_file("file", O_RDWR);
	struct afar_target *target = target_of(file);
	struct afar_iov iov[] = {{.addr = got, .length = 5000},
				 {.addr = NULL, .length = 0},
				 {.addr = got + 5000, .length = 196 * KIB}};
	struct afar_op op = op_of(target, AFAR_OP_READ, iov, 100);

	(void)state;
	fill(data, sizeof(data), 1);
	assert_ptr_equal(afar_file_target(file), target);
	assert_int_equal(read_at(target, got, 100, 0), 0);
	/* It grows, with a hole. */
	assert_int_equal(write_at(target, data + 50000, 1000, 50000), 1000);
	memset(got, 0xee, sizeof(got));
	assert_int_equal(read_at(target, got, sizeof(got), 0), 51000);
	assert_int_equal(count_bytes(got, 50000, 0), 50000);
	assert_memory_equal(got + 50000, data + 50000, 1000);
	assert_int_equal(count_bytes(got + 51000, sizeof(got) - 51000, 0xee), sizeof(got) - 51000);
	/* All of it, over what is there, in any pieces of memory, up to the end. */
	assert_int_equal(write_at(target, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(write_at(target, data, sizeof(data), 0), sizeof(data));
	op.nr_iov = 3;
	assert_int_equal(run(&op), sizeof(data) - 100);
	assert_memory_equal(got, data + 100, sizeof(data) - 100);
	assert_int_equal(write_at(target, data + 7, 4097, 7), 4097);
	assert_int_equal(read_at(target, got, 9, 5), 9);
	assert_memory_equal(got, data + 5, 9);
	/* Around the end, and behind. */
	assert_int_equal(read_at(target, got, 100, sizeof(data) - 40), 40);
	assert_int_equal(read_at(target, got, 100, sizeof(data)), 0);
	assert_int_equal(read_at(target, got, 100, (uint64_t)1 << 60), 0);
	assert_int_equal(read_at(target, NULL, 0, 5), 0);
	expect_content(file, data, sizeof(data));
	/* One that is shorter than it was shows no old bytes. */
	if (afar_file_truncate(file, 1000))
		fail_msg("%s", afar_last_error());
	assert_int_equal(read_at(target, got, 5000, 0), 1000);
	assert_int_equal(write_at(target, data, 1, 6000), 1);
	assert_int_equal(read_at(target, got, 8000, 0), 6001);
	assert_memory_equal(got, data, 1000);
	assert_int_equal(count_bytes(got + 1000, 5000, 0), 5000);
	assert_int_equal(afar_file_close(file), 0);
}

/* Without a blocking call's queue: reads of what is there are the queue's own. */
static void test_direct(void **state)
{
	static uint8_t data[3 * MIB], got[3 * MIB];
	struct afar_session_stat stat = {.size = sizeof(stat)};
	struct afar_file *file, *there;
	struct afar_target *target;
	struct afar_queue *its;
	struct other other;
	struct afar_iov iov = {.addr = got, .length = sizeof(got)};
	struct afar_completion done;
	struct afar_op op;

	(void)state;
	fill(data, sizeof(data), 2);
	file = make_filled("file", data, sizeof(data), &target);
	assert_int_equal(afar_file_sync(file), 0);
	open_other(&other, 30000);
	assert_int_equal(afar_file_open(other.fs, NULL, afar_file_ino(file), O_RDONLY, &there), 0);
	assert_int_equal(afar_queue_open(other.session, NULL, &its), 0);
	assert_non_null(afar_file_target(there));
	assert_int_equal(afar_queue_connect(its, afar_file_target(there)), 0);
	op = op_of(afar_file_target(there), AFAR_OP_READ, &iov, 0);
	assert_int_equal(afar_queue_submit(its, &op, 1), 1);
	assert_int_equal(afar_queue_wait(its, &done, 1, 1, 60000), 1);
	assert_int_equal(done.result, sizeof(got));
	assert_memory_equal(got, data, sizeof(got));
	assert_int_equal(afar_session_stat(other.session, &stat), 0);
	assert_int_equal(stat.nr_blocking_queues, 0);
	assert_int_equal(afar_queue_close(its), 0);
	assert_int_equal(afar_file_close(there), 0);
	close_other(&other);
	assert_int_equal(afar_file_close(file), 0);
}

static void test_order(void **state)
{
	static uint8_t data[64 * KIB], got[64 * KIB];
	struct afar_file *file = make_file("file", O_RDWR);
	struct afar_target *target = target_of(file);
	const struct afar_iov out = {.addr = data, .length = sizeof(data)};
	const struct afar_iov in = {.addr = got, .length = sizeof(got)};

	(void)state;
	/* Each write makes it longer, and is read behind that. */
	for (uint64_t i = 0; i < 20; i++) {
		struct afar_op ops[] = {
			op_of(target, AFAR_OP_WRITE, &out, i * sizeof(data)),
			op_of(target, AFAR_OP_READ, &in, i * sizeof(data)),
			op_of(target, i % 2 ? AFAR_OP_SYNC : AFAR_OP_FLUSH, NULL, 0),
		};

		fill(data, sizeof(data), (unsigned)i);
		ops[1].flags = ops[2].flags = AFAR_OP_AFTER;
		for (uint64_t j = 0; j < 3; j++)
			ops[j].user_data = j;
		assert_int_equal(afar_queue_submit(queue, ops, 3), 3);
		assert_int_equal(reap(2), 0);
		assert_int_equal(reap(1), sizeof(got));
		assert_int_equal(reap(0), sizeof(data));
		assert_memory_equal(got, data, sizeof(data));
	}
	assert_int_equal(afar_file_close(file), 0);
}

/* A sync covers what was written by the queue, and commits the size. */
static void test_sync(void **state)
{
	static uint8_t data[MIB];
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct afar_file *file = make_file("file", O_RDWR);
	struct afar_target *target = target_of(file);
	const struct afar_iov iov = {.addr = data, .length = sizeof(data)};
	struct afar_op ops[] = {
		op_of(target, AFAR_OP_WRITE, &iov, 0),
		op_of(target, AFAR_OP_WRITE, &iov, sizeof(data)),
		op_of(target, AFAR_OP_SYNC, NULL, 0),
	};

	(void)state;
	fill(data, sizeof(data), 3);
	for (unsigned round = 0; round < 3; round++) {
		for (uint64_t j = 0; j < 3; j++)
			ops[j].user_data = j;
		if (tier == AFAR_TIER_FLASH && round == 2)
			ops[0].flags = AFAR_OP_DURABLE;
		assert_int_equal(afar_queue_submit(queue, ops, 3), 3);
		assert_int_equal(reap(2), 0);
		assert_int_equal(reap(0), sizeof(data));
		assert_int_equal(reap(1), sizeof(data));
	}
	assert_int_equal(afar_fs_getattr(fs, afar_file_ino(file), &stat), 0);
	assert_int_equal(stat.bytes, 2 * sizeof(data));
	assert_int_equal(afar_file_close(file), 0);
}

static void test_append(void **state)
{
	static uint8_t data[DEPTH * 1000], got[DEPTH * 1000];
	struct afar_file *file = make_file("file", O_RDWR | O_APPEND);
	struct afar_target *target = target_of(file);
	struct afar_iov iov[DEPTH];
	bool is_there[DEPTH] = {false};

	(void)state;
	for (unsigned i = 0; i < DEPTH; i++) {
		struct afar_op op = op_of(target, AFAR_OP_WRITE, &iov[i], 0);

		memset(data + (size_t)i * 1000, (int)i + 1, 1000);
		iov[i] = (struct afar_iov){.addr = data + (size_t)i * 1000, .length = 1000};
		op.user_data = i;
		submit(&op);
	}
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(reap(i), 1000);
	assert_int_equal(read_at(target, got, sizeof(got), 0), sizeof(got));
	for (unsigned i = 0; i < DEPTH; i++) {
		unsigned which = got[(size_t)i * 1000] - 1U;

		assert_true(which < DEPTH && !is_there[which]);
		is_there[which] = true;
		assert_int_equal(count_bytes(got + (size_t)i * 1000, 1000, (uint8_t)(which + 1)),
				 1000);
	}
	assert_int_equal(afar_file_close(file), 0);
}

/* An event loop is woken by what threads carry out. */
static void test_event_loop(void **state)
{
	static uint8_t data[4096];
	struct afar_file *file = make_file("file", O_RDWR);
	struct afar_target *target = target_of(file);
	const struct afar_iov iov = {.addr = data, .length = sizeof(data)};
	struct afar_completion done;

	(void)state;
	for (uint64_t i = 0; i < 50; i++) {
		const struct afar_op op = op_of(target, AFAR_OP_WRITE, &iov, i * sizeof(data));
		struct pollfd waits = {.fd = afar_queue_fd(queue), .events = POLLIN};

		submit(&op);
		while (afar_queue_wait(queue, &done, 1, 0, 0) == 0) {
			if (afar_queue_arm(queue) == 0)
				assert_int_equal(poll(&waits, 1, 60000), 1);
		}
		assert_int_equal(done.result, sizeof(data));
	}
	assert_int_equal(afar_file_close(file), 0);
}

/* ---- What is refused */

static void test_refused(void **state)
{
	static uint8_t bytes[4096];
	const struct afar_iov iov = {.addr = bytes, .length = sizeof(bytes)};
	const struct afar_iov word = {.addr = bytes, .length = 8};
	struct afar_file *file = make_file("file", O_RDWR), *reader, *writer, *dir;
	struct afar_target *target = afar_file_target(file);
	struct afar_op op = op_of(target, AFAR_OP_READ, &iov, 0);

	(void)state;
	assert_non_null(target);
	/* Never connected to a file. */
	assert_int_equal(run(&op), -ENOTCONN);
	assert_non_null(strstr(afar_last_error(), "afar_queue_connect"));
	target_of(file);
	for (uint16_t opcode = AFAR_OP_FETCH_ADD; opcode <= AFAR_OP_TRIM; opcode++) {
		op = op_of(target, opcode, &word, 0);
		if (opcode == AFAR_OP_ZERO || opcode == AFAR_OP_TRIM)
			op.nr_iov = 0;
		if (opcode != AFAR_OP_SYNC)
			expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	}
	op = op_of(target, AFAR_OP_READ, &iov, 0);
	op.flags = AFAR_OP_DRIVEN;
	expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	op.flags = AFAR_OP_CHECKED;
	expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	op = op_of(target, AFAR_OP_WRITE, &iov, 0);
	op.flags = AFAR_OP_DURABLE;
	if (tier != AFAR_TIER_FLASH)
		expect_error(afar_queue_submit(queue, &op, 1), -EOPNOTSUPP);
	op = op_of(target, AFAR_OP_WRITE, &iov, (uint64_t)1 << 56);
	expect_error(afar_queue_submit(queue, &op, 1), -EFBIG);
	op = op_of(target, AFAR_OP_FLUSH, &iov, 0);
	expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
	assert_int_equal(afar_file_open(fs, NULL, afar_file_ino(file), O_RDONLY, &reader), 0);
	op = op_of(afar_file_target(reader), AFAR_OP_WRITE, &iov, 0);
	expect_error(afar_queue_submit(queue, &op, 1), -EBADF);
	assert_int_equal(afar_file_open(fs, NULL, afar_file_ino(file), O_WRONLY, &writer), 0);
	op = op_of(afar_file_target(writer), AFAR_OP_READ, &iov, 0);
	expect_error(afar_queue_submit(queue, &op, 1), -EBADF);
	assert_int_equal(afar_file_close(reader), 0);
	assert_int_equal(afar_file_close(writer), 0);
	assert_int_equal(afar_file_open(fs, NULL, root, O_RDONLY, &dir), 0);
	assert_null(afar_file_target(dir));
	assert_non_null(strstr(afar_last_error(), "directory"));
	assert_int_equal(afar_file_close(dir), 0);
	/* A target ends with its file. */
	assert_int_equal(afar_file_close(file), 0);
	op = op_of(target, AFAR_OP_READ, &iov, 0);
	expect_error(afar_queue_submit(queue, &op, 1), -EINVAL);
}

/* ---- Waiting for what is posted */

static void signal_servers(int number)
{
	int status;

	for (unsigned i = 0; i < NR_SERVERS; i++) {
		assert_int_equal(kill(cluster_server(cluster, i), number), 0);
		if (number == SIGSTOP)
			assert_int_equal(waitpid(cluster_server(cluster, i), &status, WUNTRACED),
					 cluster_server(cluster, i));
	}
}

struct truncation {
	pthread_t thread;
	struct afar_file *file;
	atomic_bool is_over;
	int ret;
};

static void *truncate_there(void *argument)
{
	struct truncation *truncation = argument;

	truncation->ret = afar_file_truncate(truncation->file, 0);
	truncation->is_over = true;
	return NULL;
}

/* Another session makes the file shorter: that waits until what is posted here has landed. Whatever else happens here
 * meanwhile waits for nothing. So the units that others get next have nothing of ours. */
static void test_truncated_by_another(void **state)
{
	static uint8_t data[2 * MIB], mine[3 * MIB], got[3 * MIB];
	const struct afar_iov iov = {.addr = data, .length = sizeof(data)};
	struct truncation truncation = {.ret = 1};
	struct afar_file *file, *next;
	struct afar_target *target;
	struct other other;
	struct afar_op op, late;
	int64_t ret;

	(void)state;
	fill(data, sizeof(data), 4);
	file = make_filled("file", data, sizeof(data), &target);
	assert_int_equal(write_at(target, data, sizeof(data), 0), sizeof(data));
	open_other(&other, 30000);
	assert_int_equal(
		afar_file_open(other.fs, NULL, afar_file_ino(file), O_RDWR, &truncation.file), 0);
	op = op_of(target, AFAR_OP_WRITE, &iov, 0);
	submit(&op);
	assert_int_equal(pthread_create(&truncation.thread, NULL, truncate_there, &truncation), 0);
	/* It has been posted, and nobody reaps it. */
	for (unsigned i = 0; i < 200; i++)
		test_pause();
	assert_false(truncation.is_over);
	/* The session that has to reap may make blocking calls before. */
	assert_int_equal(afar_file_open(fs, NULL, afar_file_ino(file), O_RDWR, &next), 0);
	assert_non_null(afar_file_target(next));
	assert_int_equal(afar_file_pread(next, got, 100, 0), 100);
	assert_int_equal(afar_file_close(next), 0);
	late = op_of(target, AFAR_OP_WRITE, &(const struct afar_iov){.addr = data, .length = 100},
		     1000);
	late.user_data = 2;
	submit(&late);
	assert_int_equal(reap(2), 100);
	assert_int_equal(reap(1), sizeof(data));
	pthread_join(truncation.thread, NULL);
	assert_int_equal(truncation.ret, 0);
	/* Units that were cut off become another file's. */
	memset(mine, 7, sizeof(mine));
	assert_int_equal(afar_file_create(other.fs, NULL, root, "next", 0644, O_RDWR, &next, NULL),
			 0);
	assert_int_equal(afar_file_pwrite(next, mine, sizeof(mine), 0), sizeof(mine));
	/* The late one was before or behind that. */
	ret = read_at(target, got, sizeof(got), 0);
	assert_true(ret == 0 || ret == 1100);
	if (ret != 0) {
		assert_int_equal(count_bytes(got, 1000, 0), 1000);
		assert_memory_equal(got + 1000, data, 100);
	}
	expect_content(next, mine, sizeof(mine));
	assert_int_equal(afar_file_close(next), 0);
	assert_int_equal(afar_file_close(truncation.file), 0);
	close_other(&other);
	assert_int_equal(afar_file_close(file), 0);
}

/* In this process, too; and who would have to reap is told so. */
static void test_truncated_before_reaping(void **state)
{
	static uint8_t data[MIB];
	const struct afar_session_options hasty = {.size = sizeof(hasty), .timeout_ms = 1000};
	const struct afar_iov iov = {.addr = data, .length = sizeof(data)};
	struct afar_completion done;
	struct afar_session *its;
	struct afar_queue *queued;
	struct afar_fs *there;
	struct afar_file *file;
	struct afar_op op;

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), &hasty, &its), 0);
	assert_int_equal(afar_fs_open(its, "queued", NULL, &there), 0);
	assert_int_equal(afar_file_create(there, NULL, root, "file", 0644, O_RDWR, &file, NULL), 0);
	assert_int_equal(afar_file_pwrite(file, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(afar_queue_open(its, NULL, &queued), 0);
	op = op_of(afar_file_target(file), AFAR_OP_READ, &iov, 0);
	assert_int_equal(afar_queue_connect(queued, op.target), 0);
	assert_int_equal(afar_queue_submit(queued, &op, 1), 1);
	expect_error(afar_file_close(file), -EBUSY);
	expect_error(afar_file_truncate(file, 100), -EBUSY);
	assert_non_null(strstr(afar_last_error(), "reap"));
	assert_int_equal(afar_queue_wait(queued, &done, 1, 1, 60000), 1);
	assert_int_equal(done.result, sizeof(data));
	assert_int_equal(afar_file_truncate(file, 100), 0);
	assert_int_equal(afar_queue_submit(queued, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queued, &done, 1, 1, 60000), 1);
	assert_int_equal(done.result, 100);
	/* Nobody waits for one that a thread has. */
	op = op_of(op.target, AFAR_OP_WRITE, &iov, 2 * sizeof(data));
	assert_int_equal(afar_queue_submit(queued, &op, 1), 1);
	expect_error(afar_file_close(file), -EBUSY);
	assert_int_equal(afar_file_truncate(file, 100), 0);
	assert_int_equal(afar_queue_wait(queued, &done, 1, 1, 60000), 1);
	assert_int_equal(done.result, sizeof(data));
	assert_int_equal(afar_file_close(file), 0);
	assert_int_equal(afar_queue_close(queued), 0);
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(its), 0);
}

/* Cancelling, and what a stopped server keeps: ends, and goes on over new connections. */
static void test_cancelled(void **state)
{
	static uint8_t data[4 * MIB], got[4 * MIB];
	const struct afar_iov iov = {.addr = data, .length = sizeof(data)};
	struct afar_completion done;
	struct afar_file *file;
	struct afar_target *target;
	struct afar_op op;

	(void)state;
	fill(data, sizeof(data), 5);
	file = make_filled("file", data, sizeof(data), &target);
	op = op_of(target, AFAR_OP_WRITE, &iov, 0);
	signal_servers(SIGSTOP);
	submit(&op);
	afar_queue_wait(queue, &done, 0, 0, 0);
	if (afar_queue_cancel(queue, 1) == 1) {
		assert_int_equal(reap(1), -ECANCELED);
	} else { /* it was copied at once */
		assert_int_equal(reap(1), sizeof(data));
	}
	signal_servers(SIGCONT);
	/* A thread carries these out, until the queue is connected again. */
	assert_int_equal(write_at(target, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(read_at(target, got, sizeof(got), 0), sizeof(got));
	assert_memory_equal(got, data, sizeof(got));
	assert_int_equal(afar_queue_connect(queue, target), 0);
	assert_int_equal(read_at(target, got, sizeof(got), 0), sizeof(got));
	assert_int_equal(afar_file_truncate(file, 5000), 0);
	expect_content(file, data, 5000);
	assert_int_equal(afar_file_close(file), 0);
}

/* ---- At random, against a model */

#define LANE	  (40 * KIB) /* of the file, for each operation in flight */
#define MODEL	  (DEPTH * LANE)
#define NR_ROUNDS 100U

struct model {
	uint8_t bytes[MODEL];
	uint64_t size;
	uint64_t seed;
};

static uint64_t below(struct model *model, uint64_t limit)
{
	model->seed = model->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (model->seed >> 33) % limit;
}

static uint64_t lane_inside(const struct model *model, uint64_t offset, uint64_t length)
{
	if (offset >= model->size)
		return 0;
	return length < model->size - offset ? length : model->size - offset;
}

/* A round of operations in flight together, each in a lane of its own, and then the same in the model. */
static void random_round(struct model *model, struct afar_target *target)
{
	static uint8_t memory[DEPTH][LANE];
	struct afar_iov iov[DEPTH][2];
	struct afar_op ops[DEPTH];
	uint64_t lengths[DEPTH], grown = model->size;

	for (unsigned i = 0; i < DEPTH; i++) {
		uint64_t at = below(model, LANE), length = 1 + below(model, LANE - at);
		uint64_t first = below(model, length + 1);
		bool is_write = below(model, 2);

		iov[i][0] = (struct afar_iov){.addr = memory[i], .length = first};
		iov[i][1] = (struct afar_iov){.addr = memory[i] + first, .length = length - first};
		ops[i] = op_of(target, is_write ? AFAR_OP_WRITE : AFAR_OP_READ, iov[i],
			       i * LANE + at);
		ops[i].nr_iov = 2;
		ops[i].user_data = i;
		lengths[i] = length;
		if (!is_write)
			continue;
		fill(memory[i], length, (unsigned)below(model, 1000000));
		if (ops[i].offset + length > grown)
			grown = ops[i].offset + length;
	}
	assert_int_equal(afar_queue_submit(queue, ops, DEPTH), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++) {
		int64_t ret = reap(i);

		if (ops[i].opcode == AFAR_OP_WRITE) {
			assert_int_equal(ret, lengths[i]);
			memcpy(model->bytes + ops[i].offset, memory[i], lengths[i]);
			continue;
		}
		/* How much of a read is inside depends on which of the writes came before it. */
		if (ret < (int64_t)lane_inside(model, ops[i].offset, lengths[i]))
			fail_msg("a read of %llu at %llu gives %lld, and the file has %llu",
				 (unsigned long long)lengths[i], (unsigned long long)ops[i].offset,
				 (long long)ret, (unsigned long long)model->size);
		assert_memory_equal(memory[i], model->bytes + ops[i].offset, (size_t)ret);
	}
	model->size = grown;
}

static void cut(struct model *model, struct afar_file *file, uint64_t bytes)
{
	assert_int_equal(afar_file_truncate(file, bytes), 0);
	memset(model->bytes + bytes, 0, MODEL - bytes);
	model->size = bytes;
}

/* Something between the rounds, by this session or another. */
static void change(struct model *model, struct afar_file *file, struct afar_target *target)
{
	uint64_t at = below(model, MODEL / 2), length = 1 + below(model, MODEL / 2);

	switch (below(model, 6)) {
	case 0:
		cut(model, file, below(model, model->size + 1));
		break;
	case 1:
		assert_int_equal(afar_file_allocate(file,
						    AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_KEEP_SIZE,
						    at, length),
				 0);
		memset(model->bytes + at, 0, length);
		break;
	case 2:
		length = length > 10000 ? 10000 : length;
		fill(model->bytes + at, length, (unsigned)at);
		assert_int_equal(afar_file_pwrite(file, model->bytes + at, length, at), length);
		if (at + length > model->size)
			model->size = at + length;
		break;
	case 3:
		assert_int_equal(sync_all(target), 0);
		break;
	default:
		break;
	}
}

static void test_random(void **state)
{
	struct model *model = calloc(1, sizeof(*model));
	struct afar_file *file = make_file("file", O_RDWR), *there;
	struct afar_target *target = target_of(file);
	unsigned nr = (unsigned)test_effort(NR_ROUNDS, 10 * NR_ROUNDS, 200);
	struct other other;

	(void)state;
	assert_non_null(model);
	model->seed = 1;
	open_other(&other, 30000);
	assert_int_equal(afar_file_open(other.fs, NULL, afar_file_ino(file), O_RDWR, &there), 0);
	for (unsigned i = 0; i < nr; i++) {
		random_round(model, target);
		change(model, below(model, 2) ? file : there, target);
		if (i % 8 == 0)
			expect_content(below(model, 2) ? file : there, model->bytes, model->size);
	}
	assert_int_equal(afar_file_close(there), 0);
	close_other(&other);
	assert_int_equal(afar_file_close(file), 0);
	free(model);
}

/* ---- The group */

static int start_flash(void **state)
{
	(void)state;
	assert_int_equal(cluster_start_flash(NR_SERVERS, 64 * MIB, FLASH_BYTES, &cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		QUEUE_TEST(test_reads_and_writes),
		QUEUE_TEST(test_direct),
		QUEUE_TEST(test_order),
		QUEUE_TEST(test_sync),
		QUEUE_TEST(test_append),
		QUEUE_TEST(test_event_loop),
		QUEUE_TEST(test_refused),
		QUEUE_TEST(test_truncated_by_another),
		QUEUE_TEST(test_truncated_before_reaping),
		QUEUE_TEST(test_cancelled),
		QUEUE_TEST(test_random),
	};

	tier = argc > 1 && strcmp(argv[1], "flash") == 0 ? AFAR_TIER_FLASH : AFAR_TIER_DRAM;
	return cmocka_run_group_tests(tests, tier == AFAR_TIER_FLASH ? start_flash : start, stop);
}
