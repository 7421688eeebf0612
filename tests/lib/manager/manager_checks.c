/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what must hold of a manager's tables; see manager_checks.h. Everything here asserts by
 * cmocka. */
#include "lib/manager/manager_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void put_session(struct store *store, const struct session *session)
{
	struct reference *reference;
	struct outcome *outcome;

	store_put_session(store, session);
	cds_list_for_each_entry (reference, &session->references, session_node)
		store_put_reference(store, reference);
	if (!session->is_ending)
		cds_list_for_each_entry (outcome, &session->outcomes, node)
			store_put_outcome(store, session, outcome->request_id, outcome->kind,
					  outcome->value, NULL);
}

static void put_all(struct store *store, const struct state *state)
{
	struct principal *principal;
	struct namespace *ns;
	struct server *server;
	struct flash_store *flash;
	struct extent *extent;
	struct region *region;
	struct session *session;
	struct removal *removal;

	store_put_cluster(store, state);
	if (state->nr_past_terms != 0)
		store_put_past_terms(store, state);
	cds_list_for_each_entry (principal, &state->principals, node)
		store_put_principal(store, principal);
	cds_list_for_each_entry (ns, &state->namespaces, node) {
		store_put_namespace(store, ns);
		store_put_grants(store, ns);
		cds_list_for_each_entry (region, &ns->regions, node)
			store_put_region(store, region);
		cds_list_for_each_entry (region, &ns->freed, node)
			store_put_region(store, region);
	}
	cds_list_for_each_entry (server, &state->servers, node) {
		store_put_server(store, server);
		cds_list_for_each_entry (extent, &server->dram.extents, pool_node)
			store_put_extent(store, extent);
	}
	cds_list_for_each_entry (flash, &state->stores, node) {
		store_put_flash(store, flash);
		cds_list_for_each_entry (extent, &flash->pool.extents, pool_node)
			store_put_extent(store, extent);
	}
	cds_list_for_each_entry (removal, &state->removals, node)
		store_put_removal(store, removal);
	cds_list_for_each_entry (session, &state->sessions, node)
		put_session(store, session);
	cds_list_for_each_entry (session, &state->ending, node)
		put_session(store, session);
}

void check_store(struct fixture *fixture)
{
	struct memory_store copy;
	struct store *store;
	struct undo *undo;

	memory_store_open(&copy);
	assert_int_equal(undo_open(&undo), 0);
	assert_int_equal(store_open(&copy.base, undo, &store), 0);
	put_all(store, fixture->core->state);
	assert_int_equal(store_commit(store, NULL, NULL), 0);
	assert_int_equal(copy.nr_pairs, fixture->store.nr_pairs);
	for (size_t i = 0; i < copy.nr_pairs; i++) {
		assert_int_equal(
			memory_store_compare(copy.pairs[i].key, fixture->store.pairs[i].key), 0);
		assert_int_equal(
			memory_store_compare(copy.pairs[i].value, fixture->store.pairs[i].value),
			0);
	}
	store_close(store);
	undo_close(undo);
	memory_store_close(&copy);
}

/* True: the region has the copy, for the same bytes. */
static bool has_copy(const struct region *region, const struct layout *layout,
		     const struct layout_copy *copy)
{
	const struct layout *mine = region->layout;

	for (uint32_t i = 0; i < mine->nr_copies; i++) {
		const struct layout_copy *at = &mine->copies[i];

		if (at->extent == copy->extent && at->offset == copy->offset &&
		    layout_home_is(layout_home_of(mine, at), layout_home_of(layout, copy)))
			return mine->groups[at->group].start == layout->groups[copy->group].start &&
			       layout_copy_span(mine, at) == layout_copy_span(layout, copy);
	}
	return false;
}

/* True: another version of a copy-on-write region has the copy, for the same bytes, and was looked at before. */
static bool was_taken(const struct cds_list_head *regions, const struct region *region,
		      const struct layout_copy *copy)
{
	const struct region *other;

	cds_list_for_each_entry (other, regions, node) {
		if (other == region)
			break;
		if (other->family == region->family && has_copy(other, region->layout, copy))
			return true;
	}
	return false;
}

