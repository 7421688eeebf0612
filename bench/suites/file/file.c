/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `file`: files through the library, against regions, single calls, a database, and NFS; files through mounts,
 * against other file systems. */
#include <fcntl.h>

#include "file.h"
#include "suites/sharing/sharing_opens.h"

int file_fs_join(struct afar_session *session, struct afar_fs **out)
{
	int ret = afar_fs_open(session, FILE_FS, NULL, out);

	return ret ? scene_fail("open the file system", ret) : 0;
}

int file_fs_open(struct afar_session *session, uint32_t tier, struct afar_fs **out)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy), .tier = tier},
	};
	int ret = afar_fs_create(session, FILE_FS, &policy, NULL);

	return ret ? scene_fail("make a file system", ret) : file_fs_join(session, out);
}

int file_fs_make(const char *uri, uint32_t tier)
{
	struct scene scene = {0};
	struct afar_fs *fs = NULL;
	int ret = scene_open(&scene, uri, 0);

	if (!ret)
		ret = file_fs_open(scene.session, tier, &fs);
	if (fs)
		afar_fs_close(fs);
	scene_close(&scene);
	return ret;
}

int file_make(struct afar_fs *fs, const char *name, struct afar_file **out)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_stat(fs, &stat);

	if (!ret)
		ret = afar_file_create(fs, NULL, stat.root, name, 0644, O_RDWR, out, NULL);
	return ret ? scene_fail("make a file", ret) : 0;
}

static const struct bench_stage *const stages[] = {
	&file_stream_local_stage,
	&file_stream_tcp_stage,
	&file_ahead_stage,
	&file_ahead_fuse_stage,
	&file_tiles_stage,
	&file_create_stage,
	&file_beside_stage,
	&file_holes_local_stage,
	&file_holes_tcp_stage,
	&sharing_opens_local_stage,
	&sharing_opens_tcp_stage,
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
	{.rows = "4 KiB into holes", .seconds = 3},
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
