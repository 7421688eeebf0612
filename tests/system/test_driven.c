/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations with AFAR_OP_DRIVEN through the public API. The server moves the bytes, whatever they are cut into. The
 * operations come among and behind others as any do. A client that is stopped in the middle of one holds nobody up, and
 * leaves nothing behind when it is killed. Where the path cannot do that, they say so.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/transport.h"

#define REGION_BYTES (16 * MIB)
#define NR_SLOTS     64U

struct driver {
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_buffer *buffer;
	uint8_t *bytes; /* REGION_BYTES, which servers may read and write */
};

static void open_driver(struct driver *driver, uint64_t stripe_bytes)
{
	const struct afar_queue_options options = {.size = sizeof(options), .depth = NR_SLOTS};
	struct afar_memory memory = {.size = sizeof(memory), .kind = AFAR_MEMORY_HOST};

	driver->ns = make_namespace("driven", stripe_bytes, REGION_BYTES);
	assert_int_equal(afar_region_create(driver->ns, "r", REGION_BYTES, 0, &driver->region), 0);
	assert_int_equal(afar_queue_open(session, &options, &driver->queue), 0);
	assert_int_equal(afar_queue_connect(driver->queue, afar_region_target(driver->region)), 0);
	driver->bytes = malloc(REGION_BYTES);
	assert_non_null(driver->bytes);
	memory.addr = driver->bytes;
	memory.length = REGION_BYTES;
	assert_int_equal(
		afar_buffer_register(session, &memory,
				     AFAR_ACCESS_READ | AFAR_ACCESS_WRITE | AFAR_ACCESS_SERVER,
				     &driver->buffer),
		0);
}

static void close_memory(struct driver *driver)
{
	assert_int_equal(afar_buffer_unregister(driver->buffer), 0);
	free(driver->bytes);
	assert_int_equal(afar_queue_close(driver->queue), 0);
}

static void close_driver(struct driver *driver)
{
	close_memory(driver);
	drop_region(driver->region);
	drop_namespace(driver->ns, "driven");
}

static int submit(struct driver *driver, uint16_t opcode, uint16_t flags, uint64_t offset,
		  const struct afar_iov *iov, uint32_t nr_iov)
{
	const struct afar_op op = {.opcode = opcode,
				   .flags = flags,
				   .nr_iov = nr_iov,
				   .target = afar_region_target(driver->region),
				   .offset = offset,
				   .iov = iov,
				   .operand = opcode == AFAR_OP_FETCH_ADD};

	return afar_queue_submit(driver->queue, &op, 1);
}

static int64_t reap(struct driver *driver)
{
	struct afar_completion completion;

	assert_int_equal(afar_queue_wait(driver->queue, &completion, 1, 1, -1), 1);
	return completion.result;
}

static int64_t run(struct driver *driver, uint16_t opcode, uint64_t offset, uint8_t *at,
		   uint64_t length)
{
	const struct afar_iov iov = {driver->buffer, at, length};

	assert_int_equal(submit(driver, opcode, AFAR_OP_DRIVEN, offset, &iov, 1), 1);
	return reap(driver);
}

/* Others read what is written so, and the other way round, over stripes and pieces of all kinds. */
static void check_bytes(uint64_t stripe_bytes)
{
	uint8_t *expected = malloc(REGION_BYTES), *found = malloc(REGION_BYTES);
	struct driver driver;
	struct afar_iov iov[5];

	assert_true(expected && found);
	open_driver(&driver, stripe_bytes);
	fill(expected, REGION_BYTES, 1);
	memcpy(driver.bytes, expected, REGION_BYTES);
	assert_int_equal(run(&driver, AFAR_OP_WRITE, 0, driver.bytes, REGION_BYTES), REGION_BYTES);
	assert_int_equal(afar_region_pread(driver.region, found, REGION_BYTES, 0), REGION_BYTES);
	assert_memory_equal(found, expected, REGION_BYTES);

	memset(driver.bytes, 0, REGION_BYTES);
	assert_int_equal(run(&driver, AFAR_OP_READ, 5, driver.bytes + 3, REGION_BYTES - 5),
			 REGION_BYTES - 5);
	assert_memory_equal(driver.bytes + 3, expected + 5, REGION_BYTES - 5);
	assert_true(driver.bytes[2] == 0 && driver.bytes[REGION_BYTES - 2] == 0);

	/* In pieces, some of them empty, and back to front. */
	iov[0] = (struct afar_iov){driver.buffer, driver.bytes, 0};
	iov[1] = (struct afar_iov){driver.buffer, driver.bytes + 5 * MIB, 3 * MIB - 1};
	iov[2] = (struct afar_iov){driver.buffer, driver.bytes + MIB, 0};
	iov[3] = (struct afar_iov){driver.buffer, driver.bytes + MIB, 7};
	iov[4] = (struct afar_iov){driver.buffer, driver.bytes, MIB};
	assert_int_equal(submit(&driver, AFAR_OP_READ, AFAR_OP_DRIVEN, 11, iov, 5), 1);
	assert_int_equal(reap(&driver), 4 * MIB + 6);
	assert_memory_equal(driver.bytes + 5 * MIB, expected + 11, 3 * MIB - 1);
	assert_memory_equal(driver.bytes + MIB, expected + 11 + 3 * MIB - 1, 7);
	assert_memory_equal(driver.bytes, expected + 11 + 3 * MIB + 6, MIB);
	close_driver(&driver);
	free(expected);
	free(found);
}

