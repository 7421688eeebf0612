/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar ns …`: makes, lists, limits and removes namespaces, grants their use, and reserves memory for
 * them. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "reserve.h"
#include "tools/cli/commands.h"
#include "tools/cli/interrupts.h"

#define LIST_MAX       64
#define NAME_COLUMNS   24
#define WIDTH_TEXT_MAX 16

/* Reads the policy from the flags. Returns 0 or CLI_USAGE. */
static int read_policy(const struct cli_command *command, const struct policy_flags *flags,
		       const char *max, struct afar_policy *out)
{
	int ret = policy_read(command, flags, out);

	return !ret && max ? cli_limit(command, "--max", max, &out->max_bytes) : ret;
}

static bool is_up(const json_t *entry)
{
	const char *state = json_string_value(json_object_get(entry, "state")); /* of a store */

	return json_is_true(json_object_get(entry, "is_up")) || (state && !strcmp(state, "up"));
}

/* Returns how many of the list "servers" or "stores" are up; SIZE_MAX if that is unknown. */
static size_t count_up(struct cli *cli, const char *list)
{
	size_t i, nr = 0;
	json_t *status, *entry;
	char *text;

	if (afar_session_status(cli->session, &text))
		return SIZE_MAX;
	status = json_loads(text, 0, NULL);
	free(text);
	if (!status)
		return SIZE_MAX;
	json_array_foreach(json_object_get(status, list), i, entry) nr += is_up(entry);
	json_decref(status);
	return nr;
}

/* Notes that there are fewer servers, or stores, than `width`. With none at all it says nothing, because the
 * next command fails and says why. */
static void note_width(struct cli *cli, const char *name, uint32_t tier, uint32_t width)
{
	const char *list = tier == AFAR_TIER_FLASH ? "stores" : "servers";
	size_t nr = width > 1 && width < CLI_WIDTH_ALL ? count_up(cli, list) : SIZE_MAX;

	if (nr && nr < width)
		cli_note("the namespace %s asks for %u %s, and %zu %s up: its regions are on "
			 "fewer until more join",
			 name, width, list, nr, nr == 1 ? "is" : "are");
}

static int ns_create(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct policy_flags given = {0};
	const char *max = NULL;
	const struct cli_flag flags[] = {
		{"tier", "TIER",
		 "where its bytes are: dram (default), or flash, which survives its servers",
		 &given.tier},
		{"width", "N", "servers that a region is striped over (default: all)",
		 &given.width},
		{"stripe", "SIZE", "bytes on one server before the next (default 1M)",
		 &given.stripe},
		{"max", "SIZE", "may be reserved for it at most (default: what there is)", &max},
		{0},
	};
	struct afar_namespace *ns;
	struct afar_policy policy;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = read_policy(command, &given, max, &policy);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	ret = afar_namespace_create(cli->session, arguments[0], &policy, &ns);
	if (ret)
		return cli_close(cli, cli_fail_last(ret));
	afar_namespace_close(ns);
	note_width(cli, arguments[0], policy.tier, policy.width);
	return cli_close(cli, 0);
}

static const char *width_text(uint32_t width, char out[WIDTH_TEXT_MAX])
{
	snprintf(out, WIDTH_TEXT_MAX, "%u", width);
	return width && width < CLI_WIDTH_ALL ? out : "all";
}

static void print_entry(const struct afar_namespace_stat *entry)
{
	char width[WIDTH_TEXT_MAX], stripe[SIZE_TEXT_MAX], reserved[SIZE_TEXT_MAX],
		allocated[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX];

	cli_print_padded(entry->name, NAME_COLUMNS);
	printf(" %-5s %5s %9s %11s %11s %11s %8" PRIu64 " %-6s ", policy_tier(entry->tier),
	       width_text(entry->width, width), size_text(entry->stripe_bytes, stripe),
	       size_text(entry->reserved_bytes, reserved),
	       entry->max_bytes ? size_text(entry->max_bytes, max) : "-",
	       size_text(entry->allocated_bytes, allocated), entry->nr_regions,
	       policy_rights(entry->rights));
	cli_print(*entry->owner ? entry->owner : "-");
	putchar('\n');
}

static json_t *entry_to_json(const struct afar_namespace_stat *entry)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "name",
			 cli_json_text(entry->name), "tier", policy_tier(entry->tier), "width",
			 cli_json_number(entry->width), "stripe_bytes",
			 cli_json_number(entry->stripe_bytes), "reserved_bytes",
			 cli_json_number(entry->reserved_bytes), "allocated_bytes",
			 cli_json_number(entry->allocated_bytes), "nr_regions",
			 cli_json_number(entry->nr_regions), "max_bytes",
			 cli_json_number(entry->max_bytes), "owner", cli_json_text(entry->owner),
			 "rights", entry->rights ? policy_rights(entry->rights) : "",
			 "owner_reserved_bytes", cli_json_number(entry->owner_reserved_bytes),
			 "owner_max_bytes", cli_json_number(entry->owner_max_bytes));
}

static void print_header(void)
{
	printf("%-*s %-5s %5s %9s %11s %11s %11s %8s %-6s %s\n", NAME_COLUMNS, "NAMESPACE", "TIER",
	       "WIDTH", "STRIPE", "RESERVED", "MAX", "ALLOCATED", "REGIONS", "RIGHTS", "OWNER");
}

static int list(struct cli *cli, json_t *json)
{
	struct afar_namespace_stat entries[LIST_MAX];
	char after[AFAR_NAME_MAX + 1] = "";
	int n;

	if (!json)
		print_header();
	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_namespace_list(cli->session, *after ? after : NULL, entries, LIST_MAX);
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

static int ns_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return cli_list(cli, command, argc, argv, list);
}

static int ns_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *force = NULL;
	const struct cli_flag flags[] = {
		{"force", NULL, "with its regions, unless somebody has one open", &force},
		{0},
	};
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_namespace_delete(cli->session, arguments[0], force ? AFAR_DELETE_REGIONS : 0);
	if (ret == -ENOTEMPTY)
		status = cli_fail(
			"remove the namespace %s: it has regions; remove them first, or use "
			"--force to remove them with it",
			arguments[0]);
	else if (ret)
		status = cli_fail_last(ret);
	return cli_close(cli, status);
}

/* Opens the session and a namespace. Returns 0, or an exit status with nothing left open. */
static int open_namespace(struct cli *cli, const char *name, struct afar_namespace **out)
{
	int ret, status = cli_open(cli);

	if (status)
		return status;
	ret = afar_namespace_open(cli->session, name, out);
	return ret ? cli_close(cli, cli_fail_last(ret)) : 0;
}

static int ns_reserve(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_namespace *ns;
	uint64_t bytes;
	int ret;

	if (cli_arguments(cli, command, NULL, argc, argv, 2, 2, arguments, &ret) < 0)
		return ret;
	ret = cli_size(command, "SIZE", arguments[1], &bytes);
	if (!ret)
		ret = open_namespace(cli, arguments[0], &ns);
	if (ret)
		return ret;
	catch_interrupts();
	ret = reserve_shown(ns, bytes);
	if (!ret && is_interrupted()) {
		reserve_undo(ns, bytes);
		ret = CLI_INTERRUPTED;
	}
	if (!ret && afar_namespace_stat(ns, &stat) == 0)
		note_width(cli, arguments[0], stat.tier, stat.width);
	afar_namespace_close(ns);
	return cli_close(cli, ret);
}

/* Says how much is not used but stays, and why. The figures are of a moment later. */
static void print_unused(struct afar_namespace *ns)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	char text[SIZE_TEXT_MAX];

	if (afar_namespace_stat(ns, &stat) || stat.allocated_bytes >= stat.reserved_bytes)
		return;
	printf("%s are not used and stay: regions have something in the extents that they are in\n",
	       size_text(stat.reserved_bytes - stat.allocated_bytes, text));
}

static int ns_release(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	uint64_t bytes = UINT64_MAX, released = 0;
	struct afar_namespace *ns;
	char text[SIZE_TEXT_MAX];
	int n, ret, status = 0;

	n = cli_arguments(cli, command, NULL, argc, argv, 1, 2, arguments, &status);
	if (n < 0)
		return status;
	if (n == 2)
		status = cli_size(command, "SIZE", arguments[1], &bytes);
	if (!status)
		status = open_namespace(cli, arguments[0], &ns);
	if (status)
		return status;
	ret = afar_namespace_release(ns, bytes, &released);
	if (ret) {
		status = cli_fail_last(ret);
	} else {
		printf("released %s\n", size_text(released, text));
		if (bytes == UINT64_MAX)
			print_unused(ns);
	}
	afar_namespace_close(ns);
	return cli_close(cli, status);
}

/* ---- Looking at one, and limiting it */

static void print_bytes(const char *what, uint64_t bytes)
{
	char text[SIZE_TEXT_MAX];

	printf("%-11s %" PRIu64 " (%s)\n", what, bytes, size_text(bytes, text));
}

static void print_max(uint64_t bytes)
{
	if (bytes)
		print_bytes("max", bytes);
	else
		printf("%-11s none\n", "max");
}

static void print_stat(const struct afar_namespace_stat *stat)
{
	char width[WIDTH_TEXT_MAX], text[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX];

	printf("%-11s ", "name");
	cli_print(stat->name);
	printf("\n%-11s %s\n", "tier", policy_tier(stat->tier));
	printf("%-11s %s\n", "width", width_text(stat->width, width));
	printf("%-11s %s\n", "stripe", size_text(stat->stripe_bytes, text));
	print_bytes("reserved", stat->reserved_bytes);
	print_max(stat->max_bytes);
	print_bytes("allocated", stat->allocated_bytes);
	printf("%-11s %" PRIu64 "\n", "regions", stat->nr_regions);
	printf("%-11s %s\n", "rights", policy_rights(stat->rights));
	printf("%-11s ", "owner");
	cli_print(*stat->owner ? stat->owner : "-");
	if (stat->owner_max_bytes)
		printf(", who has %s reserved and may have %s",
		       size_text(stat->owner_reserved_bytes, text),
		       size_text(stat->owner_max_bytes, max));
	putchar('\n');
}

static int ns_stat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_namespace *ns;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = open_namespace(cli, arguments[0], &ns);
	if (status)
		return status;
	ret = afar_namespace_stat(ns, &stat);
	if (ret)
		status = cli_fail_last(ret);
	else if (as_json)
		status = cli_print_json(entry_to_json(&stat));
	else
		print_stat(&stat);
	afar_namespace_close(ns);
	return cli_close(cli, status);
}

static int ns_set(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *max = NULL;
	const struct cli_flag flags[] = {
		{"max", "SIZE", "may be reserved for it at most, or none", &max},
		{0},
	};
	struct afar_namespace *ns;
	uint64_t max_bytes;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!max)
		return cli_misuse(command, "say what to set: --max SIZE");
	status = cli_limit(command, "--max", max, &max_bytes);
	if (!status)
		status = open_namespace(cli, arguments[0], &ns);
	if (status)
		return status;
	ret = afar_namespace_limit(ns, max_bytes);
	if (ret)
		status = cli_fail_last(ret);
	afar_namespace_close(ns);
	return cli_close(cli, status);
}

/* ---- Rights */

static int ns_grant(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct afar_namespace *ns;
	int ret, status = 0;
	unsigned rights;

	if (cli_arguments(cli, command, NULL, argc, argv, 3, 3, arguments, &status) < 0)
		return status;
	if (!policy_parse_rights(arguments[2], &rights))
		return cli_misuse(command, "'%.64s' are no rights; use r, rw or none",
				  arguments[2]);
	status = open_namespace(cli, arguments[0], &ns);
	if (status)
		return status;
	ret = afar_namespace_grant(ns, arguments[1], rights);
	if (ret)
		status = cli_fail_last(ret);
	afar_namespace_close(ns);
	return cli_close(cli, status);
}

/* ---- Older records */

static int accept_one(struct cli *cli, const char *name)
{
	int ret = afar_namespace_accept_older(cli->session, name);

	if (ret)
		return cli_fail_last(ret);
	printf("accepted: ");
	cli_print(name);
	printf(" is read and written again\n");
	return 0;
}

/* All that the status tells of: 1000 at once. */
static int accept_all(struct cli *cli)
{
	const json_t *ns;
	json_t *status;
	size_t i, nr = 0;
	char *json;
	int ret = afar_session_status(cli->session, &json);

	if (ret)
		return cli_fail_last(ret);
	status = json_loads(json, 0, NULL);
	free(json);
	json_array_foreach(json_object_get(status, "namespaces"), i, ns)
	{
		if (ret || !json_is_true(json_object_get(ns, "is_suspect")))
			continue;
		ret = accept_one(cli, json_string_value(json_object_get(ns, "name")));
		nr++;
	}
	json_decref(status);
	return ret || nr ? ret : cli_fail("accept older records: nothing waits for that");
}

static int ns_accept_older(struct cli *cli, const struct cli_command *command, int argc,
			   char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *is_sure = NULL, *is_all = NULL;
	const struct cli_flag flags[] = {
		{"all", NULL, "all that wait for it", &is_all},
		{"yes", NULL, "bytes of others may be read there, under the names of before",
		 &is_sure},
		{0},
	};
	int status, nr = cli_arguments(cli, command, flags, argc, argv, 0, 1, arguments, &status);

	if (nr < 0)
		return status;
	if ((nr == 1) == (is_all != NULL))
		return cli_misuse(command, "give the name of one, or --all");
	status = cli_open(cli);
	if (status)
		return status;
	if (!is_sure)
		status = cli_fail(
			"accept older records of %s: nothing is done yet. Since that copy of the "
			"manager's folder, room of removed files and regions was given to others "
			"there: reading the removed ones would give these bytes, and no error. If "
			"nobody minds, or nothing was removed or replaced there since, say --yes",
			is_all ? "all" : arguments[0]);
	else
		status = is_all ? accept_all(cli) : accept_one(cli, arguments[0]);
	return cli_close(cli, status);
}

const struct cli_command ns_commands[] = {
	{"ns create", "NAME [--tier dram|flash] [--width N] [--stripe SIZE] [--max SIZE]",
	 "make a namespace", ns_create},
	{"ns ls", "[--json]", "list the namespaces", ns_ls},
	{"ns stat", "NS [--json]", "show a namespace, and what may be reserved for it", ns_stat},
	{"ns set", "NS --max SIZE|none", "say how much may be reserved for a namespace at most",
	 ns_set},
	{"ns grant", "NS PRINCIPAL r|rw|none", "say what a principal may do with a namespace",
	 ns_grant},
	{"ns rm", "NS [--force]", "remove a namespace and give its memory back", ns_rm},
	{"ns reserve", "NS SIZE", "get memory ready for a namespace, ahead of its use", ns_reserve},
	{"ns release", "NS [SIZE]", "give back what is reserved and not used", ns_release},
	{"ns accept-older", "[NS] [--all] [--yes]",
	 "read again what an older copy of the manager's folder leads to", ns_accept_older},
	{0},
};
