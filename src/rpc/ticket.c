/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signing and checking tickets. A server signs them for its clients and checks what strangers show
 * on its data port; the key never leaves the server.
 */
#include "rpc/ticket.h"

#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/error.h"

/* Computes the MAC of a ticket in wire order. */
static int ticket_mac(const struct rpc_ticket *wire, const uint8_t key[TICKET_KEY_BYTES],
		      uint8_t mac[TICKET_MAC_BYTES])
{
	uint8_t full[EVP_MAX_MD_SIZE];
	unsigned length = 0;

	if (!HMAC(EVP_sha256(), key, TICKET_KEY_BYTES, (const unsigned char *)wire,
		  offsetof(struct rpc_ticket, mac), full, &length) ||
	    length < TICKET_MAC_BYTES)
		return -ENOMEM;
	memcpy(mac, full, TICKET_MAC_BYTES);
	return 0;
}

static struct rpc_ticket to_wire(const struct rpc_ticket *ticket)
{
	struct rpc_ticket wire = *ticket;

	wire.session = htole64(ticket->session);
	wire.incarnation = htole64(ticket->incarnation);
	wire.nonce = htole64(ticket->nonce);
	wire.expiry = htole32(ticket->expiry);
	return wire;
}

int ticket_sign(struct rpc_ticket *ticket, const uint8_t key[TICKET_KEY_BYTES])
{
	struct rpc_ticket wire = to_wire(ticket);

	if (ticket_mac(&wire, key, wire.mac))
		return error_fail(-ENOMEM, "ticket: the MAC could not be computed");
	*ticket = wire;
	return 0;
}

int ticket_verify(const void *bytes, size_t length, const uint8_t key[TICKET_KEY_BYTES],
		  uint64_t incarnation, uint32_t now, struct rpc_ticket *out)
{
	uint8_t mac[TICKET_MAC_BYTES];
	struct rpc_ticket wire;

	if (length != sizeof(wire))
		return error_fail(-EACCES, "ticket: %zu bytes where %zu are due", length,
				  sizeof(wire));
	memcpy(&wire, bytes, sizeof(wire));
	if (ticket_mac(&wire, key, mac) || CRYPTO_memcmp(mac, wire.mac, sizeof(mac)))
		return error_fail(-EACCES, "ticket: this server did not sign it");
	if (le64toh(wire.incarnation) != incarnation)
		return error_fail(-EACCES, "ticket: it is from before this server's restart");
	/* Modulo 2^32: a time is past if it lies in the half before `now`. */
	if ((int32_t)(le32toh(wire.expiry) - now) < 0)
		return error_fail(-EACCES, "ticket: it has expired; ask for another");
	out->session = le64toh(wire.session);
	out->incarnation = incarnation;
	out->nonce = le64toh(wire.nonce);
	out->expiry = le32toh(wire.expiry);
	memcpy(out->mac, wire.mac, sizeof(out->mac));
	return 0;
}
