/* SPDX-License-Identifier: BSD-3-Clause */
/* Reserving, which may take long: seen on a terminal, and taken back when it is interrupted. */
#ifndef TOOLS_RESERVE_H
#define TOOLS_RESERVE_H

#include <stdint.h>

#include <afar/afar.h>

/*
 * Reserves `bytes` for the namespace. After catch_interrupts(): a signal cancels it. 0 when the namespace has them, an
 * interrupt may have come all the same; CLI_FAILED with a line; CLI_INTERRUPTED when nothing of it is left. Ends the
 * process when the manager does not even answer that it is cancelled: the session's end undoes it then.
 */
int reserve_shown(struct afar_namespace *ns, uint64_t bytes);
/* How much a namespace gets that asks for `bytes`; UINT64_MAX: at least that. */
uint64_t reserve_rounded(uint64_t bytes);
/* Gives back what it got for `bytes`. */
void reserve_undo(struct afar_namespace *ns, uint64_t bytes);

#endif
