/* SPDX-License-Identifier: BSD-3-Clause */
/* See file_scene.h. */
#include "file_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define ALIGNMENT 4096U

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

/* ---- Stages */

static int set_up(const struct file_setting *setting, struct file_scene *at)
{
	const bool is_flash = !setting->transport;
	int ret;

	at->memory = aligned_alloc(ALIGNMENT, setting->memory_bytes);
	if (!at->memory)
		return bench_fail(-ENOMEM, "no memory for the suite");
	memset(at->memory, 0x5A, setting->memory_bytes);
	ret = is_flash ? cluster_start_flash(1, setting->server_bytes, setting->flash_bytes,
					     &at->cluster)
		       : cluster_start_over(setting->transport, 1, setting->server_bytes,
					    &at->cluster);
	if (!ret)
		ret = scene_open(&at->scene, cluster_uri(at->cluster), 0);
	if (!ret)
		ret = file_fs_open(at->scene.session, is_flash ? AFAR_TIER_FLASH : AFAR_TIER_DRAM,
				   &at->fs);
	return ret ? ret : file_make(at->fs, FILE_NAME, &at->file);
}

int file_scene_make(const struct file_setting *setting, size_t size, void **stage)
{
	int ret;

	*stage = calloc(1, size);
	if (!*stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = set_up(setting, *stage);
	if (ret) {
		file_scene_end(*stage);
		*stage = NULL;
	}
	return ret;
}

void file_scene_end(void *stage)
{
	struct file_scene *at = stage;

	if (at->file)
		afar_file_close(at->file);
	if (at->fs)
		afar_fs_close(at->fs);
	scene_close(&at->scene);
	cluster_stop(at->cluster);
	free(at->memory);
	free(at);
}

int file_scene_ready(int ret, void *stage, void (*end)(void *stage), void **out)
{
	if (ret && stage)
		end(stage);
	*out = ret ? NULL : stage;
	return ret;
}
