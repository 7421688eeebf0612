/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of sockets.h, in a process of its own. */
#ifndef BENCH_SOCKETS_SERVER_H
#define BENCH_SOCKETS_SERVER_H

#include <stdint.h>

#include "sockets.h"

struct sockets_request {
	uint64_t offset;
	uint32_t is_write;
	uint32_t reserved;
};

struct sockets_server {
	enum sockets_way way;
	const char *path;
	int listener;
	unsigned nr_clients;
};

/* Accepts the clients and serves them, for good. `channel` gets a byte when it begins to accept. */
int sockets_server_main(int channel, void *server);
/* Serves connected clients by an io_uring, for good. Returns a negative code. */
int sockets_ring_serve(int file, const int *clients, unsigned nr_clients);

#endif
