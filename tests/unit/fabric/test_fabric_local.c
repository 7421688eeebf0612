/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport local: its addresses, the memory that it lends and takes back, its messages. Peers that do not
 * keep to the protocol are test_fabric_local_peers.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "fabric/local/wire.h"
#include "fabric/mapped.h"
#include "lib/base/child.h"
#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "unit/group.h"

#define CHILD_ARG "--stopped"
#define COUNT_AT  (LENT - 8) /* where in the lent memory the child counts */

/* ---- Addresses */

static void says_why_it_cannot_listen(void **state)
{
	struct client *client = *state;
	const char *bad[] = {"",
			     "unix",
			     "/tmp/socket",
			     "tcp:/tmp/socket",
			     "unix:socket",
			     "unix:/tmp/socket@0123456789abcdef",
			     ("unix:/tmp/a-path-that-is-too-long-for-an-address-of-a-socket-which-"
			      "the-kernel-takes-only-if-it-has-at-most-108-bytes-with-its-end"),
			     "127.0.0.1:0"};
	struct fabric_listener *listener;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fabric_listen(client->fabric, bad[i], &listener), -EINVAL);
		assert_non_null(strstr(afar_last_error(), "unix:PATH"));
	}
	assert_int_equal(fabric_listen(client->fabric, "unix:/tmp/no/such/folder", &listener),
			 -EADDRNOTAVAIL);
	assert_non_null(strstr(afar_last_error(), "folder"));
}

static void listens_for_its_user_alone(void **state)
{
	struct client *client = *state;
	struct folder folder = make_folder();
	struct fabric_listener *listener, *second;
	struct stat found;

	assert_int_equal(fabric_listen(client->fabric, folder.address, &listener), 0);
	assert_memory_equal(listener->address, folder.address, strlen(folder.address));
	assert_int_equal(listener->address[strlen(folder.address)], '@');
	assert_int_equal(stat(folder.socket, &found), 0);
	assert_true(S_ISSOCK(found.st_mode));
	assert_int_equal(found.st_mode & 0777, 0600);
	assert_int_equal(fabric_listen(client->fabric, folder.address, &second), -EADDRINUSE);
	assert_non_null(strstr(afar_last_error(), "another"));
	fabric_listener_close(listener);
	assert_int_equal(stat(folder.socket, &found), -1);
	remove_folder(&folder);
}

