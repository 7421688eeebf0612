/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar find`, du, chmod and chown: the commands that walk over trees. */
#include <errno.h>
#include <fnmatch.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd_fs.h"
#include "files.h"
#include "files_walk.h"
#include "inodes.h"

/* ---- find */

struct find {
	const char *name, *print0;
	uint32_t type; /* as S_IFMT has it; 0: any */
};

static int find_entry(struct files_walker *walker, struct afar_fs *fs, const char *path,
		      const struct afar_file_stat *stat)
{
	const struct find *find = walker->context;
	const char *name = strrchr(path, '/') + 1;

	(void)fs;
	if (find->type && (stat->mode & S_IFMT) != find->type)
		return 0;
	if (find->name && fnmatch(find->name, name, 0))
		return 0;
	if (find->print0) {
		fputs(path, stdout);
		putchar('\0');
	} else {
		cli_print(path);
		putchar('\n');
	}
	return 0;
}

static int find_one(struct files *files, const char *text, void *context)
{
	struct files_walker walker = {
		.files = files, .what = "list", .entry = find_entry, .context = context};
	char *path = strdup(text);
	size_t length = strlen(text);
	int status;

	if (!path)
		return files_fail("list", text, -ENOMEM);
	/* So that names have one slash before them, and the last name is one. */
	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
	status = files_walk_tree(&walker, path, false);
	free(path);
	return status;
}

static int read_type(const struct cli_command *command, const char *text, uint32_t *out)
{
	static const struct {
		const char *word;
		uint32_t type;
	} types[] = {{"f", S_IFREG}, {"d", S_IFDIR}, {"l", S_IFLNK}};

	for (size_t i = 0; text && i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcmp(types[i].word, text))
			*out = types[i].type;
	}
	return text && !*out ? cli_misuse(command, "--type '%.64s' is not f, d or l", text) : 0;
}

/* Lets the flags be written as find(1) has them, with one dash. */
static void take_single_dashes(int argc, char **argv)
{
	static const char *const flags[] = {"--name", "--type", "--print0"};

	for (int i = 1; i < argc; i++) {
		for (size_t j = 0; j < sizeof(flags) / sizeof(flags[0]); j++) {
			if (!strcmp(argv[i], flags[j] + 1))
				argv[i] = (char *)flags[j];
		}
		if (!strcmp(argv[i], flags[0]) || !strcmp(argv[i], flags[1]))
			i++; /* its value */
	}
}

int files_walk_find(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *type = NULL;
	struct find find = {0};
	const struct cli_flag flags[] = {
		{"name", "GLOB", "those whose name matches it, as in a shell", &find.name},
		{"type", "TYPE", "f, files alone; d, directories; l, symbolic links", &type},
		{"print0", NULL, "each ended by a NUL, and as it is", &find.print0},
		{0},
	};
	struct files files;
	char **arguments;
	int n, status;

	take_single_dashes(argc, argv);
	n = cli_argument_list(cli, command, flags, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	status = read_type(command, type, &find.type);
	if (status)
		return status;
	status = files_begin(cli, command, true, &files);
	if (!status)
		status = files_each(&files, arguments, n, find_one, &find);
	return files_end(&files, status);
}

/* ---- du */

struct du {
	const char *summary, *bytes;
	struct inodes seen; /* files with several names, which count once */
	/* The sums below each directory that the walk is in; the first is the argument's. */
	struct du_level {
		uint64_t allocated, nr;
	} * levels;
	size_t nr_levels, room;
	bool is_printed;
};

static void print_level(const struct du *du, const struct du_level *level, const char *path)
{
	char text[SIZE_TEXT_MAX];

	if (du->bytes)
		printf("%16" PRIu64, level->allocated);
	else
		printf("%11s", size_text(level->allocated, text));
	printf(" %10" PRIu64 "  ", level->nr);
	cli_print(path);
	putchar('\n');
}

/* Enters a directory's level. Returns 0 or -ENOMEM. */
static int push_level(struct du *du)
{
	struct du_level *levels;

	if (du->nr_levels == du->room) {
		du->room = du->room ? 2 * du->room : 64;
		levels = reallocarray(du->levels, du->room, sizeof(*levels));
		if (!levels)
			return -ENOMEM;
		du->levels = levels;
	}
	du->levels[du->nr_levels++] = (struct du_level){0, 0};
	return 0;
}

static int du_entry(struct files_walker *walker, struct afar_fs *fs, const char *path,
		    const struct afar_file_stat *stat)
{
	struct du *du = walker->context;
	int is_new = 1;

	(void)fs;
	if (stat->nlink > 1 && !S_ISDIR(stat->mode) &&
	    !inodes_find(&du->seen, 0, stat->ino, &is_new))
		return files_fail("measure", path, -ENOMEM);
	if (!is_new)
		return 0;
	du->levels[du->nr_levels - 1].allocated += stat->allocated;
	du->levels[du->nr_levels - 1].nr++;
	return 0;
}

static int du_enter(struct files_walker *walker, const char *path)
{
	return push_level(walker->context) ? files_fail("measure", path, -ENOMEM) : 0;
}

static void du_leave(struct files_walker *walker, const char *path)
{
	struct du *du = walker->context;
	struct du_level level = du->levels[--du->nr_levels];

	if (!du->summary)
		print_level(du, &level, path);
	du->levels[du->nr_levels - 1].allocated += level.allocated;
	du->levels[du->nr_levels - 1].nr += level.nr;
	du->is_printed = !du->summary;
}

static int du_one(struct files *files, const char *text, void *context)
{
	struct du *du = context;
	struct files_walker walker = {.files = files,
				      .what = "measure",
				      .entry = du_entry,
				      .enter = du_enter,
				      .leave = du_leave,
				      .context = du};
	int status;

	du->nr_levels = 0;
	du->is_printed = false;
	if (push_level(du))
		return files_fail("measure", text, -ENOMEM);
	status = files_walk_tree(&walker, text, false);
	if (!du->is_printed && du->levels[0].nr)
		print_level(du, &du->levels[0], text);
	return status;
}

int files_du(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct du du = {0};
	const struct cli_flag flags[] = {
		{"s", NULL, "the sum alone", &du.summary},
		{"bytes", NULL, "in bytes", &du.bytes},
		{0},
	};
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	status = files_begin(cli, command, true, &files);
	if (!status)
		status = files_each(&files, arguments, n, du_one, &du);
	inodes_free(&du.seen, NULL);
	free(du.levels);
	return files_end(&files, status);
}

/* ---- chmod and chown */

struct change {
	const char *what;
	const char *recursive;
	unsigned mask;
	struct afar_file_stat to;
};

/* A symbolic link has no permissions of its own. Its owner is changed where a tree is walked over. */
static int change_entry(struct files_walker *walker, struct afar_fs *fs, const char *path,
			const struct afar_file_stat *stat)
{
	const struct change *change = walker->context;
	int ret;

	if (S_ISLNK(stat->mode) && change->mask & AFAR_SET_MODE)
		return 0;
	ret = afar_fs_setattr(fs, NULL, stat->ino, change->mask, &change->to, NULL);
	return ret ? files_fail(change->what, path, ret) : 0;
}

static int change_one(struct files *files, const char *text, void *context)
{
	struct change *change = context;
	struct files_walker walker = {
		.files = files, .what = change->what, .entry = change_entry, .context = change};
	struct afar_file_stat stat;
	struct afar_fs *fs;
	int status;

	if (change->recursive)
		return files_walk_tree(&walker, text, true);
	status = files_find_inode(files, change->what, text, 0, &fs, &stat);
	return status ? status : change_entry(&walker, fs, text, &stat);
}

/* Changes all that the arguments behind the first name. Returns an exit status. */
static int change_all(struct cli *cli, const struct cli_command *command, char **arguments, int n,
		      struct change *change)
{
	struct files files;
	int status = files_begin(cli, command, false, &files);

	if (!status)
		status = files_each(&files, arguments + 1, n - 1, change_one, change);
	return files_end(&files, status);
}

int files_chmod(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct change change = {
		.what = "chmod", .mask = AFAR_SET_MODE, .to = {.size = sizeof(change.to)}};
	const struct cli_flag flags[] = {
		{"R", NULL, "of all that is below, too", &change.recursive},
		{0},
	};
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 2, -1, &arguments, &status);
	if (n < 0)
		return status;
	if (fs_mode_parse(arguments[0], &change.to.mode))
		return cli_misuse(command, "'%.64s' is not an octal number up to 7777",
				  arguments[0]);
	return change_all(cli, command, arguments, n, &change);
}

/* Parses a user's name of this machine, or a number. */
static bool parse_user(const char *text, uint32_t *out)
{
	const struct passwd *user = getpwnam(text);
	uint64_t number;

	if (user)
		*out = user->pw_uid;
	else if (number_parse(text, UINT32_MAX - 1, &number) == 0)
		*out = (uint32_t)number;
	else
		return false;
	return true;
}

static bool parse_group(const char *text, uint32_t *out)
{
	const struct group *group = getgrnam(text);
	uint64_t number;

	if (group)
		*out = group->gr_gid;
	else if (number_parse(text, UINT32_MAX - 1, &number) == 0)
		*out = (uint32_t)number;
	else
		return false;
	return true;
}

/* Parses USER, USER:GROUP or :GROUP. Returns 0, or CLI_USAGE with a line. */
static int read_owner(const struct cli_command *command, const char *text, struct change *out)
{
	const char *colon = strchrnul(text, ':');
	char user[256];

	if ((size_t)(colon - text) >= sizeof(user))
		return cli_misuse(command, "'%.64s' is no user", text);
	snprintf(user, sizeof(user), "%.*s", (int)(colon - text), text);
	if (*user && !parse_user(user, &out->to.uid))
		return cli_misuse(command, "'%.64s' is neither a user here nor a number", user);
	if (*user)
		out->mask |= AFAR_SET_UID;
	if (*colon && !parse_group(colon + 1, &out->to.gid))
		return cli_misuse(command, "'%.64s' is neither a group here nor a number",
				  colon + 1);
	if (*colon)
		out->mask |= AFAR_SET_GID;
	return out->mask ? 0 : cli_misuse(command, "no owner is given");
}

int files_chown(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct change change = {.what = "chown", .to = {.size = sizeof(change.to)}};
	const struct cli_flag flags[] = {
		{"R", NULL, "of all that is below, too", &change.recursive},
		{0},
	};
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 2, -1, &arguments, &status);
	if (n < 0)
		return status;
	status = read_owner(command, arguments[0], &change);
	return status ? status : change_all(cli, command, arguments, n, &change);
}
