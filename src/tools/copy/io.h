/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many reads and writes in flight, over one queue: start a request, go on with other work, wait for it. An operation
 * whose connection was lost is repeated over a new one. Requests on local files are carried out where they are started.
 * A call that returns an error leaves a line: see failure.h.
 */
#ifndef TOOLS_COPY_IO_H
#define TOOLS_COPY_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/afar.h>

#include "ends.h"

#define IO_DEPTH 256U

struct io {
	struct afar_queue *queue;
	uint32_t flags;	  /* of all operations: AFAR_OP_… */
	unsigned nr_busy; /* submitted and not reaped */
	bool (*is_ended)(void *context);
	void *context;
};

/* One read or write. It and its memory stay in place while it is busy. */
struct io_request {
	const struct end *end;
	uint16_t opcode; /* AFAR_OP_READ, AFAR_OP_WRITE, AFAR_OP_FLUSH */
	bool is_busy;
	uint8_t nr_repeats;
	uint64_t offset;
	struct afar_iov iov;
	int64_t result; /* once it is not busy */
};

/* `is_ended` is asked while waiting. */
int io_open(struct io *io, struct afar_session *session, bool (*is_ended)(void *context),
	    void *context);
/* Waits for what is in flight. Does nothing if it is not open. */
void io_close(struct io *io);
/* Waits for all that is in flight, however it ends: its memory may be freed then. */
void io_drain(struct io *io);
/* Connects the queue to the servers of a region, which is needed before its first request. */
int io_connect(struct io *io, const struct end *end);

/* Start a read or write of `length` bytes. They wait for room in the queue. */
int io_read(struct io *io, struct io_request *request, const struct end *end, uint64_t offset,
	    struct afar_buffer *buffer, void *data, size_t length);
int io_write(struct io *io, struct io_request *request, const struct end *end, uint64_t offset,
	     struct afar_buffer *buffer, void *data, size_t length);
/* Starts `nr` reads that were filled in so far as these are: end, offset, iov. They go out together. */
int io_read_all(struct io *io, struct io_request *requests, unsigned nr);
/* Notes which requests are complete, without waiting. */
int io_look(struct io *io);
/* Waits for the request. Returns 0; -ECANCELED if the job is to end; or why it failed, with a line. A request that was
 * never started has succeeded. */
int io_wait(struct io *io, struct io_request *request);
/* Waits until all writes to the region that were started here are complete, and everybody sees them. */
int io_flush(struct io *io, const struct end *end);

#endif
