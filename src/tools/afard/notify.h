/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells the service manager that started the daemon how far it is, as systemd's units of Type=notify expect. */
#ifndef TOOLS_NOTIFY_H
#define TOOLS_NOTIFY_H

/* Sends `state`, such as "READY=1", to the socket that $NOTIFY_SOCKET names. Nobody asked: it does nothing. */
void notify(const char *state);

#endif
