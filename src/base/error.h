/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing with a sentence. error_fail() keeps one line about the calling thread's last failure, for the
 * `message` of a reply, for a daemon's log, and for afar_last_error() where a public call ends with it.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <errno.h>
#include <stdbool.h>

#include <afar/error.h>

#define ERROR_LINE_BYTES 1024 /* with the final 0 */

/* The line of error_fail(). */
__attribute__((format(printf, 1, 2), cold)) void error_line(const char *format, ...);

/* What it last was for the calling thread; empty: nothing yet. */
const char *error_last_line(void);

/* For error_fail() and error_code(): analyzers cannot know that a code is never 0. */
static inline int error_negative(int code)
{
#ifdef __clang_analyzer__
	if (code >= 0)
		__builtin_unreachable();
#endif
	return code;
}

/*
 * Remembers the line "what was asked: what is wrong; what to do" for the calling thread and returns
 * `code` (negative). Long lines are cut; newlines and control characters (a peer may have sent them)
 * become '?'. A macro, so that compilers see which code comes back of
 *
 *	int error_fail(int code, const char *format, ...);
 */
#define error_fail(code, ...)                                                                     \
	({                                                                                        \
		const int error_fail_code = (code); /* before the line, which may change errno */ \
		error_line(__VA_ARGS__);                                                          \
		error_negative(error_fail_code);                                                  \
	})

/* Of descriptors or memory, an errno: it may pass. */
static inline bool error_is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* As error_fail() without a sentence of its own: the code's. For failures that explain themselves. */
static inline int error_code(int code)
{
	return error_fail(code, "%s", afar_strerror(code));
}

#endif
