/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass lets a session onto a server's control channel. It is a TLS identity and the key that goes
 * with it. Both follow from the server's signing key, so the manager can make passes for its
 * sessions, and the server can check them without a list. A peer that connects with a pass is that
 * session.
 *
 * Passes expire by the age of the server's incarnation, in seconds, so no wall clock counts.
 * DESIGN: "who may do what"; the idea is Kerberos'.
 */
#ifndef RPC_PASS_H
#define RPC_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/key.h"

/* A server refuses passes and capabilities that expire later than this from now, because it
 * remembers for just so long which sessions have ended. The manager makes its own live much
 * shorter. */
#define PASS_LIFETIME_MAX_S 900U

#define SIGNING_KEY_BYTES \
	32 /* of a server's incarnation; only the server and the manager know it */

/* Makes a pass for the session, valid until the server is `expiry` seconds old. -ENOMEM. */
int pass_make(const uint8_t signing_key[SIGNING_KEY_BYTES], uint64_t session, uint32_t expiry,
	      struct key *out);

/* True if `identity` has the form of a pass; then `session` and `expiry` are its parts. */
bool pass_parse(const char *identity, uint64_t *session, uint32_t *expiry);

/* Computes the key that goes with an identity. -ENOMEM. */
int pass_key(const uint8_t signing_key[SIGNING_KEY_BYTES], const char *identity,
	     uint8_t secret[KEY_BYTES]);

#endif
