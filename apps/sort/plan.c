/* SPDX-License-Identifier: BSD-3-Clause */
/* How a sort is divided: buckets, chunks, samples, and what memory that takes. Called by job.c; see job.h. Pure. */
#include "plan.h"

#include <errno.h>
#include <string.h>

#include "splitters.h"
#include "tools/copy/failure.h"

#define MAGIC		   UINT64_C(0x31746c50726f5361)
#define LINE		   64U
#define BUCKET_BYTES	   ((uint64_t)4 << 20) /* and what sorts it fit into caches */
#define BUCKETS_PER_WORKER 2U		       /* at least: what one is behind with, others take */
#define BUCKETS_MAX	   2048U
#define CHUNK_MIN	   4096U
#define CHUNK_MAX	   65536U
#define CHUNKS_PER_BUCKET \
	4U /* of each worker, about: so at most a quarter more than the items have is lost */
#define SAMPLES_PER_BUCKET 32U
#define SAMPLES_MIN	   1024U

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

static uint64_t at_least(uint64_t value, uint64_t limit)
{
	return value > limit ? value : limit;
}

static uint32_t choose_chunk_bytes(const struct plan *plan)
{
	uint64_t each =
		plan->output_bytes / plan->nr_workers / plan->nr_buckets / CHUNKS_PER_BUCKET;
	uint32_t bytes = CHUNK_MIN;

	while (bytes < CHUNK_MAX && bytes < each)
		bytes *= 2;
	return bytes;
}

int plan_make(uint64_t input_bytes, uint64_t output_bytes, bool is_lines, unsigned nr_workers,
	      uint64_t bucket_bytes, struct plan *out)
{
	uint64_t nr_chunks, nr_buckets;

	if (!bucket_bytes)
		bucket_bytes = BUCKET_BYTES;
	*out = (struct plan){
		.magic = MAGIC,
		.input_bytes = input_bytes,
		.output_bytes = output_bytes,
		.is_lines = is_lines,
		.nr_workers = nr_workers,
	};
	nr_buckets = at_least(output_bytes / bucket_bytes + 1,
			      (uint64_t)BUCKETS_PER_WORKER * nr_workers);
	out->nr_buckets = (uint32_t)at_most(nr_buckets, BUCKETS_MAX);
	out->chunk_bytes = choose_chunk_bytes(out);
	out->nr_samples =
		(uint32_t)(at_least((uint64_t)SAMPLES_PER_BUCKET * out->nr_buckets, SAMPLES_MIN) /
				   nr_workers +
			   1);
	nr_chunks = output_bytes / out->chunk_bytes + 1 +
		    (uint64_t)nr_workers * (out->nr_buckets + JOB_BLOCK);
	if (nr_chunks >= CHUNK_UNUSED)
		return app_fail(-EFBIG,
				"sort %llu bytes: that is more than %llu chunks of %u bytes",
				(unsigned long long)input_bytes, (unsigned long long)CHUNK_UNUSED,
				out->chunk_bytes);
	out->nr_chunks = (uint32_t)nr_chunks;
	return 0;
}

/* A plan comes from another process. */
int plan_check(const struct plan *plan, const struct sort_options *options, uint64_t input_bytes)
{
	if (plan->magic != MAGIC || plan->nr_workers != options->nr_workers || !plan->nr_buckets ||
	    plan->nr_buckets > BUCKETS_MAX || plan->chunk_bytes < CHUNK_MIN ||
	    plan->chunk_bytes > CHUNK_MAX || !plan->nr_samples ||
	    plan->nr_samples > (uint64_t)SAMPLES_PER_BUCKET * BUCKETS_MAX + 1 ||
	    plan->output_bytes < plan->input_bytes || plan->output_bytes - plan->input_bytes > 1)
		return app_fail(
			-EBADMSG,
			"sort %s: worker 0 has sent a plan that cannot be; is it another version?",
			options->input);
	if (plan->input_bytes != input_bytes)
		return app_fail(-EINVAL,
				"sort %s: it has %llu bytes here, and %llu at worker 0; name the "
				"same input, which nobody changes",
				options->input, (unsigned long long)input_bytes,
				(unsigned long long)plan->input_bytes);
	if (!plan->is_lines != !options->is_lines)
		return app_fail(-EINVAL,
				"sort %s: worker 0 sorts %s; give all workers --lines, or none",
				options->input, plan->is_lines ? "lines" : "records");
	return 0;
}

void job_lay_out(const struct plan *plan, struct job_layout *out)
{
	uint64_t at = team_bytes(plan->nr_workers, sizeof(*plan));

	out->counters = at;
	out->samples = at += LINE;
	at += plan->nr_workers * plan_samples_bytes(plan);
	out->table = at;
	out->bytes = at + (uint64_t)plan->nr_chunks * sizeof(struct chunk);
}

uint64_t plan_exchange_bytes(const struct plan *plan)
{
	return (uint64_t)plan->nr_chunks * plan->chunk_bytes;
}

uint64_t plan_samples_bytes(const struct plan *plan)
{
	return LINE + round_up((uint64_t)plan->nr_samples * sizeof(struct sample), LINE);
}

uint64_t plan_worker_bytes(const struct plan *plan)
{
	const uint64_t bucket = plan->output_bytes / plan->nr_buckets;

	/* Two buckets with the references to their items, of which a line may be short; chunks being filled; pieces. */
	return 2 * bucket * (plan->is_lines ? 2 : 3) / (plan->is_lines ? 1 : 2) +
	       (uint64_t)plan->nr_buckets * plan->chunk_bytes + ((uint64_t)16 << 20);
}
