/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's tables as text: one line for each row; see manager_tables.h. */
#include "lib/manager/manager_tables.h"

#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define U(number) ((unsigned long long)(number))

/* ---- Trees */

struct walk {
	FILE *out;
	void (*print)(FILE *out, const void *row);
};

static bool print_found(void *argument, void *row)
{
	const struct walk *walk = argument;

	walk->print(walk->out, row);
	return true;
}

static void count_node(const void *node, VISIT order, void *argument)
{
	(void)node;
	*(size_t *)argument += order == postorder || order == leaf;
}

/* Prints how many nodes there are, too: none is hidden between batches. */
static void print_tree(FILE *out, const char *name, const void *root,
		       void (*print)(FILE *out, const void *row))
{
	struct walk walk = {out, print};
	size_t nr = 0;

	twalk_r(root, count_node, &nr);
	fprintf(out, "  %s, %zu:", name, nr);
	tree_walk(root, print_found, &walk);
	fputc('\n', out);
}

static void print_principal_key(FILE *out, const void *row)
{
	const struct principal *principal = row;

	fprintf(out, " %llu/%s", U(principal->number), principal->name);
}

static void print_namespace_key(FILE *out, const void *row)
{
	const struct namespace *ns = row;

	fprintf(out, " %llu/%s", U(ns->number), ns->name);
}

static void print_server_key(FILE *out, const void *row)
{
	fprintf(out, " %llu", U(((const struct server *)row)->number));
}

static void print_flash_key(FILE *out, const void *row)
{
	fprintf(out, " %llx", U(((const struct flash_store *)row)->number));
}

static void print_session_key(FILE *out, const void *row)
{
	fprintf(out, " %llx", U(((const struct session *)row)->number));
}

static void print_region_key(FILE *out, const void *row)
{
	const struct region *region = row;

	fprintf(out, " %llu/%s@%llx", U(region->generation), region->name, U(region->address));
}

static void print_reference_key(FILE *out, const void *row)
{
	fprintf(out, " %llu", U(((const struct reference *)row)->generation));
}

static void print_extent_key(FILE *out, const void *row)
{
	const struct extent *extent = row;

	fprintf(out, " %llu.%llu.%llu", U(extent_home(extent).server), U(extent->life),
		U(extent->number));
}

/* ---- Rows */

static void print_bytes(FILE *out, const char *name, const uint8_t *bytes, size_t length)
{
	fprintf(out, " %s ", name);
	for (size_t i = 0; i < length; i++)
		fprintf(out, "%02x", bytes[i]);
}

static void print_principals(FILE *out, const struct fixture *fixture)
{
	const struct state *state = fixture->core->state;
	const struct principal *principal;
	uint8_t secret[KEY_BYTES];

	fprintf(out, "principals: %zu\n", state->nr_principals);
	cds_list_for_each_entry (principal, &state->principals, node) {
		fprintf(out, "principal %llu %s server %d max %llu reserved %llu",
			U(principal->number), principal->name, principal->is_server,
			U(principal->max_bytes), U(principal->reserved_bytes));
		print_bytes(out, "secret", principal->secret, KEY_BYTES);
		if (keyring_find(fixture->keyring, principal->name, secret))
			print_bytes(out, "in the keyring", secret, KEY_BYTES);
		fputc('\n', out);
	}
	print_tree(out, "by number", state->principals_by_number, print_principal_key);
	print_tree(out, "by name", state->principals_by_name, print_principal_key);
}

static void print_region(FILE *out, const struct region *region)
{
	const struct layout *layout = region->layout;
	const struct reference *reference;

	fprintf(out,
		"region %llu of %llu at %llx length %llu '%s' stripe %llu nic %d freed %d lost %d "
		"sealed %d unfinished %d maker %llx\n",
		U(region->generation), U(region->ns->number), U(region->address), U(region->length),
		region->name, U(region->stripe_bytes), region->has_nic_atomics, region->is_freed,
		region->is_lost, region->layout->is_sealed, region->is_unfinished,
		U(region->maker));
	for (uint32_t i = 0; i < layout->nr_groups; i++)
		fprintf(out, "  group %llu+%llu chunks of %llu %u+%u\n", U(layout->groups[i].start),
			U(layout->groups[i].length), U(layout->groups[i].chunk_bytes),
			layout->groups[i].first_chunk, layout->groups[i].nr_chunks);
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct layout_copy *copy = &layout->copies[i];
		const struct layout_home *home = layout_home_of(layout, copy);

		fprintf(out, "  copy %llu.%llu.%llu at %llu of group %u\n", U(home->server),
			U(home->life), U(copy->extent), U(copy->offset), copy->group);
	}
	if (region->family != 0) {
		const struct cds_list_head *at = region->family_node.next;

		fprintf(out, "  version %llu of %llu draft %d word %d claim %llx with",
			U(region->version), U(region->family), region->is_draft, region->has_word,
			U(region->claim));
		for (; at != &region->family_node; at = at->next)
			fprintf(out, " %llu",
				U(cds_list_entry(at, struct region, family_node)->generation));
		fputc('\n', out);
	}
	for (uint32_t i = 0; i < layout->nr_copies && region->trims != NULL; i++)
		fprintf(out, "  copy %u %s\n", i,
			region->trims[i] == TRIM_DONE ? "is trimmed" : "is to be trimmed");
	fprintf(out, "  open by");
	cds_list_for_each_entry (reference, &region->references, region_node)
		fprintf(out, " %llx in mode %d", U(reference->session->number),
			(int)reference->mode);
	fputc('\n', out);
}

