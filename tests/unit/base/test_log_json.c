/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of the log as JSON. Each is one object on one line, whatever bytes a stranger has put into
 * it. jansson reads it back, which takes nothing but UTF-8.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/error.h"
#include "base/log.h"
#include "base/log_json.h"
#include "lib/base/child.h"
#include "unit/group.h"

#define NR_RANDOM 20000

/* Makes a line of the entry and reads it back. */
static json_t *read_back(const struct log_entry *entry, size_t size)
{
	char line[4096];
	const size_t length = log_json(entry, line, size);
	json_error_t error;
	json_t *object;

	assert_in_range(length, 3, size);
	assert_int_equal(line[length - 1], '\n');
	assert_null(memchr(line, '\n', length - 1));
	for (size_t i = 0; i + 1 < length; i++)
		assert_true((unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
	object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
	if (!object)
		print_error("%s: %.*s\n", error.text, (int)length, line);
	assert_non_null(object);
	return object;
}

static struct log_entry entry_of(const char *message)
{
	return (struct log_entry){.level = "warn", .component = "server", .message = message};
}

static void check_message(const char *message, const char *expected)
{
	const struct log_entry entry = entry_of(message);
	json_t *object = read_back(&entry, 4096);

	assert_string_equal(json_string_value(json_object_get(object, "message")), expected);
	json_decref(object);
}

static void test_any_bytes_make_a_valid_string(void **state)
{
	static const struct {
		const char *bytes, *expected;
	} cases[] = {
		{"", ""},
		{"a \"b\" \\ c", "a \"b\" \\ c"},
		{"\x01\n\r\t\x1b[31m\x7f", "\x01\n\r\t\x1b[31m\x7f"},
		{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xab",
		 "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xab"},
		{"\xc2\x9b", "\xc2\x9b"}, /* a control character of Latin-1 */
		{"\xe2\x80\xa8|\xe2\x80\xa9", "\xe2\x80\xa8|\xe2\x80\xa9"},
		/* No UTF-8: a byte alone, cut short, longer than need be, a surrogate, beyond the last. */
		{"\xff|\x80", "\xef\xbf\xbd|\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x82\"", "\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf5", "\xef\xbf\xbd"},
		{"\xf0\x9f\x90", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_message(cases[i].bytes, cases[i].expected);
}

static void test_random_bytes_make_a_valid_line(void **state)
{
	static const char pieces[] = "\xc2\xe2\x82\xed\xa0\xf4\x90\xf0\x9f\"\\\n\x1b\x7f"
				     "a";
	const struct log_field fields[] = {LOG_TEXT("peer", NULL), LOG_NUMBER("inode", UINT64_MAX)};
	char text[600] = "";

	(void)state;
	srand(1);
	for (int i = 0; i < NR_RANDOM; i++) {
		const size_t length = (size_t)rand() % (sizeof(text) - 1);
		struct log_field own[2] = {fields[0], fields[1]};
		struct log_entry entry = entry_of(text);

		for (size_t j = 0; j < length; j++)
			text[j] = rand() % 2 ? pieces[(size_t)rand() % (sizeof(pieces) - 1)]
					     : (char)(1 + rand() % 255);
		text[length] = '\0';
		own[0].text = text;
		entry.fields = own;
		entry.nr_fields = 2;
		json_decref(read_back(&entry, LOG_JSON_MIN));
	}
}

static void test_a_line_has_what_is_known(void **state)
{
	const struct log_field fields[] = {LOG_TEXT("principal", "eve\"\n"),
					   LOG_NUMBER("inode", 42), LOG_TEXT("empty", "")};
	const struct log_entry entry = {
		.time = {1714564800, 7000001},
		.level = "error",
		.component = "manager",
		.message = "it is slow",
		.fields = fields,
		.nr_fields = 3,
		.nr_left_out = 5,
	};
	static const char expected[] =
		"{\"time\":\"2024-05-01T12:00:00.007000001Z\",\"level\":\"error\",\"component\":"
		"\"manager\",\"message\":\"it is "
		"slow\",\"principal\":\"eve\\\"\\u000a\",\"inode\":42,"
		"\"empty\":\"\",\"left_out\":5}\n";
	char line[4096];

	(void)state;
	assert_int_equal(log_json(&entry, line, sizeof(line)), strlen(expected));
	assert_memory_equal(line, expected, strlen(expected));
}

static void test_long_texts_are_cut_between_characters(void **state)
{
	char text[6000] = "";
	const struct log_field fields[] = {LOG_TEXT("name", text), LOG_NUMBER("last", 9)};
	struct log_entry entry = entry_of(text);
	json_t *object;

	(void)state;
	for (size_t i = 0; i + 1 < sizeof(text); i++)
		text[i] = i % 2 ? '\xbc' : '\xc3';
	text[sizeof(text) - 2] = '\0';
	entry.fields = fields;
	entry.nr_fields = 2;
	entry.nr_left_out = UINT64_MAX;
	for (size_t size = LOG_JSON_MIN; size < LOG_JSON_MIN + 20; size++) {
		object = read_back(&entry, size);
		assert_in_range(json_string_length(json_object_get(object, "message")), 800, size);
		assert_non_null(json_object_get(object, "name"));
		assert_non_null(json_object_get(object, "left_out"));
		json_decref(object);
	}
}

/* ---- Whole lines, as a program writes them */

/* Runs `body` in a process of its own, and returns what it wrote to standard error. */
static const char *written_by(void (*body)(void), enum log_format format, bool is_journal)
{
	static char text[1 << 14];
	char stream[64];
	struct stat found;
	size_t length = 0;
	ssize_t taken;
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fstat(ends[1], &found), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)found.st_dev,
		 (unsigned long long)found.st_ino + !is_journal);
	child = fork_child();
	assert_true(child >= 0);
	if (!child) {
		setenv("JOURNAL_STREAM", stream, 1);
		dup2(ends[1], STDERR_FILENO);
		log_set_level(LOG_LEVEL_INFO);
		log_set_format(format);
		body();
		_exit(0);
	}
	close(ends[1]);
	while ((taken = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)taken;
	text[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return text;
}

static void log_two(void)
{
	log_error("no room: %s", "a\nb");
	log_info("idle");
}

static void test_lines_carry_priorities_in_a_journal(void **state)
{
	const char *text;

	(void)state;
	assert_string_equal(written_by(log_two, LOG_FORMAT_TEXT, true),
			    "<3>no room: a?b\n<6>idle\n");
	text = written_by(log_two, LOG_FORMAT_TEXT, false);
	assert_true(text[0] == '2' && strstr(text, "Z error no room: a?b\n"));
	text = written_by(log_two, LOG_FORMAT_JSON, true);
	assert_memory_equal(text, "<3>{\"time\":\"", 12);
	assert_non_null(strstr(text, "\n<6>{\"time\":\""));
}

static void log_with_fields(void)
{
	static struct log_limit limit;
	const struct log_field fields[] = {LOG_NUMBER("region", 7)};
	const struct log_site site = {.file = "../src/manager/space/reserve.c",
				      .level = LOG_LEVEL_WARN,
				      .fields = fields,
				      .nr_fields = 1};
	const struct log_site daemon = {.file = "src/tools/afard/afard.c", .level = LOG_LEVEL_WARN};

	log_write(&site, "region %d is full", 7);
	log_write(&daemon, "%s", "it ends");
	for (int i = 0; i < 30; i++)
		log_limited(&limit, LOG_LEVEL_WARN, "flood %d", i);
}

static void check_line(const char *line, const char *component, const char *message)
{
	json_t *object = json_loadb(line, strcspn(line, "\n"), 0, NULL);

	assert_non_null(object);
	assert_string_equal(json_string_value(json_object_get(object, "component")), component);
	assert_string_equal(json_string_value(json_object_get(object, "message")), message);
	json_decref(object);
}

static void test_lines_name_their_component(void **state)
{
	const char *text, *second;
	int nr = 0;

	(void)state;
	text = written_by(log_with_fields, LOG_FORMAT_JSON, false);
	check_line(text, "manager", "region 7 is full");
	assert_non_null(strstr(text, ",\"region\":7}\n"));
	second = strchr(text, '\n') + 1;
	check_line(second, "afard", "it ends");
	check_line(strchr(second, '\n') + 1, "afar", "flood 0");
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		nr++;
	assert_int_equal(nr, 22);
}

static void test_formats_have_names(void **state)
{
	enum log_format format;

	(void)state;
	assert_int_equal(log_format_parse("json", &format), 0);
	assert_int_equal(format, LOG_FORMAT_JSON);
	assert_int_equal(log_format_parse("text", &format), 0);
	assert_int_equal(format, LOG_FORMAT_TEXT);
	assert_int_equal(log_format_parse("xml", &format), -EINVAL);
	assert_string_equal(error_last_line(), "log format 'xml': is neither text nor json");
}

TEST_GROUP(log_json)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_bytes_make_a_valid_string),
		cmocka_unit_test(test_random_bytes_make_a_valid_line),
		cmocka_unit_test(test_a_line_has_what_is_known),
		cmocka_unit_test(test_long_texts_are_cut_between_characters),
		cmocka_unit_test(test_lines_carry_priorities_in_a_journal),
		cmocka_unit_test(test_lines_name_their_component),
		cmocka_unit_test(test_formats_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
