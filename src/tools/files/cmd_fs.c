/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar fs …` and `afar df`: makes, lists, shows and removes file systems. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_fs.h"
#include "files.h"
#include "tools/cli/commands.h"
#include "tools/regions/policy.h"

#define LIST_MAX     64
#define NAME_COLUMNS 24
#define MODE_MAX     07777

/* ---- Making and removing */

struct owner_flags {
	const char *uid, *gid, *mode;
};

/* Parses a number up to `max`; `out` stays as it is if none is given. Returns 0, or CLI_USAGE with a line. */
static int read_id(const struct cli_command *command, const char *flag, const char *text,
		   uint32_t *out)
{
	uint64_t value;

	if (!text)
		return 0;
	if (number_parse(text, UINT32_MAX - 1, &value))
		return cli_misuse(command, "%s '%.64s' is not a number up to %u", flag, text,
				  UINT32_MAX - 1);
	*out = (uint32_t)value;
	return 0;
}

int fs_mode_parse(const char *text, uint32_t *out)
{
	unsigned long value = 0;

	if (!*text || strlen(text) > 5 || text[strspn(text, "01234567")])
		return -EINVAL;
	value = strtoul(text, NULL, 8);
	if (value > MODE_MAX)
		return -EINVAL;
	*out = (uint32_t)value;
	return 0;
}

static int read_owner(const struct cli_command *command, const struct owner_flags *flags,
		      struct afar_fs_policy *out)
{
	int status;

	out->uid = geteuid();
	out->gid = getegid();
	status = read_id(command, "--uid", flags->uid, &out->uid);
	if (!status)
		status = read_id(command, "--gid", flags->gid, &out->gid);
	if (status || !flags->mode)
		return status;
	/* 0 would stand for the default. */
	if (fs_mode_parse(flags->mode, &out->mode) || !out->mode)
		return cli_misuse(command, "--mode '%.64s' is not an octal number from 1 to 7777",
				  flags->mode);
	return 0;
}

struct limit_flags {
	const char *max, *max_files;
};

/* Parses those that are given. "none" is no limit. Returns 0, or CLI_USAGE with a line. */
static int read_limits(const struct cli_command *command, const struct limit_flags *flags,
		       uint64_t *max_bytes, uint64_t *max_inodes)
{
	int status = 0;

	if (flags->max)
		status = cli_limit(command, "--max", flags->max, max_bytes);
	if (status || !flags->max_files)
		return status;
	if (strcmp(flags->max_files, "none") == 0)
		*max_inodes = 0;
	else if (number_parse(flags->max_files, UINT64_MAX, max_inodes) || !*max_inodes)
		return cli_misuse(command, "--max-files '%.64s' is not a number from 1 on, or none",
				  flags->max_files);
	return 0;
}

static int fs_create(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct policy_flags given = {0};
	struct owner_flags owner = {0};
	struct limit_flags limits = {0};
	const struct cli_flag flags[] = {
		{"tier", "TIER",
		 "where its bytes are: dram (default), or flash, which survives its servers",
		 &given.tier},
		{"width", "N", "servers that a large file is striped over (default: all)",
		 &given.width},
		{"stripe", "SIZE", "bytes on one server before the next (default 1M)",
		 &given.stripe},
		{"max", "SIZE", "that it may have at most (default: what there is)", &limits.max},
		{"max-files", "N", "files and directories at most (default: no limit)",
		 &limits.max_files},
		{"uid", "N", "who owns its root directory (default: you)", &owner.uid},
		{"gid", "N", "its group (default: yours)", &owner.gid},
		{"mode", "OCTAL", "its permissions (default 0755)", &owner.mode},
		{0},
	};
	struct afar_policy pool = {.size = sizeof(pool)};
	struct afar_fs_policy policy = {.size = sizeof(policy), .pool = &pool};
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = policy_read(command, &given, &pool);
	if (!status)
		status = read_limits(command, &limits, &pool.max_bytes, &policy.max_inodes);
	if (!status)
		status = read_owner(command, &owner, &policy);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	ret = afar_fs_create(cli->session, arguments[0], &policy, NULL);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

static int set_limits(struct cli *cli, const struct cli_command *command, const char *name,
		      const struct limit_flags *given)
{
	struct afar_fs_limits limits = {.size = sizeof(limits)};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_stat_by_name(cli->session, name, &stat), status;

	if (ret)
		return cli_fail_last(ret);
	limits.max_bytes = stat.max_bytes;
	limits.max_inodes = stat.max_inodes;
	status = read_limits(command, given, &limits.max_bytes, &limits.max_inodes);
	if (status)
		return status;
	ret = afar_fs_set_limits(cli->session, name, &limits);
	return ret ? cli_fail_last(ret) : 0;
}

static int fs_set(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct limit_flags given = {0};
	const struct cli_flag flags[] = {
		{"max", "SIZE", "that it may have at most, or none", &given.max},
		{"max-files", "N", "files and directories at most, or none", &given.max_files},
		{0},
	};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!given.max && !given.max_files)
		return cli_misuse(command, "say what to set: --max SIZE, --max-files N");
	status = cli_open(cli);
	return status ? status : cli_close(cli, set_limits(cli, command, arguments[0], &given));
}

static int fs_set_layout(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX], *is_default = NULL;
	struct policy_flags given = {0};
	const struct cli_flag flags[] = {
		{"stripe", "SIZE", "bytes in one place before the next, a power of two from 64K on",
		 &given.stripe},
		{"width", "N", "servers, or stores, that each file is striped over", &given.width},
		{"default", NULL, "as the file system is", &is_default},
		{0},
	};
	struct afar_policy policy;
	struct afar_file_stat stat;
	struct afar_fs *fs;
	struct files files;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!is_default == !(given.stripe || given.width))
		return cli_misuse(command,
				  "say what to set: --stripe SIZE, --width N, or --default");
	status = policy_read(command, &given, &policy);
	if (!status)
		status = files_begin(cli, command, false, &files);
	if (status)
		return status;
	status = files_find_inode(&files, "set the layout of", arguments[0], 0, &fs, &stat);
	if (!status) {
		stat.stripe_bytes = policy.stripe_bytes;
		stat.width = policy.width;
		ret = afar_fs_setattr(fs, NULL, stat.ino, AFAR_SET_LAYOUT, &stat, NULL);
		status = ret ? cli_fail_last(ret) : 0;
	}
	return files_end(&files, status);
}

/* Says what could not be given back, and why. The figures are of a moment later. */
static void print_kept(const struct afar_fs_stat *stat)
{
	char text[SIZE_TEXT_MAX];

	if (stat->free_bytes)
		printf("%s are free and stay: files have something in the extents that they are "
		       "in\n",
		       size_text(stat->free_bytes, text));
	if (stat->pending_bytes)
		printf("%s stay until servers have zeroed what files gave back there; try again "
		       "then\n",
		       size_text(stat->pending_bytes, text));
}

static int fs_shrink(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	uint64_t released = 0;
	char text[SIZE_TEXT_MAX];
	int ret, status;

	if (cli_arguments(cli, command, NULL, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_fs_shrink(cli->session, arguments[0], &released);
	if (ret)
		return cli_close(cli, cli_fail_last(ret));
	printf("released %s\n", size_text(released, text));
	if (afar_fs_stat_by_name(cli->session, arguments[0], &stat) == 0)
		print_kept(&stat);
	return cli_close(cli, 0);
}

/* Refuses one with files. Their number may be another a moment later; those who have it open are the
 * manager's to ask about. Returns 0, or CLI_FAILED with a line. */
static int check_empty(struct cli *cli, const char *name)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_stat_by_name(cli->session, name, &stat);

	if (ret)
		return cli_fail_last(ret);
	if (stat.nr_inodes <= 1)
		return 0;
	return cli_fail("remove the file system %s: it has %" PRIu64
			" file%s or director%s; --force removes them, too",
			name, stat.nr_inodes - 1, stat.nr_inodes == 2 ? "" : "s",
			stat.nr_inodes == 2 ? "y" : "ies");
}

static int fs_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *force = NULL;
	const struct cli_flag flags[] = {
		{"force", NULL, "with the files that are in it", &force},
		{0},
	};
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	if (!force)
		status = check_empty(cli, arguments[0]);
	if (!status) {
		ret = afar_fs_delete(cli->session, arguments[0]);
		status = ret ? cli_fail_last(ret) : 0;
	}
	return cli_close(cli, status);
}

/* ---- Listing and showing */

/* Returns the bytes that files have. The manager's figures are of one moment, but are checked like all
 * that a peer says. */
static uint64_t used_bytes(const struct afar_fs_stat *stat)
{
	uint64_t unused = stat->free_bytes + stat->pending_bytes;

	return unused > stat->pool_bytes ? 0 : stat->pool_bytes - unused;
}

/* Returns the bytes that files could have at most: those that there are and those that can be
 * added, up to the limit. */
static uint64_t whole_bytes(const struct afar_fs_stat *stat)
{
	uint64_t whole;

	if (__builtin_add_overflow(stat->pool_bytes, stat->room_bytes, &whole))
		whole = UINT64_MAX;
	return stat->max_bytes && stat->max_bytes < whole ? stat->max_bytes : whole;
}

static uint64_t available_bytes(const struct afar_fs_stat *stat)
{
	uint64_t whole = whole_bytes(stat), used = used_bytes(stat);

	return used > whole ? 0 : whole - used;
}

static void print_header(void)
{
	printf("%-*s %11s %11s %11s %10s %-5s %5s %-6s %-5s %4s  %s\n", NAME_COLUMNS, "FILE-SYSTEM",
	       "USED", "AVAILABLE", "LOST", "INODES", "TIER", "WIDTH", "RIGHTS", "STATE", "OPEN",
	       "OWNER");
}

static void print_width(uint32_t width, int columns)
{
	if (width && width < CLI_WIDTH_ALL)
		printf("%*u", columns, width);
	else
		printf("%*s", columns, "all");
}

static void print_entry(const struct afar_fs_stat *entry)
{
	char used[SIZE_TEXT_MAX], available[SIZE_TEXT_MAX], lost[SIZE_TEXT_MAX];

	cli_print_padded(entry->name, NAME_COLUMNS);
	printf(" %11s %11s %11s %10" PRIu64 " %-5s ", size_text(used_bytes(entry), used),
	       size_text(available_bytes(entry), available),
	       entry->lost_bytes ? size_text(entry->lost_bytes, lost) : "-", entry->nr_inodes,
	       policy_tier(entry->tier));
	print_width(entry->width, 5);
	printf(" %-6s %-5s %4u  ", policy_rights(entry->rights), entry->is_lost ? "lost" : "ok",
	       entry->nr_clients);
	cli_print(*entry->owner ? entry->owner : "-");
	putchar('\n');
}

static json_t *entry_to_json(const struct afar_fs_stat *entry)
{
	return json_pack(
		"{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:b, s:o, s:o}",
		"name", cli_json_text(entry->name), "tier", policy_tier(entry->tier), "width",
		cli_json_number(entry->width), "stripe_bytes", cli_json_number(entry->stripe_bytes),
		"pool_bytes", cli_json_number(entry->pool_bytes), "free_bytes",
		cli_json_number(entry->free_bytes), "pending_bytes",
		cli_json_number(entry->pending_bytes), "room_bytes",
		cli_json_number(entry->room_bytes), "max_bytes", cli_json_number(entry->max_bytes),
		"nr_inodes", cli_json_number(entry->nr_inodes), "max_inodes",
		cli_json_number(entry->max_inodes), "rights",
		entry->rights ? policy_rights(entry->rights) : "", "nr_clients",
		cli_json_number(entry->nr_clients), "is_lost", (int)entry->is_lost, "lost_bytes",
		cli_json_number(entry->lost_bytes), "owner", cli_json_text(entry->owner));
}

/* Calls `show` for each file system. Returns 0 or the library's error. */
static int each(struct cli *cli, void (*show)(const struct afar_fs_stat *entry, void *context),
		void *context)
{
	struct afar_fs_stat entries[LIST_MAX];
	char after[AFAR_NAME_MAX + 1] = "";
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_fs_list(cli->session, *after ? after : NULL, entries, LIST_MAX);
		for (int i = 0; i < n; i++)
			show(&entries[i], context);
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0);
	return n;
}

static void show_entry(const struct afar_fs_stat *entry, void *context)
{
	if (context)
		json_array_append_new(context, entry_to_json(entry));
	else
		print_entry(entry);
}

int fs_list(struct cli *cli, json_t *json)
{
	if (!json)
		print_header();
	return each(cli, show_entry, json);
}

static void show_name(const struct afar_fs_stat *entry, void *context)
{
	(void)context;
	cli_print(entry->name);
	putchar('\n');
}

int fs_list_names(struct cli *cli)
{
	return each(cli, show_name, NULL);
}

static int fs_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return cli_list(cli, command, argc, argv, fs_list);
}

static void print_bytes(const char *what, uint64_t bytes)
{
	char text[SIZE_TEXT_MAX];

	printf("%-11s %" PRIu64 " (%s)\n", what, bytes, size_text(bytes, text));
}

static void print_stat(const struct afar_fs_stat *stat)
{
	char text[SIZE_TEXT_MAX];

	printf("%-11s ", "name");
	cli_print(stat->name);
	printf("\n%-11s %s\n", "tier", policy_tier(stat->tier));
	printf("%-11s ", "width");
	print_width(stat->width, 0);
	printf("\n%-11s %s\n", "stripe", size_text(stat->stripe_bytes, text));
	print_bytes("used", used_bytes(stat));
	print_bytes("available", available_bytes(stat));
	print_bytes("pool", stat->pool_bytes);
	print_bytes("free", stat->free_bytes);
	print_bytes("pending", stat->pending_bytes);
	if (stat->lost_bytes)
		print_bytes("lost", stat->lost_bytes);
	if (stat->max_bytes)
		print_bytes("max", stat->max_bytes);
	printf("%-11s %" PRIu64 "\n", "inodes", stat->nr_inodes);
	if (stat->max_inodes)
		printf("%-11s %" PRIu64 " besides the root\n", "max files", stat->max_inodes);
	printf("%-11s ", "owner");
	cli_print(*stat->owner ? stat->owner : "-");
	printf("\n%-11s %s\n", "rights", policy_rights(stat->rights));
	printf("%-11s %u\n", "open", stat->nr_clients);
	printf("%-11s %s\n", "state", stat->is_lost ? "lost" : "ok");
}

static int fs_stat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_fs_stat_by_name(cli->session, arguments[0], &stat);
	if (ret)
		status = cli_fail_last(ret);
	else if (as_json)
		status = cli_print_json(entry_to_json(&stat));
	else
		print_stat(&stat);
	return cli_close(cli, status);
}

/* ---- Checking */

static void print_line(void *argument, const char *line)
{
	(void)argument;
	cli_print(line);
	putchar('\n');
}

/* Returns an exit status. */
static int check(struct cli *cli, const char *name)
{
	const struct afar_fs_options options = {.size = sizeof(options),
						.flags = AFAR_FS_READ_ONLY};
	struct afar_fs *fs;
	int ret = afar_fs_open(cli->session, name, &options, &fs);

	if (ret)
		return cli_fail_last(ret);
	ret = afar_fs_check(fs, print_line, NULL);
	afar_fs_close(fs);
	if (ret < 0)
		return cli_fail_last(ret);
	if (ret > 0)
		return cli_fail("check file system '%s': its records do not agree, as shown; keep "
				"a copy of the manager's folder",
				name);
	printf("%s: its records agree\n", name);
	return 0;
}

static int fs_check(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *lost = NULL, *removes = NULL, *yes = NULL, *as_json = NULL;
	const struct cli_flag flags[] = {
		{"lost", NULL, "list the files that have lost bytes with a server instead", &lost},
		{"remove", NULL, "with --lost: remove them", &removes},
		{"yes", NULL, "with --remove: nobody needs what is left of them", &yes},
		{"json", NULL, "with --lost: list as JSON", &as_json},
		{0},
	};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if ((removes || as_json) && !lost)
		return cli_misuse(command, "%s goes with --lost", removes ? "--remove" : "--json");
	if (yes && !removes)
		return cli_misuse(command, "--yes goes with --remove");
	if (removes && as_json)
		return cli_misuse(command, "--remove and --json do not go together");
	status = cli_open(cli);
	if (status)
		return status;
	if (lost)
		status = fs_check_lost(cli, arguments[0],
				       &(struct fs_lost_wish){removes, yes, as_json});
	else
		status = check(cli, arguments[0]);
	return cli_close(cli, status);
}

/* ---- Room */

static void df_header(void)
{
	printf("%-*s %11s %11s %11s %5s %10s\n", NAME_COLUMNS, "FILE-SYSTEM", "SIZE", "USED",
	       "AVAILABLE", "USE", "INODES");
}

static void df_entry(const struct afar_fs_stat *entry, void *context)
{
	char whole[SIZE_TEXT_MAX], used[SIZE_TEXT_MAX], available[SIZE_TEXT_MAX];
	double size = (double)whole_bytes(entry);

	(void)context;
	cli_print_padded(entry->name, NAME_COLUMNS);
	printf(" %11s %11s %11s %4.0f%% %10" PRIu64 "\n", size_text(whole_bytes(entry), whole),
	       size_text(used_bytes(entry), used), size_text(available_bytes(entry), available),
	       size > 0 ? 100.0 * (double)used_bytes(entry) / size : 0.0, entry->nr_inodes);
}

/* `name` may be a path in the file system, as df takes one. Returns an exit status. */
static int df_one(struct cli *cli, const struct cli_command *command, const char *name)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct files_path path;
	int ret, status;

	if (*name == '/') {
		status = files_path_parse(command, name, &path);
		if (status)
			return status;
		name = path.fs;
	}
	ret = afar_fs_stat_by_name(cli->session, name, &stat);
	if (ret)
		return cli_fail_last(ret);
	df_header();
	df_entry(&stat, NULL);
	return 0;
}

int files_df(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	int n, ret, status;

	n = cli_arguments(cli, command, NULL, argc, argv, 0, 1, arguments, &status);
	if (n < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	if (n)
		return cli_close(cli, df_one(cli, command, arguments[0]));
	df_header();
	ret = each(cli, df_entry, NULL);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

const struct cli_command fs_commands[] = {
	{"fs create",
	 "NAME [--tier dram|flash] [--width N] [--stripe SIZE] [--max SIZE] [--max-files N] "
	 "[--uid N] [--gid N] [--mode OCTAL]",
	 "make a file system with an empty root directory", fs_create},
	{"fs ls", "[--json]", "list the file systems", fs_ls},
	{"fs stat", "FS [--json]", "show one file system", fs_stat},
	{"fs check", "FS [--lost] [--json] [--remove] [--yes]",
	 "compare what is stored of a file system with itself, or find files that have lost bytes",
	 fs_check},
	{"fs set", "FS [--max SIZE|none] [--max-files N|none]", "change what it may have at most",
	 fs_set},
	{"fs set-layout", "/FS/PATH [--stripe SIZE] [--width N] [--default]",
	 "set how files that are made in a directory are striped over servers", fs_set_layout},
	{"fs shrink", "FS", "give back whole extents of its pool that are free", fs_shrink},
	{"fs rm", "FS [--force]", "remove a file system and give its room back", fs_rm},
	{0},
};