static void test_bytes(void **state)
{
	(void)state;
	if (!is_on_tcp())
		skip();
	check_bytes(4 * KIB);
	check_bytes(0);
}

/* More of them than the credits, among one-sided ones; a flush, an atomic, and what comes behind all. */
static void test_among_others(void **state)
{
	struct afar_completion done[NR_SLOTS];
	struct afar_iov iov[NR_SLOTS];
	struct driver driver;
	uint64_t word;

	(void)state;
	if (!is_on_tcp())
		skip();
	open_driver(&driver, 0);
	fill(driver.bytes, REGION_BYTES, 2);
	for (unsigned i = 0; i < NR_SLOTS - 4; i++) {
		iov[i] = (struct afar_iov){driver.buffer, driver.bytes + i * 64 * KIB, 64 * KIB};
		assert_int_equal(submit(&driver, AFAR_OP_WRITE, i % 3 ? AFAR_OP_DRIVEN : 0,
					i * 64 * KIB, &iov[i], 1),
				 1);
	}
	assert_int_equal(submit(&driver, AFAR_OP_FETCH_ADD, 0, REGION_BYTES - 8, NULL, 0), 1);
	assert_int_equal(submit(&driver, AFAR_OP_FLUSH, 0, 0, NULL, 0), 1);
	iov[NR_SLOTS - 1] = (struct afar_iov){driver.buffer, driver.bytes + 8 * MIB, 3 * MIB};
	assert_int_equal(submit(&driver, AFAR_OP_READ, AFAR_OP_DRIVEN | AFAR_OP_AFTER, 0,
				&iov[NR_SLOTS - 1], 1),
			 1);
	assert_int_equal(afar_queue_wait(driver.queue, done, NR_SLOTS, NR_SLOTS - 1, -1),
			 NR_SLOTS - 1);
	for (unsigned i = 0; i < NR_SLOTS - 1; i++)
		assert_true(done[i].result >= 0);
	assert_memory_equal(driver.bytes + 8 * MIB, driver.bytes, 3 * MIB);
	assert_int_equal(afar_region_pread(driver.region, &word, 8, REGION_BYTES - 8), 8);
	assert_true(word == 1);
	close_driver(&driver);
}

static void test_bad_input(void **state)
{
	struct driver driver;
	struct afar_memory memory = {.size = sizeof(memory), .kind = AFAR_MEMORY_HOST};
	struct afar_buffer *unlent, *read_only;
	struct afar_iov iov;

	(void)state;
	open_driver(&driver, 0);
	memory.addr = driver.bytes;
	memory.length = MIB;
	expect_error(afar_buffer_register(session, &memory, AFAR_ACCESS_SERVER, &unlent), -EINVAL);
	expect_error(afar_buffer_register(session, &memory, 0x8, &unlent), -EINVAL);
	assert_int_equal(afar_buffer_register(session, &memory,
					      AFAR_ACCESS_READ | AFAR_ACCESS_WRITE, &unlent),
			 0);
	assert_int_equal(afar_buffer_register(session, &memory,
					      AFAR_ACCESS_READ | AFAR_ACCESS_SERVER, &read_only),
			 0);
	iov = (struct afar_iov){NULL, driver.bytes, 8};
	expect_error(submit(&driver, AFAR_OP_WRITE, AFAR_OP_DRIVEN, 0, &iov, 1), -EINVAL);
	iov.buffer = unlent;
	expect_error(submit(&driver, AFAR_OP_WRITE, AFAR_OP_DRIVEN, 0, &iov, 1), -EINVAL);
	iov.buffer = read_only;
	expect_error(submit(&driver, AFAR_OP_READ, AFAR_OP_DRIVEN, 0, &iov, 1), -EINVAL);
	iov.buffer = driver.buffer;
	expect_error(submit(&driver, AFAR_OP_FETCH_ADD, AFAR_OP_DRIVEN, 0, &iov, 1), -EINVAL);
	expect_error(submit(&driver, AFAR_OP_FLUSH, AFAR_OP_DRIVEN, 0, NULL, 0), -EINVAL);
	expect_error(submit(&driver, AFAR_OP_WRITE, AFAR_OP_DRIVEN, REGION_BYTES - 7, &iov, 1),
		     -ERANGE);
	assert_int_equal(afar_buffer_unregister(unlent), 0);
	assert_int_equal(afar_buffer_unregister(read_only), 0);

	/* Where only the client can: that operation fails, and nothing else. */
	if (!is_on_tcp()) {
		assert_int_equal(run(&driver, AFAR_OP_WRITE, 0, driver.bytes, 8), -EOPNOTSUPP);
		assert_int_equal(submit(&driver, AFAR_OP_WRITE, 0, 0, &iov, 1), 1);
		assert_int_equal(reap(&driver), 8);
	}
	close_driver(&driver);
}

