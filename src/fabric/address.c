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
#include <unistd.h>

#include "base/error.h"

/* Cuts `text` into host and port; the host without its brackets. */
static int split(const char *text, char host[static NI_MAXHOST], char port[static NI_MAXSERV])
{
	const char *host_begin = text;
	const char *colon = strrchr(text, ':');
	size_t host_length;

	if (!colon)
		return -EINVAL;
	host_length = (size_t)(colon - text);
	if (host_length >= 2 && text[0] == '[' && colon[-1] == ']') {
		host_begin++;
		host_length -= 2;
	} else if (memchr(text, ':', host_length)) {
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
	int ret;

	if (split(text, host, port) != 0)
		return error_fail(-EINVAL, "%s \"%s\": not an address; write HOST:PORT", what,
				  text);
	ret = getaddrinfo(host, port, &hints, &found);
	if (ret != 0)
		return error_fail(-EADDRNOTAVAIL, "%s %s: %s; check the host's name", what, text,
				  gai_strerror(ret));
	memset(out, 0, sizeof(*out));
	memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
	out->length = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

/* The bytes of the host. */
static const uint8_t *host_of(const struct sockaddr_storage *address, size_t *length)
{
	if (address->ss_family == AF_INET6) {
		*length = sizeof(struct in6_addr);
		return ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
	}
	*length = sizeof(struct in_addr);
	return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
}

bool fabric_address_is_loopback(const struct sockaddr_storage *address)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0.0.0.0 */
	size_t length;
	const uint8_t *host = host_of(address, &length);

	if (address->ss_family != AF_INET6)
		return host[0] == 127;
	return memcmp(host, &in6addr_loopback, length) == 0 ||
	       (memcmp(host, mapped, sizeof(mapped)) == 0 && host[sizeof(mapped)] == 127);
}

int fabric_address_compare_hosts(const struct sockaddr_storage *left,
				 const struct sockaddr_storage *right)
{
	size_t length;
	const uint8_t *host = host_of(left, &length);

	if (left->ss_family != right->ss_family)
		return left->ss_family < right->ss_family ? -1 : 1;
	return memcmp(host, host_of(right, &length), length);
}

/* An address is this machine's own if the kernel would send to it from that same address.
 * Connecting a datagram socket sends nothing. */
bool fabric_address_is_here(const struct fabric_address *address)
{
	struct sockaddr_storage source = {0}, peer = {0};
	socklen_t source_length = sizeof(source), peer_length = sizeof(peer);
	bool is_here;
	int fd;

	if (fabric_address_is_loopback(&address->storage))
		return true;
	fd = socket(address->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	is_here = connect(fd, (const struct sockaddr *)&address->storage, address->length) == 0 &&
		  getsockname(fd, (struct sockaddr *)&source, &source_length) == 0 &&
		  getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 &&
		  fabric_address_compare_hosts(&source, &peer) == 0;
	close(fd);
	return is_here;
}

void fabric_address_print(const void *address, char out[static FABRIC_ADDRESS_MAX])
{
	const struct sockaddr *any = address;
	char host[INET6_ADDRSTRLEN] = "";

	if (any && any->sa_family == AF_INET) {
		const struct sockaddr_in *ipv4 = address;

		inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof(host));
		snprintf(out, FABRIC_ADDRESS_MAX, "%s:%u", host, ntohs(ipv4->sin_port));
	} else if (any && any->sa_family == AF_INET6) {
		const struct sockaddr_in6 *ipv6 = address;

		inet_ntop(AF_INET6, &ipv6->sin6_addr, host, sizeof(host));
		snprintf(out, FABRIC_ADDRESS_MAX, "[%s]:%u", host, ntohs(ipv6->sin6_port));
	} else {
		snprintf(out, FABRIC_ADDRESS_MAX, "unknown");
	}
}