static void print_namespace(FILE *out, const struct namespace *ns)
{
	const struct region *region;
	const struct extent *extent;

	fprintf(out,
		"namespace %llu '%s' of '%s' tier %u width %u stripe %llu next %llx first %d "
		"deleted %d reserved %llu allocated %llu regions %llu turn %llu\n  grants",
		U(ns->number), ns->name, ns->owner, ns->tier, ns->width, U(ns->stripe_bytes),
		U(ns->next_address), ns->has_had_first, ns->is_deleted, U(ns->reserved_bytes),
		U(ns->allocated_bytes), U(ns->nr_regions), U(ns->turn));
	for (size_t i = 0; i < ns->nr_grants; i++)
		fprintf(out, " %s=%u", ns->grants[i].principal, ns->grants[i].rights);
	fprintf(out, "\n  extents");
	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		print_extent_key(out, extent);
	fputc('\n', out);
	print_tree(out, "by name", ns->regions_by_name, print_region_key);
	print_tree(out, "by address", ns->regions_by_address, print_region_key);
	cds_list_for_each_entry (region, &ns->regions, node)
		print_region(out, region);
	cds_list_for_each_entry (region, &ns->freed, node)
		print_region(out, region);
}

static void print_extent(FILE *out, const struct extent *extent)
{
	fprintf(out, "  extent");
	print_extent_key(out, extent);
	fprintf(out,
		" of %llu (%s) length %llu releasing %d class %d trimming %llu free %llu longest "
		"%llu:",
		U(extent->namespace_number), extent->ns ? extent->ns->name : "-", U(extent->length),
		extent_is_releasing(extent), extent->class, U(extent->trimming_bytes),
		U(extent->space.free_bytes), U(extent->space.longest));
	for (size_t i = 0; i < extent->space.nr_runs; i++)
		fprintf(out, " %llu+%llu", U(extent->space.runs[i].offset),
			U(extent->space.runs[i].length));
	fputc('\n', out);
}

static void print_server(FILE *out, const struct server *server)
{
	const struct live_server *live = server->live;
	const struct extent *extent;

	fprintf(out,
		"server %llu '%s' key of '%s' incarnation %llu at %s capacity %llu granted %llu "
		"releasing %llu\n",
		U(server->number), server->name, server->principal, U(server->incarnation),
		server->control_address, U(server->dram.capacity_bytes),
		U(server->dram.granted_bytes), U(server->dram.releasing_bytes));
	for (size_t i = 0; i < server->nr_lanes; i++)
		fprintf(out, "  lane %s %s to %llx\n", server->lanes[i].transport,
			server->lanes[i].address, U(server->lanes[i].store));
	if (live) {
		fprintf(out,
			"  live %d peer %p incarnation %llu born %llu pending %llu copying %llu",
			live->server == server, live->peer, U(live->incarnation), U(live->born_at),
			U(live->pending_bytes), U(live->copying_ms));
		print_bytes(out, "key", live->signing_key, SIGNING_KEY_BYTES);
		fputc('\n', out);
	}
	cds_list_for_each_entry (extent, &server->dram.extents, pool_node)
		print_extent(out, extent);
}

static void print_flash(FILE *out, const struct flash_store *flash)
{
	const struct extent *extent;

	fprintf(out,
		"store %llx on %s server %llu capacity %llu granted %llu releasing %llu pending "
		"%llu "
		"accepted %llu %llx up %d orphans %llu of %llu\n",
		U(flash->number), flash->path,
		U(flash->pool.server ? flash->pool.server->number : 0),
		U(flash->pool.capacity_bytes), U(flash->pool.granted_bytes),
		U(flash->pool.releasing_bytes), U(flash->pool.pending_bytes),
		U(flash->accepted.opening), U(flash->accepted.random), flash->is_up,
		U(flash->nr_orphans), U(flash->orphan_bytes));
	cds_list_for_each_entry (extent, &flash->pool.extents, pool_node)
		print_extent(out, extent);
}

