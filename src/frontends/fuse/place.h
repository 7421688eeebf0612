/* SPDX-License-Identifier: BSD-3-Clause */
/* The directory that is mounted over, and what the machine must have for that. */
#ifndef FUSE_PLACE_H
#define FUSE_PLACE_H

#include "options.h"

/* Makes `options->place` absolute, and looks whether a mount can be made there. Clears away a mount of
 * ours whose process has died. Returns 0 or EXIT_FAILED, with a line. */
int place_prepare(struct mount_options *options);
/* Has the kernel refuse to write, or not any more, and changes nothing else of what is mounted there. Likewise. */
int place_remount(const struct mount_options *options);

#endif
