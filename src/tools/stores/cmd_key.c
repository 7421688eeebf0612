/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar key …`: makes, lists, limits and revokes keys of the cluster's principals. For operators, whose
 * keys are in the manager's own file. A secret is shown once, when its key is made, and is wiped
 * here as soon as it is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <afar/file.h>

#include "tools/cli/commands.h"

#define LIST_MAX	 64
#define GROUPS_MAX	 63U
#define NAME_COLUMNS	 32
#define UID_COLUMNS	 14
#define NAMESPACES_SHOWN 4U
#define LINE_BYTES	 (AFAR_PRINCIPAL_MAX + 1 + AFAR_KEY_HEX_MAX + 1)

/* ---- Adding */

static int write_all(int fd, const char *text, size_t length)
{
	ssize_t written;

	while (length) {
		written = write(fd, text, length);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		text += written;
		length -= (size_t)written;
	}
	return 0;
}

/* Makes the file that --out names, before there is a secret that could get lost. Returns -1 after a
 * line. */
static int make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 && errno == EEXIST)
		cli_fail("key add: the file %s exists; name another, a key is never overwritten",
			 path);
	else if (fd < 0)
		cli_fail("key add: make the file %s: %s", path, afar_strerror(errno));
	return fd;
}

/* Writes the line to `fd`, and closes it; syncs a file. Returns 0 or a negative errno. */
static int keep_line(int fd, const char *name, const char *secret)
{
	char line[LINE_BYTES];
	int length = snprintf(line, sizeof(line), "%s:%s\n", name, secret);
	int ret = write_all(fd, line, (size_t)length);

	explicit_bzero(line, sizeof(line));
	if (!ret && fsync(fd) && errno != EINVAL)
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	return ret;
}

/* Revokes a key whose secret could not be written. */
static int undo_add(struct cli *cli, const char *name, const char *where, int error)
{
	bool is_undone = afar_key_revoke(cli->session, name) == 0;

	return cli_fail("key add: write the key of %s to %s: %s; %s", name, where,
			afar_strerror(-error),
			is_undone ? "it was revoked again"
				  : "it is lost, revoke it with 'afar key revoke'");
}

/* The kind of key that is wanted. */
struct wanted {
	unsigned flags;
	uint64_t max_bytes; /* 0: no limit */
	bool has_user;
	struct afar_who user;
	uint32_t groups[GROUPS_MAX];
};

/* Limits a new key, whose secret nobody has yet, and revokes it if that fails. Returns an exit status. */
static int limit_new(struct cli *cli, const char *name, uint64_t max_bytes)
{
	int ret = max_bytes ? afar_key_limit(cli->session, name, max_bytes) : 0;
	int status = ret ? cli_fail_last(ret) : 0;

	if (ret && afar_key_revoke(cli->session, name))
		cli_note("key add: nobody has the key of %s, which could not be revoked; do that "
			 "with 'afar key revoke'",
			 name);
	return status;
}

static int make_key(struct cli *cli, const char *name, const struct wanted *wanted,
		    char secret[AFAR_KEY_HEX_MAX])
{
	int ret = wanted->has_user ? afar_key_add_user(cli->session, name, &wanted->user, secret)
				   : afar_key_add(cli->session, name, wanted->flags, secret);

	return ret ? cli_fail_last(ret) : limit_new(cli, name, wanted->max_bytes);
}

static int add(struct cli *cli, const char *name, const struct wanted *wanted, const char *path)
{
	char secret[AFAR_KEY_HEX_MAX];
	int fd = STDOUT_FILENO, ret, status;

	if (path)
		fd = make_file(path);
	else
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return path ? CLI_FAILED
			    : cli_fail("key add: standard output is closed; use --out FILE");
	status = make_key(cli, name, wanted, secret);
	if (status) {
		close(fd);
	} else {
		ret = keep_line(fd, name, secret);
		if (ret)
			status = undo_add(cli, name, path ? path : "standard output", ret);
	}
	explicit_bzero(secret, sizeof(secret));
	if (status && path)
		unlink(path);
	return status;
}

static bool parse_id(const char *text, const char **end, uint32_t *out)
{
	char *after;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &after, 10);
	*end = after;
	*out = (uint32_t)value;
	return !errno && value < UINT32_MAX;
}

/* "N", or "N,N,…": the first is the group of what the user makes. */
static int parse_user(const struct cli_command *command, const char *uid, const char *gids,
		      struct wanted *wanted)
{
	const char *end = uid;
	uint32_t gid;

	wanted->has_user = true;
	wanted->user.size = sizeof(wanted->user);
	wanted->user.groups = wanted->groups;
	if (!parse_id(uid, &end, &wanted->user.uid) || *end)
		return cli_misuse(command, "key add --uid %s: give the number of a user", uid);
	for (bool is_first = true; is_first || *end == ','; is_first = false) {
		if (!parse_id(is_first ? gids : end + 1, &end, &gid) || (*end && *end != ',') ||
		    wanted->user.nr_groups == GROUPS_MAX)
			return cli_misuse(
				command,
				"key add --gid %s: give the numbers of at most %u groups, "
				"with commas between them",
				gids, GROUPS_MAX);
		if (is_first)
			wanted->user.gid = gid;
		else
			wanted->groups[wanted->user.nr_groups++] = gid;
	}
	return 0;
}

static int key_add(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *is_server = NULL, *path = NULL, *uid = NULL, *gids = NULL, *is_any = NULL,
		   *max = NULL;
	struct wanted wanted = {0};
	const struct cli_flag flags[] = {
		{"server", NULL, "for a server to join with, and for nothing else", &is_server},
		{"uid", "N", "it may use files as this user", &uid},
		{"gid", "N,N", "and as a member of these groups", &gids},
		{"any-uid", NULL, "it may use files as anybody: for mounts", &is_any},
		{"max", "SIZE", "may be reserved at most for all that it owns", &max},
		{"out", "FILE", "write the key there, readable by you alone", &path},
		{0},
	};
	int ret;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &ret) < 0)
		return ret;
	if (!uid != !gids || (uid && (is_any || is_server)) || (is_any && is_server))
		return cli_misuse(command,
				  "key add: use --uid with --gid, or --any-uid, or --server");
	if (max && is_server)
		return cli_misuse(command, "key add: a server owns nothing that --max could limit");
	ret = uid ? parse_user(command, uid, gids, &wanted) : 0;
	if (!ret && max)
		ret = cli_limit(command, "--max", max, &wanted.max_bytes);
	if (ret)
		return ret;
	wanted.flags = (is_server ? AFAR_KEY_SERVER : 0) | (is_any ? AFAR_KEY_ANY_UID : 0);
	ret = cli_open(cli);
	if (ret)
		return ret;
	ret = add(cli, arguments[0], &wanted, path);
	return cli_close(cli, ret);
}

/* ---- Listing */

static const char *kind_of(const struct afar_key_stat *entry)
{
	if (entry->flags & AFAR_KEY_SERVER)
		return "server";
	return entry->flags & AFAR_KEY_OPERATOR ? "operator" : "client";
}

static bool is_client(const struct afar_key_stat *entry)
{
	return (entry->flags & (AFAR_KEY_OPERATOR | AFAR_KEY_SERVER)) == 0;
}

/* Returns whether it may say that it is anybody when it uses files. */
static bool is_anybody(const struct afar_key_stat *entry)
{
	return (entry->flags & (AFAR_KEY_OPERATOR | AFAR_KEY_ANY_UID)) != 0;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* Returns the rights of a principal in a namespace: "owner", "rw", "r", or "". */
static const char *rights_in(const json_t *ns, const char *principal)
{
	const json_t *grant;
	size_t i;

	if (strcmp(text_of(ns, "owner"), principal) == 0)
		return "owner";
	json_array_foreach(json_object_get(ns, "grants"), i,
			   grant) if (strcmp(text_of(grant, "principal"), principal) ==
				      0) return text_of(grant, "rights");
	return "";
}

static void print_header(void)
{
	printf("%-*s %-8s %8s %10s %10s  %-*s  %s\n", NAME_COLUMNS, "PRINCIPAL", "KIND", "SESSIONS",
	       "RESERVED", "MAX", UID_COLUMNS, "FILES OF", "NAMESPACES");
}

static void print_namespaces(const struct afar_key_stat *entry, const json_t *status)
{
	const json_t *ns, *namespaces = json_object_get(status, "namespaces");
	bool has_more = json_integer_value(json_object_get(status, "nr_namespaces")) >
			(json_int_t)json_array_size(namespaces);
	size_t i, nr = 0;

	if (!is_client(entry)) {
		printf("%s", entry->flags & AFAR_KEY_OPERATOR ? "all" : "-");
		return;
	}
	json_array_foreach(namespaces, i, ns)
	{
		const char *rights = rights_in(ns, entry->name);

		if (!*rights || ++nr > NAMESPACES_SHOWN)
			continue;
		printf("%s", nr > 1 ? ", " : "");
		cli_print(text_of(ns, "name"));
		printf(" (%s)", rights);
	}
	if (nr > NAMESPACES_SHOWN)
		printf(", %zu more", nr - NAMESPACES_SHOWN);
	if (has_more)
		printf("%smaybe more", nr ? ", " : "");
	else if (nr == 0)
		printf("-");
}

static void print_entry(const struct afar_key_stat *entry, const json_t *status)
{
	char files[UID_COLUMNS + 1] = "-", reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX];
	bool has_own = is_client(entry);

	if (is_anybody(entry))
		snprintf(files, sizeof(files), "any uid");
	else if (entry->flags & AFAR_KEY_UID)
		snprintf(files, sizeof(files), "uid %u", entry->uid);
	cli_print_padded(entry->name, NAME_COLUMNS);
	printf(" %-8s %8u %10s %10s  %-*s  ", kind_of(entry), entry->nr_sessions,
	       has_own ? size_text(entry->reserved_bytes, reserved) : "-",
	       has_own && entry->max_bytes ? size_text(entry->max_bytes, max) : "-", UID_COLUMNS,
	       files);
	print_namespaces(entry, status);
	putchar('\n');
}

/* An operator may use all, which are not listed again. */
static json_t *namespaces_to_json(const struct afar_key_stat *entry, const json_t *status)
{
	json_t *out = json_array();
	const json_t *ns;
	size_t i;

	if (!is_client(entry))
		return out;
	json_array_foreach(json_object_get(status, "namespaces"), i, ns)
	{
		const char *rights = rights_in(ns, entry->name);

		if (*rights)
			json_array_append_new(out,
					      json_pack("{s:s, s:s}", "name", text_of(ns, "name"),
							"rights", rights));
	}
	return out;
}

static json_t *entry_to_json(const struct afar_key_stat *entry, const json_t *status)
{
	return json_pack("{s:s, s:s, s:I, s:o, s:o, s:b, s:o, s:o}", "name", entry->name, "kind",
			 kind_of(entry), "nr_sessions", (json_int_t)entry->nr_sessions,
			 "reserved_bytes", cli_json_number(entry->reserved_bytes), "max_bytes",
			 cli_json_number(entry->max_bytes), "any_uid", (int)is_anybody(entry),
			 "uid",
			 entry->flags & AFAR_KEY_UID ? json_integer(entry->uid) : json_null(),
			 "namespaces", namespaces_to_json(entry, status));
}

/* The cluster's status, which tells of the rights on namespaces; NULL: none. */
static json_t *load_status(struct cli *cli)
{
	char *text;
	json_t *status;

	if (afar_session_status(cli->session, &text))
		return NULL;
	status = json_loads(text, 0, NULL);
	free(text);
	return status;
}

static int list(struct cli *cli, json_t *json)
{
	struct afar_key_stat entries[LIST_MAX];
	json_t *status = load_status(cli);
	char after[AFAR_PRINCIPAL_MAX + 1] = "";
	bool has_header = json;
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_key_list(cli->session, *after ? after : NULL, entries, LIST_MAX);
		/* A user who may not see the list gets one line, no table. */
		if (n >= 0 && !has_header)
			print_header();
		has_header = true;
		for (int i = 0; i < n; i++) {
			if (json)
				json_array_append_new(json, entry_to_json(&entries[i], status));
			else
				print_entry(&entries[i], status);
		}
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0);
	json_decref(status);
	return n;
}

static int key_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	return cli_list(cli, command, argc, argv, list);
}

/* ---- Limiting */

static int key_set(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *max = NULL;
	const struct cli_flag flags[] = {
		{"max", "SIZE", "may be reserved at most for all that it owns, or none", &max},
		{0},
	};
	uint64_t max_bytes;
	int ret, status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!max)
		return cli_misuse(command, "say what to set: --max SIZE");
	status = cli_limit(command, "--max", max, &max_bytes);
	if (!status)
		status = cli_open(cli);
	if (status)
		return status;
	ret = afar_key_limit(cli->session, arguments[0], max_bytes);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

/* ---- Ending */

static int key_revoke(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	int ret, status;

	if (cli_arguments(cli, command, NULL, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	status = cli_open(cli);
	if (status)
		return status;
	ret = afar_key_revoke(cli->session, arguments[0]);
	return cli_close(cli, ret ? cli_fail_last(ret) : 0);
}

const struct cli_command key_commands[] = {
	{"key add", "[--server] [--any-uid] [--uid N --gid N,N] [--max SIZE] NAME [--out FILE]",
	 "make a principal and show its key, once", key_add},
	{"key ls", "[--json]", "list the principals, and what each may use", key_ls},
	{"key set", "NAME --max SIZE|none", "say how much may be reserved for all that it owns",
	 key_set},
	{"key revoke", "NAME", "end a principal, its sessions and what they can reach", key_revoke},
	{0},
};
