/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for ucx.c where there is no UCX to build with. */
#include "ucx.h"

#include <errno.h>

int ucx_open(size_t bytes, struct ucx **out)
{
	(void)bytes;
	(void)out;
	return -ENOENT;
}

void ucx_close(struct ucx *ucx)
{
	(void)ucx;
}

int ucx_run(struct ucx *ucx, const struct transfer *transfer, uint64_t *elapsed_ns)
{
	(void)ucx;
	(void)transfer;
	(void)elapsed_ns;
	return -ENOENT;
}

int ucx_run_fetch_add(struct ucx *ucx, uint64_t nr, uint64_t *elapsed_ns)
{
	(void)ucx;
	(void)nr;
	(void)elapsed_ns;
	return -ENOENT;
}
