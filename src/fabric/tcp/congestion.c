/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control of data sockets. Each end chooses for what it sends: a name, "system" for whatever the kernel gives
 * the socket, or "auto". The last keeps the system's choice but where it is a bbr and the peer is
 * on this machine. A bbr paces by what it believes a link can carry, and loopback has no link.
 * Called when sockets are made; owns nothing.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/address.h"
#include "fabric/tcp/tcp.h"

#define AVAILABLE_FILE "/proc/sys/net/ipv4/tcp_available_congestion_control"
#define ALLOWED_FILE   "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
#define LIST_MAX       160 /* bytes of such a file that are shown */

static bool is_auto(const char *congestion)
{
	return !congestion || strcmp(congestion, "auto") == 0;
}

static bool is_system(const char *congestion)
{
	return congestion && strcmp(congestion, "system") == 0;
}

static int set(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0
		       ? 0
		       : -errno;
}

void tcp_congestion_get(int fd, char out[static FABRIC_CONGESTION_MAX])
{
	socklen_t length = FABRIC_CONGESTION_MAX;

	memset(out, 0, FABRIC_CONGESTION_MAX);
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &length) != 0)
		out[0] = '\0';
	out[FABRIC_CONGESTION_MAX - 1] = '\0';
}

static bool has_bbr(int fd)
{
	char name[FABRIC_CONGESTION_MAX];

	tcp_congestion_get(fd, name);
	return strncmp(name, "bbr", strlen("bbr")) == 0;
}

/* Without privilege cubic may be out of reach; then reno, which everybody may have, or all stays as it is. */
static void leave_bbr(int fd)
{
	if (set(fd, "cubic") != 0)
		(void)set(fd, "reno");
}

/* ---- Sockets. The earlier the better: a socket that bbr has begun on goes on being paced by the kernel. */

int tcp_congestion_connect(int fd, const char *congestion, const struct fabric_address *peer)
{
	if (is_system(congestion))
		return 0;
	if (!is_auto(congestion))
		return set(fd, congestion);
	if (has_bbr(fd) && fabric_address_is_here(peer))
		leave_bbr(fd);
	return 0;
}

/* Accepted sockets begin with the listener's. */
int tcp_congestion_listen(int fd, const char *congestion, const struct sockaddr_storage *own)
{
	if (is_system(congestion))
		return 0;
	if (!is_auto(congestion))
		return set(fd, congestion);
	if (has_bbr(fd) && fabric_address_is_loopback(own))
		leave_bbr(fd);
	return 0;
}

void tcp_congestion_accept(int fd, const char *congestion)
{
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_length = sizeof(own), peer_length = sizeof(peer);

	if (!is_auto(congestion) || !has_bbr(fd) ||
	    getsockname(fd, (struct sockaddr *)&own, &own_length) != 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &peer_length) != 0)
		return;
	if (fabric_address_is_loopback(&peer) || fabric_address_compare_hosts(&own, &peer) == 0)
		leave_bbr(fd);
}

/* ---- Names that people write */

static void read_list(const char *path, char out[static LIST_MAX])
{
	FILE *file = fopen(path, "re");

	out[0] = '\0';
	if (!file)
		return;
	if (!fgets(out, LIST_MAX, file))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	fclose(file);
}

static int refuse(const char *name, int status, char *problem, size_t size)
{
	char list[LIST_MAX];

	read_list(status == -EPERM ? ALLOWED_FILE : AVAILABLE_FILE, list);
	if (status == -EINVAL)
		snprintf(problem, size,
			 "'%.32s' is no name of a congestion control; use auto, system or one of: "
			 "%s",
			 name, list);
	else if (status == -EPERM)
		snprintf(problem, size,
			 "'%s' takes privilege here; have it added to "
			 "net.ipv4.tcp_allowed_congestion_control, or use auto, system or one of: "
			 "%s",
			 name, list);
	else if (status == -ENOENT)
		snprintf(problem, size,
			 "'%s' is not available here; have it loaded (modprobe tcp_%s), or use "
			 "auto, system or one of: %s",
			 name, name, list);
	else
		snprintf(problem, size, "'%s' cannot be tried: %s", name, afar_strerror(status));
	return -EINVAL;
}

static bool is_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length < FABRIC_CONGESTION_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
		       length;
}

int tcp_congestion_check(const char *name, char *problem, size_t size)
{
	int ret, fd;

	if (is_auto(name) || is_system(name))
		return 0;
	if (!is_name(name))
		return refuse(name, -EINVAL, problem, size);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : set(fd, name);
	if (fd >= 0)
		close(fd);
	return ret == 0 ? 0 : refuse(name, ret, problem, size);
}
