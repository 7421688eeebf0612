/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts which congestion control the connections of a lane use at this end, as the kernel said
 * when each was accepted. They may differ, because clients of this machine need another than other
 * clients. Any thread may call it; a lock orders them.
 */
#ifndef SERVER_CONGESTION_H
#define SERVER_CONGESTION_H

#include <pthread.h>

#include "fabric/fabric.h"

#define CONGESTION_NAMES 8U /* at a time; further names are not reported */

struct congestion {
	pthread_mutex_t lock;
	struct {
		char name[FABRIC_CONGESTION_MAX];
		unsigned nr; /* connections */
	} uses[CONGESTION_NAMES];
};

void congestion_init(struct congestion *congestion);
void congestion_destroy(struct congestion *congestion);
/* Call them when a connection with this congestion control comes and goes. Empty: it has none. */
void congestion_enter(struct congestion *congestion, const char *name);
void congestion_leave(struct congestion *congestion, const char *name);
/* Lists all names that are in use, with commas between them. */
void congestion_list(struct congestion *congestion, char out[static FABRIC_CONGESTIONS_MAX]);

#endif
