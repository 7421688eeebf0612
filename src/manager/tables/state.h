/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager's tables in memory: principals, namespaces, servers, stores, extents, regions,
 * sessions (rows.h), as the metastore has them, linked to each other. The core owns them; only the writer thread uses
 * them. Functions here keep the links and the accounting right. They store nothing: a caller that
 * changes something also puts its record.
 *
 * Functions here that change a table note it (undo.h), and so does everybody else who sets a field
 * of a row. Taking back leaves exactly the tables from before, down to the order of lists. Two
 * fields are of connections and not of batches, and are never taken back. They tell whether a
 * server has been told of an extent that drains, and of a fence.
 *
 * State that lives as long as a connection is in `struct live_server` and `struct live_session`
 * (connections/live.h), which `live` points to.
 */
#ifndef MANAGER_STATE_H
#define MANAGER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#include "manager/rows.h"
#include "manager/tables/undo.h"

#define STATE_LANES_MAX	  64U /* of a server */
#define STATE_CLUSTER_MAX 32

/* Regions have addresses from here on, except the first region: it has all below to itself. */
#define STATE_SECOND_ADDRESS ((uint64_t)1 << 56)

/* See Term in rpc/afar.proto. */
struct term {
	uint64_t number, random;
};
#define STATE_TERMS_MAX 512U /* past ones that are kept */

struct state {
	struct undo *undo; /* the core's */
	char cluster[STATE_CLUSTER_MAX + 1];
	uint64_t next_namespace;
	uint64_t next_server;
	uint64_t next_generation;
	uint64_t next_principal;
	struct term term;
	uint64_t
		accepted_below; /* an operator has accepted that others have seen later terms below this; 0: he has not */
	struct term past_terms
		[STATE_TERMS_MAX]; /* how those of earlier starts ended, the oldest first */
	uint32_t nr_past_terms;
	bool is_old; /* set while loading: the store has an older format */

	struct cds_list_head principals; /* struct principal */
	size_t nr_principals;
	struct cds_list_head namespaces; /* struct namespace */
	struct cds_list_head servers;	 /* struct server    */
	struct cds_list_head stores;	 /* struct flash_store */
	struct cds_list_head trimming;	 /* struct region: freed ones that wait for trims */
	struct cds_list_head removals;	 /* struct removal   */
	struct cds_list_head sessions;	 /* struct session   */
	struct cds_list_head ending;	 /* struct session   */

	/* Trees (tree.h) over the same things. */
	void *principals_by_number;
	void *principals_by_name;
	void *namespaces_by_number;
	void *namespaces_by_name; /* those not deleted */
	void *servers_by_number;
	void *stores_by_number;
	void *sessions_by_number;
	void *regions_by_generation;
	void *extents_by_place;
};

/*
 * A function that can fail returns -ENOMEM, or the errors that it names. It may have done half
 * then, and so may its caller: what runs has to be taken back (undo_end()). Functions that take a
 * row over take it over even if they fail.
 */

/* `undo` stays the caller's. */
struct state *state_open(struct undo *undo);
/* Nothing may be noted. */
void state_close(struct state *state);

/* Links a new principal, and takes it over. It owns what its name owns already. -EEXIST. */
int state_add_principal(struct state *state, struct principal *principal);
struct principal *state_principal(const struct state *state, uint64_t number);
struct principal *state_principal_named(const struct state *state, const char *name);
/* Unlinks it. It is wiped and freed with the commit. */
int state_remove_principal(struct state *state, struct principal *principal);
struct principal *principal_new(uint64_t number, const char *name);
void principal_free(struct principal *principal);

/* Links a new namespace, and takes it over. -EEXIST. */
int state_add_namespace(struct state *state, struct namespace *ns);
struct namespace *state_namespace(const struct state *state, uint64_t number);
struct namespace *state_namespace_named(const struct state *state, const char *name);
/* Takes its name away. */
int state_delete_namespace(struct state *state, struct namespace *ns);
/* Unlinks it. It must be deleted, and have no regions or extents. */
int state_remove_namespace(struct state *state, struct namespace *ns);
/* A namespace with empty lists; NULL: no memory. */
struct namespace *namespace_new(const char *name, const char *owner);
/* The rights that a principal was granted; 0: none. */
uint32_t namespace_granted(const struct namespace *ns, const char *principal);
/* Replaces a principal's rights. 0 takes them away. */
int state_set_grant(struct state *state, struct namespace *ns, const char *principal,
		    uint32_t rights);
void namespace_free(struct namespace *ns);

/* Links a new server, and takes it over. -EEXIST. */
int state_add_server(struct state *state, struct server *server);
struct server *state_server(const struct state *state, uint64_t number);
/* Copies what it says of itself. */
struct server_texts {
	const char *name;
	const char *principal; /* at most KEY_IDENTITY_MAX bytes */
	const char *control_address;
	const struct lane *lanes;
	size_t nr_lanes;
};
int state_describe_server(struct state *state, struct server *server,
			  const struct server_texts *texts);
