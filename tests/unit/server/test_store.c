/* SPDX-License-Identifier: BSD-3-Clause */
/* A store alone, at its worst moments: killed while it is made and while it ends, and orders that cross. Zeros. */
#include <afar/error.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/child.h"
#include "lib/server/flash_gate.h"
#include "lib/server/store_bed.h"
#include "unit/group.h"

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
	assert_int_equal(await_order(&order), 0);
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
		await_order(&order);
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
	assert_int_equal(await_order(&order), 0);
	flash_gate_release();
	assert_int_equal(await_order(&asking), 0);
	key = asking.key;
	release(&bed, &order, listed.extent, true);
	assert_int_equal(await_order(&order), 0);
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
	assert_int_equal(await_order(&order), 0);
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
	assert_int_equal(await_order(&behind), 0);
	flash_gate_release();
	assert_int_equal(await_order(&asking), -AFAR_ELOST);
	assert_int_equal(await_order(&first), 0);
	assert_int_equal(await_order(&second), 0);
	assert_int_equal(nr_listed(&bed, &listed), 0);
	bed_close(&bed);
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
	connect_for(&bed, 1, NAMESPACE + 1, true);
	assert_int_equal(ask(&bed, ZERO(0, FTL_BLOCK, 0)), -AFAR_ELOST);
	connect_for(&bed, 1, NAMESPACE, false);
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
	assert_int_equal(await_order(&closed), 0);
	assert_int_equal(await_order(&releasing), 0);
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
		cmocka_unit_test(test_zeros_of_parts),
		cmocka_unit_test(test_zeros_give_room_back),
		cmocka_unit_test(test_refused_zeros),
		cmocka_unit_test(test_closing_waits_for_zeros),
		cmocka_unit_test(test_zeros_at_a_device_beyond_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
