/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client and a server that replies as it should not: with what nobody asked for, to somebody else, too short.
 * First the box of messages, over tcp against a plain socket, then a queue: the connection ends, and nothing is
 * touched.
 */
#include "lib/client/fake_fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/tcp_peer.h"
#include "unit/group.h"

#define CONTEXT 0x500U

/* ---- The box */

struct talk {
	struct liar liar;
	struct message_box box;
	int owner;
};

static void talk_open(struct talk *talk, struct client *client)
{
	memset(talk, 0, sizeof(*talk));
	liar_join(&talk->liar, client);
	assert_int_equal(message_box_open(&talk->box, client->fabric->domain), 0);
	message_box_reset(&talk->box, CONTEXT);
}

static void talk_close(struct talk *talk)
{
	liar_close(&talk->liar);
	message_box_close(&talk->box);
}

/* Sends a request, which the liar hears. Returns its tag. */
static uint32_t ask(struct talk *talk)
{
	const struct message_request request = {.kind = MESSAGE_FETCH_ADD, .operand = 1};
	struct {
		uint8_t frame[TCP_FRAME_SHORT];
		struct message_request request;
	} heard;

	assert_int_equal(message_send(&talk->box, talk->liar.endpoint, &request, &talk->owner), 0);
	assert_true(hear(talk->liar.fd, &heard, TCP_FRAME_SHORT + MESSAGE_ATOMIC_BYTES));
	return le32toh(heard.request.tag);
}

static void answer(struct talk *talk, struct message_reply reply, size_t length)
{
	const struct tcp_frame frame = frame_of(TCP_MESSAGE, 0, 0, length);

	reply = (struct message_reply){.tag = htole32(reply.tag),
				       .status = (int32_t)htole32((uint32_t)reply.status),
				       .value = htole64(reply.value)};
	say(talk->liar.fd, &frame, TCP_FRAME_SHORT);
	say(talk->liar.fd, &reply, length);
}

/* Awaits the ends of what is sent and of what has come. */
static int complete_both(struct talk *talk, struct message_slot **slot)
{
	struct fabric_completion completion;
	int status = 0;

	for (unsigned i = 0; i < 2 && status == 0; i++) {
		completion = await_completion(talk->liar.client->queue);
		assert_int_equal(completion.status, 0);
		status = message_complete(&talk->box, completion.context, slot);
	}
	return status;
}

static void expect_taken(struct talk *talk, int expected, uint64_t expected_value)
{
	struct message_slot *slot;
	uint64_t value = 77;

	assert_int_equal(complete_both(talk, &slot), 0);
	assert_non_null(slot);
	assert_ptr_equal(slot->owner, &talk->owner);
	assert_int_equal(message_take(&talk->box, slot, &value), expected);
	assert_int_equal(value, expected_value);
}

static void takes_proper_replies_only(void **state)
{
	struct talk talk;
	uint32_t tag;

	talk_open(&talk, *state);
	tag = ask(&talk);
	answer(&talk, (struct message_reply){tag, 0, 5}, sizeof(struct message_reply));
	expect_taken(&talk, 0, 5);
	tag = ask(&talk);
	answer(&talk, (struct message_reply){tag + 1, 0, 5}, sizeof(struct message_reply));
	expect_taken(&talk, -AFAR_EMALFORMED, 77);
	tag = ask(&talk);
	answer(&talk, (struct message_reply){tag, 1, 5}, sizeof(struct message_reply));
	expect_taken(&talk, -AFAR_EMALFORMED, 77);
	/* The tag alone, and nothing. */
	tag = ask(&talk);
	answer(&talk, (struct message_reply){.tag = tag}, sizeof(tag));
	expect_taken(&talk, -AFAR_EMALFORMED, 77);
	ask(&talk);
	answer(&talk, (struct message_reply){0}, 0);
	expect_taken(&talk, -AFAR_EMALFORMED, 77);
	talk_close(&talk);
}

