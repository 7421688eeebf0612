/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a part of a place from its beginning to its end, with several large reads in flight, and hands out its items. */
#ifndef APPS_SORT_INPUT_H
#define APPS_SORT_INPUT_H

#include "place.h"
#include "tools/copy/io.h"

/* Takes one item, which is at `position` in the place; a line comes without its end. Returns 0, or a negative code that
 * ends the reading. The memory is the reader's. */
typedef int input_taker(void *context, const uint8_t *item, size_t length, uint64_t position);

struct input {
	struct io *io;
	const struct place *place;
	bool is_lines;
	/* Items that begin in [begin, end) belong to the part. For records these are multiples of their length. */
	uint64_t begin, end;
	input_taker *take;
	/* Called after each piece with how many bytes of the part have been read. Returns 0, or what ends the reading. */
	int (*note)(void *context, uint64_t done);
	void *context;
	uint64_t wait_ns; /* set: time spent in waiting for reads, and in those */
};

/* Hands out all items of the part. Returns 0, or a negative code with a line. */
int input_read(struct afar_session *session, struct input *input);

/* Returns where the `worker`th of `nr_workers` equal parts of a place begins; that of nr_workers is its end. */
uint64_t input_share(uint64_t length, bool is_lines, unsigned worker, unsigned nr_workers);

#endif
