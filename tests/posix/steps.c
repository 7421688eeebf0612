/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of scripts: nearly always one call, whose result is noted. See posix.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "posix.h"

#define DATA_MAX (8U << 20)

/* ---- Words */

static long number(const char *word)
{
	char *end;
	long value = strtol(word, &end, 0);

	switch (*end) {
	case 'K':
		return value << 10;
	case 'M':
		return value << 20;
	case 'G':
		return value << 30;
	case 'T':
		return value << 40;
	default:
		return value;
	}
}

static mode_t mode_of(const char *word)
{
	return (mode_t)strtoul(word, NULL, 8);
}

static int *slot(struct posix_run *run, const char *word)
{
	return &run->fds[(unsigned)atoi(word) % FILES_MAX];
}

static int fd_of(struct posix_run *run, const char *word)
{
	return *slot(run, word);
}

struct bit {
	const char *name;
	int value;
};

static int bits_of(const struct bit *bits, const char *word)
{
	char copy[128], *rest, *name;
	int value = 0;

	snprintf(copy, sizeof(copy), "%s", word);
	for (name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		const struct bit *bit = bits;

		while (bit->name && strcmp(bit->name, name) != 0)
			bit++;
		if (!bit->name && strcmp(name, "0") != 0) {
			fprintf(stderr, "no such flag: %s\n", name);
			exit(2);
		}
		value |= bit->name ? bit->value : 0;
	}
	return value;
}

static const char *error_name(void)
{
	const char *name = strerrorname_np(errno);

	return name ? name : "?";
}

/* Notes a call's result: its error, or the number. */
static void result(long ret)
{
	if (ret < 0)
		posix_note(" -> %s", error_name());
	else
		posix_note(" -> %ld", ret);
}

/* Notes what `length` bytes look like, shortly. */
static void note_data(const unsigned char *data, size_t length)
{
	size_t at = 0;
	int nr = 0;

	posix_note(" \"");
	while (at < length && nr++ < 40) {
		size_t same = 1;

		while (at + same < length && data[at + same] == data[at])
			same++;
		if (data[at] >= ' ' && data[at] < 0x7f)
			posix_note("%c", data[at]);
		else
			posix_note("\\%u", data[at]);
		if (same > 3) {
			posix_note("*%zu", same);
			at += same;
		} else {
			at++;
		}
	}
	posix_note(at < length ? "...\"" : "\"");
}

/* ---- Names */

static void step_mkdir(struct posix_run *run, int nr, char **words)
{
	(void)run;
	result(mkdir(words[0], nr > 1 ? mode_of(words[1]) : 0755));
}

static void step_rmdir(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(rmdir(words[0]));
}

static void step_unlink(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(unlink(words[0]));
}

static void step_link(struct posix_run *run, int nr, char **words)
{
	static const struct bit flags[] = {{"follow", AT_SYMLINK_FOLLOW}, {0}};

	(void)run;
	result(linkat(AT_FDCWD, words[0], AT_FDCWD, words[1],
		      nr > 2 ? bits_of(flags, words[2]) : 0));
}

static void step_symlink(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(symlink(words[0], words[1]));
}

static void step_readlink(struct posix_run *run, int nr, char **words)
{
	char target[PATH_MAX + 1];
	size_t size = nr > 1 ? (size_t)number(words[1]) : sizeof(target);
	ssize_t length = readlink(words[0], target, size < sizeof(target) ? size : sizeof(target));

	(void)run;
	result(length);
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
	result(nr > 2 ? renameat2(AT_FDCWD, words[0], AT_FDCWD, words[1],
				  (unsigned)bits_of(flags, words[2]))
		      : rename(words[0], words[1]));
}

static void step_mknod(struct posix_run *run, int nr, char **words)
{
	static const struct bit types[] = {{"file", S_IFREG},	 {"fifo", S_IFIFO},
					   {"socket", S_IFSOCK}, {"char", S_IFCHR},
					   {"block", S_IFBLK},	 {0}};
	mode_t mode = (mode_t)bits_of(types, words[1]) | mode_of(words[2]);

	(void)run;
	result(mknod(words[0], mode,
		     nr > 4 ? makedev((unsigned)number(words[3]), (unsigned)number(words[4])) : 0));
}

static void step_chdir(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(chdir(words[0]));
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
		result(-1);
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
		result(ret);
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
	int ret = fstat(fd_of(run, words[0]), &st);

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
		result(-1);
	else
		posix_note(" %s", a.st_ino == b.st_ino && a.st_dev == b.st_dev ? "one" : "two");
}

