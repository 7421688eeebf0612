/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `barrier`: how long a phase of a barrier takes, over local and over tcp. The references are
 * a bar, a small read by the same client, and MPI_Barrier() of Open MPI over the same transport.
 * Each member is a process with a session of its own, as each rank is; member 0 is this process.
 * The others, and the ranks, sleep while it is not their turn.
 */
#include <afar/barrier.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/harness.h"
#include "harness/process.h"
#include "harness/scene.h"
#include "peers/ranks.h"
#include "suites/peers/peers.h"

#define MEMBERS_MAX  8U
#define NR_READS     5000U
#define READ_BYTES   64U
#define REGION_BYTES (2 * MIB)
#define BARRIER_AT   (64 * KIB) /* in the region; what is read is before it */
#define WAIT_MS	     10000	/* a member that is so late has failed */

/* So many members over one transport. */
struct crew_kind {
	const char *transport;
	const struct mpi *mpi; /* that does the same */
	unsigned nr_members;
	uint32_t nr_phases; /* in one measurement */
	struct bench_row *mpi_row;
};

struct crew {
	const struct crew_kind *kind;
	struct cluster *cluster;
	struct scene scene;
	struct afar_barrier *barrier;
	struct child others[MEMBERS_MAX];
	struct mpi_ranks ranks; /* of MPI; none before the first measurement of them */
};

struct member {
	const struct crew *crew;
	unsigned number;
};

/* ---- Members */

static int open_barrier(const struct crew *crew, struct afar_region *region, unsigned member,
			struct afar_barrier **out)
{
	const struct afar_barrier_options options = {
		.size = sizeof(options),
		.offset = BARRIER_AT,
		.nr_members = crew->kind->nr_members,
		.member = member,
	};
	int status = afar_barrier_open(region, &options, WAIT_MS, out);

	return status ? scene_fail("open the barrier", status) : 0;
}

static int run_phases(struct afar_barrier *barrier, uint32_t nr_phases)
{
	for (uint32_t i = 0; i < nr_phases; i++) {
		int status = afar_barrier_wait(barrier, WAIT_MS);

		if (status)
			return scene_fail("wait at the barrier", status < 0 ? status : -EIO);
	}
	return 0;
}

/* The first message says that the region is there; each other one how many phases to run. */
static int member_main(int channel, void *argument)
{
	const struct member *member = argument;
	struct afar_barrier *barrier;
	struct scene scene = {0};
	uint32_t nr_phases;

	if (recv(channel, &nr_phases, sizeof(nr_phases), 0) != sizeof(nr_phases) ||
	    scene_open(&scene, cluster_uri(member->crew->cluster), 0) ||
	    scene_open_region(&scene) ||
	    open_barrier(member->crew, scene.region, member->number, &barrier))
		return 1;
	while (recv(channel, &nr_phases, sizeof(nr_phases), 0) == sizeof(nr_phases)) {
		if (run_phases(barrier, nr_phases))
			return 1;
	}
	return 0;
}

static int tell_others(const struct crew *crew, uint32_t nr_phases)
{
	for (unsigned i = 1; i < crew->kind->nr_members; i++) {
		if (child_send(&crew->others[i], &nr_phases, sizeof(nr_phases)))
			return bench_fail(-EPIPE, "member %u of the barrier is gone", i);
	}
	return 0;
}

/* ---- What is measured */

/* The first phase, in which the others wake up, is not timed. */
static int run_barrier(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct crew *crew = stage;
	const uint32_t nr_phases = crew->kind->nr_phases;
	int status = tell_others(crew, 1 + nr_phases);
	uint64_t begin;

	(void)row;
	(void)repetition;
	if (!status)
		status = run_phases(crew->barrier, 1);
	begin = clock_ns();
	if (!status)
		status = run_phases(crew->barrier, nr_phases);
	*value = (double)(clock_ns() - begin) / nr_phases / 1e3;
	return status;
}

static int run_bar(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)stage;
	(void)repetition;
	*value = *(const double *)row->parameters;
	return 0;
}

static int run_reads(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct crew *crew = stage;
	uint64_t begin = clock_ns();

	(void)row;
	(void)repetition;
	for (unsigned i = 0; i < NR_READS; i++) {
		int status = afar_mapping_read(crew->scene.mapping, 0, READ_BYTES);

		if (status)
			return scene_fail("read", status);
	}
	*value = (double)(clock_ns() - begin) / NR_READS / 1e3;
	return 0;
}

static int run_mpi(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct crew *crew = stage;
	const struct peer_mpi_order order = {.kind = PEER_MPI_BARRIER, .nr = crew->kind->nr_phases};
	uint64_t elapsed_ns = 0;
	int status = 0;

	(void)row;
	(void)repetition;
	if (!crew->ranks.nr)
		status = mpi_start(&crew->ranks, crew->kind->mpi, crew->kind->nr_members, 0);
	if (!status)
		status = mpi_order(&crew->ranks, &order, &elapsed_ns);
	*value = (double)elapsed_ns / crew->kind->nr_phases / 1e3;
	return status;
}

