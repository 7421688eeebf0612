/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests' target and client: see fabric_fixture.h. Every loop waits on descriptors or has a
 * deadline.
 */
#include "lib/fabric/fabric_fixture.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <urcu/list.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/shared.h"
#include "lib/base/transport.h"

#define STOP_MS 2000

/* ---- Places */

struct folder make_folder(void)
{
	struct folder folder = {.path = "/tmp/afar-XXXXXX"};

	assert_non_null(mkdtemp(folder.path));
	snprintf(folder.socket, sizeof(folder.socket), "%s/socket", folder.path);
	snprintf(folder.address, sizeof(folder.address), "unix:%s", folder.socket);
	return folder;
}

void remove_folder(const struct folder *folder)
{
	assert_int_equal(rmdir(folder->path), 0);
}

/*
 * ---- Local memory: on transports that want it registered, it stays so until its fabric is closed
 */

struct local {
	struct fabric_memory memory;
	struct cds_list_head node; /* in locals */
};

static CDS_LIST_HEAD(locals);
static pthread_mutex_t locals_lock = PTHREAD_MUTEX_INITIALIZER;

void *descriptor_of(struct fabric *fabric, void *data, size_t length)
{
	struct local *local;

	if (!fabric->attributes.needs_local_registration)
		return NULL;
	local = calloc(1, sizeof(*local));
	assert_non_null(local);
	assert_int_equal(
		fabric_memory_register(fabric->domain, data, length, FABRIC_LOCAL, &local->memory),
		0);
	pthread_mutex_lock(&locals_lock);
	cds_list_add(&local->node, &locals);
	pthread_mutex_unlock(&locals_lock);
	return local->memory.descriptor;
}

void close_fabric(struct fabric *fabric)
{
	struct local *local, *next;

	cds_list_for_each_entry_safe (local, next, &locals, node) {
		if (local->memory.domain->fabric != fabric)
			continue;
		fabric_memory_deregister(&local->memory);
		cds_list_del(&local->node);
		free(local);
	}
	fabric_close(fabric);
}

/* ---- The target */

uint8_t *map_shared(size_t length)
{
	void *memory;

	assert_int_equal(shared_map(length, 4096, &memory), 0);
	return memory;
}

void target_open(struct target *target, const char *address)
{
	memset(target, 0, sizeof(*target));
	assert_int_equal(fabric_open_at(test_transport(), address, &target->fabric), 0);
	assert_int_equal(fabric_listen(target->fabric, address, &target->listener), 0);
	assert_int_equal(fabric_queue_open(target->fabric, 1, &target->queue), 0);
	target->data = map_shared(LENT);
	target->small_data = is_on_local() ? map_shared(4096) : target->data;
	assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
						&target->all),
			 0);
	assert_int_equal(fabric_memory_register(target->fabric->domain, target->data, LENT,
						FABRIC_REMOTE_READ, &target->read_only),
			 0);
	assert_int_equal(fabric_memory_register(target->fabric->domain, target->small_data, 4096,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
						&target->small),
			 0);
	target->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(target->stop_fd >= 0);
}

static void target_take_requests(struct target *target)
{
	struct fabric_request request;
	struct fabric_endpoint *endpoint;

	while (fabric_listener_next(target->listener, &request) == 0) {
		target->last = request;
		atomic_fetch_add(&target->nr_requests, 1);
		if (request.private_length == 6 && memcmp(request.private_data, "reject", 6) == 0)
			fabric_reject(target->listener, &request);
		else if (fabric_accept(&request, target->queue, target->fabric->domain, target,
				       &endpoint) == 0)
			target->nr_open++;
		else
			fabric_reject(target->listener, &request);
	}
}

static void target_take_events(struct target *target)
{
	struct fabric_event event;

	while (fabric_queue_event(target->queue, &event) == 1) {
		if (event.kind == FABRIC_CLOSED) {
			fabric_endpoint_close(event.endpoint);
			target->nr_open--;
		}
	}
}

void *target_run(void *argument)
{
	struct target *target = argument;
	struct fabric_completion completion;
	bool is_stopping = false;
	struct pollfd fds[] = {
		{.fd = fabric_queue_fd(target->queue), .events = POLLIN},
		{.fd = fabric_listener_fd(target->listener), .events = POLLIN},
		{.fd = target->stop_fd, .events = POLLIN},
	};

	while (!is_stopping || target->nr_open > 0) {
		if (!is_stopping)
			target_take_requests(target);
		if (fabric_queue_poll(target->queue, &completion, 1) != 0)
			return target; /* it has started nothing */
		target_take_events(target);
		if (fabric_queue_arm(target->queue) != 0 || (is_stopping && target->nr_open == 0))
			continue;
		if (poll(fds, is_stopping ? 1 : 3, is_stopping ? STOP_MS : -1) == 0)
			return target; /* a test has failed and left a connection open */
		is_stopping = is_stopping || fds[2].revents != 0;
	}
	return NULL;
}

static void target_start(struct target *target)
{
	target_open(target, any_port());
	assert_int_equal(pthread_create(&target->thread, NULL, target_run, target), 0);
}

