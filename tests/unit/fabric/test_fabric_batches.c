/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that what is started between hold and release goes out, when, and what becomes of it when its
 * connection ends. And a target hears of what is done to its memory. The test holds both ends, and moves them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/tcp/tcp.h"
#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "unit/group.h"

#define NR_WORDS   32U
#define WORD_BYTES 64U
#define BULK_BYTES (MIB / 4)

struct pair {
	struct client *client;
	struct target other;
	struct fabric_endpoint *here, *there;
	uint8_t *mine;
};

static void pair_open(struct pair *pair, struct client *client)
{
	pair->client = client;
	target_open(&pair->other, any_port());
	connect_pair(client, &pair->other, &pair->here, &pair->there);
	pair->mine = allocate(MIB);
}

static void pair_close(struct pair *pair)
{
	fabric_endpoint_close(pair->here);
	if (pair->there)
		fabric_endpoint_close(pair->there);
	target_close(&pair->other);
	free(pair->mine);
}

/* Frames in line that are not through to the socket; other transports have none. */
static uint32_t nr_waiting(const struct fabric_endpoint *endpoint)
{
	const struct tcp_endpoint *inside = tcp_container(endpoint, struct tcp_endpoint);

	return is_on_tcp() ? inside->out_end - inside->out_next : 0;
}

static void start_word(struct pair *pair, bool is_write, unsigned i)
{
	assert_int_equal(start_one(pair->here, is_write, pair->mine + (size_t)i * WORD_BYTES,
				   WORD_BYTES, &pair->other.all, (uint64_t)i * WORD_BYTES, i),
			 0);
}

/* Waits for so many completions, which are in order. */
static void await_words(struct pair *pair, unsigned nr)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completions[DEPTH];
	unsigned nr_done = 0;

	while (nr_done < nr) {
		int nr_new;

		fabric_queue_poll(pair->other.queue, completions, 1);
		nr_new = fabric_queue_poll(pair->client->queue, completions, DEPTH);
		for (int i = 0; i < nr_new; i++) {
			assert_int_equal(completions[i].context, nr_done++);
			assert_int_equal(completions[i].status, 0);
		}
		assert_true(clock_ns() < deadline);
	}
	assert_int_equal(nr_done, nr);
}

static void goes_out_together(void **state)
{
	struct pair pair;

	pair_open(&pair, *state);
	fill(pair.other.data, NR_WORDS * WORD_BYTES, 1);
	fabric_queue_hold(pair.client->queue);
	for (unsigned i = 0; i < NR_WORDS; i++)
		start_word(&pair, false, i);
	if (is_on_tcp())
		assert_int_equal(nr_waiting(pair.here), NR_WORDS);
	fabric_queue_release(pair.client->queue);
	assert_int_equal(nr_waiting(pair.here), 0);
	await_words(&pair, NR_WORDS);
	assert_memory_equal(pair.mine, pair.other.data, NR_WORDS * WORD_BYTES);
	/* A word that comes later does not wait. */
	start_word(&pair, false, 0);
	assert_int_equal(nr_waiting(pair.here), 0);
	await_words(&pair, 1);
	pair_close(&pair);
}

/* More pieces than one system call takes. */
static void goes_out_completely(void **state)
{
	struct pair pair;

	pair_open(&pair, *state);
	fill(pair.mine, DEPTH * WORD_BYTES, 2);
	fabric_queue_hold(pair.client->queue);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct fabric_piece pieces[FABRIC_IOV_MAX];
		unsigned nr = pair.client->fabric->attributes.iov_max;
		size_t bytes = WORD_BYTES / nr;

		for (unsigned k = 0; k < nr; k++) {
			uint8_t *part = pair.mine + (size_t)i * WORD_BYTES + k * bytes;

			pieces[k] = (struct fabric_piece){
				part, k + 1 < nr ? bytes : WORD_BYTES - k * bytes,
				descriptor_of(pair.client->fabric, part, WORD_BYTES)};
		}
		assert_int_equal(fabric_write(pair.here, pieces, nr,
					      pair.other.all.base + (uint64_t)i * WORD_BYTES,
					      pair.other.all.key, i),
				 0);
	}
	fabric_queue_release(pair.client->queue);
	assert_int_equal(nr_waiting(pair.here), 0);
	await_words(&pair, DEPTH);
	assert_memory_equal(pair.other.data, pair.mine, DEPTH * WORD_BYTES);
	pair_close(&pair);
}

/* A large transfer is worth a system call of its own, and takes along what waits before it. */
static void does_not_hold_much(void **state)
{
	struct pair pair;

	pair_open(&pair, *state);
	fabric_queue_hold(pair.client->queue);
	start_word(&pair, true, 0);
	assert_int_equal(start_one(pair.here, true, pair.mine, BULK_BYTES, &pair.other.all, 0, 1),
			 0);
	assert_true(nr_waiting(pair.here) <= 1); /* what the socket has no room for */
	fabric_queue_release(pair.client->queue);
	await_words(&pair, 2);
	pair_close(&pair);
}

/* A poll does not wait for the release. */
static void goes_out_with_a_poll(void **state)
{
	struct pair pair;

	pair_open(&pair, *state);
	fabric_queue_hold(pair.client->queue);
	start_word(&pair, true, 0);
	start_word(&pair, true, 1);
	await_words(&pair, 2);
	start_word(&pair, true, 0);
	if (is_on_tcp())
		assert_int_equal(nr_waiting(pair.here), 1);
	fabric_queue_release(pair.client->queue);
	assert_int_equal(nr_waiting(pair.here), 0);
	await_words(&pair, 1);
	pair_close(&pair);
}

/* A connection that ends, or is closed, meanwhile: the others' requests go out. */
static void bears_ends_meanwhile(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *closed = client_connect(client);
	struct fabric_completion completion;
	struct pair pair, broken;

	pair_open(&pair, client);
	pair_open(&broken, client);
	fabric_queue_hold(client->queue);
	assert_int_equal(start_one(closed, true, pair.mine, 1, &client->target.all, 0, 7), 0);
	start_word(&broken, true, 8);
	start_word(&pair, true, 0);
	fabric_endpoint_close(closed);
	fabric_endpoint_close(broken.there);
	broken.there = NULL;
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, 8);
	assert_int_not_equal(completion.status, 0);
	start_word(&pair, true, 1);
	fabric_queue_release(client->queue);
	assert_int_equal(nr_waiting(pair.here), 0);
	pair_close(&broken);
	pair_close(&pair);
}

/* A target has no completions of what others do to its memory. */
static void tells_a_target_of_movement(void **state)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	struct pair pair;

	pair_open(&pair, *state);
	if (pair.client->fabric->attributes.is_target_passive) {
		pair_close(&pair);
		skip();
	}
	for (unsigned i = 0; i < 2; i++) {
		do {
			fabric_queue_poll(pair.other.queue, &completion, 1);
		} while (pair.other.queue->has_moved);
		start_word(&pair, i == 1, 0);
		do {
			assert_int_equal(fabric_queue_poll(pair.other.queue, &completion, 1), 0);
			assert_true(clock_ns() < deadline);
		} while (!pair.other.queue->has_moved);
		assert_int_equal(await_completion(pair.client->queue).status, 0);
		assert_true(pair.client->queue->has_moved);
	}
	pair_close(&pair);
}

TEST_GROUP(fabric_batches)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(goes_out_together),	   WITH_TARGET(goes_out_completely),
		WITH_TARGET(does_not_hold_much),   WITH_TARGET(goes_out_with_a_poll),
		WITH_TARGET(bears_ends_meanwhile), WITH_TARGET(tells_a_target_of_movement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
