/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out which congestion control each side has, and makes them the same if it may. See congestion.h. */
#include "congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/listener.h"
#include "network.h"

static struct {
	char ours[FABRIC_CONGESTION_MAX];
	char others[FABRIC_CONGESTION_MAX]; /* of programs that are not told; empty: as ours */
	char outside
		[FABRIC_CONGESTION_MAX]; /* of the network that we have left; empty: we have not */
} now;

/* Asks which congestion control Afar's transport uses with the environment's setting. The servers
 * get that setting, too. */
static void ask_ours(char out[static FABRIC_CONGESTION_MAX])
{
	struct fabric_listener *listener;
	struct fabric *fabric;

	out[0] = '\0';
	if (fabric_open("tcp", &fabric))
		return;
	fabric->congestion = getenv("AFAR_CONGESTION");
	if (!fabric_listen(fabric, fabric->attributes.loopback, &listener)) {
		fabric_listener_congestion(listener, out);
		fabric_listener_close(listener);
	}
	fabric_close(fabric);
}

/* Asks which congestion control the kernel gives a connection that nobody has told which. */
static void ask_others(char out[static FABRIC_CONGESTION_MAX])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(address), name_length = FABRIC_CONGESTION_MAX;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int connecting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(out, 0, FABRIC_CONGESTION_MAX);
	if (listener >= 0 && connecting >= 0 &&
	    bind(listener, (const struct sockaddr *)&address, length) == 0 &&
	    listen(listener, 1) == 0 &&
	    getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
	    connect(connecting, (const struct sockaddr *)&address, length) == 0)
		(void)getsockopt(connecting, IPPROTO_TCP, TCP_CONGESTION, out, &name_length);
	if (connecting >= 0)
		close(connecting);
	if (listener >= 0)
		close(listener);
}

/* Only loopback may be left: a device has its addresses where it is. */
static bool is_over_loopback(void)
{
	const char *host = getenv("AFAR_TEST_HOST");

	return !host || !strncmp(host, "127.", strlen("127."));
}

void congestion_prepare(void)
{
	char outside[FABRIC_CONGESTION_MAX];

	if (!is_over_loopback())
		return;
	ask_ours(now.ours);
	ask_others(outside);
	if (!strcmp(now.ours, outside))
		return;
	if (!network_obstacle() && !network_be_alone(now.ours))
		memcpy(now.outside, outside, sizeof(outside));
	ask_others(outside);
	if (strcmp(now.ours, outside) != 0)
		memcpy(now.others, outside, sizeof(outside));
}

void congestion_apply(int fd)
{
	if (now.ours[0])
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now.ours,
				 (socklen_t)strlen(now.ours));
}

void congestion_describe(char *out, size_t size)
{
	char system[FABRIC_CONGESTION_MAX];

	ask_others(system);
	if (!now.ours[0])
		snprintf(out, size, "TCP %s", system);
	else if (now.others[0])
		snprintf(out, size, "TCP %s for Afar, %s for programs that are not told", now.ours,
			 now.others);
	else if (now.outside[0])
		snprintf(out, size, "TCP %s for all, in a network of their own (%s outside)",
			 now.ours, now.outside);
	else
		snprintf(out, size, "TCP %s", now.ours);
}
