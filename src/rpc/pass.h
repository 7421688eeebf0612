/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes: what lets a session onto a server's control channel. A pass is a TLS identity and the key that
 * goes with it; both follow from the server's signing key, so the manager can make them for its sessions
 * and the server can check them without knowing anybody. Who connects with one is that session.
 *
 * They expire by the age of the server's incarnation, in seconds: nobody's wall clock counts.
 * DESIGN: "who may do what"; the idea is Kerberos'.
 */
#ifndef RPC_PASS_H
#define RPC_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/key.h"

/* A server takes no pass and no capability that expires later than so from now: so it need not remember for
 * longer which sessions have ended. The manager's live for much shorter. */
#define PASS_LIFETIME_MAX_S 900U

#define SIGNING_KEY_BYTES 32 /* of a server's incarnation: known to it and the manager alone */

/* A pass for the session, good until the server is `expiry` seconds old. -ENOMEM. */
int pass_make(const uint8_t signing_key[SIGNING_KEY_BYTES], uint64_t session, uint32_t expiry,
	      struct key *out);

/* Whether `identity` has the form of a pass: then its session and expiry. */
bool pass_parse(const char *identity, uint64_t *session, uint32_t *expiry);

/* The key that goes with an identity. -ENOMEM. */
int pass_key(const uint8_t signing_key[SIGNING_KEY_BYTES], const char *identity,
	     uint8_t secret[KEY_BYTES]);

#endif
