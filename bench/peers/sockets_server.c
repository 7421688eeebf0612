/* SPDX-License-Identifier: BSD-3-Clause */
/* The servers with a thread for each client. */
#include "sockets_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/harness.h"
#include "harness/process.h"

#define STACK_BYTES ((size_t)128 << 10)

struct served {
	enum sockets_way way;
	int client;
	int file;
	char *memory; /* a page for the header, at its end, and a block: both come by one recv() */
};

static bool answer_read(const struct served *served, uint64_t offset, char *block)
{
	off_t at = (off_t)offset;

	if (served->way == SOCKETS_SENDFILE)
		return sendfile(served->client, served->file, &at, SOCKETS_BLOCK) == SOCKETS_BLOCK;
	return pread(served->file, block, SOCKETS_BLOCK, at) == SOCKETS_BLOCK &&
	       send(served->client, block, SOCKETS_BLOCK, MSG_NOSIGNAL) == SOCKETS_BLOCK;
}

static bool answer_write(const struct served *served, uint64_t offset, const char *block)
{
	static const uint64_t word = 1;

	return pwrite(served->file, block, SOCKETS_BLOCK, (off_t)offset) == SOCKETS_BLOCK &&
	       send(served->client, &word, sizeof(word), MSG_NOSIGNAL) == sizeof(word);
}

/* Receives until there are `length` bytes. */
static bool receive(const struct served *served, char *begin, size_t *have, size_t length,
		    size_t most)
{
	while (*have < length) {
		ssize_t nr = recv(served->client, begin + *have, most - *have, 0);

		if (nr <= 0)
			return false;
		*have += (size_t)nr;
	}
	return true;
}

static void *serve(void *argument)
{
	const struct served *served = argument;
	char *block = served->memory + SOCKETS_BLOCK;
	const size_t header = sizeof(struct sockets_request);
	const struct sockets_request *request =
		(const struct sockets_request *)(const void *)(block - header);
	bool goes_on = true;

	while (goes_on) {
		size_t have = 0;

		goes_on = receive(served, block - header, &have, header, header + SOCKETS_BLOCK);
		if (goes_on && request->is_write)
			goes_on = receive(served, block - header, &have, header + SOCKETS_BLOCK,
					  header + SOCKETS_BLOCK) &&
				  answer_write(served, request->offset, block);
		else if (goes_on)
			goes_on = answer_read(served, request->offset, block);
	}
	return NULL;
}

static int serve_by_threads(const struct sockets_server *server, int file, const int *clients)
{
	struct served *served = calloc(server->nr_clients, sizeof(*served));
	pthread_attr_t attributes;
	pthread_t thread;

	if (!served)
		return -ENOMEM;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (unsigned i = 0; i < server->nr_clients; i++) {
		served[i] = (struct served){server->way, clients[i], file,
					    aligned_alloc(SOCKETS_BLOCK, 2 * SOCKETS_BLOCK)};
		if (!served[i].memory || pthread_create(&thread, &attributes, serve, &served[i]))
			return -ENOMEM;
	}
	for (;;)
		pause(); /* the parent ends this process */
}

static int accept_all(const struct sockets_server *server, int *clients)
{
	const int one = 1;

	for (unsigned i = 0; i < server->nr_clients; i++) {
		clients[i] = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
		if (clients[i] < 0)
			return -errno;
		setsockopt(clients[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	return 0;
}

/* O_DSYNC is for writes alone. */
static int open_file(const struct sockets_server *server)
{
	int flags = server->way == SOCKETS_SENDFILE ? O_RDONLY : O_RDWR | O_DIRECT | O_DSYNC;
	int file = open(server->path, flags | O_CLOEXEC);

	/* Without this the kernel would read blocks that nobody asks for. */
	if (file >= 0 && server->way == SOCKETS_SENDFILE)
		posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
	return file < 0 ? -errno : file;
}

int sockets_server_main(int channel, void *argument)
{
	const struct sockets_server *server = argument;
	const struct child parent = {.channel = channel};
	int *clients = calloc(server->nr_clients, sizeof(*clients));
	int file = open_file(server);
	int ret = file < 0 ? file : clients ? 0 : -ENOMEM;

	if (!ret)
		ret = child_send(&parent, "", 1);
	if (!ret)
		ret = accept_all(server, clients);
	if (!ret && server->way == SOCKETS_RING)
		ret = sockets_ring_serve(file, clients, server->nr_clients);
	else if (!ret)
		ret = serve_by_threads(server, file, clients);
	free(clients);
	return ret ? 1 : 0;
}
