/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that sessions use, and others wait for. */
#ifndef MANAGER_FILES_HOLDS_H
#define MANAGER_FILES_HOLDS_H

#include "manager/files/table.h"

/* ---- holds.c */

int hold_open(struct fs *fs, const struct who *who, const struct session *session,
	      const Afar__FileOpen *ask, struct file **out);
/* Without asking whether it may. */
int hold_add(struct file *file, const struct session *session, uint64_t handle, uint32_t access);
int hold_close(struct fs *fs, const struct session *session, uint64_t handle);
/* Likewise, and the manager knows where the file ends as far as the session has written. */
int hold_close_told(struct fs *fs, const struct session *session, uint64_t handle);
int hold_end(struct fs *fs, const struct session *session, const Afar__FileEnd *ask,
	     struct file **out);
/* Returns whether the session has told with this number, or a greater one, that it wrote the file. */
bool hold_has_told(const struct file *file, uint64_t session, uint64_t number);
/* Takes the end of a file for the session, and lets it go, or keeps it for a moment for what follows. -EBUSY: another one has
 * it. */
int hold_append(struct fs *fs, const struct session *session, uint64_t ino, struct file **out);
int hold_appended(struct fs *fs, const struct session *session, const Afar__FileAppended *ask);
/* Until when another session has the end of a file; 0: none has. */
uint64_t hold_append_until(const struct file *file, uint64_t session);
int hold_reclaim(struct fs *fs, const struct session *session, const Afar__FileReclaim *ask);
/* The session does not use inodes by their number any more. */
int hold_forget(struct fs *fs, const struct session *session, const Afar__FileForget *ask);
/* Returns whether the session has it open to write, by another handle. */
bool hold_is_writer_but(const struct file *file, uint64_t session, uint64_t handle);
bool file_is_written_elsewhere(const struct file *file, uint64_t session);
/* Returns a number of the time in which no other session has the file open to write. It is never another time's. 0: one has. */
uint64_t hold_alone(struct file *file, uint64_t session);

/* The slot was read, because its session says nothing: it may write there yet. Nobody else appends if that one may. 0: that is over. */
int hold_set_silent(struct file *file, uint64_t session);
/* The session has told where the file ends, and does not have that for itself any more. */
int hold_give_end(struct file *file, uint64_t session);

/* ---- enders.c */

/* One that is read from its slot. */
struct lost_end {
	struct cds_list_head
		node; /* in one of the lists of fs->lost_ends; in none while its server is asked */
	uint64_t ino;
	uint64_t layout;	 /* of a tail: that the file had */
	uint64_t session;	 /* that had it, and may go on; 0: there is none */
	uint64_t number;	 /* never the same again */
	uint64_t offset, length; /* what is read, or zeroed, of the pool: bytes */
	bool is_tail; /* the slot has been read, and the rest of the last unit is zeroed. Taken back, as the next */
	bool is_told;	    /* its session has told it since. Taken back, too */
	bool is_settled;    /* it is not lost any more */
	unsigned nr_failed; /* so often its server could not read it */
	uint64_t retry_at;
};

/* The file's slot; NULL: it has none. */
const struct run *end_slot_of(const struct file *file);
/* Notes who has the end for himself, and until when; 0: nobody. */
int end_set(struct file *file, uint64_t session, uint64_t until);
/* NULL: the end of the inode is not lost. */
struct lost_end *end_find_lost(const struct fs *fs, uint64_t ino);
/* `session`: that had it, and may go on; 0: there is none. Notes nothing for the undo: also outside of batches. */
int end_add_lost(struct file *file, uint64_t session);
/* Finds the rest of the file's last unit, if nobody has it open to write: whoever is dead may have begun to write there. In bytes of the pool; 0:
 * there is none. The runs are there. */
