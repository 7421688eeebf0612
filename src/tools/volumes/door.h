/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket at which an export is served: a Unix socket that only its user can connect to, or a TCP
 * port. */
#ifndef TOOLS_DOOR_H
#define TOOLS_DOOR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct door {
	int fd;			     /* it listens */
	char folder[PATH_MAX];	     /* was made for the socket; empty: none */
	char path[PATH_MAX];	     /* of the Unix socket; empty: TCP */
	char uri[3 * PATH_MAX + 64]; /* for NBD clients */
	bool is_local;		     /* nobody on other machines can connect */
};

/* They fill in `*door` and return 0, or CLI_FAILED with a line that begins with `asked`. */
/* Makes a private folder, with a socket in it. */
int door_open_private(struct door *door, const char *asked);
/* Makes a socket of this name. Takes the place of one at which nobody listens any more. */
int door_open_path(struct door *door, const char *asked, const char *path);
/* Listens on a port; 0: on one that is free. */
int door_open_port(struct door *door, const char *asked, const char *address, uint16_t port);

/* Closes it. Removes what was made. */
void door_close(struct door *door);

#endif
