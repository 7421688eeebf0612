/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager asks others what they have counted, checks that and passes it on. */
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "lib/manager/manager_test.h"
#include "unit/group.h"

/* ---- Answers of clients */

static Afar__OperationUse operations[2];
static Afar__OperationUse *operation_pointers[2];
static Afar__PathUse paths[100];
static Afar__PathUse *path_pointers[100];
static Afar__SessionUse use;
static Afar__Reply answer;
static uint32_t buckets[HISTOGRAM_BUCKETS + 1];
static uint64_t counts[HISTOGRAM_BUCKETS + 1];

/* One that is good. */
static void make_answer(void)
{
	afar__session_use__init(&use);
	for (size_t i = 0; i < 2; i++) {
		afar__operation_use__init(&operations[i]);
		operation_pointers[i] = &operations[i];
	}
	for (size_t i = 0; i < 100; i++) {
		afar__path_use__init(&paths[i]);
		paths[i].server = i;
		paths[i].transport = (char *)"tcp";
		paths[i].congestion = (char *)"cubic";
		path_pointers[i] = &paths[i];
	}
	for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++) {
		buckets[i] = (uint32_t)i;
		counts[i] = 1;
	}
	operations[0].nr = 7;
	operations[0].bytes = 7 * MIB;
	operations[0].buckets = buckets;
	operations[0].counts = counts;
	operations[0].n_buckets = operations[0].n_counts = 3;
	use.operations = operation_pointers;
	use.n_operations = 2;
	use.paths = path_pointers;
	use.n_paths = 2;
	afar__reply__init(&answer);
	answer.result_case = AFAR__REPLY__RESULT_SESSION_USE;
	answer.session_use = &use;
	fixture.look_answer = &answer;
}

/* How many sessions a fresh status shows figures of; `*nr_shown`, how many there are. */
static size_t count_figures(struct fake_client *client, size_t *nr_shown)
{
	Afar__Reply *reply = must(client, ask_fresh_status());
	const Afar__ClusterStatus *status = reply->cluster_status;
	size_t nr = 0;

	for (size_t i = 0; i < status->n_sessions; i++)
		nr += status->sessions[i]->use != NULL;
	*nr_shown = status->n_sessions;
	drop(reply);
	return nr;
}

/* ---- Tests */

static void test_figures_are_asked_for_and_shown(void **state)
{
	struct fake_client client;
	Afar__Reply *reply;
	Afar__SessionStatus *session;
	Afar__LaneReport **lanes;

	(void)state;
	client_open(&fixture, &client);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	fixture.servers[0].nr_moved_in = 12345;
	make_answer();

	/* Nobody is asked unless it is wanted. */
	reply = must(&client, ask_status());
	assert_null(reply->cluster_status->sessions[0]->use);
	assert_int_equal(reply->cluster_status->servers[0]->report->n_lanes, 0);
	assert_int_equal(fixture.nr_looks, 0);
	drop(reply);

	reply = must(&client, ask_fresh_status());
	session = reply->cluster_status->sessions[0];
	assert_int_equal(fixture.nr_looks, 1);
	assert_non_null(session->use);
	assert_int_equal(session->use->operations[0]->nr, 7);
	assert_int_equal(session->use->operations[0]->n_counts, 3);
	assert_int_equal(session->use->n_paths, 2);
	assert_string_equal(session->use->paths[1]->congestion, "cubic");
	assert_int_equal(session->use_age_ms, 0);
	lanes = reply->cluster_status->servers[0]->report->lanes;
	assert_int_equal(lanes[0]->bytes_in, 12345);
	assert_string_equal(lanes[0]->congestion, "cubic");
	assert_string_equal(lanes[1]->congestion, "");
	assert_int_equal(reply->cluster_status->n_principals, 2);
	assert_int_equal(reply->cluster_status->nr_sessions, 1);
	assert_int_equal(reply->cluster_status->lease_ms, FIXTURE_LEASE_MS);
	drop(reply);

	/* They stay with the session, and grow old. */
	fixture_advance(&fixture, 5000);
	reply = must(&client, ask_status());
	assert_int_equal(reply->cluster_status->sessions[0]->use_age_ms, 5000);
	assert_int_equal(reply->cluster_status->servers[0]->report_age_ms, 5000);
	drop(reply);
	check_all(&fixture);
}

