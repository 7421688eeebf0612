/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager's promise that nobody else writes an inode, for who reads ahead; programs have afar_fs_quiet_since(). */
#ifndef CLIENT_FS_QUIET_H
#define CLIENT_FS_QUIET_H

#include <stdint.h>

struct afar_fs;

/* Asks for the promise if it is not there or will not last, for so long at most. Returns the number of afar_fs_quiet_since(). */
uint64_t fs_promise_quiet(struct afar_fs *fs, uint64_t ino, int timeout_ms);

#endif
