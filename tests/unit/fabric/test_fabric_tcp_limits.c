/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport tcp limits what it spends on peers, strangers and its other end. Everything else has its turn,
 * memory is bounded, and both ends never wait for each other. And frames come in parts. Here the test makes the
 * target progress, step by step.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/tcp_peer.h"
#include "unit/group.h"

#define PASS_BYTES   ((UINT64_C(1025) << 10) + 64) /* a MiB with its sums and its header */
#define READ_BYTES   (64U << 10)
#define NR_READS     200U
#define NR_STRANGERS 300U
#define WORD_BYTES   32U
#define NR_CROWD     40U
#define NR_AT_ONCE   4U
#define NR_QUIET     3U
#define NR_QUESTIONS 30U
#define ROUND_POLLS  4U
#define LARGE	     (8 * MIB)
#define WINDOW_BYTES (64 << 10) /* that a socket takes in */

static const struct fabric_patience endless = {
	.silence_ms = UINT32_MAX, .nr_per_host = UINT32_MAX, .crowd_ms = UINT32_MAX};

static int target_setup(void **state)
{
	struct target *target = calloc(1, sizeof(*target));

	assert_non_null(target);
	target_open(target, any_port());
	*state = target;
	return 0;
}

static int target_teardown(void **state)
{
	target_close(*state);
	free(*state);
	return 0;
}

/* ---- Polling */

static void poll_once(struct target *target)
{
	struct fabric_completion completion;

	assert_int_equal(fabric_queue_poll(target->queue, &completion, 1), 0);
}

/* ---- A frame that comes in two parts */

/* Has the target take in all that a peer says. Returns how many completions that has brought. */
static unsigned take_in(struct target *target, int fd, const uint8_t *said, size_t length)
{
	const uint64_t bytes_in = counter_get(&target->queue->bytes_in) + length;
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	unsigned nr = 0;

	say(fd, said, length);
	while (counter_get(&target->queue->bytes_in) < bytes_in) {
		assert_true(clock_ns() < deadline);
		nr += (unsigned)fabric_queue_poll(target->queue, &completion, 1);
	}
	return nr + (unsigned)fabric_queue_poll(target->queue, &completion, 1);
}

/* Wherever it is cut, nothing is done before all of it is there. */
static void waits_for_all_of_a_frame(void **state)
{
	static const uint32_t types[] = {TCP_READ, TCP_WRITE, TCP_MESSAGE};
	struct target *target = *state;
	uint8_t frame[sizeof(struct tcp_frame) + WORD_BYTES], back[WORD_BYTES], *inbox;
	struct fabric_endpoint *endpoint;
	int fd = accept_peer(target, &endpoint);

	inbox = target->data + WORD_BYTES;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct tcp_frame head = frame_of(types[i], target->all.key, 0, WORD_BYTES);
		const size_t header = tcp_frame_bytes(types[i]);
		const size_t length = header + (types[i] == TCP_READ ? 0 : WORD_BYTES);
		struct fabric_piece piece = {inbox, WORD_BYTES, NULL};

		memcpy(frame, &head, header);
		for (size_t first = 1; first < length; first++) {
			const bool is_message = types[i] == TCP_MESSAGE;

			memset(frame + header, (int)first, WORD_BYTES);
			if (is_message)
				assert_int_equal(fabric_receive(endpoint, &piece, first), 0);
			assert_int_equal(take_in(target, fd, frame, first), 0);
			assert_true(recv(fd, back, 1, MSG_DONTWAIT) < 0);
			assert_int_equal(take_in(target, fd, frame + first, length - first),
					 is_message);
			if (!is_message)
				expect_reply(fd,
					     types[i] == TCP_READ ? TCP_READ_REPLY : TCP_WRITE_ACK,
					     WORD_BYTES);
			if (types[i] == TCP_READ)
				assert_true(hear(fd, back, WORD_BYTES));
			assert_memory_equal(types[i] == TCP_READ ? back : frame + header,
					    is_message ? inbox : target->data, WORD_BYTES);
		}
	}
	fabric_endpoint_close(endpoint);
	close(fd);
}

/* ---- A peer that asks for more than it takes */

