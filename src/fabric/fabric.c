/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of transports: from the name in a configuration or an advertisement to the operations that
 * carry it out. Adding a transport is adding its line here. Owns nothing.
 */
#include "fabric/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "fabric/local/local.h"
#include "fabric/ofi/ofi.h"
#include "fabric/tcp/tcp.h"

static const struct fabric_ops *const transports[] = {&tcp_ops, &local_ops, &ofi_verbs_ops};

/* tcp alone has sockets of its own. */
int fabric_congestion_check(const char *name, char *problem, size_t size)
{
	return tcp_congestion_check(name, problem, size);
}

static const struct fabric_ops *find_transport(const char *name)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (strcmp(transports[i]->transport, name) == 0)
			return transports[i];
	}
	return NULL;
}

int fabric_transport_check(const char *name, char *problem, size_t size)
{
	if (find_transport(name))
		return 0;
	snprintf(problem, size, "there is no transport \"%.32s\"; use tcp, local or verbs", name);
	return -EINVAL;
}

int fabric_open_at(const char *transport, const char *address, struct fabric **out)
{
	char problem[128];

	if (fabric_transport_check(transport, problem, sizeof(problem)))
		return error_fail(-EINVAL, "open a transport: %s", problem);
	return find_transport(transport)->open(transport, address, out);
}
