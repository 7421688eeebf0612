/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport local against peers that are not ours: sockets and links that say what they like to an
 * end that lends memory. Whatever is wrong ends that connection, touches nothing, and is nobody else's
 * trouble. Peers that lend are test_fabric_local_servers.c's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/child.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/local_peer.h"
#include "unit/group.h"

#define NOBODY 65534

static unsigned count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned nr = 0;

	assert_non_null(folder);
	while (readdir(folder))
		nr++;
	closedir(folder);
	return nr;
}

/* ---- Strangers */

static void expect_no_welcome(struct client *client, const void *data, size_t length)
{
	struct local_peer peer = local_peer_open(client->target.listener->address);

	local_peer_say(&peer, data, length, NULL, 0);
	local_peer_expect_end(&peer);
}

static void listens_to_proper_hellos_only(void **state)
{
	struct client *client = *state;
	uint8_t noise[4096];
	struct local_hello hello;
	struct local_peer silent = local_peer_open(client->target.listener->address), peer;

	for (uint16_t length = 0; length <= FABRIC_PRIVATE_MAX; length += 8) {
		hello = local_peer_hello(length);
		peer = local_peer_open(client->target.listener->address);
		local_peer_say(&peer, &hello, LOCAL_HELLO_HEAD + length, NULL, 0);
		local_peer_take_link(&peer);
		assert_int_equal(client->target.last.private_length, length);
		local_peer_close(&peer);
	}
	fill(noise, sizeof(noise), 5);
	expect_no_welcome(client, noise, sizeof(noise));
	expect_no_welcome(client, noise, LOCAL_HELLO_HEAD);
	hello = local_peer_hello(8);
	for (size_t length = 0; length < sizeof(hello); length++) {
		if (length != LOCAL_HELLO_HEAD + 8)
			expect_no_welcome(client, &hello, length);
	}
	hello.magic ^= 1;
	expect_no_welcome(client, &hello, LOCAL_HELLO_HEAD + 8);
	hello = local_peer_hello(8);
	hello.version++;
	expect_no_welcome(client, &hello, LOCAL_HELLO_HEAD + 8);
	hello = local_peer_hello(UINT16_MAX);
	expect_no_welcome(client, &hello, sizeof(hello));
	fabric_endpoint_close(client_connect(client));
	local_peer_close(&silent);
}

static void puts_silent_strangers_out(void **state)
{
	const struct fabric_patience some = {
		.silence_ms = 3600000, .nr_per_host = 2, .crowd_ms = 0};
	const struct fabric_patience none = {0};
	struct client *client = *state;
	struct folder folder = make_folder();
	struct fabric_listener *listener;
	struct fabric_request request;
	struct local_peer peers[5];

	assert_int_equal(fabric_listen(client->fabric, folder.address, &listener), 0);
	assert_int_equal(fabric_listener_sweep(listener, &none), 0);
	for (unsigned i = 0; i < 5; i++)
		peers[i] = local_peer_open(listener->address);
	assert_int_equal(fabric_listener_next(listener, &request), -EAGAIN);
	assert_int_equal(fabric_listener_sweep(listener, &some), 5);
	for (unsigned i = 0; i < 3; i++)
		local_peer_expect_end(&peers[i]);
	assert_int_equal(fabric_listener_sweep(listener, &none), 2);
	for (unsigned i = 3; i < 5; i++)
		local_peer_expect_end(&peers[i]);
	assert_int_equal(fabric_listener_sweep(listener, &none), 0);
	fabric_listener_close(listener);
	remove_folder(&folder);
}

/* Says hello as somebody else. 0: it was put out. */
static int be_nobody(const char *address)
{
	const struct local_hello hello = local_peer_hello(0);
	struct pollfd ready = {.events = POLLIN};
	struct local_peer peer;
	char byte;

	if (setuid(NOBODY) != 0)
		return 1;
	peer = local_peer_open(address);
	local_peer_say(&peer, &hello, LOCAL_HELLO_HEAD, NULL, 0);
	ready.fd = peer.fd;
	return poll(&ready, 1, GRACE_MS) == 1 && recv(peer.fd, &byte, 1, 0) <= 0 ? 0 : 2;
}

