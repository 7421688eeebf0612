/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capability is the manager's statement to one incarnation of one server. It says that a session
 * may have the keys of some extents, with which rights, and until when. A client carries it and
 * cannot change it. It gates the granting of keys; only fencing ends access. DESIGN: "who may do
 * what".
 */
#ifndef RPC_CAPABILITY_H
#define RPC_CAPABILITY_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/pass.h"

#define CAPABILITY_DIGEST_BYTES 32
#define CAPABILITY_MAC_BYTES	32

enum {
	RIGHT_READ = 0x1,
	RIGHT_WRITE = 0x2,
	RIGHT_ALL = 0x3,
};

/* On the wire, little-endian. */
struct rpc_capability {
	uint64_t session;
	uint64_t namespace;
	uint64_t generation;  /* of the layout */
	uint64_t incarnation; /* of the server */
	uint32_t rights;
	uint32_t expiry;			 /* age of the incarnation in seconds */
	uint8_t digest[CAPABILITY_DIGEST_BYTES]; /* of the extents */
	uint8_t mac[CAPABILITY_MAC_BYTES];	 /* HMAC-SHA256 of a label and the fields above */
} __attribute__((packed));
_Static_assert(sizeof(struct rpc_capability) == 104, "as docs/protocol.md says");

/* Computes SHA-256 over the numbers as little-endian 64-bit words. They must be ascending, each
 * once: -EINVAL, with a sentence, if they are not. -ENOMEM. */
int capability_digest(const uint64_t *extents, size_t nr_extents,
		      uint8_t digest[CAPABILITY_DIGEST_BYTES]);

/* Takes the fields in host order, fills in the MAC, and leaves the capability as it goes on the
 * wire. -ENOMEM. */
int capability_sign(struct rpc_capability *capability,
		    const uint8_t signing_key[SIGNING_KEY_BYTES]);

/* Checks length, MAC (in constant time), incarnation, rights and expiry, and fills `*out` in host
 * order. Returns 0, or -EACCES with a sentence and `*out` as it was. The caller checks session,
 * namespace and digest. */
int capability_verify(const void *bytes, size_t length,
		      const uint8_t signing_key[SIGNING_KEY_BYTES], uint64_t incarnation,
		      uint32_t age, struct rpc_capability *out);

#endif