/* ---- The stages */

static void teardown(void *stage)
{
	struct crew *crew = stage;

	mpi_stop(&crew->ranks);
	if (crew->barrier)
		afar_barrier_close(crew->barrier);
	for (unsigned i = 1; i < crew->kind->nr_members; i++)
		child_stop(&crew->others[i]);
	scene_close(&crew->scene);
	cluster_stop(crew->cluster);
	free(crew);
}

/* The members are forked before this process has a session. */
static int start_members(struct crew *crew)
{
	int status = 0;

	for (unsigned i = 1; i < crew->kind->nr_members && !status; i++)
		status = child_start(&crew->others[i], member_main, &(struct member){crew, i});
	return status;
}

/* Where there are more ranks than cores, ours is to be ahead. */
static void look_for_mpi(const struct crew_kind *kind)
{
	if (!mpi_is_here(kind->mpi))
		bench_skip(kind->mpi_row, 1, kind->mpi->missing);
	else if (kind->nr_members > sysconf(_SC_NPROCESSORS_ONLN))
		kind->mpi_row->bar = PEERS_BAR;
}

static int open_crew(struct crew *crew)
{
	int status = cluster_start_over(crew->kind->transport, 1, 4 * REGION_BYTES, &crew->cluster);

	if (!status)
		status = start_members(crew);
	if (!status)
		status = scene_open(&crew->scene, cluster_uri(crew->cluster), 0);
	if (!status)
		status = scene_create_region(&crew->scene, SCENE_NAMESPACE, 1, REGION_BYTES);
	if (!status)
		status = scene_map(&crew->scene, BARRIER_AT);
	if (!status)
		status = tell_others(crew, 0);
	return status ? status : open_barrier(crew, crew->scene.region, 0, &crew->barrier);
}

static int setup(const struct crew_kind *kind, void **stage)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	int status;

	if (!crew)
		return bench_fail(-ENOMEM, "no memory for the suite");
	crew->kind = kind;
	look_for_mpi(kind);
	status = open_crew(crew);
	if (status) {
		teardown(crew);
		return status;
	}
	*stage = crew;
	return 0;
}

/* ---- Rows */

#define PHASE(count, how) "phase of " #count " members, " how
#define A_READ		  "afar_mapping_read() of 64 B by member 0, while the others sleep"

/* clang-format off */
#define AGAINST_BAR(count, limit)                                                              \
	{PHASE(count, "local"), "µs", BENCH_LOWER, "the bar of " #limit " µs", 1,              \
	 &(const double){limit}, run_barrier, run_bar}
#define AGAINST_READ(count, limit)                                                             \
	{PHASE(count, "tcp / read 64 B"), "µs", BENCH_LOWER, A_READ, limit, NULL, run_barrier, \
	 run_reads}
#define AGAINST_MPI(count, transport, way)                                                     \
	{PHASE(count, transport " / Open MPI"), "µs", BENCH_LOWER,                             \
	 "Open MPI over " way ": MPI_Barrier of as many ranks", BENCH_REPORTED, NULL,          \
	 run_barrier, run_mpi}
/* clang-format on */

/* NAME_stage with NAME_rows, the first as given. They are not constant: look_for_mpi(). */
#define CREW(name, count, phases, transport, mpi, way, first_row)                                 \
	static struct bench_row name##_rows[] = {first_row, AGAINST_MPI(count, transport, way)};  \
	static const struct crew_kind name = {transport, &(mpi), count, phases, &name##_rows[1]}; \
	static int setup_##name(void **stage)                                                     \
	{                                                                                         \
		return setup(&name, stage);                                                       \
	}                                                                                         \
	static const struct bench_stage name##_stage = {setup_##name, teardown, name##_rows,      \
							NR_ROWS(name##_rows)};

#define LOCAL_CREW(count, limit)                                                        \
	CREW(local_##count, count, 5000, "local", mpi_open_mpi_memory, "shared memory", \
	     AGAINST_BAR(count, limit))
#define TCP_CREW(count, limit) \
	CREW(tcp_##count, count, 500, "tcp", mpi_open_mpi_tcp, "tcp", AGAINST_READ(count, limit))

LOCAL_CREW(2, 5)
LOCAL_CREW(4, 30)
LOCAL_CREW(8, 60)
TCP_CREW(2, 10)
TCP_CREW(4, BENCH_REPORTED)
TCP_CREW(8, BENCH_REPORTED)

static const struct bench_stage *const stages[] = {&local_2_stage, &local_4_stage, &local_8_stage,
						   &tcp_2_stage,   &tcp_4_stage,   &tcp_8_stage};

const struct bench_suite bench_suite_barrier = {
	.name = "barrier",
	.summary = "barriers of 2, 4 and 8 members: a phase against a small read and against MPI's",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
