/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sample; see sampling.h. Called by worker.c. Items are taken from random places, one in each of equal parts of the
 * share. Places at equal distances could meet a pattern of the input.
 */
#include "sampling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "random.h"
#include "tools/copy/failure.h"

#define LINE	64U
#define WINDOW	4096U /* bytes: in which the next line is looked for */
#define WINDOWS 64U   /* in flight */

struct window {
	struct io_request request;
	uint64_t offset;
	uint8_t *data;
};

struct sampling {
	struct sort_job *job;
	uint64_t begin, end;
	size_t window_bytes;
	struct afar_buffer *buffer;
	struct window windows[WINDOWS];
	struct sample *samples;
	size_t nr;
};

/* ---- Taking samples */

/* Where the `i`th sample is looked for. */
static uint64_t choose_offset(const struct sampling *sampling, uint64_t i)
{
	const uint64_t span = sampling->end - sampling->begin, nr = sampling->job->plan.nr_samples;
	const uint64_t unit = sampling->job->plan.is_lines ? 1 : SORT_RECORD_BYTES;
	uint64_t low = (uint64_t)((double)span / (double)nr * (double)i);
	uint64_t offset = low + random_at(sampling->begin, i) % (span / nr + 1);

	if (offset >= span)
		offset = span - 1;
	return sampling->begin + offset / unit * unit;
}

static int start_window(struct sampling *sampling, uint64_t i)
{
	struct window *window = &sampling->windows[i % WINDOWS];
	uint64_t left;

	window->offset = choose_offset(sampling, i);
	left = sampling->job->input.length - window->offset;
	return io_read(&sampling->job->io, &window->request, &sampling->job->input.end,
		       window->offset, sampling->buffer, window->data,
		       left < sampling->window_bytes ? left : sampling->window_bytes);
}

/* Takes the line behind the first line's end in the window, if enough of it is there. */
static void take_line(struct sampling *sampling, const struct window *window)
{
	const uint8_t *data = window->data, *end = data + window->request.iov.length, *newline,
		      *line;
	bool is_end = window->offset + window->request.iov.length == sampling->job->input.length;

	newline = memchr(data, '\n', (size_t)(end - data));
	line = newline ? newline + 1 : end;
	if (line == end)
		return;
	newline = memchr(line, '\n', (size_t)(end - line));
	if (!newline && !is_end && end - line <= (ptrdiff_t)SAMPLE_BYTES_MAX)
		return;
	sample_make(&sampling->samples[sampling->nr++], line,
		    (size_t)((newline ? newline : end) - line),
		    window->offset + (uint64_t)(line - data));
}

static void take(struct sampling *sampling, const struct window *window)
{
	if (sampling->job->plan.is_lines)
		take_line(sampling, window);
	else
		sample_make(&sampling->samples[sampling->nr++], window->data, SORT_RECORD_BYTES,
			    window->offset);
}

static int take_all(struct sampling *sampling)
{
	const uint64_t nr = sampling->job->plan.nr_samples;
	int ret = 0;

	for (uint64_t i = 0; i < nr + WINDOWS && !ret; i++) {
		struct window *window = &sampling->windows[i % WINDOWS];

		if (i >= WINDOWS && i - WINDOWS < nr) {
			ret = io_wait(&sampling->job->io, &window->request);
			if (!ret)
				take(sampling, window);
		}
		if (!ret && i < nr)
			ret = start_window(sampling, i);
	}
	return ret;
}

/* ---- Publishing */

static uint64_t place_of(const struct sort_job *job, unsigned worker)
{
	return job->layout.samples + worker * plan_samples_bytes(&job->plan);
}

static int write_samples(struct sampling *sampling)
{
	struct sort_job *job = sampling->job;
	uint64_t at = place_of(job, job->options.worker), nr = sampling->nr;
	struct io_request count, samples = {0};
	int ret = io_write(&job->io, &count, &job->team.meeting.end, at, NULL, &nr, sizeof(nr));

	if (!ret && nr)
		ret = io_write(&job->io, &samples, &job->team.meeting.end, at + LINE, NULL,
			       sampling->samples, nr * sizeof(*sampling->samples));
	if (!ret)
		ret = io_wait(&job->io, &count);
	if (!ret)
		ret = io_wait(&job->io, &samples);
	if (!ret)
		ret = io_flush(&job->io, &job->team.meeting.end);
	if (ret)
		io_drain(&job->io);
	return ret;
}

static int publish(struct sampling *sampling)
{
	int ret;

	sampling->samples = calloc(sampling->job->plan.nr_samples, sizeof(*sampling->samples));
	if (!sampling->samples ||
	    afar_buffer_alloc(sampling->job->session, WINDOWS * sampling->window_bytes,
			      &sampling->buffer))
		return app_fail(-ENOMEM, "sort %s: out of memory for the sample",
				sampling->job->options.input);
	for (unsigned i = 0; i < WINDOWS; i++)
		sampling->windows[i].data =
			(uint8_t *)afar_buffer_data(sampling->buffer) + i * sampling->window_bytes;
	ret = sampling->begin < sampling->end ? take_all(sampling) : 0;
	return ret ? ret : write_samples(sampling);
}

int sampling_publish(struct sort_job *job, uint64_t begin, uint64_t end)
{
	struct sampling sampling = {
		.job = job,
		.begin = begin,
		.end = end,
		.window_bytes = job->plan.is_lines ? WINDOW : SORT_RECORD_BYTES,
	};
	int ret = publish(&sampling);

	io_drain(&job->io);
	if (sampling.buffer)
		afar_buffer_unregister(sampling.buffer);
	free(sampling.samples);
	return ret;
}

/* ---- Collecting */

/* Reads one worker's samples. Returns 0, or a negative code. */
static int read_samples(struct sort_job *job, unsigned worker, struct sample *out, uint64_t *nr)
{
	uint64_t at = place_of(job, worker);
	struct io_request request;
	int ret = io_read(&job->io, &request, &job->team.meeting.end, at, NULL, nr, sizeof(*nr));

	if (!ret)
		ret = io_wait(&job->io, &request);
	if (!ret && *nr > job->plan.nr_samples)
		ret = app_fail(-EBADMSG, "sort %s: worker %u has published a sample that cannot be",
			       job->options.input, worker);
	if (!ret && *nr) {
		ret = io_read(&job->io, &request, &job->team.meeting.end, at + LINE, NULL, out,
			      *nr * sizeof(*out));
		if (!ret)
			ret = io_wait(&job->io, &request);
	}
	if (ret)
		io_drain(&job->io);
	return ret;
}

int sampling_collect(struct sort_job *job, struct splitters **out)
{
	struct sample *samples =
		calloc((size_t)job->plan.nr_workers * job->plan.nr_samples, sizeof(*samples));
	uint64_t nr, all = 0;
	int ret = 0;

	if (!samples)
		return app_fail(-ENOMEM, "sort %s: out of memory for the sample",
				job->options.input);
	for (unsigned i = 0; i < job->plan.nr_workers && !ret; i++) {
		ret = read_samples(job, i, samples + all, &nr);
		all += ret ? 0 : nr;
	}
	if (!ret) {
		ret = splitters_make(samples, all, job->plan.nr_buckets, out);
		if (ret)
			app_fail(ret, "sort %s: make splitters: %s", job->options.input,
				 afar_strerror(ret));
	}
	free(samples);
	return ret;
}
