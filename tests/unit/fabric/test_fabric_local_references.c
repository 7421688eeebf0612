/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of a pager that peers over local find again without it. Here the test is the pager, and has one slab. It counts
 * what it is asked for, and hides pages, ends keys and dies as it likes. Then servers that are not ours show what is
 * no slab, and say where no page can be.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/epoch.h"
#include "base/shared.h"
#include "fabric/local/exchange.h"
#include "fabric/local/references.h"
#include "fabric/sums.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/local_peer.h"
#include "unit/group.h"

#define NR_PAGES 8U
#define FIRST	 (3U * FABRIC_SLAB_PAGES + 5) /* the place of the key's first page */
#define LENGTH	 ((uint64_t)NR_PAGES * FABRIC_PAGE)

struct world {
	struct client client; /* its target has no thread */
	struct target *target;
	struct folder folder;
	struct fabric_pager pager;
	struct fabric_memory paged;
	uint8_t *slab;
	uint64_t generations[NR_PAGES], last_generation, slab_number;
	atomic_uint nr_asked;
	atomic_bool is_over; /* the thread that serves */
	unsigned nr_used;
	uint32_t used_place, used_generation;
	uint32_t sums[NR_PAGES];
	struct fabric_endpoint *connected, *accepted;
};

static struct world *world_of(struct fabric_pager *pager)
{
	return caa_container_of(pager, struct world, pager);
}

static uint8_t *page_at(const struct world *world, uint64_t page)
{
	return world->slab + (FIRST % FABRIC_SLAB_PAGES + page) * FABRIC_PAGE;
}

static struct page_guard *guard_at(const struct world *world, uint64_t page)
{
	struct page_guard *guards =
		(struct page_guard *)(void *)(world->slab +
					      (size_t)FABRIC_SLAB_PAGES * FABRIC_PAGE);

	return &guards[FIRST % FABRIC_SLAB_PAGES + page];
}

/* ---- The pager */

static int take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct world *world = world_of(pager);
	const uint64_t page = paged->offset / FABRIC_PAGE;

	world->nr_asked++;
	paged->addr = page_at(world, page) + paged->offset % FABRIC_PAGE;
	paged->sums = world->sums;
	if (!paged->takes_reference || world->generations[page] == 0)
		return 0;
	paged->reference = (struct fabric_reference){
		.fd = shared_descriptor(world->slab, FABRIC_SLAB_BYTES),
		.slab = world->slab_number,
		.place = FIRST + (uint32_t)page,
		.generation = world->generations[page],
	};
	return 0;
}

static void begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	const struct iovec iov = {paged->addr, paged->length};

	fabric_sums_make(&iov, paged->length, world_of(pager)->sums);
	fabric_paged_ended(paged, 0);
}

static void leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	(void)paged;
}

static void used(struct fabric_pager *pager, uint32_t place, uint32_t generation)
{
	struct world *world = world_of(pager);

	world->nr_used++;
	world->used_place = place;
	world->used_generation = generation;
}

static void hide(struct world *world, uint64_t page)
{
	page_guard_hide(guard_at(world, page));
	world->generations[page] = 0;
}

/* Shows a page with other bytes than before. */
static void show(struct world *world, uint64_t page)
{
	hide(world, page);
	world->generations[page] = ++world->last_generation;
	fill(page_at(world, page), FABRIC_PAGE, (unsigned)world->last_generation);
	page_guard_show(guard_at(world, page), world->last_generation);
}

/* ---- The world */

