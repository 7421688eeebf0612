/* SPDX-License-Identifier: BSD-3-Clause */
/* Seams of test_files_meanwhile.c that other groups of its program use. */
#ifndef TESTS_CLIENT_MEANWHILE_H
#define TESTS_CLIENT_MEANWHILE_H

#include "client/files/inode/fs_call.h"

/* Is called instead of fs_hold_one(). NULL: that is. */
extern int (*answer_hold)(const Afar__FileHold *operation, struct fs_answer *out);

#endif
