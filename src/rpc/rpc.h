/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control channel: calls between daemons and clients over TLS 1.3 with pre-shared keys. Both
 * ends of a connection can call. docs/protocol.md describes the frames, afar.proto the calls.
 *
 * A loop is one thread that sleeps in epoll and does everything: handshakes, reading, writing,
 * timers, handlers and callbacks. Handlers and callbacks must not block. Any thread may call the
 * functions below, the loop's own included, unless they say otherwise.
 *
 * This layer checks the form of everything that a peer sends: the frame's length, protobuf and
 * version. A request must have a call, and a reply must answer one of ours. The handler checks what
 * the fields mean.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key.h"
#include "rpc/afar.pb-c.h"

#define RPC_VERSION	 2
#define RPC_FRAME_MAX	 (64U << 20) /* bytes of one frame; a longer one ends the connection */
#define RPC_HANDSHAKE_MS 5000	     /* a stranger has this long to prove its key */

/* A request of one call, until the end of the block: RPC_REQUEST(STORE_ADD, store_add, &add). */
#define RPC_REQUEST(CALL, call, message)                                       \
	(&(Afar__Request){PROTOBUF_C_MESSAGE_INIT(&afar__request__descriptor), \
			  .call_case = AFAR__REQUEST__CALL_##CALL, .call = (message)})

struct rpc_loop;
struct rpc_connection;
struct rpc_listener;
struct rpc_call; /* a received request that waits for its reply */

/* Callbacks to a connection's owner. All run on the loop's thread. */
struct rpc_handlers {
	/* A request has come. Answer it exactly once with rpc_reply(), now or later, from any
	 * thread. `frame` is valid until this returns. NULL: every request is answered
	 * -EOPNOTSUPP. */
	void (*request)(struct rpc_connection *connection, const Afar__Frame *frame,
			struct rpc_call *call);
	/* The handshake is done, and calls can be made. May be NULL. */
	void (*opened)(struct rpc_connection *connection);
	/* The connection has ended; `status` says why (-AFAR_EAUTH, -AFAR_EVERSION,
	 * -AFAR_EMALFORMED, -ECONNREFUSED, -ECONNRESET, -ETIMEDOUT, …). All callbacks of its calls
	 * have run. This is the last callback: `connection` is released when it returns, unless the
	 * owner holds a reference. An accepted connection that never was open ends without this
	 * callback. May be NULL. */
	void (*closed)(struct rpc_connection *connection, int status);
};

/* ---- The loop */

/* Starts the thread, named `name`, with all signals blocked. */
int rpc_loop_start(const char *name, struct rpc_loop **out);
/* Closes everything on the loop, runs the callbacks, and ends the thread. Not from the loop's own
 * thread. */
void rpc_loop_stop(struct rpc_loop *loop);
/* Runs `run(argument)` on the loop's thread soon. Posts run in order. */
int rpc_loop_post(struct rpc_loop *loop, void (*run)(void *argument), void *argument);
/* Runs `run(argument)` once on the loop's thread, after `delay_ms`. Timers cannot be cancelled, so
 * the argument must outlive the timer. Timers that are pending when the loop stops do not run. */
int rpc_loop_timer(struct rpc_loop *loop, uint32_t delay_ms, void (*run)(void *argument),
		   void *argument);
/* Calls `ready(argument)` on the loop's thread whenever `fd` is readable, until rpc_loop_unwatch().
 * Call that one on the loop's thread. */
int rpc_loop_watch(struct rpc_loop *loop, int fd, void (*ready)(void *argument), void *argument);
void rpc_loop_unwatch(struct rpc_loop *loop, int fd);

/* ---- Connections */

/* The keys that may come in. `find` gives the key of an identity that a stranger claims, or returns
 * false. It runs on the loop's thread when a handshake begins, and again just before `opened`, and
 * must not block. A connection stays open when its key vanishes later; the owner must close it. */
struct rpc_keyring {
	bool (*find)(void *context, const char *identity, uint8_t secret[KEY_BYTES]);
	void *context;
};

/*
 * Listens on HOST:PORT (port 0: any), and lets in strangers that prove a key of the ring. The
 * ring's context must live until the listener is closed. `context` becomes each connection's.
 * Errors, with a sentence: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EINVAL (address).
 */
int rpc_listen(struct rpc_loop *loop, const char *address, const struct rpc_keyring *keyring,
	       const struct rpc_handlers *handlers, void *context, struct rpc_listener **out);
/* HOST:PORT with the real port. */
const char *rpc_listener_address(const struct rpc_listener *listener);
/* Stops listening. Open connections live on; those in their handshake are dropped. When it returns,
 * no other will be opened. It waits for the loop's thread, so hold no lock that a handler takes.
 * Call it before rpc_loop_stop(), which closes the remaining listeners. */
void rpc_listener_close(struct rpc_listener *listener);

/* Starts connecting; `opened` or `closed` follows. It resolves the name, so it may block for DNS.
 * The caller gets a reference of its own in `*out`. */
int rpc_connect(struct rpc_loop *loop, const char *host, uint16_t port, const struct key *key,
		const struct rpc_handlers *handlers, void *context, struct rpc_connection **out);
/* Closes the connection. `closed` follows on the loop's thread, with status 0, unless it has run.
 * Frames sent before still go out, if the peer takes them within a second. */
void rpc_connection_close(struct rpc_connection *connection);
/* References keep the struct alive, not the connection open. */
void rpc_connection_ref(struct rpc_connection *connection);
void rpc_connection_unref(struct rpc_connection *connection);

void *rpc_connection_context(const struct rpc_connection *connection);
void rpc_connection_set_context(struct rpc_connection *connection, void *context);
/* Returns "HOST:PORT" of the other end. */
const char *rpc_connection_peer(const struct rpc_connection *connection);
/* Returns the peer's principal, that is, the identity of the key that it proved. */
const char *rpc_connection_identity(const struct rpc_connection *connection);

/* ---- Calls */

/* Fields that go with a call, beside its request. */
struct rpc_envelope {
	uint64_t request_id; /* 0: the connection picks one, from 2^63 up */
	uint64_t session;
	uint64_t incarnation;
	uint64_t settled_below;
	uint64_t deadline; /* on clock_ns(); CLOCK_NEVER: none */
};

/*
 * Sends a request. Before `opened`, requests are kept, and go out then.
 *
 * `done` runs exactly once, on the loop's thread. It gets the frame that answered (valid until it
 * returns), or NULL and a status. -ETIMEDOUT: the deadline has passed. -ECONNRESET: the connection
 * ended, and the call may have been carried out. -ENOTCONN: the connection never was open.
 *
 * If nothing was sent, rpc_send() returns an error, with a sentence, and does not call `done`.
 * -ENOTCONN or -ECONNRESET: the connection has ended. -ETIMEDOUT: the deadline is past. -EEXIST: a
 * call with this request id still waits for its reply. -EMSGSIZE.
 */
typedef void rpc_done(void *argument, const Afar__Frame *reply, int status);
int rpc_send(struct rpc_connection *connection, const struct rpc_envelope *envelope,
	     Afar__Request *request, rpc_done *done, void *argument);

/*
 * Like rpc_send(), and waits for the reply. Not on the loop's thread. Returns the failure, or the
 * reply's status; if that is negative, its sentence becomes the thread's last error. On 0 `*reply`
 * is the caller's; free it with afar__frame__free_unpacked(). `reply` may be NULL.
 */
int rpc_call(struct rpc_connection *connection, const struct rpc_envelope *envelope,
	     Afar__Request *request, Afar__Frame **reply);

/* Answers a request, and frees `call`. `incarnation`: the answering daemon's. Does nothing else if
 * the connection has ended meanwhile. */
void rpc_reply(struct rpc_call *call, uint64_t incarnation, Afar__Reply *reply);
/* Answers with a status and, if that is negative, with the calling thread's last sentence. */
void rpc_reply_status(struct rpc_call *call, uint64_t incarnation, int status);
/* Returns the connection of the request; valid until the call is answered. */
struct rpc_connection *rpc_call_connection(const struct rpc_call *call);

/* ---- Frames, for the connection and for the fuzzer */

/*
 * Decodes one frame of `length` bytes (without the length word). 0, or with a sentence:
 * -AFAR_EVERSION (`*out` has the request id for the answer), -AFAR_EMALFORMED. Free `*out` with
 * rpc_frame_free().
 */
int rpc_frame_decode(const uint8_t *bytes, size_t length, Afar__Frame **out);

/* Return how to free a message, for PREFIX__free_unpacked(). The message is wiped, unless it is about files, which have
 * no secrets and may be long. */
ProtobufCAllocator *request_freer(const Afar__Request *request);
ProtobufCAllocator *reply_freer(const Afar__Reply *reply);
/* Frees a message likewise. NULL is allowed. */
void rpc_frame_free(Afar__Frame *frame);

#endif
