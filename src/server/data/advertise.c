/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the address of this machine that the rest of the cluster can use. Called at each join. */
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/data/advertise.h"

/* Finds the address from which the kernel would send to `target`, by connecting a datagram socket,
 * which sends nothing. */
static bool source_address(const struct addrinfo *target, char *out, size_t size)
{
	struct sockaddr_storage source;
	socklen_t length = sizeof(source);
	bool is_found = false;
	int fd;

	fd = socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (connect(fd, target->ai_addr, target->ai_addrlen) == 0 &&
	    getsockname(fd, (struct sockaddr *)&source, &length) == 0)
		is_found = getnameinfo((struct sockaddr *)&source, length, out, (socklen_t)size,
				       NULL, 0, NI_NUMERICHOST) == 0;
	close(fd);
	return is_found;
}

static void own_host(const char *manager_host, uint16_t manager_port, char *out, size_t size)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	bool is_found = false;
	char service[8];

	snprintf(service, sizeof(service), "%u", manager_port);
	if (getaddrinfo(manager_host, service, &hints, &found) == 0) {
		is_found = source_address(found, out, size);
		freeaddrinfo(found);
	}
	if (!is_found && gethostname(out, size) != 0)
		snprintf(out, size, "localhost");
	out[size - 1] = '\0';
}

void advertise(const char *listening, const char *manager_host, uint16_t manager_port,
	       char out[ADVERTISE_MAX])
{
	const char *colon = strrchr(listening, ':');
	size_t length = colon ? (size_t)(colon - listening) : strlen(listening);
	char host[URI_HOST_MAX];
	bool is_wildcard;

	is_wildcard = (length == 7 && strncmp(listening, "0.0.0.0", length) == 0) ||
		      (length == 4 && strncmp(listening, "[::]", length) == 0);
	if (!is_wildcard || !colon) {
		snprintf(out, ADVERTISE_MAX, "%s", listening);
		return;
	}
	own_host(manager_host, manager_port, host, sizeof(host));
	snprintf(out, ADVERTISE_MAX, strchr(host, ':') ? "[%s]%s" : "%s%s", host, colon);
}
