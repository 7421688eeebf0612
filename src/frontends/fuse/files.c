/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files: reading and writing go between the kernel's request and the servers with one copy,
 * which is the kernel's own. Writes are sent from where libfuse has received them. Reads go to a
 * buffer of the thread's and from there to the kernel.
 *
 * close(2) ends in a flush, whose error the program gets; the release comes later, and nobody waits
 * for it. So after the flush everybody sees the file as it is now, and the release commits that.
 *
 * libfuse's threads call this.
 */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leases.h"
#include "locks.h"
#include "open_files.h"
#include "pages.h"
#include "session.h"

#define EXECUTES 0x20 /* the kernel's __FMODE_EXEC: it opens a program to run it */

/* ---- Opening */

/* Tells the kernel how to treat the file. `keeps_pages`: those of before are good. Appended bytes go to where the file ends when they are written, which the
 * kernel does not know: so not through its pages. */
static void fill_info(const struct mount *mount, struct open_file *open,
		      struct fuse_file_info *info, bool keeps_pages)
{
	info->fh = (uintptr_t)open;
	info->keep_cache = keeps_pages;
	info->direct_io = open->is_direct;
#ifdef HAS_FUSE_PARALLEL_DIRECT_WRITES
	/* Linux goes on making writes that append, or make the file longer, one after the other. */
	info->parallel_direct_writes = open->is_direct && !(open->flags & O_APPEND);
#endif
	/* A flush unlocks, too. */
	info->noflush = mount->options->are_locks_local && (open->flags & O_ACCMODE) == O_RDONLY;
}

/* Takes what the library has opened. `*are_good`: the pages that the kernel has of it. -ENOMEM: it is closed. */
static int take_open(struct mount *mount, struct open_file *open, bool *are_good)
{
	open->is_direct = !afar_file_may_keep(open->first);
	open_file_advise(open, open->first);
	open->pages = pages_open(mount, open->ino, are_good);
	if (!open->pages) {
		CALL(mount, afar_file_close(open->first));
		return -ENOMEM;
	}
	open_file_add(open);
	return 0;
}

static void end_open(struct mount *mount, struct open_file *open)
{
	CALL(mount, open_file_close_later(open));
	open_file_remove(open);
}

/* Answers an open or a create that has failed. */
static void refuse(fuse_req_t req, struct open_file *open, int64_t ret)
{
	if (open)
		open_file_free(open);
	answer(req, ret);
}

void do_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct open_file *open = open_file_new(req, info->flags);
	const struct afar_who *who = open ? &open->asker.who : NULL;
	int64_t ret = -ENOMEM;
	bool are_good;

	/* To run a program it need not be readable; the kernel has seen that it may be run. */
	if (info->flags & EXECUTES)
		who = &superuser;
	if (open) {
		open->ino = ino_of(mount, node);
		ret = CALL(mount,
			   afar_file_open(mount->fs, who, open->ino, info->flags, &open->first));
	}
	if (!ret)
		ret = take_open(mount, open, &are_good);
	if (ret) {
		refuse(req, open, ret);
		return;
	}
	fill_info(mount, open, info, are_good);
	if (fuse_reply_open(req, info) == -ENOENT)
		end_open(mount, open); /* the program was interrupted, and will not release it */
}

/* `name`: NULL: it has none. */
static void create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		   struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct open_file *open = open_file_new(req, info->flags);
	struct fuse_entry_param entry;
	int64_t ret = -ENOMEM;
	bool are_good;

	lease_stop(mount, ino_of(mount, parent));
	if (open)
		ret = CALL(mount,
			   afar_file_create(mount->fs, &open->asker.who, ino_of(mount, parent),
					    name, mode, info->flags, &open->first, &stat));
	if (!ret) {
		open->ino = stat.ino;
		ret = take_open(mount, open, &are_good);
	}
	if (ret) {
		refuse(req, open, ret);
		return;
	}
	fill_info(mount, open, info, are_good);
	fill_entry(mount, &stat, &entry);
	if (fuse_reply_create(req, &entry, info) == -ENOENT) {
		end_open(mount, open);
		forget_node(mount, entry.ino, 1);
	}
}

