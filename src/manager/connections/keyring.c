/* SPDX-License-Identifier: BSD-3-Clause */
/* The keyring: the files' keys in an array, all in one tree under a lock. */
#include "manager/connections/keyring.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The key first: that is what the tree compares. */
struct held_key {
	struct key key;
	enum principal_kind kind; /* of a file's; PRINCIPAL_UNKNOWN: it was added */
	uint64_t serial;	  /* no other key ever has it; not 0 */
};

struct keyring {
	struct held_key *files;
	size_t nr_files;

	pthread_mutex_t lock;
	void *entries; /* tree of struct held_key */
	uint64_t last_serial;
	uint64_t found; /* the serial of the key found last */
};

static int compare_identities(const void *left, const void *right)
{
	return strcmp(((const struct held_key *)left)->key.identity,
		      ((const struct held_key *)right)->key.identity);
}

/* With the lock held. */
static struct held_key *find_entry(const struct keyring *keyring, const char *identity)
{
	struct held_key wanted;
	struct held_key **at;

	if (strlen(identity) > KEY_IDENTITY_MAX)
		return NULL;
	strcpy(wanted.key.identity, identity);
	at = tfind(&wanted, &keyring->entries, compare_identities);
	return at ? *at : NULL;
}

static int link_entry(struct keyring *keyring, struct held_key *entry)
{
	struct held_key **at = tsearch(entry, &keyring->entries, compare_identities);

	if (!at)
		return error_code(-ENOMEM);
	entry->serial = ++keyring->last_serial;
	return *at == entry ? 0 : error_code(-EEXIST);
}

/* ---- Looking up */

bool keyring_find(void *context, const char *identity, uint8_t secret[KEY_BYTES])
{
	struct keyring *keyring = context;
	const struct held_key *entry;

	pthread_mutex_lock(&keyring->lock);
	entry = find_entry(keyring, identity);
	if (entry) {
		memcpy(secret, entry->key.secret, KEY_BYTES);
		keyring->found = entry->serial;
	}
	pthread_mutex_unlock(&keyring->lock);
	return entry != NULL;
}

bool keyring_is_current(struct keyring *keyring, const char *identity)
{
	const struct held_key *entry;
	bool is_current;

	pthread_mutex_lock(&keyring->lock);
	entry = find_entry(keyring, identity);
	is_current = entry && entry->serial == keyring->found;
	pthread_mutex_unlock(&keyring->lock);
	return is_current;
}

const struct key *keyring_file(const struct keyring *keyring, size_t index,
			       enum principal_kind *kind)
{
	if (index >= keyring->nr_files)
		return NULL;
	*kind = keyring->files[index].kind;
	return &keyring->files[index].key;
}

enum principal_kind keyring_file_kind(const struct keyring *keyring, const char *identity)
{
	for (size_t i = 0; i < keyring->nr_files; i++)
		if (strcmp(keyring->files[i].key.identity, identity) == 0)
			return keyring->files[i].kind;
	return PRINCIPAL_UNKNOWN;
}

/* ---- Changing */

static void wipe(struct held_key *entry)
{
	OPENSSL_cleanse(entry, sizeof(*entry));
	free(entry);
}

int keyring_add(struct keyring *keyring, const char *identity, const uint8_t secret[KEY_BYTES])
{
	struct held_key *entry = calloc(1, sizeof(*entry));
	int ret;

	if (!entry)
		return error_code(-ENOMEM);
	snprintf(entry->key.identity, sizeof(entry->key.identity), "%s", identity);
	memcpy(entry->key.secret, secret, KEY_BYTES);
	pthread_mutex_lock(&keyring->lock);
	ret = link_entry(keyring, entry);
	pthread_mutex_unlock(&keyring->lock);
	if (ret < 0)
		wipe(entry);
	return ret;
}

void keyring_remove(struct keyring *keyring, const char *identity)
{
	struct held_key *entry;

	pthread_mutex_lock(&keyring->lock);
	entry = find_entry(keyring, identity);
	if (entry && entry->kind == PRINCIPAL_UNKNOWN) {
		tdelete(entry, &keyring->entries, compare_identities);
		wipe(entry);
	}
	pthread_mutex_unlock(&keyring->lock);
}

/* ---- The whole */

static int add_files(struct keyring *keyring, const struct key_list *list, enum principal_kind kind)
{
	for (size_t i = 0; i < list->nr_keys; i++) {
		struct held_key *entry = &keyring->files[keyring->nr_files++];
		int ret;

		entry->key = list->keys[i];
		entry->kind = kind;
		ret = link_entry(keyring, entry);
		if (ret == -EEXIST)
			return error_fail(-EINVAL,
					  "start the manager: its key files have two keys of '%s'; "
					  "operators and servers need names of their own",
					  entry->key.identity);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int keyring_open(const struct key_list *operators, const struct key_list *servers,
		 struct keyring **out)
{
	struct keyring *keyring = calloc(1, sizeof(*keyring));
	int ret;

	if (!keyring)
		return error_code(-ENOMEM);
	pthread_mutex_init(&keyring->lock, NULL);
	keyring->files = calloc(operators->nr_keys + servers->nr_keys + 1, sizeof(struct held_key));
	ret = keyring->files ? 0 : error_code(-ENOMEM);
	if (ret == 0)
		ret = add_files(keyring, operators, PRINCIPAL_OPERATOR);
	if (ret == 0)
		ret = add_files(keyring, servers, PRINCIPAL_SERVER);
	if (ret < 0) {
		keyring_close(keyring);
		return ret;
	}
	*out = keyring;
	return 0;
}

static void wipe_added(void *argument)
{
	struct held_key *entry = argument;

	if (entry->kind == PRINCIPAL_UNKNOWN)
		wipe(entry);
}

void keyring_close(struct keyring *keyring)
{
	if (!keyring)
		return;
	tdestroy(keyring->entries, wipe_added);
	if (keyring->files)
		OPENSSL_cleanse(keyring->files, keyring->nr_files * sizeof(*keyring->files));
	free(keyring->files);
	pthread_mutex_destroy(&keyring->lock);
	free(keyring);
}
