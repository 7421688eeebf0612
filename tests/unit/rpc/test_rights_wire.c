/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passes and capabilities: a server believes what the manager signs, for its incarnation and until it
 * expires. It believes nothing that is changed on the way, or signed for another.
 */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "rpc/capability.h"
#include "rpc/pass.h"
#include "unit/group.h"

#define INCARNATION 0x1122334455667788U
#define EXPIRY	    1000U

static const uint8_t signing_key[SIGNING_KEY_BYTES] = {7, 7, 7, 1};
static const uint8_t other_signing_key[SIGNING_KEY_BYTES] = {7, 7, 7, 2};
static const uint64_t extents[] = {3, 4, 70000, UINT64_MAX};
#define NR_EXTENTS (sizeof(extents) / sizeof(extents[0]))

/* ---- Capabilities */

static struct rpc_capability sign(uint32_t rights)
{
	struct rpc_capability capability = {
		.session = 11,
		.namespace = 12,
		.generation = 13,
		.incarnation = INCARNATION,
		.rights = rights,
		.expiry = EXPIRY,
	};

	assert_int_equal(capability_digest(extents, NR_EXTENTS, capability.digest), 0);
	assert_int_equal(capability_sign(&capability, signing_key), 0);
	return capability;
}

static int verify(const struct rpc_capability *capability, uint32_t age)
{
	struct rpc_capability out;

	return capability_verify(capability, sizeof(*capability), signing_key, INCARNATION, age,
				 &out);
}

static void test_capability_round_trip(void **state)
{
	struct rpc_capability wire = sign(RIGHT_ALL), out;
	uint8_t digest[CAPABILITY_DIGEST_BYTES];

	(void)state;
	assert_int_equal(capability_verify(&wire, sizeof(wire), signing_key, INCARNATION, 0, &out),
			 0);
	assert_int_equal(out.session, 11);
	assert_int_equal(out.namespace, 12);
	assert_int_equal(out.generation, 13);
	assert_int_equal(out.incarnation, INCARNATION);
	assert_int_equal(out.rights, RIGHT_ALL);
	assert_int_equal(out.expiry, EXPIRY);
	assert_int_equal(capability_digest(extents, NR_EXTENTS, digest), 0);
	assert_memory_equal(out.digest, digest, sizeof(digest));
	wire = sign(RIGHT_READ);
	assert_int_equal(verify(&wire, 0), 0);
}

/* The bytes that docs/protocol.md promises: a manager and a server of different machines must agree. */
static void test_capability_layout(void **state)
{
	struct rpc_capability wire = sign(RIGHT_ALL);
	const uint8_t *bytes = (const uint8_t *)&wire;
	static const uint8_t head[40] = {11,   0,    0, 0, 0,	 0,    0,    0,	   12,	 0,
					 0,    0,    0, 0, 0,	 0,    13,   0,	   0,	 0,
					 0,    0,    0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
					 0x22, 0x11, 3, 0, 0,	 0,    0xe8, 3,	   0,	 0};

	(void)state;
	assert_memory_equal(bytes, head, sizeof(head));
	assert_int_equal(offsetof(struct rpc_capability, digest), 40);
	assert_int_equal(offsetof(struct rpc_capability, mac), 72);
}

/* SHA-256 of the words 1 and 2, and HMAC-SHA-256 as made by another program. */
static void test_known_answers(void **state)
{
	static const uint64_t two[] = {1, 2};
	static const uint8_t digest_of_two[] = {
		0x0c, 0x73, 0x0b, 0x69, 0x90, 0x5c, 0x5e, 0xf7, 0xa4, 0xca, 0x52,
		0x69, 0xf7, 0x23, 0x65, 0x40, 0x0b, 0xde, 0x2d, 0xd2, 0xc0, 0x4e,
		0xaf, 0x9b, 0xbb, 0x3d, 0x1c, 0x4a, 0x26, 0x5a, 0x01, 0x31,
	};
	static const uint8_t mac[] = {
		0x76, 0x01, 0x9d, 0x3b, 0x77, 0xe8, 0x8b, 0x55, 0x71, 0x50, 0x82,
		0x8e, 0xc7, 0x98, 0x0f, 0x7a, 0xe6, 0x34, 0x7c, 0x7f, 0x42, 0x6e,
		0xc0, 0xd5, 0x27, 0x28, 0x81, 0xac, 0xd4, 0xdb, 0x67, 0xee,
	};
	static const uint8_t pass_secret[] = {
		0x91, 0x33, 0x43, 0x55, 0x51, 0xda, 0x3c, 0xf0, 0x7b, 0xab, 0xc2,
		0xbc, 0x2a, 0x1d, 0x5c, 0xbb, 0xbf, 0x79, 0x78, 0x52, 0xc7, 0x8f,
		0xa4, 0x3c, 0xd2, 0x9f, 0xa4, 0xb6, 0xd8, 0xf2, 0x0a, 0x06,
	};
	struct rpc_capability wire = {
		.session = 11,
		.namespace = 12,
		.generation = 13,
		.incarnation = INCARNATION,
		.rights = RIGHT_ALL,
		.expiry = EXPIRY,
	};
	struct key pass;

	(void)state;
	assert_int_equal(capability_digest(two, 2, wire.digest), 0);
	assert_memory_equal(wire.digest, digest_of_two, sizeof(digest_of_two));
	assert_int_equal(capability_sign(&wire, signing_key), 0);
	assert_memory_equal(wire.mac, mac, sizeof(mac));
	assert_int_equal(pass_make(signing_key, 0xabc, 0x1f, &pass), 0);
	assert_string_equal(pass.identity, "pass/abc/1f");
	assert_memory_equal(pass.secret, pass_secret, sizeof(pass_secret));
}

