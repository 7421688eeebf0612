/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds arbitrary bytes to ticket_verify(), which meets strangers on a server's data port. None of them
 * is let in; fields that the server signs itself are, and come back as they were. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/ticket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[TICKET_KEY_BYTES] = {1, 2, 3};

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_ticket fields = {0}, ticket, seen;

	require(ticket_verify(data, size, key, 1, 0, &seen) == -EACCES);
	memcpy(&fields, data, size < sizeof(fields) ? size : sizeof(fields));
	ticket = fields;
	require(ticket_sign(&ticket, key) == 0);
	require(ticket_verify(&ticket, sizeof(ticket), key, fields.incarnation, fields.expiry,
			      &seen) == 0);
	require(seen.session == fields.session && seen.incarnation == fields.incarnation &&
		seen.nonce == fields.nonce && seen.expiry == fields.expiry);
	return 0;
}
