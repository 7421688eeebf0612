/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport tcp against peers that are not ours. Plain sockets say what they like, to an end that lends
 * memory and to one that asks for it. Whatever is wrong ends that connection, touches nothing, and is
 * nobody else's trouble.
 */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/tcp_peer.h"
#include "unit/group.h"

#define SMALL 4096U

/* ---- Hellos */

static void expect_no_welcome(struct client *client, const struct tcp_hello *hello, size_t length)
{
	int fd = open_peer(client->target.listener->address);

	say(fd, hello, length);
	expect_end(fd);
}

static void listens_to_proper_hellos_only(void **state)
{
	struct client *client = *state;
	struct tcp_hello hello;
	int fd;

	for (uint16_t length = 0; length <= FABRIC_PRIVATE_MAX; length += 8) {
		hello = hello_of(length);
		fd = open_peer(client->target.listener->address);
		/* In two parts, wherever it is cut. */
		say(fd, &hello, length / 2);
		say(fd, (uint8_t *)&hello + length / 2, TCP_HELLO_HEAD + length - length / 2);
		expect_welcome(fd);
		assert_int_equal(client->target.last.private_length, length);
		close(fd);
	}
	hello = hello_of(0);
	hello.magic ^= 1;
	expect_no_welcome(client, &hello, TCP_HELLO_HEAD);
	hello = hello_of(0);
	hello.version = 0;
	expect_no_welcome(client, &hello, TCP_HELLO_HEAD);
	hello.version = htole16(TCP_WIRE_VERSION + 1);
	expect_no_welcome(client, &hello, TCP_HELLO_HEAD);
	hello = hello_of(FABRIC_PRIVATE_MAX + 1);
	expect_no_welcome(client, &hello, sizeof(hello));
	hello = hello_of(UINT16_MAX);
	expect_no_welcome(client, &hello, sizeof(hello));
	fabric_endpoint_close(client_connect(client));
}

/* ---- Requests */

/* A frame, and what may be its payload, ends the connection; nothing lent has changed. */
static void expect_refusal(struct client *client, const struct tcp_frame *frame)
{
	static const uint8_t payload[256] = {0xbb};
	struct target *target = &client->target;
	int fd = join(target->listener->address);

	say(fd, frame, sizeof(*frame));
	say(fd, payload, sizeof(payload));
	expect_end(fd);
	for (size_t i = 0; i < LENT; i += 64)
		assert_int_equal(target->data[i], 0xaa);
}

static void refuses_ranges_that_wrap_around(void **state)
{
	static const uint64_t extremes[] = {0,
					    1,
					    SMALL - 1,
					    SMALL,
					    SMALL + 1,
					    LENT,
					    INT32_MAX,
					    UINT32_MAX,
					    INT64_MAX,
					    1ULL << 63,
					    UINT64_MAX - SMALL,
					    UINT64_MAX - SMALL + 1,
					    UINT64_MAX - 1,
					    UINT64_MAX};
	const size_t nr = sizeof(extremes) / sizeof(extremes[0]);
	struct client *client = *state;
	struct tcp_frame frame;

	memset(client->target.data, 0xaa, LENT);
	for (size_t i = 0; i < nr; i++) {
		for (size_t j = 0; j < nr; j++) {
			if (extremes[i] <= SMALL && extremes[j] <= SMALL - extremes[i])
				continue;
			frame = frame_of(i % 2 ? TCP_READ : TCP_WRITE, client->target.small.key,
					 extremes[i], extremes[j]);
			expect_refusal(client, &frame);
		}
		/* From the end of the extent back to its beginning, around the address space. */
		frame = frame_of(TCP_WRITE, client->target.small.key, SMALL + extremes[i],
				 0 - (SMALL + extremes[i]) + 1);
		if (extremes[i] < UINT64_MAX - SMALL)
			expect_refusal(client, &frame);
	}
}