void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *info)
{
	create(req, parent, name, mode, info);
}

void do_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *info)
{
	info->flags |= O_TMPFILE;
	create(req, parent, NULL, mode, info);
}

/* ---- Reading and writing */

static pthread_once_t buffers_once = PTHREAD_ONCE_INIT;
static pthread_key_t buffers;

static void free_buffer(void *buffer)
{
	munmap(buffer, REQUEST_MAX);
}

static void begin_buffers(void)
{
	pthread_key_create(&buffers, free_buffer);
}

/* Returns the calling thread's own buffer of REQUEST_MAX bytes; NULL: no memory. */
static void *buffer_of_thread(void)
{
	void *buffer;

	pthread_once(&buffers_once, begin_buffers);
	buffer = pthread_getspecific(buffers);
	if (buffer)
		return buffer;
	buffer =
		mmap(NULL, REQUEST_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		return NULL;
	pthread_setspecific(buffers, buffer);
	return buffer;
}

static ssize_t read_file(const struct mount *mount, struct open_file *open, void *buffer,
			 size_t size, off_t offset)
{
	struct afar_file *file;
	int ret = open_file_find_first(mount, open, &file);

	return ret ? ret : afar_file_pread(file, buffer, size, (uint64_t)offset);
}

static int stat_file(struct mount *mount, struct open_file *open, struct afar_file_stat *out)
{
	struct afar_file *file;
	int ret = open_file_find_first(mount, open, &file);

	return ret ? ret : afar_file_stat(file, out);
}

static int stat_soon(struct mount *mount, struct open_file *open, struct afar_file_stat *out)
{
	struct afar_file *file;
	int ret = open_file_find_first(mount, open, &file);

	return ret ? ret : afar_file_stat_within(file, pages_patience(), out);
}

/* Gives size and times for a program that reads: as the manager says or, if it does not answer, as the kernel was told last. */
static int64_t stat_to_read(struct mount *mount, struct open_file *open, struct afar_file_stat *out)
{
	struct afar_file_stat last;
	int64_t ret;

	*out = (struct afar_file_stat){.size = sizeof(*out)};
	ret = CALL(mount, stat_soon(mount, open, out));
	if (ret == -ETIMEDOUT || ret == -AFAR_EMANAGER) {
		if (!pages_last_attributes(open->pages, &last))
			return CALL(mount, stat_file(mount, open, out));
		pages_set_silent(mount, open->pages, true);
		*out = last;
		return 0;
	}
	if (!ret) {
		pages_note_to_read(open->pages, out);
		pages_set_silent(mount, open->pages, false);
	}
	return ret;
}

/* The time may be one that the kernel was told before: then it does not answer programs from that. */
static void answer_good(fuse_req_t req, struct afar_file_stat *stat)
{
	struct mount *mount = mount_of(req);
	const int64_t mtime = stat->mtime;
	double seconds = lease_in_time(lease_give(mount, stat));

	if (stat->mtime != mtime)
		seconds = 0;
	stat->mtime = mtime;
	answer_attributes_for(req, stat, seconds);
	lease_given(mount, stat->ino, seconds);
}

void do_getattr_to_read(fuse_req_t req, const struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct open_file *open = open_file_of(info);
	struct afar_file_stat stat;
	const int64_t ret = stat_to_read(mount, open, &stat);

	if (ret)
		answer(req, ret);
	else if (pages_are_good(mount, open->pages))
		answer_good(req, &stat);
	else
		pages_drop_and_answer(mount, open->pages, req, &stat);
}

/* Returns how much of a request is inside the file. The library would have to ask the manager for bytes behind the end. */
static size_t size_to_read(struct mount *mount, struct open_file *open, size_t size, off_t offset)
{
	const uint64_t from = (uint64_t)offset;
	struct afar_file_stat stat;

	if (size > REQUEST_MAX)
		size = REQUEST_MAX;
	if (pages_last_attributes(open->pages, &stat) && from + size <= stat.bytes)
		return size;
	if (stat_to_read(mount, open, &stat) || from + size <= stat.bytes)
		return size;
	return from < stat.bytes ? (size_t)(stat.bytes - from) : 0;
}

void do_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
	     struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct open_file *open = open_file_of(info);
	void *buffer = buffer_of_thread();
	/* A read for the kernel's pages has no owner. */
	const bool is_passing = open->is_direct && info->lock_owner == 0;
	const bool is_filling = !open->is_direct || is_passing;
	struct filling filling;
	int64_t length = -ENOMEM;

	(void)node;
	if (is_filling)
		pages_begin(mount, open->pages, false, &filling);
	size = size_to_read(mount, open, size, offset);
	if (buffer)
		length = size ? CALL(mount, read_file(mount, open, buffer, size, offset)) : 0;
	if (is_passing)
		pages_end_passing(mount, open->pages, &filling);
	else if (is_filling)
		pages_end_filling(mount, open->pages, &filling);
	if (length < 0)
		answer(req, length);
	else
		fuse_reply_buf(req, buffer, (size_t)length);
}

