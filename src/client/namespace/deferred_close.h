/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed regions that a write may still reach: the session keeps them until none can. */
#ifndef CLIENT_LINGER_H
#define CLIENT_LINGER_H

#include <stdbool.h>
#include <stdint.h>

struct afar_region;
struct afar_session;

/* Takes over a closed region in which writes may still land. regions_settle() ends it when none
 * can. */
void region_defer_close(struct afar_region *region);

/* Ends the regions whose servers have closed the connections, or have restarted. With `may_ask`, it
 * asks servers to do so, now and then; that takes a moment. */
void regions_settle(struct afar_session *session, bool may_ask);
/* Frees all regions whose close is deferred, at the session's end. */
void regions_forget(struct afar_session *session);

/* Gives back one reference of the session's to a region, or to a version of it. */
int region_call_close(struct afar_session *session, uint64_t ns, uint64_t address,
		      uint64_t generation);
/* Tells the manager that a closed region is not used any more, and frees it. */
void region_leave(struct afar_region *region);
/* Frees a closed region. */
void region_drop(struct afar_region *region);

#endif
