/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that the manager has a running server open and close. Tests what is lent and closed, and what
 * a refusal and a lost connection leave. Everything else of the server goes on meanwhile.
 */
#include <afar/error.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/server/flash_gate.h"
#include "lib/server/server_cluster.h"
#include "server/stores/store_private.h"
#include "unit/group.h"

#define FLASH_BYTES  (64 * MIB)
#define EXTENT_BYTES (2 * MIB)

/* A server with a store, and a device that it has not opened. */
struct bed {
	struct cluster cluster;
	char path[80];
	uint64_t number;      /* of the device */
	uint8_t *data, *read; /* 1 MiB each */
};

static int admit_nobody(void *context, const void *shown, size_t length, struct admission *out)
{
	(void)context;
	(void)shown;
	(void)length;
	(void)out;
	return -EACCES;
}

static void do_nothing(void *context)
{
	(void)context;
}

/* Opens the device by itself. */
static struct store *open_alone(const struct bed *bed)
{
	const struct store_options options = {.path = bed->path,
					      .create_bytes = FLASH_BYTES,
					      .address = "127.0.0.1:0",
					      .admit = admit_nobody,
					      .changed = do_nothing};
	struct store *store;

	assert_int_equal(store_start(&options, &store), 0);
	return store;
}

static void bed_open(struct bed *bed)
{
	struct store *store;

	flash_gate_reset();
	cluster_open_flash(&bed->cluster, FLASH_BYTES);
	snprintf(bed->path, sizeof(bed->path), "%s/device", bed->cluster.folder);
	store = open_alone(bed);
	bed->number = store_number(store);
	store_stop(store);
	bed->data = malloc(MIB);
	bed->read = malloc(MIB);
	assert_true(bed->data && bed->read);
}

static void bed_close(struct bed *bed)
{
	cluster_close(&bed->cluster);
	free(bed->read);
	free(bed->data);
}

/* ---- The manager's orders */

static int open_device(struct bed *bed, const char *path)
{
	Afar__StoreOpen open = AFAR__STORE_OPEN__INIT;
	Afar__Frame *reply = NULL;
	int status;

	open.path = (char *)(uintptr_t)path;
	status = fake_manager_call(&bed->cluster.manager,
				   RPC_REQUEST(STORE_OPEN, store_open, &open), &reply);
	if (status == 0) {
		assert_int_equal(reply->reply->result_case, AFAR__REPLY__RESULT_STORE_OPENED);
		assert_int_equal(reply->reply->store_opened->store, bed->number);
		afar__frame__free_unpacked(reply, NULL);
	}
	return status;
}

static void ask_close(Afar__Request *request, Afar__StoreClose *close, uint64_t number)
{
	*request = (Afar__Request)AFAR__REQUEST__INIT;
	*close = (Afar__StoreClose)AFAR__STORE_CLOSE__INIT;
	close->store = number;
	request->call_case = AFAR__REQUEST__CALL_STORE_CLOSE;
	request->store_close = close;
}

static int close_device(struct bed *bed, uint64_t number)
{
	Afar__StoreClose close;
	Afar__Request request;

	ask_close(&request, &close, number);
	return fake_manager_call(&bed->cluster.manager, &request, NULL);
}

/* The place that the cluster's calls are about from now on. */
struct place {
	uint64_t store;
	char data[FAKE_ADDRESS_MAX];
};

static struct place place_of(const struct fake_manager *manager)
{
	struct place place = {.store = manager->store.number};

	strcpy(place.data, manager->store.data);
	return place;
}

static void go_to(struct fake_manager *manager, const struct place *place)
{
	manager->store.number = place->store;
	strcpy(manager->store.data, place->data);
}

static void go_to_lent(struct fake_manager *manager)
{
	struct place place = {.store = manager->lent};

	strcpy(place.data, manager->lent_data);
	go_to(manager, &place);
}

/* An extent of `namespace` with that value, and a connection to it. */
static struct key_of write_one(struct bed *bed, struct data_client *client, uint64_t namespace,
			       uint8_t value)
{
	struct fake_extent extent;
	struct key_of key;

	assert_int_equal(
		fake_manager_reserve_flash(&bed->cluster.manager, namespace, EXTENT_BYTES, &extent),
		0);
	assert_int_equal(get_flash_keys(&bed->cluster, namespace, &extent.extent, 1, &key), 0);
	assert_int_equal(connect_flash(&bed->cluster, client, SESSION, namespace), 0);
	memset(bed->data, value, MIB);
	assert_int_equal(data_client_write(client, bed->data, MIB, key.origin, key.key), 0);
	return key;
}

static void expect(struct bed *bed, struct data_client *client, const struct key_of *key,
		   uint8_t value)
{
	memset(bed->read, ~value, MIB);
	assert_int_equal(data_client_read(client, bed->read, MIB, key->origin, key->key), 0);
	for (size_t i = 0; i < MIB; i += 511)
		assert_int_equal(bed->read[i], value);
}

