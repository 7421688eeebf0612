/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing with a sentence. error_fail() keeps one line about the calling thread's last failure. The
 * line goes into the `message` of a reply, into a daemon's log, or to afar_last_error() when a
 * public call ends with it.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <errno.h>
#include <stdbool.h>

#include <afar/error.h>

#define ERROR_LINE_BYTES 1024 /* final 0 included */

/* Keeps the line; error_fail() calls it. */
__attribute__((format(printf, 1, 2), cold)) void error_line(const char *format, ...);

/* Returns the calling thread's last line; empty: there was none yet. */
const char *error_last_line(void);

/* Keeps the last line aside as the one that error_kept_line() returns, whatever fails later. */
void error_keep_line(void);
const char *error_kept_line(void);

/* Tells analyzers that a code is never 0; they cannot know. For error_fail() and error_code(). */
static inline int error_negative(int code)
{
#ifdef __clang_analyzer__
	if (code >= 0)
		__builtin_unreachable();
#endif
	return code;
}

/*
 * Keeps the line "what was asked: what is wrong; what to do" for the calling thread, and returns
 * `code`, which is negative. It cuts long lines. Newlines and control characters become '?',
 * because a peer may have sent them. It is a macro, so that compilers see which code comes back
 * from
 *
 *	int error_fail(int code, const char *format, ...);
 */
#define error_fail(code, ...)                                                                      \
	({                                                                                         \
		const int error_fail_code = (code); /* first, because the line may change errno */ \
		error_line(__VA_ARGS__);                                                           \
		error_negative(error_fail_code);                                                   \
	})

/* True if the errno says that descriptors or memory are short, which may pass. */
static inline bool error_is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Fails with the code's own sentence. For failures that explain themselves. */
static inline int error_code(int code)
{
	return error_fail(code, "%s", afar_strerror(code));
}

#endif