/* Its place is ready, but there was no room for the request. */
static void disbelieves_replies_to_nothing(void **state)
{
	const struct message_request request = {.kind = MESSAGE_FETCH_ADD};
	struct client *client = *state;
	struct fabric_completion completion;
	struct message_slot *slot;
	struct talk talk;
	uint8_t mine[8];

	talk_open(&talk, client);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(start_one(talk.liar.endpoint, false, mine, sizeof(mine),
					   &client->target.all, 0, i),
				 0);
	assert_int_equal(message_send(&talk.box, talk.liar.endpoint, &request, &talk.owner),
			 -EAGAIN);
	answer(&talk, (struct message_reply){0}, sizeof(struct message_reply));
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, CONTEXT);
	assert_int_equal(completion.status, 0);
	assert_int_equal(message_complete(&talk.box, completion.context, &slot), -AFAR_EMALFORMED);
	assert_null(slot);
	talk_close(&talk);
}

/* ---- A queue */

static struct afar_target *target;
static uint64_t word;

static void queue_setup(void)
{
	fake_open(8, false);
	world.operands = (char *)&word;
	word = 0xbb;
	target = fake_target(0, 1);
	fake_connect(0);
}

static void queue_end(void)
{
	fake_close();
	fake_target_free(target);
}

static void submit(uint16_t opcode)
{
	static struct afar_iov iov = {.addr = &word, .length = sizeof(word)};
	const struct afar_op op = {
		.opcode = opcode, .target = target, .iov = &iov, .nr_iov = 1, .user_data = opcode};

	assert_int_equal(afar_queue_submit(world.queue, &op, 1), 1);
}

static void expect_result(uint16_t opcode, int64_t result)
{
	struct afar_completion completion;

	assert_int_equal(afar_queue_wait_one(world.queue, opcode, &completion, 0), 0);
	assert_int_equal(completion.result, result);
}

/* Nothing is posted on it any more, and nobody's memory has changed. */
static void expect_end_of_path(void)
{
	assert_null(world.queue->paths[0]->lanes[0].endpoint);
	assert_int_equal(world.queue->paths[0]->state, PATH_DOWN);
	assert_int_equal(world.nr_transfers, 0);
	assert_int_equal(word, 0xbb);
}

static void a_wrong_reply_costs_the_connection(void **state)
{
	(void)state;
	queue_setup();
	submit(AFAR_OP_FETCH_ADD);
	submit(AFAR_OP_WRITE);
	*world.transfers[0].reply = (struct message_reply){
		.tag = world.transfers[0].request->tag ^ htole32(1), .value = htole64(5)};
	world.completion = (struct fabric_completion){world.transfers[0].context, 0};
	world.nr_completions = 2;
	while (world.nr_completions)
		queue_progress(world.queue);
	expect_end_of_path();
	expect_result(AFAR_OP_FETCH_ADD, -AFAR_EMALFORMED);
	expect_result(AFAR_OP_WRITE, -AFAR_ESERVER);
	/* The next connection starts anew. */
	fake_connect(0);
	submit(AFAR_OP_FETCH_ADD);
	fake_complete(0, 0);
	expect_result(AFAR_OP_FETCH_ADD, sizeof(word));
	queue_end();
}

static void a_reply_to_nothing_costs_the_connection(void **state)
{
	(void)state;
	queue_setup();
	submit(AFAR_OP_WRITE);
	world.post_error = -EAGAIN;
	submit(AFAR_OP_FETCH_ADD);
	world.completion = (struct fabric_completion){world.queue->paths[0]->messages.context, 0};
	world.nr_completions = 1;
	queue_progress(world.queue);
	expect_end_of_path();
	expect_result(AFAR_OP_WRITE, -AFAR_ESERVER);
	expect_result(AFAR_OP_FETCH_ADD, -AFAR_ESERVER);
	queue_end();
}

TEST_GROUP(client_messages)
{
#define WITH_CLIENT(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_CLIENT(takes_proper_replies_only),
		WITH_CLIENT(disbelieves_replies_to_nothing),
		cmocka_unit_test(a_wrong_reply_costs_the_connection),
		cmocka_unit_test(a_reply_to_nothing_costs_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
