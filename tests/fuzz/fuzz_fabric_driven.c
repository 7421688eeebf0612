/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds arbitrary messages to both ends of driven connections, as any peer may, over a fabric in which operations
 * end in any order. One end has a pager, the other asks. The input is steps:
 *
 *	0, n       a message of n bytes, which follow, comes to the end that serves
 *	1, n       … to the end that asks
 *	2, n       an operation under way ends: of the end that serves, or, if n is odd, of the other
 *	3, n       … fails
 *	4, n       the end that asks does so: n tells what for
 *	5, n       the pager ends its first transfer; fails it if n is odd
 *	other      both ends go on
 *
 * Key 1 is of memory that may be written, 2 of memory that may be read only. Bytes move inside of the memory of
 * transfers that the pager has taken. When the input ends, so does each connection, and no transfer is left.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/driven/driven.h"

#define PAGED_BYTES  (UINT64_C(1) << 16)
#define PAGES_MAX    4U /* transfers that the pager has memory for */
#define MINE_BYTES   8192U
#define POSTED_MAX   1024U
#define MESSAGES_MAX 128U
#define STEPS_MAX    100000U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SERVING, ASKING, NR_ENDS };

static void require(int condition)
{
	if (!condition)
		abort();
}

struct posted {
	struct fabric_piece piece;
	uint64_t context;
};

/* An endpoint of the fabric below. */
struct end {
	struct fabric_endpoint base;
	struct posted receives[FABRIC_RECEIVE_MOST];
	unsigned receive_first, receive_end;
	struct posted operations[POSTED_MAX];
	unsigned nr_operations;
	bool is_open;
};

static struct {
	struct fabric below;
	struct fabric_domain below_domain;
	struct fabric_queue below_queue;
	struct fabric *fabric;
	struct fabric_queue *queue;
	struct end ends[NR_ENDS];
	struct fabric_endpoint *endpoints[NR_ENDS]; /* driven ones */
	struct fabric_completion completions[MESSAGES_MAX];
	unsigned nr_completions;
	unsigned nr_told; /* events */
	struct fabric_pager pager;
	struct fabric_paged *pages[PAGES_MAX];
	bool has_begun[PAGES_MAX];
	struct fabric_memory mine;
	uint8_t bytes[MINE_BYTES];
	bool has_closed;
} world;

/* ---- The fabric below */

static int register_below(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			  struct fabric_memory *out)
{
	(void)access;
	require(addr && length > 0);
	*out = (struct fabric_memory){.domain = domain, .key = 7};
	return 0;
}

static bool deregister_below(struct fabric_memory *memory)
{
	memory->handle = NULL;
	return true;
}

static int open_queue_below(struct fabric *fabric, uint32_t depth, struct fabric_queue **out)
{
	(void)depth;
	world.below_queue = (struct fabric_queue){.fabric = fabric};
	*out = &world.below_queue;
	return 0;
}

static void close_queue_below(struct fabric_queue *queue)
{
	(void)queue;
}

static int arm_below(struct fabric_queue *queue)
{
	(void)queue;
	return 0;
}

static int poll_below(struct fabric_queue *queue, struct fabric_completion *out, unsigned max)
{
	unsigned nr = world.nr_completions < max ? world.nr_completions : max;

	(void)queue;
	memcpy(out, world.completions, nr * sizeof(*out));
	world.nr_completions -= nr;
	memmove(world.completions, world.completions + nr,
		world.nr_completions * sizeof(*world.completions));
	return (int)nr;
}

/* Both are connected at once. */
static int event_below(struct fabric_queue *queue, struct fabric_event *out)
{
	(void)queue;
	if (world.nr_told == NR_ENDS)
		return 0;
	*out = (struct fabric_event){.kind = FABRIC_CONNECTED,
				     .endpoint = &world.ends[world.nr_told++].base};
	return 1;
}

static struct fabric_endpoint *open_end(unsigned which, struct fabric_queue *queue, void *owner)
{
	struct end *end = &world.ends[which];

	*end = (struct end){.base = {.queue = queue, .owner = owner}, .is_open = true};
	return &end->base;
}

static int connect_below(struct fabric_queue *queue, const char *address, const void *private_data,
			 size_t private_length, void *owner, struct fabric_endpoint **out)
{
	(void)address;
	(void)private_data;
	(void)private_length;
	*out = open_end(ASKING, queue, owner);
	return 0;
}

static int accept_below(struct fabric_request *request, struct fabric_queue *queue,
			struct fabric_domain *domain, void *owner, struct fabric_endpoint **out)
{
	(void)request;
	require(domain == &world.below_domain); /* in which nothing is lent */
	*out = open_end(SERVING, queue, owner);
	return 0;
}

static void close_below(struct fabric_endpoint *endpoint)
{
	((struct end *)endpoint)->is_open = false;
}

