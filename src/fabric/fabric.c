/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of transports: from the name in a configuration or an advertisement to the operations that
 * carry it out. Adding a transport is adding its line here. Owns nothing.
 */
#include "fabric/fabric.h"

#include <errno.h>
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

int fabric_open_at(const char *transport, const char *address, struct fabric **out)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (strcmp(transports[i]->transport, transport) == 0)
			return transports[i]->open(transport, address, out);
	}
	return error_fail(
		-EINVAL,
		"open transport \"%s\": there is none of this name; use tcp, local or verbs",
		transport);
}
