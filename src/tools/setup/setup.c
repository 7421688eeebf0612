/* SPDX-License-Identifier: BSD-3-Clause */
/* Lays down what a machine of a cluster has in its folders; see setup.h. */
#include "setup.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/program.h"

#define DAEMONS_USER "afar"
#define ROOT_MAX     60 /* a line of afard.ini has at most 198 bytes */
#define PORT_DEFAULT "7411"
#define NAME_BYTES   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_"

/* ---- What was asked */

/* A value that cannot end its line of the file, nor begin a comment there. */
static bool is_plain(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text <= ' ' || *text == 0x7f || *text == ';' || *text == '#')
			return false;
	}
	return true;
}

static int check_flash(const struct cli_command *command, const char *text)
{
	uint64_t bytes;

	if (*text == '/' && is_plain(text) && strlen(text) <= SETUP_HOST_MAX)
		return 0;
	if (size_parse(text, &bytes) == 0 && bytes && bytes % 4096 == 0)
		return 0;
	return cli_misuse(
		command,
		"--flash '%.64s' is neither the path of a device nor a size in multiples of 4K",
		text);
}

static int check_flags(const struct cli_command *command, const struct setup_flags *flags)
{
	uint64_t bytes;
	int ret = 0;

	if (flags->name && (!*flags->name || strlen(flags->name) > 64 ||
			    strspn(flags->name, NAME_BYTES) != strlen(flags->name)))
		return cli_misuse(command, "--name '%.64s': use 1 to 64 of A-Z a-z 0-9 . _ -",
				  flags->name);
	if (flags->memory)
		ret = cli_size(command, "--memory", flags->memory, &bytes);
	if (!ret && flags->flash)
		ret = check_flash(command, flags->flash);
	return ret;
}

/* Makes --root absolute: the daemons may be started anywhere. */
static int set_root(struct setup *setup, const struct cli_command *command, const char *root)
{
	char here[PATH_MAX] = "";
	size_t length;

	setup->is_here = !root;
	if (!root)
		return 0;
	if (*root != '/' && !getcwd(here, sizeof(here)))
		return cli_fail("%s: find the current folder: %s", setup->verb,
				afar_strerror(errno));
	if (snprintf(setup->root, sizeof(setup->root), "%s%s%s", here, *here ? "/" : "", root) >
		    ROOT_MAX ||
	    !*root || !is_plain(setup->root))
		return cli_misuse(command,
				  "--root '%.64s': give a folder whose whole path has at most %d "
				  "bytes, and no blanks, ';' or '#'",
				  root, ROOT_MAX);
	for (length = strlen(setup->root); length && setup->root[length - 1] == '/'; length--)
		setup->root[length - 1] = '\0';
	return 0;
}

int setup_begin(struct setup *setup, const struct cli *cli, const struct cli_command *command,
		const struct setup_flags *flags)
{
	int ret;

	*setup = (struct setup){.verb = command->name, .is_dry = flags->is_dry};
	if (cli->cluster || cli->key_file)
		return cli_misuse(command, "it takes no --cluster and no --key");
	ret = check_flags(command, flags);
	return ret ? ret : set_root(setup, command, flags->root);
}

void setup_end(struct setup *setup)
{
	for (size_t i = 0; i < setup->nr_items; i++) {
		char *text = setup->items[i].text;

		if (text)
			explicit_bzero(text, strlen(text));
		free(text);
	}
	setup->nr_items = 0;
}

int setup_address(const struct cli_command *command, const char *text,
		  char out[SETUP_HOST_MAX + 16])
{
	const bool has_brackets = *text == '[';
	const char *host = text + has_brackets;
	size_t length = strspn(host, has_brackets ? NAME_BYTES ":%" : NAME_BYTES);
	const char *rest = host + length;
	const char *port = PORT_DEFAULT;
	uint64_t number;

	if (has_brackets && *rest == ']')
		rest++;
	else if (has_brackets)
		length = 0;
	if (*rest == ':')
		port = rest + 1;
	else if (*rest)
		length = 0;
	if (!length || length > SETUP_HOST_MAX || number_parse(port, UINT16_MAX, &number) ||
	    !number)
		return cli_misuse(command,
				  "'%.64s' is not HOST[:PORT], with an IPv6 address in brackets",
				  text);
	snprintf(out, SETUP_HOST_MAX + 16, "%s%.*s%s:%u", has_brackets ? "[" : "", (int)length,
		 host, has_brackets ? "]" : "", (unsigned)number);
	return 0;
}

/* ---- The plan */

