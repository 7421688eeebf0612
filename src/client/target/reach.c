/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reaches: a session's use of a namespace's memory on a server, with some rights. Its users are
 * targets (binding.c) and the connections of queues (path.c). This notes the connections that ended
 * under writes until the server has closed them. A reach ends with its last user, together with its
 * keys. It then becomes another reach with the same index, so a session does not grow if it uses
 * many namespaces one after another.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/target/peer.h"

static struct peer_reach *find_reach(const struct peer *peer, uint64_t ns, uint32_t rights,
				     bool wants_nic_atomics)
{
	struct peer_reach *reach;

	cds_list_for_each_entry (reach, &peer->reaches, node) {
		if (reach->ns == ns && reach->rights == rights &&
		    reach->wants_nic_atomics == wants_nic_atomics)
			return reach;
	}
	return NULL;
}

/* Takes a reach that has an index; NULL without memory. The caller holds the session's lock. */
static struct peer_reach *take_free(struct afar_session *session)
{
	struct peer_reach *reach;

	if (!cds_list_empty(&session->free_reaches)) {
		reach = cds_list_first_entry(&session->free_reaches, struct peer_reach, node);
		cds_list_del(&reach->node);
		return reach;
	}
	reach = malloc(sizeof(*reach));
	if (reach)
		reach->index = session->nr_reaches++;
	return reach;
}

int peer_reach(struct peer *peer, uint64_t ns, uint32_t rights, bool wants_nic_atomics,
	       struct peer_reach **out)
{
	struct peer_reach *reach;

	pthread_mutex_lock(&peer->session->lock);
	reach = find_reach(peer, ns, rights, wants_nic_atomics);
	if (!reach) {
		reach = take_free(peer->session);
		if (reach) {
			*reach = (struct peer_reach){
				.ns = ns,
				.rights = rights,
				.wants_nic_atomics = wants_nic_atomics,
				.index = reach->index,
			};
			CDS_INIT_LIST_HEAD(&reach->doubt);
			cds_list_add_tail(&reach->node, &peer->reaches);
		}
	}
	if (reach)
		reach->nr_targets++;
	pthread_mutex_unlock(&peer->session->lock);
	*out = reach;
	return reach ? 0 : error_code(-ENOMEM);
}

static void drop_contents(struct peer_reach *reach)
{
	struct peer_doubt *doubt, *next;

	cds_list_for_each_entry_safe (doubt, next, &reach->doubt, node)
		free(doubt);
	tdestroy(reach->keys, free);
}

/* Ends a reach without users. The caller holds the session's lock. No thread asks for keys of a
 * reach without targets. */
static void end_if_unused(struct peer *peer, struct peer_reach *reach)
{
	if (reach->nr_targets || reach->nr_paths)
		return;
	drop_contents(reach);
	cds_list_move(&reach->node, &peer->session->free_reaches);
}

void peer_leave(struct peer *peer, struct peer_reach *reach)
{
	pthread_mutex_lock(&peer->session->lock);
	reach->nr_targets--;
	end_if_unused(peer, reach);
	pthread_mutex_unlock(&peer->session->lock);
}

void peer_add_path(struct peer *peer, struct peer_reach *reach)
{
	pthread_mutex_lock(&peer->session->lock);
	reach->nr_paths++;
	pthread_mutex_unlock(&peer->session->lock);
}

void peer_remove_path(struct peer *peer, struct peer_reach *reach)
{
	pthread_mutex_lock(&peer->session->lock);
	reach->nr_paths--;
	end_if_unused(peer, reach);
	pthread_mutex_unlock(&peer->session->lock);
}

void reaches_free(struct afar_session *session)
{
	struct peer_reach *reach, *next;

	cds_list_for_each_entry_safe (reach, next, &session->free_reaches, node)
		free(reach);
	CDS_INIT_LIST_HEAD(&session->free_reaches);
}

/* ---- Connections that ended under writes */

void peer_note_doubt(struct peer *peer, struct peer_reach *reach, struct peer_doubt *doubt)
{
	pthread_mutex_lock(&peer->session->lock);
	cds_list_add_tail(&doubt->node, &reach->doubt);
	reach->nr_in_doubt++;
	pthread_mutex_unlock(&peer->session->lock);
}

uint64_t peer_find_doubt(struct peer *peer, struct peer_reach *reach)
{
	uint64_t connection = 0;

	pthread_mutex_lock(&peer->session->lock);
	if (!cds_list_empty(&reach->doubt))
		connection =
			cds_list_first_entry(&reach->doubt, struct peer_doubt, node)->connection;
	pthread_mutex_unlock(&peer->session->lock);
	return connection;
}

void peer_forget_doubt(struct peer *peer, struct peer_reach *reach, uint64_t connection)
{
	struct peer_doubt *doubt, *next;

	pthread_mutex_lock(&peer->session->lock);
	cds_list_for_each_entry_safe (doubt, next, &reach->doubt, node) {
		if (doubt->connection != connection)
			continue;
		cds_list_del(&doubt->node);
		reach->nr_in_doubt--;
		free(doubt);
	}
	pthread_mutex_unlock(&peer->session->lock);
}