static void step_chmod(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(chmod(words[0], mode_of(words[1])));
}

static void step_fchmod(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	result(fchmod(fd_of(run, words[0]), mode_of(words[1])));
}

static void step_chown(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(chown(words[0], (uid_t)number(words[1]), (gid_t)number(words[2])));
}

static void step_lchown(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(lchown(words[0], (uid_t)number(words[1]), (gid_t)number(words[2])));
}

static void step_fchown(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	result(fchown(fd_of(run, words[0]), (uid_t)number(words[1]), (gid_t)number(words[2])));
}

static void step_access(struct posix_run *run, int nr, char **words)
{
	static const struct bit bits[] = {{"r", R_OK}, {"w", W_OK}, {"x", X_OK}, {"f", F_OK}, {0}};

	(void)run;
	(void)nr;
	result(faccessat(AT_FDCWD, words[0], bits_of(bits, words[1]), AT_EACCESS));
}

static struct timespec time_of(const char *word)
{
	const char *dot = strchr(word, '.');

	if (!strcmp(word, "now"))
		return (struct timespec){0, UTIME_NOW};
	if (!strcmp(word, "omit"))
		return (struct timespec){0, UTIME_OMIT};
	return (struct timespec){number(word), dot ? strtol(dot + 1, NULL, 10) : 0};
}

/* utimens NAME ATIME MTIME: "SECONDS.NANOSECONDS" with all nine digits. */
static void step_utimens(struct posix_run *run, int nr, char **words)
{
	const struct timespec times[2] = {time_of(words[1]), time_of(words[2])};

	(void)run;
	result(utimensat(AT_FDCWD, words[0], times, nr > 3 ? AT_SYMLINK_NOFOLLOW : 0));
}

static void step_futimens(struct posix_run *run, int nr, char **words)
{
	const struct timespec times[2] = {time_of(words[1]), time_of(words[2])};

	(void)nr;
	result(futimens(fd_of(run, words[0]), times));
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
		result(-1);
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
	result(lstat(words[0], &marked));
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
		result(-1);
		return;
	}
	posix_note(" mtime %s, ctime %s", is_later(st.st_mtim, marked.st_mtim) ? "later" : "same",
		   is_later(st.st_ctim, marked.st_ctim) ? "later" : "same");
}

static void step_umask(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	umask(mode_of(words[0]));
}

static void step_statfs(struct posix_run *run, int nr, char **words)
{
	struct statvfs st;
	int ret = statvfs(nr ? words[0] : ".", &st);

	(void)run;
	result(ret);
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
	result(lsetxattr(words[0], words[1], words[2], strlen(words[2]),
			 nr > 3 ? bits_of(flags, words[3]) : 0));
}

/* A value of many bytes. */
static void step_setxattr_long(struct posix_run *run, int nr, char **words)
{
	size_t length = (size_t)number(words[2]);
	char *value = malloc(length + 1);

	(void)run;
	(void)nr;
	memset(value, 'v', length);
	result(lsetxattr(words[0], words[1], value, length, 0));
	free(value);
}

static void step_getxattr(struct posix_run *run, int nr, char **words)
{
	static char value[70000];
	size_t size = nr > 2 ? (size_t)number(words[2]) : sizeof(value);
	ssize_t length = lgetxattr(words[0], words[1], value, size);

	(void)run;
	result(length);
	if (length > 0 && size)
		note_data((unsigned char *)value, (size_t)length);
}

static void step_removexattr(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(lremovexattr(words[0], words[1]));
}

static void step_listxattr(struct posix_run *run, int nr, char **words)
{
	char list[4096], *names[64];
	size_t size = nr > 1 ? (size_t)number(words[1]) : sizeof(list), nr_names = 0;
	ssize_t length = llistxattr(words[0], list, size);

	(void)run;
	result(length);
	if (length < 0 || !size)
		return;
	for (char *name = list; name < list + length && nr_names < 64; name += strlen(name) + 1)
		names[nr_names++] = name;
	qsort(names, nr_names, sizeof(*names), compare_names);
	for (size_t i = 0; i < nr_names; i++)
		posix_note(" %s", names[i]);
}

/* ---- Open files */

