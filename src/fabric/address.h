/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts HOST:PORT, as people write it, to and from socket addresses. All transports share it. */
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

/* Resolves "HOST:PORT" ("[HOST]:PORT" for IPv6), to listen on (is_passive) or to connect to. May
 * block for DNS. -EINVAL, -EADDRNOTAVAIL, with a sentence that begins with `what`. */
int fabric_address_resolve(const char *what, const char *text, bool is_passive,
			   struct fabric_address *out);
/* True for a loopback address: only this machine reaches it. */
bool fabric_address_is_loopback(const struct sockaddr_storage *address);
/* True if it is one of this machine's own addresses, as the kernel's routes say. */
bool fabric_address_is_here(const struct fabric_address *address);
/* Orders two addresses by host, without their ports. 0: it is the same host. */
int fabric_address_compare_hosts(const struct sockaddr_storage *left,
				 const struct sockaddr_storage *right);
/* Prints a socket address (struct sockaddr) as fabric_address_resolve() parses it. */
void fabric_address_print(const void *address, char out[static FABRIC_ADDRESS_MAX]);

#endif
