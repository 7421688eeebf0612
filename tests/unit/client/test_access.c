/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client gets at a server: what it shows there, what it keeps, and when it asks the manager anew.
 * Nobody listens at the server's data address, so a connect ends with -AFAR_ESERVER once the
 * client has keys and a ticket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/volume.h>

#include "client/queue/progress.h"
#include "client/queue/queue.h"
#include "lib/base/bytes.h"
#include "lib/client/fake_cluster.h"
#include "rpc/manager_features.h"
#include "unit/group.h"

/* Returns what a connect ends with. */
static int connect_region(struct afar_region *region)
{
	struct afar_queue *queue;
	int ret;

	assert_int_equal(afar_queue_open(fake.session, NULL, &queue), 0);
	ret = afar_queue_connect(queue, afar_region_target(region));
	assert_true(ret < 0 && afar_last_error()[0]);
	assert_int_equal(afar_queue_close(queue), 0);
	return ret;
}

static uint64_t key_of(const struct afar_region *region)
{
	return region->target.binding->keys[0].key;
}

/* A connection that is refused is tried twice. */
static void expect_counts(unsigned nr_accesses, unsigned nr_grants, unsigned nr_connects)
{
	expect_fake(nr_accesses, nr_accesses);
	expect_fake(nr_grants, nr_grants);
	expect_fake(nr_tickets, 2 * nr_connects);
}

/* ---- Tests */

static void test_shows_what_it_was_given(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(0, 1, 1);
	expect_fake(nr_granted, 3); /* all of the layout, ascending, each once */
	expect_fake(granted[0], 3);
	expect_fake(granted[1], 5);
	expect_fake(granted[2], 9);
	expect_fake(shown_session, SESSION);
	expect_fake(shown_capability, 1);
	expect_fake(nr_connections, 1);
	assert_int_equal(key_of(region), 100 + chunk_extents[0]);
	/* It keeps its keys, and takes a ticket for each connection. */
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(0, 1, 2);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_expired_access_is_asked_anew(void **state)
{
	struct afar_region *region;

	(void)state;
	fakes(fake.is.lifetime_ms = 0; fake.anew = usual; fake.is_anew = true;);
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 1, 1);
	assert_int_equal(afar_region_close(region), 0);
}

/* With the control connection open, it is the capability that has expired. */
static void test_expired_capability_is_asked_anew(void **state)
{
	struct afar_region *first = open_region(), *second;

	(void)state;
	assert_int_equal(connect_region(first), -AFAR_ESERVER);
	fakes(fake.is.lifetime_ms = 0; fake.is.rights = RIGHT_READ; fake.anew = usual;
	      fake.is_anew = true);
	second = open_region();
	assert_int_equal(connect_region(second), -AFAR_ESERVER);
	expect_counts(1, 2, 2);
	expect_fake(nr_connections, 1);
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_close(second), 0);
}

/* With all keys known and the control connection lost, it is the pass that has expired. */
static void test_expired_pass_is_asked_anew(void **state)
{
	struct afar_region *first = open_region(), *second;

	(void)state;
	assert_int_equal(connect_region(first), -AFAR_ESERVER);
	fakes(fake.is.lifetime_ms = 0; fake.is.hang_up = true; fake.anew = usual;
	      fake.is_anew = true);
	second = open_region();
	assert_int_equal(connect_region(second), -AFAR_ESERVER);
	expect_counts(1, 1, 2);
	expect_fake(nr_connections, 2);
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_close(second), 0);
}

/* Open regions share the pass and the keys: one that comes later needs nothing but its own layout. */
static void test_regions_share(void **state)
{
	struct afar_region *first = open_region(), *second;

	(void)state;
	assert_int_equal(connect_region(first), -AFAR_ESERVER);
	fakes(fake.is.has_no_access = true);
	second = open_region();
	assert_int_equal(connect_region(second), -AFAR_ESERVER);
	expect_counts(0, 1, 2);
	assert_int_equal(key_of(second), key_of(first));
	assert_int_equal(afar_region_close(first), 0);
	assert_int_equal(afar_region_close(second), 0);
}

static void test_refused_pass_is_asked_anew(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.known_pass = 2; fake.anew = usual; fake.anew.pass = fake.anew.known_pass = 2;
	      fake.is_anew = true;);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 1, 1);
	expect_fake(shown_capability, 2);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_unknown_to_the_server_for_good(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.known_pass = 2);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	assert_non_null(strstr(afar_last_error(), "joined"));
	expect_counts(1, 0, 0);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_refused_capability_is_asked_anew(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.refuse_grants = 1; fake.anew = usual;
	      fake.anew.pass = fake.anew.known_pass = 2; fake.is_anew = true;);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 2, 1);
	expect_fake(shown_capability, 2);
	expect_fake(nr_connections, 2); /* with the new pass */
	assert_int_equal(afar_region_close(region), 0);
}

