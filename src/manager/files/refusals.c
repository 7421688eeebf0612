/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that will be refused: nobody waits for them, and nobody else is asked to drop or to give up anything. */
#include "manager/connections/callers.h"
#include "manager/files/asks.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#include <unistd.h>

struct who who_from(const Afar__FileWho *ask)
{
	struct who who = {0};

	if (!ask)
		return who;
	who.uid = ask->uid;
	who.gid = ask->gid;
	who.groups = ask->groups;
	who.nr_groups = ask->n_groups < FILES_GROUPS_MAX ? ask->n_groups : FILES_GROUPS_MAX;
	return who;
}

int check_who(const struct core *core, const struct session *session, const struct who *who)
{
	return principal_check_who(core, session->principal, who->uid, who->gid, who->groups,
				   who->nr_groups);
}

/* True: the caller is not who it says. */
static bool is_another(const struct core *core, const struct session *session,
		       const Afar__FileWho *ask)
{
	const struct who who = who_from(ask);

	return check_who(core, session, &who) < 0;
}

/* Nobody has an inode open, or delegated, that is not in memory. */
static const struct inode *inode_cached(const struct fs *fs, uint64_t ino)
{
	const struct file *file = file_cached(fs, ino);

	return file ? file->inode : NULL;
}

bool open_is_refused(const struct fs *fs, const Afar__FileWho *ask, uint64_t ino, uint32_t access)
{
	const struct inode *inode = inode_cached(fs, ino);
	const struct who who = who_from(ask);

	return inode && !who_may(&who, inode, access & (R_OK | W_OK));
}

bool hold_is_refused(struct core *core, const struct event *event)
{
	const Afar__FilesHold *ask = event->request->files_hold;
	struct session *session;

	return core_session(core, event, &session) < 0 ||
	       (holds_ask_who(ask) && is_another(core, session, ask->who));
}

static bool set_is_refused(const struct fs *fs, const struct session *session,
			   const Afar__FileWho *ask, const Afar__FileSet *set)
{
	const struct file *file = file_cached(fs, set->ino);
	const struct who who = who_from(ask);

	return file && file->inode && file_check_set(file, &who, session, set) < 0;
}

static bool make_is_refused(struct fs *fs, const Afar__FileWho *ask, const Afar__FileMake *make)
{
	uint64_t ino;
	uint32_t type;

	if (make->is_nameless || check_name(make->name) < 0 ||
	    record_get_name(fs, make->dir, make->name, &ino, &type) < 0)
		return false;
	return !make->may_exist ||
	       (make->handle != 0 && open_is_refused(fs, ask, ino, make->access));
}

bool change_is_refused(struct core *core, const struct event *event, struct fs *fs)
{
	const Afar__FilesChange *ask = event->request->files_change;
	struct session *session;

	if (core_session(core, event, &session) < 0 ||
	    (changes_ask_who(ask) && is_another(core, session, ask->who)))
		return true;
	/* One of several may allow what follows. */
	if (ask->n_operations != 1)
		return false;
	switch (ask->operations[0]->what_case) {
	case AFAR__FILE_CHANGE__WHAT_SET:
		return set_is_refused(fs, session, ask->who, ask->operations[0]->set);
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		return make_is_refused(fs, ask->who, ask->operations[0]->make);
	default:
		return false;
	}
}
