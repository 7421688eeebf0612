/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing with a sentence. error_fail() keeps one line about the calling thread's last failure, for
 * afar_last_error(), for the `message` of a reply, and for a daemon's log.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <afar/error.h>

/*
 * Remembers the line "what was asked: what is wrong; what to do" for the calling thread and returns
 * `code` (negative). Long lines are cut; newlines and control characters (a peer may have sent them)
 * become '?'.
 */
__attribute__((format(printf, 2, 3), cold)) int error_fail(int code, const char *format, ...);

/* As error_fail() without a sentence of its own: the code's. For failures that explain themselves. */
__attribute__((cold)) int error_code(int code);

#endif
