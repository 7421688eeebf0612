/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer: the one thread that runs the core. Events queue up while it commits, and it takes all
 * of them as its next batch. So the more there is to do, the more one commit does (group commit).
 * While it sleeps, or waits for the metastore, a thread that submits a request that changes nothing
 * answers it. Nobody has to wake for that, or to wait for a disk. But a question about what is not
 * committed yet waits.
 */
#ifndef MANAGER_WRITER_H
#define MANAGER_WRITER_H

#include "manager/dispatch/core.h"

struct writer;

/* Starts the thread, signals blocked. The core is its alone until writer_stop(). */
int writer_start(struct core *core, struct writer **out);
/* Queues an event, or answers it. It becomes the core's. Any thread; it waits for no commit. */
void writer_submit(struct writer *writer, struct event *event);
/* Runs what is queued and ends the thread. Nobody submits any more. */
void writer_stop(struct writer *writer);

#endif