static const struct bit open_flags[] = {
	{"r", O_RDONLY},      {"w", O_WRONLY},		{"rw", O_RDWR},
	{"creat", O_CREAT},   {"excl", O_EXCL},		{"trunc", O_TRUNC},
	{"append", O_APPEND}, {"dir", O_DIRECTORY},	{"nofollow", O_NOFOLLOW},
	{"path", O_PATH},     {"nonblock", O_NONBLOCK}, {"sync", O_SYNC},
	{"dsync", O_DSYNC},   {"noatime", O_NOATIME},	{0},
};

static void step_open(struct posix_run *run, int nr, char **words)
{
	int *fd = slot(run, words[0]);

	*fd = open(words[1], bits_of(open_flags, words[2]) | O_CLOEXEC,
		   nr > 3 ? mode_of(words[3]) : 0644);
	result(*fd < 0 ? -1 : 0);
}

static void step_openat(struct posix_run *run, int nr, char **words)
{
	int *fd = slot(run, words[0]);

	*fd = openat(fd_of(run, words[1]), words[2], bits_of(open_flags, words[3]) | O_CLOEXEC,
		     nr > 4 ? mode_of(words[4]) : 0644);
	result(*fd < 0 ? -1 : 0);
}

static void step_close(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	result(close(fd_of(run, words[0])));
	*slot(run, words[0]) = -1;
}

static void step_dup(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	*slot(run, words[1]) = dup(fd_of(run, words[0]));
	result(fd_of(run, words[1]) < 0 ? -1 : 0);
}

static void step_read(struct posix_run *run, int nr, char **words)
{
	size_t size = (size_t)number(words[1]);
	unsigned char *data = malloc(size + 1);
	ssize_t length = nr > 2 ? pread(fd_of(run, words[0]), data, size, number(words[2]))
				: read(fd_of(run, words[0]), data, size);

	result(length);
	if (length > 0)
		note_data(data, (size_t)length);
	free(data);
}

static void step_write(struct posix_run *run, int nr, char **words)
{
	int fd = fd_of(run, words[0]);

	result(nr > 2 ? pwrite(fd, words[1], strlen(words[1]), number(words[2]))
		      : write(fd, words[1], strlen(words[1])));
}

/* fill FILE BYTES OFFSET SEED: with bytes that each have their own place. */
static void fill(unsigned char *data, size_t length, size_t offset, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (unsigned char)((offset + i) * 7 + ((offset + i) >> 8) * 13 + seed);
}

static void step_fill(struct posix_run *run, int nr, char **words)
{
	size_t length = (size_t)number(words[1]), offset = (size_t)number(words[2]);
	unsigned char *data = malloc(length + 1);

	fill(data, length, offset, nr > 3 ? (unsigned)number(words[3]) : 1);
	result(pwrite(fd_of(run, words[0]), data, length, (off_t)offset));
	free(data);
}

/* A sum of all bytes of the name. */
static void step_sum(struct posix_run *run, int nr, char **words)
{
	unsigned char data[65536];
	uint64_t sum = 14695981039346656037U;
	size_t total = 0;
	ssize_t length;
	int fd = open(words[0], O_RDONLY | O_CLOEXEC);

	(void)run;
	(void)nr;
	if (fd < 0) {
		result(-1);
		return;
	}
	while ((length = read(fd, data, sizeof(data))) > 0) {
		for (ssize_t i = 0; i < length; i++)
			sum = (sum ^ data[i]) * 1099511628211U;
		total += (size_t)length;
	}
	if (length < 0)
		result(-1);
	close(fd);
	posix_note(" %zu bytes %016lx", total, (unsigned long)sum);
}

static void step_cat(struct posix_run *run, int nr, char **words)
{
	static unsigned char data[DATA_MAX];
	ssize_t length;
	int fd = open(words[0], O_RDONLY | O_CLOEXEC);

	(void)run;
	(void)nr;
	if (fd < 0) {
		result(-1);
		return;
	}
	length = read(fd, data, sizeof(data));
	result(length);
	if (length > 0)
		note_data(data, (size_t)length);
	close(fd);
}

static void step_seek(struct posix_run *run, int nr, char **words)
{
	static const struct bit whences[] = {{"set", SEEK_SET},
					     {"cur", SEEK_CUR},
					     {"end", SEEK_END},
					     {"data", SEEK_DATA},
					     {"hole", SEEK_HOLE},
					     {"bad", 77},
					     {0}};

	(void)nr;
	result(lseek(fd_of(run, words[0]), number(words[1]), bits_of(whences, words[2])));
}

static void step_truncate(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	result(truncate(words[0], number(words[1])));
}

