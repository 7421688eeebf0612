/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing what another thread is using: a close answers -EBUSY as long as a transfer runs. Once it has
 * answered 0, whoever goes on gets -EINVAL, and no transfer touches what was closed.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "lib/base/transport.h"

#define KIB	   ((uint64_t)1 << 10)
#define MIB	   ((uint64_t)1 << 20)
#define NR_SERVERS 2
#define NR_ROUNDS  100

static struct cluster *cluster;
static struct afar_session *session;
static struct afar_namespace *ns;
static uint8_t pattern[MIB];

static int start(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	if (cluster_start(NR_SERVERS, 64 * MIB, &cluster) ||
	    afar_session_open(cluster_uri(cluster), NULL, &session) ||
	    afar_namespace_create(session, "closing", NULL, &ns) ||
	    afar_namespace_reserve(ns, 8 * MIB))
		return -1;
	return 0;
}

static int stop(void **state)
{
	int ret = afar_namespace_close(ns);

	(void)state;
	if (!ret)
		ret = afar_namespace_delete(session, "closing", AFAR_DELETE_REGIONS);
	if (!ret)
		ret = afar_session_close(session);
	cluster_stop(cluster);
	return ret;
}

static struct afar_region *make_region(void)
{
	struct afar_region *region;

	afar_region_delete(ns, "r"); /* that of a test which failed */
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, pattern, MIB, 0), MIB);
	return region;
}

/* Whatever was closed: the region holds what it held. */
static void expect_pattern(void)
{
	static uint8_t found[MIB];
	struct afar_region *region;

	assert_int_equal(afar_region_open(ns, "r", &region), 0);
	assert_int_equal(afar_region_pread(region, found, MIB, 0), MIB);
	assert_memory_equal(found, pattern, MIB);
	assert_int_equal(afar_region_close(region), 0);
}

/* ---- A thread that transfers until it is told that the handle is closed */

struct user {
	pthread_t thread;
	int (*transfer)(struct user *user);
	int (*close)(struct user *user);
	struct afar_region *region;
	struct afar_mapping *mapping;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	uint8_t *memory;
	size_t length;
	atomic_uint nr_done;
	atomic_bool is_over;
	int status; /* that ended it */
};

static void *transfer_until_closed(void *argument)
{
	struct user *user = argument;

	while ((user->status = user->transfer(user)) == 0) {
		atomic_fetch_add(&user->nr_done, 1);
		sched_yield();
	}
	atomic_store(&user->is_over, true);
	return NULL;
}

/* So that a close comes at any moment of a transfer, and not always as soon as it can. */
static void pause_a_little(void)
{
	static uint32_t seed = 5;

	seed = seed * 1664525 + 1013904223;
	for (volatile uint32_t left = seed >> 18; left > 0; left--)
		;
}

/* Starts the thread, closes under it, and ends it. Returns how often the close found a transfer. */
static unsigned close_under(struct user *user)
{
	unsigned nr_busy = 0;
	int ret;

	user->nr_done = 0;
	user->is_over = false;
	assert_int_equal(pthread_create(&user->thread, NULL, transfer_until_closed, user), 0);
	while (atomic_load(&user->nr_done) == 0 && !atomic_load(&user->is_over))
		sched_yield();
	pause_a_little();
	while ((ret = user->close(user)) == -EBUSY) {
		nr_busy++;
		pause_a_little();
	}
	if (user->memory && ret == 0)
		memset(user->memory, 0xee, MIB);
	pthread_join(user->thread, NULL);
	assert_int_equal(ret, 0);
	assert_true(user->nr_done > 0);
	assert_int_equal(user->status, -EINVAL);
	assert_int_equal(user->close(user), -EINVAL);
	return nr_busy;
}

/* ---- Regions */

static int write_region(struct user *user)
{
	ssize_t moved = afar_region_pwrite(user->region, pattern, user->length, 0);

	return moved == (ssize_t)user->length ? 0 : (int)moved;
}

static int read_region(struct user *user)
{
	static uint8_t found[MIB];
	ssize_t moved = afar_region_pread(user->region, found, user->length, 0);

	if (moved != (ssize_t)user->length)
		return (int)moved;
	return memcmp(found, pattern, user->length) ? -EIO : 0;
}

static int close_region(struct user *user)
{
	return afar_region_close(user->region);
}

