/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of suite `apps` share this about sorts: running programs, clusters, inputs (apps.c); more rows (apps_sort.c). */
#ifndef BENCH_APPS_SORT_H
#define BENCH_APPS_SORT_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/cluster.h"
#include "harness/harness.h"
#include "peers/folder.h"

#define APPS_NR_SERVERS	     2U
#define SORTING_RECORD_BYTES 100U

/* Runs a program to its end, and gives how long that took; NULL: nobody wants to know. */
int apps_run(const char *const *arguments, double *seconds);
/* Starts a cluster that can be reached over local and over tcp, and has the programs that are run use it. */
int apps_start_cluster(uint64_t server_bytes, struct cluster **out);
/* Likewise, over tcp alone, with a store on flash at each server. */
int apps_start_flash(uint64_t server_bytes, uint64_t flash_bytes, struct cluster **out);
/* Has programs, and sessions of this process that say nothing else, use this transport from now on. */
int apps_choose_path(const char *transport);
/* Makes records in a region or file, in the cluster that runs. */
int apps_generate(const char *where, uint64_t bytes);

/* ---- Rows about sorts */

/* Their parameters. */
struct sorting {
	const char *transport;
	uint64_t gib;
	const void *more; /* what else the reference needs */
	bool is_on_flash; /* input, output and buckets are */
};

uint64_t sorting_bytes(const struct bench_row *row);

/* A folder on tmpfs with an input, for references. */
struct sorting_files {
	struct folder folder;
	char in[96], out[96];
};

/* The state of stages with such rows: what they share of a size. */
struct sorting_stage {
	uint64_t bytes; /* of the input; 0: there is none */
	bool is_on_flash;
	bool is_apart; /* there is no memory for both sides at once: each turn makes what it needs, and removes it */
	struct cluster *cluster; /* with the region s:in, and warm servers; NULL: none */
	struct sorting_files files;
};

int sorting_setup(void **stage);
void sorting_teardown(void *stage);
/* Make what a turn of the row needs, if it is not there. After a failure nothing is. */
int sorting_need_cluster(struct sorting_stage *stage, const struct bench_row *row);
int sorting_need_file(struct sorting_stage *stage, const struct bench_row *row);
/* Removes the file that a turn has made; or all, if the turn has failed, or the next one makes it anew. */
void sorting_turn_ends(struct sorting_stage *stage, int status);

/* Sorts s:in into s:out with warm servers: GB/s. */
int sorting_run(void *stage, const struct bench_row *row, unsigned repetition, double *value);

/* The time that the parts of a sort take at least (apps_floor.c): GB/s of the input. */
int sorting_run_floor(void *stage, const struct bench_row *row, unsigned repetition, double *value);

/* Beside an MPI sort, and beside that floor (apps_sort.c). */
extern const struct bench_stage apps_sort_stage;
/* From and to files on disk (apps_disk.c). */
extern const struct bench_stage apps_disk_stage;

#endif
