/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of metrics in both formats, and what of a request's headers decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/afard/metrics/http.h"
#include "tools/afard/metrics/openmetrics.h"
#include "unit/group.h"

static const struct metric_family moved = {"afar_moved_bytes", METRIC_COUNTER, "bytes", "Moved."};
static const struct metric_family age = {"afar_age_seconds", METRIC_GAUGE, "seconds", "Age."};
static const struct metric_family build = {"afar_build", METRIC_INFO, NULL, "What it is."};
static const struct metric_family took = {"afar_took_seconds", METRIC_HISTOGRAM, "seconds",
					  "Took."};

static void assert_text(struct metrics_text *text, const char *expected)
{
	size_t length;
	char *bytes = metrics_end(text, &length);

	assert_non_null(bytes);
	assert_string_equal(bytes, expected);
	assert_int_equal(length, strlen(expected));
	free(bytes);
}

static void write_some(struct metrics_text *text, bool is_open)
{
	const struct metric_label labels[] = {{"server", "one"}, {"lane", "0"}, {0}};

	metrics_begin(text, is_open);
	metrics_family(text, &build);
	metrics_info(text, labels);
	metrics_family(text, &moved);
	metrics_number(text, labels, UINT64_MAX);
	metrics_family(text, &age);
	metrics_real(text, NULL, 0.25);
}

static void test_openmetrics(void **state)
{
	struct metrics_text text;

	(void)state;
	write_some(&text, true);
	assert_text(&text,
		    "# HELP afar_build What it is.\n"
		    "# TYPE afar_build info\n"
		    "afar_build_info{server=\"one\",lane=\"0\"} 1\n"
		    "# HELP afar_moved_bytes Moved.\n"
		    "# TYPE afar_moved_bytes counter\n"
		    "# UNIT afar_moved_bytes bytes\n"
		    "afar_moved_bytes_total{server=\"one\",lane=\"0\"} 18446744073709551615\n"
		    "# HELP afar_age_seconds Age.\n"
		    "# TYPE afar_age_seconds gauge\n"
		    "# UNIT afar_age_seconds seconds\n"
		    "afar_age_seconds 0.25\n"
		    "# EOF\n");
}

static void test_older_format(void **state)
{
	struct metrics_text text;

	(void)state;
	write_some(&text, false);
	assert_text(&text,
		    "# HELP afar_build_info What it is.\n"
		    "# TYPE afar_build_info gauge\n"
		    "afar_build_info{server=\"one\",lane=\"0\"} 1\n"
		    "# HELP afar_moved_bytes_total Moved.\n"
		    "# TYPE afar_moved_bytes_total counter\n"
		    "afar_moved_bytes_total{server=\"one\",lane=\"0\"} 18446744073709551615\n"
		    "# HELP afar_age_seconds Age.\n"
		    "# TYPE afar_age_seconds gauge\n"
		    "afar_age_seconds 0.25\n"
		    "# EOF\n");
}

/* Writes one sample with this label, and returns what became of the label. */
static void assert_label(const char *value, const char *expected)
{
	const struct metric_label labels[] = {{"name", value}, {0}};
	struct metrics_text text;
	char line[256], *bytes;
	size_t length;

	metrics_begin(&text, true);
	metrics_family(&text, &age);
	metrics_number(&text, labels, 1);
	bytes = metrics_end(&text, &length);
	assert_non_null(bytes);
	snprintf(line, sizeof(line), "\nafar_age_seconds{name=\"%s\"} 1\n# EOF\n", expected);
	assert_non_null(strstr(bytes, line));
	free(bytes);
}

