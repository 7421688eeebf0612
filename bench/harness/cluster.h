/* SPDX-License-Identifier: BSD-3-Clause */
/* A private cluster for a suite: a manager and servers, which are processes of afard in a temporary
 * folder. */
#ifndef BENCH_CLUSTER_H
#define BENCH_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLUSTER_SERVERS_MAX 8U

struct cluster;

/*
 * Starts a manager and `nr_servers` servers that lend `server_bytes` each, and waits until all have
 * joined. Its data goes over the transport $AFAR_TEST_TRANSPORT (tcp), and the servers are at
 * $AFAR_TEST_HOST (a loopback address of the cluster's own). The program is $AFARD, or the afard
 * beside this program. The daemons die with this process. $AFAR_OWN_ENDS is the manager's --own-ends.
 */
int cluster_start(unsigned nr_servers, uint64_t server_bytes, struct cluster **out);
/* Starts a cluster whose data goes over the named transport, whatever the environment says. The
 * name must outlive it. */
#define CLUSTER_LOCAL_AND_TCP "local,tcp" /* each server has a lane over each */
int cluster_start_over(const char *transport, unsigned nr_servers, uint64_t server_bytes,
		       struct cluster **out);
/* Starts a cluster over tcp with one server. The server stages server-driven transfers through
 * buffers of `stage_bytes` in all. */
int cluster_start_staged(uint64_t stage_bytes, uint64_t server_bytes, struct cluster **out);
/* A store of a server, and how that serves it. The strings must outlive the cluster. */
struct cluster_store {
	const char *path;  /* of a file with a flash layer */
	const char *cache; /* pages are kept in so much memory (`afard --cache`); NULL: not said */
	const char *scrub; /* the rate; NULL: the usual one */
	bool is_sleepy;	   /* the server does not spin before it sleeps */
	const char *transport; /* of the server's lane; NULL: tcp */
	bool has_metrics;      /* its daemons show them: cluster_metrics() */
};
/* Starts a cluster with one server, which also lends the store. */
int cluster_start_on_store(const struct cluster_store *store, uint64_t server_bytes,
			   struct cluster **out);
/* Starts a manager at `host`, and a server there with the lanes that `--data-listen` is given. Both
 * strings must outlive the cluster. */
int cluster_start_at(const char *host, const char *lanes, uint64_t server_bytes,
		     struct cluster **out);
/* Starts a cluster over tcp. Each server has a store of `flash_bytes`, a file in its folder. */
int cluster_start_flash(unsigned nr_servers, uint64_t server_bytes, uint64_t flash_bytes,
			struct cluster **out);
/* Starts the same with one server, in the manager's process: killing or restarting the manager does
 * it to both. */
int cluster_start_whole(uint64_t server_bytes, uint64_t flash_bytes, struct cluster **out);
/* Ends the daemons by SIGTERM, waits for them, and removes the folder. NULL is allowed. */
void cluster_stop(struct cluster *cluster);

/* Kill a daemon without a warning, and start it again: the manager at the same address, with its
 * store. */
void cluster_kill_manager(struct cluster *cluster);
int cluster_restart_manager(struct cluster *cluster);
void cluster_kill_server(struct cluster *cluster, unsigned i);
int cluster_restart_server(struct cluster *cluster, unsigned i);
/* Start a daemon again without waiting for it. It may be killed before it is ready; else
 * cluster_await_…() must follow. */
int cluster_respawn_manager(struct cluster *cluster);
int cluster_await_manager(struct cluster *cluster);
int cluster_respawn_server(struct cluster *cluster, unsigned i);
int cluster_await_server(struct cluster *cluster, unsigned i);
/* Ends a server by SIGTERM and waits for it. */
void cluster_stop_server(struct cluster *cluster, unsigned i);
/* Has server `i` open the store at `path`, a file, from its next start on. The string must outlive
 * the cluster. */
void cluster_move_store(struct cluster *cluster, unsigned i, const char *path);
/* Has servers scrub their stores at this rate (`afard --scrub`), from their next starts on. The string must outlive
 * the cluster. */
void cluster_set_scrub(struct cluster *cluster, const char *rate);
/* Returns the folder of a server's process. A store of its own is there in server/flash. */
const char *cluster_server_folder(const struct cluster *cluster, unsigned i);

/* Returns the URI for afar_session_open(); it names the key too. */
const char *cluster_uri(const struct cluster *cluster);
pid_t cluster_manager(const struct cluster *cluster);
/* Finds where a daemon shows its metrics, `HOST:PORT`: server `i`, or the manager with i = CLUSTER_SERVERS_MAX. */
int cluster_metrics(const struct cluster *cluster, unsigned i, char *out, size_t size);
pid_t cluster_server(const struct cluster *cluster, unsigned i);

#endif
