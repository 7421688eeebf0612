/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `peers`: reads of a region beside what people use today to get at memory of another process or machine. The
 * peers are programs of other people, none of which Afar needs: rows whose peer is not here are skipped.
 */
#include "peers.h"

static const struct bench_stage *const stages[] = {
	&peers_mpich_memory_stage,   &peers_mpich_tcp_stage,	 &peers_open_mpi_memory_stage,
	&peers_open_mpi_tcp_stage,   &peers_redis_unix_stage,	 &peers_redis_tcp_stage,
	&peers_memcached_unix_stage, &peers_memcached_tcp_stage, &peers_lanes_stage,
};

const struct bench_suite bench_suite_peers = {
	.name = "peers",
	.summary = "reads against those of MPI, Redis and memcached; two lanes against one",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
