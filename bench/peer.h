/* SPDX-License-Identifier: BSD-3-Clause */
/* Other people's programs that suite `peers` runs: each in a process group of its own, with a folder that goes with it. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer {
	pid_t pid; /* 0: none runs */
	char folder[48];
};

/* Whether $PATH has the program. */
bool peer_is_installed(const char *program);

/* Makes the folder, in /tmp, before the program: what it is told may name it. */
int peer_open(struct peer *peer);
/*
 * Runs `arguments`, the first of which $PATH has, with "NAME=VALUE" of `environment` (both end with NULL) beside this
 * process's own. What it says goes to a file `log` in the folder. It is ended with this process.
 */
int peer_run(struct peer *peer, const char *const *arguments, const char *const *environment);
/* Whether it still runs. */
bool peer_is_alive(struct peer *peer);
/* Says what it did not do, with the last line that it said itself; returns `status`. */
int peer_fail(const struct peer *peer, const char *what, int status);
/* Ends it, by SIGTERM first, and removes the folder. Takes what there is. */
void peer_close(struct peer *peer);

#endif
