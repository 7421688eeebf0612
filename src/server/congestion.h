/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which congestion control the connections of a lane use at this end, as the kernel said when each was accepted. They
 * may differ: clients of this machine need another than those of others. Any thread; a lock orders them.
 */
#ifndef SERVER_CONGESTION_H
#define SERVER_CONGESTION_H

#include <pthread.h>

#include "fabric/fabric.h"

#define CONGESTION_NAMES 8U /* at a time; more are not told of */

struct congestion {
	pthread_mutex_t lock;
	struct {
		char name[FABRIC_CONGESTION_MAX];
		unsigned nr; /* connections */
	} uses[CONGESTION_NAMES];
};

void congestion_init(struct congestion *congestion);
void congestion_destroy(struct congestion *congestion);
/* A connection with this one has come, or is going. Empty: it has none. */
void congestion_enter(struct congestion *congestion, const char *name);
void congestion_leave(struct congestion *congestion, const char *name);
/* All names that are in use, with commas between them. */
void congestion_list(struct congestion *congestion, char out[static FABRIC_CONGESTIONS_MAX]);

#endif
