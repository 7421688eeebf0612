/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar flash repair`: says what of a damaged flash layer can be repaired, and which blocks that gives up; with --yes it does so. One line
 * for each thing on standard output.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd_flash.h"
#include "flash/device/uring.h"
#include "flash/upkeep/repair.h"

static void on_finding(void *context, enum check_area area, uint64_t at, const char *what)
{
	(void)context;
	printf("%-10s 0x%" PRIx64 ": damaged; %s\n", check_area_name(area), at, what);
}

/* The owner of a range of a store has namespace and number of the extent: server/stores/store_table.c. */
static void on_lost(void *context, uint64_t at, const struct space_owner *owner, uint32_t range,
		    uint32_t first, uint32_t last)
{
	uint64_t words[2];

	(void)context;
	printf("%-10s 0x%" PRIx64 ": blocks %" PRIu32 " to %" PRIu32 " of range %" PRIu32,
	       check_area_name(CHECK_MAP), at, first, last, range);
	if (owner) {
		memcpy(words, owner->bytes, sizeof(words));
		printf(" (extent %" PRIx64 " of namespace %" PRIu64 ")", le64toh(words[1]),
		       le64toh(words[0]));
	}
	printf(" are given up: they cannot be read until they are written anew\n");
}

static int say_what_is_left(const struct cli_command *command, const char *path,
			    const struct repair_options *options,
			    const struct repair_report *report)
{
	char lost[SIZE_TEXT_MAX];

	if (!report->nr_findings) {
		printf("nothing to repair; 'afar flash check' looks at more\n");
		return 0;
	}
	size_text(report->nr_lost * FTL_BLOCK, lost);
	if (!options->is_dry) {
		printf("%" PRIu64 " repaired, %s given up\n", report->nr_findings, lost);
		return 0;
	}
	fflush(stdout);
	return cli_fail("%s %s: nothing is done yet; %" PRIu64
			" can be repaired, which gives up %s; "
			"if that shall be, say --yes",
			command->name, path, report->nr_findings, lost);
}

static int repair(const struct cli_command *command, const char *path,
		  const struct repair_options *options)
{
	struct repair_report report;
	struct flash_device *device;
	int ret;

	if (flash_device_open_path(path, options->is_dry ? FLASH_DEVICE_READ_ONLY : 0, &device))
		return flash_fail(command, NULL);
	ret = repair_device(device, options, &report);
	flash_device_close(device);
	fflush(stdout);
	return ret ? flash_fail(command, path) : say_what_is_left(command, path, options, &report);
}

int flash_repair(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *is_sure = NULL;
	const struct cli_flag flags[] = {
		{"yes", NULL, "do it, and give up what it says", &is_sure},
		{0},
	};
	struct repair_options options = {.finding = on_finding, .lost = on_lost};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = flash_refuse_cluster(cli, command);
	options.is_dry = !is_sure;
	return ret ? ret : repair(command, arguments[0], &options);
}
