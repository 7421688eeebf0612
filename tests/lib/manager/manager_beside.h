/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions about files that are asked before a batch, in the middle of its commit, and behind it. */
#ifndef TESTS_MANAGER_BESIDE_H
#define TESTS_MANAGER_BESIDE_H

#include "lib/manager/manager_files.h"

#define NR_QUESTIONS 8U
#define TREE_HANDLE  7U

/* Finds an inode that is there. */
uint64_t ino_of(const char *path);
/* Two directories with the same in them, and a file outside. The files in them are open, as TREE_HANDLE and the next. */
void make_tree(void);

enum ask { STAT, MAP, LIST, LIST_ALL, LOOKUP, WALK, LINK, XATTR, XATTRS, NR_ASKS };

struct question {
	enum ask ask;
	const char *path; /* of the inode that is asked about; of WALK itself */
	const char *name; /* LOOKUP, XATTR */
	uint64_t ino;	  /* of the path */
};

/* One about an inode that is there. */
struct question about(enum ask ask, const char *path);
Afar__Request *ask_of(const struct question *question);
/* Sets one. */
Afar__Request *ask_xattr(uint64_t ino, const char *name, const char *value);
Afar__Request *ask_no_xattr(uint64_t ino, const char *name);
/* Makes a symbolic link. */
Afar__Request *ask_link_to(uint64_t dir, const char *name, const char *target);

/* One that is asked before a batch, in the middle of its commit, and behind it. */
struct asked {
	struct question question;
	bool is_done; /* it is asked when the commit is done, and has not returned */
	bool is_asked, is_kept;
	uint64_t nr_commits; /* with this one */
	Afar__Reply *before, *beside;
};

extern struct asked asked[NR_QUESTIONS];
extern size_t nr_asked;
/* Somebody has told how long a file is, which may be before a question or behind it. */
extern bool has_told;

/* Asks it, and has it asked again in the middle of the next commit. */
void add_question(struct question question, bool is_done);
/* Asks them: for the hold of the fixture's store. */
void ask_beside(void *argument, bool is_done);
/* Runs the batch that was sent, of which the first commit may fail. `hold` is called in the middle of its commits. */
void run_batch(void (*hold)(void *argument, bool is_done), bool fails);
/* Asks them once more, and forgets them. Every answer is true now, unless something else was changed since. An answer
 * that was given beside the commit was true before, too. */
void check_answers(void);

#endif
