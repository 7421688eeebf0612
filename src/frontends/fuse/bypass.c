/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells programs how they reach a file of the mount's themselves: which cluster, which file system, which inode. They still need a key
 * that lets them in, and the manager checks what their user may do. Owns nothing.
 */
#include "mount.h"

#include <errno.h>
#include <stdio.h>

#include "frontends/bypass.h"

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

void do_ioctl(fuse_req_t req, fuse_ino_t node, unsigned command, void *argument,
	      struct fuse_file_info *info, unsigned flags, const void *data, size_t size,
	      size_t out_size)
{
	struct bypass_answer out = {0};

	(void)argument;
	(void)info;
	(void)flags;
	(void)data;
	(void)size;
	if (command != (unsigned)BYPASS_ASK || out_size < sizeof(out)) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	fill(mount_of(req), node, &out);
	fuse_reply_ioctl(req, 0, &out, sizeof(out));
}
