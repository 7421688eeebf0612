/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT, SIGTERM and SIGHUP, for commands that have something to undo. */
#ifndef TOOLS_INTERRUPTS_H
#define TOOLS_INTERRUPTS_H

#include <stdbool.h>

/*
 * Catches signals from now on. The first one makes is_interrupted() true, and ends with EINTR any
 * call that blocks in this thread, or begins to block a moment later. A second one ends the
 * process. Signals that are ignored stay so. Only one thread may call this, once, and ask.
 */
void catch_interrupts(void);
bool is_interrupted(void);

/* True if the signal is ignored, as by nohup, or in the background of a script: the program that
 * started us wants it so. */
bool is_signal_ignored(int number);

#endif