static int receive_below(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
			 uint64_t context)
{
	struct end *end = (struct end *)endpoint;

	require(end->is_open);
	require(end->receive_end - end->receive_first < DRIVEN_RECEIVES);
	end->receives[end->receive_end++ % FABRIC_RECEIVE_MOST] = (struct posted){*piece, context};
	return 0;
}

static int post(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		uint64_t context)
{
	struct end *end = (struct end *)endpoint;

	require(end->is_open && piece->length > 0);
	if (end->nr_operations == POSTED_MAX || context % 13 == 12)
		return -EAGAIN;
	end->operations[end->nr_operations++] = (struct posted){*piece, context};
	return 0;
}

static int send_below(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		      uint64_t context)
{
	require(piece->length <= sizeof(struct driven_message));
	return post(endpoint, piece, context);
}

static bool is_taken(const struct fabric_piece *piece)
{
	const uint8_t *begin = piece->addr;

	for (unsigned i = 0; i < PAGES_MAX; i++) {
		const struct fabric_paged *page = world.pages[i];
		const uint8_t *addr = page ? page->addr : NULL;

		if (addr && begin >= addr && piece->length <= page->length &&
		    begin + piece->length <= addr + page->length)
			return true;
	}
	return false;
}

static int move_below(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	(void)remote;
	(void)key;
	require(endpoint == &world.ends[SERVING].base && nr_pieces == 1);
	require(is_taken(&pieces[0]));
	return post(endpoint, pieces, context);
}

static const struct fabric_ops below_ops = {
	.memory_register = register_below,
	.memory_deregister = deregister_below,
	.queue_open = open_queue_below,
	.queue_close = close_queue_below,
	.queue_arm = arm_below,
	.queue_poll = poll_below,
	.queue_event = event_below,
	.connect = connect_below,
	.endpoint_close = close_below,
	.read = move_below,
	.write = move_below,
	.receive = receive_below,
	.send = send_below,
};
static const struct fabric_listening_ops below_listening_ops = {.accept = accept_below};

/* ---- The pager */

static int take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	require(paged->length > 0 && paged->offset < PAGED_BYTES &&
		paged->length <= PAGED_BYTES - paged->offset);
	for (unsigned i = 0; i < PAGES_MAX; i++) {
		if (world.pages[i])
			continue;
		paged->addr = calloc(1, paged->length);
		paged->sums = calloc(driven_nr_sums(paged->length), sizeof(*paged->sums));
		require(paged->addr && paged->sums);
		world.pages[i] = paged;
		world.has_begun[i] = false;
		return 0;
	}
	return -EAGAIN;
}

static unsigned index_of(const struct fabric_paged *paged)
{
	unsigned i = 0;

	while (world.pages[i] != paged)
		require(++i < PAGES_MAX);
	return i;
}

static void begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	require(!world.has_begun[index_of(paged)]);
	world.has_begun[index_of(paged)] = true;
	if (paged->offset % 3 == 0) {
		world.has_begun[index_of(paged)] = false;
		fabric_paged_ended(paged, 0);
	}
}

static void leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	const unsigned i = index_of(paged);

	(void)pager;
	world.pages[i] = NULL;
	free(paged->addr);
	free(paged->sums);
}

static void end_page(bool has_failed)
{
	for (unsigned i = 0; i < PAGES_MAX; i++) {
		if (!world.pages[i] || !world.has_begun[i])
			continue;
		world.has_begun[i] = false;
		fabric_paged_ended(world.pages[i], has_failed ? -EIO : 0);
		return;
	}
}

static void lend_paged(unsigned access, uint64_t key)
{
	struct driven_paged *paged;
	struct fabric_memory memory;

	require(fabric_memory_register_paged(world.fabric->domain, &world.pager, PAGED_BYTES,
					     access, &memory) == 0);
	paged = memory.handle;
	paged->keyed.key = key;
}

/* ---- The world */

static void open_world(void)
{
	if (world.fabric)
		return;
	world.below = (struct fabric){
		.ops = &below_ops,
		.listening = &below_listening_ops,
		.attributes = {.transport = "fuzzed"},
		.domain = &world.below_domain,
	};
	world.below_domain.fabric = &world.below;
	world.pager = (struct fabric_pager){take, begin, leave};
	require(driven_open_over(&world.below, &world.fabric) == 0);
	require(fabric_queue_open(world.fabric, 8, &world.queue) == 0);
	lend_paged(FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, 1);
	lend_paged(FABRIC_REMOTE_READ, 2);
	require(fabric_memory_register(world.fabric->domain, world.bytes, MINE_BYTES,
				       FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
				       &world.mine) == 0);
}

