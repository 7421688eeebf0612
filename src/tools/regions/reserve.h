/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations, which may take long: shown on a terminal, and undone when interrupted. */
#ifndef TOOLS_RESERVE_H
#define TOOLS_RESERVE_H

#include <stdint.h>

#include <afar/afar.h>

/*
 * Reserves `bytes` for the namespace. Call catch_interrupts() before: a signal then cancels this.
 * Returns 0 if the namespace has the bytes, even if an interrupt has come; CLI_FAILED with a line;
 * CLI_INTERRUPTED if nothing is left reserved. Ends the process if the manager does not answer the
 * cancelling; the end of the session then undoes it.
 */
int reserve_shown(struct afar_namespace *ns, uint64_t bytes);
/* Returns how much a namespace gets if it asks for `bytes`; UINT64_MAX: at least that. */
uint64_t reserve_rounded(uint64_t bytes);
/* Gives back what reserve_shown() got for `bytes`. */
void reserve_undo(struct afar_namespace *ns, uint64_t bytes);

#endif
