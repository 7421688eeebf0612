/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files under several sessions at once, while daemons are killed. Each session makes, writes, makes
 * shorter, extends, renames and removes the same few files at random. Half of them read and write by queue, with many
 * operations in flight. Each block that is written names its
 * inode, its place in the file and its writer. So whatever anybody reads must be zeros, or what was written to that
 * place of that inode. It is never another file's bytes, or those of a file that has gone.
 *
 * At the end the manager's records agree with each other.
 *
 * The argument: `memory`, where the manager alone is killed, or `flash`, where servers are, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define NR_SESSIONS 4U
#define NR_NAMES    4U
#define BLOCK	    AFAR_FILE_BLOCK
#define BLOCKS_MAX  96U
#define DEPTH	    16U	 /* operations in flight, by queue */
#define NR_STEPS    100U /* of each session */
#define WRITES_MAX  4U	 /* at once, of one session */
#define NR_KILLS    4U
#define FLASH_BYTES (256 * MIB)

static uint32_t tier;

/* ---- What is in a block */

struct mark {
	uint64_t ino, block, writer, version;
};

static void fill_block(uint8_t *bytes, const struct mark *mark)
{
	for (size_t i = 0; i < BLOCK; i += sizeof(*mark))
		memcpy(bytes + i, mark, sizeof(*mark));
}

/* Each byte is zero, or what is written there; versions may be mixed, because reads may tear. */
static bool is_good(const uint8_t *bytes, size_t length, uint64_t ino, uint64_t block)
{
	const struct mark expected = {ino, block, block % NR_SESSIONS, 0};
	const uint8_t *wanted = (const uint8_t *)&expected;

	for (size_t i = 0; i < length; i++) {
		size_t at = i % sizeof(expected);

		if (at < offsetof(struct mark, version) && bytes[i] != 0 && bytes[i] != wanted[at])
			return false;
	}
	return true;
}

/* ---- One session */

struct actor {
	unsigned number;
	struct afar_session *session;
	struct afar_fs *fs;
	struct afar_queue *queue; /* NULL: it makes blocking calls */
	bool is_connected;
	uint64_t root;
	uint64_t seed;
	uint64_t version;
	_Atomic uint64_t nr_good; /* steps that went well */
	uint8_t bytes[BLOCKS_MAX * BLOCK];
	char failure[256]; /* empty: none */
	atomic_bool has_failed;
};

static atomic_bool is_over;

static uint64_t below(struct actor *actor, uint64_t limit)
{
	actor->seed = actor->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (actor->seed >> 33) % limit;
}

static void complain(struct actor *actor, const char *what, long long number)
{
	if (actor->failure[0] == '\0')
		snprintf(actor->failure, sizeof(actor->failure), "session %u: %s: %lld (%s)",
			 actor->number, what, number, afar_last_error());
	actor->has_failed = true;
}

/* Tells what is there, at the first place that is not zero. */
static void complain_of_block(struct actor *actor, uint64_t ino, uint64_t block,
			      const uint8_t *bytes)
{
	struct mark mark = {0};
	size_t at = 0;

	while (at + sizeof(mark) < BLOCK && mark.ino == 0 && mark.writer == 0) {
		memcpy(&mark, bytes + at, sizeof(mark));
		at += sizeof(mark);
	}
	if (actor->failure[0] == '\0')
		snprintf(actor->failure, sizeof(actor->failure),
			 "session %u reads in block %llu of inode %llu what session %llu wrote to "
			 "block %llu of inode %llu, as its %llu., at byte %zu",
			 actor->number, (unsigned long long)block, (unsigned long long)ino,
			 (unsigned long long)mark.writer, (unsigned long long)mark.block,
			 (unsigned long long)mark.ino, (unsigned long long)mark.version, at);
	actor->has_failed = true;
}

/* Errors that others, or a server that was killed, may cause. */
static bool is_allowed(int status)
{
	return status == -ENOENT || status == -EEXIST || status == -ESTALE || status == -EBUSY ||
	       (tier == AFAR_TIER_FLASH && status == -AFAR_EUNSYNCED);
}

static void note(struct actor *actor, const char *what, int status)
{
	if (status >= 0)
		actor->nr_good++;
	else if (!is_allowed(status))
		complain(actor, what, status);
}

/* ---- By queue */

static struct afar_target *target_of(struct actor *actor, struct afar_file *file)
{
	struct afar_target *target = afar_file_target(file);
	int ret = target ? 0 : -EINVAL;

	/* A connection may have ended with a server. */
	if (ret == 0 && (!actor->is_connected || below(actor, 4) == 0)) {
		ret = afar_queue_connect(actor->queue, target);
		actor->is_connected = true;
		if (ret == -AFAR_ESERVER || ret == -ETIMEDOUT)
			ret = 0;
	}
	if (ret < 0)
		complain(actor, "use by queue", ret);
	return ret < 0 ? NULL : target;
}

