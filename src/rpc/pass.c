/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and reads passes. Called by the manager for its sessions and by servers at handshakes. */
#include "rpc/pass.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define LABEL "afar pass 1" /* nothing else that the signing key signs begins like this */

static void print_identity(uint64_t session, uint32_t expiry, char out[KEY_IDENTITY_MAX + 1])
{
	snprintf(out, KEY_IDENTITY_MAX + 1, "pass/%" PRIx64 "/%" PRIx32, session, expiry);
}

bool pass_parse(const char *identity, uint64_t *session, uint32_t *expiry)
{
	char again[KEY_IDENTITY_MAX + 1];

	if (sscanf(identity, "pass/%" SCNx64 "/%" SCNx32, session, expiry) != 2)
		return false;
	/* Accepts only one spelling of each number: no signs, no leading zeros, nothing after it,
	 * no overflow. */
	print_identity(*session, *expiry, again);
	return strcmp(identity, again) == 0;
}

int pass_key(const uint8_t signing_key[SIGNING_KEY_BYTES], const char *identity,
	     uint8_t secret[KEY_BYTES])
{
	unsigned char text[sizeof(LABEL) + KEY_IDENTITY_MAX + 1];
	unsigned char mac[EVP_MAX_MD_SIZE];
	int length = snprintf((char *)text, sizeof(text), "%s %s", LABEL, identity);
	unsigned mac_length = 0;

	if (length < 0 || (size_t)length >= sizeof(text) ||
	    !HMAC(EVP_sha256(), signing_key, SIGNING_KEY_BYTES, text, (size_t)length, mac,
		  &mac_length) ||
	    mac_length != KEY_BYTES)
		return error_fail(-ENOMEM, "pass: its key could not be computed");
	memcpy(secret, mac, KEY_BYTES);
	OPENSSL_cleanse(mac, sizeof(mac));
	return 0;
}

int pass_make(const uint8_t signing_key[SIGNING_KEY_BYTES], uint64_t session, uint32_t expiry,
	      struct key *out)
{
	memset(out, 0, sizeof(*out));
	print_identity(session, expiry, out->identity);
	return pass_key(signing_key, out->identity, out->secret);
}
