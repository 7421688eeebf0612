/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of a mount's device, by which the machine knows the mount. */
#ifndef FUSE_DEVICE_H
#define FUSE_DEVICE_H

/* Call these once the mount is there. It is no reason to fail if they do. */
/* Lets `afar umount` wait for the end of this process. It connects to a socket that is called after the device and the
 * place. The connection ends when the process does. `connection` is /dev/fuse, open until device_leave(). Says so if
 * it cannot. */
void device_listen(const char *place, int connection);
/* Gives the socket's name up. Those that have connected still wait. */
void device_leave(void);
/* Has the kernel read ahead by whole requests; for root. By itself it does so by 128 KiB, which is little for a
 * file system whose servers are far away. */
void device_read_ahead(const char *place);

#endif
