/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The base that everything else stands on: sentences of errors, the log, cluster URIs, key files.
 * Each test runs in an empty temporary folder of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
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

#include "base/clock.h"
#include "base/error.h"
#include "base/key.h"
#include "base/log.h"
#include "base/uri.h"
#include "lib/base/child.h"
#include "unit/group.h"

#define HEX		"00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static char folder[64];

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
	(void)stat, (void)type, (void)walk;
	return remove(path);
}

static int enter_folder(void **state)
{
	(void)state;
	unsetenv("AFAR_CLUSTER");
	strcpy(folder, "/tmp/afar-test-base-XXXXXX");
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
	(void)state;
	return chdir("/") || nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void put_file(const char *path, const char *text, mode_t mode)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_return_code(fchmod(fd, mode), errno);
	close(fd);
}

static void assert_last_error_has(const char *part)
{
	if (!strstr(afar_last_error(), part))
		fail_msg("'%s' lacks '%s'", afar_last_error(), part);
}

/* ---- Errors ----------------------------------------------------------------------------------- */

static void test_codes_have_names_and_sentences(void **state)
{
	(void)state;
	assert_string_equal(afar_error_name(AFAR_ELOST), "AFAR_ELOST");
	assert_string_equal(afar_error_name(-AFAR_EMALFORMED), "AFAR_EMALFORMED");
	assert_string_equal(afar_error_name(ENOENT), "ENOENT");
	assert_string_equal(afar_error_name(-ENOENT), "ENOENT");
	assert_non_null(strstr(afar_strerror(-AFAR_EAUTH), "did not accept the key"));
	assert_string_equal(afar_strerror(AFAR_EAUTH), afar_strerror(-AFAR_EAUTH));
	assert_string_equal(afar_strerror(-ENOENT), "No such file or directory");
	assert_non_null(strstr(afar_strerror(-EMFILE), "ulimit -n"));
}

static void test_unknown_codes_are_harmless(void **state)
{
	static const int unknown[] = {9999, -9999, 10000, 10013, INT_MAX, INT_MIN, INT_MIN + 1};
	char expected[40];

	(void)state;
	for (size_t i = 0; i < ELEMENTS(unknown); i++) {
		assert_string_equal(afar_error_name(unknown[i]), "unknown");
		snprintf(expected, sizeof(expected), "unknown error %d", unknown[i]);
		assert_string_equal(afar_strerror(unknown[i]), expected);
	}
}

static void test_failing_keeps_one_clean_line(void **state)
{
	char long_text[5000];

	(void)state;
	assert_int_equal(error_fail(-EINVAL, "a\nb\tc\x1b[31m\x7f %d", 7), -EINVAL);
	assert_string_equal(afar_last_error(), "a?b?c?[31m? 7");
	error_fail(-EINVAL, "%s", "caf\xc3\xa9 \xc2\x9b");
	assert_string_equal(afar_last_error(), "caf\xc3\xa9 ??");

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = 0;
	assert_int_equal(error_fail(-AFAR_ELOST, "%s", long_text), -AFAR_ELOST);
	assert_in_range(strlen(afar_last_error()), 200, 4096);
}

static void test_a_line_may_quote_the_last_one(void **state)
{
	(void)state;
	error_fail(-EIO, "inner");
	error_fail(-EIO, "outer: %s", afar_last_error());
	assert_string_equal(afar_last_error(), "outer: inner");
}

static void test_a_bare_code_gives_its_sentence(void **state)
{
	(void)state;
	assert_int_equal(error_code(-AFAR_ESESSION), -AFAR_ESESSION);
	assert_string_equal(afar_last_error(), afar_strerror(AFAR_ESESSION));
	assert_int_equal(error_code(-4242), -4242);
	assert_string_equal(afar_last_error(), "unknown error -4242");
}

static void *fail_in_thread(void *is_empty_before)
{
	*(bool *)is_empty_before = !*afar_last_error();
	error_fail(-EIO, "of the other thread");
	return NULL;
}

static void test_the_line_belongs_to_its_thread(void **state)
{
	bool is_empty_before = false;
	pthread_t thread;

	(void)state;
	error_fail(-EIO, "of this thread");
	assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &is_empty_before), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(is_empty_before);
	assert_string_equal(afar_last_error(), "of this thread");
}

/* ---- Log -------------------------------------------------------------------------------------- */

