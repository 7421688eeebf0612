/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's end of a data connection; see data_client.h. */
#include "lib/fabric/data_client.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "fabric/paged.h"
#include "lib/base/transport.h"

void data_client_open(struct data_client *client)
{
	*client = (struct data_client){0};
	assert_int_equal(fabric_open_at(test_transport(), any_port(), &client->fabric), 0);
	assert_int_equal(fabric_queue_open(client->fabric, 8, &client->queue), 0);
}

void data_client_disconnect(struct data_client *client)
{
	if (client->endpoint)
		fabric_endpoint_close(client->endpoint);
	client->endpoint = NULL;
}

void data_client_close(struct data_client *client)
{
	data_client_disconnect(client);
	fabric_queue_close(client->queue);
	fabric_close(client->fabric);
}

int data_client_step(struct data_client *client, struct fabric_completion *completion,
		     struct fabric_event *event)
{
	struct pollfd ready = {.fd = fabric_queue_fd(client->queue), .events = POLLIN};

	if (fabric_queue_poll(client->queue, completion, 1) == 1)
		return 1;
	if (fabric_queue_event(client->queue, event) == 1)
		return 2;
	if (fabric_queue_arm(client->queue) == 0)
		assert_int_equal(poll(&ready, 1, DATA_CLIENT_PATIENCE_MS), 1);
	return 0;
}

int data_client_connect(struct data_client *client, const char *address, const void *shown,
			size_t length)
{
	struct fabric_completion completion;
	struct fabric_event event;

	assert_int_equal(
		fabric_connect(client->queue, address, shown, length, client, &client->endpoint),
		0);
	while (data_client_step(client, &completion, &event) != 2)
		;
	if (event.kind == FABRIC_CONNECTED)
		return 0;
	data_client_disconnect(client);
	return event.status;
}

void data_client_await_closed(struct data_client *client)
{
	struct fabric_completion completion;
	struct fabric_event event = {0};

	while (data_client_step(client, &completion, &event) != 2 || event.kind != FABRIC_CLOSED)
		;
	data_client_disconnect(client);
}

enum transfer_kind { TRANSFER_READ, TRANSFER_WRITE, TRANSFER_DURABLE };

static int begin(struct data_client *client, enum transfer_kind kind,
		 const struct fabric_piece *piece, uint64_t remote, uint64_t key)
{
	if (kind == TRANSFER_READ)
		return fabric_read(client->endpoint, piece, 1, remote, key, client->context);
	return kind == TRANSFER_WRITE
		       ? fabric_write(client->endpoint, piece, 1, remote, key, client->context)
		       : fabric_paged_transfer(client->endpoint,
					       FABRIC_PAGED_WRITE | FABRIC_PAGED_DURABLE, piece, 1,
					       remote, key, client->context);
}

static unsigned access_for(const struct fabric *fabric, enum transfer_kind kind)
{
	const unsigned local = kind == TRANSFER_READ ? FABRIC_LOCAL_WRITE : FABRIC_LOCAL_READ;
	const unsigned remote = kind == TRANSFER_READ ? FABRIC_REMOTE_WRITE : FABRIC_REMOTE_READ;

	return fabric->attributes.lends_local_memory ? local | remote : local;
}

/* 0, or what it failed with; after a failure the connection is closed. */
static int data_client_transfer_once(struct data_client *client, enum transfer_kind kind,
				     void *data, size_t length, uint64_t remote, uint64_t key)
{
	struct fabric_piece piece = {.addr = data, .length = length};
	struct fabric_completion completion = {0};
	struct fabric_memory local;
	struct fabric_event event;
	int status, step;

	if (!client->endpoint)
		return -ENOTCONN;
	assert_int_equal(fabric_memory_register(client->fabric->domain, data, length,
						access_for(client->fabric, kind), &local),
			 0);
	piece.descriptor = local.descriptor;
	client->context++;
	status = begin(client, kind, &piece, remote, key);
	while (status == 0) {
		step = data_client_step(client, &completion, &event);
		if (step == 1 && completion.context == client->context) {
			status = completion.status;
			break;
		}
		if (step == 2 && event.kind == FABRIC_CLOSED)
			status = -ECONNRESET;
	}
	if (status != 0)
		data_client_disconnect(client);
	fabric_memory_deregister(&local);
	return status;
}