static bool is_second(const struct region *region, const struct layout_copy *copy)
{
	if (region->family == 0)
		return false;
	return (region->is_freed && was_taken(&region->ns->regions, region, copy)) ||
	       was_taken(region->is_freed ? &region->ns->freed : &region->ns->regions, region,
			 copy);
}

/* Takes the chunks of regions out of whole extents: fails where two overlap. Versions share. */
static void retake(struct space *space, const struct extent *extent,
		   const struct cds_list_head *regions)
{
	const struct layout_home at = extent_home(extent);
	struct region *region;

	cds_list_for_each_entry (region, regions, node) {
		const struct layout *layout = region->layout;

		for (uint32_t i = 0; i < layout->nr_copies; i++) {
			const struct layout_copy *copy = &layout->copies[i];
			const struct layout_home *home = layout_home_of(layout, copy);

			if (layout_home_is(home, &at) && copy->extent == extent->number &&
			    !is_second(region, copy))
				assert_int_equal(space_take_at(space, copy->offset,
							       layout_copy_span(layout, copy)),
						 0);
		}
	}
}

static uint64_t trimming_bytes(const struct extent *extent)
{
	const struct layout_home home = extent_home(extent);
	const struct region *region;
	uint64_t bytes = 0;

	if (extent->ns == NULL)
		return 0;
	cds_list_for_each_entry (region, &extent->ns->freed, node) {
		const struct layout *layout = region->layout;

		for (uint32_t i = 0; i < layout->nr_copies && region->trims != NULL; i++)
			if (layout->copies[i].extent == extent->number &&
			    layout_home_is(layout_home_of(layout, &layout->copies[i]), &home))
				bytes += layout_copy_span(layout, &layout->copies[i]);
	}
	return bytes;
}

static void check_extent(const struct extent *extent)
{
	struct space space;

	assert_int_equal(extent->trimming_bytes, trimming_bytes(extent));
	assert_int_equal(space_begin(&space, extent->length), 0);
	if (extent->ns != NULL) {
		retake(&space, extent, &extent->ns->regions);
		retake(&space, extent, &extent->ns->freed);
	}
	assert_int_equal(space.nr_runs, extent->space.nr_runs);
	assert_int_equal(space.free_bytes, extent->space.free_bytes);
	assert_int_equal(space.longest, extent->space.longest);
	assert_memory_equal(space.runs, extent->space.runs, space.nr_runs * sizeof(*space.runs));
	space_end(&space);
}

static void check_namespace(const struct namespace *ns)
{
	uint64_t reserved = 0, allocated = 0, nr_regions = 0, last = 0;
	struct extent *extent;
	struct region *region;

	cds_list_for_each_entry (extent, &ns->extents, namespace_node) {
		reserved += extent->length;
		allocated += extent_used(extent);
	}
	cds_list_for_each_entry (region, &ns->regions, node) {
		/* Where each begins: one that has grown may reach past that of the next. */
		assert_true(region->address > last);
		last = region->address;
		nr_regions++;
	}
	cds_list_for_each_entry (region, &ns->freed, node)
		assert_true(cds_list_empty(&region->references) == (region->trims != NULL));
	assert_int_equal(ns->reserved_bytes, reserved);
	assert_int_equal(ns->allocated_bytes, allocated);
	assert_int_equal(ns->nr_regions, nr_regions);
}

static uint64_t owned_bytes(const struct state *state, const char *owner)
{
	const struct namespace *ns;
	uint64_t bytes = 0;

	cds_list_for_each_entry (ns, &state->namespaces, node)
		bytes += strcmp(ns->owner, owner) == 0 ? ns->reserved_bytes : 0;
	return bytes;
}

/* The keyring has the principals of the tables. */
static void check_keys(struct fixture *fixture)
{
	struct principal *principal;
	uint8_t secret[KEY_BYTES];

	cds_list_for_each_entry (principal, &fixture->core->state->principals, node) {
		assert_true(keyring_find(fixture->keyring, principal->name, secret));
		assert_memory_equal(secret, principal->secret, KEY_BYTES);
		assert_int_equal(principal->reserved_bytes,
				 owned_bytes(fixture->core->state, principal->name));
	}
	assert_true(cds_list_empty(&fixture->core->key_changes));
}

