/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps about names, attributes and extended attributes. See posix.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

/* ---- Names */

static void step_mkdir(struct posix_run *run, int nr, char **words)
{
	(void)run;
	note_result(mkdir(words[0], nr > 1 ? word_mode(words[1]) : 0755));
}

static void step_rmdir(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(rmdir(words[0]));
}

static void step_unlink(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(unlink(words[0]));
}

static void step_link(struct posix_run *run, int nr, char **words)
{
	static const struct bit flags[] = {{"follow", AT_SYMLINK_FOLLOW}, {0}};

	(void)run;
	note_result(linkat(AT_FDCWD, words[0], AT_FDCWD, words[1],
			   nr > 2 ? word_bits(flags, words[2]) : 0));
}

static void step_symlink(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(symlink(words[0], words[1]));
}

static void step_readlink(struct posix_run *run, int nr, char **words)
{
	char target[PATH_MAX + 1];
	size_t size = nr > 1 ? (size_t)word_number(words[1]) : sizeof(target);
	ssize_t length = readlink(words[0], target, size < sizeof(target) ? size : sizeof(target));

	(void)run;
	note_result(length);
	if (length > 0)
		note_data((unsigned char *)target, (size_t)length);
}

static void step_rename(struct posix_run *run, int nr, char **words)
{
	static const struct bit flags[] = {{"noreplace", RENAME_NOREPLACE},
					   {"exchange", RENAME_EXCHANGE},
					   {"whiteout", RENAME_WHITEOUT},
					   {"bad", 1 << 10},
					   {0}};

	(void)run;
	note_result(nr > 2 ? renameat2(AT_FDCWD, words[0], AT_FDCWD, words[1],
				       (unsigned)word_bits(flags, words[2]))
			   : rename(words[0], words[1]));
}

static void step_mknod(struct posix_run *run, int nr, char **words)
{
	static const struct bit types[] = {{"file", S_IFREG},	 {"fifo", S_IFIFO},
					   {"socket", S_IFSOCK}, {"char", S_IFCHR},
					   {"block", S_IFBLK},	 {0}};
	mode_t mode = (mode_t)word_bits(types, words[1]) | word_mode(words[2]);

	(void)run;
	note_result(mknod(
		words[0], mode,
		nr > 4 ? makedev((unsigned)word_number(words[3]), (unsigned)word_number(words[4]))
		       : 0));
}

