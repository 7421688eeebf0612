/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hundred clients at once, each a session in a thread of its own. All share one namespace and its
 * first region, which one of them makes. Each maps its own part, writes, reads what the neighbour
 * wrote, and allocates and frees besides. Run under the address and thread sanitizers too.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "lib/base/transport.h"

#define NR_CLIENTS_MAX 100U
#define NR_ROUNDS      5
#define PART	       ((size_t)64 << 10)
#define MIB	       ((uint64_t)1 << 20)

/* Fewer where handshakes take long: each has its time. */
static unsigned nr_clients;
static struct cluster *cluster;
static pthread_barrier_t barrier;

struct client {
	pthread_t thread;
	unsigned number;
	bool has_made_it; /* the first region */
	const char *failed;
	int status;
};

#define try(call)                                                                              \
	do {                                                                                   \
		int try_ret = (int)(call);                                                     \
		if (try_ret < 0 && !client->failed) {                                          \
			client->failed = #call;                                                \
			client->status = try_ret;                                              \
			fprintf(stderr, "client %u: %s\n", client->number, afar_last_error()); \
		}                                                                              \
	} while (0)

/* All try to open it, and those who can't, to make it (Trivedi, §6.3.1). */
static struct afar_region *bootstrap(struct client *client, struct afar_namespace *ns)
{
	struct afar_region *region = NULL;
	int ret = afar_region_open_at(ns, AFAR_FIRST_ADDRESS, &region);

	if (ret == -ENOENT) {
		ret = afar_region_alloc(ns, nr_clients * PART, AFAR_ALLOC_FIRST, &region);
		client->has_made_it = ret == 0;
		if (ret == -EADDRINUSE)
			ret = afar_region_open_at(ns, AFAR_FIRST_ADDRESS, &region);
	}
	try(ret);
	return region;
}

static void expect_pattern(struct client *client, const uint8_t *bytes, unsigned value)
{
	for (size_t i = 0; i < PART; i++) {
		if (bytes[i] != (uint8_t)value && !client->failed) {
			client->failed = "another's bytes";
			client->status = bytes[i];
		}
	}
}

static void transfer_rounds(struct client *client, struct afar_namespace *ns,
			    struct afar_region *region)
{
	unsigned neighbour = (client->number + 1) % nr_clients;
	struct afar_mapping *mapping = NULL;
	struct afar_region *scratch;
	uint8_t *bytes = malloc(PART);

	try(afar_region_map(region, client->number * PART, PART, 0, &mapping));
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		if (mapping) {
			memset(afar_mapping_data(mapping), (int)(client->number + round), PART);
			try(afar_mapping_write(mapping, 0, PART));
		}
		pthread_barrier_wait(&barrier);
		try(afar_region_pread(region, bytes, PART, neighbour * PART));
		expect_pattern(client, bytes, neighbour + round);
		scratch = NULL;
		try(afar_region_alloc(ns, 8192, 0, &scratch));
		if (scratch) {
			try(afar_region_pwrite(scratch, bytes, 8192, 0));
			try(afar_region_destroy(scratch));
			try(afar_region_close(scratch));
		}
		pthread_barrier_wait(&barrier);
	}
	if (mapping)
		try(afar_mapping_unmap(mapping));
	free(bytes);
}

static void *run_client(void *argument)
{
	struct client *client = argument;
	struct afar_session *session = NULL;
	struct afar_namespace *ns = NULL;
	struct afar_region *region = NULL;

	try(afar_session_open(cluster_uri(cluster), NULL, &session));
	if (session)
		try(afar_namespace_open(session, "many", &ns));
	pthread_barrier_wait(&barrier);
	if (ns)
		region = bootstrap(client, ns);
	if (region) {
		transfer_rounds(client, ns, region);
		try(afar_region_close(region));
	} else {
		for (unsigned i = 0; i < 2 * NR_ROUNDS; i++)
			pthread_barrier_wait(&barrier);
	}
	if (ns)
		try(afar_namespace_close(ns));
	if (session)
		try(afar_session_close(session));
	return NULL;
}

static void test_hundred_clients(void **state)
{
	static struct client clients[NR_CLIENTS_MAX];
	struct afar_session *session;
	struct afar_namespace *ns;
	unsigned nr_makers = 0;

	(void)state;
	nr_clients = NR_CLIENTS_MAX / (test_slowness() > 1 ? 3 : 1);
	assert_int_equal(cluster_start(2, 256 * MIB, &cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	assert_int_equal(afar_namespace_create(session, "many", NULL, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 64 * MIB), 0);
	pthread_barrier_init(&barrier, NULL, nr_clients);
	for (unsigned i = 0; i < nr_clients; i++) {
		clients[i].number = i;
		assert_int_equal(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]),
				 0);
	}
	for (unsigned i = 0; i < nr_clients; i++)
		pthread_join(clients[i].thread, NULL);
	for (unsigned i = 0; i < nr_clients; i++) {
		if (clients[i].failed)
			fail_msg("client %u: %s: %d (%s)", i, clients[i].failed, clients[i].status,
				 afar_strerror(clients[i].status));
		nr_makers += clients[i].has_made_it;
	}
	assert_int_equal(nr_makers, 1);
	pthread_barrier_destroy(&barrier);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "many", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(session), 0);
	cluster_stop(cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_hundred_clients)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