/* Runs `body` in a process of its own and returns what it wrote to standard error. */
static char *stderr_of(void (*body)(void))
{
	static char text[1 << 16];
	size_t length = 0;
	ssize_t taken;
	int ends[2], status;
	pid_t child;

	assert_return_code(pipe2(ends, O_CLOEXEC), errno);
	child = fork_child();
	assert_true(child >= 0);
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		body();
		_exit(0);
	}
	close(ends[1]);
	while ((taken = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)taken;
	text[length] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return text;
}

static void log_each_level(void)
{
	log_error("one");
	log_warn("two");
	log_info("three %s", "3\n3");
	log_debug("four");
}

static void log_to_nobody(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	close(STDERR_FILENO);
	errno = EXDEV;
	log_error("lost");
	if (errno != EXDEV)
		_exit(1);
}

static void log_up_to_info(void)
{
	log_set_level(LOG_LEVEL_INFO);
	log_each_level();
}

static void log_by_environment_warn(void)
{
	setenv("AFAR_LOG", "warn", 1);
	log_each_level();
}

static void log_by_environment_nonsense(void)
{
	setenv("AFAR_LOG", "loud", 1);
	log_each_level();
}

static void log_nothing_in_spite_of_environment(void)
{
	setenv("AFAR_LOG", "debug", 1);
	log_set_level(LOG_LEVEL_NONE);
	log_each_level();
}

static void log_without_environment(void)
{
	unsetenv("AFAR_LOG");
	log_each_level();
}

static void log_long_line(void)
{
	char text[9000];

	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	log_set_level(LOG_LEVEL_ERROR);
	log_error("%s", text);
}

/* 50 lines at once; the clock goes on; two more. */
static void log_a_flood(void)
{
	struct log_limit limit = {0};

	log_set_level(LOG_LEVEL_ERROR);
	for (int i = 0; i < 50; i++) {
		log_limited(&limit, LOG_LEVEL_ERROR, "flood %d", i);
		log_limited(&limit, LOG_LEVEL_WARN, "not of this level");
	}
	limit.paid_until = 0;
	log_limited(&limit, LOG_LEVEL_ERROR, "later");
	log_limited(&limit, LOG_LEVEL_ERROR, "latest");
}

static void test_log_limits_a_flood(void **state)
{
	const char *text = stderr_of(log_a_flood);

	(void)state;
	assert_non_null(strstr(text, "error flood 0\n"));
	assert_non_null(strstr(text, "error flood 19\n"));
	assert_null(strstr(text, "error flood 20\n"));
	assert_non_null(strstr(text, "error later (30 lines like this were left out)\n"));
	assert_non_null(strstr(text, "error latest\n"));
	assert_null(strstr(text, "not of this level"));
}

static void test_log_writes_what_the_level_lets_through(void **state)
{
	unsigned year, millisecond;
	const char *text;

	(void)state;
	text = stderr_of(log_up_to_info);
	assert_int_equal(
		sscanf(text, "%u-%*2u-%*2uT%*2u:%*2u:%*2u.%3uZ error one\n", &year, &millisecond),
		2);
	assert_non_null(strstr(text, "Z warn two\n"));
	assert_non_null(strstr(text, "Z info three 3?3\n"));
	assert_null(strstr(text, "four"));
}

static void test_log_obeys_the_environment_until_set(void **state)
{
	const char *text;

	(void)state;
	text = stderr_of(log_by_environment_warn);
	assert_non_null(strstr(text, "warn two\n"));
	assert_null(strstr(text, "three"));
	assert_string_equal(stderr_of(log_without_environment), "");
	assert_string_equal(stderr_of(log_by_environment_nonsense), "");
	assert_string_equal(stderr_of(log_nothing_in_spite_of_environment), "");
}

static void test_log_cuts_long_lines(void **state)
{
	const char *text = stderr_of(log_long_line);
	const size_t length = strlen(text);

	(void)state;
	assert_in_range(length, 1000, 4096);
	assert_ptr_equal(strchr(text, '\n'), text + length - 1);
}

static void test_log_leaves_errno_alone(void **state)
{
	(void)state;
	assert_string_equal(stderr_of(log_to_nobody), "");
}

