/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric in which nothing moves by itself; see fake_fabric.h. */
#include "lib/client/fake_fabric.h"
#include "fabric/atomics.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

struct fake_world world;

/* ---- The fabric */

static int fake_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out)
{
	(void)depth;
	world.fabric_queue.fabric = fabric;
	*out = &world.fabric_queue;
	return 0;
}

static void fake_queue_close(struct fabric_queue *queue)
{
	(void)queue;
}

static int fake_queue_fd(struct fabric_queue *queue)
{
	(void)queue;
	return world.fd;
}

static void fake_queue_hold(struct fabric_queue *queue)
{
	assert_ptr_equal(queue, &world.fabric_queue);
	assert_false(world.is_holding);
	world.is_holding = true;
}

static void fake_queue_release(struct fabric_queue *queue)
{
	assert_ptr_equal(queue, &world.fabric_queue);
	assert_true(world.is_holding);
	world.is_holding = false;
}

static int fake_queue_arm(struct fabric_queue *queue)
{
	(void)queue;
	assert_false(world.is_holding);
	return world.nr_completions ? -EAGAIN : 0;
}

static int fake_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max)
{
	(void)queue;
	assert_false(world.is_holding);
	if (!world.nr_completions || max == 0)
		return 0;
	*out = world.completion;
	world.nr_completions--;
	return 1;
}

static int fake_queue_event(struct fabric_queue *queue, struct fabric_event *out)
{
	(void)queue;
	if (!world.event.endpoint)
		return 0;
	*out = world.event;
	world.event.endpoint = NULL;
	return 1;
}

static void fake_drop(unsigned i)
{
	world.nr_transfers--;
	memmove(&world.transfers[i], &world.transfers[i + 1],
		(world.nr_transfers - i) * sizeof(world.transfers[0]));
}

static struct message_reply *fake_take_receive(const struct fabric_endpoint *endpoint)
{
	for (unsigned i = 0; i < world.nr_receives; i++) {
		struct message_reply *reply = world.receives[i].reply;

		if (world.receives[i].endpoint != endpoint)
			continue;
		world.nr_receives--;
		memmove(&world.receives[i], &world.receives[i + 1],
			(world.nr_receives - i) * sizeof(world.receives[0]));
		return reply;
	}
	return NULL;
}

/* None of its transfers touches memory any more; their completions may still come. */
static void fake_endpoint_close(struct fabric_endpoint *endpoint)
{
	world.nr_late = 0;
	while (fake_take_receive(endpoint))
		;
	for (unsigned i = world.nr_transfers; i-- > 0;) {
		if (world.transfers[i].endpoint != endpoint)
			continue;
		world.late[world.nr_late++] = world.transfers[i];
		fake_drop(i);
	}
}

static int fake_start(struct fake_transfer transfer)
{
	int ret = world.post_error;

	world.post_error = 0;
	if (ret)
		return ret;
	if (world.nr_transfers >= world.room)
		return -EAGAIN;
	if (world.posting)
		world.posting(&transfer);
	world.transfers[world.nr_transfers++] = transfer;
	world.nr_posted++;
	world.nr_together += world.is_holding;
	return 0;
}

static int fake_post(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		     uint64_t context, bool is_write)
{
	return fake_start((struct fake_transfer){.context = context,
						 .endpoint = endpoint,
						 .addr = pieces[0].addr,
						 .is_write = is_write});
}

static int fake_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
			uint64_t context)
{
	(void)context;
	world.receives[world.nr_receives++] = (struct fake_receive){endpoint, piece->addr};
	return 0;
}

static int fake_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		     uint64_t context)
{
	const struct message_request *request = piece->addr;
	struct fake_transfer transfer = {
		.context = context,
		.endpoint = endpoint,
		.addr = world.operands + le64toh(request->operand),
		.is_write = true,
		.request = request,
	};
	int ret = fake_start(transfer);

	if (!ret)
		world.transfers[world.nr_transfers - 1].reply = fake_take_receive(endpoint);
	return ret;
}

static int fake_memory_register(struct fabric_domain *domain, void *addr, size_t length,
				unsigned access, struct fabric_memory *out)
{
	(void)addr;
	(void)length;
	(void)access;
	*out = (struct fabric_memory){.domain = domain};
	return 0;
}

