/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the command line of a mount. It has one form for all who start us: that in which mount(8)
 * calls its helpers, `mount.afar SOURCE PLACE [-sfnv] [-o OPTION,…]`. `afar mount` turns its flags
 * into options, too. Here alone -f means: stay in the foreground.
 */
#define FUSE_USE_VERSION 314
#include "options.h"

#include <fuse_opt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <afar/file.h>

#include "say.h"

#define SCHEME		"afar://"
#define TIMEOUT_MAX_S	86400U
#define RETRY_MAX_S	(UINT32_MAX / 1000)
#define BEGIN_MS	120000U /* as mount(8) waits for NFS */
#define AGE_MAX_S	3600.0
#define THREADS_MAX	256U
#define THREADS_DEFAULT 32U

/* Options as they are written; NULL or 0: not given. */
struct texts {
	char *uri, *key, *path, *timeout, *retry, *subdir, *age, *threads, *fsname;
	int is_read_only, is_cached, is_direct, are_locks_local, is_for_others, is_over_others,
		is_foreground, is_bypass_forbidden;
	int is_help, is_remount, is_for_writing, has_dev, has_suid;
	char *words[2]; /* SOURCE and PLACE */
	int nr_words;
	char *kernel; /* further options that go to the kernel */
	bool is_sloppy;
	bool is_of_boot; /* mount(8) calls, as it does for fstab */
};

enum { KEY_KERNEL, KEY_IGNORED, KEY_SLOPPY, KEY_TYPE };

#define TEXT(template, member)                              \
	{                                                   \
		template, offsetof(struct texts, member), 0 \
	}
#define SWITCH(template, member)                            \
	{                                                   \
		template, offsetof(struct texts, member), 1 \
	}
#define CLEAR(template, member)                             \
	{                                                   \
		template, offsetof(struct texts, member), 0 \
	}

static const struct fuse_opt known[] = {
	TEXT("uri=%s", uri),
	TEXT("key=%s", key),
	TEXT("path=%s", path),
	TEXT("timeout=%s", timeout),
	TEXT("retry=%s", retry),
	TEXT("subdir=%s", subdir),
	TEXT("age=%s", age),
	TEXT("threads=%s", threads),
	TEXT("fsname=%s", fsname),
	SWITCH("ro", is_read_only),
	CLEAR("rw", is_read_only),
	SWITCH("rw", is_for_writing),
	SWITCH("cached", is_cached),
	SWITCH("direct", is_direct),
	SWITCH("nolock", are_locks_local),
	CLEAR("lock", are_locks_local),
	SWITCH("allow_other", is_for_others),
	SWITCH("nonempty", is_over_others),
	SWITCH("no_bypass", is_bypass_forbidden),
	SWITCH("dev", has_dev),
	CLEAR("nodev", has_dev),
	SWITCH("suid", has_suid),
	CLEAR("nosuid", has_suid),
	SWITCH("-f", is_foreground),
	SWITCH("-h", is_help),
	SWITCH("--help", is_help),
	SWITCH("remount", is_remount),
	FUSE_OPT_KEY("exec", KEY_KERNEL),
	FUSE_OPT_KEY("noexec", KEY_KERNEL),
	FUSE_OPT_KEY("sync", KEY_KERNEL),
	FUSE_OPT_KEY("dirsync", KEY_KERNEL),
	FUSE_OPT_KEY("noatime", KEY_KERNEL),
	/* Kernel and clients do so anyway, or the words are for mount(8) and systemd. */
	FUSE_OPT_KEY("default_permissions", KEY_IGNORED),
	FUSE_OPT_KEY("defaults", KEY_IGNORED),
	FUSE_OPT_KEY("async", KEY_IGNORED),
	FUSE_OPT_KEY("atime", KEY_IGNORED),
	FUSE_OPT_KEY("relatime", KEY_IGNORED),
	FUSE_OPT_KEY("norelatime", KEY_IGNORED),
	FUSE_OPT_KEY("strictatime", KEY_IGNORED),
	FUSE_OPT_KEY("nostrictatime", KEY_IGNORED),
	FUSE_OPT_KEY("diratime", KEY_IGNORED),
	FUSE_OPT_KEY("nodiratime", KEY_IGNORED),
	FUSE_OPT_KEY("lazytime", KEY_IGNORED),
	FUSE_OPT_KEY("nolazytime", KEY_IGNORED),
	FUSE_OPT_KEY("auto", KEY_IGNORED),
	FUSE_OPT_KEY("noauto", KEY_IGNORED),
	FUSE_OPT_KEY("nofail", KEY_IGNORED),
	FUSE_OPT_KEY("_netdev", KEY_IGNORED),
	FUSE_OPT_KEY("user", KEY_IGNORED),
	FUSE_OPT_KEY("user=%s", KEY_IGNORED),
	FUSE_OPT_KEY("users", KEY_IGNORED),
	FUSE_OPT_KEY("nouser", KEY_IGNORED),
	FUSE_OPT_KEY("owner", KEY_IGNORED),
	FUSE_OPT_KEY("group", KEY_IGNORED),
	FUSE_OPT_KEY("comment=%s", KEY_IGNORED),
	FUSE_OPT_KEY("-n", KEY_IGNORED),
	FUSE_OPT_KEY("-v", KEY_IGNORED),
	FUSE_OPT_KEY("-s", KEY_SLOPPY),
	FUSE_OPT_KEY("-t ", KEY_TYPE),
	FUSE_OPT_END,
};