/* However much it asks for, and however much its socket would hold: others have their turn. */
static void sends_so_much_at_a_time(void **state)
{
	struct target *target = *state;
	struct tcp_frame frames[NR_READS];
	struct fabric_endpoint *endpoint;
	const struct tcp_endpoint *inside;
	uint64_t sent;
	int fd = accept_peer(target, &endpoint);

	for (unsigned i = 0; i < NR_READS; i++)
		frames[i] = frame_of(TCP_READ, target->all.key, i, READ_BYTES);
	say(fd, frames, sizeof(frames));
	inside = tcp_container(endpoint, struct tcp_endpoint);
	while (inside->nr_replies == 0)
		poll_once(target);
	sent = inside->out_next * (uint64_t)(TCP_FRAME_SHORT + READ_BYTES) + inside->out_sent;
	assert_true(sent > 0);
	assert_true(sent <= PASS_BYTES);
	fabric_endpoint_close(endpoint);
	close(fd);
}

/* Gets what it asked for all the same: the target is awake as long as it can go on. */
static void serves_who_asks_for_much_at_once(void **state)
{
	struct pollfd ready[2] = {{.events = POLLIN}, {.events = POLLIN}};
	struct target *target = *state;
	const size_t expected = NR_READS * (size_t)(TCP_FRAME_SHORT + READ_BYTES);
	static uint8_t back[NR_READS * (TCP_FRAME_SHORT + READ_BYTES)];
	struct tcp_frame frames[NR_READS];
	struct fabric_endpoint *endpoint;
	size_t nr_heard = 0;
	ssize_t nr;

	fill(target->data, LENT, 5);
	ready[0].fd = accept_peer(target, &endpoint);
	ready[1].fd = fabric_queue_fd(target->queue);
	for (unsigned i = 0; i < NR_READS; i++)
		frames[i] = frame_of(TCP_READ, target->all.key, i, READ_BYTES);
	say(ready[0].fd, frames, sizeof(frames));
	while (nr_heard < expected) {
		poll_once(target);
		nr = recv(ready[0].fd, back + nr_heard, expected - nr_heard, MSG_DONTWAIT);
		nr_heard += nr > 0 ? (size_t)nr : 0;
		if (nr <= 0 && fabric_queue_arm(target->queue) == 0)
			assert_true(poll(ready, 2, GRACE_MS) > 0);
	}
	for (unsigned i = 0; i < NR_READS; i++)
		assert_memory_equal(back + i * (TCP_FRAME_SHORT + READ_BYTES) + TCP_FRAME_SHORT,
				    target->data + i, READ_BYTES);
	fabric_endpoint_close(endpoint);
	close(ready[0].fd);
}

/* The target owes so many replies to a peer that takes nothing, and nobody is kept awake by it. */
static void owes_so_much(void **state)
{
	struct target *target = *state;
	struct pollfd ready = {.fd = fabric_queue_fd(target->queue), .events = POLLIN};
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_endpoint *endpoint;
	const struct tcp_endpoint *inside;
	struct tcp_frame frames[NR_READS];
	bool is_asleep = false;
	int fd = accept_peer(target, &endpoint);
	ssize_t nr;

	inside = tcp_container(endpoint, struct tcp_endpoint);
	for (unsigned i = 0; i < NR_READS; i++)
		frames[i] = frame_of(TCP_READ, target->all.key, i, 8 * MIB);
	do {
		nr = send(fd, frames, sizeof(frames), MSG_DONTWAIT | MSG_NOSIGNAL);
		assert_true(nr > 0 || errno == EAGAIN);
		poll_once(target);
		assert_true(inside->nr_replies <= TCP_REPLIES_MAX);
		is_asleep = fabric_queue_arm(target->queue) == 0 && poll(&ready, 1, 0) == 0;
		assert_true(clock_ns() < deadline);
	} while (nr > 0 || !is_asleep);
	assert_int_equal(inside->nr_replies, TCP_REPLIES_MAX);
	close(fd);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
}

/* ---- Strangers */

/* A listener looks at so many of a burst in one call, and at the rest later. */
static void looks_at_so_many_strangers(void **state)
{
	struct target *target = *state;
	struct pollfd ready = {.fd = fabric_listener_fd(target->listener), .events = POLLIN};
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_request request;
	int strangers[NR_STRANGERS];

	for (unsigned i = 0; i < NR_STRANGERS; i++) {
		strangers[i] = open_peer(target->listener->address);
		say(strangers[i], "x", 1);
	}
	assert_int_equal(fabric_listener_next(target->listener, &request), -EAGAIN);
	assert_true(fabric_listener_sweep(target->listener, &endless) < NR_STRANGERS);
	assert_int_equal(poll(&ready, 1, 0), 1);
	while (fabric_listener_sweep(target->listener, &endless) < NR_STRANGERS) {
		assert_int_equal(fabric_listener_next(target->listener, &request), -EAGAIN);
		assert_true(clock_ns() < deadline);
	}
	for (unsigned i = 0; i < NR_STRANGERS; i++)
		close(strangers[i]);
}

