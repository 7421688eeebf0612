/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow requests, in the log (base/slow.h). Called by those that take a request through its life. */
#ifndef MANAGER_SLOW_H
#define MANAGER_SLOW_H

#include "base/slow.h"
#include "manager/core_private.h"

/* A request is looked at: the first time, it has been queued until now. */
void slow_begin(const struct core *core, struct event *event);
/* It is carried out; before that it has waited for others, or for what they do. */
void slow_run(const struct core *core, struct event *event);
/* It was carried out: a commit follows, or a job that asks servers. */
void slow_ran(const struct core *core, struct event *event);
/* Its request is dropped, and a line will still say what it was about. */
void slow_keep(struct event *event);
void slow_free(struct event *event);
/* It is answered now. Writes a line if it took long, without the time for which it waited for others. */
void slow_answer(const struct core *core, const struct event *event);

#endif