/* Drops setuid and setgid before a write that does not go through the kernel's pages. The kernel drops them only before those
 * that do. Somebody may have set them since the last one; mostly that is known without asking. */
static int drop_ids(const struct mount *mount, struct open_file *open, struct afar_file *file)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	unsigned drop = S_ISUID;
	int ret = afar_file_stat(file, &stat);

	/* Without x for the group, setgid is no right. */
	if (stat.mode & S_IXGRP)
		drop |= S_ISGID;
	if (ret || !(stat.mode & drop))
		return ret;
	stat.mode &= ~drop;
	return afar_fs_setattr(mount->fs, &superuser, open->ino, AFAR_SET_MODE, &stat, NULL);
}

/* A request of a write. */
struct writing {
	const void *data;
	size_t size;
	uint64_t offset; /* becomes where it was written */
	bool is_append;
	bool is_dropping; /* setuid and setgid */
};

/* Returns whether the kernel may have cut a write here. It cuts where a request is full, to within a page of the program's memory.
 * It also cuts behind the first page of the file if it did not know all of that. Then the rest comes at once. */
static bool may_be_cut(const struct open_file *open, const struct writing *writing)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = writing->offset % page;

	if (writing->size > REQUEST_MAX - page)
		return true;
	return !open->is_direct && from != 0 && from + writing->size == page;
}

static ssize_t append_file(struct open_file *open, struct afar_file *file, struct writing *writing)
{
	const unsigned flags = may_be_cut(open, writing) ? AFAR_APPEND_MORE : 0;

	return afar_file_append(file, writing->data, writing->size, flags, &writing->offset);
}

static ssize_t write_file(const struct mount *mount, struct open_file *open,
			  struct writing *writing)
{
	struct afar_file *file;
	int ret = writing->is_append ? open_file_find_first(mount, open, &file)
				     : open_file_find(mount, open, false, &file);

	if (!ret && writing->is_dropping)
		ret = drop_ids(mount, open, file);
	if (ret)
		return ret;
	return writing->is_append
		       ? append_file(open, file, writing)
		       : afar_file_pwrite(file, writing->data, writing->size, writing->offset);
}