static void open_ends(void)
{
	struct fabric_request request = {0};

	world.nr_told = 0;
	world.nr_completions = 0;
	world.has_closed = false;
	require(fabric_accept(&request, world.queue, world.fabric->domain, NULL,
			      &world.endpoints[SERVING]) == 0);
	require(fabric_connect(world.queue, "", NULL, 0, NULL, &world.endpoints[ASKING]) == 0);
	for (unsigned i = 0; i < NR_ENDS; i++) {
		static uint8_t notes[NR_ENDS][48];
		const struct fabric_piece piece = {notes[i], sizeof(notes[i]), NULL};

		require(fabric_receive(world.endpoints[i], &piece, 1) == 0);
		fabric_send(world.endpoints[i], &piece, 2); /* there may be no room */
	}
}

static void close_ends(void)
{
	struct fabric_completion completion;

	for (unsigned i = 0; i < NR_ENDS; i++) {
		if (world.endpoints[i])
			fabric_endpoint_close(world.endpoints[i]);
		world.endpoints[i] = NULL;
	}
	for (unsigned i = 0; i < PAGES_MAX; i++)
		require(!world.pages[i]);
	while (fabric_queue_poll(world.queue, &completion, 1) > 0)
		;
}

static void complete(uint64_t context, int status)
{
	if (world.nr_completions < MESSAGES_MAX)
		world.completions[world.nr_completions++] =
			(struct fabric_completion){.context = context, .status = status};
}

static void hear(unsigned which, const uint8_t *data, size_t size)
{
	struct end *end = &world.ends[which];
	const struct posted *receive = &end->receives[end->receive_first % FABRIC_RECEIVE_MOST];

	if (!end->is_open || end->receive_first == end->receive_end)
		return;
	end->receive_first++;
	if (size > receive->piece.length)
		size = receive->piece.length;
	memcpy(receive->piece.addr, data, size);
	complete(receive->context, 0);
}

static void end_operation(unsigned n, int status)
{
	struct end *end = &world.ends[n % NR_ENDS];
	const unsigned i = end->nr_operations > 0 ? n / NR_ENDS % end->nr_operations : 0;

	if (!end->is_open || end->nr_operations == 0)
		return;
	complete(end->operations[i].context, status);
	memmove(end->operations + i, end->operations + i + 1,
		(--end->nr_operations - i) * sizeof(*end->operations));
}

static void ask(unsigned n)
{
	const struct fabric_piece pieces[2] = {
		{world.bytes, n, world.mine.descriptor},
		{world.bytes + n, MINE_BYTES / 2, world.mine.descriptor}};
	struct fabric_endpoint *endpoint = world.endpoints[ASKING];

	if (!endpoint)
		return;
	switch (n % 5) {
	case 0:
		fabric_read(endpoint, pieces, 2, 0, 1, 100 + n);
		break;
	case 1:
		fabric_write(endpoint, pieces, 2, 0, 1, 100 + n);
		break;
	case 2:
		fabric_paged_transfer(endpoint, FABRIC_PAGED_WRITE | FABRIC_PAGED_DURABLE, pieces,
				      1, n, 1, 100 + n);
		break;
	case 3:
		fabric_paged_transfer(endpoint, FABRIC_PAGED_CHECKED, pieces, 2, 0, 1, 100 + n);
		break;
	default:
		fabric_paged_transfer(endpoint, FABRIC_PAGED_WRITE | FABRIC_PAGED_CHECKED, pieces,
				      2, 0, 1, 100 + n);
	}
}

static void go_on(void)
{
	struct fabric_completion completions[4];
	struct fabric_event event;
	int nr = fabric_queue_poll(world.queue, completions, 4);

	for (int i = 0; i < nr; i++)
		require(completions[i].context <= 100 + UINT8_MAX);
	fabric_queue_arm(world.queue);
	while (fabric_queue_event(world.queue, &event) == 1) {
		const unsigned which = event.endpoint == world.endpoints[ASKING];

		require(event.endpoint == world.endpoints[which]);
		if (event.kind != FABRIC_CLOSED)
			continue;
		fabric_endpoint_close(event.endpoint);
		world.endpoints[which] = NULL;
	}
}

/* Returns how much of the input that was. */
static size_t act(const uint8_t *data, size_t size)
{
	size_t length = size > 1 ? data[1] : 0;

	if (size < 2 || data[0] > 5) {
		go_on();
		return 1;
	}
	if (data[0] == 2)
		end_operation(data[1], 0);
	else if (data[0] == 3)
		end_operation(data[1], -EIO);
	else if (data[0] == 4)
		ask(data[1]);
	else if (data[0] == 5)
		end_page(data[1] % 2 != 0);
	if (data[0] > 1)
		return 2;
	if (length > size - 2)
		length = size - 2;
	hear(data[0], data + 2, length);
	return 2 + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t used = 0;

	open_world();
	open_ends();
	go_on();
	for (unsigned i = 0; used < size && i < STEPS_MAX; i++) {
		used += act(data + used, size - used);
		go_on();
	}
	close_ends();
	return 0;
}
