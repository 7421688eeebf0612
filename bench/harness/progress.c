/* SPDX-License-Identifier: BSD-3-Clause */
/* See progress.h. Owns the state of the one line. */
#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define WIDTH_MAX 256U
/* So much of what was foretold counts beside what was seen, because the first rows say little about a machine. */
#define BELIEF_S 10.0

static struct {
	const char *suite, *row;
	unsigned nr_rows, number; /* of the row that runs, from 1 */
	bool is_foretold;	  /* seconds are known before any row has ended */
	double before, here,
		behind; /* seconds of the rows that have ended, of this one, and of the rest */
	uint64_t begin;
} now;

void progress_begin(const char *suite, unsigned nr_rows, double seconds)
{
	now.suite = suite;
	now.row = "";
	now.nr_rows = nr_rows;
	now.number = 0;
	now.is_foretold = seconds > 0;
	now.before = now.here = 0;
	now.behind = seconds > 0 ? seconds : nr_rows;
	now.begin = clock_ns();
}

/* Returns how long this row and the rest take: as long as foretold, times what those before took beside that. NAN: unknown. */
static double seconds_left(void)
{
	const double belief = now.is_foretold ? BELIEF_S : 0;
	const double elapsed = (double)(clock_ns() - now.begin) / 1e9;

	if (now.before + belief <= 0)
		return NAN;
	return (now.here + now.behind) * (elapsed + belief) / (now.before + belief);
}

static void write_time_left(char *out, size_t size)
{
	const double left = seconds_left();

	if (isnan(left))
		out[0] = '\0';
	else if (left >= 90)
		snprintf(out, size, ", about %.0f min left", left / 60);
	else
		snprintf(out, size, ", about %.0f s left", 5 * ceil(left / 5));
}

static unsigned width_of_terminal(void)
{
	struct winsize window;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) || window.ws_col < 2)
		return 80;
	return window.ws_col < WIDTH_MAX ? window.ws_col : WIDTH_MAX;
}

/* A line that is as wide as the terminal could not be written over. */
__attribute__((format(printf, 1, 2))) static void write_over(const char *format, ...)
{
	char line[WIDTH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, width_of_terminal(), format, arguments);
	va_end(arguments);
	fprintf(stderr, "\r\033[K%s", line);
	fflush(stderr);
}

void progress_setup(void)
{
	if (isatty(STDERR_FILENO))
		write_over("afar bench: %s: setting up row %u of %u", now.suite, now.number + 1,
			   now.nr_rows);
}

void progress_row(const char *name, double seconds)
{
	char left[48];

	now.row = name;
	now.number++;
	now.before += now.here;
	now.here = seconds;
	now.behind -= seconds;
	if (isatty(STDERR_FILENO))
		return; /* its repetitions say more */
	write_time_left(left, sizeof(left));
	fprintf(stderr, "afar bench: %s: row %u of %u%s: %s\n", now.suite, now.number, now.nr_rows,
		left, name);
}

void progress_repetition(unsigned repetition, unsigned nr_repetitions)
{
	char left[48];

	if (!isatty(STDERR_FILENO))
		return;
	write_time_left(left, sizeof(left));
	write_over("afar bench: %s: row %u of %u%s: %s, %u of %u", now.suite, now.number,
		   now.nr_rows, left, now.row, repetition + 1, nr_repetitions);
}

void progress_skip(double seconds)
{
	now.number++;
	now.before += now.here;
	now.here = 0;
	now.behind -= seconds;
}
