/* SPDX-License-Identifier: BSD-3-Clause */
/* The address that we tell others to connect to, if we listen on all addresses. */
#ifndef SERVER_ADVERTISE_H
#define SERVER_ADVERTISE_H

#include <stdint.h>

#include "base/uri.h"

#define ADVERTISE_MAX (URI_HOST_MAX + 16)

/*
 * Turns the HOST:PORT that we listen on into one that others can use. A wildcard host becomes the
 * address from which this machine reaches the manager, or, if there is none, the machine's name.
 * May block for DNS.
 */
void advertise(const char *listening, const char *manager_host, uint16_t manager_port,
	       char out[ADVERTISE_MAX]);

#endif
