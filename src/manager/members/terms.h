/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Terms tell an older copy of the manager's records from the newest (Term in rpc/afar.proto). With older ones a file that was
 * removed since leads to bytes that are another's by now. So a server or store that has been told a
 * later term does not join. It waits until an operator accepts that, or the newest records are
 * back.
 */
#ifndef MANAGER_TERMS_H
#define MANAGER_TERMS_H

#include "manager/core_private.h"

#define TERMS_NEWER_MAX 64U /* who is told to operators */

/* The manager starts: a new term begins, in the commit that follows. -ENOMEM. */
int terms_begin(struct core *core);
/* Raises the term's number, if it is due and there is something to commit. Call it before each commit. */
void terms_note_change(struct core *core);

/* Checks that a server or store may join with the term that it was told last. NULL: it was told
 * none. `what` and `name` are for people. -ESTALE, with a sentence. */
int terms_check(struct core *core, const Afar__Term *told, const char *what, const char *name);

/* True: the records are older than what it has seen. If it may join, an operator has accepted that. */
bool terms_are_older(const struct core *core, const Afar__Term *told);

/* The present term as a message of the caller's. NULL: no memory. */
Afar__Term *terms_message(const struct core *core);
/* False: no memory. */
bool terms_add_status(const struct core *core, Afar__ClusterStatus *status);
void terms_close(struct core *core);

core_operation accept_records;

#endif
