/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer of the transport local that is a socket; see local_peer.h. */
#include "lib/fabric/local_peer.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/fabric/fabric_fixture.h"

static void place_of(const char *address, struct sockaddr_un *out)
{
	const char *path = address + strlen("unix:");

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(out->sun_path, path, (size_t)(strrchr(path, '@') - path));
}

struct local_peer local_peer_open(const char *address)
{
	struct local_peer peer = {.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
	struct sockaddr_un place;

	place_of(address, &place);
	assert_true(peer.fd >= 0);
	assert_int_equal(connect(peer.fd, (const struct sockaddr *)&place, sizeof(place)), 0);
	return peer;
}

void local_peer_close(struct local_peer *peer)
{
	if (peer->link)
		munmap(peer->link, sizeof(*peer->link));
	close(peer->fd);
}

void local_peer_say(const struct local_peer *peer, const void *data, size_t length, const int *fds,
		    size_t nr_fds)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)data, length};
	struct msghdr packet = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nr_fds > 0) {
		packet.msg_control = control.bytes;
		packet.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, nr_fds * sizeof(int));
	}
	sendmsg(peer->fd, &packet, MSG_NOSIGNAL);
}

void local_peer_say_message(const struct local_peer *peer, const struct local_message *message,
			    int fd)
{
	local_peer_say(peer, message, sizeof(*message), &fd, fd >= 0 ? 1 : 0);
}

bool local_peer_hear(const struct local_peer *peer, struct local_message *message, int *fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {message, sizeof(*message)};
	struct msghdr packet = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	struct pollfd ready = {.fd = peer->fd, .events = POLLIN};

	*fd = -1;
	assert_int_equal(poll(&ready, 1, GRACE_MS), 1);
	if (recvmsg(peer->fd, &packet, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*message))
		return false;
	if (CMSG_FIRSTHDR(&packet))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&packet)), sizeof(*fd));
	return true;
}

void local_peer_expect_end(struct local_peer *peer)
{
	struct local_message message;
	int fd;

	assert_false(local_peer_hear(peer, &message, &fd));
	local_peer_close(peer);
}

struct local_hello local_peer_hello(uint16_t private_length)
{
	return (struct local_hello){.magic = LOCAL_WIRE_MAGIC,
				    .version = LOCAL_WIRE_VERSION,
				    .private_length = private_length};
}

void local_peer_take_link(struct local_peer *peer)
{
	struct local_message message;
	int fd;

	assert_true(local_peer_hear(peer, &message, &fd));
	assert_int_equal(message.type, LOCAL_WELCOME);
	assert_int_equal(message.length, sizeof(*peer->link));
	assert_true(fd >= 0);
	peer->link = mmap(NULL, sizeof(*peer->link), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(peer->link != MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), -1); /* nobody can pull it away */
	close(fd);
}

struct local_peer local_peer_join(const char *address)
{
	const struct local_hello hello = local_peer_hello(0);
	struct local_peer peer = local_peer_open(address);

	local_peer_say(&peer, &hello, LOCAL_HELLO_HEAD, NULL, 0);
	local_peer_take_link(&peer);
	return peer;
}