static void make_slab(struct world *world)
{
	void *slab;

	assert_int_equal(shared_map(FABRIC_SLAB_BYTES, FABRIC_PAGE, &slab), 0);
	world->slab = slab;
	world->slab_number++;
	for (unsigned page = 0; page < NR_PAGES; page++)
		show(world, page);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->target = &world->client.target;
	world->folder = make_folder();
	target_open(world->target, world->folder.address);
	assert_int_equal(fabric_open("local", &world->client.fabric), 0);
	assert_int_equal(fabric_queue_open(world->client.fabric, 128, &world->client.queue), 0);
	make_slab(world);
	world->pager = (struct fabric_pager){take, begin, leave, used};
	assert_int_equal(fabric_memory_register_paged(world->target->fabric->domain, &world->pager,
						      LENGTH, FABRIC_REMOTE_READ, &world->paged),
			 0);
	connect_pair(&world->client, world->target, &world->connected, &world->accepted);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	fabric_endpoint_close(world->connected);
	if (world->accepted)
		fabric_endpoint_close(world->accepted);
	fabric_memory_deregister(&world->paged);
	fabric_queue_close(world->client.queue);
	close_fabric(world->client.fabric);
	target_close(world->target);
	remove_folder(&world->folder);
	shared_unmap(world->slab);
	free(world);
	return 0;
}

static void poll_target(struct world *world)
{
	struct fabric_completion completion;

	assert_int_equal(fabric_queue_poll(world->target->queue, &completion, 1), 0);
}

static int start_read(const struct world *world, void *to, uint64_t length, uint64_t offset)
{
	const struct fabric_piece pieces[2] = {
		{to, length / 3, NULL}, {(uint8_t *)to + length / 3, length - length / 3, NULL}};

	return fabric_read(world->connected, pieces, 2, offset, world->paged.key, 7);
}

/* Returns whether the pager was asked. */
static bool read_bytes(struct world *world, void *to, uint64_t length, uint64_t offset)
{
	const unsigned before = world->nr_asked;
	struct fabric_completion completion;

	assert_int_equal(start_read(world, to, length, offset), 0);
	while (fabric_queue_poll(world->client.queue, &completion, 1) == 0)
		poll_target(world);
	assert_int_equal(completion.status, 0);
	return world->nr_asked > before;
}

static bool read_page(struct world *world, uint64_t page)
{
	uint8_t bytes[FABRIC_PAGE];
	const bool is_asked = read_bytes(world, bytes, FABRIC_PAGE, page * FABRIC_PAGE);

	assert_memory_equal(bytes, page_at(world, page), FABRIC_PAGE);
	return is_asked;
}

/* Reads until the pager is asked for it no more: what is shown is heard of by and by. */
static void learn(struct world *world, uint64_t page)
{
	while (read_page(world, page))
		;
}

/* ---- What is found */

static void finds_pages_again(void **state)
{
	struct world *world = *state;
	const unsigned lengths[] = {1, 64, FABRIC_PAGE / 2, FABRIC_PAGE};
	uint8_t bytes[FABRIC_PAGE];
	unsigned nr_used;

	for (unsigned page = 0; page < NR_PAGES; page++)
		learn(world, page);
	nr_used = world->nr_used;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint64_t skip = FABRIC_PAGE - lengths[i];

		assert_false(read_bytes(world, bytes, lengths[i], 2 * FABRIC_PAGE + skip));
		assert_memory_equal(bytes, page_at(world, 2) + skip, lengths[i]);
	}
	/* It hears of that when it is asked next. */
	assert_int_equal(world->nr_used, nr_used);
	hide(world, 4);
	assert_true(read_page(world, 4));
	assert_true(world->nr_used >= nr_used + 4);
	assert_int_equal(world->used_place, FIRST + 2);
	assert_int_equal(world->used_generation, world->generations[2]);
}

static void finds_several_pages(void **state)
{
	struct world *world = *state;
	uint8_t bytes[3 * FABRIC_PAGE];

	learn(world, 1);
	learn(world, 3);
	assert_true(read_bytes(world, bytes, sizeof(bytes), FABRIC_PAGE));
	learn(world, 2);
	assert_false(read_bytes(world, bytes, sizeof(bytes), FABRIC_PAGE));
	assert_memory_equal(bytes, page_at(world, 1), sizeof(bytes));
}

/* Sums are of what the pager keeps, and it must be asked for them. */
static void asks_for_sums(void **state)
{
	struct world *world = *state;
	uint8_t bytes[FABRIC_PAGE];
	const struct fabric_piece piece = {bytes, FABRIC_PAGE, NULL};
	struct fabric_completion completion;
	unsigned before;

	learn(world, 0);
	before = world->nr_asked;
	assert_int_equal(fabric_paged_transfer(world->connected, FABRIC_PAGED_CHECKED, &piece, 1, 0,
					       world->paged.key, 7),
			 0);
	while (fabric_queue_poll(world->client.queue, &completion, 1) == 0)
		poll_target(world);
	assert_int_equal(completion.status, 0);
	assert_int_equal(world->nr_asked, before + 1);
}

