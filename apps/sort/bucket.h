/* SPDX-License-Identifier: BSD-3-Clause */
/* One bucket in a worker's memory: read, sorted, and written to its place in the output. A worker has two of them, so that
 * the next is on its way while one is sorted. */
#ifndef APPS_SORT_BUCKET_H
#define APPS_SORT_BUCKET_H

#include "exchange.h"
#include "radix.h"

struct bucket {
	struct sort_job *job;
	unsigned number;
	uint64_t length, offset; /* bytes; where they go in the output */
	struct afar_buffer *buffer;
	size_t room; /* of the buffer */
	struct io_request *requests;
	unsigned nr_requests;
	struct item *items, *scratch;
	size_t nr_items, items_room;
};

/* Starts reading it. */
int bucket_begin(struct bucket *bucket, struct sort_job *job, struct buckets *buckets,
		 unsigned number);
/* Waits until it is here. */
int bucket_await(struct bucket *bucket);
/* Sorts it. */
int bucket_sort(struct bucket *bucket);
/* Frees its memory. Nothing may be in flight. */
void bucket_free(struct bucket *bucket);

/* Sorted items on their way to the output: pieces that are filled while others are written. */
struct writer;

int writer_open(struct sort_job *job, struct writer **out);
/* Copies a sorted bucket together, and starts writing it. Its memory is free for another when this returns. */
int writer_put(struct writer *writer, const struct bucket *bucket);
/* Waits until everything is written, and everybody sees it. */
int writer_finish(struct writer *writer);
/* Waits for what is in flight. NULL is allowed. */
void writer_close(struct writer *writer);

#endif
