/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds arbitrary bytes to an end of a tcp connection, as any client that has a ticket may. The end lends memory,
 * waits for messages and has asked for something itself. The first byte says how the bytes are cut into pieces, and
 * whether the hello is among them. Keys 1 and 2 are good ones, to write and to read only; 3 is of paged memory.
 *
 * Lent memory lies between guards. They stay as they are, nothing of them comes back, and each connection
 * ends when its bytes do. The pager has memory for a few transfers, which all leave.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/paged.h"
#include "fabric/tcp/tcp.h"

#define LENT_BYTES    256U
#define GUARD_BYTES   256U
#define MESSAGE_BYTES 40U
#define STEPS_MAX     1000000U
#define PAGES	      2U
/* The offset says what the pager does, or, as checked transfers have but one, their length: */
#define OFFSET_REFUSE 64U /* takes no such transfer  */
#define OFFSET_LATE   1U  /* ends it in the next step */
#define OFFSET_FAIL   2U  /* ends it with an error    */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[8] = {0xde, 0x5e, 0xc2, 0xe7, 0x91, 0x37, 0x5a, 0xa5};

struct guarded {
	uint8_t before[GUARD_BYTES];
	uint8_t lent[LENT_BYTES];
	uint8_t after[GUARD_BYTES];
};

static struct {
	struct fabric *fabric;
	struct fabric_listener *listener;
	struct fabric_queue *queue;
	struct guarded writable, read_only, messages, wanted, paged;
	struct fabric_paged *pages[PAGES]; /* taken transfers */
	bool is_late[PAGES];		   /* it is to be ended */
	bool may_say_secret;		   /* it was written into what is lent */
} world;

static void require(int condition)
{
	if (!condition)
		abort();
}

static void fill_guards(struct guarded *guarded)
{
	for (size_t i = 0; i < GUARD_BYTES; i++)
		guarded->before[i] = guarded->after[i] = secret[i % sizeof(secret)];
	memset(guarded->lent, 0, LENT_BYTES);
}

static void check_guards(const struct guarded *guarded)
{
	for (size_t i = 0; i < GUARD_BYTES; i++)
		require(guarded->before[i] == secret[i % sizeof(secret)] &&
			guarded->after[i] == secret[i % sizeof(secret)]);
}

/* ---- A pager */

static unsigned find_page(const struct fabric_paged *paged)
{
	for (unsigned i = 0; i < PAGES; i++) {
		if (world.pages[i] == paged)
			return i;
	}
	return PAGES;
}

static uint64_t wish_of(const struct fabric_paged *paged)
{
	return paged->is_checked ? paged->length : paged->offset;
}

static int take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	unsigned index = find_page(NULL);

	(void)pager;
	require(paged->length > 0 && paged->offset < LENT_BYTES &&
		paged->length <= LENT_BYTES - paged->offset);
	require(!paged->is_checked || paged->offset == 0);
	if ((wish_of(paged) & OFFSET_REFUSE) != 0)
		return -EIO;
	if (index == PAGES)
		return -EAGAIN;
	world.pages[index] = paged;
	world.is_late[index] = false;
	paged->addr = malloc(paged->length);
	paged->taken = paged->addr;
	require(paged->addr != NULL);
	if (paged->is_checked)
		paged->sums = calloc(1, tcp_sums_bytes(paged->length));
	return 0;
}

static void end_page(struct fabric_paged *paged)
{
	uint8_t *stored = world.paged.lent + paged->offset;

	if (paged->is_write)
		memcpy(stored, paged->addr, paged->length);
	else
		memcpy(paged->addr, stored, paged->length);
	/* There is one, whichever it is. */
	if (paged->is_checked)
		paged->sums[0] ^= checksum_crc32c(paged->addr, paged->length);
	fabric_paged_ended(paged, (wish_of(paged) & OFFSET_FAIL) != 0 ? -EIO : 0);
}

static void begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	if ((wish_of(paged) & OFFSET_LATE) != 0)
		world.is_late[find_page(paged)] = true;
	else
		end_page(paged);
}

static void leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	unsigned index = find_page(paged);

	(void)pager;
	require(index < PAGES);
	world.pages[index] = NULL;
	free(paged->taken);
	free(paged->sums);
}

static void end_late_pages(void)
{
	for (unsigned i = 0; i < PAGES; i++) {
		if (world.pages[i] && world.is_late[i])
			end_page(world.pages[i]);
		world.is_late[i] = false;
	}
}

/* ---- The end that is fed */

/* Lends with a key that inputs can know. In rising order the tree stays in order. */
static void name_key(const struct fabric_memory *memory, uint64_t key)
{
	struct tcp_registration *registration = memory->handle;

	registration->keyed.key = key;
}

static void lend(struct guarded *guarded, unsigned access, uint64_t key)
{
	struct fabric_memory memory;

	require(fabric_memory_register(world.fabric->domain, guarded->lent, LENT_BYTES, access,
				       &memory) == 0);
	name_key(&memory, key);
}

static void lend_paged(uint64_t key)
{
	static struct fabric_pager pager = {.take = take, .begin = begin, .leave = leave};
	struct fabric_memory memory;

	require(fabric_memory_register_paged(world.fabric->domain, &pager, LENT_BYTES,
					     FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
					     &memory) == 0);
	name_key(&memory, key);
}

