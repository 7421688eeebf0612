/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between a stream of this machine and a far end, which is a region or a file of a file system. A few buffers are in
 * flight at once. The stream has its bytes in order; the calling thread reads or writes it.
 */
#ifndef TOOLS_COPY_COPY_H
#define TOOLS_COPY_COPY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ends.h"
#include "io.h"

#define COPY_SLOTS	8
#define COPY_SLOT_BYTES ((uint64_t)4 << 20)

struct copy {
	const struct copy_far *far;	     /* how its far end is used */
	struct io_request slots[COPY_SLOTS]; /* with results: how many bytes, or an error */
	unsigned nr_slots;		     /* fewer, if it has all in fewer */
	uint64_t slot_bytes;
	uint64_t length;   /* of the far end; UINT64_MAX: it ends where it ends */
	bool is_far_error; /* whose error it was that copy_in() or copy_out() returned */
	struct end end;	   /* the far one */

	/* A region. */
	struct io io;

	/* A file, which a thread of its own reads or writes. */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t nr_started, nr_done;
	bool is_ending;
	char said[512]; /* the library's line about what has failed there */

	/* Progress. */
	uint64_t started_ns, shown_ns;
	bool is_terminal, is_shown;
};

/* Get the buffers and reach the far end: `length` bytes of a region, with `flags` of its operations, or a file. `text` is its
 * name for people. Return 0, or an error with its line (failure.h) and nothing left to close. */
int copy_open_region(struct afar_session *session, struct afar_region *region, const char *text,
		     uint64_t length, uint32_t flags, struct copy *out);
int copy_open_file(struct afar_file *file, const char *text, struct copy *out);
/* Waits for what is in flight and frees everything. */
void copy_close(struct copy *copy);

/* Copy all from the descriptor, or to it. Return 0, -EINTR after a signal, -ENODATA if the descriptor ended early, or
 * another error. If is_far_error says so, it is the far end's and has its line. */
int copy_in(struct copy *copy, int fd);
int copy_out(struct copy *copy, int fd);

/* Writes "868.1 MiB in 0.62 s, 1.47 GB/s" into `out`. */
void copy_summary(const struct copy *copy, char *out, size_t size);

#endif
