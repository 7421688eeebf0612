/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar flash check`: prints the faults of a flash layer, one line for each finding on standard
 * output, and then what was checked. Exit status 1: there are faults.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cmd_flash.h"
#include "flash/device/uring.h"
#include "flash/upkeep/check.h"
#include "flash/upkeep/repair.h"
#include "tools/cli/interrupts.h"

struct showing {
	const char *path;
	json_t *findings; /* NULL: findings are printed as they come */
};

static const char *unit_of(enum check_area area)
{
	switch (area) {
	case CHECK_SUPERBLOCK:
	case CHECK_ANCHOR:
		return "copies";
	case CHECK_RECOVERY:
		return "layer";
	case CHECK_MAP:
		return "pages";
	case CHECK_SUMMARY:
	case CHECK_COUNTS:
		return "segments";
	case CHECK_RANGES:
		return "ranges";
	default:
		return "blocks";
	}
}

static void on_finding(void *context, enum check_area area, uint64_t at, const char *what)
{
	struct showing *showing = context;

	if (showing->findings) {
		json_array_append_new(showing->findings,
				      json_pack("{s:s, s:I, s:s}", "area", check_area_name(area),
						"at", (json_int_t)at, "what", what));
		return;
	}
	printf("%-10s 0x%" PRIx64 ": ", check_area_name(area), at);
	cli_print(what);
	putchar('\n');
}

static bool is_cancelled(void *context)
{
	(void)context;
	return is_interrupted();
}

static bool was_examined(const struct check_report *report, enum check_area area,
			 const struct check_options *options)
{
	if (area == CHECK_DATA && !options->with_data)
		return false;
	return area <= CHECK_RECOVERY || report->is_open;
}

static void print_report(const struct check_report *report, const struct check_options *options)
{
	printf("%-10s %12s  %-8s %8s\n", "AREA", "LOOKED AT", "", "FINDINGS");
	for (unsigned area = 0; area < CHECK_NR_AREAS; area++) {
		if (was_examined(report, area, options))
			printf("%-10s %12" PRIu64 "  %-8s %8" PRIu64 "\n", check_area_name(area),
			       report->nr_examined[area], unit_of(area), report->nr_findings[area]);
		else
			printf("%-10s %12s\n", check_area_name(area), "-");
	}
	if (report->stat.leaked_blocks)
		printf("%" PRIu64 " blocks at most are in use and nobody's, after damage of the "
		       "map; they are found while the layer is open\n",
		       report->stat.leaked_blocks);
}

static int print_json(const struct showing *showing, const struct check_report *report,
		      const struct check_options *options)
{
	json_t *areas = json_array(), *all;
	char *text;

	for (unsigned area = 0; area < CHECK_NR_AREAS; area++) {
		if (was_examined(report, area, options))
			json_array_append_new(
				areas,
				json_pack("{s:s, s:I, s:I}", "area", check_area_name(area),
					  "nr_examined", (json_int_t)report->nr_examined[area],
					  "nr_findings", (json_int_t)report->nr_findings[area]));
	}
	all = json_pack("{s:s, s:b, s:I, s:I, s:o, s:O}", "device", showing->path, "is_clean",
			report->nr_all == 0, "used_bytes", json_bytes(report->stat.used_blocks),
			"leaked_blocks", (json_int_t)report->stat.leaked_blocks, "areas", areas,
			"findings", showing->findings);
	text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
	json_decref(all);
	if (!text)
		return cli_fail("flash check: the device's name is no UTF-8, or memory is short");
	puts(text);
	free(text);
	return 0;
}

/* ---- Whether a repair would help */

static void ignore_finding(void *context, enum check_area area, uint64_t at, const char *what)
{
	(void)context;
	(void)area;
	(void)at;
	(void)what;
}

static void ignore_lost(void *context, uint64_t at, const struct space_owner *owner, uint32_t range,
			uint32_t first, uint32_t last)
{
	(void)context;
	(void)at;
	(void)owner;
	(void)range;
	(void)first;
	(void)last;
}

enum advice { ADVICE_NONE, ADVICE_REPAIR, ADVICE_HOPELESS };

/* A repair is for damage at fixed places, and of recovery. */
static enum advice advise(struct flash_device *device, const struct check_report *report,
			  struct repair_report *repaired)
{
	const struct repair_options options = {
		.is_dry = true, .finding = ignore_finding, .lost = ignore_lost};
	uint64_t nr = report->nr_findings[CHECK_SUPERBLOCK] + report->nr_findings[CHECK_ANCHOR] +
		      report->nr_findings[CHECK_RECOVERY];

	if (nr == 0)
		return ADVICE_NONE;
	return repair_device(device, &options, repaired) ? ADVICE_HOPELESS : ADVICE_REPAIR;
}

static void print_advice(const struct showing *showing, enum advice advice,
			 const struct repair_report *repaired)
{
	char lost[SIZE_TEXT_MAX];

	if (showing->findings || advice == ADVICE_NONE)
		return;
	if (advice == ADVICE_REPAIR)
		printf("'afar flash repair' mends what is wrong there, and gives up %s\n",
		       size_text(repaired->nr_lost * FTL_BLOCK, lost));
	else
		printf("'afar flash repair' cannot help: which blocks would be old cannot be "
		       "told\n");
}

static int check(const struct cli_command *command, struct showing *showing,
		 struct check_options *options)
{
	enum advice advice = ADVICE_NONE;
	struct repair_report repaired;
	struct check_report report;
	struct flash_device *device;
	int ret, status = 0;

	if (flash_device_open_path(showing->path, FLASH_DEVICE_READ_ONLY, &device))
		return flash_fail(command, NULL);
	ret = check_device(device, options, &report);
	if (ret == 0)
		advice = advise(device, &report, &repaired);
	flash_device_close(device);
	if (ret == -ECANCELED && is_interrupted())
		return CLI_INTERRUPTED;
	if (ret)
		return flash_fail(command, showing->path);
	print_advice(showing, advice, &repaired);
	if (showing->findings)
		status = print_json(showing, &report, options);
	else
		print_report(&report, options);
	if (!status && report.nr_all)
		status = cli_fail("%s %s: %" PRIu64 " found to be wrong; see above", command->name,
				  showing->path, report.nr_all);
	return status;
}

int flash_check(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *with_data = NULL, *rate = NULL, *as_json = NULL;
	const struct cli_flag flags[] = {
		{"data", NULL, "read every block, too, and compare its checksum", &with_data},
		{"rate", "SIZE", "read no more of that in a second (default: all it can)", &rate},
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	struct showing showing = {0};
	struct check_options options = {
		.finding = on_finding, .is_cancelled = is_cancelled, .context = &showing};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = flash_refuse_cluster(cli, command);
	if (!ret && rate)
		ret = cli_size(command, "--rate", rate, &options.bytes_per_s);
	if (!ret && rate && !with_data)
		ret = cli_misuse(command, "--rate is of --data");
	if (ret)
		return ret;
	showing.path = arguments[0];
	if (as_json)
		showing.findings = json_array();
	options.with_data = with_data;
	catch_interrupts();
	ret = check(command, &showing, &options);
	json_decref(showing.findings);
	return ret;
}
