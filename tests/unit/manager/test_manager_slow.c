/* SPDX-License-Identifier: BSD-3-Clause */
/* The log's line about a slow request: whose it was, what it was about, and where its time went; and those that have none. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/manager/manager_files.h"
#include "lib/manager/manager_test.h"
#include "manager/connections/slow.h"
#include "rpc/rpc.h"
#include "unit/group.h"

#define MS UINT64_C(1000000)

static int begin(void **state)
{
	setup(state);
	atomic_store(&slow_threshold_ns, 100 * MS);
	return client_open(&fixture, &client);
}

static int end(void **state)
{
	atomic_store(&slow_threshold_ns, 0);
	log_set_format(LOG_FORMAT_TEXT);
	return teardown(state);
}

static struct event *request_of(Afar__Request *request)
{
	struct event *event = event_new(EVENT_REQUEST, client.peer);

	assert_non_null(event);
	event->request = request;
	event->session = 0xabc;
	return event;
}

/* Returns the line about a request that is answered now, after so many ms for each of its parts; empty: there was none. */
static const char *line_of(struct event *event, uint64_t queued, uint64_t waited, uint64_t worked,
			   uint64_t committed)
{
	static char line[4096];
	const int own = dup(STDERR_FILENO);
	FILE *file = tmpfile();
	size_t length;

	assert_non_null(file);
	fixture_advance(&fixture,
			60000); /* another second begins, and there is time that has passed */
	event->times.ran = core_now(fixture.core) - committed * MS;
	event->times.run = event->times.ran - worked * MS;
	event->times.begun = event->times.run - waited * MS;
	event->times.came = event->times.begun - queued * MS;
	log_set_level(LOG_LEVEL_WARN);
	dup2(fileno(file), STDERR_FILENO);
	slow_answer(fixture.core, event);
	dup2(own, STDERR_FILENO);
	close(own);
	rewind(file);
	length = fread(line, 1, sizeof(line) - 1, file);
	line[length] = '\0';
	fclose(file);
	log_set_level(LOG_LEVEL_NONE);
	return line;
}

static void expect_in(const char *line, const char *text)
{
	if (!strstr(line, text))
		print_error("'%s' is not in '%s'\n", text, line);
	assert_non_null(strstr(line, text));
}

static void test_what_it_was_about(void **state)
{
	struct event *event = request_of(ask_status());

	(void)state;
	expect_in(line_of(event, 0, 0, 0, 200), "slow: status for admin at ");
	event_free(event);
	event = request_of(ask_make(77, "new", S_IFREG | 0644, 0, 0));
	expect_in(line_of(event, 0, 0, 0, 200), "slow: files_change.make of ");
	expect_in(line_of(event, 0, 0, 0, 200), "dir 77 for ");
	event_free(event);
}

static void test_parts(void **state)
{
	struct event *event = request_of(ask_status());
	const char *line;

	(void)state;
	log_set_format(LOG_FORMAT_JSON);
	line = line_of(event, 10, 20, 30, 140);
	expect_in(line, "\"session\":\"0000000000000abc\"");
	expect_in(line, "\"total_us\":200000,\"queued_us\":10000,\"waited_us\":20000,\"worked_us\":"
			"30000,\"committed_us\":140000}");
	event_free(event);
}

static void test_others_have_none(void **state)
{
	struct event *event = request_of(ask_status());

	(void)state;
	assert_string_equal(line_of(event, 30, 0, 30, 39), "");
	/* It has waited for others: that is no fault of ours. */
	assert_string_equal(line_of(event, 0, 5000, 0, 0), "");
	expect_in(line_of(event, 100, 5000, 0, 0), "slow: ");
	atomic_store(&slow_threshold_ns, 0);
	assert_string_equal(line_of(event, 0, 0, 0, 50000), "");
	event_free(event);
}

/* A job drops the request, and the line still tells. */
static void test_requests_of_jobs(void **state)
{
	struct event *event = request_of(ask_make(77, "new", S_IFREG | 0644, 0, 0));

	(void)state;
	event->times.came = 1;
	slow_keep(event);
	afar__request__free_unpacked(event->request, request_freer(event->request));
	event->request = NULL;
	expect_in(line_of(event, 0, 0, 0, 200), "slow: files_change.make of ");
	event_free(event);
	event = request_of(NULL);
	expect_in(line_of(event, 0, 0, 0, 200), "slow: request for ");
	event_free(event);
}

#define SLOW_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

TEST_GROUP(manager_slow)
{
	const struct CMUnitTest tests[] = {
		SLOW_TEST(test_what_it_was_about),
		SLOW_TEST(test_parts),
		SLOW_TEST(test_others_have_none),
		SLOW_TEST(test_requests_of_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