static void test_refused_twice_is_refused(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.refuse_grants = 5);
	assert_int_equal(connect_region(region), -EACCES);
	assert_non_null(strstr(afar_last_error(), "the capability has expired"));
	expect_counts(1, 2, 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* ---- Others have made the region longer before it had keys: a capability is for what it has now. */

static void make_longer(void)
{
	fakes(fake.is.lifetime_ms = 0; fake.anew = usual; fake.anew.is_longer = true;
	      fake.is_anew = true);
}

static void expect_longer(struct afar_region *region, unsigned nr_looks)
{
	expect_fake(nr_looks, nr_looks);
	expect_fake(nr_granted, 4);
	assert_int_equal(region->target.length, (NR_CHUNKS + 1) * MIB);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_longer_when_access_has_expired(void **state)
{
	struct afar_region *region;

	(void)state;
	make_longer();
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 2, 1);
	expect_longer(region, 1);
}

static void test_longer_when_access_is_refused(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.is_longer = true);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(0, 2, 1);
	expect_longer(region, 1);
}

/* The server that the client knows has nothing of the region any more. */
static void test_given_up_when_access_has_expired(void **state)
{
	struct afar_region *region;

	(void)state;
	make_longer();
	fakes(fake.anew.gives_up = true);
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 1, 1);
	expect_longer(region, 1);
}

/* It has its keys: a server gives no ticket to those for whom it has nothing any more. */
static void test_longer_when_a_ticket_is_refused(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	fakes(fake.is.is_longer = true; fake.is.refuse_tickets = 1);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(0, 2, 2);
	expect_longer(region, 1);
}

/* Others have made it shorter, and as long as before. */
static void test_stat_takes_another_layout(void **state)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region = open_region();

	(void)state;
	assert_int_equal(afar_region_stat(region, &stat), 0);
	expect_fake(nr_looks, 0);
	fakes(fake.is.nr_changes = 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(afar_region_stat(region, &stat), 0);
		assert_int_equal(stat.length, NR_CHUNKS * MIB);
		assert_int_equal(region->target.binding->number, 2);
		expect_fake(nr_looks, 1);
	}
	assert_int_equal(afar_region_close(region), 0);
}

static void test_server_without_manager(void **state)
{
	struct afar_region *region;

	(void)state;
	fakes(fake.is.has_no_access = true);
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_counts(1, 0, 0);
	expect_fake(nr_connections, 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* The server has restarted: what was there is lost, for every region, and new ones are reached. */
static void test_new_incarnation(void **state)
{
	struct afar_region *before = open_region(), *beside = open_region(), *after;
	uint8_t byte;

	(void)state;
	assert_int_equal(connect_region(beside), -AFAR_ESERVER); /* it has its keys */
	fakes(fake.is.known_pass = 2; fake.anew = usual; fake.anew.pass = fake.anew.known_pass = 2;
	      fake.anew.incarnation = 2; fake.anew.first_key = 200; fake.is_anew = true;
	      fake.is.hang_up = true;);
	assert_int_equal(connect_region(before), -AFAR_ELOST);
	expect_counts(1, 1, 1);
	assert_int_equal(connect_region(beside), -AFAR_ELOST);
	assert_int_equal(afar_region_pread(beside, &byte, 1, 0), -AFAR_ELOST);
	expect_counts(1, 1, 1);
	after = open_region();
	assert_int_equal(connect_region(after), -AFAR_ESERVER);
	expect_counts(1, 2, 2);
	assert_int_equal(key_of(after), 200 + chunk_extents[0]);
	assert_int_equal(afar_region_close(before), 0);
	assert_int_equal(afar_region_close(beside), 0);
	assert_int_equal(afar_region_close(after), 0);
}

/* The manager gives no access to a server that has restarted, but says of the region that it is lost. */
static void test_lost_region(void **state)
{
	struct afar_region *region = open_region();
	struct afar_completion done;
	struct afar_queue *queue;
	uint8_t byte;
	struct afar_iov iov = {.addr = &byte, .length = 1};
	struct afar_op op = {.opcode = AFAR_OP_READ, .nr_iov = 1, .iov = &iov};

	(void)state;
	fakes(fake.is.known_pass = 2; fake.anew = fake.is; fake.anew.has_no_access = true;
	      fake.anew.is_lost = true; fake.is_anew = true);
	assert_int_equal(afar_region_pread(region, &byte, 1, 0), -AFAR_ELOST);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), -AFAR_ELOST);
	assert_int_equal(connect_region(region), -AFAR_ELOST);
	expect_counts(1, 0, 0);
	assert_int_equal(afar_queue_open(fake.session, NULL, &queue), 0);
	op.target = afar_region_target(region);
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, -AFAR_ELOST);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* The manager contradicts itself: the region is not opened. */
static void test_faulty_layout(void **state)
{
	struct afar_region *region;

	(void)state;
	fakes(fake.is.is_cut = true);
	assert_int_equal(afar_region_open(fake.ns, "r", &region), -AFAR_EMALFORMED);
	assert_non_null(strstr(afar_last_error(), "do not cover the region"));
	fakes(fake.is = usual; fake.is.nr_strangers = 1);
	assert_int_equal(afar_region_open(fake.ns, "r", &region), -AFAR_EMALFORMED);
	assert_non_null(strstr(afar_last_error(), "more servers than it has homes"));
	fakes(fake.is = usual);
	assert_int_equal(afar_region_close(open_region()), 0);
}

