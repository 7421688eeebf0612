/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar init`: makes this machine the first of a cluster. It writes the settings of a manager and of a server, their
 * keys, and where the cluster is. It has systemd start both, and says what to do next.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "setup.h"
#include "tools/cli/commands.h"

#define SECRET_BYTES 32

/* Writes the address from which this machine reaches others to `out`. Nothing is sent: the kernel only chooses a way
 * to 192.0.2.1, which is nobody's. */
static bool find_address(char out[INET_ADDRSTRLEN])
{
	struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(9)}, own;
	socklen_t size = sizeof(own);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_found;

	if (fd < 0)
		return false;
	inet_pton(AF_INET, "192.0.2.1", &peer.sin_addr);
	is_found = connect(fd, (const struct sockaddr *)&peer, sizeof(peer)) == 0 &&
		   getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
		   inet_ntop(AF_INET, &own.sin_addr, out, INET_ADDRSTRLEN);
	close(fd);
	return is_found;
}

static bool is_any(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return address->sa_family == AF_INET &&
	       ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return address->sa_family == AF_INET &&
	       ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

/* Returns whether a socket can have the address: it is one of this machine's. */
static bool is_own(const struct addrinfo *address)
{
	const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_foreign;

	if (fd < 0)
		return true; /* nobody knows; the manager will say */
	is_foreign = bind(fd, address->ai_addr, address->ai_addrlen) && errno == EADDRNOTAVAIL;
	close(fd);
	return !is_foreign;
}

/* Checks that the manager can listen at `address`, which setup_address() has made; afterwards it would only be noticed when
 * all is written. The manager takes the first address that a name has, and so does this. */
static int check_own(const char *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	const bool has_brackets = *address == '[';
	const int length = (int)(strrchr(address, ':') - address) - 2 * has_brackets;
	char host[SETUP_HOST_MAX + 1];
	struct addrinfo *found;
	int ret;

	snprintf(host, sizeof(host), "%.*s", length, address + has_brackets);
	ret = getaddrinfo(host, "0", &hints, &found);
	if (ret)
		return cli_fail("init: find %s: %s", host, gai_strerror(ret));
	if (is_any(found->ai_addr) || !is_own(found))
		ret = cli_fail("init: %s is not an address of this machine; give the one at which "
			       "others reach it, and run it there",
			       host);
	else if (is_loopback(found->ai_addr))
		cli_note("%s is this machine for itself; no other can join at that address", host);
	freeaddrinfo(found);
	return ret;
}

/* Adds a key file of one fresh key. */
static int add_key(struct setup *setup, const char *path, const char *name)
{
	unsigned char secret[SECRET_BYTES];
	char digits[2 * SECRET_BYTES + 1];

	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return cli_fail("init: make a key: the system has no random numbers");
	for (size_t i = 0; i < sizeof(secret); i++)
		snprintf(digits + 2 * i, 3, "%02x", secret[i]);
	setup_add(setup, SETUP_MADE, true, path, "%s:%s\n", name, digits);
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(digits, sizeof(digits));
	return 0;
}

/* Settings come behind the keys and folders that they name, because a plan is laid down in its order. */
static int plan(struct setup *setup, const struct setup_flags *flags, const char *address,
		bool has_server)
{
	int ret;

	setup_add_machine(setup, address);
	setup_add(setup, SETUP_FOLDER, true, "/var/lib/afar/manager", "%s", "");
	ret = add_key(setup, "/var/lib/afar/manager/key", "admin");
	if (!ret)
		ret = add_key(setup, "/var/lib/afar/manager/server.key", "server");
	if (ret)
		return ret;
	setup_add(setup, SETUP_LINK, false, "/etc/afar/key", "%s/var/lib/afar/manager/key",
		  setup->root);
	setup_add(setup, SETUP_FILE, false, "/etc/afar/manager.ini",
		  "# Of afard@manager; afard.ini(5) has more settings.\n"
		  "[afard]\nrole = manager\ndata = %s/var/lib/afar/manager\n"
		  "# Metrics and a status page, for this machine alone:\nmetrics = 7480\n\n"
		  "[manager]\nlisten = %s\n",
		  setup->root, address);
	setup->units[setup->nr_units++] = "manager";
	if (has_server) {
		setup_add(setup, SETUP_FOLDER, true, "/var/lib/afar/server", "%s", "");
		setup_add_server(setup, flags, address, "/var/lib/afar/manager/server.key");
	}
	return 0;
}

static void say_next(const struct setup *setup, const char *address)
{
	char use[2 * PATH_MAX] = "";

	if (!setup->is_here)
		snprintf(use, sizeof(use), " --cluster afar://%s --key %s/etc/afar/key", address,
			 setup->root);
	printf("The cluster is afar://%s. Next, for each machine that lends, say m2:\n"
	       "  afar%s key add --server m2 | ssh root@m2 afar join %s -\n"
	       "and then, for a file system at /mnt:\n"
	       "  afar%s fs create home\n"
	       "  afar%s mount home /mnt\n"
	       "Its status page, for this machine alone, is http://127.0.0.1:7480/.\n",
	       address, use, address, use, use);
}

static int init(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	char own[INET_ADDRSTRLEN], address[SETUP_HOST_MAX + 16];
	struct setup_flags set = {0};
	struct setup setup;
	const char *no_server = NULL;
	const struct cli_flag flags[] = {
		{"memory", "SIZE", "memory to lend at most (default: half of the machine's)",
		 &set.memory},
		{"flash", "DEVICE|SIZE", "flash to lend, too", &set.flash},
		{"name", "NAME", "the server's name (default: the machine's)", &set.name},
		{"no-server", NULL, "a manager alone, which lends nothing", &no_server},
		{"root", "FOLDER", "write below this folder, and start nothing", &set.root},
		{"dry-run", NULL, "say what it would do, and do nothing", &set.is_dry},
		{0},
	};
	int nr, status;

	nr = cli_arguments(cli, command, flags, argc, argv, 0, 1, arguments, &status);
	if (nr < 0)
		return status;
	if (no_server && (set.memory || set.flash || set.name))
		return cli_misuse(command, "--memory, --flash and --name are of the server "
					   "that --no-server leaves out");
	if (nr == 0 && !find_address(own))
		return cli_misuse(command, "this machine has no way to others; give the "
					   "address at which they reach it");
	status = setup_address(command, nr ? arguments[0] : own, address);
	if (status)
		return status;
	status = setup_begin(&setup, cli, command, &set);
	if (!status && setup.is_here)
		status = check_own(address);
	if (!status)
		status = plan(&setup, &set, address, !no_server);
	if (!status)
		status = setup_write(&setup);
	if (!status)
		status = setup_start(&setup);
	if (!status)
		say_next(&setup, address);
	setup_end(&setup);
	return status;
}

const struct cli_command init_commands[] = {
	{"init",
	 "[HOST[:PORT]] [--memory SIZE] [--flash DEVICE|SIZE] [--name NAME] [--no-server] "
	 "[--root FOLDER] [--dry-run]",
	 "make this machine the first of a cluster", init},
	{0},
};
