/* SPDX-License-Identifier: BSD-3-Clause */
/* HOST:PORT as people write it, to and from socket addresses: what the transports share. */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/fabric.h"

struct fabric_address {
	struct sockaddr_storage storage;
	socklen_t length;
};

/* Resolves "HOST:PORT" ("[HOST]:PORT" for IPv6), to listen on or to connect to; may block for DNS.
 * -EINVAL, -EADDRNOTAVAIL, with a sentence that begins with `what`. */
int fabric_address_resolve(const char *what, const char *text, bool is_passive,
			   struct fabric_address *out);
/* An address of this machine alone. */
bool fabric_address_is_loopback(const struct sockaddr_storage *address);
/* Whether it is one of this machine's own, as the kernel's routes say. */
bool fabric_address_is_here(const struct fabric_address *address);
/* Without their ports; 0: they are the same. */
int fabric_address_compare_hosts(const struct sockaddr_storage *left,
				 const struct sockaddr_storage *right);
/* Prints it as it is parsed. */
void fabric_address_print(const void *address, char out[static FABRIC_ADDRESS_MAX]);

#endif
