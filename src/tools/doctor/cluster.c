/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster as it is reached from here: the manager answers, or does not; and a firewall stands before a server's ports,
 * or does not. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

#define CONNECT_MS 2000

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Ports */

static int connect_to(const struct addrinfo *address)
{
	const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd waiting = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t length = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)
		error = errno;
	else if (poll(&waiting, 1, CONNECT_MS) != 1)
		error = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
		error = errno;
	close(fd);
	return -error;
}

/* Returns 0, or why no connection to HOST:PORT can be made. */
static int try_address(const char *text)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	const char *colon = strrchr(text, ':');
	const bool has_brackets = *text == '[';
	struct addrinfo *found;
	char host[256];
	int ret;

	if (!colon || colon - text >= (ptrdiff_t)sizeof(host) || colon - text < 2)
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text) - 2 * has_brackets,
		 text + has_brackets);
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return -EINVAL;
	ret = connect_to(found);
	freeaddrinfo(found);
	return ret;
}

static void check_reach(struct doctor *doctor, const char *server, const char *what,
			const char *address)
{
	const int ret = try_address(address);

	if (ret == 0)
		doctor_say(doctor, VERDICT_OK, "reach", NULL, "%s: %s %s", server, what, address);
	else
		doctor_say(doctor, VERDICT_BAD, "reach",
			   "open the port in the firewalls between (docs/operations.md, Ports)",
			   "%s: %s %s cannot be reached: %s", server, what, address,
			   afar_strerror(ret));
}

static void check_lanes(struct doctor *doctor, const json_t *server)
{
	const char *name = text_of(server, "name");
	const json_t *lane;
	bool is_chosen = false;
	size_t i;

	check_reach(doctor, name, "control", text_of(server, "control_address"));
	json_array_foreach(json_object_get(server, "lanes"), i, lane)
	{
		is_chosen |= json_is_true(json_object_get(lane, "is_chosen"));
		if (strcmp(text_of(lane, "transport"), "tcp") == 0)
			check_reach(doctor, name, "lane tcp", text_of(lane, "address"));
	}
	if (!is_chosen)
		doctor_say(doctor, VERDICT_BAD, "reach", "give the server a lane over tcp",
			   "%s: this machine can use none of its lanes", name);
}

static void check_servers(struct doctor *doctor, const json_t *servers)
{
	const json_t *server;
	size_t i;

	json_array_foreach(servers, i, server)
	{
		if (json_is_true(json_object_get(server, "is_up")))
			check_lanes(doctor, server);
	}
}

void doctor_cluster(struct doctor *doctor, struct cli *cli)
{
	const struct afar_session_options options = {
		.size = sizeof(options),
		.key_file = cli->key_file,
		.timeout_ms = cli->timeout_ms,
		.path = cli->path,
	};
	json_t *status = NULL;
	char *text = NULL;
	int64_t before = 0;
	int ret;

	ret = afar_session_open(cli->cluster, &options, &cli->session);
	if (ret == 0) {
		before = now_ns();
		ret = afar_session_status(cli->session, &text);
	}
	if (ret == 0)
		status = json_loads(text, 0, NULL);
	if (!status) {
		doctor_say(doctor, VERDICT_BAD, "cluster", NULL, "%s",
			   ret ? afar_last_error() : "its status is not understood");
	} else {
		doctor_say(doctor, VERDICT_OK, "cluster", NULL, "the manager answers '%s'",
			   text_of(status, "principal"));
		doctor_status(doctor, status, before, now_ns());
		check_servers(doctor, json_object_get(status, "servers"));
	}
	json_decref(status);
	free(text);
	cli_close(cli, 0);
}
