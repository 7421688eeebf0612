/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data port and its progress threads. They accept clients that show a good ticket, answer
 * messages, and close connections when their session ends. They move the bytes of one-sided
 * transfers on transports that need a processor for that.
 */
#ifndef SERVER_PROGRESS_H
#define SERVER_PROGRESS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/message.h"
#include "server/data/admission.h"
#include "server/memory/domains.h"

#define PROGRESS_THREADS_MAX 64U
#define PROGRESS_BESIDE_MAX  2U

struct progress;
struct connection;

/* The work that an engine has under way for a connection. */
struct progress_work {
	uint64_t session;
	unsigned nr_under_way; /* the engine counts what keeps the connection from being over */
	void *guest, *given;   /* the engine's own */
};
/* Returns that of a connection: its endpoint's owner (struct fabric_paged). */
struct progress_work *progress_work(void *owner);
/* Returns the name of the transport that a connection, which is open, came by. */
const char *progress_transport(const void *owner);

/*
 * Work that a thread does beside its connections: a store's. All calls come on the thread. A
 * connection that is closed is over only when the engine has nothing under way for it any more:
 * closings wait for that.
 */
struct progress_engine {
	/* Runs before the thread serves; may block. An error, with a sentence, is that of
	 * progress_start(). */
	int (*open)(void *context);
	/* Runs in each pass, and never blocks. True: something has ended. */
	bool (*poll)(void *context);
	/* A descriptor that becomes readable when `poll` has something to do, after a poll that had
	 * nothing. It may stay readable: it is watched for edges. -1: `poll` will have nothing any more. Asked for before each
	 * sleep. */
	int (*fd)(void *context);
	/* When `poll` is to be called again, even if the descriptor says nothing: on clock_ns();
	 * CLOCK_NEVER: not before that. NULL: never. */
	uint64_t (*due)(void *context);
	/* True: it has one request under way, which `poll` will end, and no other. */
	bool (*is_alone)(void *context);
	/* The connection is over: nothing is under way for it. */
	void (*left)(void *context, struct progress_work *work);
	/* Runs when all connections are over; may block. */
	void (*close)(void *context);
	void *context;
};

/* Names a message whose reply comes later. */
struct progress_message {
	struct connection *connection;
	unsigned slot;
};

struct progress_options {
	struct fabric *fabric;
	unsigned nr_fabric;  /* its number in the domains */
	const char *address; /* HOST:PORT to listen on */
	/* Further ways to the same threads, over other fabrics. One that cannot be opened is left
	 * out. */
	struct progress_way {
		struct fabric *fabric;
		unsigned nr_fabric;
		const char *address;
	} beside[PROGRESS_BESIDE_MAX];
	unsigned nr_beside;
	unsigned nr_threads;		      /* 1 to PROGRESS_THREADS_MAX; with an engine: 1 */
	const struct progress_engine *engine; /* NULL: none; must outlive the threads */
	uint32_t spin_us;		      /* how long a thread spins after its last work */
	uint32_t nr_descriptors_max; /* limit of the process; at it, no more connections; 0: none */
	/* of each thread's stage, through which all moves then go; 0: moves are direct */
	uint64_t stage_bytes;
	uint32_t silence_ms;	     /* strangers must show a ticket within this time; 0: 10 s */
	const cpu_set_t *processors; /* to run on; read until progress_start() returns; NULL: any */
	struct domains *domains;     /* connections are accepted into these */
	/* Decides whether a stranger that shows these bytes may connect, and for what. 0, or
	 * negative with a sentence. Runs on the thread that will own the connection, just before it
	 * does. */
	int (*admit)(void *context, const void *shown, size_t length, struct admission *out);
	/* Carries out a message of the connection's client. Runs on the connection's thread. No
	 * other holder gets the connection's memory before this returns. False: there is no reply
	 * yet, and progress_answer() for `message` brings it. */
	bool (*serve)(void *context, const struct admission *admission,
		      const struct message_request *request, struct message_reply *reply,
		      const struct progress_message *message);
	/* Finds the bytes that a message of the connection's client wants moved, or says why they
	 * cannot be. Runs on the connection's thread. No other holder gets the bytes before the
	 * connection is closed. NULL: nothing can be moved here. */
	int (*locate)(void *context, const struct admission *admission,
		      const struct message_request *request, char **out);
	/* The number of connections has changed. Runs on a progress thread. */
	void (*changed)(void *context);
	void *context;
};

/* Listens and starts the threads. Errors, with a sentence: those of fabric_listen(), -ENOMEM,
 * -EAGAIN. */
int progress_start(const struct progress_options *options, struct progress **out);
/* Closes all connections and ends the threads. All callbacks of progress_close() have run then. */
void progress_stop(struct progress *progress);

/* Returns the HOST:PORT that it listens on, with the real port. */
const char *progress_address(const struct progress *progress);
/* The ways to its threads: the first, and those beside it that could be opened, in their order. */
unsigned progress_nr_ways(const struct progress *progress);
void progress_way(const struct progress *progress, unsigned i, struct progress_way *out);
uint32_t progress_nr_connections(const struct progress *progress);
/* Returns the bytes that the transport's queues have counted. */
void progress_count(const struct progress *progress, uint64_t *bytes_in, uint64_t *bytes_out);

/* Lists the congestion controls that the connections use at this end, with commas between them.
 * Before there are connections: the one that they will use. Empty: the transport has none. */
void progress_congestion(struct progress *progress, char out[static FABRIC_CONGESTIONS_MAX]);

/* Gives the reply of a message for which `serve` returned false; of `reply` status and value count.
 * On the connection's thread, after `serve` has returned. */
void progress_answer(const struct progress_message *message, const struct message_reply *reply);

/* Runs `run(argument)` on the first thread, soon. If the threads end first, it runs while they
 * end. -ENOMEM. */
int progress_run(struct progress *progress, void (*run)(void *argument), void *argument);

/* Closing connections. Allocate first, because that may fail (-ENOMEM). Then either drop it, or
 * call progress_close(), which cannot fail. */
struct progress_closing;
int progress_closing_new(struct progress *progress, struct progress_closing **out);
void progress_closing_drop(struct progress_closing *closing);

/* An order to close connections. `concerns` selects them; it may run on several progress threads at
 * once. `done` runs on a progress thread when they are closed. */
struct progress_order {
	bool (*concerns)(const void *argument, const struct admission *connection);
	void (*done)(void *argument);
	void *argument;
	/* Closing alone does not take back memory that peers were given themselves. Set this to
	 * wait until they have let go of it, or died (fabric_endpoint_end()). It is not needed if
	 * the memory becomes nobody else's. */
	bool must_let_go;
};

/*
 * Closes the connections that the order concerns; takes `closing` over. `done` runs when that holds
 * for all connections admitted before this call: nothing that was posted on them can land any more.
 * `done` runs in the order of the calls, except for orders that wait for peers.
 */
void progress_close(struct progress_closing *closing, const struct progress_order *order);

#endif
