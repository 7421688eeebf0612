/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealing at a server: the copy and its sums. Nobody writes it however he comes. Everybody is cut off before it
 * is made and hears of it afterwards.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/error.h"
#include "fabric/mapped.h"
#include "lib/base/transport.h"
#include "lib/rpc/control.h"
#include "lib/server/moment.h"
#include "lib/server/server_cluster.h"
#include "server/control/tickets.h"
#include "server/memory/seal.h"
#include "unit/group.h"

#define BLOCK ((uint64_t)CHECKSUM_BLOCK)

static void test_sums(void **state)
{
	(void)state;
	assert_int_equal(checksum_crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(checksum_crc32c("", 0), 0);
	assert_int_equal(checksum_bytes(1), BLOCK);
	assert_int_equal(checksum_bytes(1024 * BLOCK), BLOCK);
	assert_int_equal(checksum_bytes(1024 * BLOCK + 1), 2 * BLOCK);
	assert_int_equal(checksum_bytes(UINT64_MAX), ((uint64_t)1 << 42) * BLOCK);
}

/* ---- Over the wire */

static int reserve(struct cluster *cluster, uint32_t class, uint64_t bytes, struct fake_extent *out)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;
	Afar__Frame *frame;
	int status;

	reserve.namespace_ = NAMESPACE;
	reserve.bytes = bytes;
	reserve.class_ = class;
	status = fake_manager_call(&cluster->manager,
				   RPC_REQUEST(EXTENTS_RESERVE, extents_reserve, &reserve), &frame);
	if (status != 0)
		return status;
	assert_int_equal(frame->reply->extents->n_extents, 1);
	assert_int_equal(frame->reply->extents->extents[0]->class_, class);
	out->extent = frame->reply->extents->extents[0]->extent;
	out->namespace = NAMESPACE;
	out->length = frame->reply->extents->extents[0]->length;
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

static int reserve_sealed(struct cluster *cluster, uint64_t bytes, struct fake_extent *out)
{
	return reserve(cluster, CLASS_DRAM_SEALED, bytes, out);
}

static int seal(struct cluster *cluster, uint64_t namespace, const struct seal_move *move)
{
	Afar__ExtentsSeal ask = AFAR__EXTENTS_SEAL__INIT;
	Afar__SealMove one = AFAR__SEAL_MOVE__INIT, *moves = &one;

	ask.namespace_ = namespace;
	one.from = move->from;
	one.from_offset = move->from_offset;
	one.to = move->to;
	one.to_offset = move->to_offset;
	one.length = move->length;
	ask.moves = &moves;
	ask.n_moves = 1;
	return fake_manager_call(&cluster->manager, RPC_REQUEST(EXTENTS_SEAL, extents_seal, &ask),
				 NULL);
}

/* Returns what a ticket tells of sealings. */
static uint64_t seals_told(struct cluster *cluster, uint64_t namespace)
{
	Afar__Connect connect = AFAR__CONNECT__INIT;
	Afar__Frame *frame;
	uint64_t seals;

	assert_int_equal(get_keys_with(cluster, namespace, RIGHT_ALL, NULL, 0, NULL), 0);
	connect.session = cluster->session;
	connect.namespace_ = namespace;
	connect.rights = RIGHT_ALL;
	assert_int_equal(
		control_call(cluster->control, RPC_REQUEST(CONNECT, connect, &connect), &frame), 0);
	seals = frame->reply->ticket->changes;
	afar__frame__free_unpacked(frame, NULL);
	return seals;
}

struct sealing {
	struct cluster cluster;
	struct fake_extent from, to;
	struct key_of from_key, to_key; /* to read and write */
	char data[8 * CHECKSUM_BLOCK];
};

/* 8 blocks from the second of one extent to the third of another. */
static const struct seal_move the_move = {
	.from_offset = BLOCK, .to_offset = 2 * BLOCK, .length = 8 * BLOCK};

static struct seal_move move_of(const struct sealing *sealing)
{
	struct seal_move move = the_move;

	move.from = sealing->from.extent;
	move.to = sealing->to.extent;
	return move;
}

static void sealing_open(struct sealing *sealing)
{
	struct cluster *cluster = &sealing->cluster;

	cluster_open(cluster, 0);
	sealing->from = reserve_one(cluster, &sealing->from_key);
	assert_int_equal(reserve_sealed(cluster, 2 * MIB, &sealing->to), 0);
	assert_int_equal(get_keys(cluster, NAMESPACE, &sealing->to.extent, 1, &sealing->to_key), 0);
	for (size_t i = 0; i < sizeof(sealing->data); i++)
		sealing->data[i] = (char)(i * 7 + i / 4096);
	assert_int_equal(connect_data(cluster, SESSION), 0);
	assert_int_equal(data_client_write(&cluster->data, sealing->data, sizeof(sealing->data),
					   sealing->from_key.origin + the_move.from_offset,
					   sealing->from_key.key),
			 0);
}

static void expect_copy(struct sealing *sealing)
{
	struct cluster *cluster = &sealing->cluster;
	uint32_t sums[8];
	char data[sizeof(sealing->data)];

	assert_int_equal(data_client_read(&cluster->data, data, sizeof(data),
					  sealing->to_key.origin + the_move.to_offset,
					  sealing->to_key.key),
			 0);
	assert_memory_equal(data, sealing->data, sizeof(data));
	assert_int_equal(
		data_client_read(&cluster->data, sums, sizeof(sums),
				 sealing->to_key.origin + the_move.to_offset + the_move.length,
				 sealing->to_key.key),
		0);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(sums[i], checksum_crc32c(data + i * BLOCK, BLOCK));
}

static void test_copy(void **state)
{
	struct sealing sealing;
	struct seal_move move;

	(void)state;
	sealing_open(&sealing);
	move = move_of(&sealing);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE, &move), 0);
	/* The client that was there is cut off. */
	data_client_await_closed(&sealing.cluster.data);
	assert_int_equal(connect_data_for(&sealing.cluster, SESSION, NAMESPACE, RIGHT_ALL), 0);
	expect_copy(&sealing);
	/* A write at the old place then is not in it. */
	assert_int_equal(data_client_write(&sealing.cluster.data, "changed", 7,
					   sealing.from_key.origin + BLOCK, sealing.from_key.key),
			 0);
	expect_copy(&sealing);
	cluster_close(&sealing.cluster);
}

