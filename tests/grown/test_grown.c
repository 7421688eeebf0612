/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program and a library of different releases: structs that may grow have 24 bytes more in one of them (grow-headers).
 * `older`: in the library. `newer`: in the program. Each answer is right, and nothing is written behind the caller's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <afar/barrier.h>
#include <afar/file.h>
#include <afar/graph.h>
#include <afar/volume.h>

#include "apps/graph/layout.h"
#include "lib/api/api.h"

#define NR     3U
#define UNIT   ((uint64_t)64 * KIB)
#define CANARY 0x5a

static bool is_newer;

/* Memory for `nr` answers of a type, and more that has to stay as it is. */
#define ROOM(type, nr)                 \
	struct {                       \
		type at[nr];           \
		unsigned char end[64]; \
	}
#define PREPARE(room)                                   \
	do {                                            \
		memset(&(room), CANARY, sizeof(room));  \
		(room).at[0].size = sizeof(*(room).at); \
	} while (0)
#define CHECK(room) check_end((room).end, sizeof((room).end))

static void check_end(const unsigned char *end, size_t length)
{
	for (size_t i = 0; i < length; i++)
		assert_int_equal(end[i], CANARY);
}

/* Makes sure that they are of different releases: the older of the two does not know `beyond`. */
static void test_releases(void **state)
{
	struct {
		struct afar_queue_options known;
		uint64_t beyond;
	} options = {.known.size = sizeof(options.known), .beyond = 1};
	struct afar_queue *queue;

	(void)state;
	assert_int_equal(afar_version(), AFAR_VERSION);
	if (is_newer) {
		memset((char *)&options.known + sizeof(options.known) - 8, 1, 8);
		expect_error(afar_queue_open(session, &options.known, &queue), -EINVAL);
		return;
	}
	options.known.size = sizeof(options);
	assert_int_equal(afar_queue_open(session, &options.known, &queue), 0);
	assert_int_equal(afar_queue_close(queue), 0);
}

static void test_namespaces(void **state)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .stripe_bytes = UNIT, .max_bytes = 64 * MIB};
	ROOM(struct afar_namespace_stat, NR) room;
	static const char *const names[NR] = {"ns-a", "ns-b", "ns-c"};
	struct afar_namespace *ns[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(afar_namespace_create(session, names[i], &policy, &ns[i]), 0);
	PREPARE(room);
	assert_int_equal(afar_namespace_list(session, NULL, room.at, NR), NR);
	CHECK(room);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(room.at[i].size, sizeof(room.at[i]));
		assert_string_equal(room.at[i].name, names[i]);
		assert_int_equal(room.at[i].stripe_bytes, UNIT);
		assert_int_equal(room.at[i].max_bytes, 64 * MIB);
	}
	PREPARE(room);
	assert_int_equal(afar_namespace_stat(ns[1], room.at), 0);
	assert_string_equal(room.at[0].name, "ns-b");
	for (unsigned i = 0; i < NR; i++)
		drop_namespace(ns[i], names[i]);
}

static void test_regions(void **state)
{
	struct afar_namespace *ns = make_namespace("regions", UNIT, 4 * MIB);
	ROOM(struct afar_server_region, NR) on_server;
	ROOM(struct afar_region_stat, NR) room;
	ROOM(struct afar_server_stat, NR) servers;
	struct afar_region *regions[NR];
	uint64_t words[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(afar_region_create(ns, (const char *[]){"a", "b", "c"}[i],
						    (i + 1) * UNIT, 0, &regions[i]),
				 0);
	PREPARE(room);
	assert_int_equal(afar_region_list(ns, 0, room.at, NR), NR);
	CHECK(room);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(room.at[i].length, (i + 1) * UNIT);
		assert_int_equal(room.at[i].name[0], 'a' + i);
		assert_int_equal(room.at[i].writer[0], 0);
	}
	PREPARE(servers);
	assert_int_equal(afar_server_list(session, 0, servers.at, NR), 2);
	CHECK(servers);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(servers.at[i].is_up);
		assert_true(servers.at[i].name[0] != 0);
	}
	assert_true(servers.at[0].server < servers.at[1].server);
	PREPARE(on_server);
	assert_in_range(afar_server_regions(session, servers.at[1].server, 0, on_server.at, NR), 1,
			NR);
	CHECK(on_server);
	assert_string_equal(on_server.at[0].ns, "regions");
	for (unsigned i = 0; i < NR; i++) {
		words[i] = i;
		assert_int_equal(afar_region_pwrite(regions[i], &words[i], 8, 0), 8);
		drop_region(regions[i]);
	}
	drop_namespace(ns, "regions");
}

