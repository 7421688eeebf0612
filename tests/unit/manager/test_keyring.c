/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's keyring: whose key is found, what may not be replaced, and changes beside lookups. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "manager/connections/keyring.h"
#include "manager/members/principals.h"
#include "unit/group.h"

static const struct key operators[] = {{.identity = "admin", .secret = {1}},
				       {.identity = "boss", .secret = {2}}};
static const struct key servers[] = {{.identity = "server", .secret = {3}}};
static const struct key_list no_keys = {NULL, 0};

static bool has(struct keyring *keyring, const char *identity)
{
	uint8_t secret[KEY_BYTES];

	return keyring_find(keyring, identity, secret);
}

static struct keyring *open_keyring(void)
{
	const struct key_list operator_list = {operators, 2}, server_list = {servers, 1};
	struct keyring *keyring;

	assert_int_equal(keyring_open(&operator_list, &server_list, &keyring), 0);
	return keyring;
}

static void test_finds_files_and_added(void **state)
{
	struct keyring *keyring = open_keyring();
	uint8_t secret[KEY_BYTES], added[KEY_BYTES] = {9, 9};
	enum principal_kind kind;

	(void)state;
	assert_true(keyring_find(keyring, "boss", secret));
	assert_memory_equal(secret, operators[1].secret, KEY_BYTES);
	assert_false(keyring_find(keyring, "alice", secret));
	assert_false(keyring_find(keyring, "", secret));
	assert_int_equal(keyring_add(keyring, "alice", added), 0);
	assert_true(keyring_find(keyring, "alice", secret));
	assert_memory_equal(secret, added, KEY_BYTES);
	assert_int_equal(keyring_add(keyring, "alice", added), -EEXIST);
	keyring_remove(keyring, "alice");
	keyring_remove(keyring, "alice");
	assert_false(has(keyring, "alice"));
	assert_int_equal(keyring_file_kind(keyring, "admin"), PRINCIPAL_OPERATOR);
	assert_int_equal(keyring_file_kind(keyring, "server"), PRINCIPAL_SERVER);
	assert_int_equal(keyring_file_kind(keyring, "alice"), PRINCIPAL_UNKNOWN);
	assert_string_equal(keyring_file(keyring, 2, &kind)->identity, "server");
	assert_int_equal(kind, PRINCIPAL_SERVER);
	assert_null(keyring_file(keyring, 3, &kind));
	keyring_close(keyring);
}

static void test_files_stay(void **state)
{
	struct keyring *keyring = open_keyring();
	uint8_t secret[KEY_BYTES], other[KEY_BYTES] = {9};

	(void)state;
	assert_int_equal(keyring_add(keyring, "admin", other), -EEXIST);
	keyring_remove(keyring, "admin");
	assert_true(keyring_find(keyring, "admin", secret));
	assert_memory_equal(secret, operators[0].secret, KEY_BYTES);
	keyring_close(keyring);
}

static void test_two_keys_of_one_identity(void **state)
{
	const struct key_list twice = {operators, 1};
	const struct key_list again = {operators, 1};
	struct keyring *keyring = NULL;

	(void)state;
	assert_int_equal(keyring_open(&twice, &again, &keyring), -EINVAL);
	assert_null(keyring);
	assert_int_equal(keyring_open(&no_keys, &no_keys, &keyring), 0);
	assert_false(has(keyring, "admin"));
	keyring_close(keyring);
}

/* An identity as long as it can be, and one that is longer than any. */
static void test_long_identities(void **state)
{
	struct keyring *keyring = open_keyring();
	char name[KEY_IDENTITY_MAX + 2];
	uint8_t secret[KEY_BYTES] = {5};

	(void)state;
	memset(name, 'x', sizeof(name));
	name[KEY_IDENTITY_MAX] = '\0';
	assert_int_equal(keyring_add(keyring, name, secret), 0);
	assert_true(has(keyring, name));
	name[KEY_IDENTITY_MAX] = 'x';
	name[KEY_IDENTITY_MAX + 1] = '\0';
	assert_false(has(keyring, name));
	keyring_close(keyring);
}

/* What an opening connection asks: is the key that was looked up for it still the one? */
static void test_current_key(void **state)
{
	struct keyring *keyring = open_keyring();
	uint8_t secret[KEY_BYTES] = {5};

	(void)state;
	assert_int_equal(keyring_add(keyring, "alice", secret), 0);
	assert_true(has(keyring, "alice"));
	assert_true(keyring_is_current(keyring, "alice"));
	assert_false(keyring_is_current(keyring, "admin"));
	keyring_remove(keyring, "alice");
	assert_false(keyring_is_current(keyring, "alice"));
	/* A key of the same name, and even the same secret, is another. */
	assert_int_equal(keyring_add(keyring, "alice", secret), 0);
	assert_false(keyring_is_current(keyring, "alice"));
	assert_true(has(keyring, "alice"));
	assert_true(keyring_is_current(keyring, "alice"));
	assert_true(has(keyring, "admin"));
	assert_true(keyring_is_current(keyring, "admin"));
	keyring_close(keyring);
}

#define NR_ROUNDS 2000

static void *change(void *argument)
{
	struct keyring *keyring = argument;
	uint8_t secret[KEY_BYTES];

	memset(secret, 7, sizeof(secret));
	for (int i = 0; i < NR_ROUNDS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%d", i % 5);
		if (keyring_add(keyring, name, secret) == -EEXIST)
			keyring_remove(keyring, name);
	}
	return NULL;
}

/* Whole secrets or none, whatever changes meanwhile. */
static void test_lookups_beside_changes(void **state)
{
	struct keyring *keyring = open_keyring();
	uint8_t secret[KEY_BYTES], whole[KEY_BYTES];
	pthread_t thread;

	(void)state;
	memset(whole, 7, sizeof(whole));
	assert_int_equal(pthread_create(&thread, NULL, change, keyring), 0);
	for (int i = 0; i < NR_ROUNDS; i++) {
		memset(secret, 0, sizeof(secret));
		if (keyring_find(keyring, "p3", secret))
			assert_memory_equal(secret, whole, KEY_BYTES);
		assert_true(keyring_find(keyring, "admin", secret));
	}
	pthread_join(thread, NULL);
	keyring_close(keyring);
}

TEST_GROUP(keyring)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_files_and_added),
		cmocka_unit_test(test_files_stay),
		cmocka_unit_test(test_two_keys_of_one_identity),
		cmocka_unit_test(test_long_identities),
		cmocka_unit_test(test_current_key),
		cmocka_unit_test(test_lookups_beside_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
