/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store alone, at its worst moments: killed while it is made and while it ends, its device beyond
 * use, and orders that cross.
 */
#include <afar/error.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "lib/base/bytes.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "lib/fabric/data_client.h"
#include "lib/server/flash_gate.h"
#include "server/stores/store_private.h"
#include "unit/group.h"

#define FLASH_BYTES  (64 * MIB)
#define EXTENT_BYTES (2 * MIB)
#define NAMESPACE    5U

struct bed {
	char folder[32], path[64];
	struct store *store;
	struct data_client client;
	uint8_t *bytes; /* 1 MiB */
};

/* Lets in whoever shows a session, a namespace, and whether to write. */
static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	uint64_t words[3];

	(void)context;
	assert_int_equal(length, sizeof(words));
	memcpy(words, shown, sizeof(words));
	*out = (struct admission){.session = words[0], .reach = {words[1], words[2]}};
	return 0;
}

static void changed(void *context)
{
	(void)context;
}

static int open_at(const char *path, uint64_t create_bytes, struct store **out)
{
	const struct store_options options = {
		.path = path,
		.create_bytes = create_bytes,
		.address = "127.0.0.1:0",
		.spin_us = 50,
		.admit = admit,
		.changed = changed,
	};

	return store_start(&options, out);
}

static void open_store(struct bed *bed)
{
	assert_int_equal(open_at(bed->path, FLASH_BYTES, &bed->store), 0);
}

static void bed_make(struct bed *bed)
{
	flash_gate_reset();
	strcpy(bed->folder, "/tmp/afar-store-XXXXXX");
	assert_non_null(mkdtemp(bed->folder));
	snprintf(bed->path, sizeof(bed->path), "%s/flash", bed->folder);
	bed->bytes = malloc(MIB);
	assert_non_null(bed->bytes);
	data_client_open(&bed->client);
}

static void bed_open(struct bed *bed)
{
	bed_make(bed);
	open_store(bed);
}

static void bed_close(struct bed *bed)
{
	data_client_close(&bed->client);
	store_stop(bed->store);
	free(bed->bytes);
	unlink(bed->path);
	assert_int_equal(rmdir(bed->folder), 0);
}

static void connect_to(struct bed *bed, uint64_t session, uint64_t namespace, bool may_write)
{
	const uint64_t words[3] = {session, namespace, may_write};

	data_client_disconnect(&bed->client);
	assert_int_equal(data_client_connect(&bed->client,
					     progress_address(store_progress(bed->store)), words,
					     sizeof(words)),
			 0);
}

static void connect_as(struct bed *bed, uint64_t session)
{
	connect_to(bed, session, NAMESPACE, true);
}

/* ---- Orders that do not wait */

struct order {
	sem_t ended;
	int status;
	struct store_keys keys;
	struct extent_key key;
	uint64_t extent;
};

static void order_open(struct order *order)
{
	memset(order, 0, sizeof(*order));
	sem_init(&order->ended, 0, 0);
}

static int order_await(struct order *order)
{
	while (sem_wait(&order->ended) != 0)
		;
	sem_destroy(&order->ended);
	return order->status;
}

static void on_done(void *argument, int status)
{
	struct order *order = argument;

	order->status = status;
	sem_post(&order->ended);
}

static void on_keys(struct store_keys *keys, int status)
{
	on_done(caa_container_of(keys, struct order, keys), status);
}

static void ask_key(struct bed *bed, struct order *order, uint64_t extent)
{
	order_open(order);
	order->extent = extent;
	order->keys = (struct store_keys){
		.reach = {NAMESPACE, true},
		.extents = &order->extent,
		.nr_extents = 1,
		.keys = &order->key,
		.done = on_keys,
	};
	assert_int_equal(store_get_keys(bed->store, &order->keys), 0);
}

static void release(struct bed *bed, struct order *order, uint64_t extent, bool is_unknown)
{
	const struct store_name names[] = {{extent, NAMESPACE, is_unknown},
					   {extent, NAMESPACE, is_unknown}};

	order_open(order);
	assert_int_equal(store_release(bed->store, names, 2, on_done, order), 0);
}

static void trim(struct bed *bed, struct order *order, uint64_t extent)
{
	const struct extent_range ranges[] = {{extent, 0, MIB}, {extent, MIB, MIB}};

	order_open(order);
	assert_int_equal(store_trim(bed->store, NAMESPACE, ranges, 2, on_done, order), 0);
}

struct made {
	struct order order;
	struct store_extent_info info;
};

static void on_reserved(void *argument, int status, const struct store_extent_info *info)
{
	struct made *made = argument;

	if (info)
		made->info = *info;
	on_done(&made->order, status);
}

