/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine knows a mount by: the number of its device. */
#ifndef FUSE_DEVICE_H
#define FUSE_DEVICE_H

/* Call both once the mount is there. It is no reason to fail if they do. */
/* Lets `afar umount` wait for the end of this process: it connects to a socket that is called after
 * the device, and that connection ends when the process does. */
void device_listen(const char *place);
/* Has the kernel read ahead by whole requests; for root. By itself it does so by 128 KiB, which is little for a
 * file system whose servers are far away. */
void device_read_ahead(const char *place);

#endif
