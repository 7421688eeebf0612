/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks of the manager's own process at the cluster (views.c). */
#ifndef MANAGER_VIEWS_H
#define MANAGER_VIEWS_H

#include "manager/core_private.h"

/* Takes the event over, and asks servers and clients for their counts. */
void view_begin(struct core *core, struct event *event);
/* Behind a commit: answers those that need not wait any more. */
void views_answer(struct core *core);
uint64_t views_next(const struct core *core);
void views_close(struct core *core);

#endif
