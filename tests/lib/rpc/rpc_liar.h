/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that has the good key but speaks by hand, over OpenSSL and a blocking socket: for what the
 * library itself would never send. It serves as a client and as a server.
 */
#ifndef TESTS_RPC_LIAR_H
#define TESTS_RPC_LIAR_H

#include <openssl/ssl.h>
#include <stddef.h>

#include "rpc/rpc.h"

struct liar {
	SSL_CTX *context;
	SSL *ssl;
	int fd;
};

/* On a socket, which is connected and the liar's from now on. */
void liar_open(struct liar *liar, const SSL_METHOD *method, int fd);
void liar_free(struct liar *liar);

void liar_send(struct liar *liar, const void *bytes, size_t length);
void liar_send_frame(struct liar *liar, const Afar__Frame *frame);
/* Returns the next frame, the caller's to free, or NULL when the other end has closed. */
Afar__Frame *liar_receive(struct liar *liar);

/* Makes a frame of a ping, of the caller's memory. */
void make_ping(Afar__Frame *frame, Afar__Request *request, Afar__Ping *ping);

#endif
