/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cluster's principals: adding, listing and revoking keys. A key comes into the keyring before
 * its commit, because nobody has it before the reply. It leaves the keyring with the commit of its
 * revocation, together with the connections that were made with it.
 */
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "manager/connections/callers.h"
#include "manager/connections/live.h"
#include "manager/members/principals.h"
#include "manager/members/sessions.h"

#define PRINCIPALS_MAX ((size_t)1 << 16)

/* A key that the batch that runs has added, or revokes. */
struct key_change {
	struct cds_list_head node;
	struct core *core;
	char name[KEY_PRINCIPAL_MAX + 1];
	bool is_added; /* else revoked */
};

static void change_free(struct key_change *change)
{
	cds_list_del(&change->node);
	free(change);
}

static void take_change_back(void *argument)
{
	struct key_change *change = argument;

	if (change->is_added)
		keyring_remove(change->core->keyring, change->name);
	change_free(change);
}

static void keep_change(void *argument)
{
	struct key_change *change = argument;
	struct core *core = change->core;

	if (!change->is_added) {
		keyring_remove(core->keyring, change->name);
		/* After that, because a connection that opens in between looks into the keyring. */
		core->environment.close_principal(core->environment.context, change->name);
	}
	change_free(change);
}

/* Brings a key into the keyring, `secret`, or has it removed with the commit: NULL. */
static int change_key(struct core *core, const char *name, const uint8_t *secret)
{
	struct key_change *change;
	int ret = undo_room(core->undo, 1);

	if (ret < 0)
		return ret;
	change = calloc(1, sizeof(*change));
	if (!change)
		return error_code(-ENOMEM);
	ret = secret ? keyring_add(core->keyring, name, secret) : 0;
	if (ret < 0) {
		free(change);
		return ret;
	}
	change->core = core;
	snprintf(change->name, sizeof(change->name), "%s", name);
	change->is_added = secret != NULL;
	cds_list_add_tail(&change->node, &core->key_changes);
	undo_call(core->undo, take_change_back, keep_change, change);
	return 0;
}

/* ---- Adding */

static int check_addition(const struct core *core, const Afar__KeyAdd *ask)
{
	const char *name = ask->name;

	if (!key_is_principal(name))
		return error_fail(-EINVAL,
				  "add a key: '%s' is no name for a principal; use 1 to %d of A-Z "
				  "a-z 0-9 . _ @ -",
				  name, KEY_PRINCIPAL_MAX);
	if (core_principal_kind(core, name) != PRINCIPAL_UNKNOWN)
		return error_fail(
			-EEXIST, "add a key: '%s' has one; revoke that first, or take another name",
			name);
	if (core->state->nr_principals >= PRINCIPALS_MAX)
		return error_fail(-ENOSPC,
				  "add a key: there are %zu already; revoke some that are not used",
				  core->state->nr_principals);
	if (ask->n_gids > STATE_GROUPS_MAX || (ask->n_gids != 0 && !ask->has_uid) ||
	    (ask->is_server && (ask->has_uid || ask->is_any)))
		return error_fail(-EINVAL,
				  "add a key: a client's is for a uid with at most %u groups, a "
				  "server's for none",
				  STATE_GROUPS_MAX);
	return 0;
}

static struct principal *make_principal(const struct core *core, const Afar__KeyAdd *ask)
{
	struct principal *principal = principal_new(core->state->next_principal, ask->name);

	if (!principal) {
		error_code(-ENOMEM);
		return NULL;
	}
	principal->is_server = ask->is_server;
	principal->is_any = ask->is_any;
	principal->has_uid = ask->has_uid;
	principal->uid = ask->uid;
	for (size_t i = 0; i < ask->n_gids; i++)
		principal->gids[principal->nr_gids++] = ask->gids[i];
	if (RAND_priv_bytes(principal->secret, sizeof(principal->secret)) == 1)
		return principal;
	error_fail(-EIO, "add a key: no random numbers");
	principal_free(principal);
	return NULL;
}

