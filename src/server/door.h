/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of the data port: has strangers who connect and say nothing put out. A thread of its own, which
 * sleeps as long as nobody comes.
 */
#ifndef SERVER_DOOR_H
#define SERVER_DOOR_H

#include <stdint.h>

#include "fabric/fabric.h"

struct door;

/* Strangers may be silent for `silence_ms`. The listener stays until door_stop(). With a sentence: -ENOMEM,
 * those of making a thread. */
int door_start(struct fabric_listener *listener, uint32_t silence_ms, struct door **out);
void door_stop(struct door *door);

/* Somebody may have come. Cheap; from any thread. */
void door_knock(struct door *door);

#endif
