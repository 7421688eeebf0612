/* SPDX-License-Identifier: BSD-3-Clause */
/* The line about what has failed, for whoever started the program to show. Each thread has one. */
#ifndef TOOLS_COPY_FAILURE_H
#define TOOLS_COPY_FAILURE_H

/* Keeps a line about a failure: what was asked, what is wrong, what to do. Returns `error`, a negative code. */
__attribute__((format(printf, 2, 3))) int app_fail(int error, const char *format, ...);
/* Does so with the library's own line behind `what`: "read in:put". */
int app_fail_last(int error, const char *what);
/* The line about the last failure, for people. */
const char *app_failure(void);

#endif
