/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the intruder strikes: a cluster with one server, a victim's memory, an honest client at work, and the
 * server's log. After each attempt town_expect_peace() sees that none of them came to harm.
 */
#ifndef TESTS_TOWN_H
#define TESTS_TOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/afar.h>

#include "base/key.h"
#include "lib/base/bytes.h"

#define TOWN_BYTES    (64 * MIB) /* the server lends                                    */
#define HONEST_BYTES  (2 * MIB)
#define VICTIM_BYTES  (2 * MIB)
#define INTRUDER_ROOM (TOWN_BYTES - HONEST_BYTES - VICTIM_BYTES)
#define VICTIM_BYTE   'V'
#define NEXT_BYTE     'N' /* of who gets the memory after the intruder */

struct town {
	char host[64];
	uint16_t port;
	struct key mallory; /* a client's key, with no rights on anybody's namespaces */
	struct afar_session *admin;
	struct afar_namespace *victim; /* called "victim", its region "r" */
	struct afar_region *victim_region;
};

int town_open(struct town *town);
void town_close(struct town *town);

/* The honest client goes on, and the victim's memory is as it was. The server's log has at least so many lines
 * more about refusals than at the last call. */
void town_expect_peace(struct town *town, unsigned nr_refusals);

/* Resident memory of the daemons. */
uint64_t town_server_bytes(void);
uint64_t town_manager_bytes(void);
/* These return how many lines of a daemon's log have this. */
unsigned town_server_says(const char *what);
unsigned town_manager_says(const char *what);

/* Returns whether something of a session is left, with the manager or on a server. */
bool town_knows(struct town *town, uint64_t session);

/* All memory that is free becomes a namespace's, which finds it zeroed and fills it. */
struct next_owner {
	struct afar_namespace *ns;
	struct afar_region *region;
	uint64_t bytes;
};
void town_move_in(struct town *town, uint64_t bytes, struct next_owner *out);
/* Nothing in it has changed; it moves out. */
void town_move_out(struct town *town, struct next_owner *next);

#endif
