/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and sorting a bucket; see bucket.h. Called by worker.c. */
#include "bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/copy/failure.h"
#include "word.h"

static int fail_memory(const struct bucket *bucket)
{
	return app_fail(-ENOMEM,
			"sort %s: out of memory for a bucket of %llu bytes; sort with more "
			"workers on more machines, or a smaller --bucket",
			bucket->job->options.input, (unsigned long long)bucket->length);
}

/* ---- Reading */

static int get_room(struct bucket *bucket)
{
	size_t room = bucket->length + bucket->length / 8; /* the next may be a little larger */

	if (bucket->length > UINT32_MAX)
		return app_fail(-EFBIG,
				"sort %s: a bucket has %llu bytes, more than 4 GiB; give a "
				"smaller --bucket",
				bucket->job->options.input, (unsigned long long)bucket->length);
	if (bucket->room >= bucket->length)
		return 0;
	if (bucket->buffer)
		afar_buffer_unregister(bucket->buffer);
	bucket->buffer = NULL;
	bucket->room = 0;
	if (afar_buffer_alloc(bucket->job->session, room, &bucket->buffer))
		return fail_memory(bucket);
	bucket->room = room;
	return 0;
}

int bucket_begin(struct bucket *bucket, struct sort_job *job, struct buckets *buckets,
		 unsigned number)
{
	int ret;

	bucket->job = job;
	bucket->number = number;
	bucket->length = buckets_bytes(buckets, number);
	bucket->offset = buckets_offset(buckets, number);
	free(bucket->requests);
	bucket->nr_requests = buckets_chunks(buckets, number);
	bucket->requests = calloc(bucket->nr_requests + 1U, sizeof(*bucket->requests));
	if (!bucket->requests)
		return fail_memory(bucket);
	ret = get_room(bucket);
	if (ret || !bucket->length)
		return ret;
	return buckets_read(buckets, number, bucket->buffer, afar_buffer_data(bucket->buffer),
			    bucket->requests);
}

int bucket_await(struct bucket *bucket)
{
	int ret = 0;

	for (unsigned i = 0; i < bucket->nr_requests && !ret; i++)
		ret = io_wait(&bucket->job->io, &bucket->requests[i]);
	return ret;
}

void bucket_free(struct bucket *bucket)
{
	if (bucket->buffer)
		afar_buffer_unregister(bucket->buffer);
	free(bucket->requests);
	free(bucket->items);
	free(bucket->scratch);
	*bucket = (struct bucket){0};
}

/* ---- Sorting */

static int grow(struct bucket *bucket, size_t room)
{
	struct item *longer = realloc(bucket->items, room * sizeof(*longer));

	if (!longer)
		return fail_memory(bucket);
	bucket->items = longer;
	free(bucket->scratch);
	bucket->scratch = malloc(room * sizeof(*longer));
	bucket->items_room = bucket->scratch ? room : 0;
	return bucket->scratch ? 0 : fail_memory(bucket);
}

static int find_records(struct bucket *bucket)
{
	const uint8_t *data = afar_buffer_data(bucket->buffer);
	size_t nr = bucket->length / SORT_RECORD_BYTES;
	int ret = nr > bucket->items_room ? grow(bucket, nr + nr / 8) : 0;

	if (ret)
		return ret;
	for (size_t i = 0; i < nr; i++) {
		uint32_t at = (uint32_t)(i * SORT_RECORD_BYTES);

		bucket->items[i] =
			(struct item){word_at(data + at, SORT_RECORD_BYTES), at, SORT_RECORD_BYTES};
	}
	bucket->nr_items = nr;
	return 0;
}

static int find_lines(struct bucket *bucket)
{
	const uint8_t *data = afar_buffer_data(bucket->buffer), *at = data,
		      *end = data + bucket->length, *newline;
	int ret;

	bucket->nr_items = 0;
	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t length = (size_t)(newline - at);

		if (bucket->nr_items == bucket->items_room) {
			ret = grow(bucket, 2 * bucket->items_room + 1024);
			if (ret)
				return ret;
		}
		bucket->items[bucket->nr_items++] =
			(struct item){word_at(at, length), (uint32_t)(at - data), (uint32_t)length};
		at = newline + 1;
	}
	if (at < end)
		return app_fail(-EBADMSG,
				"sort %s: a bucket does not end with a line's end; was the input "
				"changed meanwhile?",
				bucket->job->options.input);
	return 0;
}

int bucket_sort(struct bucket *bucket)
{
	int ret;

	bucket->nr_items = 0;
	if (!bucket->length)
		return 0;
	if (!bucket->job->plan.is_lines && bucket->length % SORT_RECORD_BYTES)
		return app_fail(-EBADMSG,
				"sort %s: a bucket has %llu bytes, which are no whole records",
				bucket->job->options.input, (unsigned long long)bucket->length);
	ret = bucket->job->plan.is_lines ? find_lines(bucket) : find_records(bucket);
	if (!ret)
		radix_sort(afar_buffer_data(bucket->buffer), bucket->items, bucket->scratch,
			   bucket->nr_items);
	return ret;
}
