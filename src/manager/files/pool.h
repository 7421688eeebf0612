/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of a file system: its parts that files have, and those that are free, being zeroed, lost, or given back. */
#ifndef MANAGER_FILES_POOL_H
#define MANAGER_FILES_POOL_H

#include "manager/files/table.h"

/* ---- runs.c */

/* Reads them if need be. */
int file_load_runs(struct file *file);
/* Adds runs where nothing is, ascending; at least one. Stores them. Copies the file's runs once, so give it all that are
 * added together. */
int file_add_runs(struct file *file, const struct run *run, size_t nr);
/* In a file, from the first to behind the last. */
struct units {
	uint64_t from, to;
};
/* Takes units out that are listed, ascending, and lists what of the pool that was; the caller frees that list. Stores
 * it. */
int file_cut_runs(struct file *file, const struct units *list, size_t nr, struct run **out,
		  size_t *nr_out);
/* Tells the runs that touch any of these units, which ascend. */
int file_tell_runs(struct file *file, const struct units *list, size_t nr,
		   Afar__FileResult *result);
/* The first run that ends behind `unit`: its index, or the number of runs. */
size_t runs_find(const struct runs *runs, uint64_t unit);
/* How many of them are not the slot. */
static inline size_t runs_count(const struct runs *runs)
{
	return runs->nr - (runs->nr != 0 && runs->run[runs->nr - 1].unit >= FILE_SLOT_UNIT);
}

/* ---- pool.c */

/* A search for room where a file's stripes are to be. All takes of one request share it, so that none looks again where there is none. Begins
 * as zeros. */
struct pool_search {
	unsigned nr_passed; /* pieces of the pool that were in vain */
	bool is_full[LAYOUT_WIDTH_MAX];
};
/* From where room is taken. */
struct pool_wish {
	uint64_t near;	  /* the unit that is best; 0: none */
	bool is_anywhere; /* also at servers that are away */
	/* The room is for this file, from unit `at` on, so each stripe of it is to be in its place; NULL: in none. `may_stray`: where
	 * there is no room, any other will do. */
	const struct file *striped;
	uint64_t at;
	bool may_stray;
	struct pool_search *search;
};
/* Takes `nr` units in few runs, the first at `near` if that is free. Each run is given to `take`. It
 * takes fewer if there are not so many, and returns how many; negative: `take` failed, or -ENOMEM. */
int64_t pool_take(struct fs *fs, const struct pool_wish *wish, uint64_t nr,
		  int (*take)(void *argument, uint64_t pool_unit, uint64_t nr), void *argument);
/* Returns whether servers that are there have room for so many bytes. */
bool pool_has_room(const struct fs *fs, uint64_t bytes);
/* Returns whether all servers of the pool are there, or none: then it does not matter which of them gives
 * room. */
bool pool_is_whole(const struct fs *fs);
/* -EINVAL: no file can be spread over the pool's servers like that. Each 0: as the pool is. */
int stripes_check(const struct fs *fs, uint64_t stripe_bytes, uint32_t width);
/* Both 0: as the pool is. Others have been checked. */
void inode_set_stripes(struct inode *inode, const struct fs *fs, uint64_t stripe_bytes,
		       uint32_t width);
bool inode_has_sane_stripes(const struct inode *inode);
/* -E2BIG: so many units are more stripes of the file than one request may take. */
int stripes_check_units(const struct file *file, uint64_t nr);
/* Gives runs back, which are free when they are zeroed. Takes the list over. */
int pool_give(struct fs *fs, struct run *runs, size_t nr);
/* Gives back what has been zeroed. */
int pool_give_zeroed(struct scrub *scrub);
/* The pool may have grown since. -ENOMEM. */
int pool_look(struct fs *fs);

/* ---- limits.c */

bool limits_allow_inode(const struct fs *fs);
/* -EDQUOT: no inode can be made. */
int limits_check_inodes(const struct fs *fs);
/* Returns how many units more its files may have. */
uint64_t limits_room(const struct fs *fs);
/* -EDQUOT: they may not have so many more. */
int limits_check_units(const struct fs *fs, uint64_t nr);
/* Returns whether a server, or store, could lend more. */
bool limits_home_has_room(const struct core *core, const struct layout_home *home);
/* Returns how many bytes the pool could become larger by: servers, or stores, could still lend them. */
uint64_t limits_pool_room(const struct core *core, const struct namespace *ns);