/* Without descriptors it sleeps, and goes on by itself when there are some. */
static void waits_for_descriptors(void **state)
{
	struct target *target = *state;
	struct pollfd ready = {.fd = fabric_listener_fd(target->listener), .events = POLLIN};
	const struct tcp_hello hello = hello_of(0);
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	int fd = open_peer(target->listener->address), status;
	struct fabric_request request;
	struct rlimit before, none;

	say(fd, &hello, TCP_HELLO_HEAD);
	assert_int_equal(poll(&ready, 1, GRACE_MS), 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = STDERR_FILENO + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	status = fabric_listener_next(target->listener, &request);
	while (poll(&ready, 1, 0) == 1 && clock_ns() < deadline)
		status = fabric_listener_next(target->listener, &request);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(clock_ns() < deadline);
	assert_int_equal(status, -EMFILE);
	assert_non_null(strstr(afar_last_error(), target->listener->address));

	assert_int_equal(poll(&ready, 1, GRACE_MS), 1);
	await_request(target->listener, &request);
	fabric_reject(target->listener, &request);
	expect_end(fd);
}

/* ---- Both ends at once */

/* One end of a connection, which does to the other end what that does to it. */
struct end {
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint;
	const struct fabric_memory
		*memory;      /* of the other end: read from the front, written behind */
	uint8_t *got, *given; /* LARGE and MIB bytes */
	uint8_t words[2 * FABRIC_RECEIVE_MAX][WORD_BYTES];
	unsigned nr_left; /* completions */
};

static int post_message(struct end *end, unsigned i)
{
	struct fabric_piece out = {end->words[i], WORD_BYTES, NULL};
	struct fabric_piece in = {end->words[FABRIC_RECEIVE_MAX + i], WORD_BYTES, NULL};

	assert_int_equal(fabric_receive(end->endpoint, &in, i), 0);
	end->nr_left++;
	return fabric_send(end->endpoint, &out, i);
}

/* Reads alone, or in turn with writes and, every sixteenth, a message. */
static int post(struct end *end, bool is_mixed, unsigned i)
{
	if (is_mixed && i % 16 == 15)
		return post_message(end, i / 16);
	if (is_mixed && i % 2)
		return start_one(end->endpoint, true, end->given, MIB, end->memory, LARGE, i);
	/* The first reply does not go through for a while: all are owed meanwhile. */
	return start_one(end->endpoint, false, end->got, i == 0 ? LARGE : MIB, end->memory, 0, i);
}

/* Posts as much as there may be. */
static void post_all(struct end *end, bool is_mixed)
{
	end->nr_left = TCP_DEPTH_MAX;
	for (unsigned i = 0; i < TCP_DEPTH_MAX; i++)
		assert_int_equal(post(end, is_mixed, i), 0);
	assert_int_equal(post(end, is_mixed, 0), -EAGAIN);
}

/* A socket takes in less than the other end's holds: room there does not come of looking here once. */
static void narrow(struct fabric_endpoint *endpoint)
{
	const int bytes = WINDOW_BYTES;

	assert_int_equal(setsockopt(tcp_container(endpoint, struct tcp_endpoint)->fd, SOL_SOCKET,
				    SO_RCVBUF, &bytes, sizeof(bytes)),
			 0);
}

/* Pretends that many others have moved something lately. */
static void pretend_crowd(struct end *end)
{
	tcp_container(end->queue, struct tcp_queue)->nr_moved_before = UINT32_MAX;
}

/* Until nothing happens any more. */
static void progress(struct end *end, bool is_in_crowd)
{
	struct fabric_completion completion;

	if (is_in_crowd)
		pretend_crowd(end);
	while (fabric_queue_poll(end->queue, &completion, 1) == 1) {
		assert_int_equal(completion.status, 0);
		assert_true(end->nr_left > 0);
		end->nr_left--;
	}
}

static void sleep_on_both(struct end *ends)
{
	struct pollfd ready[2];

	for (unsigned i = 0; i < 2; i++) {
		if (fabric_queue_arm(ends[i].queue) != 0)
			return;
		ready[i] = (struct pollfd){fabric_queue_fd(ends[i].queue), POLLIN, 0};
	}
	assert_true(poll(ready, 2, GRACE_MS) > 0);
}

/*
 * Each end owes the other as much as can be owed, which is far more than sockets hold. It sleeps when there is
 * nothing to do. Neither may wait until the other has listened before it listens itself.
 */
static void owe_each_other_all_there_can_be(struct client *client, bool is_mixed, bool is_in_crowd)
{
	uint8_t *lent = allocate(LARGE + MIB);
	struct fabric_memory memory;
	struct target other;
	struct end ends[2] = {0};

	target_open(&other, any_port());
	fabric_queue_close(other.queue);
	fabric_queue_close(client->queue);
	assert_int_equal(fabric_queue_open(other.fabric, UINT32_MAX, &other.queue), 0);
	assert_int_equal(fabric_queue_open(client->fabric, UINT32_MAX, &client->queue), 0);
	assert_int_equal(fabric_memory_register(client->fabric->domain, lent, LARGE + MIB,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memory),
			 0);
	fill(lent, LARGE, 1);
	fill(other.data, LARGE, 2);
	connect_pair(client, &other, &ends[0].endpoint, &ends[1].endpoint);
	for (unsigned i = 0; i < 2; i++) {
		ends[i].queue = i ? other.queue : client->queue;
		ends[i].memory = i ? &memory : &other.all;
		ends[i].got = allocate(LARGE);
		ends[i].given = allocate(MIB);
		fill(ends[i].given, MIB, 3 + i);
		narrow(ends[i].endpoint);
		post_all(&ends[i], is_mixed);
	}
	while (ends[0].nr_left + ends[1].nr_left > 0) {
		progress(&ends[0], is_in_crowd);
		progress(&ends[1], is_in_crowd);
		if (ends[0].nr_left + ends[1].nr_left > 0)
			sleep_on_both(ends);
	}
	assert_memory_equal(ends[0].got, other.data, LARGE);
	assert_memory_equal(ends[1].got, lent, LARGE);
	if (is_mixed) {
		assert_memory_equal(ends[0].given, other.data + LARGE, MIB);
		assert_memory_equal(ends[1].given, lent + LARGE, MIB);
	}
	for (unsigned i = 0; i < 2; i++) {
		fabric_endpoint_close(ends[i].endpoint);
		free(ends[i].got);
		free(ends[i].given);
	}
	fabric_memory_deregister(&memory);
	target_close(&other);
	free(lent);
}

static void both_ends_read_all_they_may(void **state)
{
	owe_each_other_all_there_can_be(*state, false, false);
}

static void both_ends_do_all_they_may(void **state)
{
	owe_each_other_all_there_can_be(*state, true, false);
}

static void both_ends_do_all_they_may_in_a_crowd(void **state)
{
	owe_each_other_all_there_can_be(*state, true, true);
}

/* ---- Crowds */

/* Several replies come at once and are taken one or a few at a time: nobody's are forgotten. */
static void hears_everybody_in_a_crowd(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct pollfd fd = {.fd = fabric_queue_fd(client->queue), .events = POLLIN};
	struct fabric_endpoint *peers[NR_CROWD];
	uint8_t *mine = allocate(NR_CROWD * WORD_BYTES);

	fill(mine, NR_CROWD * WORD_BYTES, 6);
	for (unsigned i = 0; i < NR_CROWD; i++)
		peers[i] = client_connect(client);
	for (unsigned round = 0; round < 100; round++) {
		unsigned nr_left = NR_CROWD * NR_AT_ONCE;

		memset(target->data, 0, NR_CROWD * WORD_BYTES);
		fabric_queue_hold(client->queue);
		for (unsigned i = 0; i < NR_CROWD * NR_AT_ONCE; i++)
			assert_int_equal(start_one(peers[i % NR_CROWD], true,
						   mine + i % NR_CROWD * WORD_BYTES, WORD_BYTES,
						   &target->all, i % NR_CROWD * WORD_BYTES, i),
					 0);
		fabric_queue_release(client->queue);
		while (nr_left > 0) {
			struct fabric_completion done[3];
			int nr = fabric_queue_poll(client->queue, done, 1 + round % 3);

			for (int i = 0; i < nr; i++)
				assert_int_equal(done[i].status, 0);
			nr_left -= (unsigned)nr;
			if (nr_left > 0 && fabric_queue_arm(client->queue) == 0)
				assert_int_equal(poll(&fd, 1, GRACE_MS), 1);
		}
		assert_memory_equal(target->data, mine, NR_CROWD * WORD_BYTES);
	}
	for (unsigned i = 0; i < NR_CROWD; i++)
		fabric_endpoint_close(peers[i]);
	free(mine);
}

/* ---- Quiet peers */

static void ask(const struct target *target, int fd)
{
	const struct tcp_frame head = frame_of(TCP_READ, target->all.key, 0, WORD_BYTES);

	say(fd, &head, tcp_frame_bytes(TCP_READ));
}

static bool has_reply(int fd)
{
	uint8_t reply[2 * sizeof(struct tcp_frame) + WORD_BYTES];

	return recv(fd, reply, sizeof(reply), MSG_DONTWAIT) > 0;
}

/* Answers a busy peer, and then finds nothing for a few polls. Returns how many there were until
 * `awaited` had its reply; ROUND_POLLS: it has none yet. */
static unsigned run_round(struct target *target, int busy, int awaited)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);

	ask(target, busy);
	do {
		poll_once(target);
		assert_true(clock_ns() < deadline);
	} while (!has_reply(busy));
	for (unsigned i = 0; i < ROUND_POLLS; i++) {
		if (has_reply(awaited))
			return i;
		poll_once(target);
	}
	return ROUND_POLLS;
}