/* The transport asks the kernel who may connect, not the file's mode alone. */
static void talks_to_its_own_user_alone(void **state)
{
	struct client *client = *state;
	struct folder folder;
	struct target target;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	folder = make_folder();
	target_open(&target, folder.address);
	assert_int_equal(pthread_create(&target.thread, NULL, target_run, &target), 0);
	assert_int_equal(chmod(folder.socket, 0777), 0);
	assert_int_equal(chmod(folder.path, 0711), 0);
	pid = fork_child();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(be_nobody(target.listener->address));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	fabric_endpoint_close(connect_to(client->queue, target.listener->address));
	target_stop(&target);
	remove_folder(&folder);
}

/* ---- Asking */

static void gives_what_may_be_had_alone(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct local_peer peer = local_peer_join(target->listener->address);
	struct local_message ask, lent;
	void *memory;
	int fd;

	ask = local_talk_message(LOCAL_ASK, target->read_only.key);
	local_peer_say_message(&peer, &ask, -1);
	assert_true(local_peer_hear(&peer, &lent, &fd));
	assert_int_equal(lent.type, LOCAL_LEND);
	assert_int_equal(lent.key, target->read_only.key);
	assert_int_equal(lent.length, LENT);
	assert_int_equal(lent.access, FABRIC_REMOTE_READ);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	memory = mmap(NULL, LENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(memory == MAP_FAILED);
	memory = mmap(NULL, LENT, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(memory != MAP_FAILED);
	assert_int_equal(mprotect(memory, LENT, PROT_READ | PROT_WRITE), -1);
	munmap(memory, LENT);
	close(fd);

	ask.key = target->all.key;
	local_peer_say_message(&peer, &ask, -1);
	assert_true(local_peer_hear(&peer, &lent, &fd));
	assert_int_equal(lent.access, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 2 * LENT), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
	close(fd);
	/* Twice is once too often. */
	local_peer_say_message(&peer, &ask, -1);
	local_peer_expect_end(&peer);
}

static void gives_nothing_without_a_right(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_memory foreign, gone;
	struct fabric_domain *other;
	uint64_t keys[5];

	assert_int_equal(fabric_domain_open(target->fabric, &other), 0);
	assert_int_equal(
		fabric_memory_register(other, target->data, LENT, FABRIC_REMOTE_READ, &foreign), 0);
	assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
						FABRIC_REMOTE_READ, &gone),
			 0);
	keys[0] = foreign.key;
	keys[1] = gone.key;
	keys[2] = 0;
	keys[3] = UINT64_MAX;
	keys[4] = target->all.key ^ 1;
	assert_true(fabric_memory_deregister(&gone));
	for (unsigned i = 0; i < 5; i++) {
		struct local_peer peer = local_peer_join(target->listener->address);
		struct local_message ask = local_talk_message(LOCAL_ASK, keys[i]);

		local_peer_say_message(&peer, &ask, -1);
		local_peer_expect_end(&peer);
	}
	assert_true(fabric_memory_deregister(&foreign)); /* nobody has got it */
	fabric_domain_close(other);
	fabric_endpoint_close(client_connect(client));
}

/* Has memory, and leaves unheard that it has ended: that costs nobody but itself. */
static void takes_back_from_who_does_not_listen(void **state)
{
	struct client *client = *state;
	struct target *target = &client->target;
	struct fabric_endpoint *good = client_connect(client);
	struct local_peer peer = local_peer_join(target->listener->address);
	static struct fabric_memory memories[2000];
	struct local_message ask, message;
	unsigned nr_revoked = 0;
	uint8_t byte;
	int fd;

	for (unsigned i = 0; i < 2000; i++) {
		assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
							FABRIC_REMOTE_READ, &memories[i]),
				 0);
		ask = local_talk_message(LOCAL_ASK, memories[i].key);
		local_peer_say_message(&peer, &ask, -1);
		assert_true(local_peer_hear(&peer, &message, &fd));
		close(fd);
	}
	for (unsigned i = 0; i < 2000; i++)
		assert_false(fabric_memory_deregister(&memories[i]));
	assert_int_equal(atomic_load(&peer.link->sides[LOCAL_ACCEPTING_SIDE].nr_revoked),
			 LOCAL_ENDED);
	while (local_peer_hear(&peer, &message, &fd)) {
		assert_int_equal(message.type, LOCAL_REVOKE);
		nr_revoked++;
	}
	assert_true(nr_revoked < 2000);
	local_peer_close(&peer);
	transfer_one(good, false, &byte, 1, &target->all, 0);
	fabric_endpoint_close(good);
}

