/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the regular file that a layer is created on. */
#ifndef FLASH_FILE_H
#define FLASH_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct flash_file_options {
	/*
	 * Allocates no blocks now: the file system does when they are first written, and may have
	 * none left by then. Without this option the file system allocates all blocks, and each is
	 * written once. Otherwise the first write of each would take several times as long, because
	 * file systems note it in their journals.
	 */
	bool is_sparse;
	/* NULL, or called while the file is written, with the bytes written so far. False: stop. */
	bool (*progress)(void *context, uint64_t written);
	void *context;
};

/*
 * Makes a file of `size` bytes, a multiple of 4096, all zeros. When this returns the file survives
 * the loss of power. NULL options: none is set. Blocks.
 *
 * Returns 0. On an error no file is left, and error_last_line() has the reason. -EEXIST: something
 * is at `path`; -ENOSPC; -EINVAL: `size`; -ECANCELED: `progress` returned false; -ENOMEM; the
 * errors of open(), fallocate(), ftruncate(), write() and fsync().
 */
int flash_file_create(const char *path, uint64_t size, const struct flash_file_options *options);

/* Gives the file another name in its folder, durably. Replaces one that has it. Errors, with a
 * sentence: those of rename(2) and fsync(2). */
int flash_file_rename(const char *path, const char *name);

#endif