/* Returns 1 to keep what libfuse's parser does not understand: we refuse it later, by its name. */
static int take(void *data, const char *word, int key, struct fuse_args *unused)
{
	struct texts *texts = data;

	(void)unused;
	switch (key) {
	case KEY_KERNEL:
		return fuse_opt_add_opt(&texts->kernel, word);
	case KEY_IGNORED:
	case KEY_TYPE:
		return 0;
	case KEY_SLOPPY:
		texts->is_sloppy = true;
		return 0;
	case FUSE_OPT_KEY_NONOPT:
		if (texts->nr_words < 2)
			texts->words[texts->nr_words] = strdup(word);
		texts->nr_words++;
		return 0;
	default:
		/* "x-systemd.automount" and the like are for others. */
		return strncmp(word, "x-", 2) != 0 && strncmp(word, "X-", 2) != 0;
	}
}

/* ---- What the words mean */

static bool read_number(const char *text, unsigned max, unsigned *out)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > max)
		return false;
	*out = (unsigned)value;
	return true;
}

/* Makes "FS/SUB" of `text` into the two; `text` is cut. */
static void split_path(char *text, struct mount_options *out)
{
	char *slash;

	text += strspn(text, "/");
	out->fs = text;
	slash = strchr(text, '/');
	if (!slash)
		return;
	*slash = '\0';
	slash += 1 + strspn(slash + 1, "/");
	if (*slash)
		out->subdir = slash;
}

/* "afar://HOST/FS/SUB?key=FILE": the cluster's URI is that without the path. */
static int split_uri(const char *source, struct mount_options *out)
{
	const char *host = source + strlen(SCHEME), *query = host + strcspn(host, "?");
	const char *slash = memchr(host, '/', (size_t)(query - host));
	char *path;

	if (!slash)
		return say_misuse("%s: it names no file system; give afar://HOST/FS", out->asked);
	path = strndup(slash, (size_t)(query - slash));
	if (!path || asprintf(&out->cluster, "%.*s%s", (int)(slash - source), source, query) < 0)
		return say_failed("%s: out of memory", out->asked);
	split_path(path, out);
	return 0;
}

