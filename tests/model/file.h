/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of files that share a pool: how they get units of it, hold them, give them back, and how long they are.
 * The head of file.c says what is modelled and from which functions. The rules that can be broken on purpose are
 * here, each with the trap that it guards against. A search that finds nothing has to show that it can find.
 */
#ifndef TESTS_MODEL_FILE_H
#define TESTS_MODEL_FILE_H

#include "search.h"

/* X(name, what is done wrong) */
#define FILE_BUGS(X)                                                                              \
	/* A late write lands in what is another's by then. */                                    \
	X(TRUNCATE_WITHOUT_RECALL, "truncate: other holders are not asked first")                 \
	X(RECALL_ANSWERED_EARLY, "recall: answered while a write is posted")                      \
	X(RECALL_FORGETS_DOUBT, "recall: answered while a write is in doubt")                     \
	X(CLOSE_FORGETS_DOUBT, "close: the hold is given up while a write is in doubt")           \
	X(FREED_BEFORE_FENCE, "a client died: its holds go before its connections")               \
	X(LATE_ANSWER_BELIEVED, "recall: where bytes were when an open was answered is believed") \
	X(GROWTH_ANSWERED_EARLY, "growth: answered before it is committed")                       \
	/* Old bytes show. */                                                                     \
	X(TAIL_NOT_ZEROED, "truncate: the rest of the last unit is not zeroed")                   \
	X(TAIL_ZEROED_BEFORE_RECALL, "truncate: others may write the rest after it was zeroed")   \
	X(GIVEN_BEFORE_ZEROED, "what a file gives back is free at once")                          \
	/* Zeroing that comes late, or never. */                                                  \
	X(LATE_ORDERS_KEPT, "server: joins again with orders of an earlier connection")           \
	X(SWEEPS_OVERLAP, "scrub: told again while the server may still have the order")          \
	X(SCRUB_NOT_STORED, "scrub: not in the same commit as what gave the unit up")             \
	/* A manager that has restarted knows of nobody. */                                       \
	X(CHANGES_BEFORE_CLAIMS, "restart: files are changed before all have claimed")            \
	X(UNLINKED_FREED_BEFORE_CLAIMS, "restart: a file without names is freed before claims")   \
	/* Sizes. */                                                                              \
	X(OLD_END_CLAIMED, "restart: an end of before a truncate is taken")                       \
	X(OLD_END_SYNCED, "sync: an end of before a truncate is taken")                           \
	X(END_NOT_CLAIMED, "restart: clients claim what is open, and no ends")                    \
	X(OTHERS_END_NOT_CLAIMED, "restart: clients claim no size that another had told of")      \
	X(END_NOT_TOLD, "write: completes before the manager knows the new end")                  \
	X(DEAD_WRITERS_END_NOT_STORED, "a client died: what it wrote is not committed then")

enum file_bug {
	FILE_BUG_NONE,
#define FILE_BUG_ENUM(name, sentence) FILE_BUG_##name,
	FILE_BUGS(FILE_BUG_ENUM)
#undef FILE_BUG_ENUM
		NR_FILE_BUGS,
};

const char *file_bug_name(enum file_bug bug);
const char *file_bug_sentence(enum file_bug bug);

/* How large a world to search. */
struct file_world {
	unsigned nr_clients;  /* 1 or 2                                              */
	unsigned nr_files;    /* 1 or 2                                              */
	unsigned nr_units;    /* that the pool has: 1 or 2                           */
	unsigned nr_failures; /* deaths and lost connections at most, or FILE_ENDLESS */
	enum file_bug bug;
};
#define FILE_ENDLESS 255U

struct search_result file_search(const struct file_world *world, bool is_shown);

#endif