/* Leaves what a killed server leaves. */
static void leave_stale(const struct folder *folder)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(place.sun_path, folder->socket);
	assert_int_equal(bind(fd, (const struct sockaddr *)&place, sizeof(place)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
}

static void replaces_what_a_dead_server_left(void **state)
{
	struct client *client = *state;
	struct folder folder = make_folder();
	struct fabric_listener *listener;
	struct target target;

	for (unsigned i = 0; i < 3; i++) {
		leave_stale(&folder);
		assert_int_equal(fabric_listen(client->fabric, folder.address, &listener), 0);
		fabric_listener_close(listener);
	}
	leave_stale(&folder);
	target_open(&target, folder.address);
	assert_int_equal(pthread_create(&target.thread, NULL, target_run, &target), 0);
	fabric_endpoint_close(connect_to(client->queue, target.listener->address));
	target_stop(&target);
	remove_folder(&folder);
}

/* Only sockets that nobody listens at are replaced, and only one's own is removed. */
static void removes_nothing_else(void **state)
{
	struct client *client = *state;
	struct folder folder = make_folder();
	struct fabric_listener *listener;
	struct stat found;
	int fd = open(folder.socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fabric_listen(client->fabric, folder.address, &listener), -EADDRINUSE);
	assert_int_equal(stat(folder.socket, &found), 0);
	unlink(folder.socket);

	assert_int_equal(fabric_listen(client->fabric, folder.address, &listener), 0);
	unlink(folder.socket);
	leave_stale(&folder);
	fabric_listener_close(listener);
	assert_int_equal(stat(folder.socket, &found), 0);
	unlink(folder.socket);
	remove_folder(&folder);
}

static void knows_which_sockets_are_here(void **state)
{
	struct client *client = *state;
	char address[FABRIC_ADDRESS_MAX];
	struct fabric_endpoint *endpoint;
	char *last;

	strcpy(address, client->target.listener->address);
	last = &address[strlen(address) - 1];
	*last = *last == '0' ? '1' : '0';
	assert_int_equal(fabric_connect(client->queue, address, NULL, 0, NULL, &endpoint),
			 -EHOSTUNREACH);
	assert_non_null(strstr(afar_last_error(), "another transport"));
	assert_int_equal(fabric_connect(client->queue, "unix:/no/such@0123456789abcdef", NULL, 0,
					NULL, &endpoint),
			 -EHOSTUNREACH);
	assert_int_equal(fabric_connect(client->queue, "unix:", NULL, 0, NULL, &endpoint), -EINVAL);
	assert_int_equal(fabric_connect(client->queue, "127.0.0.1:1", NULL, 0, NULL, &endpoint),
			 -EINVAL);
	/* A user who writes it by hand need not know the mark. */
	*strrchr(address, '@') = '\0';
	fabric_endpoint_close(connect_to(client->queue, address));
	endpoint = connect_start(client->queue, "unix:/no/such", "");
	await_closed(endpoint, -ECONNREFUSED);
	fabric_endpoint_close(endpoint);
}

/* ---- Memory */

static void lends_whole_pieces_alone(void **state)
{
	struct client *client = *state;
	struct fabric_domain *domain = client->target.fabric->domain;
	uint8_t *data = client->target.data, *private = allocate(4096);
	struct fabric_memory memory;

	assert_int_equal(fabric_memory_register(domain, private, 4096, FABRIC_REMOTE_READ, &memory),
			 -EOPNOTSUPP);
	assert_int_equal(fabric_memory_register(domain, data, 4096, FABRIC_REMOTE_READ, &memory),
			 -EOPNOTSUPP);
	assert_int_equal(fabric_memory_register(domain, data + 4096, LENT - 4096,
						FABRIC_REMOTE_READ, &memory),
			 -EOPNOTSUPP);
	assert_int_equal(
		fabric_memory_register(domain, data, LENT + 4096, FABRIC_REMOTE_READ, &memory),
		-EOPNOTSUPP);
	assert_non_null(strstr(afar_last_error(), "shared memory"));
	free(private);
}

static void register_all(struct client *client, unsigned access, struct fabric_memory *out)
{
	assert_int_equal(fabric_memory_register(client->target.fabric->domain, client->target.data,
						LENT, access, out),
			 0);
}

static void says_what_may_be_used_again(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct fabric_memory memory;
	uint8_t byte;

	register_all(client, FABRIC_REMOTE_READ, &memory);
	assert_true(fabric_memory_deregister(&memory));
	assert_true(fabric_memory_deregister(&memory)); /* it is none any more */
	register_all(client, FABRIC_REMOTE_READ, &memory);
	transfer_one(endpoint, false, &byte, 1, &memory, 0);
	fabric_endpoint_close(endpoint);
	assert_false(fabric_memory_deregister(&memory));
}

/* Keys end one by one, on a connection that goes on. */
static void ends_keys_on_open_connections(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *endpoint = client_connect(client);
	struct fabric_memory memories[200], gone;
	struct fabric_completion completion;
	uint8_t byte = 1;

	for (unsigned i = 0; i < 200; i++) {
		register_all(client, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memories[i]);
		transfer_one(endpoint, true, &byte, 1, &memories[i], i);
	}
	gone = memories[0];
	for (unsigned i = 0; i < 199; i++)
		assert_false(fabric_memory_deregister(&memories[i]));
	transfer_one(endpoint, true, &byte, 1, &memories[199], 199);
	transfer_one(endpoint, true, &byte, 1, &client->target.all, 200);
	memset(client->target.data, 0xaa, 256);
	assert_int_equal(start_one(endpoint, true, &byte, 1, &gone, 0, 7), 0);
	completion = await_completion(client->queue);
	assert_int_equal(completion.context, 7);
	assert_true(completion.status < 0);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	assert_int_equal(client->target.data[0], 0xaa);
	assert_false(fabric_memory_deregister(&memories[199]));
}

/* Others' mappings of memory that was let go of are nobody's: they show zeroes, and keep what is written into
 * them from everybody. */
static void keeps_nothing_of_what_is_let_go(void **state)
{
	struct client *client = *state;
	uint8_t *memory = map_shared(4096), *other;
	int fd = dup(shared_descriptor(memory, 4096));
	uint8_t *late = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	(void)client;
	assert_true(late != MAP_FAILED);
	memset(memory, 0x5a, 4096);
	assert_int_equal(late[17], 0x5a);
	assert_int_equal(ftruncate(fd, 0), -1); /* nor can anybody make it shorter */
	assert_int_equal(errno, EPERM);
	shared_unmap(memory);
	assert_int_equal(late[17], 0);
	other = map_shared(4096);
	memset(late, 0x77, 4096);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(other[i], 0);
	shared_unmap(other);
	munmap(late, 4096);
	close(fd);
}

/* ---- Fencing a client that is stopped */

/* 0, or why it has failed. */
static int copy_once(struct fabric_endpoint *endpoint, bool is_write, void *data, size_t length,
		     const struct fabric_memory *memory, uint64_t offset)
{
	int status = start_one(endpoint, is_write, data, length, memory, offset, 1);

	return status != 0 ? status : await_completion(endpoint->queue).status;
}

/* The child writes without end, or reads, until that fails, and counts. All that it read before must be what
 * was there: no zero. Its status says whether all was well. */
static int copy_as_child(const char *address, const char *key, bool is_write)
{
	const size_t unit = 8 * MIB;
	struct fabric_memory memory = {.key = strtoull(key, NULL, 0)};
	struct fabric_endpoint *endpoint;
	struct fabric_queue *queue;
	struct fabric *fabric;
	uint8_t *mine = allocate(unit);
	uint64_t count = 0;
	int status = 0;

	memset(mine, 0xee, unit);
	assert_int_equal(fabric_open("local", &fabric), 0);
	assert_int_equal(fabric_queue_open(fabric, DEPTH, &queue), 0);
	endpoint = connect_to(queue, address);
	while (status == 0) {
		for (size_t i = 0; i < unit; i += 4096)
			assert_true(mine[i] != 0);
		count++;
		status = copy_once(endpoint, true, &count, sizeof(count), &memory, COUNT_AT);
		if (status == 0)
			status = copy_once(endpoint, is_write, mine, unit, &memory, 0);
	}
	assert_true(status == -ENOTCONN || status == -ECONNRESET);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	fabric_queue_close(queue);
	fabric_close(fabric);
	free(mine);
	return 0;
}

static pid_t start_child(const struct target *target, bool is_write)
{
	char key[32];
	pid_t pid;

	snprintf(key, sizeof(key), "%llu", (unsigned long long)target->all.key);
	pid = fork_child();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/proc/self/exe", "unit_fabric", "fabric_local", CHILD_ARG,
		      target->listener->address, key, is_write ? "write" : "read", NULL);
		_exit(127);
	}
	return pid;
}