static int read_source(const struct texts *texts, struct mount_options *out)
{
	char *copy;
	int ret = 0;

	if (strncmp(out->source, SCHEME, strlen(SCHEME)) == 0) {
		if (texts->uri)
			return say_misuse("%s: it names a cluster, and uri= another one",
					  out->asked);
		ret = split_uri(out->source, out);
	} else {
		copy = strdup(out->source);
		if (!copy)
			return say_failed("%s: out of memory", out->asked);
		split_path(copy, out);
		out->cluster = texts->uri;
	}
	if (ret)
		return ret;
	if (strchr(out->fs, ':'))
		return say_misuse("%s: '%.255s' is no file system's name; a file system on another "
				  "machine is afar://HOST/FS",
				  out->asked, out->fs);
	if (!*out->fs)
		return say_misuse("%s: it names no file system; give FS, or afar://HOST/FS",
				  out->asked);
	if (strlen(out->fs) > AFAR_NAME_MAX)
		return say_misuse("%s: the file system's name is too long; names have at most %d "
				  "bytes",
				  out->asked, AFAR_NAME_MAX);
	if (texts->subdir && out->subdir)
		return say_misuse("%s: it names a directory of it, and subdir= another one",
				  out->asked);
	if (texts->subdir && texts->subdir[strspn(texts->subdir, "/")])
		out->subdir = texts->subdir + strspn(texts->subdir, "/");
	return 0;
}

static int read_numbers(const struct texts *texts, struct mount_options *out)
{
	unsigned retry_s;
	char *end;

	out->retry_ms = RETRY_FOR_EVER;
	out->begin_ms = texts->is_of_boot ? BEGIN_MS : 0;
	out->nr_threads = THREADS_DEFAULT;
	if (texts->timeout &&
	    (!read_number(texts->timeout, TIMEOUT_MAX_S, &out->timeout_s) || !out->timeout_s))
		return say_misuse("%s: timeout=%.64s is not a number of seconds from 1 to %u",
				  out->asked, texts->timeout, TIMEOUT_MAX_S);
	if (texts->retry) {
		if (!read_number(texts->retry, RETRY_MAX_S, &retry_s))
			return say_misuse("%s: retry=%.64s is not a number of seconds from 0 to %u",
					  out->asked, texts->retry, RETRY_MAX_S);
		out->begin_ms = out->retry_ms = retry_s * 1000;
	}
	if (texts->threads &&
	    (!read_number(texts->threads, THREADS_MAX, &out->nr_threads) || out->nr_threads < 2))
		return say_misuse("%s: threads=%.64s is not a number from 2 to %u", out->asked,
				  texts->threads, THREADS_MAX);
	if (texts->age) {
		out->age_s = strtod(texts->age, &end);
		if (end == texts->age || *end || !(out->age_s >= 0 && out->age_s <= AGE_MAX_S))
			return say_misuse("%s: age=%.64s is not a number of seconds from 0 to %.0f",
					  out->asked, texts->age, AGE_MAX_S);
	}
	return 0;
}

/* Makes a name absolute, because the process goes to the root folder. */
static int make_absolute(const struct mount_options *options, char **path)
{
	char here[PATH_MAX], *whole;

	if (!*path || **path == '/')
		return 0;
	if (!getcwd(here, sizeof(here)) || asprintf(&whole, "%s/%s", here, *path) < 0)
		return say_failed("%s: find the file %s: give its whole path", options->asked,
				  *path);
	*path = whole;
	return 0;
}

/* Puts together what libfuse hands on to the kernel, or to fusermount3. */
static int write_fuse_options(const struct texts *texts, struct mount_options *out)
{
	char *all = NULL, *name = NULL;
	int ret;

	if (asprintf(&name, "fsname=%s", texts->fsname ? texts->fsname : out->source) < 0)
		return say_failed("%s: out of memory", out->asked);
	ret = fuse_opt_add_opt_escaped(&all, name) | fuse_opt_add_opt(&all, "subtype=afar") |
	      fuse_opt_add_opt(&all, "default_permissions") |
	      fuse_opt_add_opt(&all, texts->has_dev ? "dev" : "nodev") |
	      fuse_opt_add_opt(&all, texts->has_suid ? "suid" : "nosuid");
	if (out->is_read_only)
		ret |= fuse_opt_add_opt(&all, "ro");
	if (out->is_for_others)
		ret |= fuse_opt_add_opt(&all, "allow_other");
	if (texts->kernel)
		ret |= fuse_opt_add_opt(&all, texts->kernel);
	free(name);
	out->fuse = all;
	return ret ? say_failed("%s: out of memory", out->asked) : 0;
}

