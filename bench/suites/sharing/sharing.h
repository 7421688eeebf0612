/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `sharing`. */
#ifndef BENCH_SHARING_H
#define BENCH_SHARING_H

#include "harness/file_scene.h"
#include "harness/harness.h"

#define KIB	     (UINT64_C(1) << 10)
#define MIB	     (UINT64_C(1) << 20)
#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))

extern const struct bench_stage sharing_holes_local_stage; /* sharing_holes.c */
extern const struct bench_stage sharing_holes_tcp_stage;
extern const struct bench_stage sharing_holes_flash_stage;
extern const struct bench_stage sharing_opens_local_stage; /* sharing_opens.c */
extern const struct bench_stage sharing_opens_tcp_stage;
extern const struct bench_stage sharing_cached_tcp_stage; /* sharing_cached.c */
extern const struct bench_stage sharing_cached_flash_stage;
extern const struct bench_stage sharing_ahead_stage; /* sharing_ahead.c */
extern const struct bench_stage sharing_ahead_fuse_stage;
extern const struct bench_stage sharing_postmark_dirsync_stage; /* sharing_postmark.c */
extern const struct bench_stage sharing_postmark_ganesha_stage;

#endif
