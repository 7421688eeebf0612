/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of suite `peers` that keep values by keys. There is a server of their own, and a client
 * that does as little as a client can. The client speaks their text protocols itself, one request
 * at a time. It takes a value from the socket to where it is wanted, so that no library's copy
 * counts against the server.
 */
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "raw_fabric.h"

enum store_kind {
	STORE_REDIS,
	STORE_MEMCACHED,
};

struct store;

/* Returns the program that must be installed. */
const char *store_program(enum store_kind kind);

/* Starts a server on a Unix socket, or on a free port of 127.0.0.1, and connects to it. */
int store_open(enum store_kind kind, bool is_unix, uint64_t window_bytes, struct store **out);
/* NULL is allowed. */
void store_close(struct store *store);

/* Puts values of `size` bytes, as many as the window has room for, and checks that a get returns
 * them. */
int store_fill(struct store *store, uint64_t size);
/* Gets `transfer->nr` of the values of its size, one after another, round and round. */
int store_run(struct store *store, const struct transfer *transfer, uint64_t *elapsed_ns);

#endif