static void print_session(FILE *out, const struct session *session)
{
	const struct live_session *live = session->live;
	const struct reference *reference;
	const struct outcome *outcome;

	fprintf(out, "session %llx '%s' of '%s' ending %d settled %llu opened %llu",
		U(session->number), session->client, session->principal, session->is_ending,
		U(session->settled_below), U(session->opened_at));
	print_bytes(out, "secret", session->secret, STATE_SECRET_BYTES);
	if (live)
		fprintf(out, " live %d peer %p", live->session == session, live->peer);
	fprintf(out, "\n  fences %zu of %zu:", session->nr_awaited, session->nr_fences);
	for (size_t i = 0; i < session->nr_fences; i++)
		fprintf(out, " %llu.%llu%s", U(session->fences[i].server),
			U(session->fences[i].incarnation),
			session->fences[i].is_over ? " over" : "");
	fprintf(out, "\n  namespaces");
	for (size_t i = 0; i < session->nr_namespaces; i++)
		fprintf(out, " %llu", U(session->namespaces[i]));
	fprintf(out, "\n  references %u:", session->nr_references);
	cds_list_for_each_entry (reference, &session->references, session_node)
		fprintf(out, " %llu(%llu)x%llu", U(reference->generation),
			U(reference->region->generation), U(reference->count));
	fprintf(out, "\n  outcomes %u:", session->nr_outcomes);
	cds_list_for_each_entry (outcome, &session->outcomes, node)
		fprintf(out, " %llu:%d=%llu", U(outcome->request_id), (int)outcome->kind,
			U(outcome->value));
	fputc('\n', out);
	print_tree(out, "by generation", session->references_by_generation, print_reference_key);
}

static int compare_numbers(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* Their lists are in the order of connections and of leases: here in that of numbers. */
static void print_lives(FILE *out, const char *name, const struct cds_list_head *lives)
{
	const struct live_session *live;
	uint64_t numbers[256];
	size_t nr = 0;

	cds_list_for_each_entry (live, lives, node)
		if (nr < 256)
			numbers[nr++] = live->number;
	qsort(numbers, nr, sizeof(numbers[0]), compare_numbers);
	fprintf(out, "%s:", name);
	for (size_t i = 0; i < nr; i++)
		fprintf(out, " %llx", U(numbers[i]));
	fputc('\n', out);
}

static void print_core(FILE *out, struct core *core)
{
	const struct live_server *live;

	fprintf(out, "live servers:");
	cds_list_for_each_entry (live, &core->live_servers, node)
		fprintf(out, " %llu", U(live->number));
	fputc('\n', out);
	print_lives(out, "connected", &core->connected);
	print_lives(out, "leased", &core->leased);
	print_lives(out, "ended", &core->ended);
	fprintf(out, "changes of keys: %d\n", !cds_list_empty(&core->key_changes));
}

char *tables_text(const struct fixture *fixture)
{
	struct core *core = fixture->core;
	const struct state *state = core->state;
	const struct namespace *ns;
	const struct removal *removal;
	const struct session *session;
	const struct flash_store *flash;
	const struct server *server;
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	fprintf(out, "cluster %s next %llu %llu %llu %llu\n", state->cluster,
		U(state->next_namespace), U(state->next_server), U(state->next_generation),
		U(state->next_principal));
	print_principals(out, fixture);
	cds_list_for_each_entry (ns, &state->namespaces, node)
		print_namespace(out, ns);
	cds_list_for_each_entry (server, &state->servers, node)
		print_server(out, server);
	cds_list_for_each_entry (flash, &state->stores, node)
		print_flash(out, flash);
	cds_list_for_each_entry (removal, &state->removals, node)
		fprintf(out, "removal %llu.%llu\n", U(removal->server), U(removal->incarnation));
	cds_list_for_each_entry (session, &state->sessions, node)
		print_session(out, session);
	cds_list_for_each_entry (session, &state->ending, node)
		print_session(out, session);
	print_tree(out, "namespaces by number", state->namespaces_by_number, print_namespace_key);
	print_tree(out, "namespaces by name", state->namespaces_by_name, print_namespace_key);
	print_tree(out, "servers", state->servers_by_number, print_server_key);
	print_tree(out, "stores", state->stores_by_number, print_flash_key);
	print_tree(out, "sessions", state->sessions_by_number, print_session_key);
	print_tree(out, "regions", state->regions_by_generation, print_region_key);
	print_tree(out, "extents", state->extents_by_place, print_extent_key);
	print_core(out, core);
	fclose(out);
	return text;
}

static void print_line(const char *name, const char *text, size_t at)
{
	while (at > 0 && text[at - 1] != '\n')
		at--;
	print_error("%s: %.*s\n", name, (int)strcspn(text + at, "\n"), text + at);
}

void expect_tables(const struct fixture *fixture, char *before)
{
	char *after = tables_text(fixture);
	size_t at = 0;

	if (strcmp(before, after) != 0) {
		while (before[at] == after[at])
			at++;
		print_line("was", before, at);
		print_line("is ", after, at);
		fail_msg("the tables are not those from before");
	}
	free(after);
	free(before);
}
