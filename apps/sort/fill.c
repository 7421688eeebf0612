/* SPDX-License-Identifier: BSD-3-Clause */
/* Filling buckets; see exchange.h. Called by worker.c; owns the memory of open chunks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "tools/copy/failure.h"

#define SPARE 16U /* chunks in flight, beside the open ones */

/* Memory for a chunk: open for a bucket, or in flight. */
struct page {
	struct io_request request;
	uint8_t *data;
};

/* Where a bucket's next item goes: what is needed of its open page for each item, and nothing else. */
struct spot {
	uint8_t *next;
	uint32_t room; /* bytes left of the page */
};

/* Chunks that were taken together, and what is in them. */
struct block {
	uint64_t first;
	struct io_request request;
	struct chunk chunks[JOB_BLOCK];
	struct block *next;
};

struct filler {
	struct sort_job *job;
	struct afar_buffer *buffer; /* all pages */
	struct page *pages;
	struct page **open; /* of each bucket */
	struct spot *spots; /* of each bucket */
	struct page **sent; /* SPARE of them in a ring: in flight, in the order of sending */
	uint64_t nr_sent;
	struct block *blocks; /* the newest first */
	unsigned nr_used;     /* chunks of the newest */
};

static int fail_memory(const struct sort_job *job)
{
	return app_fail(-ENOMEM, "sort %s: out of memory for %u open chunks of %u bytes",
			job->options.input, job->plan.nr_buckets + SPARE, job->plan.chunk_bytes);
}

static void open_page(struct filler *filler, unsigned bucket, struct page *page)
{
	filler->open[bucket] = page;
	filler->spots[bucket] = (struct spot){page->data, filler->job->plan.chunk_bytes};
}

/* Deals the pages out. */
static void deal(struct filler *filler)
{
	const struct plan *plan = &filler->job->plan;
	uint8_t *data = afar_buffer_data(filler->buffer);

	for (unsigned i = 0; i < plan->nr_buckets + SPARE; i++)
		filler->pages[i].data = data + (size_t)i * plan->chunk_bytes;
	for (unsigned i = 0; i < plan->nr_buckets; i++)
		open_page(filler, i, &filler->pages[i]);
	for (unsigned i = 0; i < SPARE; i++)
		filler->sent[i] = &filler->pages[plan->nr_buckets + i];
}

int filler_open(struct sort_job *job, struct filler **out)
{
	const unsigned nr_pages = job->plan.nr_buckets + SPARE;
	struct filler *filler = calloc(1, sizeof(*filler));

	*out = filler;
	if (!filler)
		return fail_memory(job);
	filler->job = job;
	filler->nr_used = JOB_BLOCK;
	filler->pages = calloc(nr_pages, sizeof(*filler->pages));
	filler->open = calloc(job->plan.nr_buckets, sizeof(struct page *));
	filler->spots = calloc(job->plan.nr_buckets, sizeof(*filler->spots));
	filler->sent = calloc(SPARE, sizeof(struct page *));
	if (!filler->pages || !filler->open || !filler->spots || !filler->sent ||
	    afar_buffer_alloc(job->session, (size_t)nr_pages * job->plan.chunk_bytes,
			      &filler->buffer))
		return fail_memory(job);
	deal(filler);
	return 0;
}

void filler_close(struct filler *filler)
{
	struct block *block;

	if (!filler)
		return;
	io_drain(&filler->job->io);
	if (filler->buffer)
		afar_buffer_unregister(filler->buffer);
	while ((block = filler->blocks)) {
		filler->blocks = block->next;
		free(block);
	}
	free(filler->pages);
	free(filler->open);
	free(filler->spots);
	free(filler->sent);
	free(filler);
}

/* ---- Chunks */

static int take_block(struct filler *filler)
{
	struct sort_job *job = filler->job;
	struct block *block = calloc(1, sizeof(*block));
	int ret;

	if (!block)
		return fail_memory(job);
	ret = job_take(job, JOB_CHUNKS, JOB_BLOCK, &block->first);
	/* The plan has room for all; so the input has changed since. */
	if (!ret &&
	    (block->first > job->plan.nr_chunks || job->plan.nr_chunks - block->first < JOB_BLOCK))
		ret = app_fail(
			-EINVAL,
			"sort %s: it has more bytes than it had; sort it while nobody changes it",
			job->options.input);
	if (ret) {
		free(block);
		return ret;
	}
	for (unsigned i = 0; i < JOB_BLOCK; i++)
		block->chunks[i].bucket = CHUNK_UNUSED;
	block->next = filler->blocks;
	filler->blocks = block;
	filler->nr_used = 0;
	return 0;
}

