/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT, SIGTERM and SIGHUP, for commands that have something to undo. */
#ifndef TOOLS_INTERRUPTS_H
#define TOOLS_INTERRUPTS_H

#include <stdbool.h>

/*
 * From now on the first one only makes is_interrupted() true, and ends what blocks in this thread with EINTR, also what
 * begins to block a moment later; a second one ends the process. Those that are ignored stay so. The one thread that asks calls it, once.
 */
void catch_interrupts(void);
bool is_interrupted(void);

/* As by nohup, or in the background of a script: whoever started us wants it so. */
bool is_signal_ignored(int number);

#endif