static void refuses_headers_that_are_none(void **state)
{
	static const uint32_t types[] = {0,	     TCP_READ_REPLY,	TCP_WRITE_ACK,
					 TCP_FAILED, TCP_CHECKED_REPLY, TCP_CHECKED_REPLY + 1,
					 TCP_PUT,    TCP_DROPPED,	TCP_UNDECIDED,
					 0x01000000, INT32_MAX,		UINT32_MAX};
	static const uint64_t keys[] = {0, 1, INT64_MAX, UINT64_MAX};
	static const struct {
		uint32_t type, word;
	} hints[] = {
		{TCP_READ, FABRIC_PAGED_BRIEF},
		{TCP_READ, FABRIC_PAGED_ONCE | FABRIC_PAGED_COLD},
		{TCP_READ, FABRIC_PAGED_ONCE | FABRIC_PAGED_COLD << 1},
		{TCP_WRITE, FABRIC_PAGED_ONCE},
		{TCP_WRITE, FABRIC_PAGED_BRIEF | FABRIC_PAGED_COLD},
		{TCP_WRITE_CHECKED, FABRIC_PAGED_ONCE},
		{TCP_READ_REPLY, FABRIC_PAGED_ONCE},
		{TCP_MESSAGE, FABRIC_PAGED_ONCE},
	};
	struct client *client = *state;
	const uint64_t key = client->target.all.key;
	struct tcp_frame frame;

	memset(client->target.data, 0xaa, LENT);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (uint64_t length = 0; length <= 64; length += 64) {
			frame = frame_of(types[i], key, 0, length);
			expect_refusal(client, &frame);
		}
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		frame = frame_of(TCP_WRITE, keys[i], 0, 64);
		expect_refusal(client, &frame);
		frame = frame_of(TCP_READ, keys[i], 0, 0);
		expect_refusal(client, &frame);
	}
	frame = frame_of(TCP_WRITE, client->target.read_only.key, 0, 0);
	expect_refusal(client, &frame);
	/* Those for paged memory alone. */
	for (uint32_t type = TCP_WRITE_DURABLE; type <= TCP_WRITE_CHECKED_DURABLE; type++) {
		frame = frame_of(type, key, 0, 64);
		expect_refusal(client, &frame);
	}
	for (uint32_t type = TCP_READ; type <= TCP_CHECKED_REPLY; type++) {
		frame = frame_of(type, key, 0, 0);
		frame.word = htole32(1);
		expect_refusal(client, &frame);
		frame.word = UINT32_MAX;
		expect_refusal(client, &frame);
	}
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		frame = frame_of(hints[i].type, key, 0, 64);
		frame.word = htole32(hints[i].word);
		expect_refusal(client, &frame);
	}
	fabric_endpoint_close(client_connect(client));
}

/* A read, a write, and a read of nothing. */
struct conversation {
	struct tcp_frame read, write;
	uint8_t payload[64];
	struct tcp_frame empty;
};

static struct conversation conversation_of(const struct client *client)
{
	const uint64_t key = client->target.all.key;
	struct conversation all = {.read = frame_of(TCP_READ, key, 0, 64),
				   .write = frame_of(TCP_WRITE, key, 128, 64),
				   .empty = frame_of(TCP_READ, key, LENT, 0)};

	memset(all.payload, 0xcc, sizeof(all.payload));
	return all;
}

