/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fabric in which nothing moves until a test says so, and a session, targets and queues on it. It
 * is for tests of what queues do with operations. A test makes transfers complete or fail one by
 * one, in any order. A failure in here fails the test.
 */
#ifndef TESTS_FAKE_FABRIC_H
#define TESTS_FAKE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/queue/queue.h"
#include "client/session/buffer.h"

#define FAKE_TRANSFERS_MAX 256
#define FAKE_SERVERS	   3
#define FAKE_UNIT	   4096U
#define FAKE_CONNECTION	   100U /* the number of the connection to the first server */

struct fake_transfer {
	uint64_t context;
	struct fabric_endpoint *endpoint;
	void *addr; /* of its first piece; of a message: what its operand is the number of */
	bool is_write;
	bool is_swap; /* of an atomic: that, with both; else operand alone */
	uint64_t operand, compare;
	const struct message_request *request; /* of a message; NULL: it is none */
	struct message_reply *reply;	       /* where the receive is that will take it */
};

struct fake_receive {
	struct fabric_endpoint *endpoint;
	struct message_reply *reply;
};

struct fake_world {
	struct fabric fabric;
	struct fabric_domain domain;
	struct fabric_queue fabric_queue;
	struct fabric_endpoint endpoints[FAKE_SERVERS];
	int fd;
	struct fake_transfer transfers[FAKE_TRANSFERS_MAX]; /* in flight, in order of posting */
	unsigned nr_transfers;
	struct fake_transfer late[FAKE_TRANSFERS_MAX]; /* that closing has ended, the last */
	unsigned nr_late;
	unsigned room;	      /* transfers in flight at most */
	int post_error;	      /* of the next post, once */
	unsigned nr_posted;   /* ever */
	unsigned nr_together; /* of these, between hold and release */
	bool is_holding;
	void (*posting)(const struct fake_transfer *transfer);
	struct fake_receive
		receives[FAKE_TRANSFERS_MAX]; /* without a message, in order of posting */
	unsigned nr_receives;
	char *operands;			     /* the address of operand 0 */
	struct fabric_completion completion; /* to be polled next */
	unsigned nr_completions;	     /* of these */
	struct fabric_event event;	     /* the next; without an endpoint: none */

	struct afar_session session;
	struct peer peers[FAKE_SERVERS];
	struct peer_reach reaches[FAKE_SERVERS];
	struct afar_queue *queue;
};
extern struct fake_world world;

/* Its operations, for a test that replaces some. */
extern const struct fabric_ops fake_ops;

/* Makes all of it anew: a session with a queue of that depth. */
void fake_open(uint32_t depth, bool writes_need_flush);
/* Everything in the queue has ended. */
void fake_close(void);

/* A target striped over `nr_servers` servers from `first`. Connections are another matter. */
struct afar_target *fake_target(uint32_t first, uint32_t nr_servers);
void fake_target_free(struct afar_target *target);

/* Connects the queue to a server, anew or again. */
void fake_connect(uint32_t server);

/* Lets one transfer in flight end, with a status. Its queue has seen it afterwards. */
void fake_complete(unsigned i, int status);
void fake_complete_all(void);
/* Lets the completions of all that the last close has ended come out. */
void fake_complete_late(int status);

#endif