static void test_labels(void **state)
{
	(void)state;
	assert_label("", "");
	assert_label("plain", "plain");
	assert_label("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
	assert_label("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x99",
		     "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x99");
	assert_label("\xff", "?");
	assert_label("cut \xe2\x82", "cut ??");
	assert_label("\xc0\xaf", "??");		  /* too long a way to say '/' */
	assert_label("\xed\xa0\x80", "???");	  /* half of a pair */
	assert_label("\xf4\x90\x80\x80", "????"); /* beyond the last */
}

/* Takes the count of the bucket that ends at `le`. */
static unsigned long long bucket(const char *bytes, const char *le)
{
	char line[128];
	const char *at;

	snprintf(line, sizeof(line), "\nafar_took_seconds_bucket{le=\"%s\"} ", le);
	at = strstr(bytes, line);
	assert_non_null(at);
	return strtoull(at + strlen(line), NULL, 10);
}

static void test_histogram(void **state)
{
	struct latency latency = {0};
	struct metrics_text text;
	unsigned long long before = 0;
	size_t length;
	char *bytes, *at;

	(void)state;
	latency_add(&latency, 0);
	latency_add(&latency, 1023);
	latency_add(&latency, 1024);
	latency_add(&latency, 3000000);
	latency_add(&latency, UINT64_C(40000000000));
	latency_add(&latency, UINT64_C(1) << 62);
	metrics_begin(&text, true);
	metrics_family(&text, &took);
	metrics_histogram(&text, NULL, &latency);
	bytes = metrics_end(&text, &length);
	assert_non_null(bytes);

	assert_int_equal(bucket(bytes, "1.024e-06"), 2);
	assert_int_equal(bucket(bytes, "2.048e-06"), 3);
	assert_int_equal(bucket(bytes, "0.002097152"), 3);
	assert_int_equal(bucket(bytes, "0.004194304"), 4);
	assert_int_equal(bucket(bytes, "34.359738368"), 4);
	assert_int_equal(bucket(bytes, "+Inf"), 6);
	assert_non_null(strstr(bytes, "\nafar_took_seconds_count 6\n"));
	assert_non_null(strstr(bytes, "\nafar_took_seconds_sum 4611686058.43"));
	/* Each has what the one before has. */
	for (at = strstr(bytes, "_bucket{"); at; at = strstr(at + 1, "_bucket{")) {
		unsigned long long here = strtoull(strchr(at, '}') + 2, NULL, 10);

		assert_true(here >= before);
		before = here;
	}
	free(bytes);
}

/* Buckets of spans end where they say. */
static void test_latency(void **state)
{
	(void)state;
	assert_int_equal(latency_bucket(0), 0);
	for (unsigned i = 0; i + 2 < LATENCY_BUCKETS; i++) {
		const uint64_t end = UINT64_C(1) << (LATENCY_FIRST + i);

		assert_int_equal(latency_bucket(end - 1), i);
		assert_int_equal(latency_bucket(end), i + 1);
	}
	assert_int_equal(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1);
}

static void test_hosts(void **state)
{
	static const char *const local[] = {"localhost", "localhost:7480", "LocalHost:1",
					    "127.0.0.1", "127.0.0.1:80",   "127.44.1.9:7480",
					    "[::1]",	 "[::1]:7480"};
	static const char *const others[] = {"",
					     "evil.example",
					     "evil.example:7480",
					     "localhost.evil.example",
					     "localhost:7480.evil.example",
					     "127.0.0.1.evil.example",
					     "127.evil.example",
					     "[::1]evil.example",
					     "[::1",
					     "localhost:",
					     "10.0.0.1:7480",
					     "127001"};

	(void)state;
	assert_true(http_host_is_local(NULL));
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		assert_true(http_host_is_local(local[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(http_host_is_local(others[i]));
}

static void test_formats(void **state)
{
	(void)state;
	assert_false(http_wants_openmetrics(NULL));
	assert_false(http_wants_openmetrics("*/*"));
	assert_false(http_wants_openmetrics("text/plain;version=0.0.4"));
	assert_true(http_wants_openmetrics(
		"application/openmetrics-text; version=1.0.0,text/plain;q=0.5"));
}

TEST_GROUP(openmetrics)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_openmetrics), cmocka_unit_test(test_older_format),
		cmocka_unit_test(test_labels),	    cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_latency),	    cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
