/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading buckets by their table; see exchange.h. Called by worker.c. The table was written by others, and is checked. */
#include <errno.h>
#include <stdlib.h>

#include "exchange.h"
#include "tools/copy/failure.h"

#define PIECE_BYTES ((size_t)1 << 20) /* of one read of the table */

struct buckets {
	struct sort_job *job;
	struct chunk *table;
	uint64_t nr_chunks; /* taken by anybody */
	uint64_t *offsets;  /* of each bucket in the output, and behind them the output's end */
	uint32_t *firsts;   /* of each bucket in `order`, and behind them its end */
	uint32_t *order;    /* numbers of chunks: bucket after bucket, worker after worker */
};

static int fail_memory(const struct sort_job *job)
{
	return app_fail(-ENOMEM, "sort %s: out of memory for a table of %u chunks",
			job->options.input, job->plan.nr_chunks);
}

static int fail_table(const struct sort_job *job, const char *why)
{
	return app_fail(
		-EBADMSG,
		"sort %s: the table of chunks cannot be: %s; was the input changed meanwhile?",
		job->options.input, why);
}

/* ---- The table */

static int read_table(struct buckets *buckets)
{
	struct sort_job *job = buckets->job;
	size_t length = buckets->nr_chunks * sizeof(*buckets->table);
	struct io_request request;
	int ret = 0;

	for (size_t at = 0; at < length && !ret; at += PIECE_BYTES) {
		size_t part = length - at < PIECE_BYTES ? length - at : PIECE_BYTES;

		ret = io_read(&job->io, &request, &job->team.meeting.end, job->layout.table + at,
			      NULL, (uint8_t *)buckets->table + at, part);
		if (!ret)
			ret = io_wait(&job->io, &request);
	}
	if (ret)
		io_drain(&job->io);
	return ret;
}

static int check_table(const struct buckets *buckets)
{
	const struct plan *plan = &buckets->job->plan;

	for (uint64_t i = 0; i < buckets->nr_chunks; i++) {
		const struct chunk *chunk = &buckets->table[i];

		if (chunk->bucket != CHUNK_UNUSED &&
		    (chunk->bucket >= plan->nr_buckets || chunk->worker >= plan->nr_workers ||
		     !chunk->length || chunk->length > plan->chunk_bytes))
			return fail_table(buckets->job, "an entry is out of range");
	}
	return 0;
}

/* Counts the chunks and bytes of each bucket into the entry behind it, then adds up. */
static int add_up(struct buckets *buckets)
{
	const struct plan *plan = &buckets->job->plan;

	for (uint64_t i = 0; i < buckets->nr_chunks; i++) {
		const struct chunk *chunk = &buckets->table[i];

		if (chunk->bucket == CHUNK_UNUSED)
			continue;
		buckets->offsets[chunk->bucket + 1] += chunk->length;
		buckets->firsts[chunk->bucket + 1]++;
	}
	for (unsigned i = 0; i < plan->nr_buckets; i++) {
		buckets->offsets[i + 1] += buckets->offsets[i];
		buckets->firsts[i + 1] += buckets->firsts[i];
	}
	if (buckets->offsets[plan->nr_buckets] != plan->output_bytes)
		return fail_table(buckets->job, "its bytes are not those of the input");
	return 0;
}

/* Orders chunks by bucket, then worker. A worker takes them in order of their numbers. */
static int compare_chunks(const void *a, const void *b, void *table)
{
	uint32_t number = *(const uint32_t *)a, other_number = *(const uint32_t *)b;
	const struct chunk *chunk = (const struct chunk *)table + number;
	const struct chunk *other = (const struct chunk *)table + other_number;

	if (chunk->bucket != other->bucket)
		return chunk->bucket < other->bucket ? -1 : 1;
	if (chunk->worker != other->worker)
		return chunk->worker < other->worker ? -1 : 1;
	return number < other_number ? -1 : number > other_number;
}

static void put_in_order(struct buckets *buckets)
{
	size_t nr = 0;

	for (uint64_t i = 0; i < buckets->nr_chunks; i++) {
		if (buckets->table[i].bucket != CHUNK_UNUSED)
			buckets->order[nr++] = (uint32_t)i;
	}
	qsort_r(buckets->order, nr, sizeof(*buckets->order), compare_chunks, buckets->table);
}

static int get_table(struct buckets *buckets)
{
	struct sort_job *job = buckets->job;
	int ret = job_take(job, JOB_CHUNKS, 0, &buckets->nr_chunks);

	if (ret)
		return ret;
	if (buckets->nr_chunks > job->plan.nr_chunks)
		return fail_table(job, "more chunks were taken than there are");
	buckets->table = calloc(buckets->nr_chunks + 1, sizeof(*buckets->table));
	buckets->order = calloc(buckets->nr_chunks + 1, sizeof(*buckets->order));
	buckets->offsets = calloc(job->plan.nr_buckets + 1U, sizeof(*buckets->offsets));
	buckets->firsts = calloc(job->plan.nr_buckets + 1U, sizeof(*buckets->firsts));
	if (!buckets->table || !buckets->order || !buckets->offsets || !buckets->firsts)
		return fail_memory(job);
	ret = read_table(buckets);
	if (!ret)
		ret = check_table(buckets);
	if (!ret)
		ret = add_up(buckets);
	if (!ret)
		put_in_order(buckets);
	return ret;
}

int buckets_open(struct sort_job *job, struct buckets **out)
{
	struct buckets *buckets = calloc(1, sizeof(*buckets));

	*out = buckets;
	if (!buckets)
		return fail_memory(job);
	buckets->job = job;
	return get_table(buckets);
}

void buckets_close(struct buckets *buckets)
{
	if (!buckets)
		return;
	free(buckets->table);
	free(buckets->order);
	free(buckets->offsets);
	free(buckets->firsts);
	free(buckets);
}

/* ---- Buckets */

uint64_t buckets_bytes(const struct buckets *buckets, unsigned bucket)
{
	return buckets->offsets[bucket + 1] - buckets->offsets[bucket];
}

uint64_t buckets_offset(const struct buckets *buckets, unsigned bucket)
{
	return buckets->offsets[bucket];
}

unsigned buckets_chunks(const struct buckets *buckets, unsigned bucket)
{
	return buckets->firsts[bucket + 1] - buckets->firsts[bucket];
}

int buckets_read(struct buckets *buckets, unsigned bucket, struct afar_buffer *buffer,
		 uint8_t *data, struct io_request *requests)
{
	const uint32_t *order = buckets->order + buckets->firsts[bucket];
	struct sort_job *job = buckets->job;
	int ret = 0;

	for (unsigned i = 0; i < buckets_chunks(buckets, bucket) && !ret; i++) {
		uint32_t length = buckets->table[order[i]].length;

		ret = io_read(&job->io, &requests[i], &job->team.exchange.end,
			      job_chunk_at(&job->plan, order[i]), buffer, data, length);
		data += length;
	}
	return ret;
}
