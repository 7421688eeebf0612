/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's end of one data connection, for tests of servers. It connects, reads and writes one at
 * a time, and waits for the outcome of each. A failure in here, or a wait that takes too long,
 * fails the test.
 */
#ifndef TESTS_DATA_CLIENT_H
#define TESTS_DATA_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "rpc/message.h"

#define DATA_CLIENT_PATIENCE_MS 20000

struct data_client {
	struct fabric *fabric;
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint; /* NULL: none, or closed */
	uint64_t context;
};

void data_client_open(struct data_client *client);
void data_client_close(struct data_client *client);

/* One step of waiting: 1 with a completion, 2 with an event, 0 with neither after sleeping. */
int data_client_step(struct data_client *client, struct fabric_completion *completion,
		     struct fabric_event *event);

/*
 * Shows what `shown` has to who listens at the address. Returns 0 when the connection is there, or
 * what it was refused with; it is closed then.
 */
int data_client_connect(struct data_client *client, const char *address, const void *shown,
			size_t length);
void data_client_disconnect(struct data_client *client);
/* Waits until the peer has closed the connection. */
void data_client_await_closed(struct data_client *client);

/*
 * These transfer, in as many parts as the transport needs. They return 0 or what a part failed
 * with; after a failure the connection is closed.
 */
int data_client_transfer(struct data_client *client, int is_write, void *data, size_t length,
			 uint64_t remote, uint64_t key);
int data_client_write(struct data_client *client, const void *data, size_t length, uint64_t remote,
		      uint64_t key);
/* Writes one part, which is durable when this returns 0. */
int data_client_write_durable(struct data_client *client, const void *data, size_t length,
			      uint64_t remote, uint64_t key);
int data_client_read(struct data_client *client, void *data, size_t length, uint64_t remote,
		     uint64_t key);

/* Registers memory for messages, and for transfers of the test's own. */
struct fabric_memory data_client_lend(struct data_client *client, void *addr, size_t length);

/* Sends a message, which is in host order, and returns the reply's status and value. The caller must
 * have no other message under way. */
int data_client_ask(struct data_client *client, const struct message_request *request,
		    uint64_t *value);

/* Sends MESSAGE_SYNC to a store and returns the reply's status. `*opening` is the one that is
 * remembered, and then the present one. The caller must have no other message under way. */
int data_client_sync(struct data_client *client, uint64_t *opening);

#endif
