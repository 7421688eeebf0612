/* SPDX-License-Identifier: BSD-3-Clause */
/* A store alone, whose device is slow, fails, or is beyond use, or takes no changes any more. */
#include <afar/error.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/base/effort.h"
#include "lib/server/flash_gate.h"
#include "lib/server/store_bed.h"
#include "unit/group.h"

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
	assert_true(await_order(&asking) < 0);
	assert_true(await_order(&trimming) < 0); /* it may not have begun */
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
	assert_true(await_order(&trimming) < 0);
	release(&bed, &releasing, confirmed.extent, false);
	assert_true(await_order(&releasing) < 0);
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
	open_order(&made.order);
	assert_int_equal(store_reserve(bed.store, NAMESPACE, EXTENT_BYTES, clock_deadline_ms(400),
				       on_reserved, &made),
			 0);
	assert_int_equal(await_order(&made.order), -ETIMEDOUT);
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
	open_order(&closed);
	order.argument = &closed;
	assert_int_equal(progress_closing_new(store_progress(bed.store), &closing), 0);
	progress_close(closing, &order);
	flash_gate_break(-EIO);
	assert_int_equal(await_order(&closed), 0);
	assert_int_equal(await_order(&releasing), -EIO);
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
	open_order(&closed);
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
	assert_int_equal(await_order(&closed), 0);
	bed_close(&bed);
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
	assert_int_equal(await_order(&first), 0);
	assert_true(flash_gate_is_holding());
	flash_gate_release();
	assert_int_equal(await_order(&second), 0);
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
		await_order(&order);
		release(&bed, &order, info.extent, false);
		await_order(&order);
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

TEST_GROUP(store_device)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_beyond_use),
		cmocka_unit_test(test_closing_at_a_device_beyond_use),
		cmocka_unit_test(test_beyond_use_in_a_record),
		cmocka_unit_test(test_closing_while_a_record_is_written),
		cmocka_unit_test(test_closing_waits_for_earlier_ones_alone),
		cmocka_unit_test(test_errors_of_the_device),
		cmocka_unit_test(test_tells_that_it_is_read_only),
		cmocka_unit_test(test_a_slow_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
