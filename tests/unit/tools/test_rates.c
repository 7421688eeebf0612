/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar top` makes rates of two answers, whatever they say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/top/rates.h"
#include "unit/group.h"

#define HUGE_NUMBER "9223372036854775807"

static json_t *parse(const char *text)
{
	json_t *root = json_loads(text, 0, NULL);

	assert_non_null(root);
	return root;
}

/* The rates between two texts. */
static json_t *between(const char *before, const char *now)
{
	json_t *first = before ? parse(before) : NULL, *second = parse(now);
	json_t *rates = rates_between(first, second);

	assert_non_null(rates);
	json_decref(first);
	json_decref(second);
	return rates;
}

/* The value at a path such as "servers.0.lanes.1.state". */
static const json_t *at(const json_t *root, const char *path)
{
	char copy[128], *part;

	assert_true(strlen(path) < sizeof(copy));
	strcpy(copy, path);
	for (part = strtok(copy, "."); part && root; part = strtok(NULL, "."))
		root = json_is_array(root) ? json_array_get(root, (size_t)(*part - '0'))
					   : json_object_get(root, part);
	assert_non_null(root);
	return root;
}

static double value(const json_t *root, const char *path)
{
	assert_true(json_is_number(at(root, path)));
	return json_number_value(at(root, path));
}

static bool is_unknown(const json_t *root, const char *path)
{
	return json_is_null(at(root, path));
}

/* Two seconds, two lanes, one client that reads. */
static const char before_text[] =
	"{'manager_incarnation': 'a', 'uptime_ms': 1000, 'servers': ["
	"{'server': 1, 'name': 's', 'is_up': true, 'incarnation': 'i', 'report_age_ms': 0, "
	"'lanes': ["
	"{'transport': 'local', 'counted_by': null, 'bytes_in': null, 'bytes_out': null},"
	"{'transport': 'tcp', 'counted_by': 'transport', 'bytes_in': 100, 'bytes_out': 0}]}],"
	"'sessions': [{'session': 'quiet', 'use': null}, {'session': 'busy', 'is_connected': true, "
	"'use': {"
	"'age_ms': 0, 'operations': {'read': {'nr': 10, 'bytes': 100, 'nr_failed': 0, 'histogram': "
	"[[7, 10]]}},"
	"'paths': [{'server': 1, 'transport': 'local', 'bytes_read': 100, 'bytes_written': 0}]}}]}";
static const char now_text[] =
	"{'manager_incarnation': 'a', 'uptime_ms': 3000, 'servers': ["
	"{'server': 1, 'name': 's', 'is_up': true, 'incarnation': 'i', 'report_age_ms': 0, "
	"'lanes': ["
	"{'transport': 'local', 'counted_by': null, 'bytes_in': null, 'bytes_out': null},"
	"{'transport': 'tcp', 'counted_by': 'transport', 'bytes_in': 300, 'bytes_out': 0}]}],"
	"'sessions': [{'session': 'quiet', 'use': null}, {'session': 'busy', 'is_connected': true, "
	"'use': {"
	"'age_ms': 1000, 'operations': {'read': {'nr': 20, 'bytes': 300, 'nr_failed': 1, "
	"'histogram': [[7, 11], [15, 9]]}},"
	"'paths': [{'server': 1, 'transport': 'local', 'bytes_read': 300, 'bytes_written': 0}]}}]}";

/* JSON has double quotes alone. `from` in it becomes `to`. */
static char *quoted(const char *text, const char *from, const char *to, char *out, size_t size)
{
	const char *found = from ? strstr(text, from) : NULL;
	size_t length = 0;

	assert_true(!from || found);
	for (; *text; text++) {
		if (text == found) {
			length += strlen(strcpy(out + length, to));
			text += strlen(from) - 1;
		} else {
			out[length++] = *text;
		}
		assert_true(length + 64 < size);
	}
	out[length] = '\0';
	for (size_t i = 0; i < length; i++)
		out[i] = out[i] == '\'' ? '"' : out[i];
	return out;
}

/* Returns the rates between before_text and now_text, with one change in each. */
static json_t *changed(const char *from, const char *to, const char *now_from, const char *now_to)
{
	char first[4096], second[4096];

	return between(quoted(before_text, from, to, first, sizeof(first)),
		       quoted(now_text, now_from, now_to, second, sizeof(second)));
}

static void test_rates(void **state)
{
	json_t *rates = changed(NULL, NULL, NULL, NULL);

	(void)state;
	assert_int_equal(value(rates, "interval_ms"), 2000);
	assert_true(is_unknown(rates, "servers.0.lanes.0.in_bytes_per_s"));
	assert_int_equal(value(rates, "servers.0.lanes.1.in_bytes_per_s"), 100);
	assert_int_equal(value(rates, "servers.0.lanes.1.out_bytes_per_s"), 0);
	/* The client's report is a second old: its figures are of one second. */
	assert_string_equal(json_string_value(at(rates, "sessions.0.session")), "busy");
	assert_int_equal(value(rates, "sessions.0.nr_per_s"), 10);
	assert_int_equal(value(rates, "sessions.0.failed_per_s"), 1);
	assert_int_equal(value(rates, "sessions.0.operations.read.bytes_per_s"), 200);
	/* These are of what came since alone: one quick, nine slow. */
	assert_int_equal(value(rates, "sessions.0.p50_ns"), 15);
	assert_int_equal(value(rates, "sessions.0.operations.read.p999_ns"), 15);
	assert_true(is_unknown(rates, "sessions.0.operations.write.p50_ns"));
	assert_true(is_unknown(rates, "sessions.1.nr_per_s"));
	assert_int_equal(value(rates, "servers.0.by_clients.0.read_bytes_per_s"), 200);
	json_decref(rates);
}

static void test_nothing_to_compare_with(void **state)
{
	char now[4096];
	json_t *rates = between(NULL, quoted(now_text, NULL, NULL, now, sizeof(now)));

	(void)state;
	assert_true(is_unknown(rates, "interval_ms"));
	assert_true(is_unknown(rates, "servers.0.lanes.1.in_bytes_per_s"));
	assert_true(is_unknown(rates, "sessions.0.nr_per_s"));
	json_decref(rates);

	/* Another manager's clock. */
	rates = changed("'manager_incarnation': 'a'", "'manager_incarnation': 'b'", NULL, NULL);
	assert_true(is_unknown(rates, "interval_ms"));
	assert_true(is_unknown(rates, "sessions.0.p50_ns"));
	json_decref(rates);

	/* Another incarnation of the server has counted from 0 on. */
	rates = changed("'incarnation': 'i'", "'incarnation': 'j'", NULL, NULL);
	assert_true(is_unknown(rates, "servers.0.lanes.1.in_bytes_per_s"));
	assert_int_equal(value(rates, "sessions.0.nr_per_s"), 10);
	json_decref(rates);

	/* A client that has not answered: what it said before is no news. */
	rates = changed(NULL, NULL, "'age_ms': 1000", "'age_ms': 2000");
	assert_true(is_unknown(rates, "sessions.0.nr_per_s"));
	assert_true(is_unknown(rates, "sessions.1.nr_per_s"));
	json_decref(rates);

	/* A figure that goes back has stood still. */
	rates = changed(NULL, NULL, "'nr': 20", "'nr': 3");
	assert_int_equal(value(rates, "sessions.0.nr_per_s"), 0);
	json_decref(rates);

	rates = between("{}", "{}");
	assert_int_equal(json_array_size(at(rates, "servers")), 0);
	json_decref(rates);
}

static void check_numbers(const json_t *value_)
{
	const json_t *element;
	const char *key;
	size_t i;

	if (json_is_number(value_)) {
		assert_true(isfinite(json_number_value(value_)));
		assert_true(json_number_value(value_) >= 0);
	}
	if (json_is_object(value_)) {
		json_object_foreach((json_t *)value_, key, element) check_numbers(element);
	}
	json_array_foreach(value_, i, element) check_numbers(element);
}

/* A client may say what it likes. */
static void test_hostile_figures(void **state)
{
	static const char *const lies[][2] = {
		{"'nr': 20", "'nr': " HUGE_NUMBER},
		{"'nr': 20", "'nr': -5"},
		{"'nr': 20", "'nr': 1e308"},
		{"'nr': 20", "'nr': null"},
		{"'nr': 20", "'nr': 'NaN'"},
		{"'nr': 20", "'nr': 3"}, /* back */
		{"'bytes': 300", "'bytes': " HUGE_NUMBER},
		{"'bytes_read': 300", "'bytes_read': " HUGE_NUMBER},
		{"[7, 11], [15, 9]", "[7, " HUGE_NUMBER "], [15, " HUGE_NUMBER "]"},
		{"[7, 11], [15, 9]", "[-7, 11], [15, -9], [" HUGE_NUMBER ", 1], 5, [], 'x'"},
		{"[7, 11], [15, 9]", "[7, 11], [7, " HUGE_NUMBER "], [7, " HUGE_NUMBER "]"},
		{"'age_ms': 1000", "'age_ms': -1000"},
		{"'age_ms': 1000", "'age_ms': " HUGE_NUMBER},
		{"'age_ms': 1000", "'age_ms': 1999"},
		{"'transport': 'local', 'bytes_read'", "'transport': 5, 'bytes_read'"},
		{"'uptime_ms': 3000", "'uptime_ms': -1"},
		{"'uptime_ms': 3000", "'uptime_ms': 1001"},
		{"'bytes_in': 300", "'bytes_in': -1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		json_t *rates = changed(NULL, NULL, lies[i][0], lies[i][1]);
		char *text = json_dumps(rates, 0);

		check_numbers(rates);
		assert_non_null(text);
		free(text);
		json_decref(rates);
	}
}

TEST_GROUP(rates)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_nothing_to_compare_with),
		cmocka_unit_test(test_hostile_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
