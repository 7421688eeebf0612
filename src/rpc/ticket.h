/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ticket is the private data of a client's data connection. Strangers must not get that far, so a
 * server accepts a data connection only with a ticket. It made that ticket for this session, a
 * moment ago, for one use. DESIGN: "who may do what".
 */
#ifndef RPC_TICKET_H
#define RPC_TICKET_H

#include <stddef.h>
#include <stdint.h>

#define TICKET_MAC_BYTES 16
#define TICKET_KEY_BYTES 32

/* On the wire, little-endian. */
struct rpc_ticket {
	uint64_t session;
	uint64_t incarnation; /* of the server */
	uint64_t nonce;
	uint32_t expiry;	       /* seconds of CLOCK_REALTIME, modulo 2^32 */
	uint8_t mac[TICKET_MAC_BYTES]; /* HMAC-SHA256 of the fields above, cut to 16 bytes */
} __attribute__((packed));
_Static_assert(sizeof(struct rpc_ticket) == 44, "verbs leaves 56 bytes of private data");

/* Takes the fields in host order, fills in the MAC, and leaves the ticket as it goes on the wire.
 * Returns 0 or -ENOMEM. */
int ticket_sign(struct rpc_ticket *ticket, const uint8_t key[TICKET_KEY_BYTES]);

/* Checks length, MAC (in constant time), incarnation and expiry of `bytes`, and fills `*out` in
 * host order. Returns 0, or -EACCES with a sentence. The caller checks that the nonce is used only
 * once. */
int ticket_verify(const void *bytes, size_t length, const uint8_t key[TICKET_KEY_BYTES],
		  uint64_t incarnation, uint32_t now, struct rpc_ticket *out);

#endif
