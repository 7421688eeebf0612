/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers to compare a store with. Each serves the blocks of a raw file over TCP on loopback, in
 * one of the ways that a program without Afar would. Nothing of them is Afar's. A request is a
 * header, with its block for a write; the answer is the block, or a word for a write.
 *
 * The clients are sockets of this process, driven by one thread that does not sleep, as a herd's.
 */
#ifndef BENCH_SOCKETS_H
#define BENCH_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#define SOCKETS_BLOCK 4096U

enum sockets_way {
	SOCKETS_THREADS,  /* a thread for each client: pread() and pwrite() with O_DIRECT, send() */
	SOCKETS_SENDFILE, /* a thread for each client: sendfile(), through the page cache */
	SOCKETS_RING,	  /* one thread and an io_uring: receives, reads and sends, O_DIRECT */
};

struct sockets;

struct sockets_order {
	unsigned nr_clients;
	bool is_write; /* each durable when it is answered; SOCKETS_THREADS alone */
	uint64_t span_ns;
};

struct sockets_result {
	uint64_t nr; /* requests that were answered in the span */
	uint64_t elapsed_ns;
	uint64_t server_cpu_ns; /* of all threads of the server, the kernel's part included */
};

/* Starts a server on the file, of `bytes`, a power of two, and connects the clients. Call it before
 * there are threads in this process. */
int sockets_open(enum sockets_way way, const char *path, uint64_t bytes, unsigned nr_clients,
		 struct sockets **out);
/* NULL is allowed. */
void sockets_close(struct sockets *sockets);

/* Drops the file from the page cache, and has some of the clients send one request after the other.
 * Each is for any block; none comes again before all have. */
int sockets_run(struct sockets *sockets, const struct sockets_order *order,
		struct sockets_result *result);

#endif
