/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls about files wait, for what, and until when. */
#include <errno.h>
#include <unistd.h>

#include "manager/files/delegates.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

static uint64_t bytes_of(const Afar__FileExtend *ask)
{
	uint64_t bytes = ask->length + FILE_UNIT;

	for (size_t i = 1; i < ask->n_ranges; i += 2)
		bytes += ask->ranges[i] * FILE_UNIT;
	return bytes;
}

static uint64_t bytes_wanted(const Afar__FilesChange *ask)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < ask->n_operations; i++) {
		const Afar__FileChange *operation = ask->operations[i];

		if (operation->what_case == AFAR__FILE_CHANGE__WHAT_EXTEND)
			bytes += bytes_of(operation->extend);
		else if (operation->what_case == AFAR__FILE_CHANGE__WHAT_MAKE &&
			 !operation->make->goes_without)
			bytes += operation->make->bytes + (operation->make->bytes ? FILE_UNIT : 0);
	}
	return bytes;
}

static bool makes_inodes(const Afar__FilesChange *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		if (ask->operations[i]->what_case == AFAR__FILE_CHANGE__WHAT_MAKE)
			return true;
	return false;
}

/* A file that is ending may leave the room, or the inode, that is missing. */
static uint64_t wait_for_gone(const struct event *event, struct fs *fs,
			      const Afar__FilesChange *ask)
{
	uint64_t wanted = bytes_wanted(ask);
	uint64_t until = 0;
	bool lacks_room;

	if (fs->gone.nr == 0 || !fs_namespace(fs))
		return 0;
	lacks_room = wanted > fs->space.free_bytes || wanted / FILE_UNIT > limits_room(fs);
	if ((wanted != 0 && lacks_room && fs->gone.nr_units != 0) ||
	    (makes_inodes(ask) && !limits_allow_inode(fs)))
		until = gone_wait(fs, makes_inodes(ask) ? event->session : 0);
	/* They may be unable to end, where the manager's disk is full. */
	return until < event->answer_by ? until : event->answer_by;
}

/* An allocation that will fit when what is being zeroed is free waits for that. */
static bool waits_for_scrubs(const struct fs *fs, const Afar__FilesChange *ask)
{
	uint64_t wanted, has = fs->space.free_bytes;
	const struct namespace *ns = fs_namespace(fs);

	if ((fs->sweep == 0 && !scrubs_can_hurry(fs)) || !ns)
		return false;
	wanted = bytes_wanted(ask);
	return wanted > has && wanted <= has + fs->pending_bytes;
}

/* True: it is about who has what open or locked, or where that ends, which others have still to tell. */
static bool is_about_others(const Afar__FileHold *operation)
{
	switch (operation->what_case) {
	case AFAR__FILE_HOLD__WHAT_OPEN:
	case AFAR__FILE_HOLD__WHAT_APPEND:
	case AFAR__FILE_HOLD__WHAT_LOCK_LOOK:
		return true;
	case AFAR__FILE_HOLD__WHAT_LOCK:
		return operation->lock->mode != 0;
	default:
		return false;
	}
}

static bool is_reclaim(const Afar__FilesHold *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		if (is_about_others(ask->operations[i]))
			return false;
	return true;
}

/* Others may still write to what these are of, and tell where it ends. Locks see to themselves (lock_set()). */
static bool opens_or_appends(const Afar__FilesHold *ask)
{
	for (size_t i = 0; i < ask->n_operations; i++)
		if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN ||
		    ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_APPEND)
			return true;
	return false;
}

/*
 * ---- Files that clients have open and that their programs have closed. A client keeps a file that was open to read, in case that a program opens
 * it again, and does not say so. It ends that when it drops the file (FileRevoke). The manager asks for no drop once the delegation has run out. So
 * this asks: a file that loses its last name gives its room back, and one that is written the room behind its end. It comes when nobody is waited
 * for to drop anything: who has dropped the file has closed it so, too.
 *
 * A session that does not answer is waited for as it is for pages (recalls.c). After that the file is open there, as any file.
 */

