/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store of a whole server, with a manager that decides and clients that read and write.
 * Confirmed bytes are kept, what is released or trimmed reads as zeros, what is under way is
 * awaited, and what was lost is said.
 */
#include <afar/error.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "flash/device/file.h"
#include "flash/device/uring.h"
#include "flash/ftl.h"
#include "lib/server/flash_gate.h"
#include "lib/server/server_cluster.h"
#include "server/memory/extent.h"
#include "server/stores/store.h"
#include "unit/group.h"

#define FLASH_BYTES  (64 * MIB)
#define EXTENT_BYTES (2 * MIB)
#define NR_PINGS     200 /* so long a server has to do what it must not */

struct bed {
	struct cluster cluster;
	uint8_t *data, *read; /* 1 MiB each */
};

static void bed_open(struct bed *bed)
{
	flash_gate_reset();
	cluster_open_flash(&bed->cluster, FLASH_BYTES);
	bed->cluster.manager.is_held = flash_gate_is_holding;
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

static struct fake_extent reserve(struct bed *bed, uint64_t namespace)
{
	struct fake_extent extent;

	assert_int_equal(
		fake_manager_reserve_flash(&bed->cluster.manager, namespace, EXTENT_BYTES, &extent),
		0);
	assert_int_equal(extent.namespace, namespace);
	assert_int_equal(extent.length, EXTENT_BYTES);
	return extent;
}

static struct key_of key_of(struct bed *bed, const struct fake_extent *extent)
{
	uint64_t number = extent->extent;
	struct key_of key;

	assert_int_equal(get_flash_keys(&bed->cluster, extent->namespace, &number, 1, &key), 0);
	assert_int_equal(key.length, EXTENT_BYTES);
	return key;
}

/* One part is at most FABRIC_PAGED_MAX. */
static void write_all(struct bed *bed, struct data_client *client, const struct key_of *key,
		      uint8_t value)
{
	memset(bed->data, value, MIB);
	for (uint64_t at = 0; at < EXTENT_BYTES; at += MIB)
		assert_int_equal(
			data_client_write(client, bed->data, MIB, key->origin + at, key->key), 0);
}

static void expect_bytes(const uint8_t *bytes, size_t length, uint8_t value)
{
	for (size_t i = 0; i < length; i++)
		assert_int_equal(bytes[i], value);
}

static void expect_all(struct bed *bed, struct data_client *client, const struct key_of *key,
		       uint8_t value)
{
	for (uint64_t at = 0; at < EXTENT_BYTES; at += MIB) {
		memset(bed->read, ~value, MIB);
		assert_int_equal(
			data_client_read(client, bed->read, MIB, key->origin + at, key->key), 0);
		expect_bytes(bed->read, MIB, value);
	}
}

/* An extent of NAMESPACE with that value everywhere, and the cluster's connection to the store. */
static struct fake_extent reserve_and_write(struct bed *bed, struct key_of *key, uint8_t value)
{
	struct fake_extent extent = reserve(bed, NAMESPACE);

	*key = key_of(bed, &extent);
	if (!bed->cluster.data.endpoint)
		assert_int_equal(
			connect_flash(&bed->cluster, &bed->cluster.data, SESSION, NAMESPACE), 0);
	write_all(bed, &bed->cluster.data, key, value);
	return extent;
}

/* The server goes on to the manager's next life. The manager has then noted the next join. */
static void come_back(struct bed *bed)
{
	struct fake_manager *manager = &bed->cluster.manager;
	unsigned nr_joins = manager->nr_joins;

	fake_manager_listen(manager, manager->address);
	fake_manager_await(manager, manager->nr_joins > nr_joins);
}

static void restart_server(struct bed *bed)
{
	stop_server(&bed->cluster);
	start_server(&bed->cluster, 1);
	connect_control(&bed->cluster, SESSION);
}

/* A copy of the device as it is now: what a power cut would leave, at the worst. */
static void copy_file(const char *from, const char *to)
{
	const size_t bytes = 1 << 20;
	uint8_t *buffer = malloc(bytes);
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t nr;

	assert_true(buffer && in >= 0 && out >= 0);
	while ((nr = read(in, buffer, bytes)) > 0)
		assert_int_equal(write(out, buffer, (size_t)nr), nr);
	assert_int_equal(nr, 0);
	close(out);
	close(in);
	free(buffer);
}

/* The server is gone at once, and started again. */
static void kill_server(struct bed *bed)
{
	char path[64], image[80];

	cluster_flash_path(&bed->cluster, path);
	snprintf(image, sizeof(image), "%s.image", path);
	data_client_disconnect(&bed->cluster.data);
	/* The join is on the device, too. */
	while (!server_is_joined(bed->cluster.server))
		sched_yield();
	copy_file(path, image);
	stop_server(&bed->cluster);
	assert_int_equal(rename(image, path), 0);
	start_server(&bed->cluster, 1);
	connect_control(&bed->cluster, SESSION);
}

/* ---- What is kept */

static void test_survives_a_restart(void **state)
{
	struct fake_extent extent;
	struct fake_store *store;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	store = &bed.cluster.manager.store;
	assert_int_not_equal(store->number, 0);
	assert_int_equal(store->opening, 1);
	assert_int_equal(store->nr_extents, 0);
	extent = reserve_and_write(&bed, &key, 0x5a);
	expect_all(&bed, &bed.cluster.data, &key, 0x5a);
	data_client_disconnect(&bed.cluster.data);

	restart_server(&bed);
	assert_int_equal(store->opening, 2);
	assert_string_equal(store->cluster, "fake");
	assert_int_equal(store->nr_extents, 1);
	assert_int_equal(store->extents[0].extent, extent.extent);
	assert_int_equal(store->extents[0].namespace, NAMESPACE);
	assert_int_equal(store->extents[0].length, EXTENT_BYTES);
	assert_false(store->extents[0].is_provisional);
	key = key_of(&bed, &extent);
	assert_int_equal(connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE), 0);
	expect_all(&bed, &bed.cluster.data, &key, 0x5a);
	bed_close(&bed);
}

