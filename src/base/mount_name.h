/* SPDX-License-Identifier: BSD-3-Clause */
/* The abstract socket's name by which `afar umount` finds the process of a mount. */
#ifndef BASE_MOUNT_NAME_H
#define BASE_MOUNT_NAME_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MOUNT_NAME_TAIL 64 /* bytes of the place that it ends with */

/* Makes the name of a mount with this device, at `place`. Returns the address' length. */
static inline socklen_t mount_name(struct sockaddr_un *out, unsigned major, unsigned minor,
				   const char *place)
{
	const size_t length = strlen(place);
	int named;

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	named = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "afar-mount/%u:%u/%s", major,
			 minor, place + (length > MOUNT_NAME_TAIL ? length - MOUNT_NAME_TAIL : 0));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)named);
}

#endif
