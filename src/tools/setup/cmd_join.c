/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar join`: has this machine lend memory and flash to a cluster that `afar init` began. It keeps the key that it is given,
 * writes the settings of a server and where the cluster is, and has systemd start the server.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
	const char *colon = memchr(line, ':', length);
	size_t nr = 0;

	if (!colon || colon == line || (size_t)(colon - line) > AFAR_PRINCIPAL_MAX)
		return false;
	while (colon + 1 + nr < line + length && isxdigit((unsigned char)colon[1 + nr]))
		nr++;
	return nr == KEY_DIGITS && colon + 1 + nr == line + length;
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

/* Waits until a connection is made. Returns 0 or a negative errno. */
static int finish_connect(int fd)
{
	struct pollfd made = {.fd = fd, .events = POLLOUT};
	socklen_t size = sizeof(int);
	int nr, error = 0;

	do
		nr = poll(&made, 1, WAIT_MS);
	while (nr < 0 && errno == EINTR);
	if (nr <= 0)
		return nr ? -errno : -ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? -errno : -error;
}

static int try_address(const struct addrinfo *address)
{
	const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, address->ai_addr, address->ai_addrlen))
		ret = errno == EINPROGRESS ? finish_connect(fd) : -errno;
	close(fd);
	return ret;
}

/* Looks whether somebody answers there: a server would wait for its manager for ever. `address` is what setup_address()
 * makes. */
static int reach(const char *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const bool has_brackets = *address == '[';
	struct addrinfo *found;
	const char *port = strrchr(address, ':');
	char host[SETUP_HOST_MAX + 1];
	int ret;

	snprintf(host, sizeof(host), "%.*s", (int)(port - address) - 2 * has_brackets,
		 address + has_brackets);
	ret = getaddrinfo(host, port + 1, &hints, &found);
	if (ret)
		return cli_fail("join: find %s: %s", host, gai_strerror(ret));
	ret = -EADDRNOTAVAIL;
	for (const struct addrinfo *each = found; each && ret; each = each->ai_next)
		ret = try_address(each);
	freeaddrinfo(found);
	return ret ? cli_fail("join: nobody answers at %s (%s); see that 'afar init' was run "
			      "there, and that no firewall is between",
			      address, afar_strerror(-ret))
		   : 0;
}

/* ---- The command */

static int lay_down(struct setup *setup, const struct setup_flags *set, const char *address,
		    const char *key)
{
	int status;

	setup_add(setup, SETUP_FOLDER, false, "/etc/afar", "%s", "");
	setup_add(setup, SETUP_FOLDER, true, "/var/lib/afar", "%s", "");
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
	char address[SETUP_HOST_MAX + 16], key[KEY_TEXT_MAX + 2];
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
	status = setup_begin(&setup, command, "join", &set);
	if (!status)
		status = read_key(arguments[1], key);
	if (!status)
		status = check_key(key);
	if (!status && !set.is_dry)
		status = reach(address);
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