static bool fake_memory_deregister(struct fabric_memory *memory)
{
	assert_ptr_equal(memory->domain, &world.domain);
	return true;
}

static int fake_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	(void)nr_pieces;
	(void)remote;
	(void)key;
	return fake_post(endpoint, pieces, context, false);
}

static int fake_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	(void)nr_pieces;
	(void)remote;
	(void)key;
	return fake_post(endpoint, pieces, context, true);
}

/* The test puts what it brings at its address. */
static int fake_fetch_add(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			  uint64_t remote, uint64_t key, uint64_t operand, uint64_t context)
{
	(void)remote;
	(void)key;
	return fake_start((struct fake_transfer){.context = context,
						 .endpoint = endpoint,
						 .addr = result->addr,
						 .is_write = true,
						 .operand = operand});
}

static int fake_compare_swap(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			     uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
			     uint64_t context)
{
	(void)remote;
	(void)key;
	return fake_start((struct fake_transfer){.context = context,
						 .endpoint = endpoint,
						 .addr = result->addr,
						 .is_write = true,
						 .is_swap = true,
						 .operand = operand,
						 .compare = compare});
}

static const struct fabric_atomics_ops fake_atomics_ops = {
	.fetch_add = fake_fetch_add,
	.compare_swap = fake_compare_swap,
};

const struct fabric_ops fake_ops = {
	.transport = "fake",
	.queue_open = fake_queue_open,
	.queue_close = fake_queue_close,
	.queue_hold = fake_queue_hold,
	.queue_release = fake_queue_release,
	.queue_fd = fake_queue_fd,
	.queue_arm = fake_queue_arm,
	.queue_poll = fake_queue_poll,
	.queue_event = fake_queue_event,
	.endpoint_close = fake_endpoint_close,
	.memory_register = fake_memory_register,
	.memory_deregister = fake_memory_deregister,
	.send = fake_send,
	.receive = fake_receive,
	.read = fake_read,
	.write = fake_write,
};

void fake_complete(unsigned i, int status)
{
	assert_true(i < world.nr_transfers);
	world.completion = (struct fabric_completion){world.transfers[i].context, status};
	world.nr_completions = 1;
	if (world.transfers[i].request && !status) {
		*world.transfers[i].reply =
			(struct message_reply){.tag = world.transfers[i].request->tag};
		world.nr_completions = 2; /* of the request and of the reply */
	}
	fake_drop(i);
	while (world.nr_completions)
		queue_progress(world.queue);
}

void fake_complete_late(int status)
{
	for (unsigned i = 0; i < world.nr_late; i++) {
		world.completion = (struct fabric_completion){world.late[i].context, status};
		world.nr_completions = world.late[i].request ? 2 : 1;
		while (world.nr_completions)
			queue_progress(world.queue);
	}
}

void fake_complete_all(void)
{
	while (world.nr_transfers) {
		fake_complete(0, 0);
		queue_check(world.queue);
	}
}

/* ---- The session, its targets and its queue */

static const struct target_kind fake_kind = {.noun = "region", .opcodes = ~0U};

struct afar_target *fake_target(uint32_t first, uint32_t nr_servers)
{
	struct afar_target *target = handle_new(HANDLE_REGION, sizeof(*target));
	struct layout *layout = layout_new();
	struct binding *binding =
		calloc(1, sizeof(*binding) + nr_servers * sizeof(*binding->servers));

	assert_non_null(target);
	assert_non_null(layout);
	assert_non_null(binding);
	target->ns_name = "fake";
	target->kind = &fake_kind;
	target->carrier = target;
	assert_int_equal(layout_add_group(layout, FAKE_UNIT, FAKE_UNIT), 0);
	for (uint32_t i = 0; i < nr_servers; i++) {
		const struct layout_home home = {.server = i};

		assert_int_equal(layout_add_chunk(layout, &home, 0, 0), 0);
		binding->servers[i].peer = &world.peers[first + i];
		binding->servers[i].reach = &world.reaches[first + i];
	}
	binding->keys = calloc((size_t)nr_servers * PEER_LANES_MAX, sizeof(*binding->keys));
	assert_non_null(binding->keys);
	target->session = &world.session;
	target->length = layout->length;
	binding->target = target;
	binding->layout = layout;
	binding->nr_references = 1;
	target->binding = binding;
	target->rights = RIGHT_ALL;
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++)
		binding->servers[i].is_keyed = true;
	binding->is_ready = target->had_keys = true;
	return target;
}

