/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A parallel sort over regions: `afar sort`. Workers, which are processes of any machines, meet in a region. Each reads
 * its share of the input, and writes every item to the bucket that it belongs to. Then each takes bucket after bucket,
 * sorts it, and writes it to its place in the output. No server program takes part in any of that.
 *
 * An item is a record of 100 bytes, as the sort benchmark's gensort makes them, or a line of text. The order is that of
 * the bytes, as that of `LC_ALL=C sort`. So equal items are equal bytes.
 *
 * This is a two-phase bucket sort, as RSort is (A. Trivedi, "End-to-End Considerations in the Unification of
 * High-Performance I/O", ETH Zürich 2016, §6.5.2). Its namespace for each worker and bucket would cost servers memory and
 * connections for each; here all buckets are chunks of one region.
 *
 * It uses the public API alone, and shows how a program does. Read worker.c first. All functions belong to one thread,
 * and return 0 or a negative code; app_failure() (failure.h) then has a line for people.
 */
#ifndef APPS_SORT_SORT_H
#define APPS_SORT_SORT_H

#include <stdbool.h>
#include <stdint.h>

#include <afar/afar.h>

#define SORT_RECORD_BYTES 100U
#define SORT_KEY_BYTES	  10U /* of a record; the whole record decides among equal keys */

/* An input or output is named "NAMESPACE:REGION", "NAMESPACE:@0xADDRESS", or by a file's path: a name with a slash
 * before its colon, or without a colon. */
struct sort_options {
	const char *input;
	const char *output;
	const char *ns; /* for the buckets; NULL: that of the output, else of the input */
	/* Where the workers meet, in memory; NULL: the first in memory of the buckets', the output's and the input's. */
	const char *meet_ns;
	const char *job; /* the name of the region where they meet; all give the same */
	unsigned worker; /* which of them the caller is; 0 leads the others */
	unsigned nr_workers;
	bool is_lines;	       /* items are lines, not records */
	bool may_replace;      /* the output region, if there is one */
	bool is_verbose;       /* tells on standard error where the time went */
	uint64_t bucket_bytes; /* sorted at a time; 0: 4 MiB */
	uint32_t patience_ms;  /* a worker that shows no progress for so long is given up */
	/* Asked often: returns whether the sort is to end early, with -ECANCELED. */
	bool (*is_ended)(void *context);
	/* Told often by worker 0: how far the step is, from 0 to 1. NULL: nobody wants to know. */
	void (*show)(void *context, const char *step, double part);
	void *context;
};

/* The needs of a sort, found out before anything is made. */
struct sort_needs {
	uint64_t input_bytes;
	uint64_t output_bytes;
	/* The namespace for the buckets gives so much, also for a meeting and an output that are there. */
	uint64_t ns_bytes;
	uint64_t meet_bytes;   /* of the namespace for the meeting, if that is another; else 0 */
	uint64_t worker_bytes; /* of each worker's own memory, about */
	char ns[AFAR_NAME_MAX + 1];
	char meet_ns[AFAR_NAME_MAX + 1];
};

/*
 * Looks at the input and says what the sort will need. Reads the input's last byte, and changes nothing.
 * Errors: -ENOENT, -EINVAL (a name; records that are cut short; no namespace for the buckets, or none in memory to meet in), -ENODATA
 * (the output is a region, and the input is empty), those of opening.
 */
int sort_look(struct afar_session *session, const struct sort_options *options,
	      struct sort_needs *out);

struct sort_job;

/*
 * Prepares the sort, for worker 0: makes the output and the regions of the job, and reserves what the namespaces lack. The
 * other workers may come before or afterwards. `*out` is the caller's until sort_end().
 * Errors: -EEXIST (the output, or a job of this name), -ENOSPC, -AFAR_ENOSERVER, -EACCES.
 */
int sort_prepare(struct afar_session *session, const struct sort_options *options,
		 struct sort_job **out);
/*
 * Joins the sort, for the other workers. Waits for worker 0 to have prepared it, up to patience_ms. Errors: -ETIMEDOUT.
 */
int sort_join(struct afar_session *session, const struct sort_options *options,
	      struct sort_job **out);
/*
 * Does the worker's part. When it has returned 0 at worker 0, the output is complete. When it fails, the job has failed
 * everywhere: the others find out at once if they are told, else after patience_ms.
 */
int sort_work(struct sort_job *job);
/*
 * Ends the caller's part. The regions of the job go with its last worker; they have no names once all have met. If
 * the job has failed, removes the output, and at worker 0 gives back what it had reserved. Call it at worker 0 after the
 * others have ended, as far as they are known. NULL is allowed.
 */
void sort_end(struct sort_job *job);

struct sort_made {
	uint64_t nr_records;
	uint64_t seed; /* equal seeds make equal records */
	bool is_skewed; /* half of the keys begin with one of 128 prefixes, some far more often than others */
	bool may_replace;
	bool (*is_ended)(void *context);
	void (*show)(void *context, const char *step, double part);
	void *context;
};

/*
 * Makes records in the form of gensort's text records. Each has a key of 10 printable bytes, two blanks, the record's
 * number in 32 hexadecimal digits, two blanks, and 52 bytes of filler. It ends with "\r\n", so records are lines, too.
 * Errors: those of sort_prepare(), -EINVAL (no records).
 */
int sort_generate(struct afar_session *session, const char *output, const struct sort_made *made);

struct sort_found {
	uint64_t nr_items;
	uint64_t nr_equal;	 /* items equal to the one before */
	uint64_t nr_unsorted;	 /* items less than the one before */
	uint64_t first_unsorted; /* the number of the first of those, from 0 */
	uint64_t sum;		 /* of a hash of each item: equal for equal items in any order */
};

/*
 * Reads all items of a region or file, and says in which order they are, how many, and their sum. It takes input,
 * is_lines, is_ended, show and context from `options`.
 */
int sort_verify(struct afar_session *session, const struct sort_options *options,
		struct sort_found *out);

#endif
