/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that clients have open and that their programs have closed. A client keeps a file that was open to read, in case that a program opens it
 * again, and does not say so. It ends that when it drops the file (FileRevoke). The manager asks for no drop once the delegation has run out. So
 * this asks: a file that loses its last name gives its room back, and one that is written the room behind its end.
 *
 * A session that does not answer is waited for as it is for pages (recalls.c). After that the file is open there, as any file.
 */
#include <unistd.h>

#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

static uint64_t later(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

uint64_t kept_wait_to_hold(struct core *core, struct event *event, const struct fs *fs)
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

static uint64_t wait_to_change(struct core *core, struct event *event, struct fs *fs,
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

uint64_t kept_wait_to_change(struct core *core, struct event *event, struct fs *fs)
{
	const Afar__FilesChange *ask = event->request->files_change;
	uint64_t until = 0;

	for (size_t i = 0; i < ask->n_operations; i++)
		until = later(until, wait_to_change(core, event, fs, ask->operations[i]));
	return until;
}
