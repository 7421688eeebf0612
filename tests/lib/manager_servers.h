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

#include "manager/servers.h"
#include "rpc/pass.h"

#define FIXTURE_EXTENTS_MAX 4096

struct fake_extent {
	uint64_t number, namespace, length;
	enum extent_class class;
};
struct fake_server {
	void *peer; /* NULL: not connected */
	uint64_t number;
	char cluster[64]; /* that gave it the number */
	uint64_t incarnation;
	uint8_t signing_key[SIGNING_KEY_BYTES]; /* of the incarnation */
	bool does_cut_key;			/* tells one that is too short */
	uint32_t age_s;
	uint64_t capacity;
	struct fake_extent extents[FIXTURE_EXTENTS_MAX];
	size_t nr_extents;
	uint64_t granted;
	uint64_t next_extent;
	bool is_silent; /* keeps what it is asked until fixture_pump() after it is false again */
	int refuse;	/* answers this to reservations */
	bool does_grant_wrong; /* less than asked */
	bool does_grant_twice; /* names the extent that it granted last again */
	int refuse_to_seal;    /* answers this when it is to copy */
	unsigned nr_seals;     /* how often it did */
	bool does_hold_seals;  /* keeps that alone, as if silent */
	uint64_t nr_moved;     /* bytes */
	unsigned nr_session_ends;
	uint64_t nr_released;  /* extents, by ExtentsRelease */
	const char *principal; /* NULL: "server" */
	uint64_t nr_moved_in;  /* bytes, that its first lane tells of who looks */
};

/* Makes the request by which it joins as server `index`: the caller's. */
Afar__Request *fake_server_join(const struct fake_server *server, size_t index);
/* Does what it is asked, and returns its answer, the caller's. */
Afar__Reply *fake_server_serve(struct fake_server *server, const Afar__Request *request);
/* Gives an extent up. */
void fake_server_release(struct fake_server *server, uint64_t number);

#endif
