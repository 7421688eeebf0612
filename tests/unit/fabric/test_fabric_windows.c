/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows on the memory that a peer of this machine lends: what they show. Nobody is told of their end while
 * somebody is at one. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/epoch.h"
#include "fabric/mapped.h"
#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "unit/group.h"

/* Memory, and a connection to who lends it, both ends of which are the test's. */
struct loan {
	struct target other;
	struct fabric_endpoint *ours, *theirs;
};

static void serve(struct loan *loan)
{
	struct fabric_completion completion;

	assert_int_equal(fabric_queue_poll(loan->other.queue, &completion, 1), 0);
	assert_int_equal(fabric_queue_poll(loan->ours->queue, &completion, 1), 0);
}

static struct fabric_window take_window(struct loan *loan, const struct fabric_memory *memory)
{
	struct fabric_window window;
	int status;

	while ((status = fabric_prepare(loan->ours, memory->key)) == -EAGAIN)
		serve(loan);
	assert_int_equal(status, 0);
	assert_int_equal(fabric_window(loan->ours, memory->key, &window), 0);
	assert_int_equal(window.length, LENT);
	return window;
}

static bool is_open(const struct fabric_window *window)
{
	bool is_open;

	epoch_enter();
	is_open = fabric_gate_is_open(window->gate);
	epoch_exit();
	return is_open;
}

static void open_loan(struct client *client, struct loan *loan)
{
	target_open(&loan->other, any_port());
	connect_pair(client, &loan->other, &loan->ours, &loan->theirs);
}

static void close_loan(struct loan *loan)
{
	if (loan->theirs)
		fabric_endpoint_close(loan->theirs);
	if (loan->ours)
		fabric_endpoint_close(loan->ours);
	target_close(&loan->other);
}

static void shows_the_memory_itself(void **state)
{
	struct fabric_window window, narrow;
	struct loan loan;

	open_loan(*state, &loan);
	assert_int_equal(fabric_window(loan.ours, loan.other.all.key, &window), -EAGAIN);
	window = take_window(&loan, &loan.other.all);
	narrow = take_window(&loan, &loan.other.read_only);
	assert_int_equal(window.access, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE);
	assert_int_equal(narrow.access, FABRIC_REMOTE_READ);
	window.addr[LENT - 1] = 0x5a;
	assert_int_equal(loan.other.data[LENT - 1], 0x5a);
	loan.other.data[17] = 0x77;
	assert_int_equal(window.addr[17], 0x77);
	assert_int_equal(narrow.addr[17], 0x77);
	assert_true(is_open(&window));
	assert_true(is_open(&narrow));
	fabric_gate_drop(window.gate);
	fabric_gate_drop(narrow.gate);
	close_loan(&loan);
}

/* With any key of the connection: which of them it was is for a new window to say. */
static void shuts_when_a_key_ends(void **state)
{
	struct fabric_window window, again;
	struct loan loan;

	open_loan(*state, &loan);
	take_window(&loan, &loan.other.read_only);
	window = take_window(&loan, &loan.other.all);
	assert_false(fabric_memory_deregister(&loan.other.read_only));
	assert_false(is_open(&window)); /* at once, whether it is heard or not */
	again = take_window(&loan, &loan.other.all);
	assert_true(is_open(&again));
	assert_false(is_open(&window));
	assert_false(fabric_memory_deregister(&loan.other.all));
	assert_false(is_open(&again));
	assert_int_equal(fabric_window(loan.ours, loan.other.all.key, &again), -EAGAIN);
	fabric_gate_drop(window.gate);
	fabric_gate_drop(window.gate); /* that of the first key was the same */
	fabric_gate_drop(again.gate);
	close_loan(&loan);
}

static void shuts_when_a_peer_ends(void **state)
{
	struct fabric_window window;
	struct loan loan;

	for (unsigned i = 0; i < 2; i++) {
		open_loan(*state, &loan);
		window = take_window(&loan, &loan.other.all);
		if (i == 0) {
			fabric_endpoint_close(loan.theirs);
			loan.theirs = NULL;
		} else {
			assert_true(fabric_endpoint_end(loan.theirs));
		}
		assert_false(is_open(&window));
		await_closed(loan.ours, -ECONNRESET);
		assert_int_equal(fabric_window(loan.ours, loan.other.all.key, &window), -ENOTCONN);
		assert_false(is_open(&window));
		fabric_gate_drop(window.gate);
		close_loan(&loan);
	}
}