/* Waits until it is made. */
static int reserve_for(struct store *store, struct store_extent_info *info)
{
	struct made made = {0};
	int ret;

	order_open(&made.order);
	ret = store_reserve(store, NAMESPACE, EXTENT_BYTES, CLOCK_NEVER, on_reserved, &made);
	ret = ret ? ret : order_await(&made.order);
	*info = made.info;
	return ret;
}

static struct store_extent_info reserve(struct bed *bed)
{
	struct store_extent_info info;

	assert_int_equal(reserve_for(bed->store, &info), 0);
	assert_true(info.is_provisional);
	return info;
}

static struct extent_key key_of(struct bed *bed, uint64_t extent)
{
	struct order order;

	ask_key(bed, &order, extent);
	assert_int_equal(order_await(&order), 0);
	return order.key;
}

static size_t nr_listed(struct bed *bed, struct store_extent_info *first)
{
	struct store_extent_info *infos;
	size_t nr;

	assert_int_equal(store_list(bed->store, &infos, &nr), 0);
	if (nr > 0)
		*first = infos[0];
	free(infos);
	return nr;
}

static void write_mib(struct bed *bed, const struct extent_key *key)
{
	memset(bed->bytes, 7, MIB);
	assert_int_equal(
		data_client_write(&bed->client, bed->bytes, MIB, key->on[0].origin, key->on[0].key),
		0);
}

/* ---- Making the file */

static void test_remains_of_the_making_are_no_hindrance(void **state)
{
	char beside[80];
	struct stat stat_of_it;
	struct bed bed;
	int fd;

	(void)state;
	bed_make(&bed);
	snprintf(beside, sizeof(beside), "%s.new", bed.path);
	fd = open(beside, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "rest", 4), 4);
	close(fd);
	open_store(&bed);
	assert_int_equal(stat(beside, &stat_of_it), -1);
	bed_close(&bed);
}

static void kill_at(void *argument)
{
	unsigned *nr_left = argument;

	if ((*nr_left)-- == 0)
		kill(getpid(), SIGKILL);
}