/* Trap 1. The manager knows neither: the one that nobody had a key of goes, the other stays. */
static void test_confirmed_extents_stay(void **state)
{
	struct fake_extent confirmed, provisional;
	struct fake_manager *manager;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	confirmed = reserve_and_write(&bed, &key, 0x11);
	provisional = reserve(&bed, NAMESPACE + 1);
	fake_manager_vanish(manager);
	manager->release_of_store[0] = confirmed.extent;
	manager->release_of_store[1] = provisional.extent;
	manager->nr_release_of_store = 2;
	come_back(&bed);
	assert_int_equal(manager->store.nr_extents, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(manager->store.extents[i].is_provisional,
				 manager->store.extents[i].extent == provisional.extent);

	/* The release comes to its end before the next listing. */
	assert_int_equal(fake_manager_release_flash(manager, NAMESPACE + 1, provisional.extent), 0);
	fake_manager_vanish(manager);
	come_back(&bed);
	assert_int_equal(manager->store.nr_extents, 1);
	assert_int_equal(manager->store.extents[0].extent, confirmed.extent);
	expect_all(&bed, &bed.cluster.data, &key, 0x11);
	bed_close(&bed);
}

/* Trap 2. */
static void test_release_names_the_namespace(void **state)
{
	struct fake_extent first, second;
	struct fake_manager *manager;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	first = reserve_and_write(&bed, &key, 0x22);
	assert_int_equal(fake_manager_release_flash(manager, NAMESPACE + 1, first.extent), 0);
	expect_all(&bed, &bed.cluster.data, &key, 0x22);
	assert_int_equal(fake_manager_release_flash(manager, NAMESPACE, first.extent), 0);
	data_client_await_closed(&bed.cluster.data);
	/* Its number comes no more, and the repeated release finds nothing. */
	second = reserve_and_write(&bed, &key, 0x33);
	assert_int_not_equal(second.extent, first.extent);
	assert_int_not_equal(second.extent >> 32, first.extent >> 32);
	assert_int_equal(fake_manager_release_flash(manager, NAMESPACE, first.extent), 0);
	expect_all(&bed, &bed.cluster.data, &key, 0x33);
	bed_close(&bed);
}

/* ---- Trims */

static void test_freed_bytes_are_zeros(void **state)
{
	struct fake_extent extent, other;
	struct fake_manager *manager;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	extent = reserve_and_write(&bed, &key, 0x44);
	/* These are of nobody's, another's, or not inside of it. */
	assert_int_equal(fake_manager_trim(manager, NAMESPACE, 99, 0, 4096), 0);
	assert_int_equal(fake_manager_trim(manager, NAMESPACE + 1, extent.extent, 0, 4096), 0);
	assert_int_equal(fake_manager_trim(manager, NAMESPACE, extent.extent, 0, 512), -EINVAL);
	assert_int_equal(fake_manager_trim(manager, NAMESPACE, extent.extent, EXTENT_BYTES, 4096),
			 -EINVAL);
	assert_int_equal(
		fake_manager_trim(manager, NAMESPACE, extent.extent, 4096, UINT64_MAX - 4095),
		-EINVAL);
	expect_all(&bed, &bed.cluster.data, &key, 0x44);
	assert_int_equal(fake_manager_trim(manager, NAMESPACE, extent.extent, 0, EXTENT_BYTES), 0);
	expect_all(&bed, &bed.cluster.data, &key, 0);

	write_all(&bed, &bed.cluster.data, &key, 0x45);
	assert_int_equal(fake_manager_release_flash(manager, NAMESPACE, extent.extent), 0);
	data_client_await_closed(&bed.cluster.data);
	/* Every range of the store has been somebody's after this. */
	for (unsigned i = 0; i < 4; i++) {
		other = reserve(&bed, NAMESPACE + 1);
		key = key_of(&bed, &other);
		assert_int_equal(
			connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE + 1), 0);
		expect_all(&bed, &bed.cluster.data, &key, 0);
	}
	bed_close(&bed);
}

