/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hearing what a peer says over a connection's socket. Called by queue.c when there is something to hear,
 * and by endpoint.c; owns nothing.
 *
 * Everything that is heard is a peer's: whatever is wrong with it ends the connection. A descriptor that
 * comes where none is due is closed.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/local/exchange.h"
#include "fabric/local/memory.h"
#include "fabric/local/references.h"

#define PACKETS_MAX 64U /* of one call: a peer that keeps talking must not keep us */

/* A packet and the descriptor that came with it, or -1. Returns bytes, 0 at the end, or -errno. */
static ssize_t hear(int socket_fd, struct local_message *message, int *fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {message, sizeof(*message)};
	struct msghdr packet = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				/* Not what is padded: there would be room for two. */
				.msg_controllen = CMSG_LEN(sizeof(int))};
	const struct cmsghdr *header;
	ssize_t nr = recvmsg(socket_fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*fd = -1;
	if (nr < 0)
		return -errno;
	/* There is room for one: more were not taken. */
	header = CMSG_FIRSTHDR(&packet);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(header), sizeof(*fd));
	return (packet.msg_flags & MSG_TRUNC) != 0 ? -EPROTO : nr;
}

static bool forget_asked(struct local_endpoint *endpoint, uint64_t key)
{
	for (uint32_t i = 0; i < endpoint->nr_asked; i++) {
		if (endpoint->asked[i] == key) {
			endpoint->asked[i] = endpoint->asked[--endpoint->nr_asked];
			return true;
		}
	}
	return false;
}

static bool take_welcome(struct local_endpoint *endpoint, const struct local_message *message,
			 int fd)
{
	if (endpoint->state != LOCAL_IS_CONNECTING || message->length != sizeof(struct local_link))
		return false;
	if (!local_endpoint_link(endpoint, fd, LOCAL_CONNECTING_SIDE) ||
	    !local_deaths_watch(endpoint))
		return false;
	local_endpoint_open(endpoint);
	return true;
}

static bool is_answer(struct local_endpoint *endpoint, const struct local_message *message)
{
	const unsigned known = FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE;

	return (message->access & ~known) == 0 && message->length > 0 &&
	       forget_asked(endpoint, message->key);
}

static bool take_lent(struct local_endpoint *endpoint, const struct local_message *message, int fd)
{
	if (!is_answer(endpoint, message) || !local_mapping_add(endpoint, message, fd))
		return false;
	local_endpoint_resume(endpoint);
	return true;
}

static bool take_paged(struct local_endpoint *endpoint, const struct local_message *message, int fd)
{
	if (!is_answer(endpoint, message) ||
	    !local_queue_of(endpoint)->paged->take_paged(endpoint, message, fd))
		return false;
	local_endpoint_resume(endpoint);
	return true;
}

/* An end without memory for references ignores them. */
static bool take_shown(struct local_endpoint *endpoint, const struct local_message *message, int fd)
{
	if (!endpoint->references)
		return endpoint->asking;
	return message->type == LOCAL_LIFE
		       ? local_references_take_life(endpoint->references, fd)
		       : local_references_take_slab(endpoint->references, message, fd);
}

static bool take_asked(struct local_endpoint *endpoint, const struct local_message *message)
{
	endpoint->takes_references |= (message->access & LOCAL_TAKES_REFERENCES) != 0;
	return local_memory_lend(endpoint, message->key);
}

/* The mapping may be missing, if the key was revoked before its memory came. */
static bool take_revoked(struct local_endpoint *endpoint, const struct local_message *message)
{
	local_mapping_remove(endpoint, message->key);
	endpoint->nr_revoked_heard++;
	return true;
}

/* False: the peer has said what it may not. */
static bool take(struct local_endpoint *endpoint, const struct local_message *message, int fd)
{
	if (message->magic != LOCAL_WIRE_MAGIC || message->version != LOCAL_WIRE_VERSION)
		return false;
	if (endpoint->state == LOCAL_IS_ENDING) /* it has not heard of that yet */
		return true;
	if (message->type == LOCAL_WELCOME)
		return take_welcome(endpoint, message, fd);
	if (endpoint->state != LOCAL_IS_CONNECTED)
		return false;
	switch (message->type) {
	case LOCAL_ASK:
		return take_asked(endpoint, message);
	case LOCAL_LEND:
		return take_lent(endpoint, message, fd);
	case LOCAL_PAGED:
		return take_paged(endpoint, message, fd);
	case LOCAL_REVOKE:
		return take_revoked(endpoint, message);
	case LOCAL_LIFE:
	case LOCAL_SLAB:
		return take_shown(endpoint, message, fd);
	case LOCAL_WAKE:
		local_queue_warm(local_queue_of(endpoint), endpoint);
		return true;
	default:
		return false;
	}
}

void local_hear(struct local_endpoint *endpoint)
{
	struct local_message message;
	bool is_good;
	ssize_t nr;
	int fd;

	for (unsigned i = 0; i < PACKETS_MAX && endpoint->state != LOCAL_IS_CLOSED; i++) {
		nr = hear(endpoint->fd, &message, &fd);
		if (nr == -EAGAIN || nr == -EINTR)
			return;
		is_good = nr == (ssize_t)sizeof(message) && take(endpoint, &message, fd);
		if (fd >= 0)
			close(fd);
		if (!is_good)
			local_endpoint_break(endpoint);
	}
}