uint64_t end_tail_of(const struct file *file, uint64_t *offset);
/* Has that zeroed, before others may change the file. Its session has told where it ends, and left. */
int end_clear_tail(struct file *file);
/* Finds one that was asked for with this number. NULL: it is not lost any more. */
struct lost_end *end_find_asked(const struct fs *fs, uint64_t ino, uint64_t number);
/* Between batches: forgets what is settled, and gives each of the others its list. */
void lost_ends_sort(struct fs *fs);
void lost_ends_init(struct fs *fs);
void lost_ends_free(struct fs *fs);
/* Notes that the session was given the slot, or nobody has it any more: 0. -ENOMEM. */
int end_set_owner(struct file *file, uint64_t session);
/* Returns whether the file has a slot, at a server that is there and reads it. The runs are there. */
bool end_reads_slot(const struct file *file);
/* Gives a file a slot, if the session may have the end for itself. `out`: its unit of the pool, and 1; 0: it has none. -ENOMEM. */
int end_make_slot(struct file *file, const struct session *session, uint64_t *out);
/* Gives the session the end of a file, if it may have that. */
int end_give(struct file *file, const struct session *session, bool may_append, bool *is_given);
/* Takes it from the session, if it has it, because that one has told where it is. */
int end_take(struct file *file, uint64_t session);
/* The session that had the end is gone, or not known: the end is read from the slot, if there is one. */
int end_lose(struct file *file);
bool end_is_lost(const struct file *file);
/* Returns whether a slot alone may say where it ends, after a restart: nobody has told that it has the slot. */
bool end_may_be_lost(struct file *file);
/* Likewise, and that is still to be found out. */
bool end_is_left(struct file *file);
/* -EBUSY: the manager cannot tell the session where the file ends. */
int end_check_known(struct file *file, const struct session *session);
/* Likewise for one that is about to change it. */
int end_check(struct file *file, const struct session *session);

/* ---- ends.c */

/* Until when a call waits for ends. Asks for them. */
uint64_t ends_wait(struct core *core, struct event *event, struct fs *fs);
/* Reads from slots, between batches; ends, in one, what cannot be read any more. */
void ends_drive(struct fs *fs);
int ends_work(struct fs *fs);
uint64_t ends_next(const struct fs *fs);

/* ---- recalls.c */

/* Asks the session that has the end of a file, or may be appending, to give it up, once questions_send() is called. */
void end_ask(struct file *file);

/* True: another session has it open, and has not given it up for a change. */
bool file_is_kept(const struct file *file, const struct session *session);
/* The change is done, or has failed. */
void recall_end(struct file *file);
/* Others do without what they gave up until the session has asked for more, or for 10 s. */
void recall_keep(struct file *file, const struct session *session);
bool recall_is_kept(const struct file *file, const struct session *session);
/* Until when a change waits for others to give files up; asks them, if it `may_begin`. */
uint64_t recalls_wait(struct core *core, const struct event *event, const struct fs *fs,
		      bool may_begin);
/* Until when a call waits for others to drop pages that they keep of what it is about; asks them. */
uint64_t drops_wait_to_look(struct core *core, struct event *event, const struct fs *fs);
uint64_t drops_wait_to_hold(struct core *core, struct event *event, const struct fs *fs);
uint64_t drops_wait_to_change(struct core *core, struct event *event, struct fs *fs);
/* Until when a call waits for others to close what they have open to read of an inode, and their programs have closed; asks them. */
uint64_t kept_wait_for(struct core *core, struct event *event, const struct fs *fs, uint64_t ino);
/* Asks sessions that answer again to drop pages of what was changed meanwhile. */
void drops_drive(struct fs *fs);
/* Returns whether another session keeps pages of it. */
bool file_has_kept_pages(const struct file *file, uint64_t session);
/* Until when somebody waits who asks where a file's bytes are. */
uint64_t recall_wait_for(struct core *core, const struct event *event, const struct fs *fs,
			 uint64_t ino);

/* ---- refusals.c */

