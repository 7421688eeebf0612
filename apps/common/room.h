/* SPDX-License-Identifier: BSD-3-Clause */
/* Reserved memory for the regions that a program makes. */
#ifndef APPS_COMMON_ROOM_H
#define APPS_COMMON_ROOM_H

#include <stdint.h>

#include <afar/afar.h>

/* Memory that was reserved, to be given back. */
struct room {
	char ns[AFAR_NAME_MAX + 1];
	uint64_t reserved;
};

/* Reserves what the namespace lacks for `bytes` more, which may take long. Errors: -ENOENT, -EACCES, -ENOSPC. */
int room_get(struct afar_session *session, const char *ns, uint64_t bytes, struct room *room);
/* Reserves all of `bytes`: for a region that did not fit into free memory, because that lies in pieces. */
int room_get_whole(struct afar_session *session, uint64_t bytes, struct room *room);
/* Adds what `other` has reserved, if that is in the same namespace: both are given back as one then. */
void room_join(struct room *room, struct room *other);
/* Gives back what was reserved, but for the `used` bytes. May wait some seconds for sessions of killed processes to
 * end. Says on standard error what could not be given back. */
void room_give_back(struct afar_session *session, struct room *room, uint64_t used);

#endif