/* Whatever is wrong with an answer, it is dropped, and what was good before stays. */
static void test_malformed_figures_are_dropped(void **state)
{
	struct fake_client client;
	char *longest = calloc(1, 30000), long_list[65] = "";
	ProtobufCMessageUnknownField unknown = {.tag = 99,
						.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED};
	size_t nr_shown;

	(void)state;
	assert_non_null(longest);
	memset(long_list, 'c', sizeof(long_list) - 1);
	client_open(&fixture, &client);
	for (unsigned wrong = 0; wrong < 11; wrong++) {
		make_answer();
		switch (wrong) {
		case 0: /* more buckets than counts */
			operations[1].buckets = buckets;
			operations[1].n_buckets = 1;
			break;
		case 1: /* a bucket that is none */
			buckets[2] = HISTOGRAM_BUCKETS;
			break;
		case 2: /* one that is not behind the one before */
			buckets[2] = 1;
			break;
		case 3: /* more than there are */
			operations[0].n_buckets = operations[0].n_counts = HISTOGRAM_BUCKETS + 1;
			break;
		case 4: /* too many paths */
			use.n_paths = 65;
			break;
		case 5: /* what would act on a terminal */
			paths[1].transport = (char *)"\033[2J";
			break;
		case 6: /* too long a name */
			paths[1].transport = (char *)"a-transport-of-many-words";
			break;
		case 7: /* what we do not know, but too much of it */
			/* Its length comes first: 7 bits of 20000, 7 more, the rest. */
			memcpy(longest, "\xa0\x9c\x01", 3);
			unknown.data = (uint8_t *)longest;
			unknown.len = 3 + 20000;
			use.base.unknown_fields = &unknown;
			use.base.n_unknown_fields = 1;
			break;
		case 8: /* what would act on a terminal, elsewhere */
			paths[1].congestion = (char *)"\033[2J";
			break;
		case 9: /* too long a list */
			paths[1].congestion = long_list;
			break;
		default: /* another kind of answer */
			answer.result_case = AFAR__REPLY__RESULT__NOT_SET;
			break;
		}
		assert_int_equal(count_figures(&client, &nr_shown), 0);
		assert_int_equal(nr_shown, 1);
	}
	/* An older client, which does not know the call. */
	make_answer();
	answer.result_case = AFAR__REPLY__RESULT__NOT_SET;
	answer.status = -EOPNOTSUPP;
	assert_int_equal(count_figures(&client, &nr_shown), 0);

	/* Numbers may be anything: they are its own. */
	make_answer();
	operations[0].nr = operations[0].bytes = counts[0] = UINT64_MAX;
	counts[1] = UINT64_MAX;
	assert_int_equal(count_figures(&client, &nr_shown), 1);
	make_answer();
	use.n_paths = 65;
	assert_int_equal(count_figures(&client, &nr_shown), 1);
	free(longest);
	check_all(&fixture);
}

/* A client that does not answer holds nobody up for long, and is not asked again meanwhile. */
static void test_silence(void **state)
{
	struct fake_client client;
	Afar__Reply *reply;

	(void)state;
	client_open(&fixture, &client);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	make_answer();
	fixture.are_clients_silent = true;
	for (unsigned i = 0; i < 2; i++) {
		fixture_send(&fixture, &client, ++client.next_id, ask_fresh_status(), &reply);
		fixture_pump(&fixture);
		assert_null(reply);
		assert_true(core_next_run(fixture.core) <= fixture.now + 200 * 1000000);
		fixture_advance(&fixture, 200);
		assert_non_null(reply);
		assert_null(reply->cluster_status->sessions[0]->use);
		drop(reply);
	}
	/* It answers after all: that is for the next. */
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	assert_int_equal(fixture.nr_looks, 1);
	reply = must(&client, ask_status());
	assert_non_null(reply->cluster_status->sessions[0]->use);
	drop(reply);
	check_all(&fixture);
}