struct who who_from(const Afar__FileWho *ask);
/* -EACCES: the session is not who it says. */
int check_who(const struct core *core, const struct session *session, const struct who *who);
/* True: this will be refused. */
bool open_is_refused(const struct fs *fs, const Afar__FileWho *ask, uint64_t ino, uint32_t access);
bool hold_is_refused(struct core *core, const struct event *event);
bool change_is_refused(struct core *core, const struct event *event, struct fs *fs);

/* ---- gone.c */

/* A session is asked from now on, until it leaves. -EINVAL: it has not opened the pool. */
int gone_join(struct fs *fs, const struct session *session);
/* -ENOMEM. */
int gone_leave(struct fs *fs, uint64_t session);
void gone_free(struct fs *fs);
/* Returns whether sessions are to be asked before a file without a name, that nobody holds, ends. Then it is added: -ENOMEM. */
bool gone_must_ask(const struct file *file);
int gone_add(struct file *file);
/* One of its names goes. */
void gone_note_name(struct file *file, uint64_t dir, const char *name);
/* Asks, between batches; ends, in one, what nobody uses. */
void gone_drive(struct fs *fs);
int gone_work(struct fs *fs);
uint64_t gone_next(const struct fs *fs);
/* Until when somebody waits who needs room, or an inode. Asks at once. */
uint64_t gone_wait(struct fs *fs, uint64_t session);

/* ---- delegations.c */

/* A session asks, and takes delegations. `dropped`: the number of the one that it has dropped; 0: none. `takes_many`: inodes in one question. */
void delegation_begin(struct fs *fs, const struct session *session, uint64_t dropped,
		      bool takes_many);
/* Delegates an inode, if the session takes delegations. Returns whether the session may answer from what it is told
 * now, until it is asked to drop that. */
bool delegation_give(struct file *file, const struct session *session);
/* Renews all that the session has delegated, and says so in the results. */
void delegation_renew(struct fs *fs, const struct session *session, Afar__FileResults *results);
/* A file leaves memory. */
void delegation_forget(struct file *file);
/* The session does not use the file system any more. `was_told`: it was told so, or has said it
 * itself. Otherwise it may go on with what it has until that has run out. */
void delegations_leave(struct fs *fs, uint64_t session, bool was_told);
/* A session of before the manager's start has ended without a word. */
void delegations_await_silent(struct fs *fs);
/* Until when a change, or an opening to write, waits for others to drop what it concerns. Asks them. */
uint64_t delegations_wait_to_change(const struct event *event, struct fs *fs);
uint64_t delegations_wait_to_hold(struct core *core, const struct event *event, struct fs *fs);
void delegations_free(struct fs *fs);

/* ---- silence.c */

/* Asks sessions that have not answered for some time whether they answer at all. */
void silence_drive(struct fs *fs);
uint64_t silence_next(const struct fs *fs);

/* ---- locks.c */

/* -EAGAIN, -EDEADLK, -ENOLCK, -EBADF. */
int lock_set(struct fs *fs, const struct session *session, const Afar__FileLock *ask);
/* Tells what is in the way. */
int lock_look(struct fs *fs, const struct session *session, const Afar__FileLock *ask,
	      Afar__FileResult *result);
void lock_cancel(struct fs *fs, const struct session *session, const Afar__FileLockCancel *ask);
/* Takes a lock that the session had before a restart. */
int lock_reclaim(struct fs *fs, const struct session *session, const Afar__FileLock *ask);
/* Unlocks what was locked through a handle that is being closed. -ENOMEM. */
int locks_drop(const struct hold *hold);
/* Frees all of a file that is being forgotten. */
void locks_free(struct file *file);
/* Until when somebody waits for a lock. */
uint64_t lock_wait_for(struct core *core, struct event *event, struct fs *fs,
		       const Afar__FileLock *ask);

/* ---- waits.c */

/* -EBUSY: a call has waited in vain for sessions of before a restart, which may have open what it concerns. */
int files_check_reclaimed(const struct fs *fs, const Afar__Request *request);

#endif