static void send_trim(struct fake_manager *manager, struct fake_call *call, uint64_t extent)
{
	Afar__ExtentsTrim trim = AFAR__EXTENTS_TRIM__INIT;
	Afar__TrimRange range = AFAR__TRIM_RANGE__INIT;
	Afar__TrimRange *ranges = &range;

	range.extent = extent;
	range.length = EXTENT_BYTES;
	trim.store = manager->store.number;
	trim.namespace_ = NAMESPACE;
	trim.n_ranges = 1;
	trim.ranges = &ranges;
	fake_manager_send(manager, RPC_REQUEST(EXTENTS_TRIM, extents_trim, &trim), call);
}

/* The manager goes while something is held, and listens again. Its server is connected, and has had
 * the time to join. */
static void reconnect(struct fake_manager *manager)
{
	fake_manager_vanish(manager);
	fake_manager_listen(manager, manager->address);
	fake_manager_await(manager, manager->connection);
	fake_manager_ping(manager, NR_PINGS);
}

/* Trap 3. A trim that is under way ends before the server joins again. */
static void test_join_waits_for_trims(void **state)
{
	struct fake_manager *manager;
	struct fake_extent extent;
	struct fake_call trim;
	struct key_of key;
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	extent = reserve_and_write(&bed, &key, 0x55);
	nr_joins = manager->nr_joins;
	flash_gate_hold(FLASH_IO_WRITE);
	send_trim(manager, &trim, extent.extent);
	flash_gate_await(FLASH_IO_WRITE, 1);
	reconnect(manager);
	flash_gate_release();
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	assert_false(manager->store.was_held);
	assert_int_not_equal(fake_call_await(&trim), 0);
	expect_all(&bed, &bed.cluster.data, &key, 0);
	bed_close(&bed);
}