/* Accepts it and lends it the memory; returns when it copies: it has just counted. */
static struct fabric_endpoint *serve_child(struct target *target)
{
	const volatile uint64_t *count = (uint64_t *)(void *)(target->data + COUNT_AT);
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_endpoint *endpoint = NULL;
	struct fabric_completion completion;
	struct fabric_request request;
	struct fabric_event event;

	*(uint64_t *)(void *)(target->data + COUNT_AT) = 0;
	while (*count < 3) {
		if (!endpoint && fabric_listener_next(target->listener, &request) == 0)
			assert_int_equal(fabric_accept(&request, target->queue,
						       target->fabric->domain, NULL, &endpoint),
					 0);
		assert_int_equal(fabric_queue_poll(target->queue, &completion, 1), 0);
		if (fabric_queue_event(target->queue, &event) == 1)
			assert_int_equal(event.kind, FABRIC_CONNECTED);
		assert_true(clock_ns() < deadline);
	}
	return endpoint;
}

static void fences_who_is_stopped_in_mid_copy(void **state)
{
	struct fabric_endpoint *endpoint;
	struct target target;
	uint8_t *next;
	int status;
	pid_t pid;

	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		target_open(&target, any_port());
		memset(target.data, 0x11, LENT);
		pid = start_child(&target, round < 4);
		endpoint = serve_child(&target);
		assert_int_equal(kill(pid, SIGSTOP), 0);
		assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
		assert_false(fabric_memory_deregister(&target.all));
		if (round % 2 == 0)
			fabric_endpoint_close(endpoint);
		assert_true(fabric_memory_deregister(&target.read_only));
		shared_unmap(target.data);
		next = map_shared(LENT);
		memset(next, 0x5a, LENT);

		assert_int_equal(kill(pid, SIGCONT), 0);
		if (round % 2 != 0) /* between two copies: then it asks for the key again */
			await_closed(endpoint, -ECONNRESET);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		for (size_t i = 0; i < LENT; i += 8)
			assert_int_equal(next[i], 0x5a);
		if (round % 2 != 0)
			fabric_endpoint_close(endpoint);
		target.data = next;
		target_close(&target);
	}
}

