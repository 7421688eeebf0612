/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar region …`: names, lists, shows and removes regions; put and get have their own files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "region.h"
#include "reserve.h"
#include "tools/cli/commands.h"
#include "tools/cli/interrupts.h"

#define LIST_MAX 64

/* ---- Names */

/* Parses "@0x" and hexadecimal digits up to the end. */
static bool parse_address(const char *text, uint64_t *out)
{
	char *end;

	if (strncmp(text, "@0x", 3) != 0 || !text[3] ||
	    text[3 + strspn(text + 3, "0123456789abcdefABCDEF")])
		return false;
	errno = 0;
	*out = strtoull(text + 1, &end, 16);
	return errno == 0;
}

int region_name_parse(const struct cli_command *command, const char *text, struct region_name *out)
{
	const char *colon = strchr(text, ':');

	*out = (struct region_name){.text = text};
	if (!colon || colon == text || !colon[1])
		return cli_misuse(command, "'%.64s' is not NAMESPACE:NAME", text);
	if ((size_t)(colon - text) > AFAR_NAME_MAX)
		return cli_misuse(command, "a namespace's name has at most %d bytes",
				  AFAR_NAME_MAX);
	out->name = colon + 1;
	memcpy(out->ns, text, (size_t)(colon - text));
	if (parse_address(colon + 1, &out->address))
		out->name = NULL;
	else if (!strncmp(colon + 1, "@0x", 3))
		return cli_misuse(command, "'%.64s' is no address", colon + 2);
	return 0;
}

int region_open_namespace(struct cli *cli, const struct region_name *name,
			  struct afar_namespace **out)
{
	int ret = afar_namespace_open(cli->session, name->ns, out);

	return ret ? cli_fail_last(ret) : 0;
}

int region_open_named(struct afar_namespace *ns, const struct region_name *name,
		      struct afar_region **out)
{
	return name->name ? afar_region_open(ns, name->name, out)
			  : afar_region_open_at(ns, name->address, out);
}

/* A stripe unit goes to one server, so a short region needs fewer. */
void region_note_width(struct afar_namespace *ns, const struct region_name *name,
		       const struct afar_region_stat *stat)
{
	struct afar_namespace_stat policy = {.size = sizeof(policy)};
	const char *homes;
	uint64_t wanted;

	if (afar_namespace_stat(ns, &policy) || policy.width >= CLI_WIDTH_ALL ||
	    !policy.stripe_bytes)
		return;
	wanted = stat->length / policy.stripe_bytes;
	if (wanted > policy.width)
		wanted = policy.width;
	homes = policy.tier == AFAR_TIER_FLASH ? "stores" : "servers";
	if (stat->width < wanted)
		cli_note("%s is on %u of the %u %s that its namespace asks for: no more had "
			 "room when it was made; add %s and put it anew",
			 name->text, stat->width, policy.width, homes, homes);
}

/* ---- Listing */

static const char *state_text(const struct afar_region_stat *entry)
{
	if (entry->is_lost)
		return "lost";
	if (entry->is_unfinished)
		return "unfinished";
	if (entry->version)
		return entry->writer[0] ? "cow, begun" : "cow";
	return entry->is_sealed ? "sealed" : "ok";
}

static void print_entry(const struct afar_region_stat *entry)
{
	char length[SIZE_TEXT_MAX];

	printf("0x%-16" PRIx64 " %11s %5u %4u  %-10s ", entry->address,
	       size_text(entry->length, length), entry->width, entry->nr_references,
	       state_text(entry));
	cli_print(entry->name);
	putchar('\n');
}

static json_t *entry_to_json(const struct afar_region_stat *entry)
{
	json_t *json = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b}", "address",
		json_sprintf("0x%" PRIx64, entry->address), "name", cli_json_text(entry->name),
		"length_bytes", cli_json_number(entry->length), "width",
		cli_json_number(entry->width), "stripe_bytes", cli_json_number(entry->stripe_bytes),
		"nr_references", cli_json_number(entry->nr_references), "is_lost",
		(int)entry->is_lost, "is_sealed", (int)entry->is_sealed, "is_unfinished",
		(int)entry->is_unfinished, "has_nic_atomics", (int)entry->has_nic_atomics);

	if (json && entry->version) {
		json_object_set_new(json, "version", cli_json_number(entry->version));
		json_object_set_new(json, "nr_older_versions", cli_json_number(entry->nr_older));
		json_object_set_new(json, "nr_older_references",
				    cli_json_number(entry->nr_older_references));
		json_object_set_new(json, "writer", cli_json_text(entry->writer));
	}
	return json;
}

/* Prints the entries, or gathers them in `json` if that is not NULL. Returns 0, or the library's
 * error. */
static int walk(struct afar_namespace *ns, json_t *json)
{
	struct afar_region_stat entries[LIST_MAX];
	uint64_t after = 0;
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_region_list(ns, after, entries, LIST_MAX);
		for (int i = 0; i < n; i++) {
			if (json)
				json_array_append_new(json, entry_to_json(&entries[i]));
			else
				print_entry(&entries[i]);
		}
		if (n > 0)
			after = entries[n - 1].address;
	} while (n > 0);
	return n;
}

static int list(struct afar_namespace *ns, const struct region_name *unused)
{
	int ret;

	(void)unused;
	printf("%-18s %11s %5s %4s  %-10s %s\n", "ADDRESS", "LENGTH", "WIDTH", "OPEN", "STATE",
	       "NAME");
	ret = walk(ns, NULL);
	return ret ? cli_fail_last(ret) : 0;
}

static int list_json(struct afar_namespace *ns, const struct region_name *unused)
{
	json_t *json = json_array();
	int ret = walk(ns, json);

	(void)unused;
	if (!ret)
		return cli_print_json(json);
	json_decref(json);
	return cli_fail_last(ret);
}

/* Opens the session and the namespace, calls `act`, closes both. */
static int with_namespace(struct cli *cli, const char *ns_name, const struct region_name *region,
			  int (*act)(struct afar_namespace *ns, const struct region_name *region))
{
	struct afar_namespace *ns;
	int ret, status;

	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_namespace_open(cli->session, ns_name, &ns);
	if (ret)
		return cli_close(cli, cli_fail_last(ret));
	status = act(ns, region);
	afar_namespace_close(ns);
	return cli_close(cli, status);
}

static int region_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
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
	return with_namespace(cli, arguments[0], NULL, as_json ? list_json : list);
}

/* ---- One region */

static int with_region(struct cli *cli, const struct cli_command *command, int argc, char **argv,
		       int (*act)(struct afar_namespace *ns, const struct region_name *region))
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct region_name name;
	int ret;

	if (cli_arguments(cli, command, NULL, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = region_name_parse(command, arguments[0], &name);
	return ret ? ret : with_namespace(cli, name.ns, &name, act);
}

static bool is_called(const struct afar_region_stat *entry, const struct region_name *name)
{
	return name->name ? strcmp(entry->name, name->name) == 0 : entry->address == name->address;
}

/*
 * Finds the region in the namespace's list. Opening it would count as one more user, and fails if
 * its server is gone. Returns 1, 0 (none such) or an error.
 */
static int find(struct afar_namespace *ns, const struct region_name *name,
		struct afar_region_stat *out)
{
	struct afar_region_stat entries[LIST_MAX];
	uint64_t after = !name->name && name->address ? name->address - 1 : 0;
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_region_list(ns, after, entries, LIST_MAX);
		for (int i = 0; i < n; i++) {
			after = entries[i].address;
			if (is_called(&entries[i], name)) {
				*out = entries[i];
				return 1;
			}
		}
	} while (n > 0 && name->name);
	return n < 0 ? n : 0;
}

/* Finds the region, or says that there is none. Returns 0 or CLI_FAILED. */
static int get_stat(struct afar_namespace *ns, const struct region_name *name,
		    struct afar_region_stat *out)
{
	int found = find(ns, name, out);

	if (found < 0)
		return cli_fail_last(found);
	if (!found)
		return cli_fail("show the region %s: there is none; 'afar region ls %s' lists them",
				name->text, name->ns);
	return 0;
}

static int show_json(struct afar_namespace *ns, const struct region_name *name)
{
	struct afar_region_stat stat = {0};
	int ret = get_stat(ns, name, &stat);

	if (ret)
		return ret;
	region_note_width(ns, name, &stat);
	return cli_print_json(entry_to_json(&stat));
}

static const char *atomics_text(struct afar_namespace *ns, const struct afar_region_stat *stat)
{
	struct afar_namespace_stat policy = {.size = sizeof(policy)};

	if (afar_namespace_stat(ns, &policy) == 0 && policy.tier == AFAR_TIER_FLASH)
		return "none on flash";
	if (stat->version)
		return "none, for it is copy-on-write";
	return stat->has_nic_atomics ? "by network cards" : "by the servers' processors";
}

static void show_versions(const struct afar_region_stat *stat)
{
	printf("%-11s %" PRIu64 "\n", "version", stat->version);
	printf("%-11s %u, open %u times\n", "older ones", stat->nr_older,
	       stat->nr_older_references);
	printf("%-11s ", "writer");
	cli_print(stat->writer[0] ? stat->writer : "none");
	putchar('\n');
}

static int show(struct afar_namespace *ns, const struct region_name *name)
{
	char length[SIZE_TEXT_MAX], stripe[SIZE_TEXT_MAX];
	struct afar_region_stat stat = {0};
	int ret = get_stat(ns, name, &stat);

	if (ret)
		return ret;
	printf("%-11s %s\n", "namespace", name->ns);
	printf("%-11s ", "name");
	cli_print(stat.name);
	printf("\n%-11s 0x%" PRIx64 "\n", "address", stat.address);
	printf("%-11s %" PRIu64 " (%s)\n", "length", stat.length, size_text(stat.length, length));
	printf("%-11s %u\n", "width", stat.width);
	printf("%-11s %s\n", "stripe", size_text(stat.stripe_bytes, stripe));
	printf("%-11s %s\n", "atomics", atomics_text(ns, &stat));
	printf("%-11s %u\n", "open", stat.nr_references);
	printf("%-11s %s\n", "state", state_text(&stat));
	if (stat.version)
		show_versions(&stat);
	region_note_width(ns, name, &stat);
	return 0;
}

static int region_stat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *as_json = NULL;
	const struct cli_flag flags[] = {
		{"json", NULL, "as JSON", &as_json},
		{0},
	};
	struct region_name name;
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	ret = region_name_parse(command, arguments[0], &name);
	return ret ? ret : with_namespace(cli, name.ns, &name, as_json ? show_json : show);
}

static int end(struct afar_namespace *ns, const struct region_name *name)
{
	int ret = name->name ? afar_region_delete(ns, name->name)
			     : afar_region_delete_at(ns, name->address);

	return ret ? cli_fail_last(ret) : 0;
}

static int region_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return with_region(cli, command, argc, argv, end);
}

/* Opens the region and calls `act` on it. */
static int with_open(struct afar_namespace *ns, const struct region_name *name,
		     int (*act)(struct afar_region *region, const struct region_name *name))
{
	struct afar_region *region;
	int ret, status;

	ret = region_open_named(ns, name, &region);
	if (ret)
		return cli_fail_last(ret);
	status = act(region, name);
	afar_region_close(region);
	return status;
}

static int seal_open(struct afar_region *region, const struct region_name *name)
{
	int ret = afar_region_seal(region);

	(void)name;
	return ret ? cli_fail_last(ret) : 0;
}

static int seal(struct afar_namespace *ns, const struct region_name *name)
{
	return with_open(ns, name, seal_open);
}

static int region_seal(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return with_region(cli, command, argc, argv, seal);
}

static int verify_open(struct afar_region *region, const struct region_name *name)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	char length[SIZE_TEXT_MAX];
	int ret;

	ret = afar_region_stat(region, &stat);
	if (!ret)
		ret = afar_region_verify(region, 0, stat.length, NULL);
	if (ret)
		return cli_fail_last(ret);
	cli_print(name->text);
	printf(": %s as they were sealed\n", size_text(stat.length, length));
	return 0;
}

static int verify(struct afar_namespace *ns, const struct region_name *name)
{
	return with_open(ns, name, verify_open);
}

static int region_verify(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return with_region(cli, command, argc, argv, verify);
}

/* ---- Longer and shorter */

/* Reserves what the namespace lacks for so many bytes more; `*reserved` is what that was. */
static int reserve_missing(struct afar_namespace *ns, uint64_t bytes, uint64_t *reserved)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	uint64_t unused;
	int ret = afar_namespace_stat(ns, &stat);

	if (ret)
		return cli_fail_last(ret);
	unused = stat.reserved_bytes > stat.allocated_bytes
			 ? stat.reserved_bytes - stat.allocated_bytes
			 : 0;
	if (unused >= bytes)
		return 0;
	ret = reserve_shown(ns, bytes - unused);
	if (!ret)
		*reserved = bytes - unused;
	return ret;
}

static int resize(struct afar_namespace *ns, struct afar_region *region, uint64_t bytes)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	uint64_t reserved = 0;
	int ret = afar_region_stat(region, &stat), status = 0;

	if (ret)
		return cli_fail_last(ret);
	/* It may need no more than it has, or wait for what becomes free. */
	ret = is_interrupted() ? 0 : afar_region_resize(region, bytes);
	if (ret == -AFAR_ERESERVE && bytes > stat.length) {
		status = reserve_missing(ns, bytes - stat.length, &reserved);
		if (status)
			return status;
		ret = is_interrupted() ? 0 : afar_region_resize(region, bytes);
	}
	if (!ret && !is_interrupted())
		return 0;
	status = ret ? cli_fail_last(ret) : CLI_INTERRUPTED;
	/* An unknown outcome may be that it has grown. */
	if (ret != -ETIMEDOUT)
		reserve_undo(ns, reserved);
	return status;
}

static int region_resize(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct afar_region *region;
	struct afar_namespace *ns;
	struct region_name name;
	uint64_t bytes = 0;
	int ret, status;

	if (cli_arguments(cli, command, NULL, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	status = region_name_parse(command, arguments[0], &name);
	if (!status)
		status = cli_size(command, "SIZE", arguments[1], &bytes);
	if (status)
		return status;
	catch_interrupts();
	status = cli_open(cli);
	if (status)
		return status;
	status = region_open_namespace(cli, &name, &ns);
	if (status)
		return cli_close(cli, status);
	ret = region_open_named(ns, &name, &region);
	if (ret) {
		status = cli_fail_last(ret);
	} else {
		status = resize(ns, region, bytes);
		afar_region_close(region);
	}
	afar_namespace_close(ns);
	return cli_close(cli, status);
}

const struct cli_command region_commands[] = {
	{"region put",
	 "FILE|- NS:NAME [--replace] [--size SIZE] [--nic-atomics] [--seal] [--checked] "
	 "[--brief] [--cold] [--cow]",
	 "a file into a new region", region_put},
	{"region get", "NS:NAME FILE|- [--partial] [--checked]", "a region into a file",
	 region_get},
	{"region ls", "NS [--json]", "list a namespace's regions", region_ls},
	{"region stat", "NS:NAME [--json]", "show one region", region_stat},
	{"region seal", "NS:NAME", "make a region immutable, for good", region_seal},
	{"region verify", "NS:NAME", "compare a sealed region with its sums", region_verify},
	{"region resize", "NS:NAME SIZE", "make a region longer or shorter", region_resize},
	{"region rm", "NS:NAME", "end a region for everybody", region_rm},
	{0},
};