/* While another peer keeps the target busy, one that was quiet for long waits for a few polls at
 * most, wherever among them it asks. Now and then the kernel may be late to hand a request over. */
static void hears_who_was_quiet(void **state)
{
	struct target *target = *state;
	struct fabric_endpoint *endpoints[NR_QUIET + 1];
	int peers[NR_QUIET + 1];
	unsigned nr_late = 0;

	for (unsigned i = 0; i <= NR_QUIET; i++)
		peers[i] = accept_peer(target, &endpoints[i]);
	for (unsigned i = 0; i < NR_QUESTIONS; i++) {
		const int quiet = peers[i % NR_QUIET];
		unsigned nr_polls = 0, nr;

		for (unsigned k = 0; k < 5 + i; k++)
			assert_int_equal(run_round(target, peers[NR_QUIET], quiet), ROUND_POLLS);
		ask(target, quiet);
		do {
			nr = run_round(target, peers[NR_QUIET], quiet);
			nr_polls += nr;
		} while (nr == ROUND_POLLS);
		nr_late += nr_polls > 2 * ROUND_POLLS;
	}
	assert_true(nr_late <= NR_QUESTIONS / 5);
	for (unsigned i = 0; i <= NR_QUIET; i++) {
		fabric_endpoint_close(endpoints[i]);
		close(peers[i]);
	}
}