/* ---- Packets that are none */

static void expect_refusal(struct client *client, const void *data, size_t length, const int *fds,
			   size_t nr_fds)
{
	struct local_peer peer = local_peer_join(client->target.listener->address);

	local_peer_say(&peer, data, length, fds, nr_fds);
	local_peer_expect_end(&peer);
}

static void ends_over_packets_that_are_none(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *good = client_connect(client);
	struct local_message message = local_talk_message(LOCAL_WAKE, 0);
	int fds[4] = {0, 0, 0, 0};
	const unsigned nr_before = count_descriptors();
	uint8_t noise[256];

	fill(noise, sizeof(noise), 9);
	expect_refusal(client, noise, sizeof(noise), NULL, 0);
	expect_refusal(client, noise, sizeof(message), NULL, 0);
	for (size_t length = 0; length < sizeof(message); length++)
		expect_refusal(client, &message, length, NULL, 0);
	message.magic ^= 1;
	expect_refusal(client, &message, sizeof(message), NULL, 0);
	message = local_talk_message(LOCAL_WAKE, 0);
	message.version ^= 0x80;
	expect_refusal(client, &message, sizeof(message), NULL, 0);
	for (unsigned type = 0; type <= UINT8_MAX; type++) {
		message = local_talk_message(type, 17);
		message.length = LENT;
		if (type != LOCAL_REVOKE && type != LOCAL_WAKE)
			expect_refusal(client, &message, sizeof(message), NULL, 0);
	}
	/* Descriptors that nobody has asked for are closed. */
	message = local_talk_message(LOCAL_LEND, 17);
	for (size_t nr = 1; nr <= 4; nr++)
		expect_refusal(client, &message, sizeof(message), fds, nr);
	while (count_descriptors() > nr_before) /* until the target has heard of all ends */
		fabric_endpoint_close(client_connect(client));
	fabric_endpoint_close(good);
}

static void bears_messages_that_mean_nothing(void **state)
{
	struct client *client = *state;
	struct local_peer peer = local_peer_join(client->target.listener->address);
	struct local_message message, lent;
	int fd, some[4] = {0, 0, 0, 0};

	for (unsigned i = 0; i < 1000; i++) {
		message = local_talk_message(i % 2 ? LOCAL_REVOKE : LOCAL_WAKE, i);
		local_peer_say(&peer, &message, sizeof(message), some, i % 5);
	}
	message = local_talk_message(LOCAL_ASK, client->target.all.key);
	local_peer_say_message(&peer, &message, -1);
	assert_true(local_peer_hear(&peer, &lent, &fd));
	assert_int_equal(lent.type, LOCAL_LEND);
	close(fd);
	local_peer_close(&peer);
}

/* ---- Links with anything in them */

/* Expects that what the peer's side of the link says is refused, while a receive is posted. */
static void expect_link_refusal(uint32_t written, uint32_t taken, const void *ring, size_t length)
{
	struct local_message wake = local_talk_message(LOCAL_WAKE, 0);
	static uint8_t much[2 * LOCAL_RING_BYTES];
	uint8_t received[256];
	struct fabric_piece piece = {received, 128, NULL};
	struct fabric_completion completion;
	struct fabric_endpoint *accepting = NULL;
	const struct local_hello hello = local_peer_hello(0);
	struct fabric_request request;
	struct folder folder = make_folder();
	struct local_side *side;
	struct target other;
	struct local_peer peer;

	memset(received, 0xaa, sizeof(received));
	target_open(&other, folder.address);
	peer = local_peer_open(other.listener->address);
	local_peer_say(&peer, &hello, LOCAL_HELLO_HEAD, NULL, 0);
	assert_int_equal(fabric_listener_next(other.listener, &request), 0);
	assert_int_equal(
		fabric_accept(&request, other.queue, other.fabric->domain, NULL, &accepting), 0);
	assert_int_equal(fabric_receive(accepting, &piece, 1), 0);
	assert_int_equal(await_event(other.queue).kind, FABRIC_CONNECTED);
	local_peer_take_link(&peer);
	side = &peer.link->sides[LOCAL_CONNECTING_SIDE];
	if (length > 0)
		memcpy(peer.link->rings[LOCAL_CONNECTING_SIDE], ring, length);
	atomic_store(&side->taken, taken);
	atomic_store(&side->written, written);
	local_peer_say_message(&peer, &wake, -1);
	/* The end asks what the peer has taken when there is not room enough. */
	if (taken != 0)
		fabric_send(accepting, &(struct fabric_piece){much, sizeof(much), NULL}, 2);
	completion = await_completion(other.queue);
	assert_true(completion.status < 0);
	await_closed(accepting, -ECONNRESET);
	for (unsigned i = 0; i < sizeof(received); i++)
		assert_int_equal(received[i], 0xaa);
	fabric_endpoint_close(accepting);
	target_close(&other);
	remove_folder(&folder);
	local_peer_expect_end(&peer);
}

