/* SPDX-License-Identifier: BSD-3-Clause */
/* Doors; see door.h. Called by `afar export`. */
#include "door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/cli/cli.h"

#define SOCKET_NAME "nbd.sock"

/* ---- Unix sockets */

/* Writes "nbd+unix:///?socket=PATH", with what is not plain in a path as %XX. */
static void write_unix_uri(struct door *door)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~/";
	char *end = stpcpy(door->uri, "nbd+unix:///?socket=");

	for (const char *at = door->path; *at; at++) {
		if (strchr(plain, *at)) {
			*end++ = *at;
			*end = '\0';
		} else {
			end += sprintf(end, "%%%02X", (unsigned char)*at);
		}
	}
}

/* Binds so that no other user can connect. Returns 0 or an errno. */
static int bind_privately(int fd, const struct sockaddr_un *address)
{
	mode_t before = umask(077);
	int ret = bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? errno : 0;

	umask(before);
	return ret;
}

/* Returns whether a socket is there that nobody listens at: that of a process that was killed. */
static bool is_abandoned(const struct sockaddr_un *address)
{
	struct stat stat;
	bool is_refused;
	int fd;

	if (lstat(address->sun_path, &stat) || !S_ISSOCK(stat.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	is_refused = fd >= 0 &&
		     connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		     errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return is_refused;
}

/* Returns 0 or an errno. */
static int listen_at(struct door *door, const struct sockaddr_un *address)
{
	int ret;

	door->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (door->fd < 0)
		return errno;
	ret = bind_privately(door->fd, address);
	if (ret == EADDRINUSE && is_abandoned(address) && unlink(address->sun_path) == 0)
		ret = bind_privately(door->fd, address);
	if (ret)
		return ret;
	snprintf(door->path, sizeof(door->path), "%s", address->sun_path);
	return listen(door->fd, SOMAXCONN) ? errno : 0;
}

static int open_unix(struct door *door, const char *asked, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int ret;

	if (strlen(path) >= sizeof(address.sun_path))
		return cli_fail("%s: the socket's path %s is too long; sockets have at most %zu "
				"bytes",
				asked, path, sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	ret = listen_at(door, &address);
	if (ret == EADDRINUSE)
		ret = cli_fail("%s: make the socket %s: something else is there; choose another "
			       "path with --socket",
			       asked, path);
	else if (ret)
		ret = cli_fail("%s: make the socket %s: %s; choose another path with --socket",
			       asked, path, afar_strerror(ret));
	if (ret) {
		door_close(door);
		return ret;
	}
	door->is_local = true;
	write_unix_uri(door);
	return 0;
}

int door_open_private(struct door *door, const char *asked)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX + sizeof(SOCKET_NAME)];

	*door = (struct door){.fd = -1};
	if (!base || *base != '/' || access(base, W_OK | X_OK) != 0)
		base = "/tmp";
	snprintf(door->folder, sizeof(door->folder), "%s/afar-export-XXXXXX", base);
	if (!mkdtemp(door->folder)) {
		door->folder[0] = '\0';
		return cli_fail("%s: make a folder for its socket in %s: %s; choose a place with "
				"--socket",
				asked, base, afar_strerror(errno));
	}
	snprintf(path, sizeof(path), "%s/%s", door->folder, SOCKET_NAME);
	return open_unix(door, asked, path);
}

int door_open_path(struct door *door, const char *asked, const char *path)
{
	char absolute[2 * PATH_MAX], here[PATH_MAX] = "";

	*door = (struct door){.fd = -1};
	if (*path != '/' && !getcwd(here, sizeof(here)))
		return cli_fail("%s: make the socket %s: %s; give its whole path", asked, path,
				afar_strerror(errno));
	snprintf(absolute, sizeof(absolute), "%s%s%s", here, *here ? "/" : "", path);
	return open_unix(door, asked, absolute);
}

/* ---- TCP */

static bool is_loopback(const struct sockaddr *address)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four;

	if (address->sa_family == AF_INET) {
		memcpy(&four, address, sizeof(four));
		return ntohl(four.sin_addr.s_addr) >> 24 == 127;
	}
	memcpy(&six, address, sizeof(six));
	return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

/* Returns 0 or an errno. */
static int listen_on(struct door *door, const struct addrinfo *info)
{
	const int yes = 1;

	door->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (door->fd < 0)
		return errno;
	setsockopt(door->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(door->fd, info->ai_addr, info->ai_addrlen) || listen(door->fd, SOMAXCONN))
		return errno;
	door->is_local = is_loopback(info->ai_addr);
	return 0;
}

/* Writes "nbd://ADDRESS:PORT", with the port that it has. */
static int write_tcp_uri(struct door *door, const char *address)
{
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	char port[NI_MAXSERV];
	const bool is_six = strchr(address, ':');

	if (getsockname(door->fd, (struct sockaddr *)&own, &length) ||
	    getnameinfo((struct sockaddr *)&own, length, NULL, 0, port, sizeof(port),
			NI_NUMERICSERV))
		return EIO;
	snprintf(door->uri, sizeof(door->uri), "nbd://%s%s%s:%s", is_six ? "[" : "", address,
		 is_six ? "]" : "", port);
	return 0;
}

int door_open_port(struct door *door, const char *asked, const char *address, uint16_t port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *info;
	char number[8];
	int ret;

	*door = (struct door){.fd = -1};
	snprintf(number, sizeof(number), "%u", port);
	ret = getaddrinfo(address, number, &hints, &info);
	if (ret)
		return cli_fail("%s: find the address %s: %s; give an address of this machine",
				asked, address, gai_strerror(ret));
	ret = listen_on(door, info);
	freeaddrinfo(info);
	if (!ret)
		ret = write_tcp_uri(door, address);
	if (!ret)
		return 0;
	door_close(door);
	return cli_fail("%s: listen on %s, port %u: %s; choose another --port or --address", asked,
			address, port, afar_strerror(ret));
}

void door_close(struct door *door)
{
	if (door->fd >= 0)
		close(door->fd);
	if (*door->path)
		unlink(door->path);
	if (*door->folder)
		rmdir(door->folder);
	*door = (struct door){.fd = -1};
}
