/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 with pre-shared keys over a non-blocking socket. One thread at a time uses a `struct
 * tls`; its connection's lock orders them.
 */
#ifndef RPC_TLS_H
#define RPC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/key.h"

struct tls;
struct tls_acceptor; /* shared by a listener's connections: finds the keys of peers */

/* Finds the key of an identity that a peer claims. True: `secret` has it. It is asked when a
 * handshake begins, and again when it ends, because the key may have been revoked meanwhile. */
typedef bool tls_find_key(void *context, const char *identity, uint8_t secret[KEY_BYTES]);

/* -ENOMEM. */
int tls_acceptor_open(tls_find_key *find, void *context, struct tls_acceptor **out);
/* Call it when all its connections are past their handshake or freed. */
void tls_acceptor_close(struct tls_acceptor *acceptor);

/* Begin TLS over the connected socket `fd`, which stays the caller's. -ENOMEM. */
int tls_accept(struct tls_acceptor *acceptor, int fd, struct tls **out);
int tls_connect(const struct key *key, int fd, struct tls **out);
void tls_free(struct tls *tls);

/*
 * Errors of these functions: -EAGAIN: the socket has to become readable or writable first.
 * -ECONNRESET: the peer is gone, or has closed in order. -AFAR_EMALFORMED: it sent something that
 * is not TLS 1.3. Or another errno of the socket.
 */

/* Continues the handshake. 0: both ends have proved the key. -AFAR_EAUTH: one has not. */
int tls_handshake(struct tls *tls);
/* Return the number of bytes moved, at least 1. After -EAGAIN, try a write again with the same
 * bytes. */
ssize_t tls_read(struct tls *tls, void *bytes, size_t size);
ssize_t tls_write(struct tls *tls, const void *bytes, size_t length);
/* Tells the peer that nothing follows, if there is room for that now, and no write is half done. */
void tls_close_notify(struct tls *tls);

/* Returns the identity that was proved, or before that the one claimed; empty: there is none. */
const char *tls_identity(const struct tls *tls);
/* Returns whether there was a key of the identity that the peer claimed. */
bool tls_is_known(const struct tls *tls);

#endif
