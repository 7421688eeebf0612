/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds arbitrary packets and arbitrary rings to an end of a local connection, as any client that has a ticket
 * may. The end lends memory, waits for messages and has asked for something itself. The input is steps:
 *
 *	0, n       a packet of n bytes, which follow; with a descriptor if n is odd
 *	1, n       n bytes, which follow, into our ring, where it ends
 *	2, n       into our side of the link: which word, by n, and its value, which follows
 *	3, n       n bytes, which follow, as our next request in the exchange; beyond its length, as many
 *	           requests are said to be there
 *	other      lets the other end go on
 *
 * Key 1 is a good one to write, 2 to read only, 3 is of paged memory. Lent memory and messages lie between guards, which stay as they
 * are, and each connection ends when the input does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/shared.h"
#include "fabric/local/exchange.h"
#include "fabric/local/memory.h"

#define LENT_BYTES    4096U
#define GUARD_BYTES   256U
#define MESSAGE_BYTES 40U
#define STEPS_MAX     1000000U
#define PAGED_BYTES   (UINT64_C(1) << 16)
#define PAGES_MAX     4U /* transfers that the pager has memory for */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct guarded {
	uint8_t before[GUARD_BYTES];
	uint8_t bytes[2 * MESSAGE_BYTES];
	uint8_t after[GUARD_BYTES];
};

static struct {
	struct fabric *fabric;
	struct fabric_listener *listener;
	struct fabric_queue *queue;
	uint8_t *writable, *read_only;
	struct guarded messages, wanted;
	struct fabric_pager pager;
	unsigned nr_pages; /* taken transfers */
} world;

static void require(int condition)
{
	if (!condition)
		abort();
}

static void fill_guards(struct guarded *guarded)
{
	memset(guarded, 0x5e, sizeof(*guarded));
}

static void check_guards(const struct guarded *guarded)
{
	for (size_t i = 0; i < GUARD_BYTES; i++)
		require(guarded->before[i] == 0x5e && guarded->after[i] == 0x5e);
}

/* Lends with a key that inputs can know. In rising order the tree stays in order. */
static uint8_t *lend(unsigned access, uint64_t key)
{
	struct local_registration *registration;
	struct fabric_memory memory;
	void *addr;

	require(shared_map(LENT_BYTES, LENT_BYTES, &addr) == 0);
	require(fabric_memory_register(world.fabric->domain, addr, LENT_BYTES, access, &memory) ==
		0);
	registration = memory.handle;
	registration->keyed.key = key;
	return addr;
}

/* ---- A pager: some transfers end at once, others never */

static int take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	require(paged->length > 0 && paged->offset < PAGED_BYTES &&
		paged->length <= PAGED_BYTES - paged->offset);
	if (world.nr_pages == PAGES_MAX)
		return -EAGAIN;
	world.nr_pages++;
	paged->addr = calloc(1, paged->length);
	paged->sums = calloc(PAGED_BYTES / CHECKSUM_BLOCK, sizeof(*paged->sums));
	require(paged->addr && paged->sums);
	return 0;
}

static void begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	if (paged->offset % 3 != 2)
		fabric_paged_ended(paged, paged->offset % 3 == 0 ? 0 : -EIO);
}

static void leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	world.nr_pages--;
	free(paged->addr);
	free(paged->sums);
}

static void lend_paged(uint64_t key)
{
	struct local_registration *registration;
	struct fabric_memory memory;

	world.pager = (struct fabric_pager){take, begin, leave};
	require(fabric_memory_register_paged(world.fabric->domain, &world.pager, PAGED_BYTES,
					     FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
					     &memory) == 0);
	registration = memory.handle;
	registration->keyed.key = key;
}

static void open_world(void)
{
	if (world.fabric)
		return;
	require(fabric_open("local", &world.fabric) == 0);
	require(fabric_listen(world.fabric, "unix:", &world.listener) == 0);
	require(fabric_queue_open(world.fabric, 8, &world.queue) == 0);
	world.writable = lend(FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, 1);
	world.read_only = lend(FABRIC_REMOTE_READ, 2);
	lend_paged(3);
}

/* ---- The peer that says it */

struct peer {
	int fd;
	struct local_link *link;
	uint32_t written;
	struct local_exchange *exchange;
	uint32_t nr_asked;
};

static void open_peer(struct peer *peer)
{
	const struct local_hello hello = {.magic = LOCAL_WIRE_MAGIC, .version = LOCAL_WIRE_VERSION};
	struct sockaddr_un place;

	require(local_place_find(world.listener->address, &place) == 0);
	peer->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	require(connect(peer->fd, (const struct sockaddr *)&place, sizeof(place)) == 0);
	require(send(peer->fd, &hello, LOCAL_HELLO_HEAD, 0) == (ssize_t)LOCAL_HELLO_HEAD);
}

static struct fabric_endpoint *accept_peer(void)
{
	struct fabric_endpoint *endpoint = NULL;
	struct fabric_request request;

	require(fabric_listener_next(world.listener, &request) == 0);
	require(fabric_accept(&request, world.queue, world.fabric->domain, NULL, &endpoint) == 0);
	for (uint64_t i = 0; i < 2; i++) {
		struct fabric_piece piece = {world.messages.bytes + i * MESSAGE_BYTES,
					     MESSAGE_BYTES, NULL};

		require(fabric_receive(endpoint, &piece, i) == 0);
	}
	fabric_read(endpoint, &(struct fabric_piece){world.wanted.bytes, 64, NULL}, 1, 0, 7, 2);
	fabric_send(endpoint, &(struct fabric_piece){world.wanted.bytes, 8, NULL}, 3);
	return endpoint;
}

