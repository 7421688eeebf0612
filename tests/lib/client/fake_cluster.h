/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake manager and a fake server in this process, and a session with them: for tests of how a
 * client gets at a server. The fakes do what a test tells them, and count what they are asked. A
 * failure in here fails the test.
 */
#ifndef TESTS_FAKE_CLUSTER_H
#define TESTS_FAKE_CLUSTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/namespace/region.h"

#define SESSION	     9
#define SERVER	     4
#define EXTENTS_MAX  8
#define LANES_MAX    4
#define TICKETS_MAX  8
#define NR_CHUNKS    4 /* and one more in an extent of its own, once the region is longer */
#define DATA_NOWHERE "127.0.0.1:1" /* where nobody listens */

/* How the fakes behave. */
struct behaviour {
	uint32_t rights;
	uint64_t incarnation; /* of the server, as the manager knows it */
	uint32_t lifetime_ms;
	uint8_t pass; /* the manager gives, and the server knows: a digit of its identity */
	uint8_t known_pass;
	bool is_lost;		   /* a server of the region has restarted, says the manager */
	uint64_t nr_changes;	   /* of its layout */
	bool is_longer;		   /* the region, by a chunk: in its next layout */
	bool gives_up;		   /* RegionAccess is for no server that the client knows */
	bool is_cut;		   /* the layout that the manager gives ends before the region */
	uint32_t nr_strangers;	   /* servers in its layout that hold nothing of the region */
	bool has_no_access;	   /* the server is not connected to the manager */
	unsigned refuse_grants;	   /* so many, with -EACCES */
	unsigned refuse_tickets;   /* likewise */
	unsigned hang_up_openings; /* so many, instead of opening a session */
	unsigned fail_openings;	   /* so many, with -EIO */
	bool hang_up_namespace;	   /* instead of opening the next */
	bool hang_up;	    /* the server closes the connection instead of giving the next ticket */
	unsigned ticket_ms; /* so long it takes to give one */
	uint64_t first_key;
	uint64_t namespace;
	uint64_t features; /* of the manager */
	struct {
		const char *transport, *address;
	} lanes[LANES_MAX];
	unsigned nr_lanes;
};

struct fake_cluster {
	struct rpc_loop *loop;
	struct rpc_listener *manager, *server;
	char folder[64], key_file[96], uri[256];

	pthread_mutex_t lock; /* guards the rest */
	struct behaviour is;
	struct behaviour anew; /* what it is once RegionAccess was called, if `is_anew` */
	bool is_anew;
	unsigned nr_opens, nr_accesses, nr_grants, nr_tickets, nr_connections, nr_take_overs,
		nr_looks;
	uint64_t replaced[TICKETS_MAX]; /* what the last tickets were asked for in place of */
	uint64_t granted[EXTENTS_MAX];
	size_t nr_granted;
	uint8_t shown_capability;
	uint64_t shown_session;

	/* The test's thread's own. */
	struct afar_session *session;
	struct afar_namespace *ns;
};
extern struct fake_cluster fake;

extern const struct behaviour usual;
/* Where the chunks of the region lie. */
extern const uint64_t chunk_extents[NR_CHUNKS + 1];

/* For cmocka: these start the fakes, and end them. */
int start_fakes(void **state);
int stop_fakes(void **state);
/* And these a session, with a namespace: the fakes behave as usual and have counted nothing. */
int open_session(void **state);
int close_session(void **state);

/* Opens a region of the namespace, of four chunks on the server. */
struct afar_region *open_region(void);

/* The fakes live on another thread. */
#define fakes(...)                                \
	do {                                      \
		pthread_mutex_lock(&fake.lock);   \
		__VA_ARGS__;                      \
		pthread_mutex_unlock(&fake.lock); \
	} while (0)

#define expect_fake(field, value)                         \
	do {                                              \
		uint64_t expect_fake_got;                 \
		fakes(expect_fake_got = fake.field);      \
		assert_int_equal(expect_fake_got, value); \
	} while (0)

#endif