static void test_queue(void **state)
{
	const struct afar_barrier_options options = {.size = sizeof(options), .nr_members = 1};
	const struct afar_memory memory = {
		.size = sizeof(memory), .addr = &(uint64_t){7}, .length = 8};
	struct afar_namespace *ns = make_namespace("queue", UNIT, 4 * MIB);
	ROOM(struct afar_session_stat, 1) room;
	struct afar_completion completion;
	struct afar_barrier *barrier;
	struct afar_region *region;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_iov iov = {.addr = memory.addr, .length = 8};
	struct afar_op op;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, UNIT, 0, &region), 0);
	assert_int_equal(afar_buffer_register(session, &memory, AFAR_ACCESS_READ, &buffer), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	iov.buffer = buffer;
	afar_prep_write(&op, afar_region_target(region), &iov, 1, 0);
	op.user_data = 9;
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &completion, 1, 1, -1), 1);
	assert_int_equal(completion.result, 8);
	assert_int_equal(completion.user_data, 9);
	assert_int_equal(afar_barrier_open(region, &options, -1, &barrier), 0);
	assert_int_equal(afar_barrier_close(barrier), 0);
	PREPARE(room);
	assert_int_equal(afar_session_stat(session, room.at), 0);
	CHECK(room);
	assert_int_equal(room.at[0].has_ended, 0);
	assert_true(room.at[0].number != 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
	drop_region(region);
	drop_namespace(ns, "queue");
}

static void test_volumes(void **state)
{
	const struct afar_volume_options options = {.size = sizeof(options),
						    .mode = AFAR_VOLUME_READ_ONLY};
	ROOM(struct afar_volume_stat, NR) room;
	static const char *const names[NR] = {"disk-a", "disk-b", "disk-c"};
	struct afar_volume *volume;

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(afar_volume_create(session, names[i], (i + 1) * MIB, NULL, NULL),
				 0);
	PREPARE(room);
	assert_int_equal(afar_volume_list(session, NULL, room.at, NR), NR);
	CHECK(room);
	for (unsigned i = 0; i < NR; i++) {
		assert_string_equal(room.at[i].name, names[i]);
		assert_int_equal(room.at[i].bytes, (i + 1) * MIB);
	}
	assert_int_equal(afar_volume_open(session, "disk-a", &options, &volume), 0);
	expect_error(afar_volume_pwrite(volume, "x", 1, 0, 0), -EACCES);
	assert_int_equal(afar_volume_close(volume), 0);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(afar_volume_delete(session, names[i]), 0);
}

static void test_keys(void **state)
{
	ROOM(struct afar_key_stat, NR + 2) room;
	char secret[AFAR_KEY_HEX_MAX];
	int nr;

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(
			afar_key_add(session, (const char *[]){"x", "y", "z"}[i], 0, secret), 0);
	PREPARE(room);
	nr = afar_key_list(session, "w", room.at, NR + 2);
	CHECK(room);
	assert_int_equal(nr, NR);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(room.at[i].name[0], 'x' + i);
		assert_int_equal(room.at[i].max_bytes, 0);
		assert_int_equal(afar_key_revoke(session, room.at[i].name), 0);
	}
}

/* ---- Files */