void setup_add(struct setup *setup, enum setup_kind kind, bool is_daemons, const char *path,
	       const char *format, ...)
{
	struct setup_item *item = &setup->items[setup->nr_items];
	va_list arguments;
	int length;

	if (setup->nr_items == SETUP_ITEMS_MAX) {
		setup->is_short = true;
		return;
	}
	*item = (struct setup_item){.kind = kind, .is_daemons = is_daemons};
	length = snprintf(item->path, sizeof(item->path), "%s%s", setup->root, path);
	va_start(arguments, format);
	if (vasprintf(&item->text, format, arguments) < 0)
		item->text = NULL;
	va_end(arguments);
	setup->nr_items++;
	if (!item->text || length < 0 || (size_t)length >= sizeof(item->path))
		setup->is_short = true;
}

/* The cluster comes first: it is what says best why a machine that is in another one is refused. */
void setup_add_machine(struct setup *setup, const char *address)
{
	setup_add(setup, SETUP_FOLDER, false, "/etc/afar", "%s", "");
	setup_add(setup, SETUP_CLUSTER, false, "/etc/afar/cluster", "afar://%s\n", address);
	setup_add(setup, SETUP_FOLDER, true, "/var/lib/afar", "%s", "");
}

void setup_add_server(struct setup *setup, const struct setup_flags *flags, const char *address,
		      const char *key)
{
	char name[128] = "", memory[64] = "", flash[192] = "";

	if (flags->name)
		snprintf(name, sizeof(name), "name = %s\n", flags->name);
	if (flags->memory)
		snprintf(memory, sizeof(memory), "memory = %.40s\n", flags->memory);
	if (flags->flash)
		snprintf(flash, sizeof(flash), "flash = %.150s\n", flags->flash);
	setup_add(setup, SETUP_FILE, false, "/etc/afar/server.ini",
		  "# Of afard@server; afard.ini(5) has more settings.\n"
		  "[afard]\nrole = server\ndata = %s/var/lib/afar/server\nkey = %s%s\n"
		  "# Metrics and a status page, for this machine alone:\n# metrics = 7481\n\n"
		  "[server]\nmanager = %s\n%s%s%s",
		  setup->root, setup->root, key, address, name, memory, flash);
	setup->units[setup->nr_units++] = "server";
}

/* ---- Comparing with what is there */

/* Reads a file whole. Returns its length, or a negative errno. */
static ssize_t read_whole(const char *path, char *out, size_t size)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t length = 0, taken = 0;

	if (fd < 0)
		return -errno;
	do {
		taken = read(fd, out + length, size - (size_t)length);
		length += taken > 0 ? taken : 0;
	} while (taken > 0 && (size_t)length < size);
	if (taken < 0)
		length = -errno;
	close(fd);
	return length;
}

static bool has_text(const struct setup_item *item)
{
	static char there[SETUP_TEXT_MAX + 1];
	ssize_t length;
	bool is_same;

	if (item->kind == SETUP_LINK)
		length = readlink(item->path, there, sizeof(there));
	else
		length = read_whole(item->path, there, sizeof(there));
	is_same = length >= 0 && (size_t)length == strlen(item->text) &&
		  memcmp(there, item->text, (size_t)length) == 0;
	explicit_bzero(there, sizeof(there));
	return is_same;
}

/* Says in `*is_there` whether the item is there already. Another thing at its place is refused. */
static int look_at(const struct setup *setup, const struct setup_item *item, bool *is_there)
{
	struct stat found;

	/* A folder may be a link to another disk. */
	*is_there = (item->kind == SETUP_FOLDER ? stat(item->path, &found)
						: lstat(item->path, &found)) == 0;
	if (!*is_there && errno != ENOENT)
		return cli_fail("%s: look at %s: %s", setup->verb, item->path,
				afar_strerror(errno));
	if (!*is_there)
		return 0;
	if (item->kind == SETUP_FOLDER ? S_ISDIR(found.st_mode)
				       : item->kind == SETUP_MADE || has_text(item))
		return 0;
	if (item->kind == SETUP_CLUSTER)
		return cli_fail(
			"%s: this machine is in another cluster than %.*s, says %s; to take it "
			"out, stop its daemons, and move /etc/afar and /var/lib/afar away",
			setup->verb, (int)strcspn(item->text, "\n"), item->text, item->path);
	if (item->kind == SETUP_KEY)
		return cli_fail("%s: %s has another key; if this machine shall join with the new "
				"one, remove that file",
				setup->verb, item->path);
	return cli_fail("%s: %s is there, and is not what this would write; go on without this "
			"command, or move that file away and give it again",
			setup->verb, item->path);
}

/* ---- Writing */

/* Links a file with `text` into place, whole or not at all. */
static int publish(const struct setup_item *item, mode_t mode, const struct passwd *owner)
{
	char aside[PATH_MAX + 8];
	const size_t length = strlen(item->text);
	int fd, ret = 0;

	snprintf(aside, sizeof(aside), "%s.XXXXXX", item->path);
	fd = mkostemp(aside, O_CLOEXEC); /* with mode 0600 from birth */
	if (fd < 0)
		return -errno;
	if (write(fd, item->text, length) != (ssize_t)length)
		ret = errno ? -errno : -ENOSPC;
	else if ((owner && fchown(fd, owner->pw_uid, owner->pw_gid)) || fchmod(fd, mode) ||
		 fsync(fd) || link(aside, item->path))
		ret = -errno;
	close(fd);
	unlink(aside);
	return ret;
}

