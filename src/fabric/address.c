/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HOST:PORT as people write it, to and from socket addresses. Used by all transports that have such; owns
 * nothing.
 */
#include "fabric/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Cuts `text` into host and port; the host without its brackets. */
static int split(const char *text, char host[static NI_MAXHOST], char port[static NI_MAXSERV])
{
	const char *host_begin = text;
	const char *colon = strrchr(text, ':');
	size_t host_length;

	if (colon == NULL)
		return -EINVAL;
	host_length = (size_t)(colon - text);
	if (host_length >= 2 && text[0] == '[' && colon[-1] == ']') {
		host_begin++;
		host_length -= 2;
	} else if (memchr(text, ':', host_length) != NULL) {
		return -EINVAL;
	}
	if (host_length == 0 || host_length >= NI_MAXHOST)
		return -EINVAL;
	if (colon[1] == '\0' || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return -EINVAL;

	memcpy(host, host_begin, host_length);
	host[host_length] = '\0';
	strcpy(port, colon + 1);
	return atoi(port) <= UINT16_MAX ? 0 : -EINVAL;
}

int fabric_address_resolve(const char *what, const char *text, bool is_passive,
			   struct fabric_address *out)
{
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (is_passive ? AI_PASSIVE : 0),
	};
	struct addrinfo *found;
	int rc;

	if (split(text, host, port) != 0)
		return error_fail(-EINVAL, "%s \"%s\": not an address; write HOST:PORT", what,
				  text);
	rc = getaddrinfo(host, port, &hints, &found);
	if (rc != 0)
		return error_fail(-EADDRNOTAVAIL, "%s %s: %s; check the host's name", what, text,
				  gai_strerror(rc));
	memset(out, 0, sizeof(*out));
	memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
	out->length = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

void fabric_address_print(const void *address, char out[static FABRIC_ADDRESS_MAX])
{
	const struct sockaddr *any = address;
	char host[INET6_ADDRSTRLEN] = "";

	if (any != NULL && any->sa_family == AF_INET) {
		const struct sockaddr_in *ipv4 = address;

		inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof(host));
		snprintf(out, FABRIC_ADDRESS_MAX, "%s:%u", host, ntohs(ipv4->sin_port));
	} else if (any != NULL && any->sa_family == AF_INET6) {
		const struct sockaddr_in6 *ipv6 = address;

		inet_ntop(AF_INET6, &ipv6->sin6_addr, host, sizeof(host));
		snprintf(out, FABRIC_ADDRESS_MAX, "[%s]:%u", host, ntohs(ipv6->sin6_port));
	} else {
		snprintf(out, FABRIC_ADDRESS_MAX, "unknown");
	}
}