/* Submits some that use the actor's own memory, and reaps all. */
static void run_ops(struct actor *actor, const char *what, struct afar_op *ops, unsigned nr)
{
	struct afar_completion done[DEPTH];
	int ret = afar_queue_submit(actor->queue, ops, nr);

	if (ret != (int)nr) {
		complain(actor, "submit", ret);
		return;
	}
	ret = afar_queue_wait(actor->queue, done, DEPTH, nr, -1);
	if (ret != (int)nr)
		complain(actor, "reap", ret);
	for (int i = 0; i < ret; i++) {
		if (done[i].result < 0)
			afar_queue_explain(actor->queue, &done[i]);
		note(actor, what, (int)done[i].result);
	}
}

static void queue_writes(struct actor *actor, struct afar_file *file, const uint64_t *blocks,
			 unsigned nr)
{
	struct afar_target *target = target_of(actor, file);
	struct afar_op ops[WRITES_MAX];
	struct afar_iov iov[WRITES_MAX];

	for (unsigned i = 0; i < nr && target; i++) {
		const struct mark mark = {afar_file_ino(file), blocks[i], actor->number,
					  ++actor->version};

		fill_block(actor->bytes + i * BLOCK, &mark);
		iov[i] = (struct afar_iov){.addr = actor->bytes + i * BLOCK, .length = BLOCK};
		ops[i] = (struct afar_op){
			.opcode = AFAR_OP_WRITE,
			.target = target,
			.offset = blocks[i] * BLOCK,
			.nr_iov = 1,
			.iov = &iov[i],
			.user_data = i,
		};
	}
	if (target)
		run_ops(actor, "write by queue", ops, nr);
}

/* Reads all in parts that are in flight together. Checks what they bring, also in front of a part that ends early. */
static void queue_reads(struct actor *actor, struct afar_file *file)
{
	const uint64_t part = sizeof(actor->bytes) / DEPTH;
	struct afar_target *target = target_of(actor, file);
	struct afar_op ops[DEPTH];
	struct afar_iov iov[DEPTH];

	memset(actor->bytes, 0, sizeof(actor->bytes));
	for (unsigned i = 0; i < DEPTH && target; i++) {
		iov[i] = (struct afar_iov){.addr = actor->bytes + i * part, .length = part};
		ops[i] = (struct afar_op){
			.opcode = AFAR_OP_READ,
			.target = target,
			.offset = i * part,
			.nr_iov = 1,
			.iov = &iov[i],
			.user_data = i,
		};
	}
	if (!target)
		return;
	run_ops(actor, "read by queue", ops, DEPTH);
	for (uint64_t block = 0; block < BLOCKS_MAX; block++)
		if (!is_good(actor->bytes + block * BLOCK, BLOCK, afar_file_ino(file), block))
			complain_of_block(actor, afar_file_ino(file), block,
					  actor->bytes + block * BLOCK);
}

static void queue_sync(struct actor *actor, struct afar_file *file)
{
	struct afar_op op = {.opcode = AFAR_OP_SYNC, .target = target_of(actor, file)};

	if (op.target)
		run_ops(actor, "sync by queue", &op, 1);
}

/* ---- Steps */

static void write_blocks(struct actor *actor, struct afar_file *file)
{
	uint64_t first = below(actor, BLOCKS_MAX), nr = 1 + below(actor, BLOCKS_MAX - first);
	uint64_t ino = afar_file_ino(file);

	nr = nr > 16 ? 16 : nr;
	if (actor->queue) {
		uint64_t blocks[WRITES_MAX];
		unsigned nr_blocks = 0;

		for (uint64_t i = 0; i < nr; i++)
			if ((first + i) % NR_SESSIONS == actor->number)
				blocks[nr_blocks++] = first + i;
		queue_writes(actor, file, blocks, nr_blocks);
		return;
	}
	for (uint64_t i = 0; i < nr; i++) {
		/* Each block has one writer, so that no two tear each other's. */
		const struct mark mark = {ino, first + i, actor->number, ++actor->version};

		if ((first + i) % NR_SESSIONS != actor->number)
			continue;
		fill_block(actor->bytes, &mark);
		note(actor, "write",
		     (int)afar_file_pwrite(file, actor->bytes, BLOCK, (first + i) * BLOCK));
	}
}

static void read_blocks(struct actor *actor, struct afar_file *file)
{
	uint64_t ino = afar_file_ino(file);
	ssize_t nr;

	if (actor->queue) {
		queue_reads(actor, file);
		return;
	}
	nr = afar_file_pread(file, actor->bytes, sizeof(actor->bytes), 0);
	note(actor, "read", (int)nr);
	for (ssize_t at = 0; at < nr; at += BLOCK) {
		size_t length = nr - at < (ssize_t)BLOCK ? (size_t)(nr - at) : BLOCK;

		if (!is_good(actor->bytes + at, length, ino, (uint64_t)at / BLOCK))
			complain_of_block(actor, ino, (uint64_t)at / BLOCK, actor->bytes + at);
	}
}