/* Unlinks it. It must have no extents, and no store may name it. */
int state_remove_server(struct state *state, struct server *server);
struct server *server_new(void);

int state_add_removal(struct state *state, uint64_t server, uint64_t incarnation,
		      struct removal **out);
bool state_is_removed(const struct state *state, uint64_t incarnation);

/* Links a new store, and takes it over. -EEXIST. */
int state_add_store(struct state *state, struct flash_store *store);
struct flash_store *state_store(const struct state *state, uint64_t number);
/* Replaces its path. */
int state_set_store_path(struct state *state, struct flash_store *store, const char *path);
/* Unlinks it. It must have no extents. */
int state_remove_store(struct state *state, struct flash_store *store);
/* The number that comes from the UUID. */
uint64_t flash_store_number(const uint8_t uuid[STORE_UUID_BYTES]);
/* Without a path, which is to be set before anybody looks; NULL: no memory. */
struct flash_store *flash_store_new(uint64_t number);

/* The pool that the extents there are granted out of; NULL: it has gone, or its life has ended. */
struct pool *state_pool(const struct state *state, const struct layout_home *home);
/* The server that has what is at home there, or had it last; NULL: none. Its life does not
 * matter. */
struct server *state_home_server(const struct state *state, const struct layout_home *home);
/* The home of its extents. */
struct layout_home pool_home(const struct pool *pool);
/* Makes and links an extent. `like` has its pool, life, number, class and length. Its namespace is
 * NULL for an extent that is being released; the namespace's number is there in any case.
 * -EEXIST. */
int state_add_extent(struct state *state, const struct extent *like, struct extent **out);
struct extent *state_extent(const struct state *state, const struct layout_home *home,
			    uint64_t number);
struct layout_home extent_home(const struct extent *extent);
/* The extent that a copy is in; NULL: it has gone. */
struct extent *state_extent_of(const struct state *state, const struct layout *layout,
			       const struct layout_copy *copy);
/* True: it has something in extents of flash that are the namespace's, and that one stays. */
bool region_needs_trims(const struct state *state, const struct region *region);
/* A freed region, which nobody has open, waits for trims from now on. */
int state_begin_trims(struct state *state, struct region *region);
/* The connection of the copy's store carries its trim, or does not any more. Never taken back. */
void region_set_trim_told(struct region *region, uint32_t copy, bool is_told);
/* No connection carries a trim of any of its copies: all are to be told again. Never taken back. */
void region_forget_trims_told(const struct state *state, struct region *region);
/* The copy is trimmed, or needs no trim any more. */
int state_end_trim(struct state *state, struct region *region, uint32_t copy);
/* True: it waits for nothing more. */
bool region_is_trimmed(const struct region *region);
/* Regions that wait give back what they have in an extent that is to be released. */
int state_leave_trims(struct state *state, struct extent *extent);

/* Takes the extent from its namespace. No region may use it. */
int state_release_extent(struct state *state, struct extent *extent);
/* Unlinks it. Regions that use it become lost. */
int state_remove_extent(struct state *state, struct extent *extent);
uint64_t extent_used(const struct extent *extent);
/* The class of the extents in which the namespace's regions are written. */
enum extent_class namespace_class(const struct namespace *ns);
/* True in DRAINING and TOLD. */
bool extent_is_releasing(const struct extent *extent);
/* For an extent that is releasing: its server's connection carries the call, or does not any more.
 * Never taken back. */
void extent_set_told(struct extent *extent, bool is_told);

/* Links a region, and takes it over. The space of its layout must be taken already. -EEXIST. */
int state_add_region(struct state *state, struct region *region);
struct region *state_region(const struct state *state, uint64_t generation);
/* True: its layout has bytes there. */
bool region_is_at(const struct region *region, const struct layout_home *home);
/* True: this incarnation of the server has, or had last, bytes of its layout: in its DRAM or in its
 * stores. */
bool region_is_held(const struct state *state, const struct region *region, uint64_t server,
		    uint64_t incarnation);
/* Gives back what the region's layout has, and replaces it with `layout`, which it takes over. The
 * space of the new layout must be taken and counted already. */
int state_replace_layout(struct state *state, struct region *region, struct layout *layout);
/* Replaces the region's layout with one that covers more, or less. It takes that over. The space that only the new one has must be taken
 * already. Both have the same copies from the first on, of which the new one may have less. The space that only the old one has is given back, unless another region keeps it (`is_kept`), which is to be added. */
int state_resize_region(struct state *state, struct region *region, struct layout *layout,
			bool is_kept);
/* Replaces the region's layout with one of which chunks are lost, and takes that over. Their extent is about
 * to be removed: nothing is given back. */