/* ---- What is not believed */

static void believes_no_page_that_is_hidden(void **state)
{
	struct world *world = *state;

	for (unsigned round = 0; round < 20; round++) {
		const unsigned page = round % NR_PAGES;

		learn(world, page);
		hide(world, page);
		assert_true(read_page(world, page));
		assert_true(read_page(world, page));
		show(world, page); /* the same place, another generation */
		assert_true(read_page(world, page));
		assert_false(read_page(world, page));
	}
}

/* The slab's place is another slab's. */
static void believes_no_slab_that_has_gone(void **state)
{
	struct world *world = *state;

	for (unsigned round = 0; round < 3; round++) {
		uint8_t *old = world->slab;

		learn(world, 1);
		for (unsigned page = 0; page < NR_PAGES; page++)
			hide(world, page);
		make_slab(world);
		assert_true(read_page(world, 1));
		learn(world, 1);
		shared_unmap(old);
	}
}

static void believes_no_key_that_has_ended(void **state)
{
	struct world *world = *state;
	struct fabric_completion completion;
	uint8_t bytes[FABRIC_PAGE];
	int ret;

	learn(world, 0);
	fabric_memory_deregister(&world->paged);
	memset(bytes, 0xaa, sizeof(bytes));
	ret = start_read(world, bytes, FABRIC_PAGE, 0);
	while (ret == 0 && fabric_queue_poll(world->client.queue, &completion, 1) == 0)
		poll_target(world);
	assert_true(ret != 0 || completion.status != 0);
	assert_int_equal(bytes[0], 0xaa);
}

static void believes_no_peer_that_has_ended(void **state)
{
	struct world *world = *state;
	uint8_t bytes[FABRIC_PAGE];

	learn(world, 0);
	fabric_endpoint_close(world->accepted);
	world->accepted = NULL;
	assert_int_equal(start_read(world, bytes, FABRIC_PAGE, 0), -ENOTCONN);
}

/* A thread that serves, and ends with its sockets open. */
static void *serve_and_die(void *argument)
{
	struct world *world = argument;

	while (!world->is_over)
		poll_target(world);
	return NULL;
}

static bool is_found(const struct fabric_window *window, const struct world *world)
{
	uint8_t bytes[FABRIC_PAGE];
	bool is_found;

	epoch_enter();
	is_found = fabric_gate_enter(window->gate);
	if (is_found) {
		is_found =
			window->pages->read(window->pages, world->paged.key, 0, bytes, FABRIC_PAGE);
		is_found = fabric_gate_leave(window->gate) && is_found;
	}
	epoch_exit();
	return is_found;
}

/* Nobody has told us, but the kernel has: the lock is broken. */
static void believes_no_thread_that_has_died(void **state)
{
	struct world *world = *state;
	struct fabric_completion completion;
	struct fabric_window window;
	uint8_t bytes[FABRIC_PAGE];
	unsigned nr_asked;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, serve_and_die, world), 0);
	do {
		nr_asked = world->nr_asked;
		assert_int_equal(start_read(world, bytes, FABRIC_PAGE, 0), 0);
		while (fabric_queue_poll(world->client.queue, &completion, 1) == 0)
			;
	} while (world->nr_asked > nr_asked);
	assert_int_equal(fabric_window(world->connected, world->paged.key, &window), 0);
	assert_true(is_found(&window, world));
	world->is_over = true;
	pthread_join(thread, NULL);
	assert_false(is_found(&window, world));
	assert_true(fabric_gate_is_open(window.gate));
	fabric_gate_drop(window.gate);
}

