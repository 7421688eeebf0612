/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar ls` and `afar stat`: what is in directories, and what is known of one file. */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "cmd_fs.h"
#include "files.h"
#include "files_walk.h"

#define NANOSECONDS 1000000000

struct ls {
	struct files *files;
	const char *is_long, *all, *recursive, *itself;
	json_t *json; /* NULL: print */
	bool has_titles;
	bool is_first;
	size_t root; /* length of the argument that is walked over */
};

/* ---- Words */

static char type_letter(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	default:
		return '-';
	}
}

static const char *type_text(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "character device";
	case S_IFBLK:
		return "block device";
	default:
		return "?";
	}
}

/* Puts "drwxr-xr-x" into `out`. */
static const char *mode_text(uint32_t mode, char out[11])
{
	static const struct {
		uint32_t bit;
		int at;
		char with_x, without_x;
	} special[] = {{S_ISUID, 3, 's', 'S'}, {S_ISGID, 6, 's', 'S'}, {S_ISVTX, 9, 't', 'T'}};

	strcpy(out, "-rwxrwxrwx");
	out[0] = type_letter(mode);
	for (int i = 0; i < 9; i++) {
		if (!(mode & (0400U >> i)))
			out[i + 1] = '-';
	}
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
		char *letter = &out[special[i].at];

		if (mode & special[i].bit && *letter == 'x')
			*letter = special[i].with_x;
		else if (mode & special[i].bit)
			*letter = special[i].without_x;
	}
	return out;
}

static const char *time_text(int64_t time_ns, char out[32])
{
	time_t seconds = (time_t)(time_ns / NANOSECONDS - (time_ns % NANOSECONDS < 0));
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(out, "?");
	return out;
}

/* Puts the user's name, or the number if it has none here, into `out`. */
static const char *user_text(uint32_t uid, char out[33])
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(out, 33, "%s", user->pw_name);
	else
		snprintf(out, 33, "%u", uid);
	return out;
}

static const char *group_text(uint32_t gid, char out[33])
{
	const struct group *group = getgrgid(gid);

	if (group)
		snprintf(out, 33, "%s", group->gr_name);
	else
		snprintf(out, 33, "%u", gid);
	return out;
}

/* Reads a symbolic link's target into `out`; empty if that fails, or it is none. */
static void read_target(struct afar_fs *fs, const struct afar_file_stat *stat,
			char out[AFAR_FILE_PATH_MAX + 1])
{
	ssize_t length =
		S_ISLNK(stat->mode) ? afar_fs_readlink(fs, stat->ino, out, AFAR_FILE_PATH_MAX) : 0;

	out[length > 0 ? length : 0] = '\0';
}

static json_t *stat_to_json(struct afar_fs *fs, const char *name, const struct afar_file_stat *stat)
{
	char target[AFAR_FILE_PATH_MAX + 1];

	read_target(fs, stat, target);
	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o}",
			 "name", cli_json_text(name), "type", type_text(stat->mode), "ino",
			 cli_json_number(stat->ino), "mode",
			 json_sprintf("%04o", stat->mode & 07777), "nr_links",
			 cli_json_number(stat->nlink), "uid", cli_json_number(stat->uid), "gid",
			 cli_json_number(stat->gid), "size_bytes", cli_json_number(stat->bytes),
			 "allocated_bytes", cli_json_number(stat->allocated), "atime_ns",
			 (json_int_t)stat->atime, "mtime_ns", (json_int_t)stat->mtime, "ctime_ns",
			 (json_int_t)stat->ctime, "target", cli_json_text(target));
}

/* ---- Listing */

static void print_long(struct afar_fs *fs, const char *name, const struct afar_file_stat *stat)
{
	char mode[11], user[33], group[33], time[32], target[AFAR_FILE_PATH_MAX + 1];

	printf("%s %3u %-8s %-8s %12" PRIu64 " %s ", mode_text(stat->mode, mode), stat->nlink,
	       user_text(stat->uid, user), group_text(stat->gid, group), stat->bytes,
	       time_text(stat->mtime, time));
	cli_print(name);
	read_target(fs, stat, target);
	if (*target) {
		printf(" -> ");
		cli_print(target);
	}
	putchar('\n');
}

static void show(const struct ls *ls, struct afar_fs *fs, const char *name,
		 const struct afar_file_stat *stat)
{
	if (ls->json) {
		json_array_append_new(ls->json, stat_to_json(fs, name, stat));
	} else if (ls->is_long) {
		print_long(fs, name, stat);
	} else {
		cli_print(name);
		putchar('\n');
	}
}

struct listing {
	struct ls *ls;
	struct afar_fs *fs;
};

static int show_entry(const struct afar_dirent *entry, void *context)
{
	const struct listing *listing = context;

	if (*entry->name != '.' || listing->ls->all)
		show(listing->ls, listing->fs, entry->name, &entry->stat);
	return 0;
}

/* Lists one directory, under its name if there are several. Returns an exit status. */
static int list_one(struct ls *ls, struct afar_fs *fs, const char *path, uint64_t dir)
{
	struct listing listing = {ls, fs};
	int ret;

	if (ls->has_titles && !ls->json) {
		if (!ls->is_first)
			putchar('\n');
		cli_print(path);
		puts(":");
	}
	ls->is_first = false;
	ret = files_list(fs, dir, ls->is_long || ls->json, show_entry, &listing);
	return ret ? files_fail("list", path, ret) : 0;
}

/* Lists a directory of a tree that is walked over, unless it is below a hidden one. */
static int list_below(struct files_walker *walker, struct afar_fs *fs, const char *path,
		      const struct afar_file_stat *stat)
{
	struct ls *ls = walker->context;

	if (!S_ISDIR(stat->mode) || (!ls->all && strstr(path + ls->root, "/.")))
		return 0;
	return list_one(ls, fs, path, stat->ino);
}

static int ls_one(struct files *files, const char *text, void *context)
{
	struct ls *ls = context;
	struct files_walker walker = {
		.files = files, .what = "list", .entry = list_below, .context = ls};
	struct afar_file_stat stat;
	struct afar_fs *fs;
	int status;

	status = files_find_inode(files, "list", text,
				  ls->itself || ls->is_long ? AFAR_WALK_NOFOLLOW : 0, &fs, &stat);
	if (status)
		return status;
	if (!S_ISDIR(stat.mode) || ls->itself) {
		show(ls, fs, text, &stat);
		ls->is_first = false;
		return 0;
	}
	ls->root = strlen(text);
	return ls->recursive ? files_walk_tree(&walker, text, true)
			     : list_one(ls, fs, text, stat.ino);
}

/* Lists the file systems themselves. Returns an exit status. */
static int list_roots(struct cli *cli, const struct ls *ls)
{
	int ret, status = cli_open(cli);

	if (status)
		return status;
	ret = ls->is_long || ls->json ? fs_list(cli, ls->json) : fs_list_names(cli);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

static bool is_top(char **arguments, int n)
{
	return n == 0 || (n == 1 && *arguments[0] && !arguments[0][strspn(arguments[0], "/")]);
}

int files_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct ls ls = {.is_first = true};
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"l", NULL, "with permissions, owners, sizes and times", &ls.is_long},
		{"a", NULL, "names that begin with a dot, too", &ls.all},
		{"R", NULL, "with all that is below", &ls.recursive},
		{"d", NULL, "directories themselves, not what is in them", &ls.itself},
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 0, -1, &arguments, &status);
	if (n < 0)
		return status;
	ls.json = as_json ? json_array() : NULL;
	ls.has_titles = n > 1 || ls.recursive;
	if (is_top(arguments, n)) {
		status = list_roots(cli, &ls);
	} else {
		status = files_begin(cli, command, true, &files);
		if (!status)
			status = files_each(&files, arguments, n, ls_one, &ls);
		status = files_end(&files, status);
	}
	if (as_json && !status)
		status = cli_print_json(json_incref(ls.json));
	json_decref(ls.json);
	return status;
}

/* ---- One file */

static void print_time(const char *what, int64_t time_ns)
{
	char text[32];

	printf("%-11s %s.%09d\n", what, time_text(time_ns, text),
	       (int)((time_ns % NANOSECONDS + NANOSECONDS) % NANOSECONDS));
}

static void print_stat(struct afar_fs *fs, const char *text, const struct afar_file_stat *stat)
{
	char mode[11], user[33], group[33], size[SIZE_TEXT_MAX], target[AFAR_FILE_PATH_MAX + 1];

	printf("%-11s ", "path");
	cli_print(text);
	printf("\n%-11s %s\n", "type", type_text(stat->mode));
	read_target(fs, stat, target);
	if (S_ISLNK(stat->mode)) {
		printf("%-11s ", "target");
		cli_print(target);
		putchar('\n');
	}
	if (S_ISCHR(stat->mode) || S_ISBLK(stat->mode))
		printf("%-11s %u, %u\n", "device", major(stat->rdev), minor(stat->rdev));
	printf("%-11s %" PRIu64 " (%s)\n", "size", stat->bytes, size_text(stat->bytes, size));
	printf("%-11s %" PRIu64 " (%s)\n", "allocated", stat->allocated,
	       size_text(stat->allocated, size));
	printf("%-11s %" PRIu64 "\n", "inode", stat->ino);
	printf("%-11s %u\n", "links", stat->nlink);
	printf("%-11s %04o (%s)\n", "mode", stat->mode & 07777, mode_text(stat->mode, mode));
	printf("%-11s %u (%s)\n", "uid", stat->uid, user_text(stat->uid, user));
	printf("%-11s %u (%s)\n", "gid", stat->gid, group_text(stat->gid, group));
	print_time("modified", stat->mtime);
	print_time("changed", stat->ctime);
	print_time("read", stat->atime);
}

static int stat_one(struct files *files, const char *text, void *context)
{
	struct afar_file_stat stat;
	json_t **json = context;
	struct afar_fs *fs;
	int status = files_find_inode(files, "show", text, AFAR_WALK_NOFOLLOW, &fs, &stat);

	if (status)
		return status;
	if (*json)
		json_array_append_new(*json, stat_to_json(fs, text, &stat));
	else
		print_stat(fs, text, &stat);
	return 0;
}

int files_stat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON, an array", &as_json},
		{0},
	};
	struct files files;
	char **arguments;
	json_t *json;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	json = as_json ? json_array() : NULL;
	status = files_begin(cli, command, true, &files);
	if (!status)
		status = files_each(&files, arguments, n, stat_one, &json);
	status = files_end(&files, status);
	if (as_json && !status)
		status = cli_print_json(json_incref(json));
	json_decref(json);
	return status;
}