static void change_file(struct actor *actor, struct afar_file *file)
{
	uint64_t bytes = below(actor, BLOCKS_MAX * BLOCK);

	switch (below(actor, 8)) {
	case 0:
	case 1:
	case 2:
		write_blocks(actor, file);
		break;
	case 3:
	case 4:
		read_blocks(actor, file);
		break;
	case 5:
		note(actor, "truncate", afar_file_truncate(file, bytes));
		break;
	case 6:
		if (actor->queue)
			queue_sync(actor, file);
		else
			note(actor, "sync", afar_file_sync(file));
		break;
	default:
		note(actor, "punch",
		     afar_file_allocate(file, AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_KEEP_SIZE, bytes,
					1 + below(actor, 64 * KIB)));
	}
}

static void open_and_change(struct actor *actor, const char *name)
{
	struct afar_file *file;
	int ret = afar_file_create(actor->fs, NULL, actor->root, name, 0600, O_RDWR, &file, NULL);

	note(actor, "open", ret);
	if (ret < 0)
		return;
	for (uint64_t i = 1 + below(actor, 24); i > 0; i--)
		change_file(actor, file);
	note(actor, "close", afar_file_close(file));
}

static void step(struct actor *actor)
{
	char name[8], other[8];

	snprintf(name, sizeof(name), "f%u", (unsigned)below(actor, NR_NAMES));
	snprintf(other, sizeof(other), "f%u", (unsigned)below(actor, NR_NAMES));
	switch (below(actor, 8)) {
	case 0:
		note(actor, "unlink", afar_fs_unlink(actor->fs, NULL, actor->root, name));
		break;
	case 1:
		note(actor, "rename",
		     afar_fs_rename(actor->fs, NULL, actor->root, name, actor->root, other, 0));
		break;
	default:
		open_and_change(actor, name);
	}
}

static void *act(void *argument)
{
	struct actor *actor = argument;

	for (unsigned i = 0; (i < NR_STEPS || !is_over) && actor->failure[0] == '\0'; i++)
		step(actor);
	return NULL;
}

static void open_actor(struct actor *actor, unsigned number)
{
	const struct afar_fs_options options = {.size = sizeof(options), .retry_ms = 60000};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	actor->number = number;
	actor->seed = number + 1;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &actor->session), 0);
	assert_int_equal(afar_fs_open(actor->session, "shared", &options, &actor->fs), 0);
	assert_int_equal(afar_fs_stat(actor->fs, &stat), 0);
	actor->root = stat.root;
	if (number % 2 == 1)
		assert_int_equal(afar_queue_open(actor->session, NULL, &actor->queue), 0);
}

/* Makes the file system, and opens it in each session. */
static struct actor *open_actors(void)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = tier,
					      .stripe_bytes = 64 * KIB},
		.uid = geteuid(),
		.gid = getegid(),
	};
	struct actor *actors = calloc(NR_SESSIONS, sizeof(*actors));

	assert_non_null(actors);
	assert_int_equal(afar_fs_create(session, "shared", &policy, NULL), 0);
	for (unsigned i = 0; i < NR_SESSIONS; i++)
		open_actor(&actors[i], i);
	return actors;
}

static void start_actors(struct actor *actors, pthread_t *threads, void *(*run)(void *argument))
{
	for (unsigned i = 0; i < NR_SESSIONS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, &actors[i]), 0);
}

/* None of them may have failed. */
static void join_actors(const struct actor *actors, const pthread_t *threads)
{
	for (unsigned i = 0; i < NR_SESSIONS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < NR_SESSIONS; i++)
		if (actors[i].failure[0] != '\0')
			fail_msg("%s", actors[i].failure);
}

static void close_actors(struct actor *actors)
{
	for (unsigned i = 0; i < NR_SESSIONS; i++) {
		if (actors[i].queue)
			assert_int_equal(afar_queue_close(actors[i].queue), 0);
		assert_int_equal(afar_fs_close(actors[i].fs), 0);
		assert_int_equal(afar_session_close(actors[i].session), 0);
	}
	assert_int_equal(afar_fs_delete(session, "shared"), 0);
	free(actors);
}

/* ---- The test */

static void print_line(void *argument, const char *line)
{
	(void)argument;
	print_message("%s\n", line);
}

