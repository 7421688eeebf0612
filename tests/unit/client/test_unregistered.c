/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unregistered memory in blocking calls over a transport that wants memory registered and refuses to, because no more can be
 * pinned. The bytes go through what can be registered, the program is told once, and registering is tried again. The
 * transport here moves bytes at once, from and to registered memory alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "client/blocking/unregistered.h"
#include "lib/client/fake_fabric.h"
#include "unit/group.h"

#define KIB	   ((size_t)1024)
#define BYTES	   (1024 * KIB)
#define LIMIT_NONE SIZE_MAX

static struct fabric_ops ops;
static struct afar_target *target;
static char *there; /* the server's memory */
static char *here;

/* The transport, and what it has registered. */
static struct {
	size_t bytes, bytes_max;
	int refusal;
	unsigned nr, nr_ever, nr_refused;
	uint64_t contexts[FAKE_TRANSFERS_MAX]; /* done, not told */
	unsigned nr_done;
} fabric;

static int limited_register(struct fabric_domain *domain, void *addr, size_t length,
			    unsigned access, struct fabric_memory *out)
{
	(void)access;
	if (fabric.bytes + length > fabric.bytes_max) {
		fabric.nr_refused++;
		return error_fail(fabric.refusal, "register %zu bytes: refused", length);
	}
	fabric.bytes += length;
	fabric.nr++;
	fabric.nr_ever++;
	*out = (struct fabric_memory){
		.domain = domain, .handle = (void *)length, .descriptor = addr};
	return 0;
}

static bool limited_deregister(struct fabric_memory *memory)
{
	fabric.bytes -= (size_t)memory->handle;
	fabric.nr -= memory->handle != NULL; /* else it is older than the limits */
	return true;
}

static int move(const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
		uint64_t context, bool is_write)
{
	if (fabric.nr_done == FAKE_TRANSFERS_MAX)
		return -EAGAIN;
	for (unsigned i = 0; i < nr_pieces; i++) {
		const char *registered = pieces[i].descriptor;

		assert_non_null(registered);
		assert_true((char *)pieces[i].addr >= registered);
		assert_true(remote + pieces[i].length <= BYTES);
		if (is_write)
			memcpy(there + remote, pieces[i].addr, pieces[i].length);
		else
			memcpy(pieces[i].addr, there + remote, pieces[i].length);
		remote += pieces[i].length;
	}
	fabric.contexts[fabric.nr_done++] = context;
	return 0;
}

static int moving_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	(void)endpoint;
	(void)key;
	return move(pieces, nr_pieces, remote, context, false);
}

static int moving_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	(void)endpoint;
	(void)key;
	return move(pieces, nr_pieces, remote, context, true);
}

static int moving_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max)
{
	unsigned count = fabric.nr_done < max ? fabric.nr_done : max;

	(void)queue;
	for (unsigned i = 0; i < count; i++)
		out[i] = (struct fabric_completion){.context = fabric.contexts[i]};
	fabric.nr_done -= count;
	memmove(fabric.contexts, fabric.contexts + count,
		fabric.nr_done * sizeof(fabric.contexts[0]));
	return (int)count;
}

static void fill(char *bytes, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (char)(seed >> 24);
	}
}

static int open_world(void **state)
{
	(void)state;
	fake_open(64, false);
	fake_connect(0);
	ops = fake_ops;
	ops.memory_register = limited_register;
	ops.memory_deregister = limited_deregister;
	ops.read = moving_read;
	ops.write = moving_write;
	ops.queue_poll = moving_poll;
	world.fabric.ops = &ops;
	world.fabric.attributes.needs_local_registration = true;
	world.session.fabrics.needs_registration = true;
	CDS_INIT_LIST_HEAD(&world.session.idle_queues);
	cds_list_add(&world.queue->idle_node, &world.session.idle_queues);
	target = fake_target(0, 1);
	target->length = target->binding->layout->length =
		target->binding->layout->groups[0].length =
			target->binding->layout->groups[0].chunk_bytes = BYTES;
	memset(&fabric, 0, sizeof(fabric));
	fabric.bytes_max = LIMIT_NONE;
	fabric.refusal = -ENOMEM;
	there = calloc(1, BYTES);
	here = malloc(BYTES);
	return there && here ? 0 : -1;
}

static int close_world(void **state)
{
	(void)state;
	fake_close();
	fake_target_free(target);
	free(there);
	free(here);
	return fabric.nr ? -1 : 0;
}

/* ---- Warnings go to standard error */

