/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam, for the end that listens: strangers, their requests to connect, and how long they
 * may be silent. Every transport can listen.
 */
#ifndef FABRIC_LISTENER_H
#define FABRIC_LISTENER_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* A stranger's request to connect. Accept it or reject it, exactly once. */
struct fabric_request {
	void *handle;
	char peer[FABRIC_ADDRESS_MAX];
	uint8_t private_data[FABRIC_PRIVATE_MAX];
	size_t private_length; /* longer data was cut to FABRIC_PRIVATE_MAX */
};

/* How long strangers may keep a connection open at a listener without a request to connect. */
struct fabric_patience {
	uint32_t silence_ms;
	uint32_t nr_per_host; /* beyond this number, a host's oldest may stay only for: */
	uint32_t crowd_ms;
};

struct fabric_listener {
	struct fabric *fabric;
	/* Where it listens, to be advertised: HOST:PORT, unix:PATH@MARK. */
	char address[FABRIC_ADDRESS_MAX];
};

struct fabric_listening_ops {
	/* Listens on HOST:PORT (port 0: any free one), or unix:PATH (no path: any free one).
	 * -EADDRINUSE, -EADDRNOTAVAIL. */
	int (*listen)(struct fabric *fabric, const char *address, struct fabric_listener **out);
	void (*close)(struct fabric_listener *listener);
	/* A descriptor that is readable when next() may have something. */
	int (*fd)(struct fabric_listener *listener);
	/* Takes the next request; never blocks. -EAGAIN: there is none, and it is safe to sleep on
	 * the fd. Other errors, with a sentence: nobody can be let in now; the fd tells when to try
	 * again. */
	int (*next)(struct fabric_listener *listener, struct fabric_request *out);
	/* Ends the connections of strangers who were silent for too long. A stranger's silence
	 * counts from the first sweep that finds it, or earlier. Returns how many silent strangers
	 * it found; sweep again for them. One thread at a time may sweep, while others use the
	 * listener. NULL: the transport lets strangers keep nothing open. */
	size_t (*sweep)(struct fabric_listener *listener, const struct fabric_patience *patience);
	/* The congestion control that accepted connections begin with, as the system says. NULL:
	 * none. */
	void (*congestion)(struct fabric_listener *listener,
			   char out[static FABRIC_CONGESTION_MAX]);
	/* Starts accepting; FABRIC_CONNECTED follows on the queue. The peer can use the keys of
	 * `domain` alone. After an error the request must still be rejected. */
	int (*accept)(struct fabric_request *request, struct fabric_queue *queue,
		      struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
	void (*reject)(struct fabric_listener *listener, struct fabric_request *request);
};

static inline int fabric_listen(struct fabric *fabric, const char *address,
				struct fabric_listener **out)
{
	return fabric->listening->listen(fabric, address, out);
}

static inline void fabric_listener_close(struct fabric_listener *listener)
{
	listener->fabric->listening->close(listener);
}

static inline int fabric_listener_fd(struct fabric_listener *listener)
{
	return listener->fabric->listening->fd(listener);
}

static inline int fabric_listener_next(struct fabric_listener *listener, struct fabric_request *out)
{
	return listener->fabric->listening->next(listener, out);
}

static inline size_t fabric_listener_sweep(struct fabric_listener *listener,
					   const struct fabric_patience *patience)
{
	const struct fabric_listening_ops *ops = listener->fabric->listening;

	return ops->sweep ? ops->sweep(listener, patience) : 0;
}

/* An empty string: the transport has none. */
static inline void fabric_listener_congestion(struct fabric_listener *listener,
					      char out[static FABRIC_CONGESTION_MAX])
{
	out[0] = '\0';
	if (listener->fabric->listening->congestion)
		listener->fabric->listening->congestion(listener, out);
}

static inline int fabric_accept(struct fabric_request *request, struct fabric_queue *queue,
				struct fabric_domain *domain, void *owner,
				struct fabric_endpoint **out)
{
	return queue->fabric->listening->accept(request, queue, domain, owner, out);
}

static inline void fabric_reject(struct fabric_listener *listener, struct fabric_request *request)
{
	listener->fabric->listening->reject(listener, request);
}

#endif