/* Waits until so many more steps have gone well, or one has failed. */
static void await_steps(const struct actor *actors, uint64_t more)
{
	uint64_t before = 0, now;

	for (unsigned i = 0; i < NR_SESSIONS; i++)
		before += actors[i].nr_good;
	do {
		now = 0;
		test_pause();
		for (unsigned i = 0; i < NR_SESSIONS; i++) {
			now += actors[i].nr_good;
			if (actors[i].has_failed)
				return;
		}
	} while (now < before + more);
}

static void kill_daemons(const struct actor *actors)
{
	unsigned nr = (unsigned)test_effort(NR_KILLS, 4 * NR_KILLS, 200);

	for (unsigned i = 0; i < nr; i++) {
		await_steps(actors, 200);
		if (tier == AFAR_TIER_FLASH && i % 2 == 1) {
			cluster_kill_server(cluster, i / 2 % 2);
			assert_int_equal(cluster_restart_server(cluster, i / 2 % 2), 0);
		} else {
			cluster_kill_manager(cluster);
			assert_int_equal(cluster_restart_manager(cluster), 0);
		}
	}
}

static void test_everybody_at_once(void **state)
{
	struct actor *actors = open_actors();
	pthread_t threads[NR_SESSIONS];

	(void)state;
	start_actors(actors, threads, act);
	kill_daemons(actors);
	is_over = true;
	join_actors(actors, threads);
	assert_int_equal(afar_fs_check(actors[0].fs, print_line, NULL), 0);
	close_actors(actors);
}

/* ---- Appending */

#define NR_RECORDS   400U /* of each session */
#define RECORD_BYTES 100U

static void make_record(char record[RECORD_BYTES + 1], unsigned writer, unsigned number)
{
	snprintf(record, RECORD_BYTES + 1, "%-49u%-50u\n", writer, number);
}

static void queue_record(struct actor *actor, struct afar_file *file, char *record)
{
	const struct afar_iov iov = {.addr = record, .length = RECORD_BYTES};
	struct afar_op op = {
		.opcode = AFAR_OP_WRITE,
		.target = target_of(actor, file),
		.nr_iov = 1,
		.iov = &iov,
	};

	if (op.target)
		run_ops(actor, "append by queue", &op, 1);
}

static void *append(void *argument)
{
	struct actor *actor = argument;
	char record[RECORD_BYTES + 1];
	struct afar_file *file;
	int ret = afar_file_create(actor->fs, NULL, actor->root, "log", 0600, O_WRONLY | O_APPEND,
				   &file, NULL);

	note(actor, "open", ret);
	for (unsigned i = 0; i < NR_RECORDS && ret == 0 && actor->failure[0] == '\0'; i++) {
		make_record(record, actor->number, i);
		if (actor->queue)
			queue_record(actor, file, record);
		else
			note(actor, "append", (int)afar_file_pwrite(file, record, RECORD_BYTES, 0));
	}
	if (ret == 0)
		note(actor, "close", afar_file_close(file));
	return NULL;
}

static void check_records(struct actor *actor)
{
	unsigned next[NR_SESSIONS] = {0};
	const size_t length = (size_t)NR_SESSIONS * NR_RECORDS * RECORD_BYTES;
	char *bytes = malloc(length + RECORD_BYTES), expected[RECORD_BYTES + 1];
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct afar_file *file;

	assert_non_null(bytes);
	assert_int_equal(afar_fs_lookup(actor->fs, NULL, actor->root, "log", &stat), 0);
	assert_int_equal(afar_file_open(actor->fs, NULL, stat.ino, O_RDONLY, &file), 0);
	assert_int_equal(afar_file_pread(file, bytes, length + RECORD_BYTES, 0), length);
	for (size_t at = 0; at < length; at += RECORD_BYTES) {
		unsigned writer = (unsigned)strtoul(bytes + at, NULL, 10);

		assert_true(writer < NR_SESSIONS);
		make_record(expected, writer, next[writer]++);
		assert_memory_equal(bytes + at, expected, RECORD_BYTES);
	}
	assert_int_equal(afar_file_close(file), 0);
	free(bytes);
}

/* None is lost, torn or twice there, and each session's are in order; the manager is killed meanwhile. */
static void test_all_append(void **state)
{
	struct actor *actors = open_actors();
	pthread_t threads[NR_SESSIONS];

	(void)state;
	start_actors(actors, threads, append);
	await_steps(actors, NR_RECORDS / 2);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	join_actors(actors, threads);
	check_records(&actors[0]);
	close_actors(actors);
}

static int start_flash(void **state)
{
	(void)state;
	assert_int_equal(cluster_start_flash(2, 64 * MIB, FLASH_BYTES, &cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everybody_at_once),
		cmocka_unit_test(test_all_append),
	};

	tier = argc > 1 && strcmp(argv[1], "flash") == 0 ? AFAR_TIER_FLASH : AFAR_TIER_DRAM;
	return cmocka_run_group_tests(tests, tier == AFAR_TIER_FLASH ? start_flash : start, stop);
}
