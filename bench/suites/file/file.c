/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `file`: files through the library, against regions, single calls, a database, and NFS; files through mounts,
 * against other file systems. */
#include "file.h"

static const struct bench_stage *const stages[] = {
	&file_stream_local_stage,
	&file_stream_tcp_stage,
	&file_tiles_stage,
	&file_create_stage,
	&file_beside_stage,
	&file_fuse_dram_cached_stage,
	&file_fuse_dram_direct_stage,
	&file_fuse_flash_cached_stage,
	&file_fuse_flash_direct_stage,
	&file_fuse_hot_stage,
	&file_names_dirsync_stage,
	&file_names_plain_stage,
	&file_names_ganesha_stage,
	&file_names_gluster_stage,
	&file_cpu_local_stage,
	&file_cpu_tcp_stage,
	&file_zipf_stage,
	&file_servers_1_stage,
	&file_servers_2_stage,
	&file_servers_4_stage,
};

static const struct bench_pace paces[] = {
	{.rows = "durable creates, 8 clients", .seconds = 6},
	{.rows = "beside", .seconds = 4},
	{.rows = "fuse cached, flash", .seconds = 8},
	{.rows = "fuse direct, flash", .seconds = 6},
	{.rows = ", fuse ", .seconds = 4},
	{.rows = "again, fuse", .seconds = 5},
	{.rows = "4 KiB files", .seconds = 7},
	{.rows = " server", .seconds = 3},
	{.rows = "CPU", .seconds = 5},
	{.rows = "Zipf", .seconds = 5},
	{.rows = "", .seconds = 0.7},
};

const struct bench_suite bench_suite_file = {
	.name = "file",
	.summary = "files: against regions and LMDB; mounts against passthrough, NFS and "
		   "GlusterFS; several servers",
	.repetitions = 3,
	.paces = paces,
	.nr_paces = NR_ROWS(paces),
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