/* Returns the descriptor that comes with the next message of this type. */
static int hear_descriptor(const struct peer *peer, enum local_message_type type)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct local_message message;
	struct iovec iov = {&message, sizeof(message)};
	struct msghdr packet = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	int fd;

	do {
		packet.msg_controllen = sizeof(control.bytes);
		require(recvmsg(peer->fd, &packet, 0) == (ssize_t)sizeof(message));
	} while (message.type != type);
	require(CMSG_FIRSTHDR(&packet) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&packet)), sizeof(fd));
	return fd;
}

static void take_link(struct peer *peer)
{
	int fd = hear_descriptor(peer, LOCAL_WELCOME);

	peer->link = mmap(NULL, sizeof(*peer->link), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(peer->link != MAP_FAILED);
	close(fd);
}

static void take_exchange(struct peer *peer)
{
	const struct local_message ask = local_talk_message(LOCAL_ASK, 3);
	struct fabric_event event;
	int fd;

	require(local_talk_say(peer->fd, &ask, -1));
	fabric_queue_event(world.queue, &event); /* it hears us, whatever it tells */
	fd = hear_descriptor(peer, LOCAL_PAGED);
	peer->exchange = local_exchange_map(fd);
	require(peer->exchange != NULL);
	close(fd);
}

static void put_ask(struct peer *peer, const uint8_t *data, size_t size)
{
	struct local_page_ask ask = {0};

	if (size > sizeof(ask)) {
		atomic_store(&peer->exchange->asked, (uint32_t)size);
		return;
	}
	memcpy(&ask, data, size);
	peer->exchange->asks[peer->nr_asked++ % LOCAL_DEPTH_MAX] = ask;
	atomic_store(&peer->exchange->asked, peer->nr_asked);
}

/* With memory that is as it should be, so that what is asked for can come. */
static void say_packet(const struct peer *peer, const uint8_t *data, size_t size)
{
	int fd = size % 2 != 0 ? shared_descriptor(world.writable, LENT_BYTES) : -1;
	struct local_message message = {0};

	memcpy(&message, data, size < sizeof(message) ? size : sizeof(message));
	if (size >= 16) /* it need not find out what begins all messages */
		local_talk_say(peer->fd, &message, fd);
	else
		send(peer->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void put_bytes(struct peer *peer, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		peer->link->rings[LOCAL_CONNECTING_SIDE][peer->written++ % LOCAL_RING_BYTES] =
			data[i];
	atomic_store(&peer->link->sides[LOCAL_CONNECTING_SIDE].written, peer->written);
}

static void put_word(struct peer *peer, uint8_t which, uint32_t value)
{
	struct local_side *side = &peer->link->sides[which / 5 % LOCAL_NR_SIDES];
	atomic_uint *const words[] = {&side->written, &side->taken, &side->is_asleep,
				      &side->wants_room, &side->nr_revoked};

	atomic_store(words[which % 5], value);
}

/* Returns how much of the input that was. */
static size_t act(struct peer *peer, const uint8_t *data, size_t size)
{
	size_t length = size > 1 ? data[1] : 0;
	uint32_t value = 0;

	if (size < 2 || data[0] > 3)
		return 1;
	if (data[0] == 2) {
		memcpy(&value, data + 2, size - 2 < sizeof(value) ? size - 2 : sizeof(value));
		put_word(peer, data[1], value);
		return size < 6 ? size : 6;
	}
	if (length > size - 2)
		length = size - 2;
	if (data[0] == 0)
		say_packet(peer, data + 2, length);
	else if (data[0] == 3)
		put_ask(peer, data + 2, length);
	else
		put_bytes(peer, data + 2, length);
	return 2 + length;
}

/* ---- The end that hears it */

/* True when the connection has ended. */
static bool step(struct fabric_endpoint *endpoint)
{
	struct fabric_completion completions[4];
	struct fabric_event event;
	int nr = fabric_queue_poll(world.queue, completions, 4);

	for (int i = 0; i < nr; i++) {
		struct fabric_piece piece = {world.messages.bytes, MESSAGE_BYTES, NULL};

		require(completions[i].context <= 3);
		/* For the next message; the memory may be shared. */
		if (completions[i].context <= 1)
			fabric_receive(endpoint, &piece, completions[i].context);
	}
	fabric_queue_arm(world.queue);
	if (fabric_queue_event(world.queue, &event) == 0)
		return false;
	require(event.endpoint == endpoint);
	return event.kind == FABRIC_CLOSED;
}

static void run(struct peer *peer, struct fabric_endpoint *endpoint, const uint8_t *data,
		size_t size)
{
	bool has_ended = false;
	size_t used = 0;

	for (unsigned i = 0; !has_ended && i < STEPS_MAX; i++) {
		bool is_silent = used == size;

		if (is_silent)
			shutdown(peer->fd, SHUT_RDWR);
		else
			used += act(peer, data + used, size - used);
		if (is_silent || (used < size && data[used] > 3))
			has_ended = step(endpoint);
	}
	require(has_ended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fabric_endpoint *endpoint;
	struct peer peer = {.fd = -1};

	open_world();
	fill_guards(&world.messages);
	fill_guards(&world.wanted);
	open_peer(&peer);
	endpoint = accept_peer();
	take_link(&peer);
	take_exchange(&peer);
	run(&peer, endpoint, data, size);
	fabric_endpoint_close(endpoint);
	munmap(peer.link, sizeof(*peer.link));
	local_exchange_unmap(peer.exchange);
	require(world.nr_pages == 0);
	close(peer.fd);
	check_guards(&world.messages);
	check_guards(&world.wanted);
	for (size_t i = 0; i < LENT_BYTES; i++)
		require(world.read_only[i] == 0);
	return 0;
}