static void bears_streams_that_end_anywhere(void **state)
{
	struct client *client = *state;
	const struct conversation all = conversation_of(client);

	for (size_t length = 0; length < sizeof(all); length++) {
		int fd = join(client->target.listener->address);

		say(fd, &all, length);
		if (length % 2)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	fabric_endpoint_close(client_connect(client));
}

static void understands_what_trickles(void **state)
{
	struct client *client = *state;
	const struct conversation all = conversation_of(client);
	const struct tcp_hello hello = hello_of(0);
	int fd = open_peer(client->target.listener->address), one = 1;
	uint8_t back[64];

	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	fill(client->target.data, 64, 3);
	for (size_t i = 0; i < TCP_HELLO_HEAD; i++)
		say(fd, (const uint8_t *)&hello + i, 1);
	expect_welcome(fd);
	for (size_t i = 0; i < sizeof(all); i++)
		say(fd, (const uint8_t *)&all + i, 1);
	expect_reply(fd, TCP_READ_REPLY, 64);
	assert_true(hear(fd, back, sizeof(back)));
	assert_memory_equal(back, client->target.data, sizeof(back));
	expect_reply(fd, TCP_WRITE_ACK, 64);
	assert_memory_equal(client->target.data + 128, all.payload, 64);
	expect_reply(fd, TCP_READ_REPLY, 0);
	close(fd);
}

/* Asks for far more than it takes: the target stops listening to it, and to nobody else. */
static void outlasts_who_does_not_take_replies(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *good = client_connect(client);
	int fd = join(client->target.listener->address);
	struct tcp_frame frames[128];
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	uint8_t mine[64];
	ssize_t nr = 1;

	for (size_t i = 0; i < 128; i++)
		frames[i] = frame_of(TCP_READ, client->target.all.key, i, 8 * MIB);
	while (poll(&room, 1, 200) == 1 && nr > 0) {
		nr = send(fd, frames, sizeof(frames), MSG_NOSIGNAL | MSG_DONTWAIT);
		transfer_one(good, false, mine, sizeof(mine), &client->target.all, 0);
	}
	assert_true(nr > 0);
	for (unsigned i = 0; i < 100; i++)
		transfer_one(good, i % 2, mine, sizeof(mine), &client->target.all, 0);
	/* It has not been forgotten, either. */
	expect_reply(fd, TCP_READ_REPLY, 8 * MIB);
	close(fd);
	transfer_one(good, false, mine, sizeof(mine), &client->target.all, 0);
	fabric_endpoint_close(good);
}

/* ---- An end that asks, of a peer that does not answer as it should */

static void connects_to_who_welcomes_it(void **state)
{
	static const struct tcp_welcome bad[] = {{0, 0, 0},
						 {TCP_WIRE_MAGIC, TCP_WIRE_VERSION + 1, 0},
						 {TCP_WIRE_MAGIC ^ 1, TCP_WIRE_VERSION, 0},
						 {TCP_WIRE_MAGIC, TCP_WIRE_VERSION, 1}};
	struct client *client = *state;
	struct liar liar;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct tcp_welcome welcome = {htole32(bad[i].magic), htole16(bad[i].version),
						    htole16(bad[i].reserved)};

		liar_open(&liar, client, &welcome, sizeof(welcome));
		await_closed(liar.endpoint, -ECONNREFUSED);
		liar_close(&liar);
		/* Half of it, and the end. */
		liar_open(&liar, client, &welcome, i);
		shutdown(liar.fd, SHUT_WR);
		await_closed(liar.endpoint, -ECONNREFUSED);
		liar_close(&liar);
	}
}

/* Whatever it says instead of the reply to a read of 64 bytes. */
static void expect_disbelief(struct client *client, bool is_asked, const struct tcp_frame *frame)
{
	struct fabric_completion completion;
	uint8_t mine[64], noise[256] = {0};
	struct tcp_frame request;
	struct liar liar;

	memset(mine, 0xbb, sizeof(mine));
	memset(noise, 0xee, sizeof(noise));
	liar_join(&liar, client);
	if (is_asked) {
		assert_int_equal(start_one(liar.endpoint, false, mine, sizeof(mine),
					   &client->target.all, 0, 9),
				 0);
		assert_true(hear(liar.fd, &request, sizeof(request)));
	}
	say(liar.fd, frame, tcp_frame_bytes(le32toh(frame->type)));
	say(liar.fd, noise, sizeof(noise));
	if (is_asked) {
		completion = await_completion(client->queue);
		assert_int_equal(completion.context, 9);
		assert_true(completion.status < 0);
	}
	await_closed(liar.endpoint, -ECONNRESET);
	for (size_t i = 0; i < sizeof(mine); i++)
		assert_int_equal(mine[i], 0xbb);
	liar_close(&liar);
}

