/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of the manager's tables (state.h), and the states that memory goes through. */
#ifndef MANAGER_ROWS_H
#define MANAGER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <urcu/list.h>

#include "base/key.h"
#include "manager/tables/space.h"
#include "rpc/layout.h"

#define STATE_SECRET_BYTES 16
#define STATE_GROUPS_MAX   64U

struct Afar__StoreReport;
struct live_server;
struct live_session;

/*
 * The states of memory, as a server has them, and what the manager knows of them:
 *
 *   state at the server   here
 *   GRANTED               EXTENT_GRANTED: in its namespace. Regions may use it.
 *   GRANTED or DRAINING   EXTENT_DRAINING: nobody's, and stored so before its server is told.
 *                         EXTENT_TOLD: likewise, and the server's connection carries ExtentsRelease.
 *   FENCED                EXTENT_FENCED: the server has answered, or its incarnation has ended. The
 *                         record is deleted with that, so it is the state of an extent that goes.
 *   SCRUBBED, FREE        the server's alone: bytes of its report (dirty, clean). The next
 *                         extent that it grants is scrubbed, and has a new number
 *
 *   from       may become          by
 *   GRANTED    DRAINING            state_release_extent(): release or delete of the namespace
 *              FENCED              state_remove_extent(): a new incarnation of the server, or it
 *                                  joins again and does not have it. Regions that use it are lost.
 *                                  From any state: an operator removed the server
 *   DRAINING   TOLD                drive_releases() in servers.c
 *              FENCED              a new incarnation of the server, or the server has answered
 *                                  (released() in servers.c)
 *
 *   An extent of a store outlives the incarnations of servers. It ends by an answer, when its
 *   store joins and does not have it, unless it drains, or when an operator forgets the store.
 *
 *   TOLD       DRAINING            the server has answered, or the connection was lost. Unless the
 *                                  answer gets it FENCED, by a commit that is good, it is told
 *                                  again
 *
 * Moves between DRAINING and TOLD are never taken back; all others are.
 *
 * No clock moves an extent. Extents that a server granted to a reservation that failed are in no
 * table. A call of their own gives them back, or the next join of the server.
 *
 * An extent may begin to drain only when no region uses it. Two rules keep memory in use until it
 * is safe. A freed region (is_freed) keeps its chunks while a session has it open, and on flash until
 * they are trimmed. A session that
 * ended (is_ending) keeps its regions open until each server in its fences has answered SessionEnd
 * or has ended. Then session_fenced() drops what no fence holds any more.
 */
enum extent_state { EXTENT_GRANTED, EXTENT_DRAINING, EXTENT_TOLD, EXTENT_FENCED };

/* The bytes that jobs may ask servers for, counted in one pass over the jobs (quota.h). In memory
 * alone, and never taken back. */
struct claims {
	uint64_t pass, bytes;
};

/* A principal whose key an operator added. Keys of the key files are in the keyring alone. */
struct principal {
	struct cds_list_head node;
	uint64_t number;
	char name[KEY_PRINCIPAL_MAX + 1];
	bool is_server;
	uint8_t secret[KEY_BYTES];
	/* Whom it may say that it is when it uses files: anybody, or this uid and these groups. */
	bool is_any, has_uid;
	uint32_t uid;
	uint32_t gids[STATE_GROUPS_MAX];
	uint32_t nr_gids;
	uint64_t max_bytes;	 /* reserved at most for what it owns (quota.h); 0: no limit */
	uint64_t reserved_bytes; /* for the namespaces that have its name as their owner's */
	struct claims claims;	 /* on these */
};

/* The rights of another than the owner on a namespace; not 0. */
struct grant {
	/* It joins with this one's key; empty: of an old store. */
	char principal[KEY_IDENTITY_MAX + 1];
	uint32_t rights; /* RIGHT_… of rpc/capability.h */
};

struct namespace
{
	struct cds_list_head node;
	uint64_t number;
	char *name;
	char owner[KEY_IDENTITY_MAX + 1]; /* empty: operators alone */
	struct grant *grants;
	size_t nr_grants;
	uint32_t tier;
	uint32_t width;
	uint64_t stripe_bytes;
	uint64_t max_bytes; /* reserved at most; 0: no limit */
	bool is_volume;	    /* its one region is a disk (volumes.h) */
	bool is_files;	    /* with is_volume: that is a pool for files (files/) */
	bool is_suspect; /* its records are an older copy's, and nobody has accepted that: terms.c */
	uint64_t identity; /* random: no other of any cluster has it */
	uint64_t next_address;
	bool has_had_first;
	bool is_deleted; /* gone for users; waits until sessions are fenced */