static struct afar_fs *make_fs(void)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .stripe_bytes = UNIT,
					      .max_bytes = 64 * MIB},
		.uid = 7,
		.gid = 8,
		.mode = 0751,
		.max_inodes = 100,
	};
	const struct afar_fs_options options = {.size = sizeof(options), .retry_ms = 1000};
	struct afar_fs *fs;

	assert_int_equal(afar_fs_create(session, "files", &policy, NULL), 0);
	assert_int_equal(afar_fs_open(session, "files", &options, &fs), 0);
	return fs;
}

static uint64_t check_fs(struct afar_fs *fs)
{
	const struct afar_fs_limits limits = {
		.size = sizeof(limits), .max_bytes = 32 * MIB, .max_inodes = 90};
	ROOM(struct afar_fs_stat, 1) room;
	ROOM(struct afar_file_stat, 1) root;

	PREPARE(room);
	assert_int_equal(afar_fs_list(session, NULL, room.at, 1), 1);
	CHECK(room);
	assert_int_equal(room.at[0].max_bytes, 64 * MIB);
	assert_int_equal(room.at[0].max_inodes, 100);
	assert_int_equal(room.at[0].stripe_bytes, UNIT);
	PREPARE(root);
	assert_int_equal(afar_fs_getattr(fs, room.at[0].root, root.at), 0);
	CHECK(root);
	assert_int_equal(root.at[0].uid, 7);
	assert_int_equal(root.at[0].gid, 8);
	assert_int_equal(root.at[0].mode, S_IFDIR | 0751);
	assert_int_equal(afar_fs_set_limits(session, "files", &limits), 0);
	PREPARE(room);
	assert_int_equal(afar_fs_stat(fs, room.at), 0);
	assert_int_equal(room.at[0].max_inodes, 90);
	return room.at[0].root;
}

static void write_files(struct afar_fs *fs, const struct afar_who *who, uint64_t root)
{
	ROOM(struct afar_small_file, NR) files;
	char bytes[NR][8] = {{0}};

	memset(&files, CANARY, sizeof(files));
	for (unsigned i = 0; i < NR; i++)
		files.at[i] = (struct afar_small_file){.size = sizeof(struct afar_small_file),
						       .dir = root,
						       .name = (const char *[]){"a", "b", "c"}[i],
						       .mode = 0640,
						       .data = "bytes",
						       .length = i + 1};
	assert_int_equal(afar_fs_write_files(fs, who, files.at, NR), 0);
	CHECK(files);
	for (unsigned i = 0; i < NR; i++) {
		assert_true(files.at[i].ino != 0);
		files.at[i].data = bytes[i];
		files.at[i].length = sizeof(bytes[i]);
	}
	assert_int_equal(afar_fs_read_files(fs, who, files.at, NR), 0);
	CHECK(files);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(files.at[i].length, i + 1);
}

static void check_directory(struct afar_fs *fs, const struct afar_who *who, uint64_t root,
			    bool with_attributes)
{
	ROOM(struct afar_dirent, NR) room;

	PREPARE(room);
	assert_int_equal(afar_fs_readdir(fs, who, root, NULL, with_attributes, room.at, NR), NR);
	CHECK(room);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(room.at[i].name[0], 'a' + i);
		assert_int_equal(room.at[i].name[1], 0);
		assert_true(S_ISREG(room.at[i].stat.mode));
		assert_int_equal(room.at[i].size, sizeof(room.at[i]));
		assert_int_equal(room.at[i].stat.size, sizeof(room.at[i].stat));
		if (with_attributes) {
			assert_int_equal(room.at[i].stat.bytes, i + 1);
			assert_int_equal(room.at[i].stat.uid, who->uid);
		}
	}
}