int key_add(struct core *core, struct session *session, struct event *event)
{
	const Afar__KeyAdd *ask = event->request->key_add;
	struct principal *principal;
	int ret = check_addition(core, ask);

	(void)session;
	if (ret < 0)
		return ret;
	principal = make_principal(core, ask);
	if (!principal)
		return error_code(-ENOMEM);
	ret = state_add_principal(core->state, principal);
	if (ret == 0)
		ret = change_key(core, principal->name, principal->secret);
	if (ret == 0)
		ret = undo_room(core->undo, 1);
	if (ret < 0)
		return ret;
	undo_set(core->undo, core->state->next_principal, principal->number + 1);
	store_put_cluster(core->store, core->state);
	store_put_principal(core->store, principal);
	log_info("'%s' gets the key of a %s", principal->name,
		 principal->is_server ? "server" : "client");
	event->outcome_kind = OUTCOME_PRINCIPAL;
	event->outcome_value = principal->number;
	return 0;
}

int principal_reply(const struct core *core, uint64_t number, Afar__Reply *reply)
{
	const struct principal *principal = state_principal(core->state, number);
	Afar__KeyAdded *added;

	if (!principal)
		return error_fail(-ENOENT, "add a key: it was revoked meanwhile");
	added = MESSAGE_NEW(afar__key_added, Afar__KeyAdded);
	if (!added)
		return error_code(-ENOMEM);
	reply->key_added = added;
	reply->result_case = AFAR__REPLY__RESULT_KEY_ADDED;
	added->name = strdup(principal->name);
	added->secret.data = malloc(KEY_BYTES);
	if (!added->name || !added->secret.data)
		return error_code(-ENOMEM);
	memcpy(added->secret.data, principal->secret, KEY_BYTES);
	added->secret.len = KEY_BYTES;
	return 0;
}

/* ---- Revoking */

static int check_revocation(const struct core *core, const char *name)
{
	enum principal_kind kind = keyring_file_kind(core->keyring, name);

	if (kind == PRINCIPAL_UNKNOWN && !state_principal_named(core->state, name))
		return error_fail(-ENOENT,
				  "revoke a key: '%s' has none; see 'afar key ls' for who has",
				  name);
	if (kind != PRINCIPAL_UNKNOWN)
		return error_fail(
			-EINVAL,
			"revoke a key: that of '%s' is %s key of the manager's key files; stop "
			"the manager, replace it in the file '%s', and start the manager again",
			name, kind == PRINCIPAL_OPERATOR ? "an operator's" : "a join",
			kind == PRINCIPAL_OPERATOR ? "key" : "server.key");
	return 0;
}

static int end_sessions_of(struct core *core, const char *name)
{
	struct session *session, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (session, next, &core->state->sessions, node)
		if (ret == 0 && strcmp(session->principal, name) == 0)
			ret = session_end_by_force(core, session, "its rights were taken away");
	return ret;
}

int key_revoke(struct core *core, struct session *session, struct event *event)
{
	const Afar__KeyRevoke *ask = event->request->key_revoke;
	struct principal *principal;
	int ret = check_revocation(core, ask->name);

	(void)session;
	if (ret == 0)
		ret = change_key(core, ask->name, NULL);
	if (ret == 0)
		ret = end_sessions_of(core, ask->name);
	if (ret < 0)
		return ret;
	principal = state_principal_named(core->state, ask->name);
	store_delete_principal(core->store, principal);
	log_info("the key of '%s' is revoked", ask->name);
	return state_remove_principal(core->state, principal);
}

uint64_t key_wait(struct core *core, struct event *event)
{
	const char *name = event->request->key_add->name;
	const struct key_change *change;

	cds_list_for_each_entry (change, &core->key_changes, node)
		if (!change->is_added && strcmp(change->name, name) == 0)
			return CORE_NEVER;
	return 0;
}

/* ---- Listing */

static int compare_entries(const void *left, const void *right)
{
	return strcmp((*(Afar__KeyInfo *const *)left)->name,
		      (*(Afar__KeyInfo *const *)right)->name);
}

