/* SPDX-License-Identifier: BSD-3-Clause */
/* The findings of `afar doctor` in a cluster's status: clocks, versions, servers and stores, each once as it should be and once not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/doctor/doctor.h"
#include "unit/group.h"

#define SECOND INT64_C(1000000000)

static char said[8192];

void doctor_say(struct doctor *doctor, enum verdict verdict, const char *check, const char *remedy,
		const char *format, ...)
{
	static const char *const names[] = {"ok", "warn", "bad"};
	const size_t length = strlen(said);
	char text[512];
	va_list arguments;

	(void)doctor;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	assert_true((verdict == VERDICT_OK) == (remedy == NULL));
	snprintf(said + length, sizeof(said) - length, "%s %s: %s\n", names[verdict], check, text);
}

/* Looks at a status that was told from second 100 to 101. */
static void look(const char *format, ...)
{
	struct doctor doctor = {.root = ""};
	char text[4096];
	va_list arguments;
	json_t *status;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	for (char *at = text; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	status = json_loads(text, 0, NULL);
	assert_non_null(status);
	said[0] = '\0';
	doctor_status(&doctor, status, 100 * SECOND, 101 * SECOND);
	json_decref(status);
}

static void expect(const char *line)
{
	if (!strstr(said, line))
		print_error("'%s' is not in:\n%s", line, said);
	assert_non_null(strstr(said, line));
}

static void test_clocks(void **state)
{
	static const struct {
		long long seconds;
		const char *line;
	} cases[] = {
		{100, "ok clock-offset: "},
		{101, "ok clock-offset: "},
		{102, "ok clock-offset: "},
		{99, "ok clock-offset: "},
		{103, "warn clock-offset: the manager's clock is 2.0 s ahead of this machine's\n"},
		{40, "warn clock-offset: the manager's clock is 60.0 s behind this machine's\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		look("{'time_ns': %lld}", cases[i].seconds * SECOND);
		expect(cases[i].line);
	}
	look("{'time_ns': null}");
	assert_null(strstr(said, "clock-offset"));
}

static void test_versions(void **state)
{
	(void)state;
	look("{'version': '" AFAR_PROGRAM_VERSION
	     "', 'servers': [{'name': 'm2', 'is_up': true, 'version': '0.0.9'},"
	     "{'name': 'm3', 'is_up': true, 'version': null}]}");
	expect("ok versions: the manager has " AFAR_PROGRAM_VERSION "\n");
	expect("warn versions: server m2 has 0.0.9, this program " AFAR_PROGRAM_VERSION "\n");
	expect("warn versions: server m3 does not tell its own");
	look("{'version': null}");
	expect("warn versions: the manager does not tell its own");
}

static void test_servers(void **state)
{
	(void)state;
	look("{'servers': []}");
	expect("warn servers: there are none");
	look("{'servers': [{'name': 'a', 'is_up': true, 'report_age_ms': 9000}, {'name': 'b', "
	     "'is_up': false},"
	     "{'name': 'c', 'is_up': true, 'report_age_ms': 95000}], 'newer': ['b']}");
	expect("ok servers: a is up\n");
	expect("bad servers: b is down\n");
	expect("warn servers: c is silent for 95 s\n");
	expect("bad manager: its records are older");
}

static void test_stores(void **state)
{
	(void)state;
	look("{'stores': [{'store': '1', 'state': 'up'}, {'store': '2', 'state': 'away'},"
	     "{'store': '3', 'state': 'up', 'failure': 'EIO'}, {'store': '4', 'state': 'up', "
	     "'refusal': 'ENOSPC'},"
	     "{'store': '5', 'state': 'up', 'slow_ms': 2000}]}");
	expect("ok stores: 1 is up\n");
	expect("bad stores: 2 is away\n");
	expect("bad stores: 3: its device is beyond use: EIO\n");
	expect("bad stores: 4 refuses every change: ENOSPC\n");
	expect("warn stores: 5: an operation at its device has taken 2000 ms\n");
}

/* A manager of another release may tell anything. */
static void test_nonsense(void **state)
{
	(void)state;
	look("{}");
	look("{'version': 7, 'time_ns': 'late', 'servers': [1, {}, {'name': 3}], 'stores': {'a': "
	     "1}, 'newer': 1}");
	expect("warn versions: the manager does not tell its own");
}

TEST_GROUP(doctor)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clocks),	 cmocka_unit_test(test_versions),
		cmocka_unit_test(test_servers),	 cmocka_unit_test(test_stores),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