/* ---- lengths.c */

struct file_wish {
	struct units *list; /* ascending, none in another; at least one */
	size_t nr;
	bool is_exact;	  /* no more than that */
	bool is_anywhere; /* also at servers that are away */
	bool may_stray;	  /* as in pool_wish */
	/* So many units have been written of those that came ahead and end there; 0: not known. */
	uint64_t ahead_to, ahead_used;
	uint64_t
		extra_used; /* so many of the others that it had not asked for, since it last told */
	bool gives_back;    /* such as it has not written when it closes the file */
};
/* Takes what a client asks for. The caller frees the list. -EFBIG; -EINVAL, -E2BIG: the list is none. */
int file_wish_take(const Afar__FileExtend *ask, struct file_wish *out);
/* A wish with the units that came beyond it: around it in holes, and last ahead. Ascending, none in another. */
struct file_room {
	struct units *list; /* the caller frees it */
	size_t nr;
};
/* Its slot gets a unit, if it has none. -ENOSPC, -EDQUOT. */
int file_take_slot(struct file *file);
/* All of the list gets its room, or none. */
int file_extend(struct file *file, const struct file_wish *wish, struct file_room *room);
/* Tells what of the room came beyond the wish. */
int file_tell_extra(const struct file_wish *wish, const struct file_room *room,
		    Afar__FileResult *result);
/* Makes room at the beginning of a new file, which it is not yet told of as its own. */
int file_prepare(struct file *file, uint64_t bytes);
/* Returns whether a range of an empty file is room that nobody has asked for, or written, since it was made. */
bool file_is_spare(const struct file *file, uint64_t offset, uint64_t length);
/* Returns how many units a file has, without those that nobody has asked for yet. */
uint64_t inode_asked_units(const struct inode *inode);
/* Has others give the file up before its end is zeroed. -EBUSY: another session has it open, and has not. */
int file_give_up(struct file *file, const struct session *session);
/* Sets a size. A smaller one gives units back. -EBUSY: another session has it open. */
int file_resize(struct file *file, const struct session *session, uint64_t size);
int file_punch(struct file *file, const struct session *session, uint64_t offset, uint64_t length);
/* Gives back units that nobody has written, ascending, unless another session has it open. */
int file_give_back(struct file *file, const struct session *session, const struct units *list,
		   size_t nr);
/* Gives back units behind the end. */
int file_trim(struct file *file, const struct session *session);
/* Does so when nobody has it open any more. */
int file_trim_closed(struct file *file);
/* Notes in its record whether it has room ahead, so that this goes back also if the manager ends. -ENOMEM. */
int file_note_ahead(struct file *file, bool is_ahead);

/* ---- scrubs.c */

void scrubs_drive(struct fs *fs);
/* Tells if the next sweep can begin at once; and begins it, because somebody waits for what is to
 * be zeroed. */
bool scrubs_can_hurry(const struct fs *fs);
void scrubs_hurry(struct fs *fs);

/* ---- lost.c */

/* Takes out of a list of runs what is lost, and says how many units that was. The list stays the caller's,
 * and may be another one afterwards. */
int lost_leave_out(const struct fs *fs, struct run **runs, size_t *nr, uint64_t *nr_lost);
/* Takes it out of what is free. -ENOMEM. */
int lost_leave_space(struct fs *fs);
/* Does so when the file system has just been read: nothing is noted. */
int lost_load(struct fs *fs);
/* Files have so many lost units from now on. -ENOMEM. */
int lost_count(struct fs *fs, uint64_t nr_units);

/* ---- lost_list.c */

/* Lists the names of files that have lost something, of inodes above `after`. */
int lost_list(struct fs *fs, const Afar__FileSystemLost *ask, Afar__FileResult *result);

/* ---- shrink.c */

/* Returns how many bytes of extents that the pool has not grown into can be released anyway. */
uint64_t pool_unused_bytes(const struct namespace *ns);

#endif