/* Threads that look through a window, while pages come and go. */
static void finds_pages_through_windows(void **state)
{
	struct world *world = *state;
	struct fabric_window window;

	learn(world, 0);
	assert_int_equal(fabric_window(world->connected, world->paged.key, &window), 0);
	assert_null(window.addr);
	assert_true(is_found(&window, world));
	hide(world, 0);
	assert_false(is_found(&window, world));
	show(world, 0);
	learn(world, 0);
	assert_true(is_found(&window, world));
	fabric_memory_deregister(&world->paged);
	assert_false(is_found(&window, world));
	fabric_gate_drop(window.gate);
}

/* ---- Servers that show what they like */

struct liar {
	int fd;
	struct folder folder;
	struct local_peer peer;
	struct local_exchange *exchange;
	struct fabric_endpoint *endpoint;
};

static int make_file(size_t length, unsigned seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void say(const struct liar *liar, enum local_message_type type, uint64_t key,
		uint64_t length, int fd)
{
	struct local_message message = local_talk_message(type, key);

	message.length = length;
	message.access = type == LOCAL_PAGED ? FABRIC_REMOTE_READ : 0;
	local_peer_say_message(&liar->peer, &message, fd);
	if (fd >= 0)
		close(fd);
}

/* A connection that has paged memory, and a read under way. */
static void meet(struct client *client, struct liar *liar, uint8_t *page)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	const struct fabric_piece piece = {page, FABRIC_PAGE, NULL};
	struct local_hello hello;
	int fd;

	liar->folder = make_folder();
	strcpy(place.sun_path, liar->folder.socket);
	liar->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(liar->fd, (const struct sockaddr *)&place, sizeof(place)), 0);
	assert_int_equal(listen(liar->fd, 8), 0);
	liar->endpoint = connect_start(client->queue, liar->folder.address, "x");
	liar->peer = (struct local_peer){.fd = accept4(liar->fd, NULL, NULL, SOCK_CLOEXEC)};
	assert_int_equal(recv(liar->peer.fd, &hello, sizeof(hello), 0), LOCAL_HELLO_HEAD + 1);
	say(liar, LOCAL_WELCOME, 0, sizeof(struct local_link),
	    make_file(sizeof(struct local_link), F_SEAL_SHRINK));
	assert_int_equal(await_event(client->queue).kind, FABRIC_CONNECTED);
	assert_int_equal(fabric_read(liar->endpoint, &piece, 1, 0, 42, 7), 0);
	fd = local_exchange_make();
	liar->exchange = local_exchange_map(fd);
	assert_non_null(liar->exchange);
	say(liar, LOCAL_PAGED, 42, LENGTH, fd);
}

static void part(struct liar *liar)
{
	fabric_endpoint_close(liar->endpoint);
	local_exchange_unmap(liar->exchange);
	local_peer_close(&liar->peer);
	close(liar->fd);
	unlink(liar->folder.socket);
	remove_folder(&liar->folder);
}

/* Answers the read, with a reference. */
static void answer(const struct liar *liar, uint32_t place)
{
	const struct local_page_reference reference = {.generation = 1, .place = place};

	while (atomic_load(&liar->exchange->asked) == 0)
		;
	liar->exchange->references[0] = reference;
	liar->exchange->answers[0].number = liar->exchange->asks[0].number;
	atomic_store(&liar->exchange->answered, 1);
}

static void expect_end(struct client *client, struct liar *liar)
{
	assert_int_equal(await_completion(client->queue).status, -ECONNRESET);
	await_closed(liar->endpoint, -ECONNRESET);
	part(liar);
}