/* Every bit of it counts: each field is so covered, rights and expiry among them. */
static void test_capability_altered(void **state)
{
	struct rpc_capability good = sign(RIGHT_READ), bad;
	uint8_t *bytes = (uint8_t *)&bad;

	(void)state;
	for (size_t i = 0; i < 8 * sizeof(good); i++) {
		bad = good;
		bytes[i / 8] ^= (uint8_t)(1U << i % 8);
		assert_int_equal(verify(&bad, 0), -EACCES);
		assert_non_null(strstr(afar_last_error(), "did not sign it"));
	}
	assert_int_equal(verify(&good, 0), 0);
}

static void test_capability_widened(void **state)
{
	struct rpc_capability bad = sign(RIGHT_READ);

	(void)state;
	bad.rights |= htole32(RIGHT_WRITE);
	assert_int_equal(verify(&bad, 0), -EACCES);
}

/* Signed by a manager, but meaning nothing. */
static void test_capability_with_impossible_rights(void **state)
{
	static const uint32_t rights[] = {0, RIGHT_WRITE, 4, 5, 7, 0x80000003};

	(void)state;
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		struct rpc_capability bad = sign(rights[i]);

		assert_int_equal(verify(&bad, 0), -EACCES);
		assert_non_null(strstr(afar_last_error(), "rights"));
	}
}

static void test_capability_expires(void **state)
{
	struct rpc_capability wire = sign(RIGHT_ALL);

	(void)state;
	assert_int_equal(verify(&wire, EXPIRY - 1), 0);
	assert_int_equal(verify(&wire, EXPIRY), 0);
	assert_int_equal(verify(&wire, EXPIRY + 1), -EACCES);
	assert_non_null(strstr(afar_last_error(), "expired"));
	assert_int_equal(verify(&wire, UINT32_MAX), -EACCES);
}

static void test_capability_of_another_server(void **state)
{
	struct rpc_capability wire = sign(RIGHT_ALL), out;

	(void)state;
	assert_int_equal(
		capability_verify(&wire, sizeof(wire), other_signing_key, INCARNATION, 0, &out),
		-EACCES);
	assert_int_equal(
		capability_verify(&wire, sizeof(wire), signing_key, INCARNATION + 1, 0, &out),
		-EACCES);
	assert_non_null(strstr(afar_last_error(), "another incarnation"));
}

static void test_capability_of_another_length(void **state)
{
	uint8_t bytes[sizeof(struct rpc_capability) + 1] = {0};
	struct rpc_capability wire = sign(RIGHT_ALL), out;

	(void)state;
	memcpy(bytes, &wire, sizeof(wire));
	for (size_t length = 0; length <= sizeof(bytes); length++)
		assert_int_equal(
			capability_verify(bytes, length, signing_key, INCARNATION, 0, &out),
			length == sizeof(wire) ? 0 : -EACCES);
	assert_int_equal(capability_verify(NULL, 0, signing_key, INCARNATION, 0, &out), -EACCES);
}

/* A capability that did not verify leaves nothing to be used by mistake. */
static void test_capability_refused_gives_nothing(void **state)
{
	struct rpc_capability wire = sign(RIGHT_READ), out = {0}, none = {0};

	(void)state;
	wire.rights |= htole32(RIGHT_WRITE);
	assert_int_equal(capability_verify(&wire, sizeof(wire), signing_key, INCARNATION, 0, &out),
			 -EACCES);
	assert_memory_equal(&out, &none, sizeof(out));
}

