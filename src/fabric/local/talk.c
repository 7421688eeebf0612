/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saying something over a connection's socket: few messages, small, and each in a packet of its own. Called
 * by whoever has something to say; owns nothing.
 */
#include <string.h>
#include <sys/socket.h>

#include "fabric/local/local.h"

bool local_talk_say(int socket_fd, const struct local_message *message, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)message, sizeof(*message)};
	struct msghdr packet = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		packet.msg_control = control.bytes;
		packet.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(socket_fd, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       (ssize_t)sizeof(*message);
}

void local_talk_wake(struct local_endpoint *endpoint, atomic_uint *is_asleep)
{
	const struct local_message message = local_talk_message(LOCAL_WAKE, 0);

	/* The word that has changed before the one that says who sleeps; the other end has it the other way
	 * round. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(is_asleep, memory_order_relaxed) == 0 ||
	    atomic_exchange(is_asleep, 0) == 0)
		return;
	/* Without room the peer has other messages to wake for. */
	local_talk_say(endpoint->fd, &message, -1);
}