/* Makes a store in a process that is killed at its write number `nr`. False: it has lived. */
static bool make_and_be_killed(const struct bed *bed, unsigned nr)
{
	struct store *store;
	pid_t child = fork_child();
	int status;

	if (child == 0) {
		flash_gate_watch(kill_at, &nr);
		_exit(open_at(bed->path, FLASH_BYTES, &store) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		return true;
	assert_int_equal(WEXITSTATUS(status), 0);
	return false;
}

static void test_killed_in_the_making(void **state)
{
	struct bed bed;

	(void)state;
	for (unsigned nr = 0;; nr = 2 * nr + 1) {
		bool was_killed;

		bed_make(&bed);
		was_killed = make_and_be_killed(&bed, nr);
		open_store(&bed);
		bed_close(&bed);
		if (!was_killed)
			break;
		assert_true(nr < 10000);
	}
}

/* ---- Ending */

struct images {
	const char *path;
	char folder[32];
	unsigned nr;
};

static void copy_file(const char *from, const char *to)
{
	uint8_t *buffer = malloc(MIB);
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t nr;

	assert_true(buffer && in >= 0 && out >= 0);
	while ((nr = read(in, buffer, MIB)) > 0)
		assert_int_equal(write(out, buffer, (size_t)nr), nr);
	close(out);
	close(in);
	free(buffer);
}

static void image_path(const struct images *images, unsigned nr, char out[static 64])
{
	snprintf(out, 64, "%s/%u", images->folder, nr);
}

static void take_image(void *argument)
{
	struct images *images = argument;
	char path[64];

	image_path(images, images->nr++, path);
	copy_file(images->path, path);
}

/* Opens the device at `path`, and returns the first opening since which all ends were clean. */
static uint64_t whole_since(const char *path)
{
	struct store *store;
	uint64_t since;

	assert_int_equal(open_at(path, 0, &store), 0);
	assert_int_equal(store->stat.opening, 2);
	since = store->whole_since;
	store_stop(store);
	return since;
}

/* Trap 6. The power may go at any time while a store ends. Either it ended clean and nothing was
 * written afterwards, or the next opening says that it did not. Before its last write it did
 * not. */
static void test_clean_is_the_last_word(void **state)
{
	struct images images = {0};
	struct extent_key key;
	char path[64];
	struct bed bed;

	(void)state;
	bed_open(&bed);
	strcpy(images.folder, "/tmp/afar-images-XXXXXX");
	assert_non_null(mkdtemp(images.folder));
	images.path = bed.path;
	key = key_of(&bed, reserve(&bed).extent);
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	data_client_disconnect(&bed.client);
	flash_gate_watch(take_image, &images);
	store_stop(bed.store);
	flash_gate_watch(NULL, NULL);
	assert_true(images.nr > 1);
	/* The first image is from before the last sync. */
	for (unsigned i = 0, has_ended = 0; i < images.nr; i++) {
		uint64_t since;

		image_path(&images, i, path);
		since = whole_since(path);
		if (i == 0)
			assert_int_equal(since, 2);
		assert_true(since == 2 || since == 1);
		assert_false(has_ended && since == 2);
		has_ended = since == 1;
		unlink(path);
	}
	rmdir(images.folder);
	assert_int_equal(whole_since(bed.path), 1);
	assert_int_equal(open_at(bed.path, 0, &bed.store), 0);
	bed_close(&bed);
}

/* A trim, or a removal, is under way when the store ends: it is answered, and the end is clean. */
static void *stop_store(void *argument)
{
	store_stop(argument);
	return NULL;
}

static void stop_in(void (*ask)(struct bed *bed, struct order *order, uint64_t extent))
{
	struct store_extent_info extent;
	struct extent_key key;
	struct order order;
	pthread_t thread;
	struct bed bed;

	bed_open(&bed);
	extent = reserve(&bed);
	key = key_of(&bed, extent.extent);
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	flash_gate_hold(FLASH_IO_WRITE);
	ask(&bed, &order, extent.extent);
	flash_gate_await(FLASH_IO_WRITE, 1);
	assert_int_equal(pthread_create(&thread, NULL, stop_store, bed.store), 0);
	/* It has begun to stop. */
	if (bed.client.endpoint)
		data_client_await_closed(&bed.client);
	flash_gate_release();
	pthread_join(thread, NULL);
	assert_int_equal(order_await(&order), 0);
	assert_int_equal(whole_since(bed.path), 1);
	assert_int_equal(open_at(bed.path, 0, &bed.store), 0);
	bed_close(&bed);
}

static void release_known(struct bed *bed, struct order *order, uint64_t extent)
{
	release(bed, order, extent, false);
	data_client_await_closed(&bed->client);
}

static void test_stop_waits_for_trims(void **state)
{
	(void)state;
	stop_in(trim);
}

static void test_stop_waits_for_removals(void **state)
{
	(void)state;
	stop_in(release_known);
}

/* Orders that the thread has not seen yet when it ends. */
static void test_stop_at_an_order(void **state)
{
	struct store_extent_info extent;
	struct order order;
	struct bed bed;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		bed_open(&bed);
		extent = reserve(&bed);
		release(&bed, &order, extent.extent, false);
		data_client_close(&bed.client);
		store_stop(bed.store);
		order_await(&order);
		data_client_open(&bed.client);
		assert_int_equal(open_at(bed.path, 0, &bed.store), 0);
		bed_close(&bed);
	}
}

/* ---- Orders that cross */

/* Trap 1. It is listed as provisional, confirmed, and only then released as unknown. */
static void test_confirmed_after_it_was_listed(void **state)
{
	struct store_extent_info listed;
	struct order order, asking;
	struct extent_key key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	reserve(&bed);
	assert_int_equal(nr_listed(&bed, &listed), 1);
	assert_true(listed.is_provisional);
	/* While it is being confirmed, too. */
	flash_gate_hold(FLASH_IO_WRITE);
	ask_key(&bed, &asking, listed.extent);
	flash_gate_await(FLASH_IO_WRITE, 1);
	release(&bed, &order, listed.extent, true);
	assert_int_equal(order_await(&order), 0);
	flash_gate_release();
	assert_int_equal(order_await(&asking), 0);
	key = asking.key;
	release(&bed, &order, listed.extent, true);
	assert_int_equal(order_await(&order), 0);
	assert_int_equal(nr_listed(&bed, &listed), 1);
	assert_false(listed.is_provisional);
	connect_as(&bed, 1);
	assert_int_equal(
		data_client_read(&bed.client, bed.bytes, MIB, key.on[0].origin, key.on[0].key), 0);
	bed_close(&bed);
}

/* An extent that nobody had a key of is released as unknown, and costs nobody a connection. */
static void test_unknown_ones_go(void **state)
{
	struct store_extent_info info, listed;
	struct extent_key key;
	struct order order;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	key = key_of(&bed, reserve(&bed).extent);
	connect_as(&bed, 1);
	info = reserve(&bed);
	release(&bed, &order, info.extent, true);
	assert_int_equal(order_await(&order), 0);
	assert_int_equal(nr_listed(&bed, &listed), 1);
	assert_int_not_equal(listed.extent, info.extent);
	assert_int_equal(
		data_client_read(&bed.client, bed.bytes, MIB, key.on[0].origin, key.on[0].key), 0);
	bed_close(&bed);
}

/* It is released while it is being confirmed, and again: no key is given, and each is answered. */
static void test_released_while_it_is_confirmed(void **state)
{
	struct store_extent_info info, listed;
	struct order asking, first, second, behind;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	info = reserve(&bed);
	flash_gate_hold(FLASH_IO_WRITE);
	ask_key(&bed, &asking, info.extent);
	flash_gate_await(FLASH_IO_WRITE, 1);
	release(&bed, &first, info.extent, false);
	release(&bed, &second, info.extent, false);
	/* The store has taken these when it has answered one that came later. */
	release(&bed, &behind, info.extent + 1000, true);
	assert_int_equal(order_await(&behind), 0);
	flash_gate_release();
	assert_int_equal(order_await(&asking), -AFAR_ELOST);
	assert_int_equal(order_await(&first), 0);
	assert_int_equal(order_await(&second), 0);
	assert_int_equal(nr_listed(&bed, &listed), 0);
	bed_close(&bed);
}

/* ---- A device that fails */

struct reservation {
	struct bed *bed;
	int status;
};

static void *reserve_in(void *argument)
{
	struct reservation *reservation = argument;
	struct store_extent_info info;

	reservation->status = reserve_for(reservation->bed->store, &info);
	return NULL;
}

static void begin(struct data_client *client, bool is_write, void *data,
		  const struct extent_key *key)
{
	const struct fabric_piece piece = {.addr = data, .length = MIB};

	client->context++;
	assert_int_equal(is_write ? fabric_write(client->endpoint, &piece, 1, key->on[0].origin,
						 key->on[0].key, client->context)
				  : fabric_read(client->endpoint, &piece, 1, key->on[0].origin,
						key->on[0].key, client->context),
			 0);
}

static bool has_failed(struct store *store)
{
	struct store_stat stat;

	store_stat(store, &stat);
	return stat.failure != 0;
}

/* Everything that is under way at a device that is beyond use ends, and so does what comes then. */
static void test_device_beyond_use(void **state)
{
	struct store_extent_info confirmed, provisional, listed;
	struct fabric_completion completion = {0};
	struct order asking, releasing, trimming;
	struct reservation reservation;
	struct fabric_event event;
	struct extent_key key;
	pthread_t thread;
	struct bed bed;
	uint64_t opening = 1;

	(void)state;
	bed_open(&bed);
	confirmed = reserve(&bed);
	provisional = reserve(&bed);
	key = key_of(&bed, confirmed.extent);
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	flash_gate_hold(FLASH_IO_READ);
	flash_gate_hold(FLASH_IO_WRITE);
	begin(&bed.client, false, bed.bytes, &key);
	assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
	flash_gate_await(FLASH_IO_READ, 1);
	trim(&bed, &trimming, confirmed.extent);
	ask_key(&bed, &asking, provisional.extent);
	reservation = (struct reservation){.bed = &bed};
	assert_int_equal(pthread_create(&thread, NULL, reserve_in, &reservation), 0);
	flash_gate_await(FLASH_IO_WRITE, 1);
	flash_gate_break(-ENOMEM);
	while (data_client_step(&bed.client, &completion, &event) != 1)
		;
	assert_int_equal(completion.status, -EIO);
	pthread_join(thread, NULL);
	assert_true(reservation.status < 0);
	assert_true(order_await(&asking) < 0);
	assert_true(order_await(&trimming) < 0); /* it may not have begun */
	assert_true(has_failed(bed.store));

	/* And later. */
	begin(&bed.client, true, bed.bytes, &key);
	while (data_client_step(&bed.client, &completion, &event) != 1)
		;
	assert_int_equal(completion.status, -EIO);
	assert_int_equal(data_client_sync(&bed.client, &opening), -EIO);
	assert_true(reserve_for(bed.store, &listed) < 0);
	assert_int_equal(store_joined(bed.store, "fake"), -EIO);
	trim(&bed, &trimming, confirmed.extent);
	assert_true(order_await(&trimming) < 0);
	release(&bed, &releasing, confirmed.extent, false);
	assert_true(order_await(&releasing) < 0);
	assert_int_equal(nr_listed(&bed, &listed), 2);
	bed_close(&bed);
}

/* A device that takes long: whoever asks hears so in time, and what was asked for is not left behind. Nobody waits for the term's record. */
static void test_a_slow_device(void **state)
{
	const struct store_term term = {.number = 7, .random = 9};
	struct store_extent_info listed;
	struct made made = {0};
	struct store_stat stat;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	flash_gate_hold(FLASH_IO_WRITE);
	assert_int_equal(store_note_term(bed.store, term), 0);
	assert_int_equal(store_note_term(bed.store, term), 0);
	order_open(&made.order);
	assert_int_equal(store_reserve(bed.store, NAMESPACE, EXTENT_BYTES, clock_deadline_ms(400),
				       on_reserved, &made),
			 0);
	assert_int_equal(order_await(&made.order), -ETIMEDOUT);
	do {
		test_pause();
		store_stat(bed.store, &stat);
	} while (stat.slow_ms < 1000);
	flash_gate_release();
	while (nr_listed(&bed, &listed) != 0) /* it is being removed */
		test_pause();
	store_stat(bed.store, &stat);
	assert_int_equal(stat.slow_ms, 0);
	assert_int_equal(stat.term.number, term.number);
	assert_int_equal(stat.granted_bytes, 0);
	bed_close(&bed);
}

/* A closing waits for a transfer that the device will never end. */
static bool is_anyone(const void *argument, const struct admission *connection)
{
	(void)argument;
	(void)connection;
	return true;
}

static void on_closed(void *argument)
{
	on_done(argument, 0);
}

static void test_closing_at_a_device_beyond_use(void **state)
{
	struct progress_order order = {is_anyone, on_closed, NULL, false};
	struct fabric_completion completion = {0};
	struct progress_closing *closing;
	struct order releasing, closed;
	struct store_extent_info info;
	struct extent_key key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	info = reserve(&bed);
	key = key_of(&bed, info.extent);
	connect_as(&bed, 1);
	flash_gate_hold(FLASH_IO_WRITE);
	begin(&bed.client, true, bed.bytes, &key);
	assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
	flash_gate_await(FLASH_IO_WRITE, 1);
	release(&bed, &releasing, info.extent, false);
	data_client_await_closed(&bed.client);
	order_open(&closed);
	order.argument = &closed;
	assert_int_equal(progress_closing_new(store_progress(bed.store), &closing), 0);
	progress_close(closing, &order);
	flash_gate_break(-EIO);
	assert_int_equal(order_await(&closed), 0);
	assert_int_equal(order_await(&releasing), -EIO);
	bed_close(&bed);
}

static void *join_store(void *argument)
{
	struct reservation *joining = argument;

	joining->status = store_joined(joining->bed->store, "fake");
	return NULL;
}

/* The device fails while the store waits for a record of its own, not in a poll. */
static void test_beyond_use_in_a_record(void **state)
{
	struct fabric_completion completion = {0};
	struct reservation joining;
	struct fabric_event event;
	struct extent_key key;
	pthread_t thread;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	key = key_of(&bed, reserve(&bed).extent);
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	flash_gate_hold(FLASH_IO_READ);
	flash_gate_hold(FLASH_IO_WRITE);
	begin(&bed.client, false, bed.bytes, &key);
	assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
	flash_gate_await(FLASH_IO_READ, 1);
	joining = (struct reservation){.bed = &bed};
	assert_int_equal(pthread_create(&thread, NULL, join_store, &joining), 0);
	flash_gate_await(FLASH_IO_WRITE, 1);
	flash_gate_break(-EIO);
	pthread_join(thread, NULL);
	assert_int_equal(joining.status, -EIO);
	while (data_client_step(&bed.client, &completion, &event) != 1)
		;
	assert_int_equal(completion.status, -EIO);
	bed_close(&bed);
}

/* A closing waits for a read that ends while the store waits for a record of its own. */
static void test_closing_while_a_record_is_written(void **state)
{
	struct progress_order order = {is_anyone, on_closed, NULL, false};
	struct fabric_completion completion = {0};
	struct progress_closing *closing;
	struct reservation joining;
	struct extent_key key;
	struct order closed;
	pthread_t thread;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	key = key_of(&bed, reserve(&bed).extent);
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	flash_gate_hold(FLASH_IO_READ);
	flash_gate_hold(FLASH_IO_WRITE);
	begin(&bed.client, false, bed.bytes, &key);
	assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
	flash_gate_await(FLASH_IO_READ, 1);
	order_open(&closed);
	order.argument = &closed;
	assert_int_equal(progress_closing_new(store_progress(bed.store), &closing), 0);
	progress_close(closing, &order);
	data_client_await_closed(&bed.client);
	joining = (struct reservation){.bed = &bed};
	assert_int_equal(pthread_create(&thread, NULL, join_store, &joining), 0);
	flash_gate_await(FLASH_IO_WRITE, 1);
	flash_gate_release();
	pthread_join(thread, NULL);
	assert_int_equal(joining.status, 0);
	assert_int_equal(order_await(&closed), 0);
	bed_close(&bed);
}

static void close_all(struct bed *bed, struct order *closed)
{
	const struct progress_order order = {is_anyone, on_closed, closed, false};
	struct progress_closing *closing;

	order_open(closed);
	assert_int_equal(progress_closing_new(store_progress(bed->store), &closing), 0);
	progress_close(closing, &order);
	data_client_await_closed(&bed->client);
}

/* A closing does not wait for connections that came after it. */
static void test_closing_waits_for_earlier_ones_alone(void **state)
{
	struct fabric_completion completion = {0};
	struct order first, second;
	struct extent_key key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	key = key_of(&bed, reserve(&bed).extent);
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	flash_gate_hold(FLASH_IO_READ);
	flash_gate_hold(FLASH_IO_WRITE);
	begin(&bed.client, true, bed.bytes, &key);
	assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
	flash_gate_await(FLASH_IO_WRITE, 1);
	close_all(&bed, &first);
	connect_as(&bed, 1);
	begin(&bed.client, false, bed.bytes, &key);
	assert_int_equal(fabric_queue_poll(bed.client.queue, &completion, 1), 0);
	flash_gate_await(FLASH_IO_READ, 1);
	close_all(&bed, &second);
	flash_gate_let(FLASH_IO_WRITE);
	assert_int_equal(order_await(&first), 0);
	assert_true(flash_gate_is_holding());
	flash_gate_release();
	assert_int_equal(order_await(&second), 0);
	bed_close(&bed);
}

/* A device that refuses writes: each order is answered, and the next opening says what was lost. */
static void test_errors_of_the_device(void **state)
{
	static const int errors[] = {-EIO, -ENOSPC, -ENODEV};
	struct store_extent_info info;
	struct extent_key key;
	struct order order;
	struct bed bed;

	(void)state;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		bed_open(&bed);
		info = reserve(&bed);
		key = key_of(&bed, info.extent);
		flash_gate_fail(FLASH_IO_WRITE, errors[i]);
		assert_true(reserve_for(bed.store, &info) < 0);
		trim(&bed, &order, info.extent);
		order_await(&order);
		release(&bed, &order, info.extent, false);
		order_await(&order);
		connect_as(&bed, 1);
		assert_true(data_client_write_durable(&bed.client, bed.bytes, MIB, key.on[0].origin,
						      key.on[0].key) < 0);
		data_client_close(&bed.client);
		store_stop(bed.store);
		flash_gate_reset();
		assert_int_equal(whole_since(bed.path), 2);
		data_client_open(&bed.client);
		assert_int_equal(open_at(bed.path, 0, &bed.store), 0);
		bed_close(&bed);
	}
}

