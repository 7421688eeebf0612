/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses: what lets a session onto the servers of a region, made anew whenever it asks. For each
 * server a pass to its control channel and a capability over all extents that the region's layout
 * has there, both under the signing key that the server told when it joined, both expiring by the
 * server's age.
 *
 * What this costs grows with the region's extents: they are sorted — mostly they come in order —
 * and digested. See test_manager_access for how much.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "manager/principals.h"
#include "manager/regions.h"
#include "manager/servers.h"

#define LIFETIME_S 60U

/* The extents of a layout on one server. */
struct holding {
	const struct live_server *live;
	uint64_t *extents;
	size_t nr_extents, max_extents;
	bool is_ascending;
};

struct holdings {
	struct holding *list;
	size_t nr, max;
};

static void holdings_close(struct holdings *holdings)
{
	for (size_t i = 0; i < holdings->nr; i++)
		free(holdings->list[i].extents);
	free(holdings->list);
}

/* ---- Finding them */

/* The server of a chunk if it is connected, and is still the one that the chunk was on. A lost
 * chunk of it counts: the layout that clients have names it. */
static struct server *server_of(const struct core *core, const struct chunk *chunk)
{
	struct server *server =
		chunk->extent ? chunk->extent->server : state_server(core->state, chunk->server);

	return server && server_is_up(server) && server->incarnation == chunk->incarnation ? server
											   : NULL;
}

/* `server->access` is where its holding would be if it has one. */
static struct holding *holding_of(struct holdings *holdings, struct server *server)
{
	struct holding *more;
	size_t max;

	if (server->access < holdings->nr && holdings->list[server->access].live == server->live)
		return &holdings->list[server->access];
	if (holdings->nr == holdings->max) {
		max = holdings->max != 0 ? holdings->max * 2 : 8;
		more = reallocarray(holdings->list, max, sizeof(*more));
		if (!more)
			return NULL;
		holdings->list = more;
		holdings->max = max;
	}
	server->access = holdings->nr;
	holdings->list[server->access] =
		(struct holding){.live = server->live, .is_ascending = true};
	return &holdings->list[holdings->nr++];
}

static int add_extent(struct holding *holding, uint64_t extent)
{
	uint64_t *more;
	size_t max;

	if (holding->nr_extents > 0 && holding->extents[holding->nr_extents - 1] == extent)
		return 0;
	if (holding->nr_extents == holding->max_extents) {
		max = holding->max_extents != 0 ? holding->max_extents * 2 : 16;
		more = reallocarray(holding->extents, max, sizeof(*more));
		if (!more)
			return error_code(-ENOMEM);
		holding->extents = more;
		holding->max_extents = max;
	}
	if (holding->nr_extents > 0 && holding->extents[holding->nr_extents - 1] > extent)
		holding->is_ascending = false;
	holding->extents[holding->nr_extents++] = extent;
	return 0;
}

static int find_holdings(const struct core *core, const struct region *region,
			 struct holdings *holdings)
{
	for (size_t i = 0; i < region->nr_chunks; i++) {
		struct server *server = server_of(core, &region->chunks[i]);
		struct holding *holding;
		int ret;

		if (!server)
			continue;
		holding = holding_of(holdings, server);
		ret = holding ? add_extent(holding, region->chunks[i].number) : error_code(-ENOMEM);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int compare_numbers(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* Ascending, each once. */
static void sort_extents(struct holding *holding)
{
	size_t nr = 0;

	if (holding->is_ascending)
		return;
	qsort(holding->extents, holding->nr_extents, sizeof(*holding->extents), compare_numbers);
	for (size_t i = 0; i < holding->nr_extents; i++)
		if (nr == 0 || holding->extents[i] != holding->extents[nr - 1])
			holding->extents[nr++] = holding->extents[i];
	holding->nr_extents = nr;
}

/* ---- Making them */

static uint32_t expiry_of(const struct core *core, const struct live_server *live)
{
	uint64_t age = (core_now(core) - live->born_at) / 1000000000U;

	return age + LIFETIME_S < UINT32_MAX ? (uint32_t)age + LIFETIME_S : UINT32_MAX;
}

static int set_bytes(ProtobufCBinaryData *out, const void *bytes, size_t length)
{
	out->data = malloc(length);
	if (!out->data)
		return error_code(-ENOMEM);
	memcpy(out->data, bytes, length);
	out->len = length;
	return 0;
}

static int add_pass(Afar__Access *access, const struct session *session,
		    const struct live_server *live, uint32_t expiry)
{
	struct key pass;
	int ret = pass_make(live->signing_key, session->number, expiry, &pass);

	if (ret == 0) {
		access->pass = strdup(pass.identity);
		ret = access->pass ? set_bytes(&access->pass_key, pass.secret, KEY_BYTES)
				   : error_code(-ENOMEM);
	}
	OPENSSL_cleanse(&pass, sizeof(pass));
	return ret;
}

static int add_capability(Afar__Access *access, const struct core *core,
			  const struct session *session, const struct region *region,
			  const struct holding *holding, uint32_t expiry)
{
	struct rpc_capability capability = {
		.session = session->number,
		.namespace = region->ns->number,
		.generation = region->generation,
		.incarnation = holding->live->incarnation,
		.rights = rights_of(core, session->principal, region->ns) & RIGHT_ALL,
		.expiry = expiry,
	};
	int ret = capability_digest(holding->extents, holding->nr_extents, capability.digest);

	if (ret == 0)
		ret = capability_sign(&capability, holding->live->signing_key);
	return ret == 0 ? set_bytes(&access->capability, &capability, sizeof(capability)) : ret;
}

static int fill_access(Afar__Access *access, const struct core *core, const struct session *session,
		       const struct region *region, struct holding *holding)
{
	uint32_t expiry = expiry_of(core, holding->live);
	int ret;

	access->server = holding->live->number;
	access->incarnation = holding->live->incarnation;
	access->lifetime_ms = LIFETIME_S * 1000U;
	sort_extents(holding);
	ret = add_pass(access, session, holding->live, expiry);
	return ret == 0 ? add_capability(access, core, session, region, holding, expiry) : ret;
}

static void free_accesses(Afar__Access **accesses, size_t nr)
{
	for (size_t i = 0; i < nr && accesses; i++)
		afar__access__free_unpacked(accesses[i], NULL);
	free(accesses);
}

int access_make(const struct core *core, const struct session *session, const struct region *region,
		Afar__Access ***out, size_t *nr_out)
{
	Afar__Access **accesses = NULL;
	struct holdings holdings = {0};
	size_t nr = 0;
	int ret = find_holdings(core, region, &holdings);

	if (ret == 0) {
		accesses = calloc(holdings.nr + 1, sizeof(*accesses));
		ret = accesses ? 0 : error_code(-ENOMEM);
	}
	for (size_t i = 0; i < holdings.nr && ret == 0; i++) {
		accesses[nr] = MESSAGE_NEW(afar__access, Afar__Access);
		ret = accesses[nr] ? 0 : error_code(-ENOMEM);
		if (ret == 0)
			ret = fill_access(accesses[nr++], core, session, region, &holdings.list[i]);
	}
	holdings_close(&holdings);
	if (ret < 0) {
		free_accesses(accesses, nr);
		accesses = NULL;
		nr = 0;
	}
	*out = accesses;
	*nr_out = nr;
	return ret;
}