static void believes_no_impossible_numbers(void **state)
{
	static const uint32_t impossible[] = {LOCAL_RING_BYTES + 1,
					      LOCAL_RING_BYTES + 8,
					      INT32_MAX,
					      1U << 31,
					      UINT32_MAX - 7,
					      UINT32_MAX};
	uint32_t header[2];

	(void)state;
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		expect_link_refusal(impossible[i], 0, NULL, 0);
		expect_link_refusal(0, impossible[i], NULL, 0);
	}
	expect_link_refusal(0, 1, NULL, 0); /* more than was written */
	for (unsigned i = 0; i < 32; i++) {
		header[0] = 128U + (1U << i); /* longer than what is posted */
		header[1] = 0;
		expect_link_refusal(sizeof(header), 0, header, sizeof(header));
		header[0] = 0;
		header[1] = 1U << i;
		expect_link_refusal(sizeof(header), 0, header, sizeof(header));
	}
}

/* A peer that rewrites all of its link all the time, while we talk to it. */
static void bears_links_that_change_all_the_time(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *good = client_connect(client);
	uint8_t noise[64];
	struct fabric_completion completion;
	uint8_t byte;

	for (unsigned round = 0; round < 500; round++) {
		struct local_peer peer = local_peer_join(client->target.listener->address);
		struct local_side *side = &peer.link->sides[LOCAL_CONNECTING_SIDE];
		struct local_message wake = local_talk_message(LOCAL_WAKE, 0);

		for (unsigned i = 0; i < 20; i++) {
			fill(noise, sizeof(noise), round * 20 + i);
			memcpy(peer.link->rings[LOCAL_CONNECTING_SIDE] + i * 64, noise, 64);
			memcpy(peer.link->rings[LOCAL_ACCEPTING_SIDE] + i * 64, noise, 64);
			atomic_store(&side->written, noise[0]);
			atomic_store(&side->taken, noise[1] < 128 ? 0 : noise[1]);
			atomic_store(&side->is_asleep, noise[2]);
			atomic_store(&side->wants_room, noise[3]);
			atomic_store(&side->nr_revoked, noise[4]);
			memset(&peer.link->sides[LOCAL_ACCEPTING_SIDE], noise[5], 64);
			local_peer_say_message(&peer, &wake, -1);
		}
		local_peer_close(&peer);
	}
	transfer_one(good, false, &byte, 1, &client->target.all, 0);
	assert_int_equal(fabric_queue_poll(client->queue, &completion, 1), 0);
	fabric_endpoint_close(good);
}

TEST_GROUP(fabric_local_peers)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(listens_to_proper_hellos_only),
		WITH_TARGET(puts_silent_strangers_out),
		WITH_TARGET(talks_to_its_own_user_alone),
		WITH_TARGET(gives_what_may_be_had_alone),
		WITH_TARGET(gives_nothing_without_a_right),
		WITH_TARGET(takes_back_from_who_does_not_listen),
		WITH_TARGET(ends_over_packets_that_are_none),
		WITH_TARGET(bears_messages_that_mean_nothing),
		WITH_TARGET(believes_no_impossible_numbers),
		WITH_TARGET(bears_links_that_change_all_the_time),
	};

	setenv("AFAR_TEST_TRANSPORT", "local", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
