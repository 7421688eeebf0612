/* SPDX-License-Identifier: BSD-3-Clause */
/* What a daemon answers to those who watch it (answers.c). */
#ifndef AFARD_ANSWERS_H
#define AFARD_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>

#include "manager/manager.h"
#include "server/server.h"

struct answers;

struct answer {
	int status;	   /* of HTTP */
	const char *type;  /* of its bytes */
	const char *bytes; /* good until the next call */
	size_t length;
};

/* One of the two may be NULL. -ENOMEM, with a sentence. */
int answers_open(struct manager *manager, struct server *server, struct answers **out);
void answers_close(struct answers *answers);

/* One thread at a time. What was found out less than a quarter of a second ago is not found out again. */
void answer_metrics(struct answers *answers, bool is_open, struct answer *out);
void answer_status(struct answers *answers, struct answer *out);
void answer_health(struct answers *answers, struct answer *out);
void answer_page(struct answers *answers, struct answer *out);
/* The Content-Security-Policy of the page: what is in it, and no more. */
const char *answers_policy(const struct answers *answers);

#endif
