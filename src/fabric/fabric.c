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
#include "fabric/driven/driven.h"
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

/* Finds the transport below a driven one. False: it is none. */
static bool cut_suffix(const char *name, char below[static FABRIC_NAME_MAX])
{
	const size_t length = strlen(name), suffix = strlen(DRIVEN_SUFFIX);

	if (length <= suffix || length - suffix >= FABRIC_NAME_MAX - suffix ||
	    strcmp(name + length - suffix, DRIVEN_SUFFIX) != 0)
		return false;
	memcpy(below, name, length - suffix);
	below[length - suffix] = '\0';
	return true;
}

void fabric_name_paged(const struct fabric *fabric, char out[static FABRIC_NAME_MAX])
{
	snprintf(out, FABRIC_NAME_MAX, "%s%s", fabric->attributes.transport,
		 fabric->paged ? "" : DRIVEN_SUFFIX);
}

bool fabric_transport_may_be(const char *transport, const char *path)
{
	char below[FABRIC_NAME_MAX];

	return path[0] == '\0' || strcmp(transport, path) == 0 ||
	       (cut_suffix(transport, below) && strcmp(below, path) == 0);
}

int fabric_open_at(const char *transport, const char *address, struct fabric **out)
{
	char problem[128], below[FABRIC_NAME_MAX];
	int ret;

	if (cut_suffix(transport, below) && find_transport(below))
		return driven_open(below, address, out);
	if (fabric_transport_check(transport, problem, sizeof(problem)))
		return error_fail(-EINVAL, "open a transport: %s", problem);
	ret = find_transport(transport)->open(transport, address, out);
	if (ret == 0)
		(*out)->nr_receives = FABRIC_RECEIVE_MAX;
	return ret;
}