/* Makes the folders above the item, too. */
static int make_folder(const struct setup_item *item, const struct passwd *owner)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", item->path);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	if (mkdir(path, item->is_daemons ? 0700 : 0755))
		return -errno;
	/* The user of the daemons may have put a link in its place meanwhile. */
	return owner && lchown(path, owner->pw_uid, owner->pw_gid) ? -errno : 0;
}

static bool is_secret(const struct setup_item *item)
{
	return item->kind == SETUP_KEY || item->kind == SETUP_MADE;
}

static int lay_down(const struct setup_item *item)
{
	const struct passwd *owner =
		item->is_daemons && geteuid() == 0 ? getpwnam(DAEMONS_USER) : NULL;

	errno = 0;
	if (item->kind == SETUP_FOLDER)
		return make_folder(item, owner);
	if (item->kind == SETUP_LINK)
		return symlink(item->text, item->path) ? -errno : 0;
	return publish(item, is_secret(item) ? 0600 : 0644, owner);
}

static void show(const struct setup_item *item)
{
	printf("would write %s\n", item->path);
	if (item->kind != SETUP_FILE && item->kind != SETUP_CLUSTER)
		return;
	for (const char *line = item->text; *line;) {
		const int length = (int)strcspn(line, "\n");

		printf("    %.*s\n", length, line);
		line += length + (line[length] == '\n');
	}
}

int setup_write(struct setup *setup)
{
	bool is_there[SETUP_ITEMS_MAX] = {0};
	int ret;

	if (setup->is_short)
		return cli_fail("%s: out of memory", setup->verb);
	for (size_t i = 0; i < setup->nr_items; i++) {
		ret = look_at(setup, &setup->items[i], &is_there[i]);
		if (ret)
			return ret;
	}
	for (size_t i = 0; i < setup->nr_items; i++) {
		const struct setup_item *item = &setup->items[i];

		if (is_there[i])
			continue;
		if (setup->is_dry) {
			show(item);
			continue;
		}
		ret = lay_down(item);
		if (ret)
			return cli_fail("%s: write %s: %s%s", setup->verb, item->path,
					afar_strerror(-ret),
					setup->is_here && geteuid() != 0
						? "; run it as root, or say --root FOLDER"
						: "");
		if (item->kind != SETUP_FOLDER)
			printf("wrote %s\n", item->path);
	}
	return 0;
}

/* ---- Starting */

/* Returns whether systemd runs here, and knows the daemons' unit, which the package has. */
static bool has_units(const struct setup *setup)
{
	static const char *const places[] = {"/etc/systemd/system", "/usr/local/lib/systemd/system",
					     "/usr/lib/systemd/system", "/lib/systemd/system",
					     NULL};
	char found[PATH_MAX];

	return setup->is_here && access("/run/systemd/system", F_OK) == 0 &&
	       program_find("afard@.service", R_OK, places, found);
}

static int run(const char *const *words)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		execvp(words[0], (char *const *)(uintptr_t)words);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Says how to start the daemons where no systemd does. */
static void say_how(const struct setup *setup)
{
	const bool is_other = setup->is_here && geteuid() == 0 && getpwnam(DAEMONS_USER);
	char found[PATH_MAX], daemon[PATH_MAX];

	program_find_daemon(found);
	if (!realpath(found, daemon))
		memcpy(daemon, found, sizeof(daemon));
	puts(setup->is_here
		     ? "systemd does not run here, or has no unit afard@.service. Start, and have "
		       "started at each boot:"
		     : "Start, each by itself:");
	for (size_t i = 0; i < setup->nr_units; i++)
		printf("  %s%s --config %s/etc/afar/%s.ini\n",
		       is_other ? "runuser -u " DAEMONS_USER " -- " : "", daemon, setup->root,
		       setup->units[i]);
}

/* A server's unit has started when its manager has taken it in. The manager therefore starts before: if it does not, that is
 * said at once. */
int setup_start(struct setup *setup)
{
	char name[64];
	const char *const words[] = {"systemctl", "enable", "--now", name, NULL};

	if (!has_units(setup)) {
		say_how(setup);
		return 0;
	}
	for (size_t i = 0; i < setup->nr_units; i++) {
		snprintf(name, sizeof(name), "afard@%s.service", setup->units[i]);
		if (setup->is_dry)
			printf("would run systemctl enable --now %s\n", name);
		fflush(stdout);
		if (!setup->is_dry && run(words))
			return cli_fail("%s: all is written, but systemd does not start %s; see "
					"'journalctl -u %s', mend it, and give the command again",
					setup->verb, name, name);
	}
	return 0;
}
