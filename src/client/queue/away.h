/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of a queue that are away: another thread carries them out, and gives them back with the answer. The kind of their
 * target sends them there (struct target_ops). progress.c takes them back, on the queue's own thread.
 *
 * An operation that is away is not ended by its deadline, because the thread may be using its memory.
 */
#ifndef CLIENT_AWAY_H
#define CLIENT_AWAY_H

#include "client/queue/queue.h"

/* A queue has this once it is connected to a target whose operations may go away. */
struct queue_away;

/* Makes it, unless it is there. */
int away_open(struct afar_queue *queue);
void away_close(struct afar_queue *queue);
/* The descriptor that polls readable when threads have given something back. */
int away_fd(const struct queue_away *away);
/* Returns whether threads have given something back. */
bool away_has_returned(const struct queue_away *away);
/* Takes that, and gives it to `finish`, with its answer set. Returns whether there was any. */
typedef void away_finish(struct afar_queue *queue, struct operation *operation);
bool away_take_returned(struct afar_queue *queue, away_finish *finish);
/* Leaves the line of an operation that a thread has failed to carry out. False: it is forgotten. */
bool away_say(const struct queue_away *away, const struct afar_completion *completion);

/* An operation goes away, from its beginning. The caller hands it to a thread then. */
void operation_go_away(struct afar_queue *queue, struct operation *operation);
/* It is here again. */
void operation_come_back(struct afar_queue *queue, struct operation *operation);
/* On a thread: gives an operation back, with its answer. If that is an error, its line is the thread's last. */
void operation_return(struct operation *operation);

#endif