static void test_region_closed_under_a_transfer(void **state)
{
	struct user user = {.region = make_region(), .close = close_region};
	unsigned nr_busy = 0;

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		user.transfer = round % 2 ? read_region : write_region;
		user.length = round % 4 < 2 ? 4 * KIB : MIB;
		nr_busy += close_under(&user);
		expect_pattern();
		assert_int_equal(afar_region_open(ns, "r", &user.region), 0);
	}
	assert_true(nr_busy > 0 ||
		    is_on_local()); /* where a transfer may be over before the call */
	assert_int_equal(afar_region_destroy(user.region), 0);
	assert_int_equal(afar_region_close(user.region), 0);
}

/* ---- Mappings */

static int read_mapping(struct user *user)
{
	return afar_mapping_read(user->mapping, 0, user->length);
}

static int write_mapping(struct user *user)
{
	return afar_mapping_write(user->mapping, 0, user->length);
}

static int unmap(struct user *user)
{
	return afar_mapping_unmap(user->mapping);
}

static void test_unmapped_under_a_transfer(void **state)
{
	struct user user = {.region = make_region(), .close = unmap};
	unsigned nr_busy = 0;

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		user.transfer = round % 2 ? read_mapping : write_mapping;
		user.length = round % 4 < 2 ? 4 * KIB : MIB;
		assert_int_equal(afar_region_map(user.region, 0, MIB, 0, &user.mapping), 0);
		memcpy(afar_mapping_data(user.mapping), pattern, MIB);
		nr_busy += close_under(&user);
		expect_pattern();
	}
	assert_true(nr_busy > 0 ||
		    is_on_local()); /* where a transfer may be over before the call */
	assert_int_equal(afar_region_destroy(user.region), 0);
	assert_int_equal(afar_region_close(user.region), 0);
}

/* ---- Buffers */

static int read_by_queue(struct user *user)
{
	struct afar_iov iov = {user->buffer, user->memory, user->length};
	struct afar_op op = {.opcode = AFAR_OP_READ,
			     .nr_iov = 1,
			     .target = afar_region_target(user->region),
			     .iov = &iov};
	struct afar_completion done;
	int ret = afar_queue_submit(user->queue, &op, 1);

	if (ret != 1)
		return ret;
	ret = afar_queue_wait(user->queue, &done, 1, 1, -1);
	if (ret != 1)
		return ret < 0 ? ret : -EIO;
	if (done.result != (int64_t)user->length)
		return (int)done.result;
	return 0;
}

static int unregister(struct user *user)
{
	return afar_buffer_unregister(user->buffer);
}

/* Once unregistered, the memory is its owner's: what he puts there stays. */
static void test_buffer_unregistered_under_a_transfer(void **state)
{
	struct user user = {.region = make_region(),
			    .memory = malloc(MIB),
			    .transfer = read_by_queue,
			    .close = unregister};
	struct afar_memory memory = {.size = sizeof(memory), .addr = user.memory, .length = MIB};
	unsigned nr_busy = 0;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &user.queue), 0);
	assert_int_equal(afar_queue_connect(user.queue, afar_region_target(user.region)), 0);
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		user.length = round % 2 ? 4 * KIB : MIB;
		assert_int_equal(
			afar_buffer_register(session, &memory, AFAR_ACCESS_WRITE, &user.buffer), 0);
		nr_busy += close_under(&user);
		for (size_t i = 0; i < MIB; i++)
			assert_int_equal(user.memory[i], 0xee);
	}
	assert_true(nr_busy > 0 ||
		    is_on_local()); /* where a transfer may be over before the call */
	assert_int_equal(afar_queue_close(user.queue), 0);
	assert_int_equal(afar_region_destroy(user.region), 0);
	assert_int_equal(afar_region_close(user.region), 0);
	free(user.memory);
}

/* ---- Mapping while the region is closed */

/* -EIO: a mapping was made that is good for nothing. */
static int map_and_unmap(struct user *user)
{
	struct afar_mapping *mapping;
	int ret = afar_region_map(user->region, 0, user->length, 0, &mapping);

	if (ret)
		return ret;
	return afar_mapping_read(mapping, 0, user->length) || afar_mapping_unmap(mapping) ? -EIO
											  : 0;
}