static FILE *warnings;
static int before;

static void catch_warnings(void)
{
	log_set_level(LOG_LEVEL_WARN);
	warnings = tmpfile();
	assert_non_null(warnings);
	before = dup(STDERR_FILENO);
	dup2(fileno(warnings), STDERR_FILENO);
}

/* How many came. */
static unsigned stop_catching(void)
{
	char line[512];
	unsigned count = 0;

	dup2(before, STDERR_FILENO);
	close(before);
	rewind(warnings);
	while (fgets(line, sizeof(line), warnings)) {
		assert_non_null(strstr(line, "refused; until then unregistered memory is copied"));
		count++;
	}
	fclose(warnings);
	return count;
}

/* ---- What goes where */

/* By pieces of odd lengths, one of them of none, from an odd offset on; both ways. */
static void check_both_ways(uint32_t seed)
{
	const struct afar_iov pieces[] = {
		{.addr = here + 1, .length = 70001},
		{.addr = here + 80000, .length = 3},
		{.addr = NULL, .length = 0},
		{.addr = here + 90000, .length = 200017},
		{.addr = here + 400000, .length = 131072},
	};
	const uint64_t offset = 777, length = 70001 + 3 + 200017 + 131072;
	uint64_t at = offset;

	fill(here, BYTES, seed);
	memset(there, 0, BYTES);
	assert_int_equal(target_transfer(target, AFAR_OP_WRITE, 0, pieces, 5, offset, length), 0);
	for (unsigned i = 0; i < 5; at += pieces[i++].length)
		if (pieces[i].length)
			assert_memory_equal(there + at, pieces[i].addr, pieces[i].length);
	assert_int_equal(there[offset - 1], 0);
	assert_int_equal(there[at], 0);

	fill(there, BYTES, seed + 1);
	memset(here, 0x55, BYTES);
	assert_int_equal(target_transfer(target, AFAR_OP_READ, 0, pieces, 5, offset, length), 0);
	at = offset;
	for (unsigned i = 0; i < 5; at += pieces[i++].length)
		if (pieces[i].length)
			assert_memory_equal(there + at, pieces[i].addr, pieces[i].length);
	assert_int_equal(here[0], 0x55);
	assert_int_equal(here[70002], 0x55);
	assert_int_equal(here[400000 + 131072], 0x55);
}

static void test_registers_what_is_long(void **state)
{
	(void)state;
	check_both_ways(1);
	assert_int_equal(fabric.nr_ever, 2 * 4);
	assert_int_equal(fabric.nr, 0);
}

/* Short ones go together through the queue's buffer, long ones each by themselves. */
static void check_pieces(unsigned nr, size_t length)
{
	struct target_piece pieces[100] = {0};

	fill(here, BYTES, nr);
	memset(there, 0, BYTES);
	for (unsigned i = 0; i < nr; i++)
		pieces[i] = (struct target_piece){
			.memory = {.addr = here + i * 10007, .length = i == 7 ? 70000 : length},
			.offset = (nr - 1 - i) * 10000,
		};
	pieces[7].offset = 930000;
	assert_int_equal(target_transfer_pieces(target, AFAR_OP_WRITE, 0, pieces, nr), 0);
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(pieces[i].status, 0);
		assert_memory_equal(there + pieces[i].offset, pieces[i].memory.addr,
				    pieces[i].memory.length);
		pieces[i].memory.addr = here + pieces[i].offset;
	}
	memset(here, 0x55, BYTES);
	assert_int_equal(target_transfer_pieces(target, AFAR_OP_READ, 0, pieces, nr), 0);
	for (unsigned i = 0; i < nr; i++)
		assert_memory_equal(there + pieces[i].offset, pieces[i].memory.addr,
				    pieces[i].memory.length);
	assert_int_equal(here[BYTES - 1], 0x55);
}

static void test_packs_pieces(void **state)
{
	(void)state;
	check_pieces(90, 1000);
	check_pieces(9, 9999);
	check_pieces(30, 1);
	assert_int_equal(fabric.nr_ever, 1 + 3 * 2);
	assert_int_equal(fabric.nr, 1); /* the queue's own */
}

static void test_some_pieces_refused(void **state)
{
	(void)state;
	catch_warnings();
	fabric.bytes_max = 20000;
	check_pieces(90, 1000);
	check_pieces(9, 9999);
	assert_int_equal(stop_catching(), 1);
}

