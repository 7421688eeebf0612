/* SPDX-License-Identifier: BSD-3-Clause */
/* Other programs and plugins that were built or installed with this one. */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/*
 * Finds the file `name` in the folders `places`, which NULL ends: absolute, relative to this program's, or empty. `mode` is
 * access(2)'s. Returns whether it is there; otherwise `out` is the bare name, for PATH.
 */
bool program_find(const char *name, int mode, const char *const *places, char out[PATH_MAX]);

/* Finds afard, which a user's PATH need not have. */
void program_find_daemon(char out[PATH_MAX]);

#endif
