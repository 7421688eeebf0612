/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells an operator what is lost with a server's memory, or with a store, before he gives it up.
 * This file tells it by namespace; files/lost_list.c counts the files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager/connections/losses.h"

/* Finds where it is that is asked about. */
int losses_home(const struct core *core, uint64_t server_number, uint64_t store_number,
		struct layout_home *out)
{
	const struct flash_store *store = state_store(core->state, store_number);
	const struct server *server = state_server(core->state, server_number);

	if (store_number != 0 && !store)
		return error_fail(-ENOENT,
				  "tell what is lost with store %016llx: there is none; see 'afar "
				  "store ls'",
				  (unsigned long long)store_number);
	if (store_number == 0 && !server)
		return error_fail(
			-ENOENT,
			"tell what is lost with server %llu: there is none; see 'afar status'",
			(unsigned long long)server_number);
	*out = pool_home(store_number != 0 ? &store->pool : &server->dram);
	return 0;
}

static uint64_t bytes_at(const struct region *region, const struct layout_home *home)
{
	const struct layout *layout = region->layout;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < layout->nr_copies; i++)
		if (layout_home_is(layout_home_of(layout, &layout->copies[i]), home))
			bytes += layout_copy_span(layout, &layout->copies[i]);
	return bytes;
}

/* Adds up what of the namespace is there. */
static Afar__Loss count(const struct namespace *ns, const struct layout_home *home)
{
	Afar__Loss loss = AFAR__LOSS__INIT;
	const struct region *region;

	loss.namespace_ = ns->number;
	loss.is_volume = ns->is_volume && !ns->is_files;
	loss.is_files = ns->is_files;
	cds_list_for_each_entry (region, &ns->regions, node) {
		if (region->is_lost || !region_is_at(region, home))
			continue;
		loss.nr_regions++;
		loss.bytes += ns->is_files ? bytes_at(region, home) : region->length;
	}
	return loss;
}

static int add(Afar__LossInfos *infos, const Afar__Loss *loss, const char *name)
{
	Afar__Loss *copy = MESSAGE_NEW(afar__loss, Afar__Loss);

	if (!copy)
		return error_code(-ENOMEM);
	*copy = *loss;
	copy->name = strdup(name);
	infos->entries[infos->n_entries++] = copy;
	return copy->name ? 0 : error_code(-ENOMEM);
}

int loss_list(struct core *core, struct session *session, struct event *event)
{
	const Afar__LossList *ask = event->request->loss_list;
	const struct namespace *ns;
	struct layout_home home;
	Afar__LossInfos *infos;
	int ret = losses_home(core, ask->server, ask->store, &home);

	(void)session;
	if (ret < 0)
		return ret;
	infos = MESSAGE_NEW(afar__loss_infos, Afar__LossInfos);
	if (!infos)
		return error_code(-ENOMEM);
	event->reply->loss_infos = infos;
	event->reply->result_case = AFAR__REPLY__RESULT_LOSS_INFOS;
	infos->entries = calloc(CORE_LIST_MAX, sizeof(*infos->entries));
	if (!infos->entries)
		return error_code(-ENOMEM);
	/* In the order of their numbers: state_add_namespace() adds the newest behind all others. */
	cds_list_for_each_entry (ns, &core->state->namespaces, node) {
		Afar__Loss loss;

		if (ns->is_deleted || ns->number <= ask->after)
			continue;
		loss = count(ns, &home);
		if (loss.nr_regions != 0)
			ret = add(infos, &loss, ns->name);
		if (ret < 0 || infos->n_entries == CORE_LIST_MAX)
			break;
	}
	return ret;
}
