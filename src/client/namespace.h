/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces as the client knows them: a number, a name, and the session to ask by. */
#ifndef CLIENT_NAMESPACE_H
#define CLIENT_NAMESPACE_H

#include "client/session.h"

struct afar_namespace {
	struct handle handle; /* in use while regions of it are open */
	struct afar_session *session;
	uint64_t number;
	char name[AFAR_NAME_MAX + 1];
};

/* Returns 0, or why the handle cannot be used. */
int namespace_check(const struct afar_namespace *ns);

/* afar_namespace_create() and afar_namespace_delete(), of namespaces or of volumes. */
int namespace_make(struct afar_session *session, const char *name, const struct afar_policy *policy,
		   bool is_volume, struct afar_namespace **out);
int namespace_end(struct afar_session *session, const char *name, unsigned flags, bool is_volume);

/* Copies a name from a message into `out` (AFAR_NAME_MAX + 1 bytes), cut if it is too long. */
void name_copy(char *out, const char *name);

#endif
