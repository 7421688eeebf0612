/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions as the client knows them: a target for operations, and its place in a namespace. */
#ifndef CLIENT_REGION_H
#define CLIENT_REGION_H

#include "client/namespace.h"
#include "client/queue.h"

struct afar_region {
	struct afar_target target; /* its handle is the region's; in use while it is mapped */
	struct afar_namespace *ns;
	uint64_t stripe_bytes;
	uint32_t width;
	char name[AFAR_NAME_MAX + 1];
};

/* 0, or why the handle cannot be used. */
int region_check(const struct afar_region *region);

#endif