/* A failure has a code, and is of what was asked for. */
static void expect_disbelief_in_failures(struct client *client)
{
	static const uint32_t codes[] = {0, 4096, 10000, 14096, 1U << 31, UINT32_MAX};
	struct tcp_frame frame = frame_of(TCP_FAILED, 0, 0, 64);

	frame.word = htole32(EIO);
	expect_disbelief(client, false, &frame);
	frame.length = htole64(63);
	expect_disbelief(client, true, &frame);
	frame.length = htole64(64);
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		frame.word = htole32(codes[i]);
		expect_disbelief(client, true, &frame);
	}
}

static void believes_only_what_it_asked_for(void **state)
{
	static const uint64_t lengths[] = {0, 1, 63, 65, 1ULL << 63, UINT64_MAX};
	struct client *client = *state;
	struct tcp_frame frame;

	for (uint32_t type = TCP_READ_REPLY; type <= TCP_WRITE_ACK; type++) {
		frame = frame_of(type, 0, 0, 64);
		expect_disbelief(client, false, &frame);
		frame = frame_of(type, 0, 0, 0);
		expect_disbelief(client, false, &frame);
	}
	frame = frame_of(TCP_WRITE_ACK, 0, 0, 64);
	expect_disbelief(client, true, &frame);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		frame = frame_of(TCP_READ_REPLY, 0, 0, lengths[i]);
		expect_disbelief(client, true, &frame);
	}
	expect_disbelief_in_failures(client);
	/* It lends nothing. */
	frame = frame_of(TCP_READ, client->target.all.key, 0, 1);
	expect_disbelief(client, true, &frame);
}

/* To a request that is not sent yet, nobody can have a reply: the memory is still to be sent. */
static void waits_until_it_has_asked(void **state)
{
	struct client *client = *state;
	const struct tcp_frame reply = frame_of(TCP_WRITE_ACK, 0, 0, 64 * MIB);
	uint8_t *mine = calloc(64, MIB);
	struct liar liar;

	liar_join(&liar, client);
	assert_int_equal(start_one(liar.endpoint, true, mine, 64 * MIB, &client->target.all, 0, 3),
			 0);
	say(liar.fd, &reply, TCP_FRAME_SHORT);
	assert_true(await_completion(client->queue).status < 0);
	await_closed(liar.endpoint, -ECONNRESET);
	liar_close(&liar);
	free(mine);
}

/* A peer that takes nothing any more has not gone: it may yet do what it was asked for. */
static void tells_the_silent_from_the_gone(void **state)
{
	struct client *client = *state;
	uint8_t *mine = calloc(64, MIB);
	const unsigned timeout_ms = 100;
	struct tcp_endpoint *endpoint;
	struct liar liar;

	liar_join(&liar, client);
	endpoint = tcp_container(liar.endpoint, struct tcp_endpoint);
	assert_int_equal(setsockopt(endpoint->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
				    sizeof(timeout_ms)),
			 0);
	assert_int_equal(start_one(liar.endpoint, true, mine, 64 * MIB, &client->target.all, 0, 3),
			 0);
	assert_int_equal(await_completion(client->queue).status, -ETIMEDOUT);
	await_closed(liar.endpoint, -ETIMEDOUT);
	liar_close(&liar);

	liar_join(&liar, client);
	assert_int_equal(start_one(liar.endpoint, true, mine, 64 * MIB, &client->target.all, 0, 3),
			 0);
	close(liar.fd);
	assert_int_equal(await_completion(client->queue).status, -ECONNRESET);
	await_closed(liar.endpoint, -ECONNRESET);
	fabric_endpoint_close(liar.endpoint);
	free(mine);
}

/* ---- Messages */

