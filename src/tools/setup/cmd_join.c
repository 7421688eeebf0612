/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar join`: has this machine lend memory and flash to a cluster that `afar init` began. It keeps the key that it is given,
 * writes the settings of a server and where the cluster is, and has systemd start the server.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setup.h"
#include "tools/cli/commands.h"

#define KEY_FILE     "/var/lib/afar/server/server.key"
#define KEY_DIGITS   64
#define KEY_TEXT_MAX 4096
#define WAIT_MS	     10000

/* ---- The key */

static int read_key(const char *file, char out[KEY_TEXT_MAX + 1])
{
	const bool is_stream = strcmp(file, "-") == 0;
	const char *name = is_stream ? "standard input" : file;
	const int fd = is_stream ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t taken = 0;

	if (fd < 0)
		return cli_fail("join: read the key file %s: %s", file, afar_strerror(errno));
	if (is_stream && isatty(fd))
		fputs("afar: paste the line of 'afar key add --server', and end it with "
		      "Ctrl-D:\n",
		      stderr);
	do {
		taken = read(fd, out + length, KEY_TEXT_MAX + 1 - length);
		length += taken > 0 ? (size_t)taken : 0;
	} while ((taken > 0 && length <= KEY_TEXT_MAX) || (taken < 0 && errno == EINTR));
	if (!is_stream)
		close(fd);
	if (taken < 0)
		return cli_fail("join: read the key from %s: %s", name, afar_strerror(errno));
	if (length > KEY_TEXT_MAX)
		return cli_fail("join: %s is larger than a key file can be", name);
	out[length] = '\0';
	return strlen(out) == length ? 0 : cli_fail("join: %s is not text", name);
}

/* A line NAME:KEY. */
static bool is_key(const char *line, size_t length)
{
	size_t nr = 0, digits = 0;

	while (nr < length && isgraph((unsigned char)line[nr]) && line[nr] != ':')
		nr++;
	if (!nr || nr > AFAR_PRINCIPAL_MAX || nr == length || line[nr] != ':')
		return false;
	for (line += nr + 1; isxdigit((unsigned char)line[digits]);)
		digits++;
	return digits == KEY_DIGITS && nr + 1 + digits == length;
}

static int check_key(const char *text)
{
	unsigned number = 0, nr = 0;

	for (const char *line = text; *line;) {
		const size_t length = strcspn(line, "\n");

		number++;
		if (length && !is_key(line, length))
			return cli_fail("join: line %u of the key is not NAME:KEY; give what "
					"'afar key add --server' has printed",
					number);
		nr += length > 0;
		line += length + (line[length] == '\n');
	}
	return nr ? 0
		  : cli_fail(
			    "join: there is no key; give what 'afar key add --server' has printed");
}

/* ---- The manager */

/* Opens a session with what is in the key file: a manager that takes the key for a server's answers -EACCES. */
static int ask(const char *address, const char *key_file)
{
	const struct afar_session_options options = {
		.size = sizeof(options), .key_file = key_file, .timeout_ms = WAIT_MS};
	struct afar_session *session;
	char uri[SETUP_HOST_MAX + 32];
	int ret;

	snprintf(uri, sizeof(uri), "afar://%s", address);
	ret = afar_session_open(uri, &options, &session);
	if (!ret)
		afar_session_close(session);
	return ret;
}

/* Asks the manager whether the key is good: a server with another one, or without a manager, would never be ready. `address`
 * is what setup_address() makes. */
static int try_key(const char *address, const char *key)
{
	const int fd = memfd_create("key", MFD_CLOEXEC);
	const int name_length = (int)strcspn(key + strspn(key, "\n"), ":");
	const size_t length = strlen(key);
	char file[64];
	int ret;

	if (fd < 0 || fchmod(fd, 0600) || write(fd, key, length) != (ssize_t)length) {
		ret = cli_fail("join: keep the key: %s", afar_strerror(errno));
		close(fd);
		return ret;
	}
	snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
	ret = ask(address, file);
	close(fd);
	switch (ret) {
	case -EACCES:
		return 0;
	case 0:
		return cli_fail("join: '%.*s' is a client's key; give what 'afar key add --server' "
				"has printed",
				name_length, key + strspn(key, "\n"));
	case -AFAR_EAUTH:
		return cli_fail("join: the manager at %s does not accept the key '%.*s'; give what "
				"'afar key add --server' has printed there",
				address, name_length, key + strspn(key, "\n"));
	case -AFAR_EMANAGER:
		return cli_fail(
			"join: no manager answers at %s; see that 'afar init' was run there, "
			"and that no firewall is between",
			address);
	default:
		return cli_fail("join: %s", afar_last_error());
	}
}

/* ---- The command */

static int lay_down(struct setup *setup, const struct setup_flags *set, const char *address,
		    const char *key)
{
	int status;

	setup_add_machine(setup, address);
	setup_add(setup, SETUP_FOLDER, true, "/var/lib/afar/server", "%s", "");
	setup_add(setup, SETUP_KEY, true, KEY_FILE, "%s", key);
	setup_add_server(setup, set, address, KEY_FILE);
	status = setup_write(setup);
	if (!status)
		status = setup_start(setup);
	if (!status && !setup->is_dry)
		printf("This machine is to lend to afar://%s; 'afar status' there shows it.\n",
		       address);
	return status;
}

static int join(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	char address[SETUP_HOST_MAX + 16], key[KEY_TEXT_MAX + 2] = "";
	struct setup_flags set = {0};
	struct setup setup;
	const struct cli_flag flags[] = {
		{"memory", "SIZE", "memory to lend at most (default: half of the machine's)",
		 &set.memory},
		{"flash", "DEVICE|SIZE", "flash to lend, too", &set.flash},
		{"name", "NAME", "the server's name (default: the machine's)", &set.name},
		{"root", "FOLDER", "write below this folder, and start nothing", &set.root},
		{"dry-run", NULL, "say what it would do, and do nothing", &set.is_dry},
		{0},
	};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	status = setup_address(command, arguments[0], address);
	if (status)
		return status;
	status = setup_begin(&setup, cli, command, &set);
	if (!status)
		status = read_key(arguments[1], key);
	if (!status)
		status = check_key(key);
	if (!status && !set.is_dry)
		status = try_key(address, key);
	if (!status)
		status = lay_down(&setup, &set, address, key);
	explicit_bzero(key, sizeof(key));
	setup_end(&setup);
	return status;
}

const struct cli_command join_commands[] = {
	{"join",
	 "HOST[:PORT] KEYFILE|- [--memory SIZE] [--flash DEVICE|SIZE] [--name NAME] "
	 "[--root FOLDER] [--dry-run]",
	 "have this machine lend to a cluster", join},
	{0},
};
