/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that share nothing but a namespace's name compute π together. They find each other in its
 * first region, the one with rank 0 shares out the work, and all wait for its sum.
 *
 *   afar ns create pi && afar ns reserve pi 2M
 *   for rank in 0 1 2 3; do ./barrier pi $rank 4 & done; wait
 */
#include <stdio.h>
#include <stdlib.h>

#include <afar/barrier.h>

#define STEPS	   20000000U /* of the integral of 4 / (1 + x²) from 0 to 1 */
#define TIMEOUT_MS 60000     /* for the others: they may be dead */

struct work {
	uint64_t begin, end; /* steps */
};

static void check(int64_t ret)
{
	if (ret < 0) {
		fprintf(stderr, "barrier: %s\n", afar_last_error());
		exit(1);
	}
}

static double integrate(const struct work *work)
{
	double sum = 0;

	for (uint64_t i = work->begin; i < work->end; i++) {
		double x = ((double)i + 0.5) / STEPS;

		sum += 4 / (1 + x * x) / STEPS;
	}
	return sum;
}

/* Rank 0: what each rank gets, its own part, and the sum of what all have written to `results`. */
static double coordinate(struct afar_barrier *barrier, struct afar_region *region, uint64_t results,
			 unsigned count)
{
	struct work *work = calloc(count, sizeof(*work));
	double *parts = calloc(count, sizeof(*parts));
	int *statuses = calloc(count, sizeof(*statuses));
	int nr_failed;
	double pi;

	if (!work || !parts || !statuses)
		exit(1);
	for (unsigned i = 0; i < count; i++)
		work[i] = (struct work){(uint64_t)STEPS * i / count,
					(uint64_t)STEPS * (i + 1) / count};
	check(afar_barrier_start(barrier, work));
	pi = integrate(&work[0]);
	nr_failed = afar_barrier_collect(barrier, statuses, TIMEOUT_MS);
	check(nr_failed);
	for (unsigned i = 0; i < count && nr_failed; i++)
		fprintf(stderr, "barrier: rank %u: %s\n", i, afar_strerror(statuses[i]));
	if (nr_failed)
		exit(1);
	check(afar_region_pread(region, parts, count * sizeof(*parts), results));
	for (unsigned i = 1; i < count; i++)
		pi += parts[i];
	free(statuses);
	free(parts);
	free(work);
	return pi;
}

/* The others: their part, for rank 0 to find. */
static void work_for_it(struct afar_barrier *barrier, struct afar_region *region, uint64_t results,
			unsigned rank)
{
	struct work work;
	double part;

	check(afar_barrier_next(barrier, &work, TIMEOUT_MS));
	part = integrate(&work);
	check(afar_region_pwrite(region, &part, sizeof(part), results + rank * sizeof(part)));
	check(afar_barrier_report(barrier, 0));
}

static void wait_for_all(struct afar_barrier *barrier)
{
	int nr_failed = afar_barrier_wait(barrier, TIMEOUT_MS);

	check(nr_failed);
	if (nr_failed) {
		fprintf(stderr, "barrier: %d have failed or left\n", nr_failed);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct afar_barrier_options options = {.size = sizeof(options),
					       .work_bytes = sizeof(struct work)};
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_barrier *barrier;
	uint64_t results; /* a number of each rank, behind the barrier; then rank 0's has the sum */
	double pi;

	if (argc != 4) {
		fprintf(stderr, "usage: barrier NAMESPACE RANK COUNT\n");
		return 2;
	}
	options.member = (uint32_t)atoi(argv[2]);
	options.nr_members = (uint32_t)atoi(argv[3]);
	results = AFAR_BARRIER_BYTES(options.nr_members, options.work_bytes);

	check(afar_session_open(NULL, NULL, &session));
	check(afar_namespace_open(session, argv[1], &ns));
	check(afar_region_bootstrap(ns, results + options.nr_members * sizeof(pi), &region, NULL));
	check(afar_barrier_open(region, &options, TIMEOUT_MS, &barrier)); /* all are here now */

	if (options.member == 0) {
		pi = coordinate(barrier, region, results, options.nr_members);
		check(afar_region_pwrite(region, &pi, sizeof(pi), results));
	} else {
		work_for_it(barrier, region, results, options.member);
	}
	wait_for_all(barrier); /* rank 0 has written the sum */
	check(afar_region_pread(region, &pi, sizeof(pi), results));
	printf("rank %u of %u: %.9f\n", options.member, options.nr_members, pi);

	wait_for_all(barrier); /* all have read it */
	check(afar_barrier_close(barrier));
	if (options.member == 0)
		check(afar_region_destroy(region));
	check(afar_region_close(region));
	check(afar_namespace_close(ns));
	check(afar_session_close(session));
	return 0;
}