int state_lose_chunks(struct state *state, struct region *region, struct layout *layout);
/* Replaces the region's layout with one without the copies that `goes` names, and takes that over. Those are given
 * back. */
int state_give_up_chunks(struct state *state, struct region *region, struct layout *layout,
			 const bool goes[]);
struct region *namespace_region_named(const struct namespace *ns, const char *name);
struct region *namespace_region_at(const struct namespace *ns, uint64_t address);
/* The first live region above `address`; NULL: there is none. */
struct region *namespace_region_above(const struct namespace *ns, uint64_t address);
/* Takes its name and address away. */
int state_free_region(struct state *state, struct region *region);
/* Gives back what its layout has, and unlinks it. Nobody may have it open. */
int state_remove_region(struct state *state, struct region *region);
void region_free(struct region *region);

/*
 * Versions of copy-on-write regions: state_versions.c. The group of a unit has its chunk in the same place in all versions in
 * which the unit is equal. A chunk is given back with the last version that has it.
 */
#define STATE_WORD_BYTES 4096U /* of a chunk for the newest version's number */
/* Returns a version of that family in the namespace; NULL: there is none. */
struct region *namespace_family(const struct namespace *ns, uint64_t family, uint64_t address);
/* Puts a version into the ring of its family. Takes two notes. */
void state_join_family(struct state *state, struct region *region);
/* True: another version has the chunk of that copy, too. `relative` is any version of the family: the
 * region itself once it is linked. */
bool region_is_shared(const struct region *relative, const struct region *region, uint32_t copy);
/* A version that is about to go keeps the chunks that no other version has. Does nothing to one that has done so,
 * or is of no copy-on-write region. */
int state_shed(struct state *state, struct region *region);
/* The draft takes the place of the newest version, which counts as freed from now on. */
int state_publish(struct state *state, struct region *draft, struct region *newest);
/* Replaces the layout of a version by one of which it has the chunks; those that only the old one had are not given
 * back. */
int state_change_version(struct state *state, struct region *region, struct layout *layout,
			 uint64_t added_bytes);
/* The newest version, which has the name and the address; NULL: the region is freed. */
struct region *region_newest(const struct region *region);
/* The reference of a session that is writing the next version: of the last one that has begun it; NULL: none is. */
struct reference *region_writer(const struct region *region);
/* The version that was begun later than this draft: its session has taken the claim to write. NULL: none was. */
const struct region *region_taken(const struct region *draft);

/* True: for all but its stores it has gone. */
bool region_is_gone(const struct region *region);
/* Counts the sessions that have it open, without ending ones. */
uint32_t region_nr_references(const struct region *region);

/* Links a new session, and takes it over. -EEXIST. */
int state_add_session(struct state *state, struct session *session);
struct session *state_session(const struct state *state, uint64_t number);
/* Moves a session to the list of those that wait for servers. It waits for each of the fences,
 * which it takes over. */
int state_end_session(struct state *state, struct session *session, struct fence *fences,
		      size_t nr_fences);
/* A fence of the session's is over. */
int state_end_fence(struct state *state, struct session *session, struct fence *fence);
/* Unlinks it. It must be ending, and have no references; no fence is awaited. */
int state_remove_session(struct state *state, struct session *session);
struct session *session_new(const char *client, const char *principal);
void session_free(struct session *session);
/* True: the session was given access to the namespace. */
bool session_has_used(const struct session *session, uint64_t ns);
/* Notes that it was given access; forgets namespaces that are gone. */
int state_use_namespace(struct state *state, struct session *session, uint64_t ns);

int state_add_reference(struct state *state, struct session *session, struct region *region,
			uint64_t count, struct reference **out);
struct reference *session_reference(const struct session *session, uint64_t generation);
int state_remove_reference(struct state *state, struct reference *reference);

int state_add_outcome(struct state *state, struct session *session, uint64_t request_id,
		      enum outcome_kind kind, uint64_t value);
const struct outcome *session_outcome(const struct session *session, uint64_t request_id);
int state_remove_outcome(struct state *state, struct session *session, struct outcome *outcome);

/* How people call a namespace, a volume and a file system, and the group of commands about it. */
static inline const char *kind_noun(bool is_volume, bool is_files)
{
	return !is_volume ? "namespace" : is_files ? "file system" : "volume";
}
static inline const char *kind_command(bool is_volume, bool is_files)
{
	return !is_volume ? "ns" : is_files ? "fs" : "volume";
}
static inline const char *namespace_noun(const struct namespace *ns)
{
	return kind_noun(ns->is_volume, ns->is_files);
}
static inline const char *namespace_command(const struct namespace *ns)
{
	return kind_command(ns->is_volume, ns->is_files);
}

/* The volume's one region. NULL: it has not been made yet. */
static inline struct region *volume_region(const struct namespace *ns)
{
	struct region *region;

	cds_list_for_each_entry (region, &ns->regions, node)
		return region;
	return NULL;
}

#endif