/* ---- Zeros */

#define ZERO(bytes_at, bytes, with)                                                \
	(struct message_request)                                                   \
	{                                                                          \
		.kind = MESSAGE_ZERO, .extent = extent.extent, .offset = bytes_at, \
		.length = bytes, .flags = with                                     \
	}

static int ask(struct bed *bed, struct message_request request)
{
	uint64_t value;
	int status = data_client_ask(&bed->client, &request, &value);

	assert_int_equal(value, 0);
	return status;
}

/* Its first MiB. */
static void expect_model(struct bed *bed, const struct extent_key *key, const uint8_t *model)
{
	assert_int_equal(
		data_client_read(&bed->client, bed->bytes, MIB, key->on[0].origin, key->on[0].key),
		0);
	assert_memory_equal(bed->bytes, model, MIB);
}

/* Trap 4 of volumes. Whatever the range, the bytes that are named read as zeros, or may, and all others
 * stay. */
static void test_zeros_of_parts(void **state)
{
	static const uint64_t edges[] = {0,	1,     4095,  4096,  4097,  8191,    8192, 8193,
					 12288, 12289, 50000, 65536, 65537, MIB - 1, MIB};
	static uint8_t model[MIB];
	struct store_extent_info extent;
	struct extent_key key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed);
	key = key_of(&bed, extent.extent);
	connect_as(&bed, 1);
	for (size_t i = 0; i < 15; i++) {
		for (size_t j = i + 1; j < 15; j++) {
			uint64_t begin = edges[i], end = edges[j], flags = (i + j) % 2;
			uint64_t whole = (begin + FTL_BLOCK - 1) / FTL_BLOCK * FTL_BLOCK;

			fill(model, MIB, (unsigned)(i * 15 + j));
			assert_int_equal(data_client_write(&bed.client, model, MIB,
							   key.on[0].origin, key.on[0].key),
					 0);
			assert_int_equal(
				ask(&bed, ZERO(begin, end - begin, flags | MESSAGE_ZERO_TRIM)), 0);
			if (whole < end)
				memset(model + whole, 0, end / FTL_BLOCK * FTL_BLOCK - whole);
			expect_model(&bed, &key, model);
			assert_int_equal(ask(&bed, ZERO(begin, end - begin, flags)), 0);
			memset(model + begin, 0, end - begin);
			expect_model(&bed, &key, model);
		}
	}
	bed_close(&bed);
}