static void *log_many(void *letter)
{
	char text[400];

	memset(text, *(const char *)letter, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (int i = 0; i < 40; i++)
		log_error("%s", text);
	return NULL;
}

static void log_from_two_threads(void)
{
	char letters[] = "ab";
	pthread_t threads[2];

	log_set_level(LOG_LEVEL_ERROR);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, log_many, &letters[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void test_log_never_tears_lines(void **state)
{
	char *rest = stderr_of(log_from_two_threads), *line;
	unsigned nr_lines = 0;

	(void)state;
	while ((line = strsep(&rest, "\n")) && *line) {
		const char *text = strstr(line, "error ") + strlen("error ");

		assert_int_equal(strlen(text), 399);
		assert_int_equal(strspn(text, *text == 'a' ? "a" : "b"), 399);
		nr_lines++;
	}
	assert_int_equal(nr_lines, 80);
}

static void test_log_levels_have_names(void **state)
{
	enum log_level level = LOG_LEVEL_NONE;

	(void)state;
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("none", &level), 0);
	assert_int_equal(level, LOG_LEVEL_NONE);
	assert_int_equal(log_level_parse("Debug", &level), -EINVAL);
	assert_int_equal(log_level_parse("", &level), -EINVAL);
	assert_int_equal(level, LOG_LEVEL_NONE);
}

/* ---- Cluster URIs ----------------------------------------------------------------------------- */

static void test_uri_takes_good_ones_apart(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		const char *key_file;
	} good[] = {
		{"afar://storage", "storage", 7411, ""},
		{"afar://127.0.0.1", "127.0.0.1", 7411, ""},
		{"afar://a.b-c_d.example:1", "a.b-c_d.example", 1, ""},
		{"afar://h:65535", "h", 65535, ""},
		{"afar://h:07411", "h", 7411, ""},
		{"afar://[::1]", "::1", 7411, ""},
		{"afar://[::1]:80", "::1", 80, ""},
		{"afar://[fe80::1%eth0]:80?key=k", "fe80::1%eth0", 80, "k"},
		{"afar://h?key=/etc/afar/key", "h", 7411, "/etc/afar/key"},
		{"afar://h:9?key=a?b&c=d:e", "h", 9, "a?b&c=d:e"},
	};
	struct uri uri;

	(void)state;
	for (size_t i = 0; i < ELEMENTS(good); i++) {
		memset(&uri, 0xff, sizeof(uri));
		if (uri_parse(good[i].text, &uri))
			fail_msg("%s: %s", good[i].text, afar_last_error());
		assert_string_equal(uri.host, good[i].host);
		assert_int_equal(uri.port, good[i].port);
		assert_string_equal(uri.key_file, good[i].key_file);
	}
}

static void test_uri_refuses_bad_ones_with_a_reason(void **state)
{
	static const struct {
		const char *text, *reason;
	} bad[] = {
		{NULL, "does not begin with afar://"},
		{"", "does not begin with afar://"},
		{"storage:7411", "does not begin with afar://"},
		{"AFAR://h", "does not begin with afar://"},
		{"http://h", "does not begin with afar://"},
		{"afar:/h", "does not begin with afar://"},
		{"afar://", "has no host"},
		{"afar://:80", "has no host"},
		{"afar://?key=k", "has no host"},
		{"afar://h/", "is no name of a host"},
		{"afar://a b", "is no name of a host"},
		{"afar://user@h", "is no name of a host"},
		{"afar://h#x", "is no name of a host"},
		{"afar://h:", "the port is no number from 1 to 65535"},
		{"afar://h:0", "the port is no number from 1 to 65535"},
		{"afar://h:65536", "the port is no number from 1 to 65535"},
		{"afar://h:4294967376", "the port is no number from 1 to 65535"},
		{"afar://h:99999999999999999999999", "the port is no number from 1 to 65535"},
		{"afar://h:-1", "the port is no number from 1 to 65535"},
		{"afar://h:+1", "the port is no number from 1 to 65535"},
		{"afar://h: 1", "the port is no number from 1 to 65535"},
		{"afar://h:80x", "the port is no number from 1 to 65535"},
		{"afar://h:80/", "the port is no number from 1 to 65535"},
		{"afar://::1", "has no host"},
		{"afar://fe80::1", "an IPv6 address stands in brackets"},
		{"afar://[]", "has no host"},
		{"afar://[::1", "lacks the ']'"},
		{"afar://[::1]80", "is not understood"},
		{"afar://[127.0.0.1]:80", "is no IPv6 address"},
		{"afar://[::g]:80", "is no IPv6 address"},
		{"afar://[::1%]:80", "is no IPv6 address"},
		{"afar://[::1%a/b]:80", "is no IPv6 address"},
		{"afar://[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb]", "is no IPv6"},
		{"afar://h?", "is not understood"},
		{"afar://h?kez=k", "is not understood"},
		{"afar://h?key=", "names no key file"},
	};
	struct uri uri;

	(void)state;
	for (size_t i = 0; i < ELEMENTS(bad); i++) {
		if (uri_parse(bad[i].text, &uri) != -EINVAL)
			fail_msg("%s: was not refused", bad[i].text);
		assert_last_error_has(bad[i].reason);
	}
}

static void test_uri_bounds_host_and_key_file(void **state)
{
	char text[PATH_MAX + URI_HOST_MAX + 64];
	struct uri uri;

	(void)state;
	snprintf(text, sizeof(text), "afar://%0*d:7", URI_HOST_MAX - 1, 1);
	assert_int_equal(uri_parse(text, &uri), 0);
	assert_int_equal(strlen(uri.host), URI_HOST_MAX - 1);
	snprintf(text, sizeof(text), "afar://%0*d:7", URI_HOST_MAX, 1);
	assert_int_equal(uri_parse(text, &uri), -EINVAL);
	assert_last_error_has("longer than 255 bytes");

	snprintf(text, sizeof(text), "afar://h?key=%0*d", PATH_MAX - 1, 1);
	assert_int_equal(uri_parse(text, &uri), 0);
	assert_int_equal(strlen(uri.key_file), PATH_MAX - 1);
	snprintf(text, sizeof(text), "afar://h?key=%0*d", PATH_MAX, 1);
	assert_int_equal(uri_parse(text, &uri), -EINVAL);
	assert_last_error_has("key file's name is too long");
}

static void test_default_uri_comes_from_three_places(void **state)
{
	char uri[PATH_MAX + 512];

	(void)state;
	assert_int_equal(uri_default(uri, sizeof(uri)), 0);
	assert_string_equal(uri, "afar://127.0.0.1");

	assert_return_code(mkdir("afar-data", 0700), errno);
	assert_int_equal(uri_default(uri, sizeof(uri)), 0);
	assert_string_equal(uri, "afar://127.0.0.1");

	put_file("afar-data/cluster", "afar://[::1]:9?key=k\nrest", 0600);
	assert_int_equal(uri_default(uri, sizeof(uri)), 0);
	assert_string_equal(uri, "afar://[::1]:9?key=k");
	put_file("afar-data/cluster", "afar://no-newline", 0600);
	assert_int_equal(uri_default(uri, sizeof(uri)), 0);
	assert_string_equal(uri, "afar://no-newline");

	setenv("AFAR_CLUSTER", "", 1);
	assert_int_equal(uri_default(uri, sizeof(uri)), 0);
	assert_string_equal(uri, "afar://no-newline");
	setenv("AFAR_CLUSTER", "afar://named", 1);
	assert_int_equal(uri_default(uri, sizeof(uri)), 0);
	assert_string_equal(uri, "afar://named");
}

static void test_default_uri_refuses_nonsense(void **state)
{
	char uri[PATH_MAX + 512], text[2 * PATH_MAX];
	char small[16];

	(void)state;
	memset(text, 'z', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_return_code(mkdir("afar-data", 0700), errno);

	put_file("afar-data/cluster", "", 0600);
	assert_int_equal(uri_default(uri, sizeof(uri)), -EINVAL);
	assert_last_error_has("./afar-data/cluster: does not hold");
	put_file("afar-data/cluster", "\nafar://second-line", 0600);
	assert_int_equal(uri_default(uri, sizeof(uri)), -EINVAL);
	put_file("afar-data/cluster", text, 0600);
	assert_int_equal(uri_default(uri, sizeof(uri)), -EINVAL);
	assert_last_error_has("longer than");
	assert_return_code(unlink("afar-data/cluster"), errno);
	assert_return_code(mkdir("afar-data/cluster", 0700), errno);
	assert_int_equal(uri_default(uri, sizeof(uri)), -EISDIR);

	setenv("AFAR_CLUSTER", text, 1);
	assert_int_equal(uri_default(uri, sizeof(uri)), -EINVAL);
	assert_last_error_has("AFAR_CLUSTER: is longer");
	setenv("AFAR_CLUSTER", "afar://fifteen.", 1);
	assert_int_equal(uri_default(small, sizeof(small)), 0);
	setenv("AFAR_CLUSTER", "afar://sixteen..", 1);
	assert_int_equal(uri_default(small, sizeof(small)), -EINVAL);
}

/* ---- Key files -------------------------------------------------------------------------------- */

static int parse(const char *text, struct key *out, size_t max)
{
	return key_parse(text, strlen(text), "the-file", out, max);
}

static void test_key_parses_good_files(void **state)
{
	struct key keys[3];

	(void)state;
	assert_int_equal(parse("server:" HEX "\n\nbob@host.example:" HEX, keys, 3), 2);
	assert_string_equal(keys[0].identity, "server");
	assert_string_equal(keys[1].identity, "bob@host.example");
	assert_int_equal(keys[1].secret[0], 0x00);
	assert_int_equal(keys[1].secret[1], 0x11);
	assert_int_equal(keys[1].secret[31], 0xff);

	assert_int_equal(parse("", keys, 3), 0);
	assert_int_equal(parse("\n\n", keys, 3), 0);
	/* Nothing past `max` is looked at or written. */
	keys[1].identity[0] = '!';
	assert_int_equal(parse("a:" HEX "\nnonsense", keys, 1), 1);
	assert_int_equal(keys[1].identity[0], '!');
	assert_int_equal(parse("nonsense", keys, 0), 0);
}

static void test_key_refuses_malformed_lines(void **state)
{
	static const struct {
		const char *text, *reason;
	} bad[] = {
		{"nonsense", "line 1: is not IDENTITY:KEY"},
		{"a:" HEX "\nnonsense\n", "line 2: is not IDENTITY:KEY"},
		{"\n\na:" HEX "\nnonsense\n", "line 4: is not IDENTITY:KEY"},
		{":" HEX, "the identity is not"},
		{"a b:" HEX, "the identity is not"},
		{"\xc3\xa9:" HEX, "the identity is not"},
		{"1234567890123456789012345678901234567890123456789012345678901234:" HEX,
		 "the identity is not"},
		{"a:", "not 64 hexadecimal digits"},
		{"a:0011", "not 64 hexadecimal digits"},
		{"a:" HEX "0", "not 64 hexadecimal digits"},
		{"a:" HEX "\r\n", "not 64 hexadecimal digits"},
		{"a: " HEX, "not 64 hexadecimal digits"},
		{"a:b:" HEX, "not 64 hexadecimal digits"},
		{"a:g0112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF",
		 "not 64 hexadecimal digits"},
		{"a:" HEX "\na:" HEX, "line 2: the identity is in the file twice"},
	};
	struct key keys[3];

	(void)state;
	for (size_t i = 0; i < ELEMENTS(bad); i++) {
		if (parse(bad[i].text, keys, 3) != -EINVAL)
			fail_msg("%s: was not refused", bad[i].text);
		assert_last_error_has("key file 'the-file'");
		assert_last_error_has(bad[i].reason);
		assert_null(strstr(afar_last_error(), "0011"));
	}
	assert_int_equal(key_parse("a\0b:" HEX, 4 + strlen(HEX), "the-file", keys, 3), -EINVAL);
}

static void test_key_wipes_what_it_refuses(void **state)
{
	static const struct key nothing;
	struct key keys[2] = {0};

	(void)state;
	assert_int_equal(parse("a:" HEX "\na:" HEX, keys, 2), -EINVAL);
	assert_memory_equal(&keys[0], &nothing, sizeof(nothing));
	assert_memory_equal(&keys[1], &nothing, sizeof(nothing));
}

static void test_key_load_checks_the_file(void **state)
{
	static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0610, 0644, 0660};
	struct key key;

	(void)state;
	assert_int_equal(key_load("missing", &key, 1), -ENOENT);
	assert_last_error_has("key file 'missing': does not exist");

	for (size_t i = 0; i < ELEMENTS(open_modes); i++) {
		put_file("open", "a:" HEX, open_modes[i]);
		assert_int_equal(key_load("open", &key, 1), -EPERM);
		assert_last_error_has("others than its owner");
	}
	put_file("empty", "", 0600);
	assert_int_equal(key_load("empty", &key, 1), -EINVAL);
	assert_last_error_has("has no key in it");
	put_file("short", "a:00", 0600);
	assert_int_equal(key_load("short", &key, 1), -EINVAL);
	put_file("large", "a:" HEX, 0600);
	assert_return_code(truncate("large", 8 << 20), errno);
	assert_int_equal(key_load("large", &key, 1), -EINVAL);
	assert_return_code(mkdir("folder", 0700), errno);
	assert_int_equal(key_load("folder", &key, 1), -EINVAL);
	assert_return_code(mkfifo("fifo", 0600), errno);
	assert_int_equal(key_load("fifo", &key, 1), -EINVAL);

	put_file("good", "a:" HEX "\n", 0400);
	assert_int_equal(key_load("good", &key, 1), 1);
	assert_string_equal(key.identity, "a");
}

static void test_key_load_says_when_it_may_not(void **state)
{
	const bool is_root = !geteuid();
	struct key key;
	int rc;

	(void)state;
	put_file("closed", "a:" HEX, 0000);
	assert_return_code(chmod(".", 0755), errno);
	if (is_root) /* who may read everything */
		assert_return_code(seteuid(65534), errno);
	rc = key_load("closed", &key, 1);
	if (is_root)
		assert_return_code(seteuid(0), errno);
	assert_int_equal(rc, -EACCES);
	assert_last_error_has("key file 'closed': cannot be opened");
}

static unsigned count_files(void)
{
	char line[300];
	unsigned nr_files = 0;
	FILE *list = popen("ls -A", "r");

	assert_non_null(list);
	while (fgets(line, sizeof(line), list))
		nr_files++;
	assert_int_equal(pclose(list), 0);
	return nr_files;
}

static void test_key_is_made_once_and_private(void **state)
{
	const mode_t mask = umask(0);
	struct key made, again;
	struct stat stat_of_key;

	(void)state;
	assert_int_equal(key_load_or_make("key", "server", &made), 0);
	umask(mask);
	assert_string_equal(made.identity, "server");
	assert_return_code(stat("key", &stat_of_key), errno);
	assert_int_equal(stat_of_key.st_mode & 07777, 0600);
	assert_int_equal(stat_of_key.st_nlink, 1);
	assert_int_equal(count_files(), 1);

	assert_int_equal(key_load_or_make("key", "other", &again), 0);
	assert_memory_equal(&made, &again, sizeof(made));
	assert_int_equal(key_load_or_make("second", "server", &again), 0);
	assert_memory_not_equal(made.secret, again.secret, KEY_BYTES);
}

static void test_key_is_not_made_over_a_bad_file(void **state)
{
	struct key key;

	(void)state;
	put_file("empty", "", 0600);
	assert_int_equal(key_load_or_make("empty", "server", &key), -EINVAL);
	put_file("open", "a:" HEX, 0644);
	assert_int_equal(key_load_or_make("open", "server", &key), -EPERM);
	assert_return_code(symlink("nowhere", "dangling"), errno);
	assert_int_equal(key_load_or_make("dangling", "server", &key), -ENOENT);
	assert_int_equal(count_files(), 3);
}

static void test_key_says_why_it_cannot_be_made(void **state)
{
	char path[PATH_MAX + 10];
	struct key key;

	(void)state;
	assert_int_equal(key_load_or_make("no/such/folder", "server", &key), -ENOENT);
	assert_last_error_has("key file 'no/such/folder': cannot be made");
	assert_int_equal(key_load_or_make("key", "", &key), -EINVAL);
	assert_int_equal(key_load_or_make("key", "a:b", &key), -EINVAL);
	assert_int_equal(key_load_or_make("key", "a\nb", &key), -EINVAL);
	assert_last_error_has("visible characters");
	snprintf(path, sizeof(path), "%0*d", PATH_MAX + 1, 1);
	assert_int_equal(key_load_or_make(path, "server", &key), -ENAMETOOLONG);
	assert_int_equal(count_files(), 0);
}

/* Waits for the gate to close, makes the key and tells it. */
static void race(int gate, int result)
{
	struct key key;
	char ignored;

	if (read(gate, &ignored, 1) != 0 || key_load_or_make("key", "server", &key) ||
	    write(result, &key, sizeof(key)) != sizeof(key))
		_exit(1);
	_exit(0);
}

static void test_processes_that_make_the_key_at_once_agree(void **state)
{
	enum { NR_RACERS = 4, NR_ROUNDS = 25 };

	(void)state;
	for (int round = 0; round < NR_ROUNDS; round++) {
		struct key first, other;
		int gate[2], result[2], status;

		assert_return_code(pipe2(gate, O_CLOEXEC), errno);
		assert_return_code(pipe2(result, O_CLOEXEC), errno);
		for (int i = 0; i < NR_RACERS; i++) {
			const pid_t child = fork_child();

			assert_true(child >= 0);
			if (!child) {
				close(gate[1]);
				race(gate[0], result[1]);
			}
		}
		close(gate[0]);
		close(gate[1]);
		close(result[1]);
		for (int i = 0; i < NR_RACERS; i++) {
			assert_true(wait(&status) > 0);
			assert_int_equal(status, 0);
		}
		assert_int_equal(read(result[0], &first, sizeof(first)), sizeof(first));
		for (int i = 1; i < NR_RACERS; i++) {
			assert_int_equal(read(result[0], &other, sizeof(other)), sizeof(other));
			assert_memory_equal(&first, &other, sizeof(first));
		}
		close(result[0]);
		assert_int_equal(count_files(), 1);
		assert_return_code(unlink("key"), errno);
	}
}

/* ---- Clock ------------------------------------------------------------------------------------ */

static void test_deadlines(void **state)
{
	(void)state;
	assert_true(clock_deadline_ms(-1) == CLOCK_NEVER);
	assert_int_equal(clock_remaining_ms(CLOCK_NEVER), -1);
	assert_int_equal(clock_remaining_ms(0), 0);
	assert_int_equal(clock_remaining_ms(clock_ns()), 0);
	assert_int_equal(clock_remaining_ms(CLOCK_NEVER - 1), INT_MAX);
	assert_in_range(clock_remaining_ms(clock_deadline_ms(1000000)), 1, 1000000);
}

TEST_GROUP(base)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes_have_names_and_sentences),
		cmocka_unit_test(test_unknown_codes_are_harmless),
		cmocka_unit_test(test_failing_keeps_one_clean_line),
		cmocka_unit_test(test_a_line_may_quote_the_last_one),
		cmocka_unit_test(test_a_bare_code_gives_its_sentence),
		cmocka_unit_test(test_the_line_belongs_to_its_thread),
		cmocka_unit_test(test_log_writes_what_the_level_lets_through),
		cmocka_unit_test(test_log_limits_a_flood),
		cmocka_unit_test(test_log_obeys_the_environment_until_set),
		cmocka_unit_test(test_log_cuts_long_lines),
		cmocka_unit_test(test_log_leaves_errno_alone),
		cmocka_unit_test(test_log_never_tears_lines),
		cmocka_unit_test(test_log_levels_have_names),
		cmocka_unit_test(test_uri_takes_good_ones_apart),
		cmocka_unit_test(test_uri_refuses_bad_ones_with_a_reason),
		cmocka_unit_test(test_uri_bounds_host_and_key_file),
		cmocka_unit_test_setup_teardown(test_default_uri_comes_from_three_places,
						enter_folder, leave_folder),
		cmocka_unit_test_setup_teardown(test_default_uri_refuses_nonsense, enter_folder,
						leave_folder),
		cmocka_unit_test(test_key_parses_good_files),
		cmocka_unit_test(test_key_refuses_malformed_lines),
		cmocka_unit_test(test_key_wipes_what_it_refuses),
		cmocka_unit_test_setup_teardown(test_key_load_checks_the_file, enter_folder,
						leave_folder),
		cmocka_unit_test_setup_teardown(test_key_load_says_when_it_may_not, enter_folder,
						leave_folder),
		cmocka_unit_test_setup_teardown(test_key_is_made_once_and_private, enter_folder,
						leave_folder),
		cmocka_unit_test_setup_teardown(test_key_is_not_made_over_a_bad_file, enter_folder,
						leave_folder),
		cmocka_unit_test_setup_teardown(test_key_says_why_it_cannot_be_made, enter_folder,
						leave_folder),
		cmocka_unit_test_setup_teardown(test_processes_that_make_the_key_at_once_agree,
						enter_folder, leave_folder),
		cmocka_unit_test(test_deadlines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