struct looker {
	struct loan loan;
	struct fabric_window window;
	sem_t is_looking;
	bool ends_key; /* else the connection */
	bool was_told; /* the peer, while it looked */
};

/* Is at the window until that is shut, and is not disturbed. */
static void *look(void *argument)
{
	struct looker *looker = argument;
	struct fabric_event event;

	epoch_enter();
	sem_post(&looker->is_looking);
	while (fabric_gate_is_open(looker->window.gate))
		;
	/* Nothing is awaited here but that nothing comes. */
	for (unsigned i = 0; i < 1000 && !looker->was_told; i++) {
		looker->window.addr[i] = (uint8_t)i;
		looker->was_told = !looker->ends_key &&
				   fabric_queue_event(looker->loan.other.queue, &event) == 1;
	}
	epoch_exit();
	return NULL;
}

/* Our end lets go, while a thread is in the middle of a copy. Its peer must not hear that before the copy ends, and
 * the memory must be there as long. */
static void is_there_as_long_as_it_is_held(void **state)
{
	struct looker looker = {.ends_key = false};
	struct fabric_completion completion;
	pthread_t thread;

	for (unsigned i = 0; i < 2; i++) {
		looker.ends_key = i == 1;
		open_loan(*state, &looker.loan);
		looker.window = take_window(&looker.loan, &looker.loan.other.all);
		sem_init(&looker.is_looking, 0, 0);
		assert_int_equal(pthread_create(&thread, NULL, look, &looker), 0);
		sem_wait(&looker.is_looking);
		if (looker.ends_key) {
			assert_false(fabric_memory_deregister(&looker.loan.other.all));
			/* Hears it, and unmaps. */
			assert_int_equal(fabric_window(looker.loan.ours, 1, &looker.window),
					 -EAGAIN);
		} else {
			fabric_endpoint_close(looker.loan.ours);
			looker.loan.ours = NULL;
		}
		pthread_join(thread, NULL);
		assert_false(looker.was_told);
		for (unsigned j = 0; j < 1000; j++)
			assert_int_equal(looker.loan.other.data[j], (uint8_t)j);
		if (!looker.ends_key) {
			await_closed(looker.loan.theirs, -ECONNRESET);
			assert_int_equal(fabric_queue_poll(looker.loan.other.queue, &completion, 1),
					 0);
		}
		fabric_gate_drop(looker.window.gate);
		sem_destroy(&looker.is_looking);
		close_loan(&looker.loan);
	}
}

/* The peer ends the connection while somebody is inside, and hears that he has left, though nobody polls our end. */
static void waits_for_who_is_inside(void **state)
{
	struct fabric_window window;
	struct fabric_event event;
	struct loan loan;

	open_loan(*state, &loan);
	window = take_window(&loan, &loan.other.all);
	epoch_enter();
	assert_true(fabric_gate_enter(window.gate));
	assert_true(fabric_gate_enter(window.gate)); /* as another thread would */
	epoch_exit();
	assert_true(fabric_endpoint_end(loan.theirs));
	/* Nothing is awaited here but that nothing comes. */
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(fabric_queue_event(loan.other.queue, &event), 0);
	epoch_enter();
	assert_false(fabric_gate_enter(window.gate));
	assert_false(fabric_gate_leave(window.gate));
	epoch_exit();
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(fabric_queue_event(loan.other.queue, &event), 0);
	epoch_enter();
	window.addr[0] = 1;
	assert_false(fabric_gate_leave(window.gate));
	epoch_exit();
	await_closed(loan.theirs, -ECONNRESET);
	await_closed(loan.ours, -ECONNRESET);
	fabric_gate_drop(window.gate);
	close_loan(&loan);
}

TEST_GROUP(fabric_windows)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shows_the_memory_itself, client_setup,
						client_teardown),
		cmocka_unit_test_setup_teardown(shuts_when_a_key_ends, client_setup,
						client_teardown),
		cmocka_unit_test_setup_teardown(shuts_when_a_peer_ends, client_setup,
						client_teardown),
		cmocka_unit_test_setup_teardown(waits_for_who_is_inside, client_setup,
						client_teardown),
		cmocka_unit_test_setup_teardown(is_there_as_long_as_it_is_held, client_setup,
						client_teardown),
	};

	setenv("AFAR_TEST_TRANSPORT", "local", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
