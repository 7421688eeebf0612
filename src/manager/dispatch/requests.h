/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deals with requests: they wait, are carried out in the batch, or are answered behind its commit
 * because they change nothing. A request that fails leaves nothing of what it did. Called by the
 * core.
 *
 * A new request is a message in rpc/afar.proto, a row of `operations` in requests.c, and a
 * core_operation in the room of what it changes. A client asks for its feature first
 * (rpc/manager_features.h), because older managers do not know it.
 */
#ifndef MANAGER_REQUESTS_H
#define MANAGER_REQUESTS_H

#include "manager/core_private.h"

/* Takes the request over: carries it out, or lets it wait. */
void request_handle(struct core *core, struct event *event);
/* Returns whether it changes nothing. */
bool request_is_question(const struct event *event);
/* Answers a request that changes nothing that is stored, need not wait, and reads nothing that is not committed.
 * False: it is none of that, and request_handle() is to have it. */
bool request_answer(struct core *core, struct event *event);
/* Behind the commit: sends what was answered, and then what those read that change nothing. */
void requests_answer(struct core *core);
/* Puts those whose wait is over into the next batch. */
void requests_end_waits(struct core *core, struct cds_list_head *batch);
/* When the next wait is over, if no event ends it before. */
uint64_t requests_next(struct core *core);
void requests_close(struct core *core);

/* Makes the reply for an outcome, also of a request that came again. */
int core_reply(struct core *core, const struct session *session, enum outcome_kind kind,
	       uint64_t value, Afar__Reply *reply);

#endif
