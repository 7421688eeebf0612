/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference for access to another process's memory: UCX over POSIX shared memory, with nothing
 * in between. UCX is loaded when it is first needed, because only these rows want it.
 */
#ifndef BENCH_UCX_H
#define BENCH_UCX_H

#include <stddef.h>
#include <stdint.h>

#include "raw_fabric.h"

struct ucx; /* an initiator in this process, connected to a target in a child */

/*
 * Forks the target, which lends `bytes`, connects to it, and checks that bytes written are the
 * bytes read. Call it before there are threads in this process. -ENOENT, and nothing is said: UCX
 * is not installed, or was not when this was built.
 */
int ucx_open(size_t bytes, struct ucx **out);
/* NULL is allowed. */
void ucx_close(struct ucx *ucx);

/* Does `transfer`, one operation after another. `*elapsed_ns` gets the time that it took. A write
 * is done when UCX says so, without a flush. */
int ucx_run(struct ucx *ucx, const struct transfer *transfer, uint64_t *elapsed_ns);

/* Adds 1 to the first word, `nr` times, and gets the old word each time. */
int ucx_run_fetch_add(struct ucx *ucx, uint64_t nr, uint64_t *elapsed_ns);

#endif
