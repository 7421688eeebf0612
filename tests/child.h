/* SPDX-License-Identifier: BSD-3-Clause */
/* Child processes of tests. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * fork(), but the kernel kills the child when the thread that called this ends. So a test that fails or is
 * ended leaves no child behind, not even a stopped one.
 */
static inline pid_t fork_child(void)
{
	const pid_t parent = getpid();
	const pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(127);
	}
	return child;
}

#endif