/* One end has been ended and looks; true: the other is not waited for. */
static bool is_closed_at_once(struct target *target)
{
	struct fabric_completion completion;
	struct fabric_event event;

	/* Nothing is awaited here but that nothing comes. */
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(fabric_queue_poll(target->queue, &completion, 1), 0);
		if (fabric_queue_event(target->queue, &event) == 0)
			continue;
		assert_int_equal(event.kind, FABRIC_CLOSED);
		return true;
	}
	return false;
}

/* A client that was stopped in the middle of a copy may go on with it for as long as it has not said
 * otherwise. Nobody waits for one that was stopped between two. */
static void waits_for_who_is_stopped(void **state)
{
	struct fabric_endpoint *endpoint;
	struct target target;
	unsigned nr_awaited = 0;
	bool is_closed;
	int status;
	pid_t pid;

	(void)state;
	for (unsigned round = 0; nr_awaited < 4; round++) {
		target_open(&target, any_port());
		pid = start_child(&target, true);
		endpoint = serve_child(&target);
		assert_int_equal(kill(pid, SIGSTOP), 0);
		assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
		assert_true(fabric_endpoint_end(endpoint));
		assert_int_equal(start_one(endpoint, false, target.data, 1, &target.all, 0, 1),
				 -ENOTCONN);
		is_closed = is_closed_at_once(&target);
		nr_awaited += !is_closed;
		if (is_closed)
			memset(target.data, 0x5a, LENT);
		assert_int_equal(kill(pid, round % 2 == 0 ? SIGCONT : SIGKILL), 0);
		if (!is_closed) {
			await_closed(endpoint, -ECONNRESET);
			memset(target.data, 0x5a, LENT);
		}
		/* The memory is ours alone since we were told. */
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(round % 2 == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 0
					   : WIFSIGNALED(status));
		for (size_t i = 0; i < LENT; i += 8)
			assert_int_equal(target.data[i], 0x5a);
		fabric_endpoint_close(endpoint);
		target_close(&target);
	}
}

/* It has memory, does nothing, and never looks. */
static void does_not_wait_for_who_is_idle(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *connecting, *accepting;
	struct fabric_completion completion;
	struct target other;
	uint8_t byte = 1;

	target_open(&other, any_port());
	connect_pair(client, &other, &connecting, &accepting);
	assert_int_equal(start_one(connecting, true, &byte, 1, &other.all, 0, 1), 0);
	while (fabric_queue_poll(client->queue, &completion, 1) == 0)
		assert_int_equal(fabric_queue_poll(other.queue, &completion, 1), 0);
	assert_int_equal(completion.status, 0);
	assert_true(fabric_endpoint_end(accepting));
	await_closed(accepting, -ECONNRESET);
	other.data[0] = 0x5a;
	assert_int_equal(start_one(connecting, true, &byte, 1, &other.all, 0, 2), -ENOTCONN);
	assert_int_equal(other.data[0], 0x5a);
	await_closed(connecting, -ECONNRESET);
	fabric_endpoint_close(connecting);
	fabric_endpoint_close(accepting);
	target_close(&other);
}

