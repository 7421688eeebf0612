/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests of the fabric share a target and a client with a queue, over a real provider
 * (transport.h says which). The target is a thread of this process that lends memory and makes
 * progress. Each test gets its own pair. A failure in here fails the test.
 *
 * A target treats a connection as its private data says: "reject" is rejected, all else is
 * accepted.
 */
#ifndef TESTS_FABRIC_FIXTURE_H
#define TESTS_FABRIC_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/listener.h"
#include "lib/base/bytes.h"

#define DEPTH	 64
#define LENT	 (16 * MIB)
#define GRACE_MS 20000 /* a test that waits longer has failed */

struct target {
	struct fabric *fabric;
	struct fabric_listener *listener;
	struct fabric_queue *queue;
	uint8_t *data;			/* shared memory, which local needs */
	struct fabric_memory all;	/* of data: may be read and written          */
	struct fabric_memory read_only; /* of data: may be read                      */
	/*
	 * Covers the first 4096 bytes of data, or, where it must be a piece of its own, none
	 * of it: read and written.
	 */
	struct fabric_memory small;
	uint8_t *small_data;
	pthread_t thread;
	int stop_fd;
	unsigned nr_open;	    /* endpoints; the thread's                      */
	struct fabric_request last; /* read only after the connection it made is up */
	atomic_uint nr_requests;
};

struct client {
	struct target target;
	struct fabric *fabric;
	struct fabric_queue *queue;
};

/*
 * A place to listen at over local that no other process looks into, as they do into the usual one.
 */
struct folder {
	char path[32];
	char socket[48];		  /* in it */
	char address[FABRIC_ADDRESS_MAX]; /* of the socket */
};

struct folder make_folder(void);
/* Nothing is in it any more. */
void remove_folder(const struct folder *folder);

/* A target without its thread, on `address`. */
void target_open(struct target *target, const char *address);
void target_close(struct target *target);
/* Serves until target_stop(), and until all connections are gone: returns NULL then. */
void *target_run(void *target);
/* Ends the thread that runs target_run(), and the target. */
void target_stop(struct target *target);

/* For cmocka: makes a client with a running target, and ends them. */
int client_setup(void **state);
int client_teardown(void **state);

/* Waits for one event; completions meanwhile are dropped. */
struct fabric_event await_event(struct fabric_queue *queue);
void await_closed(struct fabric_endpoint *endpoint, int status);
/* Waits for one completion and leaves events alone. */
struct fabric_completion await_completion(struct fabric_queue *queue);

/* Starts connecting; connects; connects to the client's target. */
struct fabric_endpoint *connect_start(struct fabric_queue *queue, const char *address,
				      const char *private_data);
struct fabric_endpoint *connect_to(struct fabric_queue *queue, const char *address);
struct fabric_endpoint *client_connect(struct client *client);
/* A connection from the client's queue to a target without a thread: the test holds both ends. */
void connect_pair(struct client *client, struct target *other, struct fabric_endpoint **connecting,
		  struct fabric_endpoint **accepting);

/* For a piece of a transfer: registers the memory where that is needed, until the target's or the
 * client's fabric is closed. */
void *descriptor_of(struct fabric *fabric, void *data, size_t length);

/* Ends those registrations, and the fabric. */
void close_fabric(struct fabric *fabric);

/* Starts a transfer of one piece; makes one. */
int start_one(struct fabric_endpoint *endpoint, bool is_write, void *data, size_t length,
	      const struct fabric_memory *memory, uint64_t offset, uint64_t context);
void transfer_one(struct fabric_endpoint *endpoint, bool is_write, void *data, size_t length,
		  const struct fabric_memory *memory, uint64_t offset);

/* Memory that any transport can lend: the caller's to shared_unmap(). */
uint8_t *map_shared(size_t length);

uint8_t *allocate(size_t length);

#endif