static void takes_messages_that_fit(void **state)
{
	struct client *client = *state;
	struct fabric_completion completion;
	uint8_t room[64], noise[64] = {1, 2, 3};
	struct fabric_piece piece = {room, 32, NULL};
	struct tcp_frame frame = frame_of(TCP_MESSAGE, 0, 0, 32);
	struct liar liar;

	memset(room, 0xbb, sizeof(room));
	liar_join(&liar, client);
	/* It waits until there is a receive, and is there at once then. */
	say(liar.fd, &frame, TCP_FRAME_SHORT);
	say(liar.fd, noise, 32);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	assert_int_equal(fabric_receive(liar.endpoint, &piece, 4), 0);
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, 4);
	assert_int_equal(completion.status, 0);
	assert_memory_equal(room, noise, 32);

	for (unsigned i = 0; i < FABRIC_RECEIVE_MAX; i++)
		assert_int_equal(fabric_receive(liar.endpoint, &piece, i), 0);
	assert_int_equal(fabric_receive(liar.endpoint, &piece, 8), -EAGAIN);
	frame.length = htole64(33);
	say(liar.fd, &frame, TCP_FRAME_SHORT);
	say(liar.fd, noise, 33);
	for (unsigned i = 0; i < FABRIC_RECEIVE_MAX; i++) {
		completion = await_completion(client->queue);
		assert_int_equal(completion.context, i);
		assert_true(completion.status < 0);
	}
	await_closed(liar.endpoint, -ECONNRESET);
	for (size_t i = 32; i < sizeof(room); i++)
		assert_int_equal(room[i], 0xbb);
	liar_close(&liar);
}

/* A message that nobody takes, and its sender dies: that must not keep anybody awake. */
static void hears_of_the_end_behind_a_message(void **state)
{
	const struct tcp_frame frame = frame_of(TCP_MESSAGE, 0, 0, 0);
	const struct linger at_once = {.l_onoff = 1};
	struct client *client = *state;
	struct fabric_completion completion;
	struct liar liar;

	liar_join(&liar, client);
	say(liar.fd, &frame, TCP_FRAME_SHORT);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	assert_int_equal(setsockopt(liar.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	close(liar.fd);
	await_closed(liar.endpoint, -ECONNRESET);
	fabric_endpoint_close(liar.endpoint);
}

/* ---- Both ends at once */

/* Both ends post as much as may be posted, which is more than sockets hold: neither may wait for the
 * other. */
static void writes_both_ways_at_full_depth(void **state)
{
	struct client *client = *state;
	struct fabric_queue *queues[2] = {client->queue, NULL};
	struct fabric_endpoint *ends[2];
	struct fabric_completion completion;
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_memory memory;
	uint8_t *mine = calloc(1, MIB), *theirs = calloc(1, MIB);
	unsigned nr[2] = {0}, nr_done = 0, nr_posted = 0;
	struct target other;

	assert_int_equal(fabric_memory_register(client->fabric->domain, theirs, MIB,
						FABRIC_REMOTE_WRITE, &memory),
			 0);
	target_open(&other, any_port());
	fabric_queue_close(other.queue);
	assert_int_equal(fabric_queue_open(other.fabric, UINT32_MAX, &other.queue), 0);
	queues[1] = other.queue;
	connect_pair(client, &other, &ends[0], &ends[1]);
	for (unsigned i = 0; i < 2; i++) {
		while (start_one(ends[i], true, mine, MIB, i ? &memory : &other.all, 0, nr[i]) == 0)
			nr[i]++;
		nr_posted += nr[i];
	}
	assert_int_equal(nr[0], DEPTH);
	assert_true(nr[1] > DEPTH);
	while (nr_done < nr_posted) {
		for (unsigned i = 0; i < 2; i++) {
			if (fabric_queue_poll(queues[i], &completion, 1) == 1) {
				assert_int_equal(completion.status, 0);
				nr_done++;
			}
		}
		assert_true(clock_ns() < deadline);
	}
	for (unsigned i = 0; i < 2; i++)
		fabric_endpoint_close(ends[i]);
	fabric_memory_deregister(&memory);
	target_close(&other);
	free(mine);
	free(theirs);
}

/* ---- Congestion control */

#define BBR "bbr" /* and what its successors' names begin with */

static void congestion_of(int fd, char out[static FABRIC_CONGESTION_MAX])
{
	socklen_t length = FABRIC_CONGESTION_MAX;

	memset(out, 0, FABRIC_CONGESTION_MAX);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &length), 0);
}