/* Writes a page of a bucket to the next chunk. */
static int send_page(struct filler *filler, unsigned bucket, struct page *page)
{
	struct sort_job *job = filler->job;
	uint32_t filled = job->plan.chunk_bytes - filler->spots[bucket].room;
	uint64_t offset;
	int ret = filler->nr_used == JOB_BLOCK ? take_block(filler) : 0;

	if (ret)
		return ret;
	offset = job_chunk_at(&job->plan, filler->blocks->first + filler->nr_used);
	filler->blocks->chunks[filler->nr_used++] =
		(struct chunk){bucket, job->options.worker, filled, 0};
	return io_write(&job->io, &page->request, &job->team.exchange.end, offset, filler->buffer,
			page->data, filled);
}

/* Sends the bucket's page, and opens the one for it that was sent longest ago. If the page is not busy any more, it
 * opens that one again, because the ring would only cool the cache. On `local` this is so, where a page is copied when
 * it is sent. */
static int turn_page(struct filler *filler, unsigned bucket)
{
	struct page *page = filler->open[bucket], *other;
	struct page **place = &filler->sent[filler->nr_sent % SPARE];
	int ret = send_page(filler, bucket, page);

	if (ret)
		return ret;
	if (!page->request.is_busy) {
		open_page(filler, bucket, page);
		return io_wait(&filler->job->io, &page->request);
	}
	other = *place;
	ret = io_wait(&filler->job->io, &other->request);
	*place = page;
	filler->nr_sent++;
	open_page(filler, bucket, other);
	return ret;
}

/* Appends what may not fit into the page. */
static int put_across(struct filler *filler, unsigned bucket, const uint8_t *data, size_t length)
{
	struct spot *spot = &filler->spots[bucket];
	int ret = 0;

	while (!ret && length) {
		uint32_t part = length < spot->room ? (uint32_t)length : spot->room;

		memcpy(spot->next, data, part);
		spot->next += part;
		spot->room -= part;
		data += part;
		length -= part;
		if (!spot->room)
			ret = turn_page(filler, bucket);
	}
	return ret;
}

int filler_put(struct filler *filler, unsigned bucket, const uint8_t *data, size_t length)
{
	struct spot *spot = &filler->spots[bucket];

	if (length != SORT_RECORD_BYTES || spot->room <= 2 * SORT_RECORD_BYTES)
		return put_across(filler, bucket, data, length);
	memcpy(spot->next, data, SORT_RECORD_BYTES);
	spot->next += SORT_RECORD_BYTES;
	spot->room -= SORT_RECORD_BYTES;
	/* The open pages are more than the cache next to the core holds: the bucket's next record finds its place there. */
	__builtin_prefetch(spot->next + 64, 1);
	__builtin_prefetch(spot->next + SORT_RECORD_BYTES - 1, 1);
	return 0;
}

static int await_pages(struct filler *filler)
{
	int ret = 0;

	for (unsigned i = 0; i < filler->job->plan.nr_buckets + SPARE && !ret; i++)
		ret = io_wait(&filler->job->io, &filler->pages[i].request);
	return ret;
}

static int write_table(struct filler *filler)
{
	struct sort_job *job = filler->job;
	int ret = 0;

	for (struct block *block = filler->blocks; block && !ret; block = block->next)
		ret = io_write(&job->io, &block->request, &job->team.meeting.end,
			       job->layout.table + block->first * sizeof(struct chunk), NULL,
			       block->chunks, sizeof(block->chunks));
	for (struct block *block = filler->blocks; block && !ret; block = block->next)
		ret = io_wait(&job->io, &block->request);
	return ret;
}

int filler_finish(struct filler *filler)
{
	struct sort_job *job = filler->job;
	int ret = 0;

	for (unsigned i = 0; i < job->plan.nr_buckets && !ret; i++) {
		if (filler->spots[i].room < job->plan.chunk_bytes)
			ret = turn_page(filler, i);
	}
	if (!ret)
		ret = await_pages(filler);
	if (!ret)
		ret = write_table(filler);
	if (!ret)
		ret = io_flush(&job->io, &job->team.exchange.end);
	return ret ? ret : io_flush(&job->io, &job->team.meeting.end);
}
