/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics of the fabric seam, on transports that have them: what they do to a word and bring back, and what
 * is refused. They are atomic against each other.
 */
#include "lib/fabric/fabric_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/atomics.h"
#include "lib/base/transport.h"
#include "unit/group.h"

#define NR_THREADS 4U
#define NR_ROUNDS  200U

/* Skips the test where there are none. */
#define require_atomics(client)                            \
	do {                                               \
		if (!fabric_has_atomics((client)->fabric)) \
			skip();                            \
	} while (0)

/* A place for what the word was. */
static struct fabric_piece place_for(struct fabric *fabric, uint64_t *value)
{
	return (struct fabric_piece){value, sizeof(*value),
				     descriptor_of(fabric, value, sizeof(*value))};
}

static void has_them_or_says_so(void **state)
{
	struct client *client = *state;

	assert_int_equal(fabric_has_atomics(client->fabric), !is_on_tcp());
	assert_int_equal(client->fabric->atomics != NULL, !is_on_tcp());
}

static void adds_and_swaps(void **state)
{
	struct client *client = *state;
	const struct fabric_memory *all = &client->target.all;
	uint64_t *word = (uint64_t *)client->target.data + 1, *value;
	struct fabric_endpoint *endpoint;
	struct fabric_completion completion;
	struct fabric_piece place;

	require_atomics(client);
	value = (uint64_t *)allocate(sizeof(*value));
	place = place_for(client->fabric, value);
	endpoint = client_connect(client);
	*word = UINT64_C(0x1122334455667788);
	assert_int_equal(fabric_fetch_add(endpoint, &place, all->base + 8, all->key, 1, 7), 0);
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, 7);
	assert_int_equal(completion.status, 0);
	assert_true(*value == UINT64_C(0x1122334455667788));
	assert_true(*word == UINT64_C(0x1122334455667789));
	/* It wraps, and nothing is carried into the next word. */
	assert_int_equal(fabric_fetch_add(endpoint, &place, all->base + 8, all->key,
					  (uint64_t)0 - *word, FABRIC_CONTEXT_MAX),
			 0);
	assert_int_equal(await_completion(client->queue).status, 0);
	assert_true(*word == 0);
	assert_true(word[1] == 0 && word[-1] == 0);

	*word = 5;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fabric_compare_swap(endpoint, &place, all->base + 8, all->key, 5,
						     UINT64_MAX, i),
				 0);
		assert_int_equal(await_completion(client->queue).status, 0);
		assert_true(*value == (i == 0 ? 5 : UINT64_MAX));
		assert_true(*word == UINT64_MAX);
	}
	fabric_endpoint_close(endpoint);
	free(value);
}

static void starts_nothing_that_cannot_be(void **state)
{
	struct client *client = *state;
	const struct fabric_memory *all = &client->target.all;
	struct fabric_endpoint *endpoint;
	struct fabric_completion completion;
	struct fabric_piece place, bad;
	uint64_t *value;

	require_atomics(client);
	value = (uint64_t *)allocate(sizeof(*value));
	place = place_for(client->fabric, value);
	endpoint = client_connect(client);
	assert_int_equal(fabric_fetch_add(endpoint, &place, all->base + 4, all->key, 1, 1),
			 -EINVAL);
	assert_int_equal(fabric_compare_swap(endpoint, &place, all->base + 4, all->key, 1, 1, 1),
			 -EINVAL);
	assert_int_equal(
		fabric_fetch_add(endpoint, &place, all->base, all->key, 1, FABRIC_CONTEXT_MAX + 1),
		-EINVAL);
	bad = place;
	bad.length = 4;
	assert_int_equal(fabric_fetch_add(endpoint, &bad, all->base, all->key, 1, 1), -EINVAL);
	bad = place;
	bad.descriptor = NULL;
	assert_int_equal(fabric_fetch_add(endpoint, &bad, all->base, all->key, 1, 1), -EINVAL);
	assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	fabric_endpoint_close(endpoint);
	free(value);
}

/* The connection ends, and the word is as it was. */
static void expect_refused(struct client *client, uint64_t remote, uint64_t key, bool is_swap)
{
	struct fabric_endpoint *endpoint = client_connect(client);
	uint64_t *value = (uint64_t *)allocate(sizeof(*value));
	struct fabric_piece place = place_for(client->fabric, value);

	memset(client->target.data, 0, 8192);
	if (is_swap)
		assert_int_equal(fabric_compare_swap(endpoint, &place, remote, key, 0, 1, 1), 0);
	else
		assert_int_equal(fabric_fetch_add(endpoint, &place, remote, key, 1, 1), 0);
	assert_true(await_completion(client->queue).status < 0);
	for (unsigned i = 0; i < 8192; i++)
		assert_int_equal(client->target.data[i], 0);
	fabric_endpoint_close(endpoint);
	free(value);
}

