/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a run ends early: somebody interrupts it, or something fails and says so. The harness uses this, and so
 * does whoever starts daemons: the suites and the tests.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "harness.h"

static volatile sig_atomic_t interrupt; /* the number of a signal */

void bench_clear_progress(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

int bench_fail(int status, const char *format, ...)
{
	va_list arguments;

	bench_clear_progress();
	fputs("afar bench: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return status;
}

bool bench_is_interrupted(void)
{
	return interrupt != 0;
}

int bench_interrupt(void)
{
	return interrupt;
}

static void on_interrupt(int number)
{
	interrupt = number;
}

void bench_catch_interrupts(void)
{
	struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}