/* A device more, whose opening keeps the server busy while writes wait. */
static void make_device(const struct bed *bed, char path[80])
{
	const struct flash_file_options sparse = {.is_sparse = true};
	struct flash_device *device;

	snprintf(path, 80, "%s/device", bed->cluster.folder);
	assert_int_equal(flash_file_create(path, FLASH_BYTES, &sparse), 0);
	assert_int_equal(flash_device_open_path(path, 0, &device), 0);
	assert_int_equal(ftl_create(device, NULL), 0);
	flash_device_close(device);
}

/* One that waits for its turn is dropped. */
static void test_late_trims_are_dropped(void **state)
{
	Afar__StoreOpen open = AFAR__STORE_OPEN__INIT;
	struct fake_manager *manager;
	struct fake_call opening, trim;
	struct fake_extent extent;
	struct key_of key;
	struct bed bed;
	unsigned nr_joins;
	char path[80];

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	extent = reserve_and_write(&bed, &key, 0x66);
	nr_joins = manager->nr_joins;
	make_device(&bed, path);
	open.path = path;
	flash_gate_hold(FLASH_IO_WRITE);
	fake_manager_send(manager, RPC_REQUEST(STORE_OPEN, store_open, &open), &opening);
	flash_gate_await(FLASH_IO_WRITE, 1);
	send_trim(manager, &trim, extent.extent);
	fake_manager_ping(manager, 1);
	fake_manager_vanish(manager);
	while (server_is_joined(bed.cluster.server))
		sched_yield();
	fake_manager_listen(manager, manager->address);
	flash_gate_release();
	fake_manager_await(manager, manager->nr_joins > nr_joins);
	assert_int_not_equal(fake_call_await(&opening), 0);
	assert_int_not_equal(fake_call_await(&trim), 0);
	/* After the next listing no trim of before is under way. */
	fake_manager_vanish(manager);
	come_back(&bed);
	expect_all(&bed, &bed.cluster.data, &key, 0x66);
	bed_close(&bed);
}

/* ---- What is under way */

/* Begins a transfer, and does not wait. */
static void begin_transfer(struct data_client *client, bool is_write, void *data, size_t length,
			   const struct key_of *key)
{
	const struct fabric_piece piece = {.addr = data, .length = length};

	client->context++;
	assert_int_equal(is_write ? fabric_write(client->endpoint, &piece, 1, key->origin, key->key,
						 client->context)
				  : fabric_read(client->endpoint, &piece, 1, key->origin, key->key,
						client->context),
			 0);
}

static int end_transfer(struct data_client *client)
{
	struct fabric_completion completion = {0};
	struct fabric_event event;

	while (data_client_step(client, &completion, &event) != 1 ||
	       completion.context != client->context)
		;
	return completion.status;
}

/* Polls the client until so many operations wait at the device. */
static void push_to_device(struct data_client *client, enum flash_io_opcode opcode, unsigned nr)
{
	struct fabric_completion completion;

	assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	flash_gate_await(opcode, nr);
}

static void send_session_end(struct fake_manager *manager, struct fake_call *call, uint64_t session)
{
	Afar__SessionEnd end = AFAR__SESSION_END__INIT;

	end.session = session;
	fake_manager_send(manager, RPC_REQUEST(SESSION_END, session_end, &end), call);
}

/* Trap 4. The buffer of a read whose client has gone is nobody else's before the device is done. */
static void test_close_in_a_slow_read(void **state)
{
	struct key_of key, other;
	struct data_client gone;
	struct fake_call end;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	reserve_and_write(&bed, &key, 0x77);
	reserve_and_write(&bed, &other, 0x78);
	data_client_open(&gone);
	assert_int_equal(connect_flash(&bed.cluster, &gone, SESSION + 1, NAMESPACE), 0);
	flash_gate_hold(FLASH_IO_READ);
	begin_transfer(&gone, false, bed.read, MIB, &key);
	push_to_device(&gone, FLASH_IO_READ, 1);
	send_session_end(&bed.cluster.manager, &end, SESSION + 1);
	data_client_await_closed(&gone);
	for (unsigned i = 0; i < 4; i++) {
		begin_transfer(&bed.cluster.data, false, bed.data, MIB, &other);
		push_to_device(&bed.cluster.data, FLASH_IO_READ, i + 2);
	}
	assert_false(flash_gate_has_shared_memory());
	flash_gate_release();
	assert_int_equal(end_transfer(&bed.cluster.data), 0);
	expect_bytes(bed.data, MIB, 0x78);
	assert_int_equal(fake_call_await(&end), 0);
	assert_false(end.was_held);
	data_client_close(&gone);
	bed_close(&bed);
}