void target_close(struct target *target)
{
	fabric_memory_deregister(&target->all);
	fabric_memory_deregister(&target->read_only);
	fabric_memory_deregister(&target->small);
	fabric_queue_close(target->queue);
	fabric_listener_close(target->listener);
	close_fabric(target->fabric);
	if (target->small_data != target->data)
		shared_unmap(target->small_data);
	shared_unmap(target->data);
	close(target->stop_fd);
}

void target_stop(struct target *target)
{
	uint64_t one = 1;
	void *failed;

	assert_int_equal(write(target->stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(target->thread, &failed);
	assert_null(failed);
	target_close(target);
}

/* ---- The initiator */

int client_setup(void **state)
{
	struct client *client = calloc(1, sizeof(*client));

	assert_non_null(client);
	target_start(&client->target);
	assert_int_equal(fabric_open_at(test_transport(), any_port(), &client->fabric), 0);
	assert_int_equal(fabric_queue_open(client->fabric, DEPTH, &client->queue), 0);
	*state = client;
	return 0;
}

int client_teardown(void **state)
{
	struct client *client = *state;

	fabric_queue_close(client->queue);
	close_fabric(client->fabric);
	target_stop(&client->target);
	free(client);
	return 0;
}

static void sleep_on(struct fabric_queue *queue)
{
	struct pollfd fd = {.fd = fabric_queue_fd(queue), .events = POLLIN};

	if (fabric_queue_arm(queue) == 0)
		assert_int_equal(poll(&fd, 1, GRACE_MS), 1);
}

struct fabric_event await_event(struct fabric_queue *queue)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	struct fabric_event event;

	for (;;) {
		while (fabric_queue_poll(queue, &completion, 1) > 0)
			;
		if (fabric_queue_event(queue, &event) == 1)
			return event;
		assert_true(clock_ns() < deadline);
		sleep_on(queue);
	}
}

void await_closed(struct fabric_endpoint *endpoint, int status)
{
	struct fabric_event event = await_event(endpoint->queue);

	assert_int_equal(event.kind, FABRIC_CLOSED);
	assert_ptr_equal(event.endpoint, endpoint);
	assert_int_equal(event.status, status);
}

struct fabric_completion await_completion(struct fabric_queue *queue)
{
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;

	while (fabric_queue_poll(queue, &completion, 1) == 0)
		assert_true(clock_ns() < deadline);
	return completion;
}

struct fabric_endpoint *connect_start(struct fabric_queue *queue, const char *address,
				      const char *private_data)
{
	struct fabric_endpoint *endpoint;

	assert_int_equal(fabric_connect(queue, address, private_data, strlen(private_data), queue,
					&endpoint),
			 0);
	assert_ptr_equal(endpoint->owner, queue);
	return endpoint;
}

struct fabric_endpoint *connect_to(struct fabric_queue *queue, const char *address)
{
	struct fabric_endpoint *endpoint = connect_start(queue, address, "ticket");
	struct fabric_event event = await_event(queue);

	assert_int_equal(event.kind, FABRIC_CONNECTED);
	assert_int_equal(event.status, 0);
	assert_ptr_equal(event.endpoint, endpoint);
	return endpoint;
}

struct fabric_endpoint *client_connect(struct client *client)
{
	return connect_to(client->queue, client->target.listener->address);
}

int start_one(struct fabric_endpoint *endpoint, bool is_write, void *data, size_t length,
	      const struct fabric_memory *memory, uint64_t offset, uint64_t context)
{
	struct fabric_piece piece = {
		.addr = data,
		.length = length,
		.descriptor = descriptor_of(endpoint->queue->fabric, data, length),
	};

	return (is_write ? fabric_write : fabric_read)(endpoint, &piece, 1, memory->base + offset,
						       memory->key, context);
}

void transfer_one(struct fabric_endpoint *endpoint, bool is_write, void *data, size_t length,
		  const struct fabric_memory *memory, uint64_t offset)
{
	struct fabric_completion completion;

	assert_int_equal(start_one(endpoint, is_write, data, length, memory, offset, 0xfeed), 0);
	completion = await_completion(endpoint->queue);
	assert_int_equal(completion.context, 0xfeed);
	assert_int_equal(completion.status, 0);
}

uint8_t *allocate(size_t length)
{
	uint8_t *data = malloc(length);

	assert_non_null(data);
	return data;
}

void connect_pair(struct client *client, struct target *other, struct fabric_endpoint **connecting,
		  struct fabric_endpoint **accepting)
{
	struct fabric_queue *queues[] = {client->queue, other->queue};
	uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	struct fabric_request request;
	struct fabric_event event;
	bool is_up[2] = {false};

	*connecting = connect_start(client->queue, other->listener->address, "");
	while (fabric_listener_next(other->listener, &request) != 0) {
		assert_int_equal(fabric_queue_event(client->queue, &event), 0);
		assert_true(clock_ns() < deadline);
	}
	assert_int_equal(
		fabric_accept(&request, other->queue, other->fabric->domain, NULL, accepting), 0);
	/*
	 * Neither end may sleep until the other has gone on: which one waits for which is the
	 * transport's.
	 */
	while (!is_up[0] || !is_up[1]) {
		for (unsigned i = 0; i < 2; i++) {
			fabric_queue_poll(queues[i], &completion, 1);
			if (fabric_queue_event(queues[i], &event) == 1) {
				assert_int_equal(event.kind, FABRIC_CONNECTED);
				is_up[i] = true;
			}
		}
		assert_true(clock_ns() < deadline);
	}
}