static void check_server(struct fixture *fixture, const struct server *server)
{
	uint64_t granted = 0, releasing = 0;
	struct extent *extent;
	size_t nr = 0;

	cds_list_for_each_entry (extent, &server->dram.extents, pool_node) {
		check_extent(extent);
		granted += extent->length;
		releasing += extent_is_releasing(extent) ? extent->length : 0;
		nr++;
	}
	assert_int_equal(server->dram.granted_bytes, granted);
	assert_int_equal(server->dram.releasing_bytes, releasing);
	if (!server_is_up(server) || !cds_list_empty(&fixture->core->jobs) ||
	    fixture->core->retry_at != 0)
		return;
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++) {
		const struct fake_server *fake = &fixture->servers[i];

		if (fake->peer == NULL || fake->peer != server->live->peer || fake->is_silent)
			continue;
		assert_int_equal(releasing, 0);
		assert_int_equal(fake->nr_extents, nr);
		assert_int_equal(fake->granted, granted);
		assert_int_equal(server->live->pending_bytes, 0);
	}
}

/* A store that is up has the extents of the tables. Orphans are its alone. */
static void check_flash(struct fixture *fixture, const struct flash_store *flash)
{
	uint64_t granted = 0, releasing = 0;
	struct extent *extent;
	size_t nr = 0;

	cds_list_for_each_entry (extent, &flash->pool.extents, pool_node) {
		check_extent(extent);
		granted += extent->length;
		releasing += extent_is_releasing(extent) ? extent->length : 0;
		nr++;
	}
	assert_int_equal(flash->pool.granted_bytes, granted);
	assert_int_equal(flash->pool.releasing_bytes, releasing);
	if (!flash->is_up)
		return;
	assert_true(server_is_up(flash->pool.server));
	if (!cds_list_empty(&fixture->core->jobs) || fixture->core->retry_at != 0)
		return;
	assert_int_equal(flash->pool.pending_bytes, 0);
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture->servers[i].is_silent)
			return;
	for (size_t i = 0; i < FIXTURE_STORES_MAX; i++) {
		struct fake_store *fake = &fixture->stores[i];

		if (fake->number != flash->number || fake->refuse_to_release != 0)
			continue;
		assert_int_equal(fake->nr_extents, nr + flash->nr_orphans);
		assert_int_equal(fake->granted, granted + flash->orphan_bytes);
		cds_list_for_each_entry (extent, &flash->pool.extents, pool_node)
			assert_non_null(fake_store_extent(fake, extent->number));
	}
}

void check_all(struct fixture *fixture)
{
	struct flash_store *flash;
	struct state *state = fixture->core->state;
	struct namespace *ns;
	struct server *server;

	check_store(fixture);
	check_keys(fixture);
	cds_list_for_each_entry (server, &state->servers, node)
		check_server(fixture, server);
	cds_list_for_each_entry (flash, &state->stores, node)
		check_flash(fixture, flash);
	cds_list_for_each_entry (ns, &state->namespaces, node)
		check_namespace(ns);
}

void check_empty(struct fixture *fixture)
{
	struct state *state = fixture->core->state;
	struct flash_store *flash;
	struct server *server;

	check_all(fixture);
	assert_true(cds_list_empty(&state->namespaces));
	assert_true(cds_list_empty(&state->ending));
	assert_null(state->regions_by_generation);
	assert_null(state->extents_by_place);
	assert_true(cds_list_empty(&fixture->core->jobs));
	assert_true(cds_list_empty(&state->trimming));
	cds_list_for_each_entry (server, &state->servers, node)
		assert_int_equal(server->dram.granted_bytes, 0);
	cds_list_for_each_entry (flash, &state->stores, node)
		assert_int_equal(flash->pool.granted_bytes, 0);
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++)
		if (fixture->servers[i].peer != NULL)
			assert_int_equal(fixture->servers[i].nr_extents, 0);
}
