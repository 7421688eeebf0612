/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `registration`, and the declarations that they share. */
#ifndef BENCH_REGISTRATION_H
#define BENCH_REGISTRATION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "harness/harness.h"
#include "memory/registration_cache.h"

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

extern const struct bench_stage registration_lookup_stage, registration_ring_stage,
	registration_verbs_stage;

/* A registrar that registers nothing, at no cost. The time that is left is the cache's own. */
extern const struct registrar registrar_of_nothing;

/* ---- What a cache saves of pinning (registration_pinning.c) */

#define PINNING_BUFFER_BYTES ((size_t)1 << 20)
#define PINNING_NR_BUFFERS   1000U
#define PINNING_NR_KEPT	     100U

/* The operations and registrations of the operating thread, and how long they took: operating, and
 * in the registrar. The rest of the elapsed time went into finding, watching and evicting. */
struct pinning_tally {
	unsigned nr_operated, nr_added, nr_removed;
	uint64_t elapsed_ns, operating_ns, pinning_ns;
};

/* The first member of a stage of such rows. The stage fills in what it measures; the rest belongs
 * to registration_pinning.c. */
struct pinning {
	struct registrar registrar;
	/* Does one operation on a buffer by its registration, to its end, and says what failed.
	 * `context` is the registrar's. */
	int (*operate)(void *context, void *buffer, void *registration);
	unsigned nr_operations; /* of one repetition; a multiple of 100 */

	char *buffers;			    /* a page apart, so that none touches another */
	unsigned order[PINNING_NR_BUFFERS]; /* by last use, the most recent last */
	pthread_t operating;
	atomic_uint nr_pinned, nr_pinned_most; /* buffers, now and at most */
	struct pinning_tally now;	       /* of this repetition */
	struct pinning_tally sum;	       /* of a row's repetitions, without the warm-up */
};

/* A row's parameters: how registrations are made, and how many in a hundred operations hit. */
struct pinning_way {
	unsigned hits;
	unsigned batch; /* 0: none are kept */
};

/* Maps the buffers. Zero the pinning first, except for what the stage fills in. */
int pinning_open(struct pinning *pinning);
void pinning_close(struct pinning *pinning);

/* A row's functions: a buffer is registered for the operation and then deregistered; kept by a
 * cache; or registered ahead. MB/s. */
int pinning_run_dynamic(void *stage, const struct bench_row *row, unsigned repetition,
			double *value);
int pinning_run_cached(void *stage, const struct bench_row *row, unsigned repetition,
		       double *value);
int pinning_run_ahead(void *stage, const struct bench_row *row, unsigned repetition, double *value);

#define PINNING_BATCH 16U

/* The experiment's rows; their names end in `SUFFIX`. */
#define PINNING_ROW(NAME, HITS, BATCH, RUN)                                                 \
	{                                                                                   \
		"1 MiB, " #HITS " % hits, " NAME, "MB/s", BENCH_HIGHER, "all pinned ahead", \
			BENCH_REPORTED, (&(const struct pinning_way){HITS, BATCH}), (RUN),  \
			pinning_run_ahead                                                   \
	}
#define PINNING_ROWS(HITS, SUFFIX)                                            \
	PINNING_ROW("pinned each time" SUFFIX, HITS, 0, pinning_run_dynamic), \
		PINNING_ROW("100 kept" SUFFIX, HITS, 1, pinning_run_cached),  \
		PINNING_ROW("100 kept, batches" SUFFIX, HITS, PINNING_BATCH, pinning_run_cached)

#endif
