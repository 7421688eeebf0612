/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store alone, on a file of its own behind a gate (flash_gate.h). It has a client of the lane that is tested
 * (tested_lane.h), and gets orders that do not wait. A failure in here fails the test.
 */
#ifndef TESTS_STORE_BED_H
#define TESTS_STORE_BED_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/base/bytes.h"
#include "lib/fabric/data_client.h"
#include "server/stores/store_private.h"

#define FLASH_BYTES  (64 * MIB)
#define EXTENT_BYTES (2 * MIB)
#define NAMESPACE    5U

struct bed {
	char folder[32], path[64];
	struct store *store;
	struct data_client client;
	uint8_t *bytes; /* 1 MiB */
};

/* Lets in whoever shows a session, a namespace, and whether to write. */
int admit(void *context, const void *shown, size_t length, struct admission *out);
int open_at(const char *path, uint64_t create_bytes, struct store **out);
void open_store(struct bed *bed);
/* Makes all but the store. */
void bed_make(struct bed *bed);
void bed_open(struct bed *bed);
void bed_close(struct bed *bed);

/* Connect the client anew. */
void connect_for(struct bed *bed, uint64_t session, uint64_t namespace, bool may_write);
void connect_as(struct bed *bed, uint64_t session);

/* ---- Orders that do not wait */

struct order {
	sem_t ended;
	int status;
	struct store_keys keys;
	struct extent_key key;
	uint64_t extent;
};

void open_order(struct order *order);
int await_order(struct order *order);
void on_done(void *argument, int status);
void ask_key(struct bed *bed, struct order *order, uint64_t extent);
void release(struct bed *bed, struct order *order, uint64_t extent, bool is_unknown);
void trim(struct bed *bed, struct order *order, uint64_t extent);

struct made {
	struct order order;
	struct store_extent_info info;
};

void on_reserved(void *argument, int status, const struct store_extent_info *info);
/* Waits until it is made. */
int reserve_for(struct store *store, struct store_extent_info *info);
struct store_extent_info reserve(struct bed *bed);
struct extent_key key_of(struct bed *bed, uint64_t extent);
size_t nr_listed(struct bed *bed, struct store_extent_info *first);
void write_mib(struct bed *bed, const struct extent_key *key);

/* ---- Closing connections */

bool is_anyone(const void *argument, const struct admission *connection);
/* The argument is an order. */
void on_closed(void *argument);
/* Begins to close those that there are. */
void close_all(struct bed *bed, struct order *closed);

/* ---- Opening what there is */

/* Opens the device at `path`, and returns the first opening since which all ends were clean. */
uint64_t whole_since(const char *path);

#endif
