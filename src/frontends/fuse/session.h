/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session of a mount. The manager ends one that it has not heard of for too long: that of a machine
 * that slept, or was cut off. The mount goes on with another; its open files are opened again.
 */
#ifndef FUSE_SESSION_H
#define FUSE_SESSION_H

#include "mount.h"

/* Opens session and file system. Returns 0 or the library's error. */
int session_begin(struct mount *mount);
/* Closes them; no call is under way, and no file is open. */
void session_end(struct mount *mount);

/* Each call of the library that needs the file system is made between these two, by CALL(). */
/* Returns 0, or the error to go on with if there is no session just now. */
int session_enter(struct mount *mount);
/* Returns true if the session had ended and there is another: the call is to be made again. */
bool session_leave(struct mount *mount, int64_t ret);

/* The value of a call, made again if need be. */
#define CALL(mount, call)                             \
	({                                            \
		int64_t ret_;                         \
		do {                                  \
			ret_ = session_enter(mount);  \
			if (!ret_)                    \
				ret_ = (call);        \
		} while (session_leave(mount, ret_)); \
		ret_;                                 \
	})

#endif
