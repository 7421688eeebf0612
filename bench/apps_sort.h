/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of suite `apps` share this about sorts: running programs, clusters, inputs (apps.c); more rows (apps_sort.c). */
#ifndef BENCH_APPS_SORT_H
#define BENCH_APPS_SORT_H

#include <stdint.h>

#include "cluster.h"
#include "folder.h"
#include "harness.h"

#define APPS_AFAR	     "/proc/self/exe" /* this program is afar */
#define APPS_NR_SERVERS	     2U
#define SORTING_RECORD_BYTES 100U

/* Runs a program to its end, and gives how long that took. */
int apps_run(const char *const *arguments, double *seconds);
/* Starts a cluster, and has the programs that are run use it. */
int apps_start_cluster(const char *transport, uint64_t server_bytes, struct cluster **out);
/* Makes records in a region or file, in the cluster that runs. */
int apps_generate(const char *where, uint64_t bytes);

/* ---- Rows about sorts */

/* Their parameters. */
struct sorting {
	const char *transport;
	uint64_t gib;
	const void *more; /* what else the reference needs */
};

uint64_t sorting_bytes(const struct bench_row *row);
/* Each server lends so much for input, output and buckets. */
uint64_t sorting_server_bytes(uint64_t bytes);
/* Sorts s:in into s:out with warm servers: GB/s. */
int sorting_run(void *stage, const struct bench_row *row, unsigned repetition, double *value);

/* A folder on tmpfs with an input, for references. */
struct sorting_files {
	struct folder folder;
	char in[96], out[96];
};

int sorting_make_input(struct sorting_files *files, uint64_t bytes);

/* The time that the parts of a sort take at least (apps_floor.c): GB/s of the input. */
int sorting_run_floor(void *stage, const struct bench_row *row, unsigned repetition, double *value);

/* Beside an MPI sort, and beside that floor (apps_sort.c). */
extern const struct bench_stage apps_sort_stage;
/* From and to files on disk (apps_disk.c). */
extern const struct bench_stage apps_disk_stage;

#endif