/* Trap 7. A fence is answered when the puts of its connections have ended. */
static void test_fence_waits_for_puts(void **state)
{
	struct fake_manager *manager;
	struct data_client writer;
	struct fake_call end;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	reserve_and_write(&bed, &key, 0x10);
	data_client_open(&writer);
	assert_int_equal(connect_flash(&bed.cluster, &writer, SESSION + 1, NAMESPACE), 0);
	memset(bed.read, 0x20, MIB);
	flash_gate_hold(FLASH_IO_WRITE);
	begin_transfer(&writer, true, bed.read, MIB, &key);
	push_to_device(&writer, FLASH_IO_WRITE, 1);
	send_session_end(manager, &end, SESSION + 1);
	data_client_await_closed(&writer);
	fake_manager_ping(manager, NR_PINGS);
	flash_gate_release();
	assert_int_equal(fake_call_await(&end), 0);
	assert_false(end.was_held);
	/* It has landed, and what comes now is not overwritten. */
	assert_int_equal(data_client_read(&bed.cluster.data, bed.data, MIB, key.origin, key.key),
			 0);
	expect_bytes(bed.data, MIB, 0x20);
	data_client_close(&writer);
	bed_close(&bed);
}

/* A fence waits for puts of a connection that ended by itself, too. */
static void test_fence_waits_for_puts_of_closed_connections(void **state)
{
	struct fake_manager *manager;
	struct data_client writer;
	struct fake_call end;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	reserve_and_write(&bed, &key, 0x10);
	data_client_open(&writer);
	assert_int_equal(connect_flash(&bed.cluster, &writer, SESSION + 1, NAMESPACE), 0);
	flash_gate_hold(FLASH_IO_WRITE);
	begin_transfer(&writer, true, bed.data, MIB, &key);
	push_to_device(&writer, FLASH_IO_WRITE, 1);
	data_client_disconnect(&writer);
	send_session_end(manager, &end, SESSION + 1);
	fake_manager_ping(manager, NR_PINGS);
	flash_gate_release();
	assert_int_equal(fake_call_await(&end), 0);
	assert_false(end.was_held);
	data_client_close(&writer);
	bed_close(&bed);
}

/* A grant waits for the device while the server stops. */
static void *stop_server_of(void *argument)
{
	stop_server(argument);
	return NULL;
}

static void test_stop_in_a_grant(void **state)
{
	Afar__Grant grant = AFAR__GRANT__INIT;
	struct rpc_capability capability;
	struct fake_extent extent;
	struct fake_call call = {0};
	struct bed bed;
	pthread_t thread;
	uint64_t number;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed, NAMESPACE);
	number = extent.extent;
	capability = fake_manager_capability(&bed.cluster.manager, SESSION, NAMESPACE, RIGHT_ALL,
					     &number, 1);
	assert_int_equal(capability_sign(&capability, bed.cluster.manager.signing_key), 0);
	grant.session = SESSION;
	grant.namespace_ = NAMESPACE;
	grant.n_extents = 1;
	grant.extents = &number;
	grant.capability.data = (uint8_t *)&capability;
	grant.capability.len = sizeof(capability);
	grant.store = bed.cluster.manager.store.number;
	flash_gate_hold(FLASH_IO_WRITE);
	assert_int_equal(
		fake_call_send(bed.cluster.control, RPC_REQUEST(GRANT, grant, &grant), &call), 0);
	flash_gate_await(FLASH_IO_WRITE, 1);
	assert_int_equal(pthread_create(&thread, NULL, stop_server_of, &bed.cluster), 0);
	assert_int_not_equal(fake_call_await(&call), 0);
	flash_gate_release();
	pthread_join(thread, NULL);
	start_server(&bed.cluster, 1);
	connect_control(&bed.cluster, SESSION);
	assert_int_equal(bed.cluster.manager.store.nr_extents, 1);
	assert_false(bed.cluster.manager.store.extents[0].is_provisional);
	bed_close(&bed);
}

