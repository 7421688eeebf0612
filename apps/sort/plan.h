/* SPDX-License-Identifier: BSD-3-Clause */
/* How a sort is divided. */
#ifndef APPS_SORT_PLAN_H
#define APPS_SORT_PLAN_H

#include "job.h"

/* Divides the work. Returns 0, or -EFBIG with a line. */
int plan_make(uint64_t input_bytes, uint64_t output_bytes, bool is_lines, unsigned nr_workers,
	      uint64_t bucket_bytes, struct plan *out);
/* Checks a plan that worker 0 has sent, for an input that has `input_bytes` here. */
int plan_check(const struct plan *plan, const struct sort_options *options, uint64_t input_bytes);
/* Bytes of all chunks. */
uint64_t plan_exchange_bytes(const struct plan *plan);
/* Bytes of one worker's samples in the region. */
uint64_t plan_samples_bytes(const struct plan *plan);
/* About how much memory of its own a worker takes. */
uint64_t plan_worker_bytes(const struct plan *plan);

#endif
