/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens, finds and closes the stores of a server; see stores.h. Called by server.c at its start and
 * end, and by devices.c in between. Owns the stores. */
#include "server/stores/stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

#define ADDRESS_MAX (FABRIC_ADDRESS_MAX + 8)

void stores_init(struct stores *stores)
{
	memset(stores, 0, sizeof(*stores));
	pthread_rwlock_init(&stores->lock, NULL);
}

void stores_set(struct stores *stores, struct lanes *lanes, const struct store_options *options,
		uint16_t first_port)
{
	stores->lanes = lanes;
	stores->options = *options;
	snprintf(stores->host, sizeof(stores->host), "%s", options->address);
	stores->options.address = NULL;
	if (options->driven_transport) {
		snprintf(stores->driven_transport, sizeof(stores->driven_transport), "%s",
			 options->driven_transport);
		snprintf(stores->driven_host, sizeof(stores->driven_host), "%s",
			 options->driven_address);
		stores->options.driven_transport = stores->driven_transport;
	}
	stores->options.driven_address = NULL;
	stores->first_port = first_port;
}

void stores_close(struct stores *stores)
{
	while (stores->nr > 0) {
		struct store *store;

		pthread_rwlock_wrlock(&stores->lock);
		store = stores->entries[--stores->nr];
		pthread_rwlock_unlock(&stores->lock);
		/* Work that ends with it looks at those that are left. */
		store_stop(store);
	}
	pthread_rwlock_destroy(&stores->lock);
}

/* ---- Coming */

static bool has_port(const struct stores *stores, unsigned port)
{
	for (unsigned i = 0; i < stores->nr; i++) {
		const char *address = progress_address(store_progress(stores->entries[i]));
		const char *colon = strrchr(address, ':');

		if (colon && strtoul(colon + 1, NULL, 10) == port)
			return true;
	}
	return false;
}

/* Names where the next store listens. Fixed ports are few, so that a firewall can let them through: the first that is free. */
static void name_addresses(const struct stores *stores, char out[ADDRESS_MAX],
			   char driven[ADDRESS_MAX])
{
	unsigned port = stores->first_port;

	while (port != 0 && has_port(stores, port))
		port++;
	snprintf(out, ADDRESS_MAX, "%s:%u", stores->host, port);
	snprintf(driven, ADDRESS_MAX, "%s:%u", stores->driven_host, port);
}

/* Has others find it, and closings reach it. */
static int enter(struct stores *stores, struct store *store)
{
	int ret;

	if (stores_find(stores, store_number(store)))
		return error_fail(
			-EEXIST,
			"open the store %s: it is a copy of another that is open, with its "
			"UUID; leave one out",
			store_path(store));
	ret = lanes_add_beside(stores->lanes, store_progress(store));
	if (ret != 0)
		return ret;
	pthread_rwlock_wrlock(&stores->lock);
	stores->entries[stores->nr++] = store;
	pthread_rwlock_unlock(&stores->lock);
	return 0;
}

int stores_open(struct stores *stores, const char *path, uint64_t create_bytes, struct store **out)
{
	struct store_options options = stores->options;
	char sentence[ERROR_LINE_BYTES], address[ADDRESS_MAX], driven_address[ADDRESS_MAX];
	struct store *store;
	int ret;

	if (stores->nr == STORES_MAX)
		return error_fail(-ENOSPC, "open the store %s: a server has at most %u", path,
				  STORES_MAX);
	name_addresses(stores, address, driven_address);
	options.address = address;
	options.driven_address = driven_address;
	options.path = path;
	options.create_bytes = create_bytes;
	ret = store_start(&options, &store);
	if (ret != 0)
		return ret;
	ret = enter(stores, store);
	if (ret == 0) {
		*out = store;
		return 0;
	}
	snprintf(sentence, sizeof(sentence), "%s", error_last_line());
	store_stop(store);
	return error_fail(ret, "%s", sentence);
}

static bool is_same(const struct stat *left, const struct stat *right)
{
	if (S_ISBLK(left->st_mode) && S_ISBLK(right->st_mode))
		return left->st_rdev == right->st_rdev;
	return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

/* Rejects what is open here: otherwise the device itself would say that somebody has it, after a
 * while. */
static int check_closed(const struct stores *stores, const char *path)
{
	struct stat wanted, open;

	if (stat(path, &wanted) != 0)
		return 0; /* opening says so */
	for (unsigned i = 0; i < stores->nr; i++) {
		const struct store *store = stores->entries[i];

		if (stat(store_path(store), &open) == 0 && is_same(&wanted, &open))
			return error_fail(
				-EEXIST,
				"open the store %s: it is open already, as store %016llx; "
				"see 'afar store ls'",
				path, (unsigned long long)store_number(store));
	}
	return 0;
}

int stores_add(struct stores *stores, const char *path, struct store **out)
{
	int ret;

	if (path[0] != '/')
		return error_fail(-EINVAL,
				  "open the store %.64s: the path must begin with '/', because the "
				  "server's folder is not yours",
				  path);
	ret = check_closed(stores, path);
	return ret == 0 ? stores_open(stores, path, 0, out) : ret;
}

/* ---- Going */

void stores_remove(struct stores *stores, struct store *store)
{
	unsigned i = 0;

	pthread_rwlock_wrlock(&stores->lock);
	while (stores->entries[i] != store)
		i++;
	stores->nr--;
	memmove(&stores->entries[i], &stores->entries[i + 1],
		(stores->nr - i) * sizeof(struct store *));
	pthread_rwlock_unlock(&stores->lock);
	lanes_drop_beside(stores->lanes, store_progress(store));
	/* Without the lock: what ends with it may look for stores. */
	store_stop(store);
}

/* ---- Looking */

void stores_lock(struct stores *stores)
{
	pthread_rwlock_rdlock(&stores->lock);
}

void stores_unlock(struct stores *stores)
{
	pthread_rwlock_unlock(&stores->lock);
}

struct store *stores_find(const struct stores *stores, uint64_t number)
{
	for (unsigned i = 0; i < stores->nr; i++) {
		if (store_number(stores->entries[i]) == number)
			return stores->entries[i];
	}
	return NULL;
}

bool stores_have(struct stores *stores, uint64_t namespace)
{
	bool have = false;

	if (!stores)
		return false;
	stores_lock(stores);
	for (unsigned i = 0; i < stores->nr && !have; i++)
		have = store_has(stores->entries[i], namespace);
	stores_unlock(stores);
	return have;
}

void stores_press(struct stores *stores)
{
	stores_lock(stores);
	for (unsigned i = 0; i < stores->nr; i++)
		store_press(stores->entries[i]); /* without memory: the next time */
	stores_unlock(stores);
}
