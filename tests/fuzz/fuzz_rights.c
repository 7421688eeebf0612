/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds arbitrary bytes to what reads rights that clients carry. It feeds capability_verify(), which
 * meets any client of a server, and pass_parse(), which meets strangers at its handshake. Nothing that
 * was not signed is believed. Signed rights come back as they went in. A pass has one spelling. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/capability.h"
#include "rpc/pass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[SIGNING_KEY_BYTES] = {1, 2, 3};

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Fields that the manager signs itself: rights and expiry decide, each as it should. */
static void sign_and_verify(const uint8_t *data, size_t size)
{
	struct rpc_capability fields = {0}, signed_one, seen;
	int is_sensible;

	memcpy(&fields, data, size < sizeof(fields) ? size : sizeof(fields));
	signed_one = fields;
	is_sensible = fields.rights == RIGHT_READ || fields.rights == RIGHT_ALL;
	require(capability_sign(&signed_one, key) == 0);
	if (!is_sensible) {
		require(capability_verify(&signed_one, sizeof(signed_one), key, fields.incarnation,
					  0, &seen) == -EACCES);
		return;
	}
	require(capability_verify(&signed_one, sizeof(signed_one), key, fields.incarnation,
				  fields.expiry, &seen) == 0);
	require(seen.session == fields.session && seen.namespace == fields.namespace &&
		seen.generation == fields.generation && seen.incarnation == fields.incarnation &&
		seen.rights == fields.rights && seen.expiry == fields.expiry &&
		!memcmp(seen.digest, fields.digest, sizeof(seen.digest)));
	if (fields.expiry < UINT32_MAX)
		require(capability_verify(&signed_one, sizeof(signed_one), key, fields.incarnation,
					  fields.expiry + 1, &seen) == -EACCES);
}

static void parse_pass(const uint8_t *data, size_t size)
{
	char identity[KEY_IDENTITY_MAX + 1] = "";
	struct key again;
	uint64_t session;
	uint32_t expiry;

	memcpy(identity, data, size < KEY_IDENTITY_MAX ? size : KEY_IDENTITY_MAX);
	if (!pass_parse(identity, &session, &expiry))
		return;
	require(pass_make(key, session, expiry, &again) == 0);
	require(!strcmp(again.identity, identity));
	require(!key_is_principal(identity));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_capability seen;

	require(capability_verify(data, size, key, 1, 0, &seen) == -EACCES);
	sign_and_verify(data, size);
	parse_pass(data, size);
	return 0;
}
