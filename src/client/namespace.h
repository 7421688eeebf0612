/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces as the client knows them: a number, a name, and the session to ask by. */
#ifndef CLIENT_NAMESPACE_H
#define CLIENT_NAMESPACE_H

#include "client/session.h"

enum namespace_kind {
	NAMESPACE_PLAIN,
	NAMESPACE_VOLUME,
	NAMESPACE_FILES, /* its region is the pool of a file system */
};

struct afar_namespace {
	struct handle handle; /* in use while regions of it are open */
	struct afar_session *session;
	uint64_t number;
	enum namespace_kind kind;
	char name[AFAR_NAME_MAX + 1];
};

/* Returns 0, or why the handle cannot be used. */
int namespace_check(const struct afar_namespace *ns);

struct namespace_wish {
	const char *name;
	const struct afar_policy *policy; /* NULL: defaults */
	enum namespace_kind kind;
	uint32_t root_uid, root_gid, root_mode; /* of a file system's root */
};

/* afar_namespace_create() and afar_namespace_delete(), of all kinds. */
int namespace_make(struct afar_session *session, const struct namespace_wish *wish,
		   struct afar_namespace **out);
int namespace_end(struct afar_session *session, const char *name, unsigned flags,
		  enum namespace_kind kind);

/* Copies a name from a message into `out` (AFAR_NAME_MAX + 1 bytes), cut if it is too long. */
void name_copy(char *out, const char *name);

#endif
