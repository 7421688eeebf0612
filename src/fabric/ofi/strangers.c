/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers at a tcp listener. libfabric accepts their sockets by itself and waits, for as long as they
 * like, for the message with which a connection begins; we hear of them with that message and not before.
 * So it is our own descriptors that we look through: a socket on the listener's port whose peer is not
 * known to have begun (a caller, noted by listener.c, forgotten when its connection ends) is a silent
 * stranger's. When it has been silent for too long it is shut down; libfabric sees the end of the stream
 * and closes it.
 *
 * Between looking and shutting down, libfabric may close a descriptor, and its number may become another
 * socket's: that one would be shut down instead, a connection lost as any can be. Duplicating the
 * descriptor first would avoid that, but closing a duplicate of what has become a file would drop the
 * process's locks on it, which is worse.
 */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "fabric/ofi/ofi.h"

/* ---- Callers: the peers that have begun a connection */

static int compare_peers(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct ofi_peer));
}

static void read_peer(const struct sockaddr *address, struct ofi_peer *out)
{
	memset(out, 0, sizeof(*out));
	out->family = address->sa_family;
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *ipv4 = (const void *)address;

		out->port = ntohs(ipv4->sin_port);
		memcpy(out->host, &ipv4->sin_addr, sizeof(ipv4->sin_addr));
	} else if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *ipv6 = (const void *)address;

		out->port = ntohs(ipv6->sin6_port);
		out->scope = ipv6->sin6_scope_id;
		memcpy(out->host, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
	}
}

struct ofi_caller *ofi_caller_note(struct ofi_fabric *fabric, const void *address)
{
	struct ofi_caller *caller = calloc(1, sizeof(*caller)), **known;

	if (caller == NULL)
		return NULL;
	read_peer(address, &caller->peer);
	pthread_mutex_lock(&fabric->callers_lock);
	known = tsearch(caller, &fabric->callers, compare_peers);
	if (known == NULL || *known != caller)
		free(caller);
	caller = known != NULL ? *known : NULL;
	/* The same peer can be at two listeners. */
	if (caller != NULL)
		caller->nr_calls++;
	pthread_mutex_unlock(&fabric->callers_lock);
	return caller;
}

void ofi_caller_forget(struct ofi_fabric *fabric, struct ofi_caller *caller)
{
	if (caller == NULL)
		return;
	pthread_mutex_lock(&fabric->callers_lock);
	if (--caller->nr_calls == 0) {
		tdelete(caller, &fabric->callers, compare_peers);
		free(caller);
	}
	pthread_mutex_unlock(&fabric->callers_lock);
}

static bool is_caller(struct ofi_fabric *fabric, const struct ofi_peer *peer)
{
	bool is_known;

	pthread_mutex_lock(&fabric->callers_lock);
	is_known = tfind(peer, &fabric->callers, compare_peers) != NULL;
	pthread_mutex_unlock(&fabric->callers_lock);
	return is_known;
}

/* ---- Looking through the descriptors */

/* Whose socket it is, if it is a stranger's at `port`. */
static bool is_strangers(struct ofi_fabric *fabric, int fd, uint16_t port,
			 struct ofi_stranger *stranger)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof(address);
	struct ofi_peer own;

	if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		return false;
	read_peer((struct sockaddr *)&address, &own);
	if (own.port != port)
		return false;
	length = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &length) != 0)
		return false;
	read_peer((struct sockaddr *)&address, &stranger->peer);
	length = sizeof(stranger->cookie);
	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &stranger->cookie, &length) == 0 &&
	       !is_caller(fabric, &stranger->peer);
}

static int compare_cookies(const void *a, const void *b)
{
	const struct ofi_stranger *left = a, *right = b;

	return (left->cookie > right->cookie) - (left->cookie < right->cookie);
}

/* Since when it is known to be silent. */
static uint64_t known_since(const struct ofi_strangers *before, const struct ofi_stranger *stranger,
			    uint64_t now)
{
	const struct ofi_stranger *known = NULL;

	if (before->nr > 0)
		known = bsearch(stranger, before->all, before->nr, sizeof(*before->all),
				compare_cookies);
	return known != NULL ? known->since : now;
}

static bool add(struct ofi_strangers *strangers, const struct ofi_stranger *stranger)
{
	size_t room = strangers->room > 0 ? 2 * strangers->room : 64;
	struct ofi_stranger *larger;

	if (strangers->nr == strangers->room) {
		larger = reallocarray(strangers->all, room, sizeof(*larger));
		if (larger == NULL)
			return false;
		strangers->all = larger;
		strangers->room = room;
	}
	strangers->all[strangers->nr++] = *stranger;
	return true;
}

/* Those there are now. Without memory for all, as many as there is memory for. */
static void look(struct ofi_fabric *fabric, uint16_t port, const struct ofi_strangers *before,
		 uint64_t now, struct ofi_strangers *out)
{
	DIR *descriptors = opendir("/proc/self/fd");
	struct ofi_stranger stranger;
	struct dirent *entry;

	if (descriptors == NULL)
		return;
	while ((entry = readdir(descriptors)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		stranger.fd = atoi(entry->d_name);
		if (!is_strangers(fabric, stranger.fd, port, &stranger))
			continue;
		stranger.since = known_since(before, &stranger, now);
		if (!add(out, &stranger))
			break;
	}
	closedir(descriptors);
}

/* ---- Ending */

static int compare_hosts(const struct ofi_stranger *left, const struct ofi_stranger *right)
{
	int order = memcmp(left->peer.host, right->peer.host, sizeof(left->peer.host));

	return order != 0 ? order : (int)left->peer.family - (int)right->peer.family;
}

/* By host, the longest there first. */
static int compare_turns(const void *a, const void *b)
{
	const struct ofi_stranger *left = a, *right = b;
	int order = compare_hosts(left, right);

	return order != 0 ? order : (left->since > right->since) - (left->since < right->since);
}

static size_t host_end(const struct ofi_strangers *strangers, size_t begin)
{
	size_t end = begin + 1;

	while (end < strangers->nr &&
	       compare_hosts(&strangers->all[begin], &strangers->all[end]) == 0)
		end++;
	return end;
}

/* Those from one host: who has been there for too long, and who is too many. */
static void end_some(const struct ofi_stranger *strangers, size_t nr,
		     const struct fabric_patience *patience, uint64_t now)
{
	size_t nr_left = nr;

	for (size_t i = 0; i < nr; i++) {
		uint32_t limit_ms =
			nr_left > patience->nr_per_host ? patience->crowd_ms : patience->silence_ms;

		if (now - strangers[i].since < (uint64_t)limit_ms * 1000000U)
			break;
		shutdown(strangers[i].fd, SHUT_RDWR);
		nr_left--;
	}
}

size_t ofi_listener_sweep(struct fabric_listener *base, const struct fabric_patience *patience)
{
	struct ofi_listener *listener = ofi_container(base, struct ofi_listener);
	struct ofi_fabric *fabric = ofi_container(base->fabric, struct ofi_fabric);
	struct ofi_strangers found = {0};
	uint64_t now = clock_ns();
	size_t begin, end;

	look(fabric, listener->port, &listener->strangers, now, &found);
	if (found.nr > 1)
		qsort(found.all, found.nr, sizeof(*found.all), compare_turns);
	for (begin = 0; begin < found.nr; begin = end) {
		end = host_end(&found, begin);
		end_some(&found.all[begin], end - begin, patience, now);
	}
	if (found.nr > 1)
		qsort(found.all, found.nr, sizeof(*found.all), compare_cookies);
	free(listener->strangers.all);
	listener->strangers = found;
	return found.nr;
}
