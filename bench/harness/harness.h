/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a suite. A suite is a list of stages, one after the other. A stage sets up what its
 * rows need (a cluster, a session, a reference process). Each of its rows is a pair of functions
 * that measure one number once: ours and the reference's. The harness alternates them.
 *
 * Functions return 0, or a negative code after bench_fail() has said what is wrong.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "distance.h"

#define BENCH_REPORTED NAN /* the bar of a row that is only reported */

enum bench_better {
	BENCH_LOWER,
	BENCH_HIGHER,
};

struct bench_row {
	const char *name;
	const char *unit;
	enum bench_better better;
	const char *reference_is; /* NULL: there is none                                    */
	double bar;		  /* bound on ours / reference, or BENCH_REPORTED           */
	const void *parameters;	  /* for the functions below, which several rows share */

	/*
	 * Measures our number once. `repetition` counts from 0. The warm-up, whose value is
	 * dropped, is one more 0; a suite whose stages are warm has none. NULL: the row is skipped, and its reference_is says why; a setup
	 * may do that.
	 */
	int (*run_ours)(void *stage, const struct bench_row *row, unsigned repetition,
			double *value);
	int (*run_reference)(void *stage, const struct bench_row *row, unsigned repetition,
			     double *value); /* NULL: there is none */
};

struct bench_stage {
	int (*setup)(void **stage); /* NULL: nothing to set up */
	void (*teardown)(void *stage);
	const struct bench_row *rows;
	unsigned nr_rows;
};

/* Facts about some rows of a suite that are known before they are measured. */
struct bench_pace {
	const char *rows; /* this is a part of their names */
	double seconds; /* that each takes by default, with its part of what is set up; for the time that is left */
	unsigned repetitions; /* by default; 0: the suite's */
	bool is_long;	      /* they are left out without --long */
};

struct bench_suite {
	const char *name;
	const char *summary;
	unsigned repetitions;		/* by default; 0: as most suites have */
	bool is_warm;			/* stages warm up what must be warm, so rows need not be */
	const struct bench_pace *paces; /* of these, the first that fits a row */
	unsigned nr_paces;
	/* Before anything starts: checks that the suite can be measured here. NULL: it always
	 * can. */
	int (*check)(void);
	const struct bench_stage *const *stages;
	unsigned nr_stages;
};

/* The values of one row. */
struct bench_result {
	const struct bench_row *row;
	double *ours;	   /* one per repetition, in the order taken */
	double *reference; /* likewise                               */
	unsigned nr_ours;
	unsigned nr_reference;
	bool has_failed;
	const char
		*left_out; /* NULL: it was not; otherwise why it was, though it could be measured */
	char note[256];	   /* empty: there is none */
};

/* Says on stderr why something could not be measured. Returns `status`, for the caller to
 * return. */
int bench_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts a line below the table, about the row being measured. A later one replaces it. */
void bench_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Leaves rows out, and says why instead of naming their reference; for setups. */
void bench_skip(struct bench_row *rows, unsigned nr, const char *why);

/* Returns how many repetitions are counted, for stages that divide a span among them. Rows with a number of their own are
 * not meant. */
unsigned bench_repetitions(void);

/* Returns how long one measurement lasts: `usual_ns`, a quarter of it for a warm-up, or $AFAR_BENCH_SPAN_MS. With the
 * latter a suite is tried out and nothing is measured. Suites `volume`, `file`, `sharing` and `cache` ask. */
uint64_t bench_span_ns(uint64_t usual_ns);
/* Returns how many bytes one measurement moves: `usual`, a multiple of `step`, or less of these if
 * $AFAR_BENCH_SPAN_MS is less than a second. */
uint64_t bench_bytes(uint64_t usual, uint64_t step);

/* True when the user has interrupted the run (SIGINT, SIGTERM). Then loops that wait must end, and
 * setups fail. */
bool bench_is_interrupted(void);
/* Returns the number of the signal that has done so; 0: none. */
int bench_interrupt(void);
/* From now on the first signal ends the run in order, and a second one ends it at once. The daemons
 * die with this process. */
void bench_catch_interrupts(void);
/* Removes the progress line from the terminal. */
void bench_clear_progress(void);

/* ---- Statistics and output (report.c) */

double bench_median(const double *values, unsigned nr);
/* Returns ours over the reference's, by medians; NAN: there is no reference. */
double bench_ratio(const struct bench_result *result);
/* Describes the machine, and what else a number depends on, in one line. */
void bench_describe_machine(char *out, size_t size);
/* The surroundings of a run. */
struct bench_surroundings {
	double others; /* cores that other processes kept busy meanwhile */
	struct distance distance;
	unsigned nr_repetitions; /* of most rows */
	unsigned nr_wanted; /* rows; of these, the first were measured if the run was interrupted */
};

void bench_print_table(const struct bench_result *results, unsigned nr,
		       const struct bench_surroundings *surroundings);
/* Says of each row whether its run was interrupted. Returns 0, or -ENOMEM. */
int bench_print_json(const struct bench_result *results, unsigned nr);

/* ---- The suites */

/* Those of this program, ended by NULL: all of them (suites.c), or what `make quickstart` shows (limits.c). */
extern const struct bench_suite *const bench_suites[];

extern const struct bench_suite bench_suite_apps;
extern const struct bench_suite bench_suite_barrier;
extern const struct bench_suite bench_suite_cache;
extern const struct bench_suite bench_suite_clients;
extern const struct bench_suite bench_suite_control;
extern const struct bench_suite bench_suite_file;
extern const struct bench_suite bench_suite_flash;
extern const struct bench_suite bench_suite_flash_tier;
extern const struct bench_suite bench_suite_limit;
extern const struct bench_suite bench_suite_local;
extern const struct bench_suite bench_suite_metrics;
extern const struct bench_suite bench_suite_parallel;
extern const struct bench_suite bench_suite_peers;
extern const struct bench_suite bench_suite_preload;
extern const struct bench_suite bench_suite_python;
extern const struct bench_suite bench_suite_queue;
extern const struct bench_suite bench_suite_region;
extern const struct bench_suite bench_suite_registration;
extern const struct bench_suite bench_suite_rights;
extern const struct bench_suite bench_suite_sharing;
extern const struct bench_suite bench_suite_verbs;
extern const struct bench_suite bench_suite_volume;

#endif
