/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs peer_python.py for suite `python`, in the Python that the module was built for. */
#ifndef BENCH_PYTHON_H
#define BENCH_PYTHON_H

/* Returns NULL if the module was built, and Python has this one of others; otherwise why not, which is `missing` for the latter. */
const char *python_missing(const char *module, const char *missing);

/*
 * Runs it on the cluster, with up to three arguments; those from the first NULL on are none. `*value` is the number that it
 * prints. Returns 0, or a negative code after bench_fail().
 */
int python_run(const char *uri, const char *what, const char *const arguments[3], double *value);

#endif
