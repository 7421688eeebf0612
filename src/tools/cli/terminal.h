/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal as a screen to redraw: plain escapes on standard output, keys from standard input.
 * Only one at a time, for a command that leaves the terminal as it was before, however it is
 * stopped.
 */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum terminal_event {
	TERMINAL_TIMEOUT,
	TERMINAL_RESIZED,
	TERMINAL_QUIT, /* q, or SIGINT, SIGTERM, SIGHUP */
};

/* Returns whether standard output is a terminal. */
bool terminal_is_there(void);

/* Catches signals from now on; a second signal ends the process at once. Takes the screen over, if
 * asked to. */
void terminal_begin(bool is_screen);
/* Gives the terminal back as it was. */
void terminal_end(void);

/* Returns how many columns standard output has; 0: no limit, because it is no terminal. */
size_t terminal_columns(void);
/* Gives its present size; 24 by 80 if that is unknown. */
void terminal_size(size_t *lines, size_t *columns);
/* Shows `text`, whose lines must fit, in place of the last one. */
void terminal_show(const char *text);

/* Waits until something happens, or `deadline` on clock_ns(). */
enum terminal_event terminal_wait(unsigned long long deadline);
bool terminal_is_quitting(void);

#endif
