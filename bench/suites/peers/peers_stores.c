/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of suite `peers` against values that Redis and memcached keep, each over a Unix socket and over tcp. */
#include <errno.h>
#include <stdlib.h>

#include "peers.h"
#include "peers/peer.h"
#include "peers/store.h"

/* One of the two over one kind of socket. */
struct peer_store {
	enum store_kind kind;
	bool is_unix;
	const char *missing;   /* said in place of a reference when it is not here */
	const char *transport; /* Afar's */
	struct bench_row *rows;
	unsigned nr_rows;
};

struct store_stage {
	struct transfer_stage ours; /* first: the row functions of transfer.h take it */
	struct store *store;
};

static int run_store(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct store_stage *state = stage;
	uint64_t elapsed_ns;
	int ret = store_run(state->store, row->parameters, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = transfer_value(row, elapsed_ns);
	return ret;
}

/* Not constant: bench_skip(). */
static struct bench_row redis_unix_rows[] = {
	PEERS_READS("Redis unix", "Redis over a Unix socket: GET, one at a time", run_store)};
static struct bench_row redis_tcp_rows[] = {
	PEERS_READS("Redis tcp", "Redis over tcp: GET, one at a time", run_store)};
static struct bench_row memcached_unix_rows[] = {PEERS_READS(
	"memcached unix", "memcached over a Unix socket: get, one at a time", run_store)};
static struct bench_row memcached_tcp_rows[] = {
	PEERS_READS("memcached tcp", "memcached over tcp: get, one at a time", run_store)};

#define REDIS_MISSING	  "not installed: apt install redis-server"
#define MEMCACHED_MISSING "not installed: apt install memcached"

static const struct peer_store redis_unix = {
	STORE_REDIS, true, REDIS_MISSING, "local", redis_unix_rows, NR_ROWS(redis_unix_rows)};
static const struct peer_store redis_tcp = {STORE_REDIS, false,		 REDIS_MISSING,
					    "tcp",	 redis_tcp_rows, NR_ROWS(redis_tcp_rows)};
static const struct peer_store memcached_unix = {STORE_MEMCACHED,     true,
						 MEMCACHED_MISSING,   "local",
						 memcached_unix_rows, NR_ROWS(memcached_unix_rows)};
static const struct peer_store memcached_tcp = {STORE_MEMCACHED,    false,
						MEMCACHED_MISSING,  "tcp",
						memcached_tcp_rows, NR_ROWS(memcached_tcp_rows)};

static void teardown(void *stage)
{
	struct store_stage *state = stage;

	if (!state)
		return;
	transfer_close_ours(&state->ours);
	store_close(state->store);
	free(state);
}

static int fill(struct store *store)
{
	int ret = store_fill(store, 4 * KIB);

	if (!ret)
		ret = store_fill(store, 64 * KIB);
	return ret ? ret : store_fill(store, MIB);
}

static int setup(const struct peer_store *peer, void **stage)
{
	struct store_stage *state;
	int ret;

	if (!peer_is_installed(store_program(peer->kind))) {
		bench_skip(peer->rows, peer->nr_rows, peer->missing);
		return 0;
	}
	state = calloc(1, sizeof(*state));
	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = store_open(peer->kind, peer->is_unix, TRANSFER_WINDOW, &state->store);
	if (!ret)
		ret = fill(state->store);
	if (!ret)
		ret = transfer_open_ours(&state->ours, peer->transport, 0);
	if (ret)
		teardown(state);
	else
		*stage = state;
	return ret;
}

PEERS_STAGE(redis_unix)
PEERS_STAGE(redis_tcp)
PEERS_STAGE(memcached_unix)
PEERS_STAGE(memcached_tcp)
