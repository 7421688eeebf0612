/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The servers of the manager's tests: they grant extents, seal, release, and go wrong when told to.
 */
#ifndef TESTS_MANAGER_SERVERS_H
#define TESTS_MANAGER_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "manager/core_private.h"
#include "rpc/end_slot.h"
#include "rpc/pass.h"

#define FIXTURE_EXTENTS_MAX 4096

struct fake_extent {
	uint64_t number, namespace, length;
	enum extent_class class;
};
/* A device of flash. It outlives the servers that have it open. */
struct fake_store {
	uint64_t number; /* the first 8 bytes of: */
	uint8_t uuid[STORE_UUID_BYTES];
	char cluster[64];	    /* empty: of none yet */
	struct store_join accepted; /* the last that it knows to be */
	struct store_join present;
	struct term term; /* the manager's, that it was told last */
	uint64_t capacity;
	uint64_t granted;
	struct fake_store_extent {
		uint64_t number, namespace, length;
		bool is_provisional;
	} extents[64];
	size_t nr_extents;
	uint64_t nr_random;
	uint64_t nr_released;	/* extents, by ExtentsRelease */
	unsigned nr_reserves;	/* calls, as the next two */
	bool does_grant_again;	/* the number that it granted last */
	unsigned nr_lost_joins; /* whose answers it is not to hear */
	bool is_unanswered;	/* the present join has been sent, and has no answer */
	int refuse_to_release;	/* answers this */
	int refuse_to_trim;	/* likewise */
	bool does_hold_trims;	/* keeps them, as if its server were silent */
	unsigned nr_trims;	/* calls */
	uint64_t nr_trimmed;	/* bytes */
	uint64_t nr_ranges_max; /* in one call */
};
#define FAKE_STORES_MAX 4
struct fake_server {
	unsigned nr_zeroed;			    /* orders to zero parts of its DRAM */
	int refuse_to_zero;			    /* what it answers them with */
	struct fake_store *stores[FAKE_STORES_MAX]; /* that it has open */
	size_t nr_stores;
	void *peer; /* NULL: not connected */
	uint64_t number;
	char cluster[64]; /* that gave it the number */
	struct term term; /* the manager's, that this incarnation was told last */
	uint64_t incarnation;
	uint8_t signing_key[SIGNING_KEY_BYTES]; /* of the incarnation */
	bool does_cut_key;			/* tells one that is too short */
	uint32_t age_s;
	bool ends_first, has_ended_sessions; /* as it says when it joins */
	uint64_t capacity;
	struct fake_extent extents[FIXTURE_EXTENTS_MAX];
	size_t nr_extents;
	uint64_t granted;
	uint64_t next_extent;
	bool is_silent;	   /* keeps what it is asked until fixture_pump() after it is false again */
	int refuse;	   /* answers this to reservations */
	int refuse_device; /* answers this when it is to open or to close one, with: */
	const char *says;
	uint64_t opened;		     /* the store that it says it has opened */
	bool does_grant_wrong;		     /* less than asked */
	bool does_grant_twice;		     /* names the extent that it granted last again */
	uint8_t slot[END_SLOT_BYTES];	     /* it reads this wherever it is asked to */
	int refuse_to_read, refuse_to_clear; /* answers this instead */
	unsigned nr_reads, nr_cleared;
	uint64_t cleared;     /* bytes, the last time */
	int refuse_to_seal;   /* answers this when it is to copy */
	unsigned nr_seals;    /* how often it did */
	bool does_hold_seals; /* keeps that alone, as if silent */
	uint64_t nr_moved;    /* bytes */
	unsigned nr_session_ends;
	uint64_t nr_released;  /* extents, by ExtentsRelease */
	const char *principal; /* NULL: "server" */
	uint64_t nr_moved_in;  /* bytes, that its first lane tells of who looks */
};

/* Makes the request by which it joins as server `index`: the caller's. */
Afar__Request *fake_server_join(const struct fake_server *server, size_t index);
/* Makes the request by which it lends a store more: the caller's. */
Afar__Request *fake_store_lend(const struct fake_store *store);
/* Does what it is asked, and returns its answer, the caller's. */
Afar__Reply *fake_server_serve(struct fake_server *server, const Afar__Request *request);
/* Another opening of the store's device. */
void fake_store_open(struct fake_store *store);
/* Takes what the answer to its join tells the store. */
void fake_store_joined(struct fake_store *store, const char *cluster,
		       const Afar__StoreJoined *joined);
/* The store of the server's that is asked for; NULL: it is not asked for one. */
struct fake_store *fake_server_asked(struct fake_server *server, const Afar__Request *request);
struct fake_store_extent *fake_store_extent(struct fake_store *store, uint64_t number);
/* Gives an extent up. */
void fake_server_release(struct fake_server *server, uint64_t number);

#endif
