/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows on files start from this scene: a private cluster of one server, a session, a file system with a file, and memory. Each step
 * says what failed.
 */
#ifndef BENCH_FILE_SCENE_H
#define BENCH_FILE_SCENE_H

#include <stddef.h>

#include <afar/file.h>

#include "harness/cluster.h"
#include "harness/scene.h"

#define FILE_FS	  "files" /* its name */
#define FILE_NAME "file"

struct file_scene {
	struct cluster *cluster;
	struct scene scene; /* its session alone */
	struct afar_fs *fs;
	struct afar_file *file; /* to read and write */
	char *memory;
};

struct file_setting {
	const char *transport; /* NULL: tcp, and the files are on flash */
	uint64_t server_bytes, flash_bytes;
	uint64_t memory_bytes;
};

/* Makes a stage of `size` bytes, which begins with its struct file_scene; the rest is zeros. */
int file_scene_make(const struct file_setting *setting, size_t size, void **stage);
/* Ends what there is of a stage, and frees it. */
void file_scene_end(void *stage);
/* Gives a stage to the harness, or ends it because setting it up has failed. Returns `ret`. */
int file_scene_ready(int ret, void *stage, void (*end)(void *stage), void **out);

/* Makes and opens a file system in the session's cluster. */
int file_fs_open(struct afar_session *session, uint32_t tier, struct afar_fs **out);
/* Makes one in a cluster, in a session for that alone. */
int file_fs_make(const char *uri, uint32_t tier);
/* Opens it for another session. */
int file_fs_join(struct afar_session *session, struct afar_fs **out);
/* Makes a file in the root directory and opens it. */
int file_make(struct afar_fs *fs, const char *name, struct afar_file **out);

#endif