	struct cds_list_head regions; /* by address; live ones */
	struct cds_list_head freed;   /* freed ones that a session has open, or that are trimmed */
	struct cds_list_head extents;
	void *regions_by_name;
	void *regions_by_address;
	uint64_t reserved_bytes;  /* of its extents */
	uint64_t allocated_bytes; /* of its extents, in chunks */
	struct claims claims;	  /* on it */
	uint64_t nr_regions;	  /* live ones */
	uint64_t turn;		  /* whose turn it is among the servers: for placement */
};

struct lane {
	const char *transport;
	const char *address;
	uint64_t store; /* to which it leads; 0: to the server's DRAM */
};

/* The source of extents: a server's DRAM, or a store. Its extents all have one life. */
struct pool {
	struct server *server;	   /* that has it. NULL: no server that is left has this store */
	struct flash_store *store; /* NULL: it is DRAM */
	struct cds_list_head extents;
	uint64_t capacity_bytes;
	uint64_t granted_bytes;	  /* in extents, including those being released */
	uint64_t releasing_bytes; /* of these, in those being released */
	/* Asked for by jobs, not in the tables yet. In memory alone, and never taken back. */
	uint64_t pending_bytes;
};

struct server {
	struct cds_list_head node;
	uint64_t number;
	char principal[KEY_IDENTITY_MAX + 1]; /* its owner; empty: of an old store, nobody's */
	uint64_t incarnation;
	const char *name;
	const char *control_address;
	const struct lane *lanes;
	size_t nr_lanes;
	void *texts; /* one allocation: the lanes and all texts */

	struct pool dram;
	struct live_server *live; /* NULL: not connected since the manager started */
};

/* A join of a store: an opening of its device, and a random number. */
struct store_join {
	uint64_t opening;
	uint64_t random;
};

/* An extent that a store has and the tables do not. */
struct orphan {
	uint64_t number, namespace_number, length;
};

/*
 * A device of flash with the extents on it, which outlive its server. It is up while the connection
 * lasts on which its server named it when it joined. The fields that tell that belong to
 * connections, as the counts of its orphans do, and are not stored.
 */
#define STORE_UUID_BYTES 16U
struct flash_store {
	struct cds_list_head node;
	uint64_t number; /* the first 8 bytes of the UUID, little-endian; not 0 */
	uint8_t uuid[STORE_UUID_BYTES];
	char *path; /* of the device at its server, for people */
	/* Its server is the one that has it or had it last. The record of a server that a store with
	 * extents names is kept: sessions may have connections there, and fences wait for it. */
	struct pool pool;
	struct store_join accepted; /* its last */
	uint64_t opening;	    /* of the device: the present one, or the last */
	bool is_up;
	bool is_leaving; /* its server is asked to close it: nothing new goes there. Never taken back */
	uint64_t trim_call;	/* that is under way there: its number; 0: none. Never taken back */
	bool has_trims;		/* there may be some that it has to be told of; likewise */
	uint64_t down_at;	/* if it is not up: since then; 0: since the manager started */
	struct orphan *orphans; /* kept, because an older copy of our store may be to blame */
	uint64_t nr_orphans;
	uint64_t orphan_bytes;
	struct Afar__StoreReport *report; /* its server's last, numbers alone; NULL: none yet */
};

/* An incarnation that an operator has removed. Kept for good. */
struct removal {
	struct cds_list_head node;
	uint64_t server;
	uint64_t incarnation;
};

/* Exists until it is released, or its life ends. Its home and number name it for ever. */
struct extent {
	struct cds_list_head pool_node;
	struct cds_list_head namespace_node;
	struct pool *pool; /* it is granted out of this one */
	uint64_t life;	   /* of DRAM: the server's incarnation; of a store: its number */
	uint64_t number;
	uint64_t namespace_number;
	struct namespace *ns; /* NULL when it is being released */
	uint64_t length;
	struct space space;
	uint64_t trimming_bytes; /* of what is used: in freed regions that wait for trims */
	enum extent_state state;
	enum extent_class class;
	bool is_reported; /* scratch, while the server joins */
};

