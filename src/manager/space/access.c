/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses let a session onto the servers of a region, and are made anew whenever it asks. For each
 * home they have a pass to its server's control channel, and a capability over all extents that the
 * region's layout has there. Both are under the signing key that the server told when it joined,
 * and both expire by the server's age.
 *
 * The cost grows with the region's copies, which each server's turn goes through, and with its
 * extents, which are digested. See test_manager_access for how much. An extent that has gone
 * counts, because the layout that clients have names it.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "manager/connections/live.h"
#include "manager/connections/rights.h"
#include "manager/space/access.h"
#include "manager/space/references.h"

#define LIFETIME_S 60U

uint32_t region_rights(const struct core *core, const struct session *session,
		       const struct region *region)
{
	const struct reference *reference = session_reference(session, region->generation);
	bool is_to_read = reference && reference->mode == VOLUME_READ_ONLY;

	return rights_of(core, session->principal, region->ns) &
	       (is_to_read ? RIGHT_READ : RIGHT_ALL);
}

/* Finds the server of a home if it is connected and has what lives there. */
static const struct live_server *find_live(const struct core *core, const struct layout_home *home)
{
	const struct pool *pool = state_pool(core->state, home);

	return pool && pool_is_up(pool) ? pool->server->live : NULL;
}

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
			  const struct session *session, const struct region *region, uint32_t home,
			  const struct live_server *live)
{
	struct rpc_capability capability = {
		.session = session->number,
		.namespace = region->ns->number,
		.generation = region->generation,
		.incarnation = live->incarnation,
		.rights = region_rights(core, session, region),
		.expiry = expiry_of(core, live),
	};
	uint64_t *extents;
	size_t nr_extents;
	int ret = layout_extents(region->layout, home, &extents, &nr_extents);

	if (ret < 0)
		return ret;
	ret = capability_digest(extents, nr_extents, capability.digest);
	free(extents);
	if (ret == 0)
		ret = capability_sign(&capability, live->signing_key);
	return ret == 0 ? set_bytes(&access->capability, &capability, sizeof(capability)) : ret;
}

static int fill_access(Afar__Access *access, const struct core *core, const struct session *session,
		       const struct region *region, uint32_t home, const struct live_server *live)
{
	int ret;

	access->server = live->number;
	access->incarnation = live->incarnation;
	access->lifetime_ms = LIFETIME_S * 1000U;
	if (region->layout->homes[home].is_store)
		access->store = region->layout->homes[home].life;
	ret = add_pass(access, session, live, expiry_of(core, live));
	return ret == 0 ? add_capability(access, core, session, region, home, live) : ret;
}

int access_tell_away(const struct core *core, const struct region *region, Afar__Accesses *out)
{
	const struct layout *layout = region->layout;

	out->away = calloc((size_t)layout->nr_homes + 1, sizeof(*out->away));
	for (uint32_t i = 0; i < layout->nr_homes && out->away; i++) {
		const struct layout_home *home = &layout->homes[i];
		const struct server *server =
			home->is_store ? NULL : state_home_server(core->state, home);
		Afar__ServerAway *away;

		if (!server || server_is_up(server))
			continue;
		away = MESSAGE_NEW(afar__server_away, Afar__ServerAway);
		if (!away)
			return error_code(-ENOMEM);
		away->server = server->number;
		away->away_ms = server_down_ms(core, server);
		out->away[out->n_away++] = away;
	}
	return out->away ? 0 : error_code(-ENOMEM);
}

static void free_accesses(Afar__Access **accesses, size_t nr)
{
	for (size_t i = 0; i < nr && accesses; i++)
		afar__access__free_unpacked(accesses[i], &protobuf_wiping);
	free(accesses);
}

int access_make(const struct core *core, const struct session *session, const struct region *region,
		Afar__Access ***out, size_t *nr_out)
{
	const struct layout *layout = region->layout;
	Afar__Access **accesses = calloc((size_t)layout->nr_homes + 1, sizeof(*accesses));
	size_t nr = 0;
	int ret = accesses ? 0 : error_code(-ENOMEM);

	for (uint32_t i = 0; i < layout->nr_homes && ret == 0; i++) {
		const struct live_server *live = find_live(core, &layout->homes[i]);

		if (!live)
			continue;
		accesses[nr] = MESSAGE_NEW(afar__access, Afar__Access);
		ret = accesses[nr] ? 0 : error_code(-ENOMEM);
		if (ret == 0)
			ret = fill_access(accesses[nr++], core, session, region, i, live);
	}
	if (ret < 0) {
		free_accesses(accesses, nr);
		accesses = NULL;
		nr = 0;
	}
	*out = accesses;
	*nr_out = nr;
	return ret;
}
