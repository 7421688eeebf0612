/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs other people's programs for suites `peers` and `file`: each in a process group of its own, with a folder
 * that goes with it. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
	pid_t pid; /* 0: none runs */
	char folder[48];
};

/* True if $PATH has the program. */
bool peer_is_installed(const char *program);

/* Finds a peer that was built with this program, and stays where it was built. -ENOENT: it was not. */
int peer_find_built(const char *name, char out[PATH_MAX]);

/* Finds a free port of 127.0.0.1, for programs that cannot be told to take any port and to say which. */
int peer_find_port(uint16_t *port);

/* Makes the folder, in /tmp. It is there before the program runs, so the program's arguments may
 * name it. */
int peer_open(struct peer *peer);
/*
 * Runs the program `arguments[0]`, which $PATH has, with `arguments` and with "NAME=VALUE" of
 * `environment` beside this process's own. Both lists end with NULL. Its output goes to a file
 * `log` in the folder. It ends with this process.
 */
int peer_run(struct peer *peer, const char *const *arguments, const char *const *environment);
/* True if it still runs. */
bool peer_is_alive(struct peer *peer);
/* Says what the program did not do, with the last line of its output. Returns `status`. */
int peer_fail(const struct peer *peer, const char *what, int status);
/* Ends the program, by SIGTERM first, if it runs. The folder stays. */
void peer_stop(struct peer *peer);
/* Ends the program, by SIGTERM first, and removes the folder, as far as they are there. */
void peer_close(struct peer *peer);

#endif
