/* SPDX-License-Identifier: BSD-3-Clause */
/* Computations call this: signs of life, supersteps, and what workers exchange; see job.h. */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/copy/failure.h"

#define PIECE_BYTES ((uint64_t)1 << 20)
#define PIECES	    8U

int job_live(struct graph_job *job)
{
	if (!job_is_alone(job))
		return team_live(&job->team);
	return job->options.is_ended && job->options.is_ended(job->options.context) ? -ECANCELED
										    : 0;
}

int job_sync(struct graph_job *job)
{
	return job_is_alone(job) ? job_live(job) : team_sync(&job->team);
}

int job_alloc(struct graph_job *job, uint64_t bytes, struct afar_buffer **out)
{
	int ret = afar_buffer_alloc(job->session, bytes, out);

	return ret ? app_fail(ret, "%s: no memory for %llu bytes", job->what,
			      (unsigned long long)bytes)
		   : 0;
}

/* Moves it in pieces, of which several are in flight. */
static int move(struct graph_job *job, bool is_write, uint64_t offset, struct afar_buffer *buffer,
		char *data, uint64_t bytes)
{
	struct io_request requests[PIECES] = {0};
	uint64_t done = 0;
	int ret = 0;

	for (unsigned i = 0; done < bytes && !ret; i = (i + 1) % PIECES) {
		uint64_t length = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;

		ret = io_wait(&job->io, &requests[i]);
		if (!ret && is_write)
			ret = io_write(&job->io, &requests[i], &job->team.exchange.end,
				       offset + done, buffer, data + done, length);
		else if (!ret)
			ret = io_read(&job->io, &requests[i], &job->team.exchange.end,
				      offset + done, buffer, data + done, length);
		done += length;
		if (!ret)
			ret = job_live(job);
	}
	for (unsigned i = 0; i < PIECES && !ret; i++)
		ret = io_wait(&job->io, &requests[i]);
	if (ret)
		io_drain(&job->io); /* the requests are on this stack */
	return ret;
}

int job_put(struct graph_job *job, uint64_t offset, struct afar_buffer *buffer, const void *data,
	    uint64_t bytes)
{
	return move(job, true, offset, buffer, (char *)(uintptr_t)data, bytes);
}

int job_get(struct graph_job *job, uint64_t offset, struct afar_buffer *buffer, void *data,
	    uint64_t bytes)
{
	return move(job, false, offset, buffer, data, bytes);
}

int job_flush(struct graph_job *job)
{
	return io_flush(&job->io, &job->team.exchange.end);
}

int job_collect(struct graph_job *job, struct afar_buffer *buffer)
{
	uint64_t *results = afar_buffer_data(buffer);
	uint64_t at = job->mail.results;
	int ret = 0;

	if (job_is_alone(job))
		return 0;
	if (job->options.worker != 0)
		ret = job_put(job, at + 8 * job->first, buffer, results + job->first,
			      8 * (job->end - job->first));
	if (!ret)
		ret = job_flush(job);
	if (!ret)
		ret = job_sync(job);
	if (!ret && job->options.worker == 0) /* whose vertices are the first */
		ret = job_get(job, at + 8 * job->end, buffer, results + job->end,
			      8 * (job->nr_vertices - job->end));
	return ret;
}