/* ---- Coming and going */

static void test_comes_and_goes(void **state)
{
	struct fake_manager *manager;
	struct data_client client;
	struct key_of kept, key;
	struct store *store;
	struct place own;
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	own = place_of(manager);
	kept = write_one(&bed, &bed.cluster.data, NAMESPACE, 7);
	data_client_open(&client);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(open_device(&bed, bed.path), 0);
		assert_int_equal(manager->nr_lends, i + 1);
		assert_int_equal(manager->lent, bed.number);
		go_to_lent(manager);
		key = write_one(&bed, &client, NAMESPACE + 1, (uint8_t)(i + 1));
		expect(&bed, &client, &key, (uint8_t)(i + 1));
		expect(&bed, &bed.cluster.data, &kept, 7);
		/* Fences go over its lane, too, and over what is left when it has gone. */
		assert_int_equal(fake_manager_end_session(manager, 99), 0);
		assert_int_equal(open_device(&bed, bed.path), -EEXIST);
		assert_int_equal(close_device(&bed, bed.number), 0);
		data_client_await_closed(&client);
		assert_int_equal(
			get_flash_keys(&bed.cluster, NAMESPACE + 1, &(uint64_t){1}, 1, &key),
			-AFAR_ESERVER);
		assert_int_equal(close_device(&bed, bed.number), -ENOENT);
		assert_int_equal(fake_manager_end_session(manager, 99), 0);
		expect(&bed, &bed.cluster.data, &kept, 7);
		go_to(manager, &own);
		/* It was closed in order: all of its ends were clean. */
		store = open_alone(&bed);
		assert_int_equal(store->whole_since, 1);
		assert_int_equal(store->stat.opening, 3 + 2 * i);
		assert_int_equal(store_nr_extents(store), i + 1);
		store_stop(store);
	}
	data_client_close(&client);
	/* The next join names what is open. */
	nr_joins = manager->nr_joins;
	assert_int_equal(open_device(&bed, bed.path), 0);
	fake_manager_vanish(manager);
	fake_manager_listen(manager, manager->address);
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	assert_int_equal(manager->nr_stores, 2);
	bed_close(&bed);
}

/* A device that the manager refuses is closed, and gets into no join. So is what cannot be opened. */
static void test_refused_devices(void **state)
{
	struct fake_manager *manager;
	struct bed bed;
	unsigned nr_joins;
	char own[64];

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	nr_joins = manager->nr_joins;
	manager->refuse_lends_with = -EINVAL;
	assert_int_equal(open_device(&bed, bed.path), -EINVAL);
	assert_int_equal(manager->nr_lends, 1);
	store_stop(open_alone(&bed));
	manager->refuse_lends_with = 0;
	cluster_flash_path(&bed.cluster, own);
	assert_int_equal(open_device(&bed, own), -EEXIST);
	assert_int_equal(open_device(&bed, "device"), -EINVAL);
	assert_int_equal(open_device(&bed, ""), -EINVAL);
	assert_int_equal(open_device(&bed, "/"), -ENOTSUP);
	assert_int_equal(open_device(&bed, "/none"), -ENOENT);
	assert_int_equal(manager->nr_lends, 1);
	fake_manager_vanish(manager);
	fake_manager_listen(manager, manager->address);
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	assert_int_equal(manager->nr_stores, 1);
	bed_close(&bed);
}

/* The manager does not answer, or malformed: it may have the store in its tables, so the server comes
 * anew, without it. */
static void test_lending_without_an_answer(void **state)
{
	struct fake_manager *manager;
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	nr_joins = manager->nr_joins;
	manager->refuse_lends_with = -ETIMEDOUT;
	assert_true(open_device(&bed, bed.path) < 0);
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	assert_int_equal(manager->nr_stores, 1);
	store_stop(open_alone(&bed));
	bed_close(&bed);
}

/* An order that waits for its turn while the connection is lost is dropped: the manager has seen from
 * the join what is open. */
static void test_late_orders_are_dropped(void **state)
{
	Afar__StoreOpen open = AFAR__STORE_OPEN__INIT;
	Afar__Request request = AFAR__REQUEST__INIT, closing;
	struct fake_call opening, late;
	struct fake_manager *manager;
	Afar__StoreClose close;
	struct key_of kept;
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	kept = write_one(&bed, &bed.cluster.data, NAMESPACE, 7);
	nr_joins = manager->nr_joins;
	open.path = bed.path;
	request.call_case = AFAR__REQUEST__CALL_STORE_OPEN;
	request.store_open = &open;
	flash_gate_hold(FLASH_IO_WRITE);
	fake_manager_send(manager, &request, &opening);
	flash_gate_await(FLASH_IO_WRITE, 1);
	ask_close(&closing, &close, manager->store.number);
	fake_manager_send(manager, &closing, &late);
	fake_manager_ping(manager, 1);
	fake_manager_vanish(manager);
	while (server_is_joined(bed.cluster.server))
		sched_yield();
	fake_manager_listen(manager, manager->address);
	flash_gate_release();
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	assert_int_not_equal(fake_call_await(&opening), 0);
	assert_int_not_equal(fake_call_await(&late), 0);
	assert_int_equal(manager->nr_stores, 1);
	fake_manager_ping(manager, 50);
	expect(&bed, &bed.cluster.data, &kept, 7);
	bed_close(&bed);
}

