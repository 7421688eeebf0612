/* SPDX-License-Identifier: BSD-3-Clause */
/* Child processes of tests; see child.h. */
#include "lib/base/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t fork_child(void)
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
