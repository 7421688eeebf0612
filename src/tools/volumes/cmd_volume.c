/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar volume …`: makes, lists, shows, resizes and removes volumes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <afar/volume.h>

#include "tools/cli/commands.h"
#include "tools/cli/interrupts.h"
#include "tools/cli/slow.h"
#include "tools/regions/policy.h"

#define LIST_MAX     64
#define NAME_COLUMNS 24

/* Parses a volume's size. Returns 0, or CLI_USAGE with a line. */
static int read_size(const struct cli_command *command, const char *text, uint64_t *out)
{
	char up[SIZE_TEXT_MAX] = "a smaller one";
	uint64_t rounded;
	int ret = cli_size(command, "SIZE", text, out);

	if (ret || *out % AFAR_VOLUME_BLOCK == 0)
		return ret;
	if (!__builtin_add_overflow(*out, AFAR_VOLUME_BLOCK - 1, &rounded))
		snprintf(up, sizeof(up), "%" PRIu64,
			 rounded / AFAR_VOLUME_BLOCK * AFAR_VOLUME_BLOCK);
	return cli_misuse(command, "SIZE '%.64s' is not a multiple of %u bytes; use %s", text,
			  AFAR_VOLUME_BLOCK, up);
}

/* ---- Making and resizing: what may take long */

struct change {
	struct afar_session *session;
	const char *name;
	uint64_t bytes;
	const struct afar_policy *policy; /* of a new one */
};

static int create_run(void *argument)
{
	const struct change *change = argument;

	return afar_volume_create(change->session, change->name, change->bytes, change->policy,
				  NULL);
}

static int resize_run(void *argument)
{
	const struct change *change = argument;

	return afar_volume_resize(change->session, change->name, change->bytes);
}

/* Makes the change, with progress on a terminal. Returns 0, or CLI_FAILED with a line. */
static int make(struct change *change, int (*run)(void *argument), const char *what)
{
	struct slow_call call = {.run = run, .argument = change, .what = what};
	int ret = slow_begin(&call);

	if (ret)
		return ret;
	slow_wait(&call);
	slow_end(&call);
	return call.result ? cli_fail("%s", call.sentence) : 0;
}

/* Notes that the volume is on fewer servers than was asked for. A stripe unit goes to one server,
 * so a short volume needs fewer. */
static void note_width(struct cli *cli, const struct change *change)
{
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	const char *homes = change->policy->tier == AFAR_TIER_FLASH ? "stores" : "servers";
	uint64_t wanted = change->policy->width;

	if (afar_volume_stat_by_name(cli->session, change->name, &stat) ||
	    wanted >= CLI_WIDTH_ALL || !stat.stripe_bytes)
		return;
	if (wanted > stat.bytes / stat.stripe_bytes)
		wanted = stat.bytes / stat.stripe_bytes;
	if (stat.width < wanted)
		cli_note("the volume %s is on %u of the %u %s that it asks for: no more had room; "
			 "add %s and make it anew",
			 change->name, stat.width, change->policy->width, homes, homes);
}

static int volume_create(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct policy_flags given = {0};
	const struct cli_flag flags[] = {
		{"tier", "TIER",
		 "where its bytes are: dram (default), or flash, which survives its servers",
		 &given.tier},
		{"width", "N", "servers that it is striped over (default: all)", &given.width},
		{"stripe", "SIZE", "bytes on one server before the next (default 1M)",
		 &given.stripe},
		{0},
	};
	char size[SIZE_TEXT_MAX], what[SIZE_TEXT_MAX + 32];
	struct afar_policy policy;
	struct change change = {.policy = &policy};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	change.name = arguments[0];
	status = read_size(command, arguments[1], &change.bytes);
	if (!status)
		status = policy_read(command, &given, &policy);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	change.session = cli->session;
	snprintf(what, sizeof(what), "making a volume of %s", size_text(change.bytes, size));
	catch_interrupts();
	status = make(&change, create_run, what);
	if (!status && is_interrupted()) {
		afar_volume_delete(cli->session, change.name);
		status = CLI_INTERRUPTED;
	}
	if (!status)
		note_width(cli, &change);
	return cli_close(cli, status);
}

static int volume_resize(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	char size[SIZE_TEXT_MAX], what[SIZE_TEXT_MAX + 32];
	struct change change = {0};
	int status;

	if (cli_arguments(cli, command, NULL, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	change.name = arguments[0];
	status = read_size(command, arguments[1], &change.bytes);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	change.session = cli->session;
	snprintf(what, sizeof(what), "resizing a volume to %s", size_text(change.bytes, size));
	return cli_close(cli, make(&change, resize_run, what));
}

/* ---- Listing and showing */

static const char *state_text(const struct afar_volume_stat *entry)
{
	if (entry->is_lost)
		return "lost";
	return entry->is_unfinished ? "unfinished" : "ok";
}

/* Returns how those who have it open have it. */
static const char *open_text(const struct afar_volume_stat *entry)
{
	if (entry->is_exclusive)
		return "exclusive";
	if (entry->nr_writers)
		return "shared";
	return entry->nr_readers ? "read-only" : "-";
}

static void print_header(void)
{
	printf("%-*s %11s %-5s %5s %-6s %-10s %-9s  %s\n", NAME_COLUMNS, "VOLUME", "SIZE", "TIER",
	       "WIDTH", "RIGHTS", "STATE", "OPEN", "HOLDER");
}

static void print_entry(const struct afar_volume_stat *entry)
{
	char size[SIZE_TEXT_MAX];

	cli_print_padded(entry->name, NAME_COLUMNS);
	printf(" %11s %-5s %5u %-6s %-10s %-9s  ", size_text(entry->bytes, size),
	       policy_tier(entry->tier), entry->width, policy_rights(entry->rights),
	       state_text(entry), open_text(entry));
	cli_print(*entry->holder ? entry->holder : "-");
	putchar('\n');
}

static json_t *entry_to_json(const struct afar_volume_stat *entry)
{
	return json_pack(
		"{s:o, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:b, s:o, s:b, s:b, s:o}", "name",
		cli_json_text(entry->name), "tier", policy_tier(entry->tier), "width",
		cli_json_number(entry->width), "stripe_bytes", cli_json_number(entry->stripe_bytes),
		"size_bytes", cli_json_number(entry->bytes), "rights",
		entry->rights ? policy_rights(entry->rights) : "", "nr_readers",
		cli_json_number(entry->nr_readers), "nr_writers",
		cli_json_number(entry->nr_writers), "is_exclusive", (int)entry->is_exclusive,
		"holder", cli_json_text(entry->holder), "is_lost", (int)entry->is_lost,
		"is_unfinished", (int)entry->is_unfinished, "owner", cli_json_text(entry->owner));
}

static int list(struct cli *cli, json_t *json)
{
	struct afar_volume_stat entries[LIST_MAX];
	char after[AFAR_NAME_MAX + 1] = "";
	int n;

	if (!json)
		print_header();
	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_volume_list(cli->session, *after ? after : NULL, entries, LIST_MAX);
		for (int i = 0; i < n; i++) {
			if (json)
				json_array_append_new(json, entry_to_json(&entries[i]));
			else
				print_entry(&entries[i]);
		}
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0);
	return n;
}

static int volume_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return cli_list(cli, command, argc, argv, list);
}

static void print_open(const struct afar_volume_stat *stat)
{
	printf("%-11s ", "open");
	if (!stat->nr_writers && !stat->nr_readers) {
		printf("no\n");
		return;
	}
	if (stat->is_exclusive)
		printf("exclusively, by ");
	else if (stat->nr_writers)
		printf("shared by %u, as ", stat->nr_writers);
	if (stat->nr_writers)
		cli_print(*stat->holder ? stat->holder : "?");
	if (stat->nr_readers)
		printf("%sto read alone by %u", stat->nr_writers ? ", and " : "", stat->nr_readers);
	putchar('\n');
}

static void print_stat(const struct afar_volume_stat *stat)
{
	char text[SIZE_TEXT_MAX];

	printf("%-11s ", "name");
	cli_print(stat->name);
	printf("\n%-11s %" PRIu64 " (%s)\n", "size", stat->bytes, size_text(stat->bytes, text));
	printf("%-11s %s\n", "tier", policy_tier(stat->tier));
	printf("%-11s %u\n", "width", stat->width);
	printf("%-11s %s\n", "stripe", size_text(stat->stripe_bytes, text));
	printf("%-11s ", "owner");
	cli_print(*stat->owner ? stat->owner : "-");
	printf("\n%-11s %s\n", "rights", policy_rights(stat->rights));
	print_open(stat);
	printf("%-11s %s\n", "state", state_text(stat));
}

static int volume_stat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_volume_stat_by_name(cli->session, arguments[0], &stat);
	if (ret)
		status = cli_fail_last(ret);
	else if (as_json)
		status = cli_print_json(entry_to_json(&stat));
	else
		print_stat(&stat);
	return cli_close(cli, status);
}

static int volume_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	int ret, status;

	if (cli_arguments(cli, command, NULL, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_volume_delete(cli->session, arguments[0]);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

const struct cli_command volume_commands[] = {
	{"volume create", "NAME SIZE [--tier dram|flash] [--width N] [--stripe SIZE]",
	 "make a volume: a disk of zeros", volume_create},
	{"volume ls", "[--json]", "list the volumes, and who has them open", volume_ls},
	{"volume stat", "VOLUME [--json]", "show one volume", volume_stat},
	{"volume resize", "VOLUME SIZE", "make a volume larger, or smaller", volume_resize},
	{"volume rm", "VOLUME", "remove a volume and give its room back", volume_rm},
	{0},
};