static uint64_t later(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static uint64_t kept_wait_to_hold(struct core *core, struct event *event, const struct fs *fs)
{
	const Afar__FilesHold *ask = event->request->files_hold;
	uint64_t until = 0;

	for (size_t i = 0; i < ask->n_operations; i++) {
		const Afar__FileOpen *open = ask->operations[i]->open;

		if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN &&
		    (open->access & W_OK) &&
		    !open_is_refused(fs, ask->who, open->ino, open->access))
			until = later(until, kept_wait_for(core, event, fs, open->ino));
	}
	return until;
}

/* Until when it waits for the file of a name. `is_removed`: if that is its last one. */
static uint64_t wait_for_name(struct core *core, struct event *event, struct fs *fs, uint64_t dir,
			      const char *name, bool is_removed)
{
	const struct file *file;
	uint32_t type;
	uint64_t ino;

	if (check_name(name) < 0 || record_get_name(fs, dir, name, &ino, &type) < 0)
		return 0;
	/* One that is held is in memory. */
	file = file_cached(fs, ino);
	if (!file || !file->inode || inode_is_directory(file->inode) ||
	    (is_removed && file->inode->nlink > 1))
		return 0;
	return kept_wait_for(core, event, fs, ino);
}

static uint64_t kept_wait_to_change_one(struct core *core, struct event *event, struct fs *fs,
					const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		return ask->make->handle != 0 && (ask->make->access & W_OK) &&
				       !ask->make->is_nameless
			       ? wait_for_name(core, event, fs, ask->make->dir, ask->make->name,
					       false)
			       : 0;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		return wait_for_name(core, event, fs, ask->remove->dir, ask->remove->name, true);
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		return wait_for_name(core, event, fs, ask->rename->new_dir, ask->rename->new_name,
				     true);
	default:
		return 0;
	}
}

static uint64_t kept_wait_to_change(struct core *core, struct event *event, struct fs *fs)
{
	const Afar__FilesChange *ask = event->request->files_change;
	uint64_t until = 0;

	for (size_t i = 0; i < ask->n_operations; i++)
		until = later(until, kept_wait_to_change_one(core, event, fs, ask->operations[i]));
	return until;
}

/* ---- Calls */

int files_check_reclaimed(const struct fs *fs, const Afar__Request *request)
{
	if (fs->nr_unreclaimed == 0 || request->call_case == AFAR__REQUEST__CALL_FILES_LOOK ||
	    (request->call_case == AFAR__REQUEST__CALL_FILES_HOLD &&
	     !opens_or_appends(request->files_hold)))
		return 0;
	return error_fail(-EBUSY,
			  "use files of '%s': the manager has restarted, and %zu sessions have not "
			  "told yet what they have open; try again",
			  fs_namespace(fs)->name, fs->nr_unreclaimed);
}

/* Until sessions have told again what they have open, sizes may be from before what was acknowledged to them. They do as
 * soon as they are connected; what has ended is not waited for, because reading must not stop for a lease. */
static uint64_t wait_for_reclaims(const struct core *core, const struct event *event)
{
	uint64_t until = core->started_at + CORE_RECOVERY_NS;

	if (until <= core_now(core))
		return 0;
	return until < event->answer_by ? until : event->answer_by;
}

/* Those that ask where bytes are wait while these are being taken away. */
static uint64_t look_wait(struct core *core, struct event *event)
{
	const Afar__FilesLook *ask = event->request->files_look;
	struct fs *fs = files_find(core, ask->fs);
	uint64_t until = fs && fs->nr_unreclaimed != 0 ? wait_for_reclaims(core, event) : 0, wait;

	wait = fs ? drops_wait_to_look(core, event, fs) : 0;
	until = wait > until ? wait : until;
	wait = fs ? ends_wait(core, event, fs) : 0;
	until = wait > until ? wait : until;
	if (fs)
		questions_send(fs);
	for (size_t i = 0; i < ask->n_operations && fs; i++) {
		if (ask->operations[i]->what_case != AFAR__FILE_LOOK__WHAT_MAP)
			continue;
		wait = recall_wait_for(core, event, fs, ask->operations[i]->map->ino);
		until = wait > until ? wait : until;
	}
	return until;
}

