/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks a manager whether sessions are ending. */
#ifndef TESTS_ENDING_H
#define TESTS_ENDING_H

#include <stdbool.h>

#include <afar/afar.h>

/* Returns whether there is a session that the manager has ended and some server has not, yet. */
bool is_a_session_ending(struct afar_session *session);
/* Waits until there is. */
void await_ending_session(struct afar_session *session);

#endif