/* A child that it has not closed its descriptors for must not keep a connection. */
static void ends_though_a_child_has_it_too(void **state)
{
	struct client *client = *state;
	struct fabric_endpoint *connecting, *accepting;
	struct target other;
	pid_t pid;

	target_open(&other, any_port());
	connect_pair(client, &other, &connecting, &accepting);
	pid = fork_child();
	assert_true(pid >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	fabric_endpoint_close(connecting);
	await_closed(accepting, -ECONNRESET);
	fabric_endpoint_close(accepting);
	target_close(&other);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- Messages */

struct pair {
	struct target other;
	struct fabric_endpoint *ends[2];
};

static void open_pair(struct client *client, struct pair *pair)
{
	target_open(&pair->other, any_port());
	connect_pair(client, &pair->other, &pair->ends[0], &pair->ends[1]);
}

static void close_pair(struct pair *pair)
{
	fabric_endpoint_close(pair->ends[0]);
	fabric_endpoint_close(pair->ends[1]);
	target_close(&pair->other);
}

static int say(struct fabric_endpoint *endpoint, void *data, size_t length, uint64_t context)
{
	return fabric_send(endpoint, &(struct fabric_piece){data, length, NULL}, context);
}

static void await_message(struct fabric_endpoint *endpoint, void *data, size_t length,
			  uint64_t context)
{
	assert_int_equal(
		fabric_receive(endpoint, &(struct fabric_piece){data, length, NULL}, context), 0);
}

/* One completion of each end's, whichever is first. */
static void expect_both(struct pair *pair, unsigned from, uint64_t sent, uint64_t received)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	const uint64_t expected[] = {sent, received};
	struct fabric_completion completion;
	bool is_done[2] = {false};

	while (!is_done[0] || !is_done[1]) {
		for (unsigned i = 0; i < 2; i++) {
			struct fabric_queue *queue = pair->ends[i == 0 ? from : 1 - from]->queue;

			if (fabric_queue_poll(queue, &completion, 1) == 0)
				continue;
			assert_false(is_done[i]);
			assert_int_equal(completion.context, expected[i]);
			assert_int_equal(completion.status, 0);
			is_done[i] = true;
		}
		assert_true(clock_ns() < deadline);
	}
}

static void carries_messages_of_all_lengths(void **state)
{
	static const size_t lengths[] = {
		0,  1,	 7,	8,     9,     4095,  LOCAL_RING_BYTES - 9,     LOCAL_RING_BYTES - 8,
		17, 100, 32767, 32768, 32769, 65536, 5 * LOCAL_RING_BYTES + 3, MIB};
	uint8_t *sent = allocate(MIB), *received = allocate(MIB);
	struct client *client = *state;
	struct pair pair;

	open_pair(client, &pair);
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i / 2];

		fill(sent, MIB, i);
		memset(received, 0xaa, MIB);
		/* The message comes first, or the receive. */
		if (i % 2 == 0)
			assert_int_equal(say(pair.ends[i % 2], sent, length, 2 * i), 0);
		await_message(pair.ends[1 - i % 2], received, MIB, 2 * i + 1);
		if (i % 2 != 0)
			assert_int_equal(say(pair.ends[i % 2], sent, length, 2 * i), 0);
		expect_both(&pair, i % 2, 2 * i, 2 * i + 1);
		assert_memory_equal(received, sent, length);
		for (size_t j = length; j < MIB; j += 997)
			assert_int_equal(received[j], 0xaa);
	}
	close_pair(&pair);
	free(sent);
	free(received);
}