/* ---- Arming */

/* All that was found is told, and a request was sent since: there is nothing to look at before sleeping. */
static void sleeps_without_looking_again(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct pollfd fd = {.fd = fabric_queue_fd(client->queue), .events = POLLIN};
	struct fabric_completion completions[2];
	uint8_t word[WORD_BYTES] = {0};

	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(
			start_one(endpoint, true, word, sizeof(word), &client->target.all, 0, i),
			0);
		do {
			assert_int_equal(fabric_queue_arm(client->queue), 0);
			assert_int_equal(poll(&fd, 1, GRACE_MS), 1);
		} while (fabric_queue_poll(client->queue, completions, 2) == 0);
		assert_int_equal(completions[0].context, i);
	}
	fabric_endpoint_close(endpoint);
}

TEST_GROUP(fabric_tcp_limits)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, target_setup, target_teardown)
#define WITH_CLIENT(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(waits_for_all_of_a_frame),
		WITH_TARGET(sends_so_much_at_a_time),
		WITH_TARGET(serves_who_asks_for_much_at_once),
		WITH_TARGET(owes_so_much),
		WITH_TARGET(looks_at_so_many_strangers),
		WITH_TARGET(waits_for_descriptors),
		WITH_TARGET(hears_who_was_quiet),
		WITH_CLIENT(both_ends_read_all_they_may),
		WITH_CLIENT(both_ends_do_all_they_may),
		WITH_CLIENT(both_ends_do_all_they_may_in_a_crowd),
		WITH_CLIENT(hears_everybody_in_a_crowd),
		WITH_CLIENT(sleeps_without_looking_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
