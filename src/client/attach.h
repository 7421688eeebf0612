/* SPDX-License-Identifier: BSD-3-Clause */
/* Attached memory, as sessions see it: attach.c. */
#ifndef CLIENT_ATTACH_H
#define CLIENT_ATTACH_H

#include "client/session.h"

/* Makes all that is attached inaccessible: the session has ended, and servers may wait for that. On the control
 * thread. */
void attachments_let_go(struct afar_session *session);
/* At the session's end, when nothing is attached any more and its loop has stopped. */
void attachments_close(struct afar_session *session);

#endif
