/* SPDX-License-Identifier: BSD-3-Clause */
/* Child processes of tests. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <sys/types.h>

/*
 * fork(), but the kernel kills the child when the thread that called this ends. So a test that
 * fails or is ended leaves no child behind, not even a stopped one.
 */
pid_t fork_child(void);

#endif
