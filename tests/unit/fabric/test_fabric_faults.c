/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Local memory that is not there, or may not be used so, under a transfer over tcp. The error is that transfer's,
 * told before all else that ends with the connection, and no other connection's trouble.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "lib/fabric/fabric_fixture.h"
#include "unit/group.h"

#define NR_WORDS   8U
#define WORD_BYTES 64U
#define PAGE	   4096U
#define GOOD_BYTES (16U * PAGE) /* what comes with a header is copied: less than this */
#define ALL_BYTES  (1U << 20)

struct trial {
	struct client *client;
	struct fabric_endpoint *endpoint, *bystander;
	uint8_t *mine;
	uint8_t *bad; /* GOOD_BYTES that may be used, and more that may not, ALL_BYTES together */
};

static void trial_open(struct trial *trial, struct client *client, int protection)
{
	trial->client = client;
	trial->endpoint = client_connect(client);
	trial->bystander = client_connect(client);
	trial->mine = allocate(NR_WORDS * WORD_BYTES);
	trial->bad = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	assert_ptr_not_equal(trial->bad, MAP_FAILED);
	assert_int_equal(mprotect(trial->bad + GOOD_BYTES, ALL_BYTES - GOOD_BYTES, protection), 0);
}

static void trial_close(struct trial *trial)
{
	uint8_t word[WORD_BYTES];

	/* The bystander had no part in it and goes on, and so does the target. */
	fill(word, WORD_BYTES, 9);
	transfer_one(trial->bystander, true, word, WORD_BYTES, &trial->client->target.all, 0);
	fabric_endpoint_close(trial->endpoint);
	trial->endpoint = client_connect(trial->client);
	transfer_one(trial->endpoint, false, trial->mine, WORD_BYTES, &trial->client->target.all,
		     0);
	assert_memory_equal(trial->mine, word, WORD_BYTES);
	fabric_endpoint_close(trial->endpoint);
	fabric_endpoint_close(trial->bystander);
	free(trial->mine);
	munmap(trial->bad, ALL_BYTES);
}

/* Starts words that are all right, but for number `at_fault`. A long one goes out at once: its fault may be found before
 * the next is started. Returns how many were. */
static unsigned start_words(struct trial *trial, bool is_write, unsigned at_fault, uint8_t *bad,
			    size_t length)
{
	const struct fabric_memory *all = &trial->client->target.all;
	unsigned nr;

	fabric_queue_hold(trial->client->queue);
	for (nr = 0; nr < NR_WORDS; nr++) {
		uint8_t *word = trial->mine + (size_t)nr * WORD_BYTES;
		int status = start_one(trial->endpoint, is_write, nr == at_fault ? bad : word,
				       nr == at_fault ? length : WORD_BYTES, all, 2 * MIB, nr);

		if (status == -ENOTCONN && nr > at_fault)
			break;
		assert_int_equal(status, 0);
	}
	fabric_queue_release(trial->client->queue);
	return nr;
}

static void expect_fault(struct trial *trial, unsigned nr, unsigned at_fault)
{
	bool is_told = false, was_told[NR_WORDS] = {false};

	for (unsigned i = 0; i < nr; i++) {
		struct fabric_completion completion = await_completion(trial->client->queue);

		assert_true(completion.context < nr);
		assert_false(was_told[completion.context]);
		was_told[completion.context] = true;
		if (completion.context == at_fault) {
			assert_int_equal(completion.status, -EFAULT);
			is_told = true;
		} else {
			assert_int_equal(completion.status, is_told ? -ECONNRESET : 0);
			assert_true(is_told || completion.context < at_fault);
		}
	}
	assert_true(is_told);
	await_closed(trial->endpoint, -ECONNRESET);
}

static void writes_from_nowhere(void **state)
{
	static const size_t lengths[] = {1, PAGE, ALL_BYTES - GOOD_BYTES};
	struct trial trial;
	unsigned nr;

	for (unsigned i = 0; i < 3; i++)
		for (unsigned at_fault = 0; at_fault < NR_WORDS; at_fault += 3) {
			trial_open(&trial, *state, PROT_NONE);
			nr = start_words(&trial, true, at_fault, trial.bad + GOOD_BYTES,
					 lengths[i]);
			expect_fault(&trial, nr, at_fault);
			trial_close(&trial);
		}
}

/* The half that is there has gone when the rest turns out not to be. */
static void writes_from_half_of_nowhere(void **state)
{
	struct trial trial;
	unsigned nr;

	trial_open(&trial, *state, PROT_NONE);
	nr = start_words(&trial, true, 2, trial.bad, ALL_BYTES);
	expect_fault(&trial, nr, 2);
	trial_close(&trial);
}

static void reads_into_what_may_not_be_written(void **state)
{
	struct trial trial;
	unsigned nr;

	for (unsigned at_fault = 0; at_fault < NR_WORDS; at_fault += 3) {
		trial_open(&trial, *state, PROT_READ);
		nr = start_words(&trial, false, at_fault, trial.bad, ALL_BYTES);
		expect_fault(&trial, nr, at_fault);
		trial_close(&trial);
	}
}

TEST_GROUP(fabric_faults)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(writes_from_nowhere),
		WITH_TARGET(writes_from_half_of_nowhere),
		WITH_TARGET(reads_into_what_may_not_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
