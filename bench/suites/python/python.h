/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `python`. */
#ifndef BENCH_SUITE_PYTHON_H
#define BENCH_SUITE_PYTHON_H

#include "harness/harness.h"

#define KIB	     (UINT64_C(1) << 10)
#define MIB	     (UINT64_C(1) << 20)
#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))

extern const struct bench_stage python_calls_local_stage; /* python_calls.c */
extern const struct bench_stage python_calls_tcp_stage;
extern const struct bench_stage python_files_local_stage; /* python_files.c */
extern const struct bench_stage python_files_tcp_stage;
extern const struct bench_stage python_torch_dram_stage; /* python_torch.c */
extern const struct bench_stage python_torch_flash_stage;

#endif
