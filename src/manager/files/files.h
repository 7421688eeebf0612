/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: names, inodes, and which parts of a file system's pool each file has. The rest of the core
 * sees this much of them. Inside are
 *
 *   records.c   what is stored, under which keys
 *   records_system.c  the same, of file systems as a whole
 *   table.c     inodes in memory
 *   systems.c   file systems as a whole: loaded, made, deleted, freed
 *   endings.c   inodes of which nothing is left
 *   runs.c      which parts of the pool a file has
 *   pool.c      what of the pool is free
 *   scrubs.c    what was given back, until it is zeroed
 *   lost.c      what servers have lost of it
 *   lost_list.c   which files that is of, and how many would lose something
 *   shrink.c    giving whole extents of it back
 *   names.c     directories: make, remove, rename, link
 *   walk.c      finding and listing names
 *   attributes.c  permissions, times, extended attributes
 *   limits.c    what a file system may have at most
 *   lengths.c   allocate, shrink, punch, sync
 *   holds.c     who has which file open
 *   enders.c    which session need not tell where a file ends
 *   ends.c      finding that out if it dies
 *   gone.c      what has no name any more, until nobody uses it
 *   locks.c     who has locked what of a file
 *   check.c     comparing the records with each other
 *   recalls.c   having others give a file up before it is made shorter
 *   delegations.c  what sessions may answer from their own memory, and taking that back
 *   delegates.c  which sessions these are, and of which inodes
 *   questions.c  asking sessions about inodes
 *   silence.c    which of them answer nothing at all
 *   calls.c     the three calls
 *   asks.c      what one of them asks for
 *   waits.c     which of them wait, and for what
 *
 * dispatch/files_work.c has them do what nobody asks for.
 *
 * Unlike the core's tables, inodes are not all in memory. They are read from the store when they
 * are wanted, and kept as long as somebody has them open, or until there are too many.
 */
#ifndef MANAGER_FILES_H
#define MANAGER_FILES_H

#include "manager/core_private.h"

core_operation files_look, files_hold, files_change, files_limit, loss_count;
/* After a restart of the manager, changes wait until the sessions of before have told what they have
 * open. An allocation waits for what is being zeroed, if it needs that. */
core_wait files_wait;
/* True: a request can be carried out beside a batch (store.h). All that it reads has marks, and it
 * changes nothing that is stored. It may change who has which file open, and how long writers say
 * that one is. */
bool files_can_ask(const Afar__Request *request);
/* Fills a reply to a FilesChange that came again. -EIO, -ENOMEM. */
int files_reply(struct core *core, const struct session *session, uint64_t request_id,
		Afar__Reply *reply);

/* With the namespace: makes a file system with an empty root directory. -ENOMEM. */
int files_create(struct core *core, const struct namespace *ns, const Afar__NamespaceCreate *ask);
/* With the namespace. Its records go later. -ENOMEM. */
int files_delete(struct core *core, const struct namespace *ns);
/* NULL: no memory. */
Afar__FileSystemInfo *files_info(const struct core *core, const struct namespace *ns);

/* A session does not reach the pool any more: what it had open is closed. -ENOMEM, or as a
 * metastore's get. */
int files_session_left(struct core *core, const struct namespace *ns, uint64_t session);

/* An extent of a file system in memory is about to go with its server. Files keep what they had
 * there, as lost, and the rest of the pool goes on. Does nothing for any other extent. -ENOMEM. */
int files_lose(struct core *core, const struct extent *extent);

/* Has all that is free in the pool zeroed before somebody gets it: others' bytes may be there. -ENOMEM. */
int files_scrub_free(struct core *core, const struct namespace *ns);
/* Whole extents in which nothing is used leave a file system's pool, at most so many bytes with those that it has not
 * grown into. Does nothing for another namespace. -ENOMEM. */
int files_shrink(struct core *core, const struct namespace *ns, uint64_t bytes);
/* A release waits for what is being zeroed, and for files that are ending. */
core_wait files_wait_to_release;

/* Reads what there is of file systems. Errors as store_load(). */
int files_start(struct core *core);
void files_close(struct core *core);

#endif