/* It has no memory. */
static void test_zeros_register_nothing(void **state)
{
	(void)state;
	assert_int_equal(target_zero(target, AFAR_OP_TRIM, 0, 5, BYTES - 5), 0);
	assert_int_equal(fabric.nr_ever, 0);
}

static void check_refused(int refusal)
{
	catch_warnings();
	fabric.bytes_max = PLAIN_BOUNCE_MAX + 4096;
	fabric.refusal = refusal;
	for (unsigned round = 0; round < 3; round++)
		check_both_ways(round);
	assert_int_equal(stop_catching(), 1);
	assert_true(fabric.nr_refused >= 6);
	assert_int_equal(fabric.nr, 1); /* the queue's own */

	/* The memory is registered again as soon as it can be. */
	fabric.bytes_max = LIMIT_NONE;
	fabric.nr_ever = 0;
	check_both_ways(9);
	assert_int_equal(fabric.nr_ever, 2 * 4);
}

static void test_refused(void **state)
{
	(void)state;
	check_refused(-ENOMEM);
}

static void test_refused_for_now(void **state)
{
	(void)state;
	check_refused(-EAGAIN);
}

/* The refused memory may be one piece of several: those before it are not left behind. */
static void test_some_refused(void **state)
{
	(void)state;
	catch_warnings();
	fabric.bytes_max = 250000;
	check_both_ways(1);
	assert_int_equal(stop_catching(), 1);
	assert_int_equal(fabric.nr, 1);
	assert_int_equal(fabric.bytes, PLAIN_BOUNCE_MAX);
}

/* Not even the session's own buffer can be registered whole. */
static void test_little_left(void **state)
{
	const struct afar_iov piece = {.addr = here, .length = 60000};

	(void)state;
	catch_warnings();
	fabric.bytes_max = 20000;
	fill(here, BYTES, 5);
	assert_int_equal(target_transfer(target, AFAR_OP_WRITE, 0, &piece, 1, 5, 60000), 0);
	assert_memory_equal(there + 5, here, 60000);
	assert_int_equal(fabric.bytes, 16 * KIB);
	check_both_ways(1);
	assert_int_equal(stop_catching(), 1);
}

static void test_nothing_left(void **state)
{
	const struct afar_iov piece = {.addr = here, .length = BYTES};

	(void)state;
	catch_warnings();
	fabric.bytes_max = 4095;
	assert_int_equal(target_transfer(target, AFAR_OP_READ, 0, &piece, 1, 0, BYTES), -ENOMEM);
	assert_non_null(strstr(error_last_line(), "refused"));
	fabric.bytes_max = 4096;
	fill(there, BYTES, 3);
	assert_int_equal(target_transfer(target, AFAR_OP_READ, 0, &piece, 1, 0, BYTES), 0);
	assert_memory_equal(there, here, BYTES);
	assert_int_equal(stop_catching(), 1);
}

/* The caller hears what is wrong with the memory. */
static void test_other_errors(void **state)
{
	const struct afar_iov piece = {.addr = here, .length = BYTES};

	(void)state;
	catch_warnings();
	fabric.bytes_max = PLAIN_BOUNCE_MAX;
	fabric.refusal = -EFAULT;
	assert_int_equal(target_transfer(target, AFAR_OP_READ, 0, &piece, 1, 0, BYTES), -EFAULT);
	assert_int_equal(stop_catching(), 0);
	assert_int_equal(fabric.nr, 0);
}

/* A buffer that the program asks for is there, or it hears why not. */
static void test_buffers(void **state)
{
	const struct afar_memory memory = {.size = sizeof(memory), .addr = here, .length = BYTES};
	struct afar_buffer *buffer;

	(void)state;
	catch_warnings();
	fabric.bytes_max = PLAIN_BOUNCE_MAX;
	assert_int_equal(afar_buffer_register(&world.session, &memory, AFAR_ACCESS_READ, &buffer),
			 -ENOMEM);
	assert_non_null(strstr(afar_last_error(), "refused"));
	assert_int_equal(stop_catching(), 0);
	assert_int_equal(fabric.nr, 0);
}

#define world_test(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

TEST_GROUP(unregistered)
{
	const struct CMUnitTest tests[] = {
		world_test(test_registers_what_is_long),
		world_test(test_packs_pieces),
		world_test(test_some_pieces_refused),
		world_test(test_zeros_register_nothing),
		world_test(test_refused),
		world_test(test_refused_for_now),
		world_test(test_some_refused),
		world_test(test_little_left),
		world_test(test_nothing_left),
		world_test(test_other_errors),
		world_test(test_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
