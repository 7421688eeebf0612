/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A write whose connection was reset may have reached the server all the same, or be on its way. It must not
 * land behind what the session writes after it, over whichever queue, nor in memory that has become another
 * region's. Between client and server a relay keeps the write and gives it to the server late.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "relay.h"

#define MIB	    ((uint64_t)1 << 20)
#define BYTES	    64U
#define FRAME_BYTES (32U + BYTES) /* of such a write */

static struct {
	struct cluster *cluster;
	struct afar_session *session, *other;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *first, *second; /* over connections 0 and 1 */
} scene;

static struct afar_queue *open_queue(void)
{
	struct afar_queue *queue;

	assert_int_equal(afar_queue_open(scene.session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(scene.region)), 0);
	return queue;
}

static int open_scene(void **state)
{
	(void)state;
	relay_start();
	assert_int_equal(cluster_start(1, 8 * MIB, &scene.cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(scene.cluster), NULL, &scene.session), 0);
	assert_int_equal(afar_session_open(cluster_uri(scene.cluster), NULL, &scene.other), 0);
	assert_int_equal(afar_namespace_create(scene.session, "n", NULL, &scene.ns), 0);
	assert_int_equal(afar_namespace_reserve(scene.ns, 2 * MIB), 0);
	assert_int_equal(afar_region_alloc(scene.ns, BYTES, 0, &scene.region), 0);
	scene.first = open_queue();
	scene.second = open_queue();
	return 0;
}

static int close_scene(void **state)
{
	(void)state;
	if (scene.first)
		assert_int_equal(afar_queue_close(scene.first), 0);
	assert_int_equal(afar_queue_close(scene.second), 0);
	if (scene.region)
		assert_int_equal(afar_region_close(scene.region), 0);
	assert_int_equal(afar_namespace_close(scene.ns), 0);
	assert_int_equal(afar_session_close(scene.session), 0);
	assert_int_equal(afar_session_close(scene.other), 0);
	cluster_stop(scene.cluster);
	relay_stop();
	return 0;
}

static void submit(struct afar_queue *queue, char value)
{
	static char bytes[BYTES];
	static struct afar_iov iov;
	const struct afar_op op = {.opcode = AFAR_OP_WRITE,
				   .nr_iov = 1,
				   .target = afar_region_target(scene.region),
				   .iov = &iov};

	memset(bytes, value, sizeof(bytes));
	iov = (struct afar_iov){.addr = bytes, .length = sizeof(bytes)};
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
}

static int64_t reap(struct afar_queue *queue)
{
	struct afar_completion done;

	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	return done.result;
}

static void expect(char value)
{
	char bytes[BYTES] = "";

	assert_int_equal(afar_region_pread(scene.region, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(bytes[0], value);
	assert_int_equal(bytes[BYTES - 1], value);
}

/* The first queue's connection is reset with a write of `value` in flight, which is somewhere. */
static void lose_write(char value)
{
	submit(scene.first, 'A');
	assert_int_equal(reap(scene.first), BYTES);
	relay_swallow(0);
	submit(scene.first, value);
	relay_reset_client(0, FRAME_BYTES);
	assert_int_equal(reap(scene.first), -AFAR_ESERVER);
}

static void test_behind_another_queue(void **state)
{
	(void)state;
	lose_write('B');
	assert_int_equal(afar_queue_connect(scene.second, afar_region_target(scene.region)), 0);
	submit(scene.second, 'C');
	assert_int_equal(reap(scene.second), BYTES);
	assert_false(relay_release(0));
	expect('C');
}

static void test_behind_its_own_queue(void **state)
{
	(void)state;
	lose_write('B');
	assert_int_equal(afar_queue_connect(scene.first, afar_region_target(scene.region)), 0);
	submit(scene.first, 'C');
	assert_int_equal(reap(scene.first), BYTES);
	assert_false(relay_release(0));
	expect('C');
}

static void test_behind_a_blocking_call(void **state)
{
	char bytes[BYTES];

	(void)state;
	expect(0);
	lose_write('B');
	memset(bytes, 'C', sizeof(bytes));
	assert_int_equal(afar_region_pwrite(scene.region, bytes, sizeof(bytes), 0), BYTES);
	assert_false(relay_release(0));
	expect('C');
}

static void test_behind_the_end_of_its_queue(void **state)
{
	struct afar_queue *third;

	(void)state;
	lose_write('B');
	assert_int_equal(afar_queue_close(scene.first), 0);
	scene.first = NULL;
	third = open_queue();
	submit(third, 'C');
	assert_int_equal(reap(third), BYTES);
	assert_false(relay_release(0));
	expect('C');
	assert_int_equal(afar_queue_close(third), 0);
}

/* Its memory is the next region's, and the session holds nothing of the namespace. */
static void test_behind_the_end_of_its_region(void **state)
{
	(void)state;
	lose_write('B');
	assert_int_equal(afar_region_destroy(scene.region), 0);
	assert_int_equal(afar_region_close(scene.region), 0);
	assert_int_equal(afar_region_alloc(scene.ns, BYTES, 0, &scene.region), 0);
	assert_false(relay_release(0));
	expect('A');
	assert_int_equal(afar_region_close(scene.region), 0);
	scene.region = NULL;
	assert_int_equal(afar_namespace_delete(scene.other, "n", AFAR_DELETE_REGIONS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_behind_another_queue, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_behind_its_own_queue, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_behind_a_blocking_call, open_scene,
						close_scene),
		cmocka_unit_test_setup_teardown(test_behind_the_end_of_its_queue, open_scene,
						close_scene),
		cmocka_unit_test_setup_teardown(test_behind_the_end_of_its_region, open_scene,
						close_scene),
	};

	setenv("AFAR_TEST_HOST", RELAY_HOST, 1);
	setenv("AFAR_TEST_TRANSPORT", "tcp", 1); /* what the relay understands */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
