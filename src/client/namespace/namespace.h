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
	uint64_t identity; /* no other of any cluster has it */
	enum namespace_kind kind;
	char name[AFAR_NAME_MAX + 1];
};

/* Returns 0, or why the handle cannot be used. */
int namespace_check(const struct afar_namespace *ns);

struct namespace_wish {
	const char *name;
	const struct afar_policy *policy; /* NULL: defaults */
	enum namespace_kind kind;
	/* A file system's: */
	uint32_t root_uid, root_gid, root_mode;
	uint64_t max_inodes;
};

/* afar_namespace_create() and afar_namespace_delete(), of all kinds. */
int namespace_make(struct afar_session *session, const struct namespace_wish *wish,
		   struct afar_namespace **out);
int namespace_end(struct afar_session *session, const char *name, unsigned flags,
		  enum namespace_kind kind);

/* Opens the namespace of this name, whatever kind it is; a failure speaks of `kind`. */
int namespace_open(struct afar_session *session, enum namespace_kind kind, const char *name,
		   struct afar_namespace **out);

/* afar_namespace_reserve(), of all kinds. */
int namespace_reserve(struct afar_namespace *ns, uint64_t bytes);

/* Gives a program what the manager has told of a namespace, in its struct of `size` bytes. */
typedef void namespace_give(const Afar__NamespaceInfo *info, void *out, size_t size);

/* How namespaces of a kind are told: by a struct that is `name`, and had `oldest` bytes at first. */
struct namespace_telling {
	enum namespace_kind kind;
	const char *name;
	size_t oldest;
	namespace_give *give;
};

/* Puts up to `max` of those behind the name `after` (NULL: from the first) into the array `out`, whose
 * first entry has its size set. Returns how many; 0 at the end. */
int namespace_tell_all(struct afar_session *session, const struct namespace_telling *telling,
		       const char *after, void *out, unsigned max);
/* Fills `out` in for the one of this name. -ENOENT, also if it is of another kind. */
int namespace_tell(struct afar_session *session, const struct namespace_telling *telling,
		   const char *name, void *out);
/* Likewise gives the manager's message; on 0 `*reply` is the caller's. */
int namespace_look(struct afar_session *session, enum namespace_kind kind, const char *name,
		   Afar__Frame **reply);

/* Copies a name from a message into `out` (AFAR_NAME_MAX + 1 bytes), cut if it is too long. */
void name_copy(char *out, const char *name);

#endif
