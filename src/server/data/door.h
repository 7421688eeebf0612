/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of the data port. A thread of its own ends the connections of strangers that connect and
 * say nothing. It sleeps as long as nobody comes.
 */
#ifndef SERVER_DOOR_H
#define SERVER_DOOR_H

#include <stdint.h>

#include "fabric/listener.h"

struct door;

/* Starts the thread. Strangers may be silent for `silence_ms`. The listener must outlive
 * door_stop(). With a sentence: -ENOMEM, the errors of making a thread. */
int door_start(struct fabric_listener *listener, uint32_t silence_ms, struct door **out);
void door_stop(struct door *door);

/* Call it when a stranger may have come. It is cheap. Any thread may call it. */
void door_knock(struct door *door);

#endif
