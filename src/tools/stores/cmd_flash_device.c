/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar flash create` and `info`: makes a flash layer of a file or a block device of this machine,
 * and shows one. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cmd_flash.h"
#include "flash/device/file.h"
#include "flash/device/superblock.h"
#include "flash/device/uring.h"
#include "flash/ftl.h"
#include "tools/cli/interrupts.h"

/* ---- Creating */

struct creation {
	const char *path;
	uint64_t size; /* 0: the size of what is there */
	bool is_sparse;
	struct ftl_options layout;
};

#define SHOW_BYTES ((uint64_t)64 << 20)

static bool show_written(void *context, uint64_t written)
{
	const struct creation *creation = context;
	char of[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];

	if (isatty(STDERR_FILENO) == 1 && written % SHOW_BYTES == 0)
		fprintf(stderr, "\rwriting %s once: %s of %s\033[K", creation->path,
			size_text(written, text), size_text(creation->size, of));
	return !is_interrupted();
}

static int create_file(const struct cli_command *command, const struct creation *creation)
{
	const struct flash_file_options options = {.is_sparse = creation->is_sparse,
						   .progress = show_written,
						   .context = (void *)(uintptr_t)creation};
	int ret;

	catch_interrupts();
	ret = flash_file_create(creation->path, creation->size, &options);
	if (!creation->is_sparse && isatty(STDERR_FILENO) == 1)
		fputs("\r\033[K", stderr);
	if (ret == -ECANCELED)
		return CLI_INTERRUPTED;
	return ret ? flash_fail(command, NULL) : 0;
}

/* Makes the file if there is none. Returns 0, or an exit status after a line. */
static int make_file(const struct cli_command *command, const struct creation *creation,
		     bool *is_made)
{
	struct stat stat_of_path;
	int ret;

	*is_made = false;
	if (stat(creation->path, &stat_of_path) == 0) {
		if (!creation->size || (S_ISREG(stat_of_path.st_mode) &&
					(uint64_t)stat_of_path.st_size == creation->size))
			return 0;
		return cli_fail("%s %s: it is there, with a size of its own; leave out --size to "
				"take it, or name a new file",
				command->name, creation->path);
	}
	if (errno != ENOENT)
		return cli_fail("%s %s: %s", command->name, creation->path, afar_strerror(errno));
	if (!creation->size)
		return cli_fail("%s %s: there is no such file; --size SIZE makes one",
				command->name, creation->path);
	ret = create_file(command, creation);
	*is_made = ret == 0;
	return ret;
}

static int make_layer(const struct cli_command *command, const struct creation *creation)
{
	char text[SIZE_TEXT_MAX], segment[SIZE_TEXT_MAX];
	struct flash_device *device;
	struct ftl_stat stat;
	struct ftl *ftl;
	int ret;

	if (flash_device_open_path(creation->path, 0, &device))
		return flash_fail(command, NULL);
	ret = ftl_create(device, &creation->layout);
	if (!ret)
		ret = ftl_open(device, FTL_READ_ONLY, &ftl);
	if (!ret) {
		ftl_stat(ftl, &stat);
		ftl_abandon(ftl);
		printf("%s: %s in segments of %s\n", creation->path,
		       size_text(stat.capacity_blocks * FTL_BLOCK, text),
		       size_text((uint64_t)stat.segment_blocks * FTL_BLOCK, segment));
	}
	flash_device_close(device);
	return ret ? flash_fail(command, creation->path) : 0;
}

static int take_segment(const struct cli_command *command, const char *text, uint32_t *out)
{
	uint64_t bytes;
	int ret = cli_size(command, "--segment", text, &bytes);

	if (ret)
		return ret;
	if (bytes % FTL_BLOCK || bytes > UINT32_MAX)
		return cli_misuse(command, "--segment '%.64s' is not a multiple of 4096 below 4G",
				  text);
	*out = (uint32_t)bytes;
	return 0;
}

static int take_size(const struct cli_command *command, const char *text, uint64_t *out)
{
	int ret = cli_size(command, "--size", text, out);

	if (!ret && (*out % FTL_BLOCK || *out > INT64_MAX))
		return cli_misuse(command,
				  "--size '%.64s' is not a multiple of 4096 that a file can have",
				  text);
	return ret;
}

int flash_create(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *size = NULL, *segment = NULL, *is_sparse = NULL, *is_forced = NULL;
	const struct cli_flag flags[] = {
		{"size", "SIZE", "make the file, of this size", &size},
		{"segment", "SIZE", "write and clean in units of this size (default 4M)", &segment},
		{"sparse", NULL, "do not write the file once, nor set its blocks aside",
		 &is_sparse},
		{"force", NULL, "over whatever is there", &is_forced},
		{0},
	};
	struct creation creation = {0};
	bool is_made;
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = flash_refuse_cluster(cli, command);
	if (!ret && is_sparse && !size)
		ret = cli_misuse(command, "--sparse is for a file that --size makes");
	if (!ret && size)
		ret = take_size(command, size, &creation.size);
	if (!ret && segment)
		ret = take_segment(command, segment, &creation.layout.segment_bytes);
	if (ret)
		return ret;
	creation.path = arguments[0];
	creation.is_sparse = is_sparse;
	creation.layout.is_forced = is_forced;
	ret = make_file(command, &creation, &is_made);
	if (ret)
		return ret;
	ret = make_layer(command, &creation);
	if (ret && is_made)
		unlink(creation.path);
	return ret;
}

/* ---- Showing */

static void uuid_text(const struct format_superblock *superblock, char out[37])
{
	const uint8_t *id = superblock->uuid;

	snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10],
		 id[11], id[12], id[13], id[14], id[15]);
}

static const char *const state_names[FTL_NR_SEGMENT_STATES] = {
	[FTL_SEGMENT_FREE] = "free",	     [FTL_SEGMENT_OPEN] = "open",
	[FTL_SEGMENT_CLOSING] = "closing",   [FTL_SEGMENT_FULL] = "full",
	[FTL_SEGMENT_CLEANING] = "cleaning", [FTL_SEGMENT_PENDING] = "pending",
	[FTL_SEGMENT_DISCARD] = "discard",   [FTL_SEGMENT_BAD] = "bad",
};

static void print_bytes(const char *name, uint64_t blocks)
{
	char text[SIZE_TEXT_MAX];

	printf("%-18s %s\n", name, size_text(blocks * FTL_BLOCK, text));
}

static void print_info(const char *path, const struct format_superblock *superblock,
		       const struct ftl_stat *stat)
{
	char uuid[37];

	uuid_text(superblock, uuid);
	printf("%-18s ", "device");
	cli_print(path);
	printf("\n%-18s %s\n", "uuid", uuid);
	printf("%-18s %" PRIu32 "\n", "version", superblock->version);
	printf("%-18s %" PRIu32 " B\n", "sector", superblock->sector);
	print_bytes("size", superblock->nr_blocks);
	print_bytes("capacity", stat->capacity_blocks);
	print_bytes("used", stat->used_blocks);
	print_bytes("free", stat->free_blocks);
	print_bytes("segment", stat->segment_blocks);
	printf("%-18s %" PRIu32 ":", "segments", stat->nr_segments);
	for (unsigned state = 0; state < FTL_NR_SEGMENT_STATES; state++) {
		if (stat->nr_by_state[state])
			printf(" %" PRIu32 " %s", stat->nr_by_state[state], state_names[state]);
	}
	printf("\n%-18s %" PRIu32 " of %" PRIu32 "\n", "map pages", stat->map_slots_used,
	       stat->map_slots);
	printf("%-18s %" PRIu32 " of %" PRIu32 " to be replayed\n", "journal blocks",
	       stat->journal_used, stat->journal_blocks);
	if (stat->damaged_pages)
		printf("%-18s %" PRIu32 " have blocks that cannot be found; see flash check\n",
		       "damaged map pages", stat->damaged_pages);
	if (stat->leaked_blocks)
		printf("%-18s %" PRIu64 " blocks at most are in use and nobody's\n", "leaked",
		       stat->leaked_blocks);
}

static json_t *states_to_json(const struct ftl_stat *stat)
{
	json_t *states = json_object();

	for (unsigned state = 0; state < FTL_NR_SEGMENT_STATES; state++)
		json_object_set_new(states, state_names[state],
				    json_integer(stat->nr_by_state[state]));
	return states;
}

static int print_info_json(const char *path, const struct format_superblock *superblock,
			   const struct ftl_stat *stat)
{
	char uuid[37];
	json_t *info;
	char *text;

	uuid_text(superblock, uuid);
	info = json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, "
		"s:I}",
		"device", path, "uuid", uuid, "version", (json_int_t)superblock->version,
		"sector_bytes", (json_int_t)superblock->sector, "size_bytes",
		json_bytes(superblock->nr_blocks), "capacity_bytes",
		json_bytes(stat->capacity_blocks), "used_bytes", json_bytes(stat->used_blocks),
		"free_bytes", json_bytes(stat->free_blocks), "segment_bytes",
		json_bytes(stat->segment_blocks), "nr_segments", (json_int_t)stat->nr_segments,
		"segments", states_to_json(stat), "map_pages", (json_int_t)stat->map_slots,
		"map_pages_used", (json_int_t)stat->map_slots_used, "journal_blocks",
		(json_int_t)stat->journal_blocks, "journal_blocks_used",
		(json_int_t)stat->journal_used, "damaged_map_pages",
		(json_int_t)stat->damaged_pages, "leaked_blocks", (json_int_t)stat->leaked_blocks);
	text = info ? json_dumps(info, JSON_INDENT(2)) : NULL;
	json_decref(info);
	if (!text)
		return cli_fail("flash info: the device's name is no UTF-8, or memory is short");
	puts(text);
	free(text);
	return 0;
}

static int show(const struct cli_command *command, const char *path, bool as_json)
{
	struct format_superblock superblock;
	struct flash_device *device;
	struct ftl_stat stat;
	struct ftl *ftl;
	int ret;

	if (flash_device_open_path(path, FLASH_DEVICE_READ_ONLY, &device))
		return flash_fail(command, NULL);
	ret = superblock_read(device, &superblock);
	if (!ret)
		ret = ftl_open(device, FTL_READ_ONLY, &ftl);
	if (!ret) {
		ftl_stat(ftl, &stat);
		ftl_abandon(ftl);
	}
	flash_device_close(device);
	if (ret)
		return flash_fail(command, path);
	if (as_json)
		return print_info_json(path, &superblock, &stat);
	print_info(path, &superblock, &stat);
	return 0;
}

int flash_info(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = flash_refuse_cluster(cli, command);
	return ret ? ret : show(command, arguments[0], as_json);
}