/* With the key, on a connection to write, before it is sealed and after. */
static void test_nobody_writes_it(void **state)
{
	struct message_request zero = {
		.kind = MESSAGE_ZERO, .offset = the_move.to_offset, .length = BLOCK};
	uint64_t value;
	struct sealing sealing;
	struct seal_move move;

	(void)state;
	sealing_open(&sealing);
	assert_int_not_equal(data_client_write(&sealing.cluster.data, "hostile", 7,
					       sealing.to_key.origin + the_move.to_offset,
					       sealing.to_key.key),
			     0);
	move = move_of(&sealing);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE, &move), 0);
	assert_int_equal(connect_data(&sealing.cluster, SESSION), 0);
	assert_int_not_equal(data_client_write(&sealing.cluster.data, "hostile", 7,
					       sealing.to_key.origin + the_move.to_offset,
					       sealing.to_key.key),
			     0);
	assert_int_equal(connect_data(&sealing.cluster, SESSION), 0);
	zero.extent = sealing.to.extent;
	assert_int_equal(data_client_ask(&sealing.cluster.data, &zero, &value), -EROFS);
	expect_copy(&sealing);
	assert_int_equal(connect_data_for(&sealing.cluster, SESSION, NAMESPACE, RIGHT_READ), 0);
	cluster_close(&sealing.cluster);
}

/* Tickets from before are worth nothing, those after tell of it; other namespaces are not concerned. */
static void test_who_connects_hears_of_it(void **state)
{
	struct rpc_ticket ticket;
	struct sealing sealing;
	struct seal_move move;

	(void)state;
	sealing_open(&sealing);
	move = move_of(&sealing);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE), 0);
	data_client_disconnect(&sealing.cluster.data);
	assert_int_equal(get_ticket(&sealing.cluster, SESSION, &ticket), 0);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE, &move), 0);
	assert_int_not_equal(data_client_connect(&sealing.cluster.data,
						 sealing.cluster.manager.data[0], &ticket,
						 sizeof(ticket)),
			     0);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE), 1);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE + 1), 0);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE, &move), 0);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE), 2);
	/* When all of its memory has gone nobody asks; what comes later has a higher number. */
	assert_int_equal(fake_manager_release(&sealing.cluster.manager, sealing.from.extent), 0);
	assert_int_equal(fake_manager_release(&sealing.cluster.manager, sealing.to.extent), 0);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE), 0);
	sealing.from = reserve_one(&sealing.cluster, &sealing.from_key);
	assert_int_equal(reserve_sealed(&sealing.cluster, 2 * MIB, &sealing.to), 0);
	move = move_of(&sealing);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE, &move), 0);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE), 3);
	cluster_close(&sealing.cluster);
}

