/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets `afar umount` wait for the end of this process: it connects to a socket that is called after
 * the mount's device, and that connection ends when the process does. */
#ifndef FUSE_PRESENCE_H
#define FUSE_PRESENCE_H

/* Call it once the mount is there. It is no reason to fail if this does. */
void presence_begin(const char *place);

#endif