/* A page of a shared mapping has its place, whatever the handle's flags are. */
void do_write(fuse_req_t req, fuse_ino_t node, const char *data, size_t size, off_t offset,
	      struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct open_file *open = open_file_of(info);
	struct writing writing = {
		.data = data,
		.size = size,
		.offset = (uint64_t)offset,
		.is_append = info->flags & O_APPEND && !info->writepage,
		.is_dropping = (open->is_direct || open->flags & O_DIRECT) && !info->writepage &&
			       fuse_req_ctx(req)->uid != 0,
	};
	/* The kernel keeps what it writes. */
	const bool is_filling = !open->is_direct && !info->writepage;
	struct filling filling;
	int64_t length;

	(void)node;
	if (info->writepage)
		lease_stop(mount, open->ino);
	if (is_filling)
		pages_begin(mount, open->pages, true, &filling);
	open->is_written = true;
	length = CALL(mount, write_file(mount, open, &writing));
	if (is_filling)
		pages_end_writing(mount, open->pages, &filling);
	/* The end that the kernel knows, where it has put what is appended, may be an older one. */
	if (open->is_direct || writing.is_append)
		pages_passed_by(open->pages);
	if (length > 0)
		pages_note_end(open->pages, writing.offset + (uint64_t)length);
	if (length < 0)
		answer(req, length);
	else
		fuse_reply_write(req, (size_t)length);
}

/* ---- Flushing and syncing */

/* Gives up what its program has locked, also if the flush fails. */
static int flush(const struct mount *mount, const struct fuse_file_info *info)
{
	int ret = file_flush(info);
	int unlocked = locks_unlock(mount, file_if_open(info), info->lock_owner);

	return ret ? ret : unlocked;
}

/* Each close(2) of a descriptor comes here, also where others of it stay open. */
void do_flush(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);

	(void)node;
	answer(req, CALL(mount, flush(mount, info)));
}

void do_fsync(fuse_req_t req, fuse_ino_t node, int is_data_only, struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	struct open_file *open = open_file_of(info);
	struct afar_file *file;

	(void)node;
	(void)is_data_only;
	answer(req, CALL(mount, open_file_find_first(mount, open, &file) ?: open_file_sync(open)));
}

void do_release(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *info)
{
	(void)node;
	end_open(mount_of(req), open_file_of(info));
	fuse_reply_err(req, 0);
}

/* ---- Room */

static int allocate(const struct mount *mount, struct open_file *open, unsigned flags, off_t offset,
		    off_t length)
{
	struct afar_file *file;
	int ret = open_file_find_first(mount, open, &file);

	return ret ? ret : afar_file_allocate(file, flags, (uint64_t)offset, (uint64_t)length);
}

void do_fallocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t length,
		  struct fuse_file_info *info)
{
	static const struct {
		int theirs;
		unsigned ours;
	} bits[] = {
		{FALLOC_FL_KEEP_SIZE, AFAR_ALLOCATE_KEEP_SIZE},
		{FALLOC_FL_PUNCH_HOLE, AFAR_ALLOCATE_PUNCH},
		{FALLOC_FL_ZERO_RANGE, AFAR_ALLOCATE_ZERO},
	};
	struct mount *mount = mount_of(req);
	struct open_file *open = open_file_of(info);
	unsigned flags = 0;

	(void)node;
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if (mode & bits[i].theirs)
			flags |= bits[i].ours;
		mode &= ~bits[i].theirs;
	}
	if (mode) {
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	open->is_written = true;
	answer(req, CALL(mount, allocate(mount, open, flags, offset, length)));
}

static int64_t seek(const struct mount *mount, struct open_file *open, off_t offset, bool is_hole)
{
	struct afar_file *file;
	int ret = open_file_find_first(mount, open, &file);

	return ret ? ret : afar_file_seek(file, (uint64_t)offset, is_hole);
}

void do_lseek(fuse_req_t req, fuse_ino_t node, off_t offset, int whence,
	      struct fuse_file_info *info)
{
	struct mount *mount = mount_of(req);
	int64_t found;

	(void)node;
	if (whence != SEEK_DATA && whence != SEEK_HOLE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	found = offset < 0
			? -ENXIO
			: CALL(mount, seek(mount, open_file_of(info), offset, whence == SEEK_HOLE));
	if (found < 0)
		answer(req, found);
	else
		fuse_reply_lseek(req, found);
}
