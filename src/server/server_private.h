/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's parts, for its two doors: server.c and view.c. */
#ifndef SERVER_SERVER_PRIVATE_H
#define SERVER_SERVER_PRIVATE_H

#include <limits.h>

#include "base/uri.h"
#include "server/control/control.h"
#include "server/control/fence.h"
#include "server/control/incarnation.h"
#include "server/control/membership.h"
#include "server/control/tickets.h"
#include "server/data/lanes.h"
#include "server/memory/extent.h"
#include "server/server.h"
#include "server/stores/pressure.h"
#include "server/stores/stores.h"

#define NAME_MAX_BYTES 256

struct server {
	/* Copies of the options, so that the caller need not keep those. */
	char name[NAME_MAX_BYTES];
	char manager_host[URI_HOST_MAX];
	char folder[PATH_MAX];
	struct key key;
	uint64_t started_at; /* on clock_ns() */

	struct incarnation incarnation;
	struct lanes *lanes;
	struct tickets *tickets;
	struct extent_pool *pool;
	struct stores stores;
	struct pressure *pressure; /* NULL: nobody asks for it */
	struct control *control;
	struct fence fence;
	struct membership *membership;
};

#endif