static void open_world(void)
{
	if (world.fabric)
		return;
	require(fabric_open("tcp", &world.fabric) == 0);
	require(fabric_listen(world.fabric, "127.0.0.1:0", &world.listener) == 0);
	require(fabric_queue_open(world.fabric, 8, &world.queue) == 0);
	lend(&world.writable, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, 1);
	lend(&world.read_only, FABRIC_REMOTE_READ, 2);
	lend_paged(3);
}

static int open_peer(void)
{
	struct sockaddr_in peer = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	peer.sin_port = htons((uint16_t)atoi(strrchr(world.listener->address, ':') + 1));
	require(fd >= 0 && connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
	return fd;
}

static struct fabric_endpoint *accept_peer(void)
{
	struct fabric_endpoint *endpoint = NULL;
	struct fabric_request request;

	if (fabric_listener_next(world.listener, &request) != 0)
		return NULL;
	require(fabric_accept(&request, world.queue, world.fabric->domain, NULL, &endpoint) == 0);
	for (uint64_t i = 0; i < 2; i++) {
		struct fabric_piece piece = {world.messages.lent + i * MESSAGE_BYTES, MESSAGE_BYTES,
					     NULL};

		fabric_receive(endpoint, &piece, i);
	}
	fabric_read(endpoint, &(struct fabric_piece){world.wanted.lent, 64, NULL}, 1, 0, 7, 2);
	fabric_write(endpoint, &(struct fabric_piece){world.wanted.lent, 8, NULL}, 1, 0, 7, 3);
	fabric_paged_transfer(endpoint, FABRIC_PAGED_CHECKED,
			      &(struct fabric_piece){world.wanted.lent, 64, NULL}, 1, 0, 7, 4);
	return endpoint;
}

/* Bytes that come back are not from beside what is lent. */
static void drain(int fd)
{
	uint8_t bytes[4096];
	ssize_t nr;

	while ((nr = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		require(world.may_say_secret || !memmem(bytes, (size_t)nr, secret, sizeof(secret)));
}

/* True when the connection has ended. */
static bool step(struct fabric_endpoint *endpoint)
{
	struct fabric_completion completions[4];
	struct fabric_event event;
	int nr;

	end_late_pages();
	nr = fabric_queue_poll(world.queue, completions, 4);
	for (int i = 0; i < nr; i++) {
		struct fabric_piece piece = {world.messages.lent, MESSAGE_BYTES, NULL};

		require(completions[i].context <= 4);
		/* For the next message; the memory may be shared. */
		if (completions[i].context <= 1)
			fabric_receive(endpoint, &piece, completions[i].context);
	}
	if (fabric_queue_event(world.queue, &event) == 0)
		return false;
	require(event.endpoint == endpoint);
	return event.kind == FABRIC_CLOSED;
}

/* Returns how much was said, or need not be as nobody listens any more. */
static size_t say(int fd, const uint8_t *data, size_t size)
{
	ssize_t nr = size > 0 ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

	if (nr >= 0)
		return (size_t)nr;
	return errno == EAGAIN ? 0 : size;
}

static void run(int fd, const uint8_t *data, size_t size, size_t piece)
{
	struct fabric_endpoint *endpoint = NULL;
	bool has_ended = false;
	size_t sent = 0;

	for (unsigned i = 0; !has_ended && i < STEPS_MAX; i++) {
		sent += say(fd, data + sent, size - sent < piece ? size - sent : piece);
		if (sent == size)
			shutdown(fd, SHUT_WR);
		if (!endpoint)
			endpoint = accept_peer();
		has_ended = endpoint ? step(endpoint)
				     : sent == size && fabric_listener_sweep(
							       world.listener,
							       &(struct fabric_patience){0}) == 0;
		drain(fd);
	}
	require(has_ended);
	if (endpoint)
		fabric_endpoint_close(endpoint);
	for (unsigned i = 0; i < PAGES; i++)
		require(!world.pages[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tcp_hello hello = {.magic = htole32(TCP_WIRE_MAGIC),
					.version = htole16(TCP_WIRE_VERSION)};
	int fd;

	if (size < 1)
		return 0;
	open_world();
	fill_guards(&world.writable);
	fill_guards(&world.read_only);
	fill_guards(&world.messages);
	fill_guards(&world.wanted);
	fill_guards(&world.paged);
	world.may_say_secret = memmem(data, size, secret, 4) != NULL;
	fd = open_peer();
	if ((data[0] & 1) != 0)
		require(send(fd, &hello, TCP_HELLO_HEAD, MSG_NOSIGNAL) == TCP_HELLO_HEAD);
	run(fd, data + 1, size - 1, data[0] < 2 ? SIZE_MAX : data[0]);
	close(fd);
	check_guards(&world.writable);
	check_guards(&world.read_only);
	check_guards(&world.messages);
	check_guards(&world.wanted);
	check_guards(&world.paged);
	for (size_t i = 0; i < LENT_BYTES; i++)
		require(world.read_only.lent[i] == 0);
	return 0;
}