/* The store takes the layer's numbers now and then. */
static void await_used(struct bed *bed, uint64_t bytes)
{
	struct store_stat stat;

	for (store_stat(bed->store, &stat); stat.used_bytes != bytes; store_stat(bed->store, &stat))
		sched_yield();
}

/* Whole blocks take no room afterwards. */
static void test_zeros_give_room_back(void **state)
{
	struct store_extent_info extent;
	struct store_stat stat;
	struct extent_key key;
	struct bed bed;
	uint64_t used;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed);
	key = key_of(&bed, extent.extent);
	store_stat(bed.store, &stat);
	used = stat.used_bytes;
	connect_as(&bed, 1);
	write_mib(&bed, &key);
	assert_int_equal(ask(&bed, ZERO(1, MIB - 2, MESSAGE_ZERO_DURABLE)), 0);
	await_used(&bed, used + 2 * FTL_BLOCK);
	assert_int_equal(ask(&bed, ZERO(0, MIB, MESSAGE_ZERO_TRIM)), 0);
	await_used(&bed, used);
	bed_close(&bed);
}

static void test_refused_zeros(void **state)
{
	static uint8_t model[MIB];
	struct store_extent_info extent, other;
	struct extent_key key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed);
	key = key_of(&bed, extent.extent);
	connect_as(&bed, 1);
	fill(model, MIB, 1);
	assert_int_equal(
		data_client_write(&bed.client, model, MIB, key.on[0].origin, key.on[0].key), 0);
	for (uint64_t flags = 0; flags < 4; flags++) {
		assert_int_equal(ask(&bed, ZERO(0, 0, flags)), -EINVAL);
		assert_int_equal(ask(&bed, ZERO(0, MESSAGE_ZERO_STORE_MAX + 1, flags)), -EINVAL);
		assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, flags | 4)), -EINVAL);
		assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, flags | UINT64_C(1) << 32)), -EINVAL);
		assert_int_equal(ask(&bed, ZERO(0, EXTENT_BYTES + 1, flags)), -ERANGE);
		assert_int_equal(ask(&bed, ZERO(EXTENT_BYTES - FTL_BLOCK, FTL_BLOCK + 1, flags)),
				 -ERANGE);
		assert_int_equal(ask(&bed, ZERO(EXTENT_BYTES, 1, flags)), -ERANGE);
		assert_int_equal(ask(&bed, ZERO(UINT64_MAX, 2, flags)), -ERANGE);
	}
	connect_to(&bed, 1, NAMESPACE + 1, true);
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, 0)), -AFAR_ELOST);
	connect_to(&bed, 1, NAMESPACE, false);
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, 0)), -EACCES);
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, MESSAGE_ZERO_TRIM)), -EACCES);
	connect_as(&bed, 1);
	expect_model(&bed, &key, model);
	/* A provisional one is nobody's. */
	other = reserve(&bed);
	extent = other;
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, 0)), -AFAR_ELOST);
	extent.extent = 0;
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, 0)), -AFAR_ELOST);
	bed_close(&bed);
}

