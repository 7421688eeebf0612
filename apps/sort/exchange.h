/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buckets, on their way between workers. Each worker has one chunk open for each bucket, in its own memory. A full
 * chunk is written to the next free chunk of the job's region, and the worker goes on in other memory meanwhile. A table
 * says what is in each chunk.
 */
#ifndef APPS_SORT_EXCHANGE_H
#define APPS_SORT_EXCHANGE_H

#include "job.h"

/* ---- Filling buckets */

struct filler;

int filler_open(struct sort_job *job, struct filler **out);
/* Appends bytes to a bucket. */
int filler_put(struct filler *filler, unsigned bucket, const uint8_t *data, size_t length);
/* Writes what is left, and the table. Everybody sees both when it has returned 0. */
int filler_finish(struct filler *filler);
/* Waits for what is in flight. NULL is allowed. */
void filler_close(struct filler *filler);

/* ---- Reading them */

struct buckets;

/* Reads the table, once all have finished. -EBADMSG: it is not one. */
int buckets_open(struct sort_job *job, struct buckets **out);
void buckets_close(struct buckets *buckets);
/* Bytes of a bucket, and of all that come before it: where it begins in the output. */
uint64_t buckets_bytes(const struct buckets *buckets, unsigned bucket);
uint64_t buckets_offset(const struct buckets *buckets, unsigned bucket);
/* Returns how many chunks the bucket is in, for the size of `requests`. */
unsigned buckets_chunks(const struct buckets *buckets, unsigned bucket);
/* Starts reading all of a bucket to `data`, which is in `buffer`. The bytes that one worker has put there come in its
 * order. The caller waits for each of the requests. */
int buckets_read(struct buckets *buckets, unsigned bucket, struct afar_buffer *buffer,
		 uint8_t *data, struct io_request *requests);

#endif