static void ends_over_what_is_too_long(void **state)
{
	struct client *client = *state;
	struct fabric_completion completion;
	uint8_t sent[64] = {0}, received[64];
	struct pair pair;

	open_pair(client, &pair);
	memset(received, 0xaa, sizeof(received));
	await_message(pair.ends[1], received, 63, 1);
	assert_int_equal(say(pair.ends[0], sent, 64, 2), 0);
	completion = await_completion(pair.ends[1]->queue);
	assert_int_equal(completion.context, 1);
	assert_int_equal(completion.status, -ECONNRESET);
	await_closed(pair.ends[1], -ECONNRESET);
	for (unsigned i = 0; i < sizeof(received); i++)
		assert_int_equal(received[i], 0xaa);
	await_closed(pair.ends[0], -ECONNRESET);
	close_pair(&pair);
}

static void does_not_wait_for_who_does_not_read(void **state)
{
	struct client *client = *state;
	static uint8_t sent[4096], received[4096];
	struct fabric_completion completion;
	unsigned nr_sent = 0, nr_told = 0;
	struct pair pair;
	uint8_t byte;
	int status;

	open_pair(client, &pair);
	/* Some are in the ring and told to be sent, others wait for room. */
	do {
		status = say(pair.ends[0], sent, sizeof(sent), nr_sent);
		if (status == 0)
			nr_sent++;
		while (fabric_queue_poll(client->queue, &completion, 1) == 1)
			assert_int_equal(completion.context, nr_told++);
	} while (status == 0);
	assert_int_equal(status, -EAGAIN);
	assert_true(nr_told < nr_sent);
	/* The rest goes on once something is read. */
	for (unsigned i = 0; i < nr_sent; i++) {
		await_message(pair.ends[1], received, sizeof(received), i);
		while (fabric_queue_poll(pair.other.queue, &completion, 1) == 0) {
			if (fabric_queue_poll(client->queue, &completion, 1) == 1)
				assert_int_equal(completion.context, nr_told++);
		}
		assert_int_equal(completion.context, i);
		assert_int_equal(completion.status, 0);
	}
	while (nr_told < nr_sent)
		assert_int_equal(await_completion(client->queue).context, nr_told++);
	/* The room has nothing to do with transfers. */
	assert_int_equal(start_one(pair.ends[0], false, &byte, 1, &pair.other.all, 0, 1), 0);
	while (fabric_queue_poll(client->queue, &completion, 1) == 0)
		assert_int_equal(fabric_queue_poll(pair.other.queue, &completion, 1), 0);
	assert_int_equal(completion.status, 0);
	close_pair(&pair);
}

/* The other end of a conversation, which sleeps whenever it has nothing to do. */
struct echo {
	struct fabric_endpoint *endpoint;
	unsigned nr_rounds, nr_sleeps;
	size_t length;
	uint8_t data[3 * LOCAL_RING_BYTES];
};

static void await_asleep(struct fabric_queue *queue, uint64_t context, unsigned *nr_sleeps)
{
	struct pollfd fd = {.fd = fabric_queue_fd(queue), .events = POLLIN};
	struct fabric_completion completion;

	while (fabric_queue_poll(queue, &completion, 1) == 0) {
		if (fabric_queue_arm(queue) != 0)
			continue;
		(*nr_sleeps)++;
		assert_int_equal(poll(&fd, 1, GRACE_MS), 1);
	}
	assert_int_equal(completion.context, context);
	assert_int_equal(completion.status, 0);
}

static void converse(struct echo *echo, bool is_first)
{
	struct fabric_endpoint *endpoint = echo->endpoint;

	for (unsigned i = 0; i < echo->nr_rounds; i++) {
		if (is_first) {
			fill(echo->data, echo->length, i);
			assert_int_equal(say(endpoint, echo->data, echo->length, 1), 0);
			await_asleep(endpoint->queue, 1, &echo->nr_sleeps);
		}
		memset(echo->data, 0, echo->length);
		await_message(endpoint, echo->data, echo->length, 2);
		await_asleep(endpoint->queue, 2, &echo->nr_sleeps);
		if (!is_first) {
			assert_int_equal(say(endpoint, echo->data, echo->length, 1), 0);
			await_asleep(endpoint->queue, 1, &echo->nr_sleeps);
		}
	}
}

static void *converse_second(void *argument)
{
	converse(argument, false);
	return NULL;
}