/* ---- Joins and syncs */

static bool is_same(const struct fake_join *left, const struct fake_join *right)
{
	return left->opening == right->opening && left->random == right->random;
}

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

/* An opening of the store that no manager hears of. */
static void open_alone(struct bed *bed)
{
	char path[64];
	const struct store_options options = {
		.path = path,
		.address = "127.0.0.1:0",
		.admit = admit_nobody,
		.changed = do_nothing,
	};
	struct store *store;

	cluster_flash_path(&bed->cluster, path);
	assert_int_equal(store_start(&options, &store), 0);
	store_stop(store);
}

/* Trap 8. A store's account of itself tells an older image of it from what it is now. */
static void test_joins_are_counted(void **state)
{
	struct fake_manager *manager;
	struct fake_join first, second;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	first = manager->store.present;
	assert_int_equal(first.opening, 1);
	assert_int_not_equal(first.random, 0);
	assert_int_equal(manager->store.accepted.opening, 0);
	/* Accepted now, and the same in this opening. */
	fake_manager_vanish(manager);
	come_back(&bed);
	assert_true(is_same(&manager->store.accepted, &first));
	assert_true(is_same(&manager->store.present, &first));

	/* One that was not accepted is proposed again, because it may have been. */
	stop_server(&bed.cluster);
	open_alone(&bed);
	start_server(&bed.cluster, 1);
	assert_int_equal(manager->store.opening, 3);
	second = manager->store.present;
	assert_int_equal(second.opening, 2);
	assert_int_not_equal(second.random, first.random);
	assert_true(is_same(&manager->store.accepted, &first));
	kill_server(&bed);
	assert_int_equal(manager->store.opening, 4);
	assert_true(is_same(&manager->store.accepted, &second));
	assert_int_equal(manager->store.present.opening, 4);
	bed_close(&bed);
}

/* Trap 5. */
static void test_syncs_tell_of_lost_writes(void **state)
{
	struct fake_extent extent;
	struct key_of key;
	uint64_t opening = 1;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	extent = reserve_and_write(&bed, &key, 0x12);
	assert_int_equal(data_client_sync(&bed.cluster.data, &opening), 0);
	assert_int_equal(opening, 1);
	data_client_disconnect(&bed.cluster.data);

	/* A clean end loses nothing. */
	restart_server(&bed);
	assert_int_equal(connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE), 0);
	assert_int_equal(data_client_sync(&bed.cluster.data, &opening), 0);
	assert_int_equal(opening, 2);

	/* An unclean one may, and that is said to each who remembers an opening before it. */
	kill_server(&bed);
	assert_int_equal(connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE), 0);
	assert_int_equal(data_client_sync(&bed.cluster.data, &opening), -AFAR_EUNSYNCED);
	assert_int_equal(opening, 3);
	assert_int_equal(data_client_sync(&bed.cluster.data, &opening), 0);
	data_client_disconnect(&bed.cluster.data);

	/* Also when a clean end has followed. */
	restart_server(&bed);
	assert_int_equal(connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE), 0);
	opening = 2;
	assert_int_equal(data_client_sync(&bed.cluster.data, &opening), -AFAR_EUNSYNCED);
	assert_int_equal(opening, 4);
	opening = 3;
	assert_int_equal(data_client_sync(&bed.cluster.data, &opening), 0);
	/* The bytes that were synced are there. */
	key = key_of(&bed, &extent);
	expect_all(&bed, &bed.cluster.data, &key, 0x12);
	bed_close(&bed);
}

