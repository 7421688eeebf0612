/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data port and the progress threads behind it: accept whoever shows a good ticket, move the
 * bytes of one-sided transfers on transports that need a hand for it, answer messages, and close
 * connections when their session ends.
 */
#ifndef SERVER_PROGRESS_H
#define SERVER_PROGRESS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/message.h"
#include "server/domains.h"
#include "server/tickets.h"

#define PROGRESS_THREADS_MAX 64U

struct progress;

struct progress_options {
	struct fabric *fabric;
	unsigned nr_fabric;	     /* its number in the domains */
	const char *address;	     /* HOST:PORT to listen on                        */
	unsigned nr_threads;	     /* 1 to PROGRESS_THREADS_MAX                     */
	uint32_t spin_us;	     /* a thread spins so long after work             */
	uint32_t nr_descriptors_max; /* the process has so many: no more connections; 0: any */
	uint64_t stage_bytes; /* of each thread, to stage moves through; 0: they are direct */
	uint32_t silence_ms;  /* strangers must say who they are within; 0: 10 s       */
	const cpu_set_t *processors; /* to run on, until progress_start() returns; NULL: any     */
	struct domains *domains;     /* to accept into */
	/* Whether a stranger who shows these bytes may connect, and as what: 0, or negative with a
	 * sentence. Runs on the thread that then owns the connection, just before it does. */
	int (*admit)(void *context, const void *shown, size_t length, struct admission *out);
	/* Does what a message of this connection's client asks for; on the connection's thread. The
	 * connection's memory is not anybody else's before this returns. */
	void (*serve)(void *context, const struct admission *admission,
		      const struct message_request *request, struct message_reply *reply);
	/* Where the bytes are that a message of this connection's client asks to be moved, or why they are not;
	 * on the connection's thread. They are not anybody else's before the connection is closed. */
	int (*locate)(void *context, const struct admission *admission,
		      const struct message_request *request, char **out);
	/* Runs on a progress thread when the number of connections changed. */
	void (*changed)(void *context);
	void *context;
};

/* Listens and starts the threads. Errors, with a sentence: those of fabric_listen(), -ENOMEM, -EAGAIN. */
int progress_start(const struct progress_options *options, struct progress **out);
/* Closes all connections and ends the threads; callbacks of progress_close() have run. */
void progress_stop(struct progress *progress);

/* HOST:PORT it listens on, with the real port. */
const char *progress_address(const struct progress *progress);
uint32_t progress_nr_connections(const struct progress *progress);
/* What the transport's queues have counted. */
void progress_count(const struct progress *progress, uint64_t *bytes_in, uint64_t *bytes_out);

/* Which congestion control the connections use at this end, several with commas between them; before there are any, those
 * that come. Empty: the transport has none. */
void progress_congestion(struct progress *progress, char out[static FABRIC_CONGESTIONS_MAX]);

/* Closing connections. What may fail is done ahead: -ENOMEM. Then either drop it, or: */
struct progress_closing;
int progress_closing_new(struct progress *progress, struct progress_closing **out);
void progress_closing_drop(struct progress_closing *closing);

/* Which connections, and what then. Both run on progress threads, the first on several at once. */
struct progress_order {
	bool (*concerns)(const void *argument, const struct admission *connection);
	void (*done)(void *argument);
	void *argument;
	/* Peers that were given memory, which closing does not take back, are waited for until they have let
	 * go of it, or died (fabric_endpoint_end()). Who has memory taken away that becomes nobody else's
	 * need not wait. */
	bool must_let_go;
};

/*
 * Closes the connections that the order concerns. `done` runs when that is so for all that were admitted
 * before this call: nothing that was posted on them can land any more. `done` comes in the order of the
 * calls, but for those that wait for peers. `closing` is taken over.
 */
void progress_close(struct progress_closing *closing, const struct progress_order *order);

#endif
