/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager, for its two doors: manager.c and view.c. */
#ifndef MANAGER_MANAGER_PRIVATE_H
#define MANAGER_MANAGER_PRIVATE_H

#include <pthread.h>
#include <stdint.h>

#include <urcu/list.h>

#include "manager/manager.h"

struct manager {
	struct keyring *keyring;
	struct metastore *metastore;
	struct core *core;
	struct writer *writer;
	struct rpc_listener *listener;
	uint64_t incarnation;

	pthread_mutex_t lock;
	pthread_cond_t is_alone; /* no connections are left */
	struct cds_list_head peers;
	unsigned nr_connected; /* peers that are not forgotten */
};

#endif