/* A key for reading is no key for writing, nor the other way round. */
static void test_keys_go_with_rights(void **state)
{
	struct afar_region *reader, *writer, *again;

	(void)state;
	fakes(fake.is.rights = RIGHT_READ);
	reader = open_region();
	assert_int_equal(connect_region(reader), -AFAR_ESERVER);
	fakes(fake.is.rights = RIGHT_ALL; fake.is.first_key = 200;);
	writer = open_region();
	assert_int_equal(connect_region(writer), -AFAR_ESERVER);
	expect_counts(0, 2, 2);
	fakes(fake.is.rights = RIGHT_READ; fake.is.first_key = 300;);
	again = open_region();
	assert_int_equal(connect_region(again), -AFAR_ESERVER);
	expect_counts(0, 2, 3);
	assert_int_equal(key_of(reader), 100 + chunk_extents[0]);
	assert_int_equal(key_of(writer), 200 + chunk_extents[0]);
	assert_int_equal(key_of(again), 100 + chunk_extents[0]);
	assert_int_equal(afar_region_close(reader), 0);
	assert_int_equal(afar_region_close(writer), 0);
	assert_int_equal(afar_region_close(again), 0);
}

static void test_writes_need_the_right(void **state)
{
	uint8_t byte = 0;
	struct iovec piece = {.iov_base = &byte, .iov_len = 1};
	struct afar_iov iov = {.addr = &byte, .length = 1};
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov};
	struct afar_region *region;
	struct afar_queue *queue;

	(void)state;
	fakes(fake.is.rights = RIGHT_READ);
	region = open_region();
	op.target = afar_region_target(region);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), -EACCES);
	assert_non_null(strstr(afar_last_error(), "alice"));
	assert_int_equal(afar_region_writev(region, &piece, 1, 0), -EACCES);
	assert_int_equal(afar_queue_open(fake.session, NULL, &queue), 0);
	assert_int_equal(afar_queue_submit(queue, &op, 1), -EACCES);
	expect_counts(0, 0, 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* A control connection that ends under a call is made again. */
static void test_server_hangs_up(void **state)
{
	struct afar_region *region = open_region();

	(void)state;
	fakes(fake.is.hang_up = true);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_fake(nr_connections, 2);
	expect_counts(0, 1, 1);
	assert_int_equal(afar_region_close(region), 0);
}

/* One that takes the place of another names it, and its server closes that first. */
static void test_names_what_it_replaces(void **state)
{
	struct afar_region *region = open_region();
	struct peer_doubt *doubt = malloc(sizeof(*doubt));

	(void)state;
	assert_non_null(doubt);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_fake(replaced[0], 0);
	expect_fake(replaced[1], 1);
	/* One that ended under writes comes before all. */
	doubt->connection = 77;
	peer_note_doubt(region->target.binding->servers[0].peer,
			region->target.binding->servers[0].reach, doubt);
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_fake(replaced[2], 77);
	expect_fake(replaced[3], 0);
	expect_fake(replaced[4], 4);
	assert_int_equal(region->target.binding->servers[0].reach->nr_in_doubt, 0);
	assert_int_equal(afar_region_close(region), 0);
}

/* Twice over both lanes, then twice over one: by then nothing is left of the other either. */
static void test_replaces_on_all_lanes(void **state)
{
	static const uint64_t replaced[] = {0, 0, 1, 2, 4, 3, 6};
	struct afar_region *region;

	(void)state;
	fakes(fake.is.nr_lanes = 2; fake.is.lanes[1] = fake.is.lanes[0]);
	region = open_region();
	assert_int_equal(connect_region(region), -AFAR_ESERVER);
	expect_fake(nr_tickets, sizeof(replaced) / sizeof(replaced[0]));
	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
		expect_fake(replaced[i], replaced[i]);
	assert_int_equal(afar_region_close(region), 0);
}

#define with_session(test) cmocka_unit_test_setup_teardown(test, open_session, close_session)

/* A session that has to do with many namespaces, one after another, keeps nothing of those it is done with
 * but a few connections. */
static void test_many_namespaces(void **state)
{
	struct afar_region *first = open_region(), *region;
	struct afar_namespace *another;
	struct afar_queue *queue;

	(void)state;
	assert_int_equal(afar_queue_open(fake.session, NULL, &queue), 0);
	for (uint64_t i = 2; i < 100; i++) {
		fakes(fake.is.namespace = i);
		assert_int_equal(afar_namespace_open(fake.session, "ns", &another), 0);
		assert_int_equal(afar_region_open(another, "r", &region), 0);
		assert_int_equal(afar_queue_connect(queue, afar_region_target(region)),
				 -AFAR_ESERVER);
		expect_fake(nr_grants, i - 1);
		assert_int_equal(afar_region_close(region), 0);
		assert_int_equal(afar_namespace_close(another), 0);
	}
	assert_in_range(fake.session->nr_reaches, 1, 12);
	assert_in_range(queue->nr_paths, 1, 12);
	/* The session still has the grant that it got just now. */
	assert_int_equal(afar_namespace_open(fake.session, "ns", &another), 0);
	assert_int_equal(afar_region_open(another, "r", &region), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), -AFAR_ESERVER);
	expect_fake(nr_grants, 98);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(another), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(first), 0);
}

