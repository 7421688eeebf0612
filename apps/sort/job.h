/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workers of a sort share its input, its output, and the regions of their team. Where they meet they publish samples
 * and count; the buckets are what they exchange.
 */
#ifndef APPS_SORT_JOB_H
#define APPS_SORT_JOB_H

#include "place.h"
#include "room.h"
#include "sort.h"
#include "team.h"
#include "tools/copy/io.h"

#define JOB_BLOCK 16U /* chunks that a worker takes at a time */

/* Worker 0 decides on it, and the others get it as their work. */
struct plan {
	uint64_t magic;
	uint64_t input_bytes;
	uint64_t output_bytes;
	uint32_t is_lines;
	uint32_t nr_workers;
	uint32_t nr_buckets;
	uint32_t nr_samples; /* of each worker, at most */
	uint32_t nr_chunks;  /* that there is room for */
	uint32_t chunk_bytes;
};

/* The content of a chunk. The worker that took a chunk writes this to their table, and all read it. */
struct chunk {
	uint32_t bucket; /* CHUNK_UNUSED: none */
	uint32_t worker; /* the chunks of one worker and bucket belong together, in order */
	uint32_t length;
	uint32_t reserved;
};

#define CHUNK_UNUSED UINT32_MAX

/* Words that count up. */
enum job_counter {
	JOB_CHUNKS,  /* chunks taken */
	JOB_BUCKETS, /* buckets taken, to be sorted */
	JOB_COUNTERS,
};

/* Offsets where they meet. */
struct job_layout {
	uint64_t counters;
	uint64_t
		samples; /* nr_samples for each worker, behind a line of 64 bytes with their number */
	uint64_t table; /* a struct chunk for each chunk */
	uint64_t bytes;
};

struct sort_job {
	struct sort_options options;
	struct afar_session *session;
	struct place input, output;
	struct team team;
	struct plan plan;
	struct job_layout layout;
	struct io io;
	struct room output_room;    /* at worker 0 */
	bool is_done;		    /* the output is complete */
	const char *step;	    /* for show() */
	char what[300];		    /* it is, for people */
	char ns[AFAR_NAME_MAX + 1]; /* of the buckets */
	char meet_ns[AFAR_NAME_MAX + 1];
};

void job_lay_out(const struct plan *plan, struct job_layout *out);

/* Returns where a chunk begins in what the workers exchange. */
static inline uint64_t job_chunk_at(const struct plan *plan, uint64_t number)
{
	return number * plan->chunk_bytes;
}

/* Waits until all have met, and gets the plan. */
int job_meet(struct sort_job *job);
/* Takes the next `nr` of what is counted; `*first` gets the first of them. */
int job_take(struct sort_job *job, enum job_counter counter, uint64_t nr, uint64_t *first);
/* Shows that the caller lives, and has done `part` of its step. Call it often. Returns -ECANCELED if it is to end. */
int job_beat(struct sort_job *job, double part);

#endif
