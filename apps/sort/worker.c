/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's part of a sort, from meeting the others to the complete output. Read it first: each step is a function.
 *
 *   sample      publish items from all over the share; meet; make splitters of the samples of all
 *   distribute  read the share, and put each item into its bucket; meet
 *   sort        take bucket after bucket: read, sort, write. The next one is read while one is sorted; meet
 *
 * The share of the input is fixed. Buckets are taken by an atomic addition, so a worker that is slow takes fewer.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "bucket.h"
#include "exchange.h"
#include "input.h"
#include "sampling.h"
#include "tools/copy/failure.h"

/* Where the time went, of which --verbose tells. */
struct times {
	uint64_t sample_ns, read_ns, distribute_ns, fetch_ns, sort_ns, write_ns, wait_ns;
};

struct worker {
	struct sort_job *job;
	uint64_t begin, end; /* the share */
	struct splitters *splitters;
	struct filler *filler;
	struct buckets *buckets;
	struct bucket halves[2]; /* one is sorted, the other one read */
	struct writer *writer;
	struct times times;
};

/* Adds the time since `*since` to `sum`, and goes on from now. */
static void count_time(uint64_t *sum, uint64_t *since)
{
	uint64_t now = clock_ns();

	*sum += now - *since;
	*since = now;
}

static int meet_again(struct worker *worker)
{
	uint64_t since = clock_ns();
	int ret = team_sync(&worker->job->team);

	count_time(&worker->times.wait_ns, &since);
	return ret;
}

/* ---- Meeting */

/* Counters begin with 0. Worker 0 writes that before the others know the plan. */
static int clear_counters(struct sort_job *job)
{
	uint64_t zeros[JOB_COUNTERS] = {0};
	struct io_request request;
	int ret = io_write(&job->io, &request, &job->team.meeting.end, job->layout.counters, NULL,
			   zeros, sizeof(zeros));

	if (!ret)
		ret = io_wait(&job->io, &request);
	if (!ret)
		ret = io_flush(&job->io, &job->team.meeting.end);
	io_drain(&job->io);
	return ret;
}

static int meet(struct worker *worker)
{
	struct sort_job *job = worker->job;
	uint64_t since = clock_ns();
	int ret;

	/* All connections are made while the regions have their names: afterwards nothing is set up any more. */
	ret = io_connect(&job->io, &job->input.end);
	if (!ret)
		ret = io_connect(&job->io, &job->output.end);
	if (!ret)
		ret = io_connect(&job->io, &job->team.exchange.end);
	if (!ret)
		ret = io_connect(&job->io, &job->team.meeting.end);
	if (!ret && job->options.worker == 0)
		ret = clear_counters(job);
	if (!ret)
		ret = job_meet(job);
	count_time(&worker->times.wait_ns, &since);
	if (ret)
		return ret;
	worker->begin = input_share(job->input.length, job->plan.is_lines, job->options.worker,
				    job->plan.nr_workers);
	worker->end = input_share(job->input.length, job->plan.is_lines, job->options.worker + 1,
				  job->plan.nr_workers);
	return 0;
}

/* ---- Sampling */

static int sample(struct worker *worker)
{
	uint64_t since = clock_ns();
	int ret;

	worker->job->step = "sampling";
	ret = sampling_publish(worker->job, worker->begin, worker->end);
	count_time(&worker->times.sample_ns, &since);
	if (!ret)
		ret = meet_again(worker);
	since = clock_ns();
	if (!ret)
		ret = sampling_collect(worker->job, &worker->splitters);
	count_time(&worker->times.sample_ns, &since);
	return ret;
}

/* ---- Distributing */

static int take_record(void *context, const uint8_t *item, size_t length, uint64_t position)
{
	struct worker *worker = context;
	unsigned bucket = splitters_find(worker->splitters, item, length, position);

	return filler_put(worker->filler, bucket, item, length);
}

static int take_line(void *context, const uint8_t *item, size_t length, uint64_t position)
{
	struct worker *worker = context;
	unsigned bucket = splitters_find(worker->splitters, item, length, position);
	int ret = filler_put(worker->filler, bucket, item, length);

	return ret ? ret : filler_put(worker->filler, bucket, (const uint8_t *)"\n", 1);
}

static int note_read(void *context, uint64_t done)
{
	const struct worker *worker = context;

	return job_beat(worker->job, (double)done / (double)(worker->end - worker->begin));
}

static int distribute(struct worker *worker)
{
	struct input input = {
		.io = &worker->job->io,
		.place = &worker->job->input,
		.is_lines = worker->job->plan.is_lines,
		.begin = worker->begin,
		.end = worker->end,
		.take = worker->job->plan.is_lines ? take_line : take_record,
		.note = note_read,
		.context = worker,
	};
	uint64_t since = clock_ns();
	int ret;

	worker->job->step = "distributing";
	ret = filler_open(worker->job, &worker->filler);
	if (!ret)
		ret = input_read(worker->job->session, &input);
	if (!ret)
		ret = filler_finish(worker->filler);
	filler_close(worker->filler);
	worker->filler = NULL;
	count_time(&worker->times.distribute_ns, &since);
	worker->times.distribute_ns -= input.wait_ns;
	worker->times.read_ns = input.wait_ns;
	return ret ? ret : meet_again(worker);
}