static void test_digest_order(void **state)
{
	static const uint64_t swapped[] = {4, 3}, twice[] = {3, 3}, late[] = {1, 2, 3, 3};
	uint8_t digest[CAPABILITY_DIGEST_BYTES], other[CAPABILITY_DIGEST_BYTES];

	(void)state;
	assert_int_equal(capability_digest(swapped, 2, digest), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "ascending"));
	assert_int_equal(capability_digest(twice, 2, digest), -EINVAL);
	assert_int_equal(capability_digest(late, 4, digest), -EINVAL);
	assert_int_equal(capability_digest(extents, 2, digest), 0);
	assert_int_equal(capability_digest(extents, 3, other), 0);
	assert_memory_not_equal(digest, other, sizeof(digest));
	assert_int_equal(capability_digest(extents + 1, 2, other), 0);
	assert_memory_not_equal(digest, other, sizeof(digest));
	assert_int_equal(capability_digest(NULL, 0, other), 0);
}

/* ---- Passes */

static void test_pass_round_trip(void **state)
{
	static const uint64_t sessions[] = {1, 0xabc, INT64_MAX, UINT64_MAX};
	static const uint32_t expiries[] = {0, 1, 60, UINT32_MAX};
	uint8_t secret[KEY_BYTES];
	struct key pass;
	uint64_t session;
	uint32_t expiry;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		for (size_t j = 0; j < 4; j++) {
			assert_int_equal(pass_make(signing_key, sessions[i], expiries[j], &pass),
					 0);
			assert_true(pass_parse(pass.identity, &session, &expiry));
			assert_int_equal(session, sessions[i]);
			assert_int_equal(expiry, expiries[j]);
			assert_int_equal(pass_key(signing_key, pass.identity, secret), 0);
			assert_memory_equal(secret, pass.secret, KEY_BYTES);
			assert_false(key_is_principal(pass.identity));
		}
	}
}

/* Each session, each expiry and each server has keys of its own. */
static void test_pass_keys_differ(void **state)
{
	struct key first, other;

	(void)state;
	assert_int_equal(pass_make(signing_key, 5, 60, &first), 0);
	assert_int_equal(pass_make(signing_key, 6, 60, &other), 0);
	assert_memory_not_equal(first.secret, other.secret, KEY_BYTES);
	assert_int_equal(pass_make(signing_key, 5, 61, &other), 0);
	assert_memory_not_equal(first.secret, other.secret, KEY_BYTES);
	assert_int_equal(pass_make(other_signing_key, 5, 60, &other), 0);
	assert_string_equal(first.identity, other.identity);
	assert_memory_not_equal(first.secret, other.secret, KEY_BYTES);
}

/* An identity has one spelling, or one pass would be many. */
static void test_pass_spelling(void **state)
{
	static const char *const others[] = {
		"",
		"admin",
		"pass",
		"pass/",
		"pass/1",
		"pass/1/",
		"pass//1",
		"pass/1/2/",
		"pass/1/2 ",
		" pass/1/2",
		"pass/ 1/2",
		"pass/1/ 2",
		"pass/01/2",
		"pass/1/02",
		"pass/0x1/2",
		"pass/+1/2",
		"pass/-1/2",
		"pass/1/-2",
		"pass/A/2",
		"pass/1/F",
		"Pass/1/2",
		"pass/1/2x",
		"pass/1/100000000",
		"pass/1/1ffffffff",
		"pass/10000000000000000/1",
		"pass/ffffffffffffffffffff/1",
		"pass/1/ffffffffffffffffffffffffffffffffffffffffffffffff",
	};
	uint64_t session;
	uint32_t expiry;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (pass_parse(others[i], &session, &expiry))
			fail_msg("'%s' was taken for a pass", others[i]);
	}
	assert_true(pass_parse("pass/1/ffffffff", &session, &expiry));
	assert_true(pass_parse("pass/0/0", &session, &expiry));
}

/* A principal's name is none of a pass's identity, whatever it looks like. */
static void test_principals(void **state)
{
	static const char *const good[] = {"a", "admin", "Server-1.example", "me@here_",
					   "0123456789abcdef0123456789ABCDEF"};
	static const char *const bad[] = {
		"",	    "a b",	"a/b", "a:b",
		"pass/1/2", "\xc3\xa4", "a\n", "01234567890123456789012345678901x"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(key_is_principal(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(key_is_principal(bad[i]));
}

TEST_GROUP(rights_wire)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capability_round_trip),
		cmocka_unit_test(test_capability_layout),
		cmocka_unit_test(test_known_answers),
		cmocka_unit_test(test_capability_altered),
		cmocka_unit_test(test_capability_widened),
		cmocka_unit_test(test_capability_with_impossible_rights),
		cmocka_unit_test(test_capability_expires),
		cmocka_unit_test(test_capability_of_another_server),
		cmocka_unit_test(test_capability_of_another_length),
		cmocka_unit_test(test_capability_refused_gives_nothing),
		cmocka_unit_test(test_digest_order),
		cmocka_unit_test(test_pass_round_trip),
		cmocka_unit_test(test_pass_keys_differ),
		cmocka_unit_test(test_pass_spelling),
		cmocka_unit_test(test_principals),
	};

	return cmocka_run_group_tests_name("rights_wire", tests, NULL, NULL);
}