/* ---- Everything else goes on */

struct looking {
	struct bed *bed;
	atomic_bool is_over;
	unsigned nr_failed;
};

/* Asks for the server's figures, and ends sessions, which closes connections on all lanes. */
static void *look_and_fence(void *argument)
{
	struct looking *looking = argument;
	struct fake_manager *manager = &looking->bed->cluster.manager;

	for (uint64_t session = 1000; !atomic_load(&looking->is_over); session++) {
		Afar__Look look = AFAR__LOOK__INIT;

		looking->nr_failed +=
			fake_manager_call(manager, RPC_REQUEST(LOOK, look, &look), NULL) != 0;
		looking->nr_failed += fake_manager_end_session(manager, session) != 0;
	}
	return NULL;
}

/* Reads from the other store, by new connections and keys. */
static void *read_on(void *argument)
{
	struct looking *looking = argument;
	struct bed *bed = looking->bed;
	struct data_client client;
	uint8_t *bytes = malloc(MIB);
	struct key_of key;

	data_client_open(&client);
	while (bytes && !atomic_load(&looking->is_over)) {
		uint64_t extent = bed->cluster.manager.store.extents[0].extent;

		looking->nr_failed +=
			get_flash_keys(&bed->cluster, NAMESPACE, &extent, 1, &key) != 0 ||
			connect_flash(&bed->cluster, &client, SESSION, NAMESPACE) != 0 ||
			data_client_read(&client, bytes, MIB, key.origin, key.key) != 0 ||
			bytes[MIB - 1] != 7;
	}
	data_client_close(&client);
	free(bytes);
	return NULL;
}

static void test_others_go_on_meanwhile(void **state)
{
	struct looking looking = {0}, reading = {0};
	struct fake_manager *manager;
	pthread_t threads[2];
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	write_one(&bed, &bed.cluster.data, NAMESPACE, 7);
	/* The join tells the number of the extent. */
	nr_joins = manager->nr_joins;
	fake_manager_vanish(manager);
	fake_manager_listen(manager, manager->address);
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	looking.bed = reading.bed = &bed;
	assert_int_equal(pthread_create(&threads[0], NULL, look_and_fence, &looking), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, read_on, &reading), 0);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(open_device(&bed, bed.path), 0);
		assert_int_equal(close_device(&bed, bed.number), 0);
	}
	atomic_store(&looking.is_over, true);
	atomic_store(&reading.is_over, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert_int_equal(looking.nr_failed, 0);
	assert_int_equal(reading.nr_failed, 0);
	bed_close(&bed);
}

/* ---- The end */

static void *stop_server_of(void *argument)
{
	stop_server(argument);
	return NULL;
}

/* A release that ends while the server does looks at the stores that are left, and at no other. */
static void test_stops_with_several(void **state)
{
	Afar__ExtentsRelease release = AFAR__EXTENTS_RELEASE__INIT;
	struct fake_manager *manager;
	struct fake_extent extent;
	struct fake_call releasing;
	pthread_t thread;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	assert_int_equal(fake_manager_reserve_flash(manager, NAMESPACE, EXTENT_BYTES, &extent), 0);
	assert_int_equal(open_device(&bed, bed.path), 0);
	release.store = manager->store.number;
	release.n_extents = release.n_namespaces = 1;
	release.extents = &extent.extent;
	release.namespaces = &extent.namespace;
	flash_gate_hold(FLASH_IO_WRITE);
	fake_manager_send(manager, RPC_REQUEST(EXTENTS_RELEASE, extents_release, &release),
			  &releasing);
	flash_gate_await(FLASH_IO_WRITE, 1);
	assert_int_equal(pthread_create(&thread, NULL, stop_server_of, &bed.cluster), 0);
	/* The device closes first, and writes that down. */
	flash_gate_await(FLASH_IO_WRITE, 2);
	flash_gate_release();
	pthread_join(thread, NULL);
	fake_call_await(&releasing);
	start_server(&bed.cluster, 1);
	connect_control(&bed.cluster, SESSION);
	bed_close(&bed);
}

TEST_GROUP(server_devices)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_and_goes),
		cmocka_unit_test(test_refused_devices),
		cmocka_unit_test(test_lending_without_an_answer),
		cmocka_unit_test(test_late_orders_are_dropped),
		cmocka_unit_test(test_others_go_on_meanwhile),
		cmocka_unit_test(test_stops_with_several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