static void step_ftruncate(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	result(ftruncate(fd_of(run, words[0]), number(words[1])));
}

static void step_fallocate(struct posix_run *run, int nr, char **words)
{
	static const struct bit modes[] = {{"keep", FALLOC_FL_KEEP_SIZE},
					   {"punch", FALLOC_FL_PUNCH_HOLE},
					   {"zero", FALLOC_FL_ZERO_RANGE},
					   {0}};

	(void)nr;
	result(fallocate(fd_of(run, words[0]), bits_of(modes, words[1]), number(words[2]),
			 number(words[3])));
}

static void step_fsync(struct posix_run *run, int nr, char **words)
{
	result(nr > 1 ? fdatasync(fd_of(run, words[0])) : fsync(fd_of(run, words[0])));
}

/* flag FILE append|0: with fcntl(). */
static void step_flag(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	result(fcntl(fd_of(run, words[0]), F_SETFL, bits_of(open_flags, words[1])));
}

static void step_getflags(struct posix_run *run, int nr, char **words)
{
	int flags = fcntl(fd_of(run, words[0]), F_GETFL);

	(void)nr;
	posix_note(" access %d%s%s", flags & O_ACCMODE, flags & O_APPEND ? " append" : "",
		   flags & O_SYNC ? " sync" : "");
}

static void step_flock(struct posix_run *run, int nr, char **words)
{
	static const struct bit kinds[] = {{"sh", LOCK_SH | LOCK_NB},
					   {"ex", LOCK_EX | LOCK_NB},
					   {"wait", LOCK_EX},
					   {"un", LOCK_UN},
					   {0}};

	(void)nr;
	result(flock(fd_of(run, words[0]), bits_of(kinds, words[1])));
}

/* lock FILE r|w|u START LENGTH: of this open file (OFD), so that one process can contend with itself. */
static void step_lock(struct posix_run *run, int nr, char **words)
{
	struct flock lock = {.l_type = *words[1] == 'r'	  ? F_RDLCK
				       : *words[1] == 'w' ? F_WRLCK
							  : F_UNLCK,
			     .l_whence = SEEK_SET,
			     .l_start = number(words[2]),
			     .l_len = number(words[3])};

	(void)nr;
	result(fcntl(fd_of(run, words[0]), F_OFD_SETLK, &lock));
}

static void step_writev(struct posix_run *run, int nr, char **words)
{
	struct iovec parts[WORDS_MAX];

	for (int i = 1; i < nr; i++)
		parts[i - 1] = (struct iovec){words[i], strlen(words[i])};
	result(writev(fd_of(run, words[0]), parts, nr - 1));
}

/* copy FROM TO BYTES, with copy_file_range(). */
static void step_copy(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	result(copy_file_range(fd_of(run, words[0]), NULL, fd_of(run, words[1]), NULL,
			       (size_t)number(words[2]), 0));
}

/* ---- Mappings */

static void step_map(struct posix_run *run, int nr, char **words)
{
	static const struct bit protections[] = {{"r", PROT_READ}, {"w", PROT_WRITE}, {0}};
	size_t i = (unsigned)atoi(words[0]) % FILES_MAX;
	void *memory = mmap(NULL, (size_t)number(words[1]), bits_of(protections, words[2]),
			    nr > 3 ? MAP_PRIVATE : MAP_SHARED, run->fds[i], 0);

	result(memory == MAP_FAILED ? -1 : 0);
	run->mapped[i] = memory == MAP_FAILED ? NULL : memory;
	run->mapped_length[i] = (size_t)number(words[1]);
}

static char *mapped_at(struct posix_run *run, const char *file, const char *offset)
{
	char *memory = run->mapped[(unsigned)atoi(file) % FILES_MAX];

	return memory ? memory + number(offset) : NULL;
}

static void step_poke(struct posix_run *run, int nr, char **words)
{
	char *at = mapped_at(run, words[0], words[1]);

	(void)nr;
	if (at)
		memcpy(at, words[2], strlen(words[2]));
	posix_note(at ? "" : " not mapped");
}

static void step_peek(struct posix_run *run, int nr, char **words)
{
	char *at = mapped_at(run, words[0], words[1]);

	(void)nr;
	if (at)
		note_data((unsigned char *)at, (size_t)number(words[2]));
	else
		posix_note(" not mapped");
}

