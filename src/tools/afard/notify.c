/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of sd_notify(3): one datagram to the socket of $NOTIFY_SOCKET, a path or, behind an '@', a name of the
 * abstract space. Called by main() alone. A service manager that cannot be told waits and gives up by itself, so a
 * failure is only logged.
 */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static int send_to(const char *name, const char *state)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	const size_t length = strlen(name);
	ssize_t sent;
	int fd;

	if ((*name != '/' && *name != '@') || length >= sizeof(place.sun_path))
		return -EINVAL;
	memcpy(place.sun_path, name, length);
	if (*name == '@')
		place.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&place,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	if (sent < 0)
		sent = -errno;
	close(fd);
	return sent < 0 ? (int)sent : 0;
}

void notify(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int ret = name && *name ? send_to(name, state) : 0;

	if (ret)
		log_warn("tell the service manager at NOTIFY_SOCKET '%.108s': %s", name,
			 afar_strerror(-ret));
}