/*
 * A region of flash that is freed and that nobody has open keeps its chunks until each of them has
 * been trimmed in its store.
 *
 *   WANTED   its store is to be told
 *   TOLD     the store's connection carries ExtentsTrim
 *   DONE     it has answered, or the extent has gone or is being released
 *
 * Moves between WANTED and TOLD are never taken back. A trim that is taken back from DONE is
 * WANTED. When all are DONE, the region goes in the same commit.
 */
enum trim_state { TRIM_WANTED, TRIM_TOLD, TRIM_DONE };

struct region {
	struct cds_list_head node; /* of the namespace's regions or freed */
	struct namespace *ns;
	uint64_t generation;
	uint64_t address;
	uint64_t length;
	char *name;
	uint64_t stripe_bytes;
	bool has_nic_atomics; /* NICs carry out its atomics; false: the servers' processors do */
	bool is_freed;
	bool is_lost;	    /* an extent that its layout names has gone */
	bool is_unfinished; /* whoever fills it has not said yet that all is in it */
	uint64_t
		maker; /* unfinished, it is freed when this session has it open no more; 0: it is kept */
	uint64_t layout_number; /* grows with each change of the layout */
	struct layout *layout;
	struct cds_list_head references;
	struct cds_list_head trim_node; /* with trims: of the state's trimming */
	enum trim_state *trims; /* one for each copy of the layout; NULL: it does not wait */
	/* The generation of the first version of a copy-on-write region; 0: it is no such region.
	 * Each version is a region (state_versions.c). */
	uint64_t family;
	uint64_t version; /* counts from 1 */
	bool is_draft;	  /* is_freed, too: it has no name before it is published */
	uint64_t claim;	  /* of a draft: a random number of its writer's */
	/* For a draft: since when its writer has it, and when he used it last. 0: before the
	 * manager started. Not stored, and never taken back. */
	uint64_t begun_at, used_at;
	bool has_word; /* the last chunk of its layout lies behind its bytes */
	struct cds_list_head
		family_node; /* a ring of the versions that there are, without a head */
};

/* How a session has a volume open. Numbers as in afar.proto. */
enum volume_mode { VOLUME_NONE, VOLUME_EXCLUSIVE, VOLUME_SHARED, VOLUME_READ_ONLY };

struct reference {
	struct cds_list_head region_node;
	struct cds_list_head session_node;
	struct region *region;
	struct session *session;
	uint64_t generation; /* the region's */
	uint64_t count;
	enum volume_mode mode; /* VOLUME_NONE: the region is no volume */
};

/* The result of a request: enough to answer it again. */
enum outcome_kind {
	OUTCOME_NONE,	   /* nothing to tell                  */
	OUTCOME_NAMESPACE, /* the number of a namespace        */
	OUTCOME_REGION,	   /* the generation of a region       */
	OUTCOME_RELEASED,  /* bytes                            */
	OUTCOME_PRINCIPAL, /* the number of a principal        */
	OUTCOME_STORE,	   /* the number of a store            */
	OUTCOME_RESULTS,   /* the request's id: its results are stored with it */
};

struct outcome {
	struct cds_list_head node;
	uint64_t request_id;
	enum outcome_kind kind;
	uint64_t value;
};

/* A server that has not yet said that it closed the ending session's data connections. */
struct fence {
	uint64_t server;
	uint64_t incarnation;
	bool is_sent; /* on the server's present connection; never taken back */
	bool is_over; /* it has said so */
};

struct session {
	struct cds_list_head node; /* of the state's sessions or ending */
	uint64_t number;
	uint8_t secret[STATE_SECRET_BYTES];
	char *client;
	char principal[KEY_IDENTITY_MAX + 1]; /* whose it is; empty: of an old store, nobody's */
	bool is_ending;
	struct fence *fences;
	size_t nr_fences;
	size_t nr_awaited;    /* of these, not over */
	uint64_t *namespaces; /* numbers of those that it had access to: it may have keys */
	size_t nr_namespaces;
	struct cds_list_head references;
	void *references_by_generation;
	uint32_t nr_references;
	struct cds_list_head outcomes;
	uint32_t nr_outcomes;
	uint32_t nr_locks;	/* of files, not stored: files/locks.c */
	uint64_t holds_mark;	/* of what it has open (store.h) */
	uint64_t settled_below; /* not stored: the client repeats it */
	uint64_t opened_at;	/* not stored; 0: unknown, before the manager started */
	struct live_session *live;
};

#endif