/* `principal` NULL: of a key file. */
static int add_entry(Afar__KeyInfos *infos, const char *name, enum principal_kind kind,
		     const struct principal *principal)
{
	Afar__KeyInfo *entry = MESSAGE_NEW(afar__key_info, Afar__KeyInfo);

	if (!entry)
		return error_code(-ENOMEM);
	infos->entries[infos->n_entries++] = entry;
	entry->name = strdup(name);
	entry->is_server = kind == PRINCIPAL_SERVER;
	entry->is_operator = kind == PRINCIPAL_OPERATOR;
	if (principal) {
		entry->has_uid = principal->has_uid;
		entry->uid = principal->uid;
		entry->is_any = principal->is_any;
		entry->max_bytes = principal->max_bytes;
		entry->reserved_bytes = principal->reserved_bytes;
	}
	return entry->name ? 0 : error_code(-ENOMEM);
}

/* One more session, or connection of a server. The entries are in order. */
static void count(Afar__KeyInfos *infos, const char *name)
{
	Afar__KeyInfo wanted = {.name = (char *)(uintptr_t)name}, *key = &wanted, **found;

	found = bsearch(&key, infos->entries, infos->n_entries, sizeof(key), compare_entries);
	if (found)
		(*found)->nr_sessions++;
}

static void count_all(const struct core *core, Afar__KeyInfos *infos)
{
	const struct session *session;
	const struct live_server *live;
	const char *name;

	cds_list_for_each_entry (session, &core->state->sessions, node)
		count(infos, session->principal);
	cds_list_for_each_entry (live, &core->live_servers, node) {
		if (!live->peer)
			continue;
		name = core->environment.principal(core->environment.context, live->peer);
		if (name)
			count(infos, name);
	}
}

static size_t nr_files(const struct core *core)
{
	enum principal_kind kind;
	size_t nr = 0;

	while (keyring_file(core->keyring, nr, &kind))
		nr++;
	return nr;
}

int principals_list(const struct core *core, Afar__KeyInfos *infos)
{
	const struct principal *principal;
	enum principal_kind kind;
	const struct key *key;
	int ret = 0;

	infos->entries =
		calloc(nr_files(core) + core->state->nr_principals + 1, sizeof(*infos->entries));
	if (!infos->entries)
		return error_code(-ENOMEM);
	for (size_t i = 0; ret == 0 && (key = keyring_file(core->keyring, i, &kind)) != NULL; i++)
		ret = add_entry(infos, key->identity, kind, NULL);
	cds_list_for_each_entry (principal, &core->state->principals, node)
		/* A name that is in a key file too has the file's key. */
		if (ret == 0 &&
		    keyring_file_kind(core->keyring, principal->name) == PRINCIPAL_UNKNOWN)
			ret = add_entry(infos, principal->name,
					principal->is_server ? PRINCIPAL_SERVER : PRINCIPAL_CLIENT,
					principal);
	if (ret < 0)
		return ret;
	qsort(infos->entries, infos->n_entries, sizeof(*infos->entries), compare_entries);
	count_all(core, infos);
	return 0;
}

int key_list(struct core *core, struct session *session, struct event *event)
{
	Afar__KeyInfos *infos = MESSAGE_NEW(afar__key_infos, Afar__KeyInfos);

	(void)session;
	if (!infos)
		return error_code(-ENOMEM);
	event->reply->key_infos = infos;
	event->reply->result_case = AFAR__REPLY__RESULT_KEY_INFOS;
	return principals_list(core, infos);
}

/* ---- The whole */

int principals_start(struct core *core)
{
	const struct principal *principal;
	int ret = 0;

	cds_list_for_each_entry (principal, &core->state->principals, node) {
		ret = keyring_add(core->keyring, principal->name, principal->secret);
		if (ret == -EEXIST)
			log_warn("the manager's key files have a key of '%s', which an operator "
				 "added one for, too: that of the file counts",
				 principal->name);
		else if (ret < 0)
			return ret;
	}
	return 0;
}