static void check_file(struct afar_fs *fs, const struct afar_who *who, uint64_t root)
{
	struct afar_lock lock = {
		.size = sizeof(lock), .mode = AFAR_LOCK_EXCLUSIVE, .length = 1, .pid = 3};
	struct afar_file_stat to = {.size = sizeof(to), .mode = 0604};
	ROOM(struct afar_file_stat, 1) room;
	struct afar_file *file;

	PREPARE(room);
	assert_int_equal(afar_fs_lookup(fs, who, root, "b", room.at), 0);
	assert_int_equal(room.at[0].bytes, 2);
	assert_int_equal(afar_fs_setattr(fs, who, room.at[0].ino, AFAR_SET_MODE, &to, room.at), 0);
	CHECK(room);
	assert_int_equal(room.at[0].mode, S_IFREG | 0604);
	assert_int_equal(afar_file_open(fs, who, room.at[0].ino, O_RDWR, &file), 0);
	assert_int_equal(afar_file_lock(file, &lock, 0), 0);
	lock.owner = 1;
	assert_int_equal(afar_file_lock_stat(file, &lock), 0);
	assert_int_equal(lock.mode, AFAR_LOCK_EXCLUSIVE);
	assert_int_equal(lock.pid, 3);
	PREPARE(room);
	assert_int_equal(afar_file_stat(file, room.at), 0);
	CHECK(room);
	assert_int_equal(room.at[0].nlink, 1);
	assert_int_equal(afar_file_close(file), 0);
}

static void test_files(void **state)
{
	const uint32_t group = 8;
	const struct afar_who who = {
		.size = sizeof(who), .uid = 7, .gid = 9, .groups = &group, .nr_groups = 1};
	struct afar_fs *fs = make_fs();
	uint64_t root = check_fs(fs);

	(void)state;
	write_files(fs, &who, root);
	check_directory(fs, &who, root, true);
	check_directory(fs, &who, root, false);
	check_file(fs, &who, root);
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(session, "files"), 0);
}

/* ---- Graphs */

static int count(struct afar_graph_step *step, const struct afar_graph_vertex *vertex, void *value)
{
	(void)step;
	(void)vertex;
	*(char *)value = 7;
	return 0;
}

static void test_graph(void **state)
{
	const struct graph_header header = {GRAPH_MAGIC, 1, 0, 0, 1};
	const struct afar_graph_program program = {
		.size = sizeof(program), .name = "count", .value_bytes = 1, .compute = count};
	const struct afar_graph_job_options options = {.size = sizeof(options)};
	ROOM(struct afar_graph_stat, 1) stat;
	ROOM(struct afar_graph_job_stat, 1) job_stat;
	struct afar_namespace *ns = make_namespace("grown", 0, 2 * MIB);
	struct afar_region *region;
	struct afar_graph *graph;
	struct afar_graph_job *job;
	char image[GRAPH_OFFSETS + 16] = {0};

	(void)state;
	memcpy(image, &header, sizeof(header));
	assert_int_equal(afar_region_create(ns, "graph", sizeof(image), 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, image, sizeof(image), 0), sizeof(image));
	assert_int_equal(afar_graph_open(session, "grown:graph", &graph), 0);
	PREPARE(stat);
	assert_int_equal(afar_graph_stat(graph, stat.at), 0);
	CHECK(stat);
	assert_int_equal(stat.at[0].nr_vertices, 1);
	assert_int_equal(stat.at[0].is_symmetric, 1);
	assert_int_equal(afar_graph_job_open(graph, &program, &options, &job), 0);
	PREPARE(job_stat);
	assert_int_equal(afar_graph_job_stat(job, job_stat.at), 0);
	CHECK(job_stat);
	assert_int_equal(job_stat.at[0].ns_bytes, 0);
	assert_int_equal(afar_graph_job_run(job), 0);
	assert_int_equal(*(const char *)afar_graph_job_values(job), 7);
	assert_int_equal(afar_graph_job_close(job), 0);
	assert_int_equal(afar_graph_close(graph), 0);
	drop_region(region);
	drop_namespace(ns, "grown");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases), cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_regions),	 cmocka_unit_test(test_queue),
		cmocka_unit_test(test_volumes),	 cmocka_unit_test(test_keys),
		cmocka_unit_test(test_files),	 cmocka_unit_test(test_graph),
	};

	is_newer = argc > 1 && strcmp(argv[1], "newer") == 0;
	return cmocka_run_group_tests(tests, start, stop);
}
