/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that a suite runs to their end: `afar` itself, and others' that are measured beside it. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <limits.h>
#include <stddef.h>

#define PROGRAM_AFAR "afar" /* the one that was built with this program */

/* Finds a program's path: PROGRAM_AFAR's, and otherwise the name alone, for PATH. */
void program_find(const char *name, char out[PATH_MAX]);

/*
 * Runs a program to its end, found in PATH unless it is PROGRAM_AFAR; the list of its arguments ends with NULL. `said` gets what it says on standard
 * output, as far as that fits; NULL: nobody wants it. `*seconds` is how long it took, from its start to its end; NULL: likewise.
 * If the user interrupts, it ends the program and whatever that has started, and returns -EINTR.
 */
int program_run(const char *const *arguments, char *said, size_t size, double *seconds);

#endif
