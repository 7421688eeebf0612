/* SPDX-License-Identifier: BSD-3-Clause */
/* Signing and checking capabilities: the manager signs, servers check. */
#include "rpc/capability.h"

#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/error.h"

#define LABEL "afar capability 1" /* nothing else that the signing key signs begins like this */

int capability_digest(const uint64_t *extents, size_t nr_extents,
		      uint8_t digest[CAPABILITY_DIGEST_BYTES])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool is_made = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
	unsigned length = 0;
	size_t i;

	for (i = 0; i < nr_extents && is_made; i++) {
		uint64_t wire = htole64(extents[i]);

		if (i > 0 && extents[i] <= extents[i - 1])
			break;
		is_made = EVP_DigestUpdate(context, &wire, sizeof(wire)) == 1;
	}
	if (is_made && i == nr_extents)
		is_made = EVP_DigestFinal_ex(context, digest, &length) == 1 &&
			  length == CAPABILITY_DIGEST_BYTES;
	EVP_MD_CTX_free(context);
	if (!is_made)
		return error_fail(-ENOMEM, "capability: the digest could not be computed");
	if (i < nr_extents)
		return error_fail(-EINVAL, "capability: extents must be ascending, each once");
	return 0;
}

static int compute_mac(const struct rpc_capability *wire,
		       const uint8_t signing_key[SIGNING_KEY_BYTES],
		       uint8_t mac[CAPABILITY_MAC_BYTES])
{
	unsigned char text[sizeof(LABEL) + sizeof(*wire)];
	const size_t length = sizeof(LABEL) + offsetof(struct rpc_capability, mac);
	unsigned char full[EVP_MAX_MD_SIZE];
	unsigned mac_length = 0;

	memcpy(text, LABEL, sizeof(LABEL));
	memcpy(text + sizeof(LABEL), wire, offsetof(struct rpc_capability, mac));
	if (!HMAC(EVP_sha256(), signing_key, SIGNING_KEY_BYTES, text, length, full, &mac_length) ||
	    mac_length != CAPABILITY_MAC_BYTES)
		return -ENOMEM;
	memcpy(mac, full, CAPABILITY_MAC_BYTES);
	return 0;
}

int capability_sign(struct rpc_capability *capability, const uint8_t signing_key[SIGNING_KEY_BYTES])
{
	struct rpc_capability wire = *capability;

	wire.session = htole64(capability->session);
	wire.namespace = htole64(capability->namespace);
	wire.generation = htole64(capability->generation);
	wire.incarnation = htole64(capability->incarnation);
	wire.rights = htole32(capability->rights);
	wire.expiry = htole32(capability->expiry);
	if (compute_mac(&wire, signing_key, wire.mac))
		return error_fail(-ENOMEM, "capability: the MAC could not be computed");
	*capability = wire;
	return 0;
}

int capability_verify(const void *bytes, size_t length,
		      const uint8_t signing_key[SIGNING_KEY_BYTES], uint64_t incarnation,
		      uint32_t age, struct rpc_capability *out)
{
	struct rpc_capability said;
	uint8_t mac[CAPABILITY_MAC_BYTES];

	if (length != sizeof(said))
		return error_fail(-EACCES, "capability: %zu bytes where %zu are due", length,
				  sizeof(said));
	memcpy(&said, bytes, sizeof(said));
	if (compute_mac(&said, signing_key, mac) || CRYPTO_memcmp(mac, said.mac, sizeof(mac)))
		return error_fail(-EACCES, "capability: the manager did not sign it for this "
					   "incarnation of the server");
	said.session = le64toh(said.session);
	said.namespace = le64toh(said.namespace);
	said.generation = le64toh(said.generation);
	said.incarnation = le64toh(said.incarnation);
	said.rights = le32toh(said.rights);
	said.expiry = le32toh(said.expiry);
	if (said.incarnation != incarnation)
		return error_fail(-EACCES, "capability: it is for another incarnation");
	if (!(said.rights & RIGHT_READ) || (said.rights & ~(uint32_t)RIGHT_ALL))
		return error_fail(-EACCES, "capability: rights %x are none that there are",
				  said.rights);
	if (age > said.expiry)
		return error_fail(-EACCES,
				  "capability: it has expired; ask the manager for another");
	*out = said;
	return 0;
}