static void takes_slabs_that_are_some_alone(void **state)
{
	static const struct {
		uint64_t life_length;
		int life_seals; /* -1: no life at all */
		uint64_t index, said, length;
		int seals; /* -1: no descriptor */
	} cases[] = {
		{LOCAL_LIFE_BYTES - 1, F_SEAL_SHRINK, 0, FABRIC_SLAB_BYTES, FABRIC_SLAB_BYTES,
		 F_SEAL_SHRINK},
		{LOCAL_LIFE_BYTES, 0, 0, FABRIC_SLAB_BYTES, FABRIC_SLAB_BYTES, F_SEAL_SHRINK},
		{0, -1, 0, FABRIC_SLAB_BYTES, FABRIC_SLAB_BYTES, F_SEAL_SHRINK},
		{LOCAL_LIFE_BYTES, F_SEAL_SHRINK, FABRIC_SLABS_MAX, FABRIC_SLAB_BYTES,
		 FABRIC_SLAB_BYTES, F_SEAL_SHRINK},
		{LOCAL_LIFE_BYTES, F_SEAL_SHRINK, UINT64_MAX, FABRIC_SLAB_BYTES, FABRIC_SLAB_BYTES,
		 F_SEAL_SHRINK},
		{LOCAL_LIFE_BYTES, F_SEAL_SHRINK, 0, FABRIC_SLAB_BYTES + 1, FABRIC_SLAB_BYTES,
		 F_SEAL_SHRINK},
		{LOCAL_LIFE_BYTES, F_SEAL_SHRINK, 0, FABRIC_SLAB_BYTES, FABRIC_SLAB_BYTES - 4096,
		 F_SEAL_SHRINK},
		{LOCAL_LIFE_BYTES, F_SEAL_SHRINK, 0, FABRIC_SLAB_BYTES, FABRIC_SLAB_BYTES, 0},
		{LOCAL_LIFE_BYTES, F_SEAL_SHRINK, 0, FABRIC_SLAB_BYTES, 0, -1},
	};
	struct client *client = *state;
	uint8_t page[FABRIC_PAGE];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct liar liar;

		meet(client, &liar, page);
		if (cases[i].life_seals >= 0)
			say(&liar, LOCAL_LIFE, 0, LOCAL_LIFE_BYTES,
			    make_file(cases[i].life_length, (unsigned)cases[i].life_seals));
		say(&liar, LOCAL_SLAB, cases[i].index, cases[i].said,
		    cases[i].seals >= 0 ? make_file(cases[i].length, (unsigned)cases[i].seals)
					: -1);
		expect_end(client, &liar);
	}
}

/* Shows a life and hears that the read was asked for. */
static void show_life(struct client *client, const struct liar *liar)
{
	struct fabric_completion completion;

	say(liar, LOCAL_LIFE, 0, LOCAL_LIFE_BYTES, make_file(LOCAL_LIFE_BYTES, F_SEAL_SHRINK));
	for (unsigned left = 1000; left > 0; left -= atomic_load(&liar->exchange->asked) > 0)
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
}

static void believes_no_impossible_place(void **state)
{
	static const uint32_t places[] = {FABRIC_SLABS_MAX * FABRIC_SLAB_PAGES, UINT32_MAX};
	struct client *client = *state;
	uint8_t page[FABRIC_PAGE];
	const struct fabric_piece piece = {page, FABRIC_PAGE, NULL};
	struct liar liar;

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		meet(client, &liar, page);
		show_life(client, &liar);
		answer(&liar, places[i]);
		expect_end(client, &liar);
	}
	/* One that could be, in a slab that was never shown, is good for nothing. */
	meet(client, &liar, page);
	show_life(client, &liar);
	answer(&liar, places[0] - 1);
	assert_int_equal(await_completion(client->queue).status, 0);
	assert_int_equal(fabric_read(liar.endpoint, &piece, 1, 0, 42, 7), 0);
	assert_int_equal(atomic_load(&liar.exchange->asked), 2);
	part(&liar);
}

TEST_GROUP(fabric_local_references)
{
#define IN_WORLD(test)	  cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		IN_WORLD(finds_pages_again),
		IN_WORLD(finds_several_pages),
		IN_WORLD(asks_for_sums),
		IN_WORLD(finds_pages_through_windows),
		IN_WORLD(believes_no_page_that_is_hidden),
		IN_WORLD(believes_no_slab_that_has_gone),
		IN_WORLD(believes_no_key_that_has_ended),
		IN_WORLD(believes_no_peer_that_has_ended),
		IN_WORLD(believes_no_thread_that_has_died),
		WITH_TARGET(takes_slabs_that_are_some_alone),
		WITH_TARGET(believes_no_impossible_place),
	};

	setenv("AFAR_TEST_TRANSPORT", "local", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
