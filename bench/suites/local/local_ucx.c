/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `local` that compare small operations with those of UCX over POSIX shared memory. Without UCX ours
 * are measured alone. The last stage: UCX puts hooks of its own into the process that loads it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/transfer.h"
#include "local.h"
#include "peers/ucx.h"

#define KIB	      (UINT64_C(1) << 10)
#define LATENCY_NR    UINT64_C(131072)
#define FETCH_ADD_NR  UINT64_C(8192)
#define UCX_BAR	      2
#define NOT_INSTALLED "not measured: UCX is not installed"

struct ucx_stage {
	struct transfer_stage ours; /* first: the row functions of transfer.h take it */
	struct ucx *ucx;
};

static int run_ucx(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct ucx_stage *state = stage;
	uint64_t elapsed_ns;
	int ret = ucx_run(state->ucx, row->parameters, &elapsed_ns);

	(void)repetition;
	if (!ret)
		*value = transfer_value(row, elapsed_ns);
	return ret;
}

static int run_ucx_fetch_add(void *stage, const struct bench_row *row, unsigned repetition,
			     double *value)
{
	const struct ucx_stage *state = stage;
	uint64_t elapsed_ns;
	int ret = ucx_run_fetch_add(state->ucx, FETCH_ADD_NR, &elapsed_ns);

	(void)repetition;
	(void)row;
	if (!ret)
		*value = (double)elapsed_ns / (double)FETCH_ADD_NR / 1e3;
	return ret;
}

static int run_fetch_add(void *stage, const struct bench_row *row, unsigned repetition,
			 double *value)
{
	const struct ucx_stage *state = stage;
	uint64_t begin = clock_ns();

	(void)repetition;
	for (uint64_t i = 0; i < FETCH_ADD_NR; i++) {
		int ret = afar_region_fetch_add(state->ours.scene.region, 0, 1, NULL);

		if (ret)
			return scene_fail(row->name, ret);
	}
	*value = (double)(clock_ns() - begin) / (double)FETCH_ADD_NR / 1e3;
	return 0;
}

#define UCX_GET "UCX over POSIX shared memory: ucp_get_nbx, same sizes and walk"
#define UCX_PUT "UCX over POSIX shared memory: ucp_put_nbx without a flush, same sizes and walk"
#define UCX_ADD "UCX over POSIX shared memory: ucp_atomic_op_nbx, an instruction on the memory"

/* Not constant: they lose their references where there is no UCX. */
static struct bench_row rows[] = {
	{"read 64 B / UCX", "µs", BENCH_LOWER, UCX_GET, UCX_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, false, 64), transfer_run_mapping, run_ucx},
	{"read 4 KiB / UCX", "µs", BENCH_LOWER, UCX_GET, UCX_BAR,
	 TRANSFER_LATENCY(LATENCY_NR, false, 4 * KIB), transfer_run_mapping, run_ucx},
	{"write 64 B / UCX", "µs", BENCH_LOWER, UCX_PUT, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, true, 64), transfer_run_mapping, run_ucx},
	{"write 4 KiB / UCX", "µs", BENCH_LOWER, UCX_PUT, BENCH_REPORTED,
	 TRANSFER_LATENCY(LATENCY_NR, true, 4 * KIB), transfer_run_mapping, run_ucx},
	{"fetch-add / UCX", "µs", BENCH_LOWER, UCX_ADD, UCX_BAR, NULL, run_fetch_add,
	 run_ucx_fetch_add},
};

static void drop_references(void)
{
	for (unsigned i = 0; i < NR_ROWS(rows); i++) {
		rows[i].reference_is = NOT_INSTALLED;
		rows[i].bar = BENCH_REPORTED;
		rows[i].run_reference = NULL;
	}
}

static void teardown(void *stage)
{
	struct ucx_stage *state = stage;

	transfer_close_ours(&state->ours);
	ucx_close(state->ucx);
	free(state);
}

static int setup(void **stage)
{
	struct ucx_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = ucx_open(TRANSFER_WINDOW, &state->ucx);
	if (ret == -ENOENT) {
		drop_references();
		ret = 0;
	}
	if (!ret)
		ret = transfer_open_ours(&state->ours, "local", 0);
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

const struct bench_stage local_ucx_stage = {setup, teardown, rows, NR_ROWS(rows)};
