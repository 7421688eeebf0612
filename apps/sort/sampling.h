/* SPDX-License-Identifier: BSD-3-Clause */
/* The sample: each worker publishes items from all over its share, and makes the same splitters of those of all. */
#ifndef APPS_SORT_SAMPLING_H
#define APPS_SORT_SAMPLING_H

#include "job.h"
#include "splitters.h"

/* Publishes a sample of [begin, end) of the input. Everybody sees it when this has returned 0. */
int sampling_publish(struct sort_job *job, uint64_t begin, uint64_t end);
/* Makes splitters of all samples, once all are published. */
int sampling_collect(struct sort_job *job, struct splitters **out);

#endif