/* Gives what a socket has after it was offered some names: the first that it may have, else the
 * system's. */
static void offer(const char *const *names, unsigned nr_names,
		  char out[static FABRIC_CONGESTION_MAX])
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < nr_names; i++) {
		if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[i],
			       (socklen_t)strlen(names[i])) == 0)
			break;
	}
	congestion_of(fd, out);
	close(fd);
}

/* Gives what "auto" is on this machine, for this thread, between two ends that are both here. */
static void expect_auto(char out[static FABRIC_CONGESTION_MAX])
{
	static const char *const instead[] = {"cubic", "reno"};

	offer(NULL, 0, out);
	if (strncmp(out, BBR, strlen(BBR)) == 0)
		offer(instead, 2, out);
}

/* A connection between two ends with settings of their own; what the kernel says of their sockets. */
static void expect_congestion(struct client *client, const char *address, const char *settings[2],
			      const char *expected[2])
{
	char name[FABRIC_CONGESTION_MAX], told[FABRIC_CONGESTION_MAX];
	struct fabric_endpoint *ends[2];
	struct target other;

	target_open(&other, any_port());
	fabric_listener_close(other.listener);
	client->fabric->congestion = settings[0];
	other.fabric->congestion = settings[1];
	assert_int_equal(fabric_listen(other.fabric, address, &other.listener), 0);
	connect_pair(client, &other, &ends[0], &ends[1]);
	for (unsigned i = 0; i < 2; i++) {
		congestion_of(tcp_container(ends[i], struct tcp_endpoint)->fd, name);
		assert_string_equal(name, expected[i]);
		fabric_endpoint_congestion(ends[i], told);
		assert_string_equal(told, name);
		fabric_endpoint_close(ends[i]);
	}
	client->fabric->congestion = NULL;
	target_close(&other);
}

static void uses_the_congestion_control_of_its_choice(void **state)
{
	char own[FABRIC_CONGESTION_MAX], system[FABRIC_CONGESTION_MAX],
		other[FABRIC_CONGESTION_MAX];
	struct client *client = *state;
	const char *const wish = "reno";

	expect_auto(own);
	offer(NULL, 0, system);
	offer(&wish, 1, other);
	for (unsigned i = 0; i < 2; i++) {
		const char *const address = i ? "0.0.0.0:0" : "127.0.0.1:0";

		expect_congestion(client, address, (const char *[]){NULL, "auto"},
				  (const char *[]){own, own});
		expect_congestion(client, address, (const char *[]){"system", "system"},
				  (const char *[]){system, system});
		expect_congestion(client, address, (const char *[]){"system", other},
				  (const char *[]){system, other});
		expect_congestion(client, address, (const char *[]){other, "auto"},
				  (const char *[]){other, own});
	}
}

/* Has this thread do without a capability, or have it back. */
static void set_net_admin(bool is_wanted)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	if (is_wanted)
		data[0].effective |= data[0].permitted & 1U << CAP_NET_ADMIN;
	else
		data[0].effective &= ~(1U << CAP_NET_ADMIN);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static bool is_in_list(const char *path, const char *name)
{
	char list[512] = "", *rest = list, *word;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	assert_non_null(fgets(list, sizeof(list), file));
	fclose(file);
	while ((word = strsep(&rest, " \n"))) {
		if (strcmp(word, name) == 0)
			return true;
	}
	return false;
}