static void refuses_what_is_not_lent(void **state)
{
	struct client *client = *state;
	const struct target *target = &client->target;

	require_atomics(client);
	for (int is_swap = 0; is_swap < 2; is_swap++) {
		expect_refused(client, target->read_only.base, target->read_only.key, is_swap);
		expect_refused(client, target->small.base + 4096, target->small.key, is_swap);
		expect_refused(client, target->small.base - 8, target->small.key, is_swap);
		expect_refused(client, target->all.base, target->all.key ^ 0x5a5a00, is_swap);
	}
}

/* More than a NIC does at once, each with its own value. */
static void keeps_many_in_flight(void **state)
{
	struct client *client = *state;
	const struct fabric_memory *all = &client->target.all;
	uint64_t *values, sum = 0;
	struct fabric_endpoint *endpoint;
	struct fabric_piece place;

	require_atomics(client);
	values = (uint64_t *)allocate(DEPTH * sizeof(*values));
	place = (struct fabric_piece){
		.length = sizeof(*values),
		.descriptor = descriptor_of(client->fabric, values, DEPTH * sizeof(*values))};
	endpoint = client_connect(client);
	memset(client->target.data, 0, 8);
	for (unsigned i = 0; i < DEPTH; i++) {
		place.addr = &values[i];
		assert_int_equal(fabric_fetch_add(endpoint, &place, all->base, all->key, 1, i), 0);
	}
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(await_completion(client->queue).status, 0);
	for (unsigned i = 0; i < DEPTH; i++)
		sum += values[i];
	assert_int_equal(sum, DEPTH * (DEPTH - 1) / 2);
	assert_int_equal(*(uint64_t *)client->target.data, DEPTH);
	fabric_endpoint_close(endpoint);
	free(values);
}

/* ---- Several at once */

struct adder {
	struct client *client;
	pthread_t thread;
	uint64_t sum; /* of what it found */
	bool is_well;
};

static bool add_rounds(struct adder *adder, struct fabric_queue *queue,
		       struct fabric_endpoint *endpoint, uint64_t *value)
{
	const struct fabric_memory *all = &adder->client->target.all;
	struct fabric_piece place = place_for(queue->fabric, value);

	for (unsigned i = 0; i < NR_ROUNDS; i++) {
		if (fabric_fetch_add(endpoint, &place, all->base, all->key, 1, i) != 0 ||
		    await_completion(queue).status != 0)
			return false;
		adder->sum += *value;
	}
	return true;
}

static void *run_adder(void *argument)
{
	struct adder *adder = argument;
	struct client *client = adder->client;
	struct fabric_endpoint *endpoint;
	struct fabric_queue *queue;
	uint64_t *value = malloc(sizeof(*value));

	if (value == NULL || fabric_queue_open(client->fabric, 1, &queue) != 0)
		return NULL;
	endpoint = connect_to(queue, client->target.listener->address);
	adder->is_well = add_rounds(adder, queue, endpoint, value);
	fabric_endpoint_close(endpoint);
	fabric_queue_close(queue);
	free(value);
	return NULL;
}

static void are_atomic_against_each_other(void **state)
{
	const uint64_t nr = NR_THREADS * NR_ROUNDS;
	struct client *client = *state;
	struct adder adders[NR_THREADS];
	uint64_t sum = 0;

	require_atomics(client);
	memset(client->target.data, 0, 8);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		adders[i] = (struct adder){.client = client};
		assert_int_equal(pthread_create(&adders[i].thread, NULL, run_adder, &adders[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(adders[i].thread, NULL);
		assert_true(adders[i].is_well);
		sum += adders[i].sum;
	}
	/* Each value was found once. */
	assert_true(*(uint64_t *)client->target.data == nr);
	assert_true(sum == nr * (nr - 1) / 2);
}

TEST_GROUP(fabric_atomics)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(has_them_or_says_so),
		WITH_TARGET(adds_and_swaps),
		WITH_TARGET(starts_nothing_that_cannot_be),
		WITH_TARGET(refuses_what_is_not_lent),
		WITH_TARGET(keeps_many_in_flight),
		WITH_TARGET(are_atomic_against_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
