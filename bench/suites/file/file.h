/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the stages of suite `file` share. */
#ifndef BENCH_FILE_H
#define BENCH_FILE_H

#include "harness/file_scene.h"
#include "harness/harness.h"

#define KIB	     (UINT64_C(1) << 10)
#define MIB	     (UINT64_C(1) << 20)
#define NR_ROWS(row) ((unsigned)(sizeof(row) / sizeof((row)[0])))

extern const struct bench_stage file_stream_local_stage; /* file_stream.c */
extern const struct bench_stage file_stream_tcp_stage;
extern const struct bench_stage file_tiles_stage;	     /* file_tiles.c */
extern const struct bench_stage file_create_stage;	     /* file_create.c */
extern const struct bench_stage file_beside_stage;	     /* file_beside.c */
extern const struct bench_stage file_fuse_dram_cached_stage; /* file_fuse_stream.c */
extern const struct bench_stage file_fuse_dram_direct_stage;
extern const struct bench_stage file_fuse_flash_cached_stage;
extern const struct bench_stage file_fuse_flash_direct_stage;
extern const struct bench_stage file_fuse_hot_stage;	  /* file_fuse_hot.c */
extern const struct bench_stage file_names_dirsync_stage; /* file_names.c */
extern const struct bench_stage file_names_plain_stage;
extern const struct bench_stage file_names_ganesha_stage;
extern const struct bench_stage file_names_gluster_stage;
extern const struct bench_stage file_cpu_local_stage; /* file_network.c */
extern const struct bench_stage file_cpu_tcp_stage;
extern const struct bench_stage file_zipf_stage;
extern const struct bench_stage file_servers_1_stage; /* file_servers.c */
extern const struct bench_stage file_servers_2_stage;
extern const struct bench_stage file_servers_4_stage;

#endif