int data_client_transfer(struct data_client *client, int is_write, void *data, size_t length,
			 uint64_t remote, uint64_t key)
{
	uint64_t max = client->fabric->attributes.transfer_bytes_max;
	int status = 0;

	for (size_t done = 0, part; done < length && status == 0; done += part) {
		part = length - done < max ? length - done : (size_t)max;
		status =
			data_client_transfer_once(client, is_write ? TRANSFER_WRITE : TRANSFER_READ,
						  (char *)data + done, part, remote + done, key);
	}
	return status;
}

int data_client_write(struct data_client *client, const void *data, size_t length, uint64_t remote,
		      uint64_t key)
{
	return data_client_transfer(client, 1, (void *)(uintptr_t)data, length, remote, key);
}

int data_client_read(struct data_client *client, void *data, size_t length, uint64_t remote,
		     uint64_t key)
{
	return data_client_transfer(client, 0, data, length, remote, key);
}

int data_client_write_durable(struct data_client *client, const void *data, size_t length,
			      uint64_t remote, uint64_t key)
{
	return data_client_transfer_once(client, TRANSFER_DURABLE, (void *)(uintptr_t)data, length,
					 remote, key);
}

struct fabric_memory data_client_lend(struct data_client *client, void *addr, size_t length)
{
	struct fabric_memory memory;

	const unsigned remote = client->fabric->attributes.lends_local_memory
					? FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE
					: 0;

	assert_int_equal(fabric_memory_register(client->fabric->domain, addr, length,
						FABRIC_LOCAL | remote, &memory),
			 0);
	return memory;
}

int data_client_ask(struct data_client *client, const struct message_request *request,
		    uint64_t *value)
{
	struct message_request wire = {
		.kind = htole32(request->kind),
		.tag = htole32(request->tag),
		.extent = htole64(request->extent),
		.offset = htole64(request->offset),
		.operand = htole64(request->operand),
		.compare = htole64(request->compare),
	};
	struct message_reply reply = {0};
	struct fabric_memory out_memory = data_client_lend(client, &wire, sizeof(wire));
	struct fabric_memory in_memory = data_client_lend(client, &reply, sizeof(reply));
	const struct fabric_piece out = {&wire, sizeof(wire), out_memory.descriptor};
	const struct fabric_piece in = {&reply, sizeof(reply), in_memory.descriptor};
	const uint64_t received = ++client->context, sent = ++client->context;
	struct fabric_completion completion = {0};
	struct fabric_event event;
	unsigned nr_done = 0;

	assert_int_equal(fabric_receive(client->endpoint, &in, received), 0);
	assert_int_equal(fabric_send(client->endpoint, &out, sent), 0);
	while (nr_done < 2) {
		int step = data_client_step(client, &completion, &event);

		assert_false(step == 2 && event.kind == FABRIC_CLOSED);
		if (step != 1)
			continue;
		assert_int_equal(completion.status, 0);
		nr_done += completion.context == received || completion.context == sent;
	}
	fabric_memory_deregister(&out_memory);
	fabric_memory_deregister(&in_memory);
	assert_int_equal(le32toh(reply.tag), request->tag);
	*value = le64toh(reply.value);
	return (int)le32toh((uint32_t)reply.status);
}

int data_client_sync(struct data_client *client, uint64_t *opening)
{
	return data_client_ask(client,
			       &(struct message_request){.kind = MESSAGE_SYNC, .operand = *opening},
			       opening);
}
