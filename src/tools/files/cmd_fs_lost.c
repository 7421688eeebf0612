/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar fs check --lost`: lists the files that have lost bytes with a server, and removes them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/file.h>

#include "cmd_fs.h"
#include "tools/cli/size.h"

/* Names of such files, as they were listed. */
struct lost_names {
	struct afar_lost_file *entries; /* with texts of their own */
	size_t nr, max;
	bool is_short; /* of memory */
};

/* ---- Gathering */

static bool make_room(struct lost_names *names)
{
	size_t max = names->max * 2 + 64;
	struct afar_lost_file *more;

	if (names->nr < names->max)
		return true;
	more = reallocarray(names->entries, max, sizeof(*more));
	if (!more)
		return false;
	names->entries = more;
	names->max = max;
	return true;
}

static void take_name(void *argument, const struct afar_lost_file *file)
{
	struct lost_names *names = argument;
	struct afar_lost_file *entry;

	if (!make_room(names)) {
		names->is_short = true;
		return;
	}
	entry = &names->entries[names->nr++];
	*entry = *file;
	entry->name = strdup(file->name);
	entry->path = strdup(file->path);
	names->is_short |= !entry->name || !entry->path;
}

static void free_names(struct lost_names *names)
{
	for (size_t i = 0; i < names->nr; i++) {
		free((char *)names->entries[i].name);
		free((char *)names->entries[i].path);
	}
	free(names->entries);
}

/* Returns 0, or CLI_FAILED with a line. */
static int gather(struct afar_fs *fs, struct lost_names *names)
{
	int64_t ret = afar_fs_list_lost(fs, take_name, names);

	if (ret < 0)
		return cli_fail_last((int)ret);
	return names->is_short ? cli_fail("list files that have lost bytes: no memory") : 0;
}

/* ---- Showing */

static uint64_t count_files(const struct lost_names *names, uint64_t *bytes)
{
	uint64_t nr = 0;

	*bytes = 0;
	for (size_t i = 0; i < names->nr; i++) {
		if (i > 0 && names->entries[i].ino == names->entries[i - 1].ino)
			continue;
		nr++;
		*bytes += names->entries[i].lost_bytes;
	}
	return nr;
}

static void print_names(const char *name, const struct lost_names *names)
{
	char text[SIZE_TEXT_MAX];

	if (names->nr != 0)
		printf("%11s  %s\n", "LOST", "PATH");
	for (size_t i = 0; i < names->nr; i++) {
		const struct afar_lost_file *file = &names->entries[i];

		printf("%11s  ", size_text(file->lost_bytes, text));
		if (file->dir) {
			printf("/%s", name);
			cli_print(file->path);
		} else {
			printf("inode %" PRIu64 ", which has no name and is open", file->ino);
		}
		putchar('\n');
	}
}

static json_t *path_to_json(const char *name, const struct afar_lost_file *file)
{
	size_t length = strlen(name) + strlen(file->path) + 2;
	char *path = file->dir ? malloc(length) : NULL;
	json_t *text;

	if (!path)
		return json_null();
	snprintf(path, length, "/%s%s", name, file->path);
	text = cli_json_text(path);
	free(path);
	return text;
}

static json_t *names_to_json(const char *name, const struct lost_names *names)
{
	json_t *json = json_array();

	for (size_t i = 0; i < names->nr && json; i++)
		json_array_append_new(
			json,
			json_pack("{s:o, s:o, s:o}", "path", path_to_json(name, &names->entries[i]),
				  "ino", cli_json_number(names->entries[i].ino), "lost_bytes",
				  cli_json_number(names->entries[i].lost_bytes)));
	return json;
}

static int show(const char *name, const struct lost_names *names)
{
	char text[SIZE_TEXT_MAX];
	uint64_t bytes, nr = count_files(names, &bytes);

	print_names(name, names);
	if (nr == 0)
		printf("%s: no file has lost anything\n", name);
	else
		printf("%s: %" PRIu64 " files have lost %s\n", name, nr, size_text(bytes, text));
	return 0;
}

/* ---- Removing */

/* Removes each name, and goes on where that fails. */
static int remove_names(struct afar_fs *fs, const char *name, const struct lost_names *names)
{
	size_t nr_removed = 0;
	int status = 0;

	for (size_t i = 0; i < names->nr; i++) {
		int ret = names->entries[i].dir ? afar_fs_unlink_lost(fs, NULL, &names->entries[i])
						: -EBUSY;

		nr_removed += !ret;
		/* One that has no name goes when it is closed. */
		if (ret && names->entries[i].dir)
			status = cli_fail_last(ret);
	}
	printf("%s: removed %zu names of files that had lost something\n", name, nr_removed);
	return status;
}

static int remove_lost(struct afar_fs *fs, const char *name, const struct lost_names *names,
		       bool is_sure)
{
	if (is_sure && names->nr != 0) {
		print_names(name, names);
		return remove_names(fs, name, names);
	}
	show(name, names);
	if (names->nr == 0)
		return 0;
	fflush(stdout);
	return cli_fail(
		"remove the files of '%s' that have lost something: nothing is done yet; if "
		"nobody needs what is left of them, say --yes",
		name);
}

/* ---- The command */

static int run(struct afar_fs *fs, const char *name, const struct fs_lost_wish *wish)
{
	struct lost_names names = {0};
	int status = gather(fs, &names);

	if (!status && wish->as_json)
		status = cli_print_json(names_to_json(name, &names));
	else if (!status && wish->is_to_remove)
		status = remove_lost(fs, name, &names, wish->is_sure);
	else if (!status)
		status = show(name, &names);
	free_names(&names);
	return status;
}

int fs_check_lost(struct cli *cli, const char *name, const struct fs_lost_wish *wish)
{
	const struct afar_fs_options options = {
		.size = sizeof(options), .flags = wish->is_to_remove ? 0 : AFAR_FS_READ_ONLY};
	struct afar_fs *fs;
	int status, ret = afar_fs_open(cli->session, name, &options, &fs);

	if (ret)
		return cli_fail_last(ret);
	status = run(fs, name, wish);
	afar_fs_close(fs);
	return status;
}