/* Notes whether touching a mapped byte ends a process, as behind the end of the file. */
static void step_touch(struct posix_run *run, int nr, char **words)
{
	volatile const char *at = mapped_at(run, words[0], words[1]);
	int status;
	pid_t pid = at ? fork() : -1;

	(void)nr;
	if (pid == 0) {
		signal(SIGBUS, SIG_DFL);
		_exit(*at == 127 ? 1 : 0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid)
		posix_note(" %s", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "fine");
}

static void step_msync(struct posix_run *run, int nr, char **words)
{
	size_t i = (unsigned)atoi(words[0]) % FILES_MAX;

	(void)nr;
	result(msync(run->mapped[i], run->mapped_length[i], MS_SYNC));
}

static void step_unmap(struct posix_run *run, int nr, char **words)
{
	size_t i = (unsigned)atoi(words[0]) % FILES_MAX;

	(void)nr;
	result(munmap(run->mapped[i], run->mapped_length[i]));
	run->mapped[i] = NULL;
}

/* ---- Directories that change while they are read */

/* many PREFIX NUMBER */
static void step_many(struct posix_run *run, int nr, char **words)
{
	char name[64];
	long failed = 0;

	(void)run;
	(void)nr;
	for (long i = 0; i < number(words[1]); i++) {
		snprintf(name, sizeof(name), "%.32s%04ld", words[0], i);
		failed += mknod(name, S_IFREG | 0644, 0) != 0;
	}
	posix_note(" %ld failed", failed);
}

static void step_unlink_many(struct posix_run *run, int nr, char **words)
{
	char name[64];
	long failed = 0;

	(void)run;
	(void)nr;
	for (long i = 0; i < number(words[1]); i++) {
		snprintf(name, sizeof(name), "%.32s%04ld", words[0], i);
		failed += unlink(name) != 0;
	}
	posix_note(" %ld failed", failed);
}

static void step_opendir(struct posix_run *run, int nr, char **words)
{
	run->folder = opendir(nr ? words[0] : ".");
	result(run->folder ? 0 : -1);
}

/* next NUMBER: reads so many entries, whatever they are. */
static void step_next(struct posix_run *run, int nr, char **words)
{
	long n = number(words[0]), seen = 0;

	(void)nr;
	while (seen < n && readdir(run->folder))
		seen++;
	posix_note(" %ld", seen);
}

static unsigned short seen_times[100000];

static void count_rest(DIR *folder, const char *prefix)
{
	const struct dirent *entry;
	size_t length = strlen(prefix);

	while ((entry = readdir(folder))) {
		if (strncmp(entry->d_name, prefix, length) == 0)
			seen_times[(unsigned)atoi(entry->d_name + length) % 100000]++;
	}
}

/* count PREFIX NUMBER: reads from here to the end, and notes how often names came. */
static void step_count(struct posix_run *run, int nr, char **words)
{
	long times[3] = {0}, n = number(words[1]);

	(void)nr;
	memset(seen_times, 0, sizeof(seen_times));
	count_rest(run->folder, words[0]);
	for (long i = 0; i < n; i++)
		times[seen_times[i] > 1 ? 2 : seen_times[i]]++;
	posix_note(" never %ld, once %ld, more often %ld", times[0], times[1], times[2]);
}

/* counted PREFIX NUMBER STEPS: the same from the beginning, while names of "t" are removed and names of "n" made. */
static void step_count_changing(struct posix_run *run, int nr, char **words)
{
	long times[3] = {0}, n = number(words[1]);
	size_t length = strlen(words[0]);
	const struct dirent *entry;
	char name[64];
	int at = 0;

	(void)nr;
	memset(seen_times, 0, sizeof(seen_times));
	while ((entry = readdir(run->folder))) {
		if (strncmp(entry->d_name, words[0], length) == 0)
			seen_times[(unsigned)atoi(entry->d_name + length) % 100000]++;
		snprintf(name, sizeof(name), "t%04d", at);
		unlink(name);
		snprintf(name, sizeof(name), "a%04d", at++);
		if (at < 3000)
			mknod(name, S_IFREG | 0644, 0);
	}
	for (long i = 0; i < n; i++)
		times[seen_times[i] > 1 ? 2 : seen_times[i]]++;
	posix_note(" never %ld, once %ld, more often %ld", times[0], times[1], times[2]);
}

static void step_tell(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	(void)words;
	run->tell = telldir(run->folder);
}

/* Goes to where tell was, and notes whether the same names follow as followed then. */
static void step_seekdir(struct posix_run *run, int nr, char **words)
{
	char first[8][256];
	const struct dirent *entry;
	bool is_same = true;

	(void)nr;
	(void)words;
	for (int i = 0; i < 8; i++) {
		entry = readdir(run->folder);
		snprintf(first[i], sizeof(first[i]), "%s", entry ? entry->d_name : "");
	}
	seekdir(run->folder, run->tell);
	for (int i = 0; i < 8; i++) {
		entry = readdir(run->folder);
		is_same &= strcmp(first[i], entry ? entry->d_name : "") == 0;
	}
	posix_note(" %s", is_same ? "the same" : "others");
}

static void step_rewind(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	(void)words;
	rewinddir(run->folder);
}

/* deep NUMBER: directories in each other, and back. */
static void step_deep(struct posix_run *run, int nr, char **words)
{
	long depth = number(words[0]), done = 0, back = 0;

	(void)run;
	(void)nr;
	while (done < depth && mkdir("deep", 0755) == 0 && chdir("deep") == 0)
		done++;
	for (long i = 0; i < done; i++)
		back += chdir("..") == 0 && rmdir("deep") == 0;
	posix_note(" %ld down, %ld back", done, back);
}

/* chain NUMBER: symbolic links s1 -> s0, s2 -> s1, and so on. */
static void step_chain(struct posix_run *run, int nr, char **words)
{
	char from[32], to[32];
	long failed = 0;

	(void)run;
	(void)nr;
	for (long i = 1; i <= number(words[0]); i++) {
		snprintf(from, sizeof(from), "s%ld", i - 1);
		snprintf(to, sizeof(to), "s%ld", i);
		failed += symlink(from, to) != 0;
	}
	posix_note(" %ld failed", failed);
}

/* ---- Who */

/* as UID GID [GROUP]: by the effective ids, so that root can come back. */
static void step_as(struct posix_run *run, int nr, char **words)
{
	gid_t groups[1] = {nr > 2 ? (gid_t)number(words[2]) : 0};

	(void)run;
	if (seteuid(0) || setgroups(nr > 2 ? 1 : 0, groups) || setegid((gid_t)number(words[1])) ||
	    seteuid((uid_t)number(words[0])))
		posix_note(" cannot: %s", error_name());
}

/* Runs a program of the directory. */
static void step_exec(struct posix_run *run, int nr, char **words)
{
	char *arguments[] = {words[0], NULL};
	int status = 0;
	pid_t pid = fork();

	(void)run;
	(void)nr;
	if (pid == 0) {
		uid_t uid = geteuid();
		gid_t gid = getegid();

		/* exec looks at the effective ids, and sh wants them to be the real ones. */
		if (seteuid(0) == 0 && (setgid(gid) || setuid(uid)))
			_exit(99);
		execv(words[0], arguments);
		_exit(errno == EACCES ? 98 : errno == ENOENT ? 97 : 96);
	}
	waitpid(pid, &status, 0);
	posix_note(" status %d", WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status);
}

const struct posix_step posix_steps[] = {
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
	{"open", 3, step_open},
	{"openat", 4, step_openat},
	{"close", 1, step_close},
	{"dup", 2, step_dup},
	{"read", 2, step_read},
	{"write", 2, step_write},
	{"fill", 3, step_fill},
	{"sum", 1, step_sum},
	{"cat", 1, step_cat},
	{"seek", 3, step_seek},
	{"truncate", 2, step_truncate},
	{"ftruncate", 2, step_ftruncate},
	{"fallocate", 4, step_fallocate},
	{"fsync", 1, step_fsync},
	{"flag", 2, step_flag},
	{"getflags", 1, step_getflags},
	{"flock", 2, step_flock},
	{"lock", 4, step_lock},
	{"writev", 2, step_writev},
	{"copy", 3, step_copy},
	{"map", 3, step_map},
	{"poke", 3, step_poke},
	{"peek", 3, step_peek},
	{"touch", 2, step_touch},
	{"msync", 1, step_msync},
	{"unmap", 1, step_unmap},
	{"many", 2, step_many},
	{"unlink-many", 2, step_unlink_many},
	{"opendir", 0, step_opendir},
	{"next", 1, step_next},
	{"count", 2, step_count},
	{"count-changing", 2, step_count_changing},
	{"tell", 0, step_tell},
	{"seekdir", 0, step_seekdir},
	{"rewind", 0, step_rewind},
	{"deep", 1, step_deep},
	{"chain", 1, step_chain},
	{"as", 2, step_as},
	{"exec", 1, step_exec},
	{0},
};