/* Sends it, and waits for nothing. The reply is the caller's to keep. */
static void begin_zero(struct bed *bed, uint64_t extent, uint64_t flags,
		       struct message_request *wire, struct message_reply *reply)
{
	const struct fabric_piece out = {.addr = wire, .length = sizeof(*wire)};
	const struct fabric_piece in = {.addr = reply, .length = sizeof(*reply)};

	*wire = (struct message_request){.kind = htole32(MESSAGE_ZERO),
					 .extent = htole64(extent),
					 .offset = htole64(1),
					 .length = htole64(MIB),
					 .flags = htole64(flags)};
	assert_int_equal(fabric_receive(bed->client.endpoint, &in, 1), 0);
	assert_int_equal(fabric_send(bed->client.endpoint, &out, 2), 0);
}

/* Trap 7. A closing waits for zeros that the layer has not ended. So does a removal, also if nobody had
 * a key of the extent in this opening. */
static void test_closing_waits_for_zeros(void **state)
{
	struct order closed, releasing;
	struct store_extent_info extent;
	struct message_request request;
	struct message_reply reply;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed);
	key_of(&bed, extent.extent);
	store_stop(bed.store);
	open_store(&bed);
	connect_as(&bed, 1);
	flash_gate_hold(FLASH_IO_WRITE);
	begin_zero(&bed, extent.extent, MESSAGE_ZERO_DURABLE, &request, &reply);
	flash_gate_await(FLASH_IO_WRITE, 1);
	release(&bed, &releasing, extent.extent, false);
	data_client_await_closed(&bed.client);
	connect_as(&bed, 2);
	close_all(&bed, &closed);
	/* The store's thread goes on meanwhile. */
	connect_as(&bed, 3);
	assert_int_equal(ask(&bed, ZERO(0, 0, 0)), -EINVAL);
	assert_int_not_equal(sem_trywait(&closed.ended), 0);
	assert_int_not_equal(sem_trywait(&releasing.ended), 0);
	assert_true(flash_gate_is_holding());
	flash_gate_release();
	assert_int_equal(order_await(&closed), 0);
	assert_int_equal(order_await(&releasing), 0);
	bed_close(&bed);
}