static uint64_t append_wait(const struct event *event, const struct fs *fs, uint64_t ino)
{
	const struct file *file = file_cached(fs, ino);
	uint64_t until = file ? hold_append_until(file, event->session) : 0;

	return until < event->answer_by ? until : event->answer_by;
}

static uint64_t hold_wait(struct core *core, struct event *event)
{
	const Afar__FilesHold *ask = event->request->files_hold;
	struct fs *fs = files_find(core, ask->fs);
	uint64_t until = 0, wait;

	if (fs && fs->nr_unreclaimed != 0 && !is_reclaim(ask))
		return event->answer_by;
	if (fs && !hold_is_refused(core, event)) {
		until = delegations_wait_to_hold(core, event, fs);
		wait = drops_wait_to_hold(core, event, fs);
		until = wait > until ? wait : until;
		wait = ends_wait(core, event, fs);
		until = wait > until ? wait : until;
		wait = until <= core_now(core) ? kept_wait_to_hold(core, event, fs) : 0;
		questions_send(fs);
		until = wait > until ? wait : until;
	}
	for (size_t i = 0; i < ask->n_operations && fs; i++) {
		if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
			wait = recall_wait_for(core, event, fs, ask->operations[i]->open->ino);
		else if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_APPEND)
			wait = append_wait(event, fs, ask->operations[i]->append->ino);
		else if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_LOCK)
			wait = lock_wait_for(core, event, fs, ask->operations[i]->lock);
		else
			continue;
		until = wait > until ? wait : until;
	}
	return until;
}

static uint64_t change_wait(struct core *core, struct event *event)
{
	const Afar__FilesChange *ask = event->request->files_change;
	struct fs *fs = files_find(core, ask->fs);
	uint64_t until, wait;

	if (!fs)
		return 0;
	if (fs->nr_unreclaimed != 0)
		return event->answer_by;
	if (change_is_refused(core, event, fs))
		return 0;
	if (waits_for_scrubs(fs, ask)) {
		scrubs_hurry(fs);
		return event->answer_by;
	}
	until = delegations_wait_to_change(event, fs);
	wait = drops_wait_to_change(core, event, fs);
	until = wait > until ? wait : until;
	wait = ends_wait(core, event, fs);
	until = wait > until ? wait : until;
	wait = until <= core_now(core) ? kept_wait_to_change(core, event, fs) : 0;
	questions_send(fs);
	until = wait > until ? wait : until;
	wait = recalls_wait(core, event, fs, until <= core_now(core));
	until = wait > until ? wait : until;
	wait = wait_for_gone(event, fs, ask);
	until = wait > until ? wait : until;
	for (size_t i = 0; i < ask->n_operations; i++) {
		if (ask->operations[i]->what_case != AFAR__FILE_CHANGE__WHAT_EXTEND)
			continue;
		wait = recall_wait_for(core, event, fs, ask->operations[i]->extend->ino);
		until = wait > until ? wait : until;
	}
	return until;
}

uint64_t files_wait(struct core *core, struct event *event)
{
	switch (event->request->call_case) {
	case AFAR__REQUEST__CALL_FILES_LOOK:
		return look_wait(core, event);
	case AFAR__REQUEST__CALL_FILES_HOLD:
		return hold_wait(core, event);
	default:
		return change_wait(core, event);
	}
}

uint64_t files_wait_to_release(struct core *core, struct event *event)
{
	struct fs *fs = files_find(core, event->request->namespace_release->namespace_);
	uint64_t until = 0;

	if (!fs)
		return 0;
	if (fs->gone.nr_units != 0)
		until = gone_wait(fs, event->session);
	if (fs->pending_bytes != 0 && (fs->sweep != 0 || scrubs_can_hurry(fs))) {
		scrubs_hurry(fs);
		until = event->answer_by;
	}
	return until < event->answer_by ? until : event->answer_by;
}