/* ---- The order of things */

int __real_tickets_note_seal(struct tickets *tickets, uint64_t namespace);
int __wrap_tickets_note_seal(struct tickets *tickets, uint64_t namespace);

int __wrap_tickets_note_seal(struct tickets *tickets, uint64_t namespace)
{
	moment_pass();
	return __real_tickets_note_seal(tickets, namespace);
}

static void *seal_it(void *argument)
{
	struct sealing *sealing = argument;
	const struct seal_move move = move_of(sealing);

	return seal(&sealing->cluster, NAMESPACE, &move) == 0 ? NULL : argument; /* it has failed */
}

/* A client that connects before that is noted, and so does not hear of it, is cut off before the copy
 * is made. */
static void test_who_connects_at_the_last_moment(void **state)
{
	struct rpc_ticket ticket;
	struct data_client late;
	struct sealing sealing;
	pthread_t thread;
	void *failed;

	(void)state;
	sealing_open(&sealing);
	data_client_open(&late);
	assert_int_equal(get_ticket(&sealing.cluster, SESSION, &ticket), 0);
	moment_open();
	assert_int_equal(pthread_create(&thread, NULL, seal_it, &sealing), 0);
	moment_await();
	assert_int_equal(data_client_connect(&late, sealing.cluster.manager.data[0], &ticket,
					     sizeof(ticket)),
			 0);
	moment_close();
	pthread_join(thread, &failed);
	assert_null(failed);
	data_client_await_closed(&late);
	data_client_close(&late);
	cluster_close(&sealing.cluster);
}

#define EXPECT_REFUSED(status, ...)                                                  \
	do {                                                                         \
		struct seal_move bad = move_of(&sealing);                            \
		__VA_ARGS__;                                                         \
		assert_int_equal(seal(&sealing.cluster, NAMESPACE, &bad), (status)); \
	} while (0)

/* The manager would have to be mad. Nobody is cut off for it. */
/* A newer manager may ask for memory that this server does not know. */
static void test_unknown_class(void **state)
{
	struct fake_extent extent;
	struct cluster cluster;

	(void)state;
	cluster_open(&cluster, 0);
	assert_int_equal(reserve(&cluster, NR_CLASSES, 2 * MIB, &extent), -EOPNOTSUPP);
	assert_int_equal(reserve(&cluster, UINT32_MAX, 2 * MIB, &extent), -EOPNOTSUPP);
	assert_int_equal(reserve(&cluster, CLASS_DRAM, 2 * MIB, &extent), 0);
	cluster_close(&cluster);
}

static void test_impossible(void **state)
{
	struct sealing sealing;
	struct seal_move move;

	(void)state;
	sealing_open(&sealing);
	EXPECT_REFUSED(-EINVAL, bad.length = 0);
	EXPECT_REFUSED(-EINVAL, bad.length--);
	EXPECT_REFUSED(-EINVAL, bad.length = 0 - BLOCK);
	EXPECT_REFUSED(-EINVAL, bad.to_offset += 8);
	EXPECT_REFUSED(-ERANGE, bad.length = 4 * MIB);
	EXPECT_REFUSED(-ERANGE, bad.from_offset = 2 * MIB - 7 * BLOCK);
	EXPECT_REFUSED(-ERANGE, bad.from_offset = UINT64_MAX);
	EXPECT_REFUSED(-ERANGE,
		       bad.to_offset = 2 * MIB - 8 * BLOCK); /* without room for the sums */
	EXPECT_REFUSED(-ERANGE, bad.to_offset = 0 - BLOCK);
	EXPECT_REFUSED(-AFAR_ELOST, bad.from = bad.to);
	EXPECT_REFUSED(-AFAR_ELOST, bad.to = bad.from);
	EXPECT_REFUSED(-AFAR_ELOST, bad.to++);
	move = move_of(&sealing);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE + 1, &move), -AFAR_ELOST);
	assert_int_equal(seals_told(&sealing.cluster, NAMESPACE), 0);
	assert_int_equal(data_client_read(&sealing.cluster.data, sealing.data, 8,
					  sealing.from_key.origin, sealing.from_key.key),
			 0);
	cluster_close(&sealing.cluster);
}