static void test_durable_writes_survive(void **state)
{
	struct fake_extent extent;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	extent = reserve(&bed, NAMESPACE);
	key = key_of(&bed, &extent);
	assert_int_equal(connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE), 0);
	memset(bed.data, 0x34, MIB);
	for (size_t done = 0; done < EXTENT_BYTES; done += MIB)
		assert_int_equal(data_client_write_durable(&bed.cluster.data, bed.data, MIB,
							   key.origin + done, key.key),
				 0);
	kill_server(&bed);
	key = key_of(&bed, &extent);
	assert_int_equal(connect_flash(&bed.cluster, &bed.cluster.data, SESSION, NAMESPACE), 0);
	expect_all(&bed, &bed.cluster.data, &key, 0x34);
	bed_close(&bed);
}

/* ---- Shares */

#define NR_OTHERS 63

/* Asks for a lot, and takes nothing of it. */
static void ask_and_not_read(struct bed *bed, struct data_client *client, const struct key_of *key)
{
	for (unsigned i = 0; i < 8; i++)
		begin_transfer(client, false, bed->read, MIB, key);
}

static void test_others_go_on(void **state)
{
	struct data_client greedy[8], others[NR_OTHERS];
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	reserve_and_write(&bed, &key, 0x56);
	for (unsigned i = 0; i < 8; i++) {
		data_client_open(&greedy[i]);
		assert_int_equal(connect_flash(&bed.cluster, &greedy[i], SESSION + 1, NAMESPACE),
				 0);
		ask_and_not_read(&bed, &greedy[i], &key);
	}
	for (unsigned i = 0; i < NR_OTHERS; i++) {
		data_client_open(&others[i]);
		assert_int_equal(
			connect_flash(&bed.cluster, &others[i], SESSION + 2 + i, NAMESPACE), 0);
		expect_all(&bed, &others[i], &key, 0x56);
	}
	for (unsigned i = 0; i < NR_OTHERS; i++)
		data_client_close(&others[i]);
	for (unsigned i = 0; i < 8; i++)
		data_client_close(&greedy[i]);
	bed_close(&bed);
}

/* ---- Read only */

/* The server reports by itself that a store takes no changes any more, because the manager places by
 * that. Nothing else that it reports has changed. */
static void test_reports_that_it_is_read_only(void **state)
{
	struct fake_manager *manager;
	struct key_of key;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	manager = &bed.cluster.manager;
	reserve_and_write(&bed, &key, 1);
	fake_manager_await(manager, manager->nr_reports > 0);
	assert_int_equal(manager->store_refusal, 0);
	flash_gate_fail(FLASH_IO_FLUSH, -EIO);
	assert_int_equal(
		data_client_write_durable(&bed.cluster.data, bed.data, MIB, key.origin, key.key),
		-EIO);
	fake_manager_await(manager, manager->store_refusal == -EIO);
	bed_close(&bed);
}

TEST_GROUP(server_store)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_survives_a_restart),
		cmocka_unit_test(test_confirmed_extents_stay),
		cmocka_unit_test(test_release_names_the_namespace),
		cmocka_unit_test(test_freed_bytes_are_zeros),
		cmocka_unit_test(test_join_waits_for_trims),
		cmocka_unit_test(test_late_trims_are_dropped),
		cmocka_unit_test(test_close_in_a_slow_read),
		cmocka_unit_test(test_fence_waits_for_puts),
		cmocka_unit_test(test_fence_waits_for_puts_of_closed_connections),
		cmocka_unit_test(test_stop_in_a_grant),
		cmocka_unit_test(test_joins_are_counted),
		cmocka_unit_test(test_syncs_tell_of_lost_writes),
		cmocka_unit_test(test_durable_writes_survive),
		cmocka_unit_test(test_others_go_on),
		cmocka_unit_test(test_reports_that_it_is_read_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
