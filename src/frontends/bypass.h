/* SPDX-License-Identifier: BSD-3-Clause */
/* The ioctl by which a mount tells programs how its files are reached without it: fuse/bypass.c answers, preload/enter.c and
 * mpiio/names.c ask. */
#ifndef FRONTENDS_BYPASS_H
#define FRONTENDS_BYPASS_H

#include <assert.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define BYPASS_VERSION 1U
#define BYPASS_ALLOWED 0x1U

struct bypass_answer {
	uint32_t version;
	uint32_t flags;	   /* BYPASS_ALLOWED; without it nothing else is told */
	uint64_t ino;	   /* of the file, or the directory, that is asked; 0: it is none */
	uint64_t identity; /* of the file system: afar_fs_identity() */
	uint32_t
		retry_ms; /* the mount's patience and timeout: afar_fs_options, afar_session_options */
	uint32_t timeout_ms;
	char path[32];	/* transport; "": any */
	char fs[256];	/* the file system's name */
	char uri[3776]; /* of the cluster, with the key's file */
};
static_assert(sizeof(struct bypass_answer) == 4096, "all members, and nothing between them");

#define BYPASS_ASK _IOR(0xAF, 0x42, struct bypass_answer)

#endif
