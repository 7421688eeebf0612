/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for what one process does to the memory of another: UCX over POSIX shared memory, with nothing
 * in between. It is loaded when it is first needed, as nothing but this row wants it.
 */
#ifndef BENCH_UCX_H
#define BENCH_UCX_H

#include <stddef.h>
#include <stdint.h>

#include "raw_fabric.h"

struct ucx; /* an initiator in this process, connected to a target in a child */

/*
 * Forks the target, which lends `bytes`, connects to it, and checks that bytes written are the bytes read. Must come
 * before there are threads in this process. -ENOENT, without a word: UCX is not installed, or was not when this was
 * built.
 */
int ucx_open(size_t bytes, struct ucx **out);
/* NULL is allowed. */
void ucx_close(struct ucx *ucx);

/* Does `transfer`, one operation after another; the time it took goes to `*elapsed_ns`. A write is done when UCX
 * says so, without a flush. */
int ucx_run(struct ucx *ucx, const struct transfer *transfer, uint64_t *elapsed_ns);

/* Adds 1 to the first word, `nr` times, and gets each time what it was. */
int ucx_run_fetch_add(struct ucx *ucx, uint64_t nr, uint64_t *elapsed_ns);

#endif