static int read_texts(struct texts *texts, struct mount_options *out)
{
	int ret;

	if (texts->nr_words > 2)
		return say_misuse("mount: there are %d arguments; give a file system and a "
				  "directory",
				  texts->nr_words);
	if (texts->nr_words < 2 || !texts->words[0] || !texts->words[1])
		return say_misuse("mount: too few arguments; give a file system and a directory");
	out->source = texts->words[0];
	out->place = texts->words[1];
	snprintf(out->asked, sizeof(out->asked), "mount %.255s at %.255s", out->source, out->place);
	out->is_remount = texts->is_remount;
	if (texts->is_remount && !texts->is_read_only && !texts->is_for_writing)
		return say_misuse("%s: only ro and rw can be changed while it is mounted; unmount "
				  "it, and mount it anew",
				  out->asked);
	if (texts->is_cached && texts->is_direct)
		return say_misuse("%s: cached and direct exclude each other", out->asked);
	out->key_file = texts->key;
	out->path = texts->path;
	out->is_read_only = texts->is_read_only;
	out->is_direct = texts->is_direct;
	out->are_locks_local = texts->are_locks_local;
	out->is_for_others = texts->is_for_others || geteuid() == 0;
	out->is_over_others = texts->is_over_others;
	out->is_foreground = texts->is_foreground;
	out->is_bypass_forbidden = texts->is_bypass_forbidden;
	ret = read_source(texts, out);
	if (!ret)
		ret = read_numbers(texts, out);
	if (!ret)
		ret = make_absolute(out, &out->key_file);
	return ret ? ret : write_fuse_options(texts, out);
}

static void print_help(void)
{
	puts("Usage: mount.afar SOURCE DIRECTORY [-f] [-o OPTION,...]\n"
	     "\n"
	     "Mounts a file system of an Afar cluster. SOURCE is afar://HOST/FS, or FS of the\n"
	     "cluster that uri= or $AFAR_CLUSTER names; FS/DIR is a directory of it. -f stays in\n"
	     "the foreground. 'afar mount' does the same. Options, beside those of mount(8):\n"
	     "\n"
	     "  ro              nobody can write through it\n"
	     "  subdir=DIR      show this directory of it\n"
	     "  cached, direct  with the kernel's page cache (default), or without\n"
	     "  nolock          locks hold in this mount alone, others do not see them\n"
	     "  allow_other     for all users; root's mounts are\n"
	     "  retry=SECONDS   wait so long for a server that is away (default: for ever)\n"
	     "  age=SECONDS     names and attributes may be so old (default 0)\n"
	     "  threads=N       requests at once (default 32)\n"
	     "  uri=URI, key=FILE, path=TRANSPORT, timeout=SECONDS   as afar's flags\n"
	     "  nonempty        also where there are files already\n"
	     "  no_bypass       all bytes go through the mount, also those of afar run\n"
	     "  fsname=NAME     the first column of /proc/mounts (default: SOURCE)\n"
	     "\n"
	     "See afar-mount(8).");
}

/* Names what the parser has left over. */
static int refuse_rest(const struct fuse_args *rest, const struct texts *texts)
{
	for (int i = 1; i < rest->argc; i++) {
		if (strcmp(rest->argv[i], "--") == 0)
			continue;
		if (strcmp(rest->argv[i], "-o") == 0) {
			if (texts->is_sloppy)
				i++;
			continue;
		}
		return say_misuse("mount: unknown option %.64s; see mount.afar --help",
				  rest->argv[i]);
	}
	return 0;
}

static bool is_called(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, name) == 0;
}

int options_parse(int argc, char **argv, struct mount_options *out, bool *is_done)
{
	struct fuse_args rest = FUSE_ARGS_INIT(argc, argv);
	struct texts texts = {0};
	int ret;

	*out = (struct mount_options){0};
	*is_done = false;
	texts.is_of_boot = argc > 0 && is_called(argv[0], "mount.afar");
	say_keep();
	if (fuse_opt_parse(&rest, &texts, known, take))
		ret = say_misuse("mount: %s; see mount.afar --help",
				 *say_kept() ? say_kept() : "out of memory");
	else
		ret = refuse_rest(&rest, &texts);
	fuse_opt_free_args(&rest);
	if (ret)
		return ret;
	if (texts.is_help) {
		print_help();
		*is_done = true;
		return 0;
	}
	return read_texts(&texts, out);
}
