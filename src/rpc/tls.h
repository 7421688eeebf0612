/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 with pre-shared keys over a non-blocking socket. A `struct tls` is used by one thread at a
 * time: its connection's lock sees to that.
 */
#ifndef RPC_TLS_H
#define RPC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/key.h"

struct tls;
struct tls_acceptor; /* what a listener's connections share: who knows the keys that let in */

/* Finds the key of an identity that a peer claims: true and the key. Asked when a handshake begins and,
 * as the key may have been revoked meanwhile, when it ends. */
typedef bool tls_find_key(void *context, const char *identity, uint8_t secret[KEY_BYTES]);

/* -ENOMEM. */
int tls_acceptor_open(tls_find_key *find, void *context, struct tls_acceptor **out);
/* All its connections must be past their handshake or freed. */
void tls_acceptor_close(struct tls_acceptor *acceptor);

/* TLS over the connected socket `fd`, which stays the caller's. -ENOMEM. */
int tls_accept(struct tls_acceptor *acceptor, int fd, struct tls **out);
int tls_connect(const struct key *key, int fd, struct tls **out);
void tls_free(struct tls *tls);

/*
 * These return -EAGAIN when the socket has to become readable or writable first, -ECONNRESET when the
 * peer is gone (its orderly close included), -AFAR_EMALFORMED when it sent what is not TLS 1.3, or
 * another errno of the socket.
 */

/* 0: both ends have proved the key. -AFAR_EAUTH: one has not. */
int tls_handshake(struct tls *tls);
/* Bytes moved, at least 1. After -EAGAIN a write is to be tried again with the same bytes. */
ssize_t tls_read(struct tls *tls, void *bytes, size_t size);
ssize_t tls_write(struct tls *tls, const void *bytes, size_t length);
/* Tells the peer that nothing follows, if there is room for that now and no write is half done. */
void tls_say_goodbye(struct tls *tls);

/* The identity that was proved, or before that the one claimed; empty when there is none. */
const char *tls_identity(const struct tls *tls);

#endif
