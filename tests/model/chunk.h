/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of one chunk of memory on each of one or two servers, that passes between two namespaces, with a
 * manager and hostile sessions. The head of chunk.c says what is modelled and from which functions. The rules
 * that can be broken on purpose are here, because a search that finds nothing has to show that it can find.
 */
#ifndef TESTS_MODEL_CHUNK_H
#define TESTS_MODEL_CHUNK_H

#include <stdbool.h>

#include "search.h"

/* X(name, what is done wrong) */
#define CHUNK_BUGS(X)                                                                          \
	X(RELEASE_CLOSES_NO_ENDPOINTS, "release: keys are closed, endpoints are not")          \
	X(RELEASE_CLOSES_ENDPOINTS_FIRST, "release: endpoints are closed before the keys")     \
	X(RELEASE_BY_CLOCK, "release: what does not drain is fenced after a while")            \
	X(FENCE_ONLY_WHO_WAS_GRANTED, "release: whoever used another session's key is spared") \
	X(ONE_DOMAIN, "a key is good on connections for other namespaces, which are spared")   \
	X(SCRUB_BEFORE_FENCE, "scrub while endpoints are open")                                \
	X(NO_SCRUB, "no scrub")                                                                \
	X(GRANT_WHILE_DRAINING, "memory is granted anew while it drains")                      \
	X(END_ANSWERED_EARLY, "session's end: answered before its endpoints are closed")       \
	X(END_FORGETS_TICKETS, "session's end: its tickets can still be used")                 \
	X(END_IS_NOT_REMEMBERED, "session's end: it gets tickets and keys again")              \
	X(END_BY_CLOCK, "session's end: what a server does not answer counts as done")         \
	X(END_FORGOTTEN_BY_RESTART, "session's end: a restarted manager tells nobody")         \
	X(END_SETTLED_BY_REJOIN, "session's end: a server that is back counts as fenced")      \
	X(END_ONLY_WHERE_UP, "session's end: servers that are away are not told")              \
	X(END_ONLY_WHERE_OPEN, "rights taken: sessions that closed their region live on")      \
	X(UNKNOWN_IS_KEPT, "server is back: what the manager does not know of stays granted")  \
	X(RELEASE_SENT_ONCE, "release: not told again when the connection was lost")           \
	X(END_SENT_ONCE, "session's end: not told again when the connection was lost")

enum chunk_bug {
	BUG_NONE,
#define CHUNK_BUG_ENUM(name, sentence) BUG_##name,
	CHUNK_BUGS(CHUNK_BUG_ENUM)
#undef CHUNK_BUG_ENUM
		NR_CHUNK_BUGS,
};

const char *chunk_bug_name(enum chunk_bug bug);
const char *chunk_bug_sentence(enum chunk_bug bug);

/* How large a world to search. */
struct chunk_world {
	unsigned nr_servers;  /* 1 or 2                                                    */
	unsigned nr_sessions; /* 2: one in each namespace; 3: two in the first, which collude */
	unsigned nr_failures; /* deaths and lost connections at most, or CHUNK_ENDLESS       */
	enum chunk_bug bug;
};
#define CHUNK_ENDLESS 255U

struct search_result chunk_search(const struct chunk_world *world, bool is_shown);

#endif
