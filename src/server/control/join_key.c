/* SPDX-License-Identifier: BSD-3-Clause */
/* The key that a server joins with; see join_key.h. */
#include "server/control/join_key.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define KEYS_MAX 16

int join_key_init(struct join_key *join_key, const char *path, const struct key *key)
{
	*join_key = (struct join_key){.key = *key, .nr_keys = 1};
	if (!path)
		return 0;
	if ((size_t)snprintf(join_key->path, sizeof(join_key->path), "%s", path) >=
	    sizeof(join_key->path))
		return error_fail(-ENAMETOOLONG,
				  "start the server: its key file's name is too long");
	return 0;
}

void join_key_wipe(struct join_key *join_key)
{
	OPENSSL_cleanse(join_key, sizeof(*join_key));
}

static void complain(struct join_key *join_key)
{
	const char *line = error_last_line();

	if (strncmp(join_key->complaint, line, sizeof(join_key->complaint) - 1) == 0)
		return;
	snprintf(join_key->complaint, sizeof(join_key->complaint), "%s", line);
	log_error("%s; the server goes on with the key of '%s'", line, join_key->key.identity);
}

void join_key_choose(struct join_key *join_key)
{
	struct key keys[KEYS_MAX];
	int nr;

	if (join_key->path[0] == '\0')
		return;
	nr = key_load_principals(join_key->path, keys, KEYS_MAX);
	if (nr < 0) {
		complain(join_key);
		return;
	}
	join_key->complaint[0] = '\0';
	join_key->nr_keys = (unsigned)nr;
	join_key->key = keys[join_key->turn % (unsigned)nr];
	OPENSSL_cleanse(keys, sizeof(keys));
}

bool join_key_renew(struct join_key *join_key)
{
	struct key before = join_key->key;
	bool is_other;

	join_key->turn = 0;
	join_key->nr_refused = 0;
	join_key_choose(join_key);
	is_other = strcmp(before.identity, join_key->key.identity) != 0 ||
		   CRYPTO_memcmp(before.secret, join_key->key.secret, KEY_BYTES) != 0;
	OPENSSL_cleanse(&before, sizeof(before));
	return is_other;
}

void join_key_accepted(struct join_key *join_key)
{
	join_key->nr_refused = 0;
}

bool join_key_refused(struct join_key *join_key)
{
	join_key->turn++;
	join_key->nr_refused++;
	return join_key->nr_refused < join_key->nr_keys;
}
