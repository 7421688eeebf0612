/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests in flight; see io.h. Called by the rooms that move items; owns the queue. */
#include "io.h"

#include <errno.h>
#include <stdio.h>

#include "failure.h"

#define SLICE_MS    200 /* after so long, a wait asks whether the job is to end */
#define REPEATS_MAX 3
#define REAPED_MAX  64
#define BATCH_MAX   32U

int io_open(struct io *io, struct afar_session *session, bool (*is_ended)(void *context),
	    void *context)
{
	const struct afar_queue_options options = {.size = sizeof(options), .depth = IO_DEPTH};
	int ret;

	*io = (struct io){.is_ended = is_ended, .context = context};
	ret = afar_queue_open(session, &options, &io->queue);
	return ret ? app_fail_last(ret, "open a queue") : 0;
}

int io_connect(struct io *io, const struct end *end)
{
	int ret = end->region ? afar_queue_connect(io->queue, afar_region_target(end->region)) : 0;

	return ret ? app_fail_last(ret, end->text) : 0;
}

/* Takes completions, and waits up to `timeout_ms` for `min` of them. */
static int reap(struct io *io, unsigned min, int timeout_ms)
{
	struct afar_completion completions[REAPED_MAX];
	int n = afar_queue_wait(io->queue, completions, REAPED_MAX, min, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct io_request *request =
			(struct io_request *)(uintptr_t)completions[i].user_data;

		request->result = completions[i].result;
		request->is_busy = false;
		io->nr_busy--;
	}
	return n < 0 && n != -EINTR ? app_fail_last(n, "wait for transfers") : 0;
}

static int await_some(struct io *io)
{
	if (io->is_ended && io->is_ended(io->context))
		return -ECANCELED;
	return reap(io, 1, SLICE_MS);
}

int io_look(struct io *io)
{
	return io->nr_busy ? reap(io, 0, 0) : 0;
}

void io_drain(struct io *io)
{
	while (io->nr_busy && reap(io, 1, -1) == 0)
		;
}

void io_close(struct io *io)
{
	io_drain(io);
	if (io->queue)
		afar_queue_close(io->queue);
	io->queue = NULL;
}

/* ---- Files */

static int64_t move_file(const struct io_request *request)
{
	const struct end *end = request->end;
	const struct afar_iov *iov = &request->iov;
	ssize_t n;

	if (request->opcode == AFAR_OP_WRITE)
		return end_local.write(end, iov->addr, iov->length, request->offset);
	n = end_local.read(end, iov->addr, iov->length, request->offset);
	return n >= 0 && (size_t)n < iov->length ? -EIO : n; /* shorter than it was */
}

/* ---- Regions */

static struct afar_op op_of(const struct io *io, struct io_request *request)
{
	const bool has_data = request->opcode != AFAR_OP_FLUSH;

	return (struct afar_op){
		.opcode = request->opcode,
		.flags = has_data ? io->flags : 0,
		.nr_iov = has_data ? 1 : 0,
		.target = afar_region_target(request->end->region),
		.offset = request->offset,
		.iov = has_data ? &request->iov : NULL,
		.user_data = (uintptr_t)request,
	};
}

/* Submits up to BATCH_MAX requests in one call. Returns how many, or an error. */
static int submit_some(struct io *io, struct io_request *requests, unsigned nr)
{
	struct afar_op ops[BATCH_MAX];
	int taken, ret;

	nr = nr < BATCH_MAX ? nr : BATCH_MAX;
	for (unsigned i = 0; i < nr; i++)
		ops[i] = op_of(io, &requests[i]);
	while ((taken = afar_queue_submit(io->queue, ops, nr)) == 0) {
		ret = await_some(io); /* the queue is full */
		if (ret)
			return ret;
	}
	if (taken < 0)
		return app_fail_last(taken, requests->end->text);
	for (int i = 0; i < taken; i++)
		requests[i].is_busy = true;
	io->nr_busy += (unsigned)taken;
	return taken;
}

static int submit(struct io *io, struct io_request *request)
{
	int ret = submit_some(io, request, 1);

	return ret < 0 ? ret : 0;
}

int io_read_all(struct io *io, struct io_request *requests, unsigned nr)
{
	int taken;

	for (unsigned i = 0; i < nr; i++) {
		requests[i].opcode = AFAR_OP_READ;
		requests[i].nr_repeats = 0;
		requests[i].is_busy = false;
		requests[i].result = 0;
	}
	for (unsigned done = 0; done < nr; done += (unsigned)taken) {
		taken = submit_some(io, requests + done, nr - done);
		if (taken < 0)
			return taken;
	}
	return 0;
}

static int start(struct io *io, struct io_request *request)
{
	request->nr_repeats = 0;
	if (request->end->region)
		return submit(io, request);
	request->result = move_file(request);
	return 0;
}

int io_read(struct io *io, struct io_request *request, const struct end *end, uint64_t offset,
	    struct afar_buffer *buffer, void *data, size_t length)
{
	*request = (struct io_request){.end = end,
				       .opcode = AFAR_OP_READ,
				       .offset = offset,
				       .iov = {buffer, data, length}};
	return start(io, request);
}

int io_write(struct io *io, struct io_request *request, const struct end *end, uint64_t offset,
	     struct afar_buffer *buffer, void *data, size_t length)
{
	*request = (struct io_request){.end = end,
				       .opcode = AFAR_OP_WRITE,
				       .offset = offset,
				       .iov = {buffer, data, length}};
	return start(io, request);
}

static int fail(struct io *io, const struct io_request *request)
{
	const struct afar_completion done = {.user_data = (uintptr_t)request,
					     .result = request->result};

	if (!request->end->region)
		return app_fail((int)request->result, "%s %s: %s",
				request->opcode == AFAR_OP_READ ? "read" : "write",
				request->end->text, afar_strerror((int)request->result));
	return app_fail_last(afar_queue_explain(io->queue, &done), request->end->text);
}

/* A server closes connections when memory that they could reach becomes another's. These operations may be repeated,
 * because nobody else writes where they write. */
static bool is_worth_repeating(const struct io_request *request)
{
	return request->end->region && request->nr_repeats < REPEATS_MAX &&
	       (request->result == -AFAR_ESERVER || request->result == -ENOTCONN ||
		request->result == -ECANCELED);
}

int io_wait(struct io *io, struct io_request *request)
{
	int ret;

	for (;;) {
		while (request->is_busy) {
			ret = await_some(io);
			if (ret)
				return ret;
		}
		if (request->result >= 0)
			return 0;
		if (!is_worth_repeating(request))
			return fail(io, request);
		request->nr_repeats++;
		ret = io_connect(io, request->end);
		if (!ret)
			ret = submit(io, request);
		if (ret)
			return ret;
	}
}

int io_flush(struct io *io, const struct end *end)
{
	struct io_request request = {.end = end, .opcode = AFAR_OP_FLUSH};
	int ret;

	if (!end->region)
		return 0;
	ret = submit(io, &request);
	if (!ret)
		ret = io_wait(io, &request);
	if (ret)
		io_drain(io); /* the request is on this stack */
	return ret;
}