/* ---- Sorting */

/* Takes the next bucket that nobody has, and starts reading it. `*is_there` is false when all are taken. */
static int begin_next(struct worker *worker, struct bucket *bucket, bool *is_there)
{
	uint64_t number, since = clock_ns();
	int ret = job_take(worker->job, JOB_BUCKETS, 1, &number);

	*is_there = !ret && number < worker->job->plan.nr_buckets;
	if (*is_there) {
		ret = job_beat(worker->job, (double)number / worker->job->plan.nr_buckets);
		if (!ret)
			ret = bucket_begin(bucket, worker->job, worker->buckets, (unsigned)number);
	}
	count_time(&worker->times.fetch_ns, &since);
	return ret;
}

static int finish_bucket(struct worker *worker, struct bucket *bucket)
{
	uint64_t since = clock_ns();
	int ret;

	ret = bucket_sort(bucket);
	count_time(&worker->times.sort_ns, &since);
	if (!ret)
		ret = writer_put(worker->writer, bucket);
	count_time(&worker->times.write_ns, &since);
	return ret;
}

static int await_bucket(struct worker *worker, struct bucket *bucket)
{
	uint64_t since = clock_ns();
	int ret = bucket_await(bucket);

	count_time(&worker->times.fetch_ns, &since);
	return ret;
}

static int sort_buckets(struct worker *worker)
{
	struct bucket *now = &worker->halves[0], *next = &worker->halves[1], *other;
	bool is_there;
	int ret = begin_next(worker, now, &is_there);

	while (!ret && is_there) {
		ret = await_bucket(worker, now);
		if (!ret)
			ret = begin_next(worker, next, &is_there);
		if (!ret)
			ret = finish_bucket(worker, now);
		other = now;
		now = next;
		next = other;
	}
	return ret;
}

static int sort(struct worker *worker)
{
	uint64_t since = clock_ns();
	int ret;

	worker->job->step = "sorting";
	ret = buckets_open(worker->job, &worker->buckets);
	if (!ret)
		ret = writer_open(worker->job, &worker->writer);
	count_time(&worker->times.fetch_ns, &since);
	if (!ret)
		ret = sort_buckets(worker);
	since = clock_ns();
	if (!ret)
		ret = writer_finish(worker->writer);
	count_time(&worker->times.write_ns, &since);
	return ret ? ret : meet_again(worker);
}

/* ---- All of it */

/* Worker 0 makes the output complete. The others wait for that: whoever is left removes the output of a job that ended
 * before. */
static int finish(struct worker *worker)
{
	int ret;

	if (worker->job->options.worker == 0) {
		ret = place_finish(&worker->job->output);
		worker->job->is_done = !ret;
		if (!ret)
			meet_again(worker); /* whoever has died by now is not needed any more */
		return ret;
	}
	ret = meet_again(worker);
	worker->job->is_done = !ret;
	return ret;
}

static int run(struct worker *worker)
{
	int ret = meet(worker);

	if (!ret)
		ret = sample(worker);
	if (!ret)
		ret = distribute(worker);
	if (!ret)
		ret = sort(worker);
	return ret ? ret : finish(worker);
}

static void tell_times(const struct worker *worker)
{
	const struct times *times = &worker->times;

	fprintf(stderr,
		"worker %u: sample %.3f s, read %.3f s, distribute %.3f s, fetch %.3f s, sort %.3f "
		"s, write %.3f s, wait %.3f s\n",
		worker->job->options.worker, (double)times->sample_ns / 1e9,
		(double)times->read_ns / 1e9, (double)times->distribute_ns / 1e9,
		(double)times->fetch_ns / 1e9, (double)times->sort_ns / 1e9,
		(double)times->write_ns / 1e9, (double)times->wait_ns / 1e9);
}

int sort_work(struct sort_job *job)
{
	struct worker worker = {.job = job};
	int ret;

	job->step = "meeting";
	ret = io_open(&job->io, job->session, job->options.is_ended, job->options.context);
	if (!ret)
		ret = run(&worker);
	if (ret)
		team_give_up(&job->team, ret);
	else if (job->options.is_verbose)
		tell_times(&worker);
	filler_close(worker.filler);
	writer_close(worker.writer);
	io_close(&job->io);
	bucket_free(&worker.halves[0]);
	bucket_free(&worker.halves[1]);
	buckets_close(worker.buckets);
	splitters_free(worker.splitters);
	return ret;
}