/* A connection that goes while it is asked, and a session that goes with its figures. */
static void test_lost_while_asked(void **state)
{
	struct fake_client client, other;
	Afar__Reply *reply;
	size_t nr_shown;

	(void)state;
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	make_answer();
	fixture.are_clients_silent = true;
	fixture_send(&fixture, &client, ++client.next_id, ask_fresh_status(), &reply);
	fixture_pump(&fixture);
	client_lose(&fixture, &other);
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	assert_non_null(reply);
	drop(reply);
	/* Away it is not asked; back it is. */
	assert_int_equal(count_figures(&client, &nr_shown), 1);
	assert_int_equal(nr_shown, 2);
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_int_equal(count_figures(&client, &nr_shown), 2);
	client_lose(&fixture, &other);
	reply = must(&client, ask_status());
	assert_int_equal(reply->cluster_status->n_sessions, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
			reply->cluster_status->sessions[i]->lease_left_ms,
			reply->cluster_status->sessions[i]->is_connected ? 0 : FIXTURE_LEASE_MS);
	drop(reply);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	assert_int_equal(count_figures(&client, &nr_shown), 1);
	assert_int_equal(nr_shown, 1);
	/* The manager's store may fail: what is counted outlives that. */
	fixture.store.fail_at = 1;
	fixture.store.failure = -EIO;
	fixture_do(&fixture, &client, ask_create("a", 0, 0));
	fixture_advance(&fixture, 2000);
	reply = must(&client, ask_status());
	assert_non_null(reply->cluster_status->sessions[0]->use);
	drop(reply);
	check_all(&fixture);
}

static void test_others_are_not_asked(void **state)
{
	struct fake_client admin, guest;
	Afar__Reply *reply;
	size_t nr_shown;

	(void)state;
	client_open(&fixture, &admin);
	drop(must(&admin, ask_key_add("guest", false)));
	assert_int_equal(client_open_as(&fixture, &guest, "guest"), 0);
	make_answer();
	assert_int_equal(count_figures(&guest, &nr_shown), 1);
	assert_int_equal(nr_shown, 1);
	assert_int_equal(fixture.nr_looks, 1);
	reply = must(&guest, ask_fresh_status());
	assert_int_equal(reply->cluster_status->n_principals, 0);
	assert_int_equal(reply->cluster_status->nr_sessions, 1);
	drop(reply);
	check_all(&fixture);
}

static void test_a_server_that_is_down(void **state)
{
	struct fake_client client;
	Afar__Reply *reply;
	uint64_t ns;

	(void)state;
	client_open(&fixture, &client);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	ns = make_namespace(&fixture, &client, "a");
	EXPECT(&client, ask_reserve(ns, 16 * MIB), 0);
	make_answer();
	fixture_disconnect(&fixture, 0);
	fixture_advance(&fixture, 300);
	reply = must(&client, ask_fresh_status());
	assert_false(reply->cluster_status->servers[0]->is_up);
	assert_int_equal(reply->cluster_status->servers[0]->down_ms, 300);
	assert_int_equal(reply->cluster_status->servers[0]->report->granted_bytes, 16 * MIB);
	assert_int_equal(reply->cluster_status->nr_servers, 1);
	drop(reply);
}

/* ---- What the manager shows its own process */

static void on_viewed(void *call, Afar__ClusterStatus *status)
{
	*(Afar__ClusterStatus **)call = status;
}

/* `*out` is set when it is shown. */
static void begin_view(Afar__ClusterStatus **out)
{
	struct event *event = event_new(EVENT_VIEW, NULL);

	assert_non_null(event);
	*out = NULL;
	event->call = out;
	event->viewed = on_viewed;
	cds_list_add_tail(&event->node, &fixture.events);
	fixture_pump(&fixture);
}

static void end_view(Afar__ClusterStatus *status)
{
	assert_non_null(status);
	afar__cluster_status__free_unpacked(status, NULL);
}