static void wakes_who_sleeps(void **state)
{
	static struct echo echoes[2];
	static uint8_t expected[sizeof(echoes[0].data)];
	const size_t lengths[] = {32, 3 * LOCAL_RING_BYTES}; /* one waits for room, too */
	struct client *client = *state;
	struct fabric_event event;
	struct pair pair;
	pthread_t thread;

	open_pair(client, &pair);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned j = 0; j < 2; j++) {
			echoes[j].endpoint = pair.ends[j];
			echoes[j].nr_rounds = 500;
			echoes[j].nr_sleeps = 0;
			echoes[j].length = lengths[i];
		}
		assert_int_equal(pthread_create(&thread, NULL, converse_second, &echoes[1]), 0);
		converse(&echoes[0], true);
		pthread_join(thread, NULL);
		fill(expected, lengths[i], 499);
		assert_memory_equal(echoes[0].data, expected, lengths[i]);
		assert_true(echoes[0].nr_sleeps > 0);
		assert_true(echoes[1].nr_sleeps > 0);
	}
	assert_int_equal(fabric_queue_event(client->queue, &event), 0);
	close_pair(&pair);
}

/* Closes the end that has not read it all yet, or the one that has not sent it all. */
static void closes_in_mid_message(void **state)
{
	struct client *client = *state;
	uint8_t *sent = allocate(MIB), *received = allocate(MIB);
	struct fabric_completion completion;
	struct pair pair;

	for (unsigned i = 0; i < 4; i++) {
		open_pair(client, &pair);
		await_message(pair.ends[1], received, MIB, 1);
		assert_int_equal(say(pair.ends[0], sent, MIB, 2), 0);
		if (i >= 2)
			assert_int_equal(fabric_queue_poll(pair.other.queue, &completion, 1), 0);
		fabric_endpoint_close(pair.ends[i % 2]);
		memset(i % 2 == 0 ? sent : received, 0x5a, MIB);
		completion = await_completion(pair.ends[1 - i % 2]->queue);
		assert_int_equal(completion.context, i % 2 == 0 ? 1 : 2);
		assert_int_equal(completion.status, -ECONNRESET);
		await_closed(pair.ends[1 - i % 2], -ECONNRESET);
		for (size_t j = 0; i % 2 != 0 && j < MIB; j++)
			assert_int_equal(received[j], 0x5a);
		fabric_endpoint_close(pair.ends[1 - i % 2]);
		target_close(&pair.other);
	}
	free(sent);
	free(received);
}

TEST_GROUP(fabric_local)
{
#define WITH_TARGET(test) cmocka_unit_test_setup_teardown(test, client_setup, client_teardown)
	const struct CMUnitTest tests[] = {
		WITH_TARGET(says_why_it_cannot_listen),
		WITH_TARGET(listens_for_its_user_alone),
		WITH_TARGET(replaces_what_a_dead_server_left),
		WITH_TARGET(removes_nothing_else),
		WITH_TARGET(knows_which_sockets_are_here),
		WITH_TARGET(lends_whole_pieces_alone),
		WITH_TARGET(says_what_may_be_used_again),
		WITH_TARGET(ends_keys_on_open_connections),
		WITH_TARGET(keeps_nothing_of_what_is_let_go),
		WITH_TARGET(fences_who_is_stopped_in_mid_copy),
		WITH_TARGET(waits_for_who_is_stopped),
		WITH_TARGET(does_not_wait_for_who_is_idle),
		WITH_TARGET(ends_though_a_child_has_it_too),
		WITH_TARGET(carries_messages_of_all_lengths),
		WITH_TARGET(ends_over_what_is_too_long),
		WITH_TARGET(does_not_wait_for_who_does_not_read),
		WITH_TARGET(wakes_who_sleeps),
		WITH_TARGET(closes_in_mid_message),
	};

	setenv("AFAR_TEST_TRANSPORT", "local", 1);
	if (argc == 5 && strcmp(argv[1], CHILD_ARG) == 0)
		return copy_as_child(argv[2], argv[3], strcmp(argv[4], "write") == 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
