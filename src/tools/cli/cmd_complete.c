/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar complete WORD…`: prints the candidates for the last of the words after `afar`, one on each
 * line, for the shells' completion (afar.bash, afar.zsh). It uses the commands' tables, from which
 * the help is made, too, so it completes exactly what a usage says. A line ":file" stands for the
 * names of files. If anything fails, it prints nothing and ends soon.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/volume.h>

#include "commands.h"
#include "tools/cli/program.h"
#include "tools/files/files.h"
#include "tools/files/files_walk.h"

#define LIST_MAX   64
#define TIMEOUT_MS 500 /* of a call; short, because a person waits */
#define END_S	   1   /* ends the program, also if looking up a name takes long */
#define FILES	   ":file"

struct completion {
	struct cli *cli;
	const char *word; /* the word that is being typed */
	size_t length;
};

/* Prints `prefix` and `text` as one candidate, if it begins with the word. */
static void offer(const struct completion *completion, const char *prefix, const char *text)
{
	char candidate[2 * AFAR_NAME_MAX + 2];

	snprintf(candidate, sizeof(candidate), "%s%s", prefix, text);
	if (strncmp(candidate, completion->word, completion->length) == 0)
		puts(candidate);
}

/* Offers a name that came from a peer. Leaves out one that cannot be printed as it is, because
 * nobody can type it. */
static void offer_name(const struct completion *completion, const char *prefix, const char *name,
		       const char *end)
{
	char *printable = cli_printable(name, NULL);
	char text[AFAR_NAME_MAX + 2];

	if (printable && *name && !strcmp(printable, name)) {
		snprintf(text, sizeof(text), "%s%s", name, end);
		offer(completion, prefix, text);
	}
	free(printable);
}

/* ---- Names that the cluster knows */

static void offer_namespaces(const struct completion *completion, const char *end)
{
	struct afar_namespace_stat entries[LIST_MAX];
	char after[AFAR_NAME_MAX + 1] = "";
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_namespace_list(completion->cli->session, *after ? after : NULL, entries,
					LIST_MAX);
		for (int i = 0; i < n; i++)
			offer_name(completion, "", entries[i].name, end);
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0);
}

static void offer_namespaces_alone(const struct completion *completion)
{
	offer_namespaces(completion, "");
}

static void offer_regions_of(const struct completion *completion, const char *name)
{
	struct afar_region_stat entries[LIST_MAX];
	char prefix[AFAR_NAME_MAX + 2];
	struct afar_namespace *ns;
	uint64_t after = 0;
	int n;

	if (afar_namespace_open(completion->cli->session, name, &ns))
		return;
	snprintf(prefix, sizeof(prefix), "%s:", name);
	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_region_list(ns, after, entries, LIST_MAX);
		for (int i = 0; i < n; i++)
			offer_name(completion, prefix, entries[i].name, "");
		if (n > 0)
			after = entries[n - 1].address;
	} while (n > 0);
	afar_namespace_close(ns);
}

static void offer_regions(const struct completion *completion)
{
	size_t length = strcspn(completion->word, ":");
	char name[AFAR_NAME_MAX + 1];

	if (!completion->word[length]) {
		offer_namespaces(completion, ":");
	} else if (length <= AFAR_NAME_MAX) {
		memcpy(name, completion->word, length);
		name[length] = '\0';
		offer_regions_of(completion, name);
	}
}

static void offer_volumes(const struct completion *completion)
{
	struct afar_volume_stat entries[LIST_MAX];
	char after[AFAR_NAME_MAX + 1] = "";
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_volume_list(completion->cli->session, *after ? after : NULL, entries,
				     LIST_MAX);
		for (int i = 0; i < n; i++)
			offer_name(completion, "", entries[i].name, "");
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0);
}

/* Offers the file systems, each with `before` and `behind` its name. */
static void offer_roots(const struct completion *completion, const char *before, const char *behind)
{
	struct afar_fs_stat entries[LIST_MAX];
	char after[AFAR_NAME_MAX + 1] = "";
	int n;

	do {
		entries[0].size = sizeof(entries[0]);
		n = afar_fs_list(completion->cli->session, *after ? after : NULL, entries,
				 LIST_MAX);
		for (int i = 0; i < n; i++)
			offer_name(completion, before, entries[i].name, behind);
		if (n > 0)
			memcpy(after, entries[n - 1].name, sizeof(after));
	} while (n > 0);
}

static void offer_file_systems(const struct completion *completion)
{
	offer_roots(completion, "", "");
}

struct folder {
	const struct completion *completion;
	size_t length; /* of the part of the word that names the folder, with its slash */
};

/* Offers a name in the folder. Leaves out one that nobody can type. */
static int offer_entry(const struct afar_dirent *entry, void *context)
{
	const struct folder *folder = context;
	const char *word = folder->completion->word;
	char *printable = cli_printable(entry->name, NULL);

	if (printable && !strcmp(printable, entry->name) &&
	    !strncmp(entry->name, word + folder->length, strlen(word + folder->length)))
		printf("%.*s%s%s\n", (int)folder->length, word, entry->name,
		       S_ISDIR(entry->stat.mode) ? "/" : "");
	free(printable);
	return 0;
}

/* Offers file systems, and behind one's name what is in it. */
static void offer_paths(const struct completion *completion)
{
	const char *slash = strrchr(completion->word, '/');
	struct folder folder = {completion, slash ? (size_t)(slash - completion->word) + 1 : 0};
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct files_path path = {.is_folder = true};
	const char *name = completion->word + 1;
	size_t length = strcspn(name, "/");
	const struct afar_fs_options options = {.size = sizeof(options),
						.flags = AFAR_FS_READ_ONLY};
	struct afar_fs *fs;

	if (folder.length <= 1) {
		offer_roots(completion, "/", "/");
		return;
	}
	if (length > AFAR_NAME_MAX || folder.length - length > AFAR_FILE_PATH_MAX)
		return;
	memcpy(path.fs, name, length);
	memcpy(path.path, name + length, folder.length - 1 - length);
	if (afar_fs_open(completion->cli->session, path.fs, &options, &fs))
		return;
	if (files_walk(fs, &path, 0, &stat) == 0)
		files_list(fs, stat.ino, false, offer_entry, &folder);
	afar_fs_close(fs);
}

/* Offers what the entries of a list of the status are called by. */
static void offer_listed(const struct completion *completion, const char *list, const char *field)
{
	const json_t *entry;
	json_t *status;
	char *text;
	size_t i;

	if (afar_session_status(completion->cli->session, &text))
		return;
	status = json_loads(text, 0, NULL);
	free(text);
	json_array_foreach(json_object_get(status, list), i, entry)
	{
		const char *name = json_string_value(json_object_get(entry, field));

		if (name)
			offer_name(completion, "", name, "");
	}
	json_decref(status);
}

static void offer_stores(const struct completion *completion)
{
	offer_listed(completion, "stores", "store");
}

static void offer_servers(const struct completion *completion)
{
	offer_listed(completion, "servers", "name");
}

static bool open_session(struct cli *cli)
{
	const struct afar_session_options options = {
		.size = sizeof(options),
		.key_file = cli->key_file,
		.timeout_ms = TIMEOUT_MS,
	};

	return afar_session_open(cli->cluster, &options, &cli->session) == 0;
}

/* ---- What a usage says */

/* Takes the next word of a usage, without its brackets. False: there is none. */
static bool next_word(const char **usage, char word[64])
{
	size_t length;

	*usage += strspn(*usage, " []");
	length = strcspn(*usage, " []");
	snprintf(word, 64, "%.*s", (int)length, *usage);
	*usage += length;
	return length != 0;
}

/* Returns whether the flag in front of `usage` has a value: "[--flag VALUE]", not "[--flag]". */
static bool has_value(const char *usage)
{
	return *usage == ' ';
}

/* Offers the completions for one alternative of a usage's word. Words in small letters are
 * literal. */
static void offer_kind(const struct completion *completion, const char *kind)
{
	static const struct {
		const char *kind;
		void (*offer)(const struct completion *completion);
	} names[] = {
		{"NS", offer_namespaces_alone}, {"NS:NAME", offer_regions},
		{"SERVER", offer_servers},	{"STORE", offer_stores},
		{"VOLUME", offer_volumes},	{"FS", offer_file_systems},
		{"/FS/PATH", offer_paths},
	};

	if (!strcmp(kind, "FILE") || !strcmp(kind, "PATH") || !strcmp(kind, "DIR") ||
	    !strcmp(kind, "PROGRAM") || !strcmp(kind, "ARGUMENT"))
		puts(FILES);
	else if (*kind >= 'a' && *kind <= 'z')
		offer(completion, "", kind);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(kind, names[i].kind) == 0 && open_session(completion->cli)) {
			names[i].offer(completion);
			cli_close(completion->cli, 0);
		}
	}
}

static void offer_kinds(const struct completion *completion, char *kinds)
{
	char *rest;

	/* Where both a file of this machine and one of a file system may stand, a word that begins with '/'
	 * is taken for the latter. The shells complete files all by themselves, or not at all. */
	if (strstr(kinds, "/FS/PATH") && strstr(kinds, "FILE")) {
		offer_kind(completion, *completion->word == '/' ? "/FS/PATH" : "FILE");
		return;
	}
	for (char *kind = strtok_r(kinds, "|", &rest); kind; kind = strtok_r(NULL, "|", &rest))
		offer_kind(completion, kind);
}

/* Offers the daemon's flags, from its help. */
static void offer_daemon_flags(const struct completion *completion)
{
	char daemon[PATH_MAX], line[256], flag[64];
	FILE *help;

	program_find_daemon(daemon);
	setenv("AFARD", daemon, 1);
	help = popen("exec \"$AFARD\" --help 2>/dev/null", "r");
	while (help && fgets(line, sizeof(line), help)) {
		if (sscanf(line, "  --%63[a-z-]", flag) == 1)
			offer(completion, "--", flag);
	}
	if (help)
		pclose(help);
}

static void offer_flags(const struct completion *completion, const char *usage)
{
	char word[64];

	if (strstr(usage, "AFARD-FLAG")) {
		offer_daemon_flags(completion);
		return;
	}
	while (next_word(&usage, word)) {
		if (word[0] == '-' && word[1])
			offer(completion, "", word);
	}
	for (const struct cli_flag *flag = cli_global_flags; flag->name; flag++)
		offer(completion, "--", flag->name);
	offer(completion, "", "--help");
}

static const struct cli_flag *find_global(const char *word)
{
	const struct cli_flag *flag = cli_global_flags;

	if (strncmp(word, "--", 2) != 0)
		return NULL;
	while (flag->name && strcmp(word + 2, flag->name) != 0)
		flag++;
	return flag->name ? flag : NULL;
}

/* Returns whether `word` is a flag that is followed by a value; `kinds` becomes the kinds of
 * value. */
static bool takes_value(const char *usage, const char *word, char kinds[64])
{
	const struct cli_flag *global = find_global(word);
	char flag[64];

	if (global) {
		snprintf(kinds, 64, "%s", global->argument);
		return true;
	}
	while (next_word(&usage, flag)) {
		if (!strcmp(flag, word) && *word == '-')
			return has_value(usage) && next_word(&usage, kinds);
	}
	return false;
}

/* Takes "..." off the word's end. Returns whether it was there: such an argument is repeated. */
static bool is_repeated(char word[64])
{
	size_t length = strlen(word);

	if (length < 3 || strcmp(word + length - 3, "...") != 0)
		return false;
	word[length - 3] = '\0';
	return true;
}

/* Finds the kinds of the `n`th of the arguments that are no flags. Behind a repeated one it may be that, or
 * one of those that follow. */
static bool find_argument(const char *usage, int n, char kinds[64])
{
	bool is_behind = false;
	char word[64];
	int at = 0;

	*kinds = '\0';
	while (at <= n && next_word(&usage, word)) {
		if (word[0] == '-' && word[1]) {
			if (has_value(usage))
				next_word(&usage, word);
			continue;
		}
		is_behind = is_repeated(word) || is_behind;
		if (at++ == n || is_behind)
			snprintf(kinds + strlen(kinds), 64 - strlen(kinds), "%s%s",
				 *kinds ? "|" : "", word);
	}
	return *kinds;
}

/* ---- The line */

/* Keeps a global flag, so that names are looked up as the command would. */
static void keep_global(struct cli *cli, const char *flag, const char *value)
{
	if (!strcmp(flag, "--cluster"))
		cli->cluster = value;
	else if (!strcmp(flag, "--key"))
		cli->key_file = value;
}

/* `argv` ends with the word that is being typed. */
static void complete_argument(const struct completion *completion, const char *usage, int argc,
			      char **argv)
{
	char kinds[64];
	int n = 0;

	for (int i = 0; i + 1 < argc; i++) {
		if (takes_value(usage, argv[i], kinds)) {
			if (i + 2 == argc) {
				offer_kinds(completion, kinds);
				return;
			}
			keep_global(completion->cli, argv[i], argv[i + 1]);
			i++;
		} else if (argv[i][0] != '-' || !argv[i][1]) {
			n++;
		}
	}
	if (completion->word[0] == '-')
		offer_flags(completion, usage);
	else if (find_argument(usage, n, kinds))
		offer_kinds(completion, kinds);
}

/* Offers the first words of a table's commands, each once. */
static void offer_first_words(const struct completion *completion,
			      const struct cli_command *command)
{
	char before[64] = "", word[64];

	for (; command->name; command++) {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(command->name, " "),
			 command->name);
		if (strcmp(word, before) != 0)
			offer(completion, "", word);
		strcpy(before, word);
	}
}

/* Offers the first words of all commands, or, after `group`, the second words of that group's. Each
 * table is one group, or has commands of one word alone. */
static void offer_commands(const struct completion *completion, const char *group)
{
	for (size_t i = 0; completion->cli->groups[i]; i++) {
		const struct cli_command *command = completion->cli->groups[i];
		size_t length = strcspn(command->name, " ");
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)length, command->name);
		if (!group)
			offer_first_words(completion, command);
		else if (!strcmp(word, group) && command->name[length])
			for (; command->name; command++)
				offer(completion, "", command->name + length + 1);
	}
}

static void complete_line(const struct completion *completion, int argc, char **argv)
{
	const struct cli_command *command;
	int words;

	if (!strcmp(argv[0], "help") && argc > 1) {
		argc--;
		argv++;
	} else if ((command = cli_find(completion->cli, argc - 1, argv, &words))) {
		complete_argument(completion, command->arguments, argc - words, argv + words);
		return;
	}
	if (argc == 1 && completion->word[0] == '-') {
		offer_flags(completion, "--version");
	} else if (argc <= 2) {
		offer_commands(completion, argc == 2 ? argv[0] : NULL);
	}
}

int complete_main(struct cli *cli, int argc, char **argv)
{
	const struct completion completion = {cli, argv[argc - 1], strlen(argv[argc - 1])};
	char kinds[64];
	int at = 1;

	alarm(END_S);
	/* Skips the global flags before the command. */
	for (; at + 1 < argc && argv[at][0] == '-'; at++) {
		if (!takes_value("", argv[at], kinds))
			continue;
		if (at + 2 == argc) {
			offer_kinds(&completion, kinds);
			return 0;
		}
		keep_global(cli, argv[at], argv[at + 1]);
		at++;
	}
	if (at < argc)
		complete_line(&completion, argc - at, argv + at);
	return 0;
}
