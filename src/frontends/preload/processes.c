/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of a program: exec and _exit close files and sessions first, so that nobody waits until the manager has noticed. If exec fails,
 * all begins anew. The child of a vfork() has nothing of its own to close.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "enter.h"
#include "processes.h"
#include "real.h"
#include "signals.h"

static pid_t process;

bool process_is_own(void)
{
	return getpid() == process;
}

__attribute__((constructor)) static void begin(void)
{
	process = getpid();
	table_begin(enter_end_held);
}

/* Returns whether it was on. */
static bool end(void)
{
	if (!table_is_on() || !process_is_own() || signals_in_handler())
		return false;
	enter_end();
	return true;
}

#define EXEC(call)                          \
	({                                  \
		const bool was_on_ = end(); \
		const int ret_ = (call);    \
		if (was_on_)                \
			table_set_on(true); \
		ret_;                       \
	})

TAKEN int execve(const char *path, char *const argv[], char *const environment[])
{
	return EXEC(REAL(execve)(path, argv, environment));
}

TAKEN int execv(const char *path, char *const argv[])
{
	return EXEC(REAL(execv)(path, argv));
}

TAKEN int execvp(const char *name, char *const argv[])
{
	return EXEC(REAL(execvp)(name, argv));
}

TAKEN int execvpe(const char *name, char *const argv[], char *const environment[])
{
	return EXEC(REAL(execvpe)(name, argv, environment));
}

TAKEN int fexecve(int fd, char *const argv[], char *const environment[])
{
	return EXEC(REAL(fexecve)(fd, argv, environment));
}

TAKEN int execveat(int dir, const char *path, char *const argv[], char *const environment[],
		   int flags)
{
	return EXEC(REAL(execveat)(dir, path, argv, environment, flags));
}

#define WORDS_MAX 1024

/* Makes `argv` of a call's words. Returns false if there are more than can be. */
static bool take_words(const char *first, va_list words, char *argv[WORDS_MAX])
{
	size_t nr = 0;

	argv[nr++] = (char *)(uintptr_t)first;
	while (argv[nr - 1]) {
		if (nr == WORDS_MAX) {
			errno = E2BIG;
			return false;
		}
		argv[nr++] = va_arg(words, char *);
	}
	return true;
}

TAKEN int execl(const char *path, const char *first, ...)
{
	char *argv[WORDS_MAX];
	va_list words;
	bool are_all;

	va_start(words, first);
	are_all = take_words(first, words, argv);
	va_end(words);
	return are_all ? execv(path, argv) : -1;
}

TAKEN int execlp(const char *name, const char *first, ...)
{
	char *argv[WORDS_MAX];
	va_list words;
	bool are_all;

	va_start(words, first);
	are_all = take_words(first, words, argv);
	va_end(words);
	return are_all ? execvp(name, argv) : -1;
}

TAKEN int execle(const char *path, const char *first, ...)
{
	char *argv[WORDS_MAX], *const *environment;
	va_list words;
	bool are_all;

	va_start(words, first);
	are_all = take_words(first, words, argv);
	environment = are_all ? va_arg(words, char *const *) : NULL;
	va_end(words);
	return are_all ? execve(path, argv, environment) : -1;
}

TAKEN void _exit(int status)
{
	end();
	REAL(_exit)(status);
	__builtin_unreachable();
}

TAKEN void _Exit(int status)
{
	_exit(status);
}