/* ---- A client that stops in the middle */

struct stopper {
	pid_t pid;
	int channel;
};

static struct stopper stopper;

/* Asks for much, and is stopped before it has served anything of that but by chance. */
static void stop_in_the_middle(int channel)
{
	struct afar_queue *queue;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_buffer *buffer;
	struct afar_memory memory = {.size = sizeof(memory),
				     .kind = AFAR_MEMORY_HOST,
				     .addr = malloc(REGION_BYTES),
				     .length = REGION_BYTES};
	struct afar_iov iov = {.addr = memory.addr, .length = REGION_BYTES / 2};
	struct afar_op ops[2] = {{.opcode = AFAR_OP_WRITE}, {.opcode = AFAR_OP_READ}};
	char word;

	if (recv(channel, &word, 1, 0) != 1 ||
	    afar_session_open(cluster_uri(cluster), NULL, &session) ||
	    afar_namespace_open(session, "driven", &ns) || afar_region_open(ns, "r", &region) ||
	    afar_queue_open(session, NULL, &queue) ||
	    afar_queue_connect(queue, afar_region_target(region)) ||
	    afar_buffer_register(session, &memory,
				 AFAR_ACCESS_READ | AFAR_ACCESS_WRITE | AFAR_ACCESS_SERVER,
				 &buffer))
		_exit(1);
	iov.buffer = buffer;
	for (unsigned i = 0; i < 2; i++) {
		ops[i].flags = AFAR_OP_DRIVEN;
		ops[i].target = afar_region_target(region);
		ops[i].nr_iov = 1;
		ops[i].iov = &iov;
		ops[i].offset = i * (REGION_BYTES / 2);
	}
	if (afar_queue_submit(queue, ops, 2) != 2)
		_exit(1);
	raise(SIGSTOP);
	_exit(0);
}

/* Before there are threads. */
static int start_stopper(void **state)
{
	int channels[2];

	if (cluster_start(2, 512 * MIB, &cluster) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels))
		return -1;
	stopper.channel = channels[0];
	stopper.pid = fork_child();
	if (stopper.pid < 0)
		return -1;
	if (stopper.pid == 0) {
		close(channels[0]);
		stop_in_the_middle(channels[1]);
	}
	(void)state;
	close(channels[1]);
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

static void test_stopped_and_killed(void **state)
{
	struct driver driver;
	int status;

	(void)state;
	if (!is_on_tcp()) {
		kill(stopper.pid, SIGKILL);
		waitpid(stopper.pid, NULL, 0);
		skip();
	}
	open_driver(&driver, 0);
	assert_int_equal(send(stopper.channel, "", 1, 0), 1);
	assert_int_equal(waitpid(stopper.pid, &status, WUNTRACED), stopper.pid);
	assert_true(WIFSTOPPED(status));
	for (unsigned i = 0; i < 20; i++) {
		fill(driver.bytes, MIB, i);
		assert_int_equal(run(&driver, AFAR_OP_WRITE, 15 * MIB, driver.bytes, MIB), MIB);
		assert_int_equal(run(&driver, AFAR_OP_READ, 15 * MIB, driver.bytes + MIB, MIB),
				 MIB);
		assert_memory_equal(driver.bytes, driver.bytes + MIB, MIB);
	}
	kill(stopper.pid, SIGKILL);
	assert_int_equal(waitpid(stopper.pid, &status, 0), stopper.pid);
	assert_int_equal(run(&driver, AFAR_OP_READ, 15 * MIB, driver.bytes + 2 * MIB, MIB), MIB);
	assert_memory_equal(driver.bytes, driver.bytes + 2 * MIB, MIB);
	/* The namespace is in use by a session that is not over yet. */
	close_memory(&driver);
	drop_region(driver.region);
	assert_int_equal(afar_namespace_close(driver.ns), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_among_others),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_stopped_and_killed),
	};

	return cmocka_run_group_tests(tests, start_stopper, stop);
}
