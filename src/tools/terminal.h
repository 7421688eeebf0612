/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal as a screen to redraw: plain escapes on standard output, keys from standard input. One at a time, for
 * a command that ends as the terminal was before it, however it is stopped.
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

/* Whether standard output is one. */
bool terminal_is_there(void);

/* Catches signals from now on, of which a second ends the process at once; takes the screen over, if asked to. */
void terminal_begin(bool is_screen);
/* Gives it back as it was. */
void terminal_end(void);

/* Its size as it is now; what is unknown is 24 by 80. */
void terminal_size(size_t *lines, size_t *columns);
/* Shows `text`, lines that fit, in place of what was there. */
void terminal_show(const char *text);

/* Waits until something happens, or `deadline` on clock_ns(). */
enum terminal_event terminal_wait(unsigned long long deadline);
bool terminal_is_quitting(void);

#endif
