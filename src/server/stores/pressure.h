/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells when programs of this machine wait for memory, as the kernel sees it (PSI). A thread of its own
 * waits for that. Called by server.c.
 */
#ifndef SERVER_PRESSURE_H
#define SERVER_PRESSURE_H

struct pressure;

/* Calls `pressed` on a thread of its own, at most once in two seconds, while the machine is short of
 * memory. Where the kernel does not tell, `*out` is NULL. -ENOMEM, -EAGAIN, with a sentence. */
int pressure_watch(void (*pressed)(void *context), void *context, struct pressure **out);
/* No call is under way when it returns. NULL is allowed. */
void pressure_end(struct pressure *pressure);

#endif
