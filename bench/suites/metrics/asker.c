/* SPDX-License-Identifier: BSD-3-Clause */
/* See asker.h. A request is a connection of its own, and its answer ends with that. */
#include "asker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"

#define REQUEST                                                \
	"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: " \
	"application/openmetrics-text\r\nConnection: close\r\n\r\n"
#define ANSWERED "HTTP/1.1 200 "

struct asker {
	struct sockaddr_in places[ASKER_DAEMONS_MAX];
	unsigned nr;
	pthread_t thread;
	int wake; /* an eventfd, to end the thread */
	int nr_rounds, failure;
};

static int find_place(const char *address, struct sockaddr_in *out)
{
	char host[64];
	const char *port = strrchr(address, ':');

	*out = (struct sockaddr_in){.sin_family = AF_INET};
	if (!port)
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(port - address), address);
	out->sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
	return inet_pton(AF_INET, host, &out->sin_addr) == 1 ? 0 : -EINVAL;
}

/* Reads the answer to its end. */
static int read_answer(int fd)
{
	char bytes[65536];
	size_t length = 0;
	ssize_t got;

	do {
		got = recv(fd, bytes + (length < sizeof(ANSWERED) ? length : sizeof(ANSWERED)),
			   sizeof(bytes) - sizeof(ANSWERED), 0);
		length += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	if (got < 0)
		return -errno;
	return length > sizeof(ANSWERED) && !memcmp(bytes, ANSWERED, sizeof(ANSWERED) - 1)
		       ? 0
		       : -EPROTO;
}

static int ask(const struct sockaddr_in *place)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)place, sizeof(*place)) ||
	    send(fd, REQUEST, sizeof(REQUEST) - 1, MSG_NOSIGNAL) != sizeof(REQUEST) - 1)
		ret = -errno;
	if (!ret)
		ret = read_answer(fd);
	close(fd);
	return ret;
}

static void *ask_on(void *context)
{
	struct asker *asker = context;
	uint64_t next = clock_ns();
	struct pollfd waited = {.fd = asker->wake, .events = POLLIN};
	int left_ms;

	do {
		for (unsigned i = 0; i < asker->nr && !asker->failure; i++)
			asker->failure = ask(&asker->places[i]);
		asker->nr_rounds++;
		next += ASKER_PERIOD_NS;
		left_ms = clock_remaining_ms(next);
	} while (!asker->failure && poll(&waited, 1, left_ms) == 0);
	return NULL;
}

int asker_start(const char addresses[][64], unsigned nr, struct asker **out)
{
	struct asker *asker = calloc(1, sizeof(*asker));
	int ret = 0;

	if (!asker)
		return bench_fail(-ENOMEM, "no memory for the suite");
	asker->nr = nr;
	for (unsigned i = 0; i < nr && !ret; i++)
		ret = find_place(addresses[i], &asker->places[i]);
	asker->wake = eventfd(0, EFD_CLOEXEC);
	if (!ret && asker->wake < 0)
		ret = -errno;
	if (!ret)
		ret = -pthread_create(&asker->thread, NULL, ask_on, asker);
	if (ret) {
		if (asker->wake >= 0)
			close(asker->wake);
		free(asker);
		return bench_fail(ret, "asking for metrics: %s", strerror(-ret));
	}
	*out = asker;
	return 0;
}

int asker_stop(struct asker *asker)
{
	int ret;

	if (!asker)
		return 0;
	eventfd_write(asker->wake, 1);
	pthread_join(asker->thread, NULL);
	ret = asker->failure ? bench_fail(asker->failure, "asking for metrics: %s",
					  strerror(-asker->failure))
			     : asker->nr_rounds;
	close(asker->wake);
	free(asker);
	return ret;
}
