/* SPDX-License-Identifier: BSD-3-Clause */
/* One line at a time, to whom it may concern: the starter's standard error; in the background, the
 * system's log. */
#ifndef FUSE_SAY_H
#define FUSE_SAY_H

#include <stdarg.h>

#define EXIT_FAILED 1
#define EXIT_USAGE  2

/* Writes "afar: TEXT". Return EXIT_FAILED and EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int say_failed(const char *format, ...);
__attribute__((format(printf, 1, 2))) int say_misuse(const char *format, ...);
/* Writes "afar: note: TEXT". */
__attribute__((format(printf, 1, 2))) void say_note(const char *format, ...);

/* From now on there is nobody at standard error. */
void say_to_log(void);

/* Keeps libfuse's own lines back, because ours say more. The last one is at say_kept(), "" if
 * there was none, until the session runs; then they are written as ours are. */
void say_keep(void);
const char *say_kept(void);
void say_keep_no_more(void);

#endif