/* A manager that many come to at once puts some out. */
static void test_opening_is_tried_again(void **state)
{
	const struct afar_session_options hasty = {.size = sizeof(hasty), .timeout_ms = 500};
	struct afar_session *other;

	(void)state;
	fakes(fake.is.hang_up_openings = 5);
	assert_int_equal(afar_session_open(fake.uri, NULL, &other), 0);
	expect_fake(is.hang_up_openings, 0);
	assert_int_equal(afar_session_close(other), 0);

	/* But not for ever. */
	fakes(fake.is.hang_up_openings = UINT32_MAX);
	assert_int_equal(afar_session_open(fake.uri, &hasty, &other), -AFAR_EMANAGER);
	fakes(fake.is.hang_up_openings = 0);
}

/* One that has no room for its store, say, cannot resume a session now. */
static void test_resuming_is_tried_again(void **state)
{
	struct afar_namespace *again;

	(void)state;
	fakes({
		fake.is.fail_openings = 3;
		fake.is.hang_up_namespace = true;
	});
	assert_int_equal(afar_namespace_open(fake.session, "ns", &again), 0);
	expect_fake(is.fail_openings, 0);
	assert_int_equal(afar_namespace_close(again), 0);
}

/* An older manager would end all that are in the way, and not the one session. */
static void test_replaces_where_that_is_known(void **state)
{
	const struct afar_volume_options options = {.size = sizeof(options), .replaces = 5};
	struct afar_volume *volume;

	(void)state;
	assert_int_equal(afar_volume_open(fake.session, "ns", &options, &volume), -EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "the manager is of an older release"));
	expect_fake(nr_take_overs, 0);
	/* It is replaced by a newer one, and the session goes on. */
	fakes({
		fake.is.features = RPC_FEATURE_REPLACES;
		fake.is.hang_up_namespace = true;
	});
	assert_int_equal(afar_volume_open(fake.session, "ns", &options, &volume), 0);
	expect_fake(nr_take_overs, 1);
	assert_int_equal(afar_volume_close(volume), 0);
}

TEST_GROUP(access)
{
	const struct CMUnitTest tests[] = {
		with_session(test_shows_what_it_was_given),
		with_session(test_expired_access_is_asked_anew),
		with_session(test_expired_capability_is_asked_anew),
		with_session(test_expired_pass_is_asked_anew),
		with_session(test_regions_share),
		with_session(test_refused_pass_is_asked_anew),
		with_session(test_unknown_to_the_server_for_good),
		with_session(test_refused_capability_is_asked_anew),
		with_session(test_refused_twice_is_refused),
		with_session(test_longer_when_access_has_expired),
		with_session(test_longer_when_access_is_refused),
		with_session(test_given_up_when_access_has_expired),
		with_session(test_longer_when_a_ticket_is_refused),
		with_session(test_stat_takes_another_layout),
		with_session(test_server_without_manager),
		with_session(test_new_incarnation),
		with_session(test_lost_region),
		with_session(test_faulty_layout),
		with_session(test_keys_go_with_rights),
		with_session(test_writes_need_the_right),
		with_session(test_server_hangs_up),
		with_session(test_names_what_it_replaces),
		with_session(test_replaces_on_all_lanes),
		with_session(test_many_namespaces),
		cmocka_unit_test(test_opening_is_tried_again),
		with_session(test_resuming_is_tried_again),
		with_session(test_replaces_where_that_is_known),
	};

	return cmocka_run_group_tests(tests, start_fakes, stop_fakes);
}