void fake_target_free(struct afar_target *target)
{
	assert_int_equal(target->handle.nr_users, 0);
	layout_free(target->binding->layout);
	free(target->binding->keys);
	free(target->binding);
	handle_discard(target);
}

void fake_connect(uint32_t server)
{
	struct path *path = world.queue->paths[server];

	if (!path) {
		path = calloc(1, sizeof(*path));
		assert_non_null(path);
		path->peer = &world.peers[server];
		path->index = server;
		path->reach = &world.reaches[server];
		CDS_INIT_LIST_HEAD(&path->transfers);
		assert_int_equal(message_box_open(&path->messages, &world.domain), 0);
		peer_add_path(path->peer, path->reach);
		world.queue->paths[server] = path;
	}
	if (path->state == PATH_UP)
		return;
	path->generation++;
	message_box_reset(&path->messages, (uint64_t)path->generation << 32 | CONTEXT_MESSAGE |
						   path->index * (uint64_t)MESSAGE_CREDITS);
	path->fabric = &world.fabric;
	path->transfer_bytes_max = FAKE_UNIT;
	path->nr_lanes = 1;
	path->lanes[0].endpoint = &world.endpoints[server];
	path->lanes[0].endpoint->owner = path;
	path->lanes[0].connection = FAKE_CONNECTION + server;
	if (!path->lanes[0].doubt)
		path->lanes[0].doubt = malloc(sizeof(*path->lanes[0].doubt));
	assert_non_null(path->lanes[0].doubt);
	path->state = PATH_UP;
}

void fake_open(uint32_t depth, bool writes_need_flush)
{
	struct afar_queue_options options = {.size = sizeof(options), .depth = depth};
	struct fabric_queue *used;

	memset(&world, 0, sizeof(world));
	world.fd = eventfd(0, EFD_CLOEXEC);
	world.room = FAKE_TRANSFERS_MAX;
	world.fabric.ops = &fake_ops;
	world.fabric.atomics = &fake_atomics_ops;
	world.fabric.domain = &world.domain;
	world.domain.fabric = &world.fabric;
	world.fabric.attributes = (struct fabric_attributes){
		.transport = "fake",
		.writes_need_flush = writes_need_flush,
		.transfer_bytes_max = FAKE_UNIT,
		.iov_max = FABRIC_IOV_MAX,
	};
	world.session.handle.kind = HANDLE_SESSION;
	world.session.timeout_ms = 600000;
	fabrics_init(&world.session.fabrics);
	world.session.fabrics.known[0].fabric = &world.fabric;
	world.session.fabrics.nr_known = 1;
	pthread_mutex_init(&world.session.lock, NULL);
	session_counts_init(&world.session.counts);
	for (uint32_t i = 0; i < FAKE_SERVERS; i++) {
		world.peers[i].session = &world.session;
		world.reaches[i].index = i;
		world.reaches[i].nr_targets = 1; /* for good */
		CDS_INIT_LIST_HEAD(&world.reaches[i].doubt);
		world.endpoints[i].queue = &world.fabric_queue;
	}
	assert_int_equal(afar_queue_open(&world.session, &options, &world.queue), 0);
	world.queue->paths = calloc(FAKE_SERVERS, sizeof(struct path *));
	assert_non_null(world.queue->paths);
	world.queue->nr_paths = FAKE_SERVERS;
	assert_int_equal(queue_use_fabric(world.queue, &world.fabric, &used), 0);
}

void fake_close(void)
{
	assert_int_equal(world.queue->nr_held, 0);
	assert_int_equal(world.queue->nr_failed, 0);
	assert_int_equal(world.queue->bytes_in_flight, 0);
	assert_int_equal(afar_queue_close(world.queue), 0);
	assert_int_equal(world.session.handle.nr_users, 0);
	close(world.fd);
	for (uint32_t i = 0; i < FAKE_SERVERS; i++) {
		uint64_t connection = peer_find_doubt(&world.peers[i], &world.reaches[i]);

		if (connection)
			peer_forget_doubt(&world.peers[i], &world.reaches[i], connection);
	}
	session_counts_free(&world.session.counts);
}
