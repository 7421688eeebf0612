/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts what is in use of a cluster's stores; see store_account.h. */
#include "store_account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "client/session.h"

#define NAMESPACES_MAX 4

static void add_namespaces(struct afar_session *session, struct account *account)
{
	struct afar_namespace_stat stats[NAMESPACES_MAX] = {{.size = sizeof(*stats)}};
	int nr = afar_namespace_list(session, NULL, stats, NAMESPACES_MAX);

	assert_true(nr >= 0);
	for (int i = 0; i < nr; i++) {
		account->reserved += stats[i].reserved_bytes;
		account->allocated += stats[i].allocated_bytes;
		account->nr_regions += stats[i].nr_regions;
	}
}

static void add_stores(struct afar_session *session, struct account *account)
{
	Afar__Status status = AFAR__STATUS__INIT;
	Afar__Frame *reply;

	status.is_fresh = true;
	assert_int_equal(session_call_for(session, RPC_REQUEST(STATUS, status, &status),
					  AFAR__REPLY__RESULT_CLUSTER_STATUS, &reply),
			 0);
	for (size_t i = 0; i < reply->reply->cluster_status->n_stores; i++) {
		const Afar__StoreStatus *store = reply->reply->cluster_status->stores[i];

		account->granted += store->granted_bytes;
		account->releasing += store->releasing_bytes;
		account->nr_orphans += store->nr_orphans;
		account->reported += store->report ? store->report->granted_bytes : UINT64_MAX;
		account->used += store->report ? store->report->used_bytes : UINT64_MAX;
		account->nr_stores++;
	}
	afar__frame__free_unpacked(reply, NULL);
}

void account_take(struct afar_session *session, struct account *out)
{
	*out = (struct account){.nr_stores = 0};
	add_namespaces(session, out);
	add_stores(session, out);
}
