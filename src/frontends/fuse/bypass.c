/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells programs how they reach a file or a directory of the mount's themselves: which cluster, which file system, which inode. They still need a key
 * that lets them in, and the manager checks what their user may do. Owns nothing.
 */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "frontends/bypass.h"
#include "open_files.h"
#include "session.h"

/* Returns whether all of `text` is there. */
static bool put(char *out, size_t size, const char *text)
{
	const int length = snprintf(out, size, "%s", text ? text : "");

	return length >= 0 && (size_t)length < size;
}

static void fill(const struct mount *mount, fuse_ino_t node, struct bypass_answer *out)
{
	const struct mount_options *options = mount->options;

	if (options->is_bypass_forbidden || !mount->cluster ||
	    !put(out->uri, sizeof(out->uri), mount->cluster) ||
	    !put(out->fs, sizeof(out->fs), options->fs) ||
	    !put(out->path, sizeof(out->path), options->path)) {
		*out = (struct bypass_answer){.version = BYPASS_VERSION};
		return;
	}
	out->version = BYPASS_VERSION;
	out->flags = BYPASS_ALLOWED;
	out->ino = ino_of(mount, node);
	out->identity = mount->identity;
	out->retry_ms = options->retry_ms;
	out->timeout_ms = options->timeout_s * 1000;
}

/* From now on a sync through the mount covers what programs write past it. */
static void sync_for_others(struct mount *mount)
{
	mount->has_other_writers = true; /* for later sessions */
	CALL(mount, afar_fs_sync_others(mount->fs));
}

void do_ioctl(fuse_req_t req, fuse_ino_t node, unsigned command, void *argument,
	      struct fuse_file_info *info, unsigned flags, const void *data, size_t size,
	      size_t out_size)
{
	struct mount *mount = mount_of(req);
	struct bypass_answer out = {0};

	(void)argument;
	(void)data;
	(void)size;
	if (command != (unsigned)BYPASS_ASK || out_size < sizeof(out)) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	fill(mount, node, &out);
	/* A program that asks about a directory may write to any file there. */
	if (out.flags & BYPASS_ALLOWED &&
	    (flags & FUSE_IOCTL_DIR || (open_file_of(info)->flags & O_ACCMODE) != O_RDONLY))
		sync_for_others(mount);
	fuse_reply_ioctl(req, 0, &out, sizeof(out));
}