static void test_zeros_at_a_device_beyond_use(void **state)
{
	struct fabric_completion completion = {0};
	struct store_extent_info extent;
	struct message_request request;
	struct message_reply reply;
	struct fabric_event event;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed);
	key_of(&bed, extent.extent);
	connect_as(&bed, 1);
	flash_gate_hold(FLASH_IO_WRITE);
	begin_zero(&bed, extent.extent, MESSAGE_ZERO_DURABLE, &request, &reply);
	flash_gate_await(FLASH_IO_WRITE, 1);
	flash_gate_break(-EIO);
	while (data_client_step(&bed.client, &completion, &event) != 1 || completion.context != 1)
		;
	assert_int_equal((int)le32toh((uint32_t)reply.status), -EIO);
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, 0)), -EIO);
	bed_close(&bed);
}

/* ---- A layer that takes no changes any more */

static void count_changes(void *context)
{
	sem_post(context);
}

/* Fills `out` once the store has said that something has changed, and refuses changes. */
static void await_refusal(struct bed *bed, sem_t *changes, struct store_stat *out)
{
	do {
		while (sem_wait(changes) != 0)
			;
		store_stat(bed->store, out);
	} while (out->refusal == 0);
}

/* The journal cannot be written or flushed: the store says so at once, and since when; reads go on,
 * and writes are refused. */