static void takes_what_it_may_without_privilege(void **state)
{
	char own[FABRIC_CONGESTION_MAX], problem[256];
	bool is_restricted =
		is_in_list("/proc/sys/net/ipv4/tcp_available_congestion_control", "cubic") &&
		!is_in_list("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "cubic");

	set_net_admin(false);
	expect_auto(own);
	expect_congestion(*state, "127.0.0.1:0", (const char *[]){NULL, NULL},
			  (const char *[]){own, own});
	if (is_restricted) {
		assert_int_equal(fabric_congestion_check("cubic", problem, sizeof(problem)),
				 -EINVAL);
		assert_non_null(strstr(problem, "'cubic' takes privilege here; "));
		assert_non_null(strstr(problem, "net.ipv4.tcp_allowed_congestion_control"));
	}
	set_net_admin(true);
}

static void refuses_congestion_control_that_is_not_there(void **state)
{
	static const char *const good[] = {"auto", "system", "reno"};
	static const char *const bad[] = {"", "no-pigeon-has-one", "re no", "reno\n",
					  "r\xc3\xa9no"};
	struct client *client = *state;
	struct fabric_listener *listener;
	struct fabric_endpoint *endpoint;
	char problem[256];

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(fabric_congestion_check(good[i], problem, sizeof(problem)), 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fabric_congestion_check(bad[i], problem, sizeof(problem)),
				 -EINVAL);
		assert_non_null(strstr(problem, "is no name of a congestion control; use auto, "));
	}
	assert_int_equal(fabric_congestion_check("pigeon", problem, sizeof(problem)), -EINVAL);
	assert_non_null(strstr(problem, "'pigeon' is not available here; "));
	assert_non_null(strstr(problem, "modprobe tcp_pigeon"));
	assert_non_null(strstr(problem, " reno"));
	client->fabric->congestion = "pigeon";
	assert_int_equal(fabric_listen(client->fabric, any_port(), &listener), -ENOENT);
	assert_int_equal(fabric_connect(client->queue, client->target.listener->address, NULL, 0,
					NULL, &endpoint),
			 -ENOENT);
}

static void knows_which_addresses_are_here(void **state)
{
	static const struct {
		const char *text;
		bool is_loopback;
	} cases[] = {
		{"127.0.0.1:1", true},		 {"127.9.8.7:1", true},	 {"[::1]:1", true},
		{"[::ffff:127.0.0.1]:1", true},	 {"192.0.2.1:1", false}, {"[2001:db8::1]:1", false},
		{"[::ffff:192.0.2.1]:1", false},
	};
	struct fabric_address address;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(fabric_address_resolve("try", cases[i].text, false, &address), 0);
		assert_int_equal(fabric_address_is_loopback(&address.storage),
				 cases[i].is_loopback);
		assert_int_equal(fabric_address_is_here(&address), cases[i].is_loopback);
	}
}

TEST_GROUP(fabric_tcp)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(listens_to_proper_hellos_only),
		WITH_TARGET(refuses_ranges_that_wrap_around),
		WITH_TARGET(refuses_headers_that_are_none),
		WITH_TARGET(bears_streams_that_end_anywhere),
		WITH_TARGET(understands_what_trickles),
		WITH_TARGET(outlasts_who_does_not_take_replies),
		WITH_TARGET(connects_to_who_welcomes_it),
		WITH_TARGET(believes_only_what_it_asked_for),
		WITH_TARGET(waits_until_it_has_asked),
		WITH_TARGET(tells_the_silent_from_the_gone),
		WITH_TARGET(takes_messages_that_fit),
		WITH_TARGET(hears_of_the_end_behind_a_message),
		WITH_TARGET(writes_both_ways_at_full_depth),
		WITH_TARGET(uses_the_congestion_control_of_its_choice),
		WITH_TARGET(takes_what_it_may_without_privilege),
		WITH_TARGET(refuses_congestion_control_that_is_not_there),
		cmocka_unit_test(knows_which_addresses_are_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