/* Released, the memory is anybody's, zeroed, to be written again. */
static void test_lives_of_sealed_extents(void **state)
{
	struct sealing sealing;
	struct seal_move move;
	struct key_of key;
	char word[8];

	(void)state;
	sealing_open(&sealing);
	move = move_of(&sealing);
	assert_int_equal(seal(&sealing.cluster, NAMESPACE, &move), 0);
	assert_int_equal(fake_manager_release(&sealing.cluster.manager, sealing.to.extent), 0);
	for (int i = 0; i < 8; i++) {
		reserve_one(&sealing.cluster, &key);
		assert_int_equal(connect_data(&sealing.cluster, SESSION), 0);
		assert_int_equal(data_client_read(&sealing.cluster.data, word, 8,
						  key.origin + the_move.to_offset, key.key),
				 0);
		assert_memory_equal(word, "\0\0\0\0\0\0\0\0", 8);
		assert_int_equal(data_client_write(&sealing.cluster.data, "written", 8,
						   key.origin + the_move.to_offset, key.key),
				 0);
	}
	cluster_close(&sealing.cluster);
}

struct sealer {
	struct sealing *sealing;
	pthread_t thread;
	atomic_int status;
};

static void *run_sealer(void *argument)
{
	struct sealer *sealer = argument;
	const struct seal_move move = move_of(sealer->sealing);

	sealer->status = seal(&sealer->sealing->cluster, NAMESPACE, &move);
	return NULL;
}

/* The server waits for a client that has the memory and is at it. It does not wait for one that comes back
 * meanwhile, and works on elsewhere. */
static void test_waits_for_who_is_at_it(void **state)
{
	void *page = mmap(NULL, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct data_client at_it;
	struct sealing sealing;
	struct sealer sealer = {.sealing = &sealing, .status = 1};
	char data[8];

	(void)state;
	if (!is_on_local())
		skip();
	assert_true(page != MAP_FAILED);
	sealing_open(&sealing);
	assert_int_equal(fabric_attach(sealing.cluster.data.endpoint, sealing.from_key.key,
				       sealing.from_key.origin, BLOCK, true, page),
			 0);
	at_it = sealing.cluster.data;
	data_client_open(&sealing.cluster.data);
	assert_int_equal(pthread_create(&sealer.thread, NULL, run_sealer, &sealer), 0);
	/* The fence has begun when tickets tell of it. */
	while (seals_told(&sealing.cluster, NAMESPACE) == 0)
		;
	assert_int_equal(connect_data(&sealing.cluster, SESSION), 0);
	assert_int_equal(data_client_read(&sealing.cluster.data, data, sizeof(data),
					  sealing.from_key.origin, sealing.from_key.key),
			 0);
	memset(page, 0x5a, BLOCK);
	assert_int_equal(sealer.status, 1);
	data_client_await_closed(&at_it);
	pthread_join(sealer.thread, NULL);
	assert_int_equal(sealer.status, 0);
	assert_int_equal(data_client_read(&sealing.cluster.data, data, sizeof(data),
					  sealing.from_key.origin, sealing.from_key.key),
			 0);
	data_client_close(&at_it);
	munmap(page, BLOCK);
	cluster_close(&sealing.cluster);
}

TEST_GROUP(server_seal)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_nobody_writes_it),
		cmocka_unit_test(test_who_connects_hears_of_it),
		cmocka_unit_test(test_who_connects_at_the_last_moment),
		cmocka_unit_test(test_unknown_class),
		cmocka_unit_test(test_impossible),
		cmocka_unit_test(test_lives_of_sealed_extents),
		cmocka_unit_test(test_waits_for_who_is_at_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
