/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A relay between this process and the data ports of servers, in place of a network. It can hold bytes back, change
 * them, and end a connection on one side alone. It takes over this process's connect() for addresses at RELAY_HOST.
 */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_HOST "127.0.0.2" /* of the servers' data ports: $AFAR_TEST_HOST */

/* From now on connections of this process to RELAY_HOST go over it, numbered from 0 in their order. */
void relay_start(void);
/* Ends those that are left. */
void relay_stop(void);

/* From now on the server gets nothing of a connection that comes from the client. */
void relay_swallow(unsigned connection);
/* Waits until so many bytes were swallowed, and resets the client's side. The server hears nothing of it. */
void relay_reset_client(unsigned connection, size_t nr_bytes);
/* Gives the server what was swallowed, and waits: true when it answers, false when it has ended the
 * connection. */
bool relay_release(unsigned connection);

/* Changes a bit of the byte behind the next `skip` ones that go to the client, or else to the server. */
void relay_change(unsigned connection, bool is_to_client, uint32_t skip);
/* Returns whether that has happened. */
bool relay_has_changed(unsigned connection);

#endif
