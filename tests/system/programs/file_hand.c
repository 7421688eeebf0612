/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses a file system by libafar, at the word of a test. A line on standard input is a call. A line on
 * standard output is its answer, a number or a negative errno.
 *
 *	file_hand FS
 *
 * The cluster is that of $AFAR_CLUSTER. SLOT is the number of an open file, VALUE eight bytes as a number.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/cache.h>
#include <afar/file.h>

#define SLOTS	  16U
#define NAMES_MAX 256U

static struct afar_fs *fs;
static struct afar_cache *cache;
static uint64_t root;
static struct afar_file *files[SLOTS];

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "file_hand: %s: %s\n", what, afar_last_error());
	exit(1);
}

static struct afar_file **slot_of(const char *word)
{
	return &files[strtoul(word, NULL, 10) % SLOTS];
}

/* ---- Calls: `a` to `c` are the words behind the call's */

static int64_t do_create(const char *a, const char *b, const char *c)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct afar_file **file = slot_of(a);

	(void)c;
	return afar_file_create(fs, NULL, root, b, 0644, O_RDWR, file, &stat);
}

static int64_t do_open(const char *a, const char *b, const char *c)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_lookup(fs, NULL, root, b, &stat);

	return ret ? ret
		   : afar_file_open(fs, NULL, stat.ino, *c == 'w' ? O_RDWR : O_RDONLY, slot_of(a));
}

static int64_t do_close(const char *a, const char *b, const char *c)
{
	struct afar_file **file = slot_of(a);
	int ret = afar_file_close(*file);

	(void)b;
	(void)c;
	*file = NULL;
	return ret;
}

/* Through the cache each other time. */
static int64_t do_read(const char *a, const char *b, const char *c)
{
	static unsigned nr;
	const uint64_t at = strtoull(b, NULL, 10);
	uint64_t value = 0;
	ssize_t ret = nr++ % 2 ? afar_cache_read_file(cache, *slot_of(a), &value, sizeof(value), at)
			       : afar_file_pread(*slot_of(a), &value, sizeof(value), at);

	(void)c;
	return ret < 0 ? ret : (int64_t)value;
}

static int64_t do_write(const char *a, const char *b, const char *c)
{
	const uint64_t value = strtoull(c, NULL, 10);
	ssize_t ret = afar_file_pwrite(*slot_of(a), &value, sizeof(value), strtoull(b, NULL, 10));

	return ret == sizeof(value) ? 0 : ret;
}

static int64_t do_advise(const char *a, const char *b, const char *c)
{
	(void)c;
	return afar_file_advise(*slot_of(a), (unsigned)strtoul(b, NULL, 10));
}

static int64_t do_sync(const char *a, const char *b, const char *c)
{
	(void)b;
	(void)c;
	return afar_file_sync(*slot_of(a));
}

static int64_t do_truncate(const char *a, const char *b, const char *c)
{
	(void)c;
	return afar_file_truncate(*slot_of(a), strtoull(b, NULL, 10));
}

static int64_t do_size(const char *a, const char *b, const char *c)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_lookup(fs, NULL, root, a, &stat);

	(void)b;
	(void)c;
	return ret ? ret : (int64_t)stat.bytes;
}

static int64_t do_rename(const char *a, const char *b, const char *c)
{
	(void)c;
	return afar_fs_rename(fs, NULL, root, a, root, b, 0);
}

static int64_t do_unlink(const char *a, const char *b, const char *c)
{
	(void)b;
	(void)c;
	return afar_fs_unlink(fs, NULL, root, a);
}

/* Returns whether a directory's list has the name: 1 or 0. */
static int64_t do_listed(const char *a, const char *b, const char *c)
{
	static struct afar_dirent found[NAMES_MAX];
	int nr;

	(void)b;
	(void)c;
	found[0].size = sizeof(found[0]);
	nr = afar_fs_readdir(fs, NULL, root, NULL, true, found, NAMES_MAX);
	for (int i = 0; i < nr; i++)
		if (strcmp(found[i].name, a) == 0)
			return 1;
	return nr < 0 ? nr : 0;
}

static const struct {
	const char *word;
	int64_t (*call)(const char *a, const char *b, const char *c);
} calls[] = {
	{"create", do_create}, {"open", do_open},	  {"close", do_close},
	{"read", do_read},     {"write", do_write},	  {"sync", do_sync},
	{"size", do_size},     {"truncate", do_truncate}, {"rename", do_rename},
	{"unlink", do_unlink}, {"listed", do_listed},	  {"advise", do_advise},
};

static int64_t call(const char *word, const char *a, const char *b, const char *c)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].word, word) == 0)
			return calls[i].call(a, b, c);
	return -ENOSYS;
}

int main(int argc, char **argv)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	char line[256], words[4][64];
	struct afar_session *session;

	if (argc != 2)
		return 2;
	if (afar_session_open(NULL, NULL, &session) || afar_fs_open(session, argv[1], NULL, &fs) ||
	    afar_fs_stat(fs, &stat) || afar_cache_open(session, 1 << 20, &cache))
		die("open the file system");
	root = stat.root;
	while (fgets(line, sizeof(line), stdin)) {
		memset(words, 0, sizeof(words));
		sscanf(line, "%63s %63s %63s %63s", words[0], words[1], words[2], words[3]);
		printf("%" PRId64 "\n", call(words[0], words[1], words[2], words[3]));
		fflush(stdout);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (files[i] && afar_file_close(files[i]))
			die("close a file");
	if (afar_cache_close(cache) || afar_fs_close(fs) || afar_session_close(session))
		die("close the file system");
	return 0;
}
