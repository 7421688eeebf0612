/* SPDX-License-Identifier: BSD-3-Clause */
/* Attached memory of a session: attach.c. */
#ifndef CLIENT_ATTACH_H
#define CLIENT_ATTACH_H

#include "client/session.h"

/* Makes all attached memory inaccessible, because the session has ended and servers may wait for
 * that. Call it on the control thread. */
void attachments_let_go(struct afar_session *session);
/* Frees what attaching has used, at the session's end: nothing is attached any more and the loop
 * has stopped. */
void attachments_close(struct afar_session *session);

#endif