/* It sees what an operator sees, and is no session itself. */
static void test_views(void **state)
{
	struct fake_client client, guest;
	Afar__ClusterStatus *status;

	(void)state;
	client_open(&fixture, &client);
	drop(must(&client, ask_key_add("guest", false)));
	assert_int_equal(client_open_as(&fixture, &guest, "guest"), 0);
	make_namespace(&fixture, &guest, "hidden");
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	make_answer();
	begin_view(&status);
	assert_non_null(status);
	assert_int_equal(fixture.nr_looks, 2);
	assert_int_equal(status->n_sessions, 2);
	assert_int_equal(status->sessions[0]->use->operations[0]->nr, 7);
	assert_int_equal(status->n_servers, 1);
	assert_int_equal(status->n_namespaces, 1);
	assert_int_equal(status->n_principals, 3);
	end_view(status);
	check_all(&fixture);
}

/* A client that says nothing delays the first view a little, and later ones not at all. */
static void test_views_wait_for_nobody(void **state)
{
	struct fake_client client;
	Afar__ClusterStatus *status;

	(void)state;
	client_open(&fixture, &client);
	make_answer();
	fixture.are_clients_silent = true;
	begin_view(&status);
	assert_null(status);
	assert_true(core_next_run(fixture.core) <= fixture.now + 50 * 1000000);
	fixture_advance(&fixture, 50);
	assert_null(status->sessions[0]->use);
	end_view(status);
	for (unsigned i = 0; i < 3; i++) {
		begin_view(&status);
		end_view(status);
	}
	/* They answer after all: that is for the next. */
	fixture.are_clients_silent = false;
	fixture_pump(&fixture);
	begin_view(&status);
	assert_non_null(status->sessions[0]->use);
	end_view(status);
	check_all(&fixture);
}

static const struct manager_operations *reads(void)
{
	return &core_counts(fixture.core)->operations[0];
}

/* The sum of all clients' figures never falls, whatever they say. */
static void test_sums(void **state)
{
	struct fake_client client, other;
	size_t nr_shown;

	(void)state;
	client_open(&fixture, &client);
	make_answer();
	count_figures(&client, &nr_shown);
	assert_int_equal(counter_get(&reads()->nr), 7);
	assert_int_equal(counter_get(&reads()->bytes), 7 * MIB);
	assert_int_equal(latency_nr(&reads()->spans), 3);
	/* It goes on, and has a bucket more. */
	operations[0].nr = 10;
	operations[0].n_buckets = operations[0].n_counts = 4;
	counts[0] = 5;
	count_figures(&client, &nr_shown);
	assert_int_equal(counter_get(&reads()->nr), 10);
	assert_int_equal(latency_nr(&reads()->spans), 8);
	/* Another one says the same of itself. */
	client_open(&fixture, &other);
	count_figures(&client, &nr_shown);
	assert_int_equal(counter_get(&reads()->nr), 20);
	assert_int_equal(latency_nr(&reads()->spans), 16);
	/* They go back: that is no operation. Then they say that they have done all that there is. */
	operations[0].nr = 1;
	operations[0].n_buckets = operations[0].n_counts = 0;
	count_figures(&client, &nr_shown);
	assert_int_equal(counter_get(&reads()->nr), 20);
	assert_int_equal(latency_nr(&reads()->spans), 16);
	operations[0].nr = operations[0].bytes = UINT64_MAX;
	operations[0].n_buckets = operations[0].n_counts = 2;
	counts[0] = counts[1] = UINT64_MAX;
	count_figures(&client, &nr_shown);
	assert_int_equal(counter_get(&reads()->nr), UINT64_MAX);
	assert_int_equal(latency_nr(&reads()->spans), UINT64_MAX);
	check_all(&fixture);
}

TEST_GROUP(manager_use)
{
	const struct CMUnitTest tests[] = {
		TEST(test_figures_are_asked_for_and_shown),
		TEST(test_malformed_figures_are_dropped),
		TEST(test_silence),
		TEST(test_lost_while_asked),
		TEST(test_others_are_not_asked),
		TEST(test_a_server_that_is_down),
		TEST(test_views),
		TEST(test_views_wait_for_nobody),
		TEST(test_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