static void test_region_closed_under_a_map(void **state)
{
	struct user user = {.region = make_region(),
			    .transfer = map_and_unmap,
			    .close = close_region,
			    .length = 4 * KIB};

	(void)state;
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		close_under(&user);
		assert_int_equal(afar_region_open(ns, "r", &user.region), 0);
	}
	assert_int_equal(afar_region_destroy(user.region), 0);
	assert_int_equal(afar_region_close(user.region), 0);
}

/* ---- Everything at once */

static void signal_servers(int number)
{
	int status;

	for (unsigned i = 0; i < NR_SERVERS; i++) {
		pid_t pid = cluster_server(cluster, i);

		assert_int_equal(kill(pid, number), 0);
		if (number != SIGSTOP)
			continue;
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
		assert_true(WIFSTOPPED(status));
	}
}

/* Two reads, into a mapping and into a buffer; another thread than the one that closes. */
static void *submit_two(void *argument)
{
	struct user *user = argument;
	static struct afar_iov iov[2]; /* until completion, longer than this thread */
	struct afar_op ops[2];

	iov[0] = (struct afar_iov){afar_mapping_buffer(user->mapping),
				   afar_mapping_data(user->mapping), user->length};
	iov[1] = (struct afar_iov){user->buffer, user->memory, user->length};
	for (unsigned i = 0; i < 2; i++)
		ops[i] = (struct afar_op){.opcode = AFAR_OP_READ,
					  .nr_iov = 1,
					  .target = afar_region_target(user->region),
					  .iov = &iov[i],
					  .user_data = i};
	user->status = afar_queue_submit(user->queue, ops, 2);
	return NULL;
}

/* Servers that are stopped keep a transfer in flight for as long as it takes to try. */
static void test_nothing_closes_while_it_is_used(void **state)
{
	struct user user = {.region = make_region(), .length = 64 * KIB};
	static uint8_t bytes[MIB];
	struct afar_memory memory = {.size = sizeof(memory), .addr = bytes, .length = MIB};
	struct afar_completion done[2];
	int ret;

	(void)state;
	assert_int_equal(afar_queue_open(session, NULL, &user.queue), 0);
	assert_int_equal(afar_queue_connect(user.queue, afar_region_target(user.region)), 0);
	assert_int_equal(afar_region_map(user.region, 0, MIB, 0, &user.mapping), 0);
	assert_int_equal(afar_buffer_register(session, &memory, AFAR_ACCESS_WRITE, &user.buffer),
			 0);
	user.memory = bytes;

	signal_servers(SIGSTOP);
	pthread_create(&user.thread, NULL, submit_two, &user);
	pthread_join(user.thread, NULL);
	assert_int_equal(user.status, 2);
	assert_int_equal(afar_mapping_unmap(user.mapping), -EBUSY);
	assert_int_equal(afar_buffer_unregister(user.buffer), -EBUSY);
	assert_int_equal(afar_region_close(user.region), -EBUSY);
	assert_int_equal(afar_queue_close(user.queue), -EBUSY);
	assert_int_equal(afar_namespace_close(ns), -EBUSY);
	assert_int_equal(afar_session_close(session), -EBUSY);
	signal_servers(SIGCONT);

	/* Done, but not reaped: that holds the queue alone. */
	assert_int_equal(afar_queue_wait_one(user.queue, 0, &done[0], -1), 0);
	assert_memory_equal(afar_mapping_data(user.mapping), pattern, user.length);
	assert_int_equal(afar_mapping_unmap(user.mapping), 0);
	while ((ret = afar_buffer_unregister(user.buffer)) == -EBUSY)
		assert_int_equal(afar_queue_wait(user.queue, done, 0, 0, 0), 0);
	assert_int_equal(ret, 0);
	assert_memory_equal(user.memory, pattern, user.length);
	assert_int_equal(afar_queue_close(user.queue), -EBUSY);
	assert_int_equal(afar_queue_wait(user.queue, &done[1], 1, 1, -1), 1);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(done[i].result, user.length);
	assert_int_equal(afar_queue_close(user.queue), 0);
	assert_int_equal(afar_queue_close(user.queue), -EINVAL);
	assert_int_equal(afar_region_destroy(user.region), 0);
	assert_int_equal(afar_region_close(user.region), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_region_closed_under_a_transfer),
		cmocka_unit_test(test_unmapped_under_a_transfer),
		cmocka_unit_test(test_buffer_unregistered_under_a_transfer),
		cmocka_unit_test(test_region_closed_under_a_map),
		cmocka_unit_test(test_nothing_closes_while_it_is_used),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
