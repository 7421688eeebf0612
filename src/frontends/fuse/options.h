/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a mount: by `afar mount`, or by mount(8) for fstab and systemd. */
#ifndef FUSE_OPTIONS_H
#define FUSE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define RETRY_FOR_EVER UINT32_MAX /* ms: seven weeks */

/* The texts are the process's for its whole life. */
struct mount_options {
	char *source; /* as it was given: the first column of /proc/mounts */
	char *place;  /* the directory; absolute once place_prepare() has found it */
	char *fs;     /* the file system's name */
	char *subdir; /* the directory of it that is shown; NULL: its root */
	char *cluster, *key_file, *path; /* of the session; NULL: defaults */
	char *fuse;	    /* "-o" for libfuse: what the kernel and fusermount3 take */
	unsigned timeout_s; /* 0: the default */
	uint32_t retry_ms;
	uint32_t begin_ms; /* how long to wait for the cluster before there is a mount */
	double age_s;	   /* names and attributes may be so old */
	unsigned nr_threads;
	bool is_read_only;
	bool is_direct;		  /* no page cache */
	bool are_locks_local;	  /* other mounts do not see them */
	bool is_for_others;	  /* allow_other */
	bool is_over_others;	  /* nonempty */
	bool is_bypass_forbidden; /* programs may not go to the servers themselves */
	bool is_foreground;
	bool is_remount; /* it is mounted, and becomes read only or not: place_remount() */
	char asked[600]; /* "mount SOURCE at PLACE", for messages */
};

/* Takes `SOURCE PLACE [-o OPTION,…] [-f]`, and what mount(8) adds. Returns 0 or an exit status, with a
 * line; after --help, too, with `*is_done` true. */
int options_parse(int argc, char **argv, struct mount_options *out, bool *is_done);

#endif