static void test_tells_that_it_is_read_only(void **state)
{
	static const enum flash_io_opcode opcodes[] = {FLASH_IO_WRITE, FLASH_IO_FLUSH};
	uint64_t opening = 1;
	struct store_stat stat;
	struct extent_key key;
	struct bed bed;
	sem_t changes;

	(void)state;
	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct store_options options = {
			.create_bytes = FLASH_BYTES,
			.address = "127.0.0.1:0",
			.spin_us = 50,
			.admit = admit,
			.changed = count_changes,
			.context = &changes,
		};

		sem_init(&changes, 0, 0);
		bed_make(&bed);
		options.path = bed.path;
		assert_int_equal(store_start(&options, &bed.store), 0);
		key = key_of(&bed, reserve(&bed).extent);
		connect_as(&bed, 1);
		write_mib(&bed, &key);
		assert_int_equal(data_client_sync(&bed.client, &opening), 0);
		store_stat(bed.store, &stat);
		assert_int_equal(stat.refusal, 0);

		flash_gate_fail(opcodes[i], -EIO);
		assert_true(data_client_write_durable(&bed.client, bed.bytes, MIB, key.on[0].origin,
						      key.on[0].key) < 0);
		await_refusal(&bed, &changes, &stat);
		assert_int_equal(stat.refusal, -EIO);
		assert_int_equal(stat.failure, 0);
		assert_true(stat.refused_at != 0 && stat.refused_at <= clock_ns());

		/* The device works again, and nothing is changed there all the same. */
		flash_gate_fail(opcodes[i], 0);
		connect_as(&bed, 1);
		assert_int_equal(data_client_read(&bed.client, bed.bytes, MIB, key.on[0].origin,
						  key.on[0].key),
				 0);
		assert_int_equal(bed.bytes[MIB - 1], 7);
		assert_true(data_client_write(&bed.client, bed.bytes, MIB, key.on[0].origin,
					      key.on[0].key) < 0);
		data_client_close(&bed.client);
		store_stop(bed.store);

		/* Opened again, it is well. */
		data_client_open(&bed.client);
		open_store(&bed);
		store_stat(bed.store, &stat);
		assert_int_equal(stat.refusal, 0);
		reserve(&bed);
		bed_close(&bed);
		sem_destroy(&changes);
	}
}

TEST_GROUP(store)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remains_of_the_making_are_no_hindrance),
		cmocka_unit_test(test_killed_in_the_making),
		cmocka_unit_test(test_clean_is_the_last_word),
		cmocka_unit_test(test_stop_waits_for_trims),
		cmocka_unit_test(test_stop_waits_for_removals),
		cmocka_unit_test(test_stop_at_an_order),
		cmocka_unit_test(test_confirmed_after_it_was_listed),
		cmocka_unit_test(test_unknown_ones_go),
		cmocka_unit_test(test_released_while_it_is_confirmed),
		cmocka_unit_test(test_device_beyond_use),
		cmocka_unit_test(test_closing_at_a_device_beyond_use),
		cmocka_unit_test(test_beyond_use_in_a_record),
		cmocka_unit_test(test_closing_while_a_record_is_written),
		cmocka_unit_test(test_closing_waits_for_earlier_ones_alone),
		cmocka_unit_test(test_errors_of_the_device),
		cmocka_unit_test(test_zeros_of_parts),
		cmocka_unit_test(test_zeros_give_room_back),
		cmocka_unit_test(test_refused_zeros),
		cmocka_unit_test(test_closing_waits_for_zeros),
		cmocka_unit_test(test_zeros_at_a_device_beyond_use),
		cmocka_unit_test(test_tells_that_it_is_read_only),
		cmocka_unit_test(test_a_slow_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