static void step_chdir(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(chdir(words[0]));
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists a directory, sorted, with types. */
static void step_ls(struct posix_run *run, int nr, char **words)
{
	DIR *folder = opendir(nr ? words[0] : ".");
	char *names[4096];
	const struct dirent *entry;
	size_t nr_names = 0;

	(void)run;
	if (!folder) {
		note_result(-1);
		return;
	}
	errno = 0;
	while ((entry = readdir(folder)) && nr_names < 4096) {
		if (asprintf(&names[nr_names], "%.40s/%u", entry->d_name, entry->d_type) > 0)
			nr_names++;
	}
	if (errno)
		posix_note(" error %s", error_name());
	closedir(folder);
	qsort(names, nr_names, sizeof(*names), compare_names);
	posix_note(" %zu:", nr_names);
	for (size_t i = 0; i < nr_names; i++) {
		if (i < 20)
			posix_note(" %s", names[i]);
		free(names[i]);
	}
}

/* ---- Attributes */

static void note_stat(int ret, const struct stat *stat)
{
	if (ret) {
		note_result(ret);
		return;
	}
	posix_note(" %06o nlink %lu owner %u:%u", stat->st_mode, (unsigned long)stat->st_nlink,
		   stat->st_uid, stat->st_gid);
	/* A directory's size means nothing. */
	if (!S_ISDIR(stat->st_mode))
		posix_note(" size %ld", (long)stat->st_size);
	if (S_ISCHR(stat->st_mode) || S_ISBLK(stat->st_mode))
		posix_note(" device %u,%u", major(stat->st_rdev), minor(stat->st_rdev));
	if (S_ISREG(stat->st_mode))
		posix_note(" %s", stat->st_blocks ? "with blocks" : "without blocks");
}

static void step_stat(struct posix_run *run, int nr, char **words)
{
	struct stat st;
	int ret = stat(words[0], &st);

	(void)run;
	(void)nr;
	note_stat(ret, &st);
}

static void step_lstat(struct posix_run *run, int nr, char **words)
{
	struct stat st;
	int ret = lstat(words[0], &st);

	(void)run;
	(void)nr;
	note_stat(ret, &st);
}

static void step_fstat(struct posix_run *run, int nr, char **words)
{
	struct stat st;
	int ret = fstat(word_fd(run, words[0]), &st);

	(void)nr;
	note_stat(ret, &st);
}

/* Notes whether two names are one inode. */
static void step_same(struct posix_run *run, int nr, char **words)
{
	struct stat a, b;

	(void)run;
	(void)nr;
	if (lstat(words[0], &a) || lstat(words[1], &b))
		note_result(-1);
	else
		posix_note(" %s", a.st_ino == b.st_ino && a.st_dev == b.st_dev ? "one" : "two");
}

static void step_chmod(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(chmod(words[0], word_mode(words[1])));
}

static void step_fchmod(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	note_result(fchmod(word_fd(run, words[0]), word_mode(words[1])));
}

static void step_chown(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(chown(words[0], (uid_t)word_number(words[1]), (gid_t)word_number(words[2])));
}

static void step_lchown(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(lchown(words[0], (uid_t)word_number(words[1]), (gid_t)word_number(words[2])));
}

static void step_fchown(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	note_result(fchown(word_fd(run, words[0]), (uid_t)word_number(words[1]),
			   (gid_t)word_number(words[2])));
}

static void step_access(struct posix_run *run, int nr, char **words)
{
	static const struct bit bits[] = {{"r", R_OK}, {"w", W_OK}, {"x", X_OK}, {"f", F_OK}, {0}};

	(void)run;
	(void)nr;
	note_result(faccessat(AT_FDCWD, words[0], word_bits(bits, words[1]), AT_EACCESS));
}

static struct timespec time_of(const char *word)
{
	const char *dot = strchr(word, '.');

	if (!strcmp(word, "now"))
		return (struct timespec){0, UTIME_NOW};
	if (!strcmp(word, "omit"))
		return (struct timespec){0, UTIME_OMIT};
	return (struct timespec){word_number(word), dot ? strtol(dot + 1, NULL, 10) : 0};
}

/* utimens NAME ATIME MTIME: "SECONDS.NANOSECONDS" with all nine digits. */
static void step_utimens(struct posix_run *run, int nr, char **words)
{
	const struct timespec times[2] = {time_of(words[1]), time_of(words[2])};

	(void)run;
	note_result(utimensat(AT_FDCWD, words[0], times, nr > 3 ? AT_SYMLINK_NOFOLLOW : 0));
}

static void step_futimens(struct posix_run *run, int nr, char **words)
{
	const struct timespec times[2] = {time_of(words[1]), time_of(words[2])};

	(void)nr;
	note_result(futimens(word_fd(run, words[0]), times));
}

static void note_time(const char *name, struct timespec time)
{
	/* Present times differ. */
	if (time.tv_sec > 1700000000 && time.tv_sec < 4000000000)
		posix_note(" %s present", name);
	else
		posix_note(" %s %ld.%09ld", name, (long)time.tv_sec, time.tv_nsec);
}

static void step_times(struct posix_run *run, int nr, char **words)
{
	struct stat st;

	(void)run;
	(void)nr;
	if (lstat(words[0], &st)) {
		note_result(-1);
		return;
	}
	note_time("atime", st.st_atim);
	note_time("mtime", st.st_mtim);
	note_time("ctime", st.st_ctim);
}

static struct stat marked;

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* Remembers a name's times. File systems' clocks tick slowly, so it waits for the next tick. */
static void step_mark(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(lstat(words[0], &marked));
	pause_ms(25);
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* Which times have grown since. */
static void step_changed(struct posix_run *run, int nr, char **words)
{
	struct stat st;

	(void)run;
	(void)nr;
	if (lstat(words[0], &st)) {
		note_result(-1);
		return;
	}
	posix_note(" mtime %s, ctime %s", is_later(st.st_mtim, marked.st_mtim) ? "later" : "same",
		   is_later(st.st_ctim, marked.st_ctim) ? "later" : "same");
}

static void step_umask(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	umask(word_mode(words[0]));
}

static void step_statfs(struct posix_run *run, int nr, char **words)
{
	struct statvfs st;
	int ret = statvfs(nr ? words[0] : ".", &st);

	(void)run;
	note_result(ret);
	if (!ret)
		posix_note(" names %lu, free %s total, available %s free, fragment %s",
			   st.f_namemax, st.f_bfree <= st.f_blocks ? "<=" : ">",
			   st.f_bavail <= st.f_bfree ? "<=" : ">",
			   st.f_frsize >= 512 ? "sane" : "bad");
}

/* ---- Extended attributes */

static void step_setxattr(struct posix_run *run, int nr, char **words)
{
	static const struct bit flags[] = {
		{"create", XATTR_CREATE}, {"replace", XATTR_REPLACE}, {0}};

	(void)run;
	note_result(lsetxattr(words[0], words[1], words[2], strlen(words[2]),
			      nr > 3 ? word_bits(flags, words[3]) : 0));
}

/* A value of many bytes. */
static void step_setxattr_long(struct posix_run *run, int nr, char **words)
{
	size_t length = (size_t)word_number(words[2]);
	char *value = malloc(length + 1);

	(void)run;
	(void)nr;
	memset(value, 'v', length);
	note_result(lsetxattr(words[0], words[1], value, length, 0));
	free(value);
}

static void step_getxattr(struct posix_run *run, int nr, char **words)
{
	static char value[70000];
	size_t size = nr > 2 ? (size_t)word_number(words[2]) : sizeof(value);
	ssize_t length = lgetxattr(words[0], words[1], value, size);

	(void)run;
	note_result(length);
	if (length > 0 && size)
		note_data((unsigned char *)value, (size_t)length);
}

static void step_removexattr(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(lremovexattr(words[0], words[1]));
}

static void step_listxattr(struct posix_run *run, int nr, char **words)
{
	char list[4096], *names[64];
	size_t size = nr > 1 ? (size_t)word_number(words[1]) : sizeof(list), nr_names = 0;
	ssize_t length = llistxattr(words[0], list, size);

	(void)run;
	note_result(length);
	if (length < 0 || !size)
		return;
	for (char *name = list; name < list + length && nr_names < 64; name += strlen(name) + 1)
		names[nr_names++] = name;
	qsort(names, nr_names, sizeof(*names), compare_names);
	for (size_t i = 0; i < nr_names; i++)
		posix_note(" %s", names[i]);
}

const struct posix_step posix_steps_names[] = {
	{"mkdir", 1, step_mkdir},
	{"rmdir", 1, step_rmdir},
	{"unlink", 1, step_unlink},
	{"link", 2, step_link},
	{"symlink", 2, step_symlink},
	{"readlink", 1, step_readlink},
	{"rename", 2, step_rename},
	{"mknod", 3, step_mknod},
	{"chdir", 1, step_chdir},
	{"ls", 0, step_ls},
	{"stat", 1, step_stat},
	{"lstat", 1, step_lstat},
	{"fstat", 1, step_fstat},
	{"same", 2, step_same},
	{"chmod", 2, step_chmod},
	{"fchmod", 2, step_fchmod},
	{"chown", 3, step_chown},
	{"lchown", 3, step_lchown},
	{"fchown", 3, step_fchown},
	{"access", 2, step_access},
	{"utimens", 3, step_utimens},
	{"futimens", 3, step_futimens},
	{"times", 1, step_times},
	{"mark", 1, step_mark},
	{"changed", 1, step_changed},
	{"umask", 1, step_umask},
	{"statfs", 0, step_statfs},
	{"setxattr", 3, step_setxattr},
	{"setxattr-long", 3, step_setxattr_long},
	{"getxattr", 2, step_getxattr},
	{"removexattr", 2, step_removexattr},
	{"listxattr", 1, step_listxattr},
	{0},
};
