/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions to which inodes of a file system are delegated, and which these are: delegations.c decides that. A share is one inode of one
 * session. It is found from both. So asking about an inode costs as much as it has sessions, and ending a session as much as that has
 * inodes.
 */
#ifndef MANAGER_FILES_DELEGATES_H
#define MANAGER_FILES_DELEGATES_H

#include "manager/connections/outgoing.h"
#include "manager/files/table.h"
#include "rpc/delegation.h"

#define DELEGATION_KEPT_NS ((uint64_t)DELEGATION_KEPT_MS * 1000000U)

/* A session to which inodes are delegated. */
struct delegate {
	struct cds_list_head
		node; /* of the fs, while it has shares: the one that was renewed last at the end */
	uint64_t session;
	uint64_t number; /* of the delegation; never the same again, and it grows */
	uint64_t renewed_at;
	bool has_left; /* the session has ended, and may not know it. It has shares */
	struct cds_list_head shares, revoked;
	size_t nr; /* in both */
	/* For silence.c: the numbers of the last question, and of the last that was answered. Since when it owes an answer. */
	struct cds_list_head owing; /* of the fs, if that is so */
	uint64_t asked, answered, owes_since;
	uint64_t probed_at;			  /* 0: it is not being probed */
	struct question *questions[NR_QUESTIONS]; /* to it, that are to be sent: questions.c */
	const void *probed_peer;		  /* NULL: it is not connected */
	struct cds_list_head returned; /* of the fs, until it is asked what it has missed */
	bool has_missed;	       /* questions that were not put to it */
	/* When it was last asked for a file that somebody removes, and for how many others with it. */
	uint64_t ahead_at, ahead;
	bool takes_many; /* inodes in one question */
};

struct share {
	struct cds_list_head
		node; /* of the delegate's shares; or of those that were revoked: the first of them first */
	struct delegate *delegate;
	struct file *file;
	/* The session is to drop it, and has not said that it has. Which question that is, never the same again: an answer may come
	 * after the inode was delegated once more. 0: it is not. */
	uint64_t revoke;
	uint64_t revoked_at;
	const void *asked_at; /* over which connection; NULL: it is to be asked */
};

/* In order of their delegates' numbers. */
struct shares {
	size_t nr, max;
	/* All sessions were asked to drop it, over connections that they still have, but for one at most: that is about to change it. So a call
	 * that waits looks at one of them, not at all of them with each answer. */
	bool are_asked;
	uint64_t unasked; /* 0: none */
	struct share *list[];
};

/* NULL: the session takes no delegations. */
struct delegate *delegate_find(const struct fs *fs, uint64_t session);
/* Makes one if need be. NULL: it cannot be one, because nobody would tell when the session leaves; or there is no memory. */
struct delegate *delegate_get(struct fs *fs, const struct session *session);
/* It was answered now. */
void delegate_renew(struct fs *fs, struct delegate *delegate);
/* Nothing of what it has can be in use any more. */
bool delegate_has_run_out(const struct fs *fs, const struct delegate *delegate);
/* Takes everything from it. Its next answer tells another number. */
void delegate_clear(struct fs *fs, struct delegate *delegate);
/* Likewise, and it is gone. */
void delegate_end(struct fs *fs, struct delegate *delegate);
/* Takes everything from one that has run out. It is gone then if its session has ended. */
void delegate_expire(struct fs *fs, struct delegate *delegate);
/* Its session has ended. It is gone if it has nothing. */
void delegate_leave(struct fs *fs, struct delegate *delegate);

/* NULL: it is not delegated to it. */
struct share *share_find(const struct file *file, const struct delegate *delegate);
/* Delegates it; delegated inodes stay in memory. Returns false where there is no memory. */
bool share_add(struct file *file, struct delegate *delegate);
void share_remove(struct share *share);
/* It owes no answer any more. */
void delegate_forget_debt(struct delegate *delegate);

/* ---- silence.c */

/* A question was put to it; or could not be, because it is not connected. */
void silence_asked(struct fs *fs, struct delegate *delegate, uint64_t number);
void silence_is_away(struct fs *fs, struct delegate *delegate);
/* It has answered something. */
void silence_answered(struct fs *fs, uint64_t session, uint64_t number);
/* Returns whether it answers nothing, and has nothing delegated any more. */
bool delegate_is_silent(struct fs *fs, struct delegate *delegate);
/* Likewise of a session that would be asked now. Then it is not, and asked what it has missed when it answers again. */
bool session_misses(struct fs *fs, uint64_t session);
/* It was found to answer again, and is about to be asked what it has missed. */
void silence_end(struct fs *fs, struct delegate *delegate);

/* ---- questions.c */

/*
 * Questions to sessions about inodes (FileRevoke). A session is asked about all inodes that an event concerns in one message of each kind,
 * if it takes such messages. So a batch of operations costs it a message, and not one for each file.
 */

/* Asks a connected session about one more inode, once questions_send() is called. `delegate`: of the session; NULL: there is none.
 * `answered`: takes the answer by question_take(). Returns the question's number, never the same again; 0: there is no memory. */
uint64_t question_add(struct fs *fs, const struct session *session, struct delegate *delegate,
		      unsigned what, uint64_t ino, outgoing_answered *answered);
void questions_send(struct fs *fs);

/* Takes the answer to a question, or that there never will be one: calls `each` for all of its inodes that are in memory. */
typedef void question_each(struct file *file, const struct outgoing *outgoing, bool is_done);
int question_take(struct core *core, const struct outgoing *outgoing, const struct event *event,
		  bool is_done, question_each *each);

#endif
