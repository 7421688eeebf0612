/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The herd's process: opens its clients, then does orders from its channel. Its thread looks at all queues through one
 * epoll descriptor and serves those that are ready; while an order lasts it does not sleep. Owns the clients, and the
 * memory that they share.
 */
#include "herd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <afar/volume.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/scene.h"
#include "peers/raw_fabric.h"

#define READY_EVENTS 64
#define SAMPLES_MAX  (UINT32_C(1) << 20) /* of one order; later ones are not looked at */
#define DRAIN_MS     20000
#define FILL_BYTES   (UINT64_C(1) << 20)
#define SLEEP_MS     10

struct herd_client {
	struct scene scene;
	struct afar_volume *volume; /* NULL: the scene's region is meant */
	struct afar_queue *queue;
	struct afar_buffer *buffer; /* over all of the herd's memory */
	struct afar_iov iov;
	uint64_t sequence; /* of its operations in this order */
	uint64_t begun;	   /* the one in flight, on clock_ns() */
	bool is_busy;
};

struct herd_process {
	struct herd_client *clients;
	unsigned nr_clients;
	char *memory; /* HERD_BYTES */
	int epoll_fd;
	const char *uri;
	struct herd_region region;
	uint64_t place; /* of the last scattered operation */
	uint64_t
		walked; /* operations of the client that went farthest in orders before, of those that walk together */

	/* The order: */
	struct herd_order order;
	uint64_t end; /* on clock_ns() */
	unsigned nr_busy;
	uint64_t nr_done;
	uint32_t *samples; /* ns each */
};

struct herd_start {
	const char *uri;
	unsigned nr_clients;
	struct herd_region region;
};

/* ---- Opening */

static int open_buffer(struct herd_process *herd, struct herd_client *client)
{
	const struct afar_memory memory = {.size = sizeof(memory),
					   .kind = AFAR_MEMORY_HOST,
					   .addr = herd->memory,
					   .length = HERD_BYTES};
	int ret = afar_buffer_register(client->scene.session, &memory,
				       AFAR_ACCESS_READ | AFAR_ACCESS_WRITE | AFAR_ACCESS_SERVER,
				       &client->buffer);

	return ret ? scene_fail("register memory", ret) : 0;
}

static struct afar_target *target_of(const struct herd_client *client)
{
	return client->volume ? afar_volume_target(client->volume)
			      : afar_region_target(client->scene.region);
}

static int open_queue(struct herd_process *herd, struct herd_client *client)
{
	const struct afar_queue_options options = {.size = sizeof(options), .depth = 1};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
	int ret = afar_queue_open(client->scene.session, &options, &client->queue);

	if (ret)
		return scene_fail("open a queue", ret);
	ret = afar_queue_connect(client->queue, target_of(client));
	if (ret)
		return scene_fail("connect a queue", ret);
	while (afar_queue_arm(client->queue) == -EAGAIN)
		;
	if (epoll_ctl(herd->epoll_fd, EPOLL_CTL_ADD, afar_queue_fd(client->queue), &event))
		return bench_fail(-errno, "watch a queue: %s", strerror(errno));
	return 0;
}

static int write_region(struct herd_process *herd, struct afar_region *region)
{
	ssize_t nr = 0;

	for (uint64_t at = 0; at < herd->region.bytes && nr >= 0; at += FILL_BYTES)
		nr = afar_region_pwrite(region, herd->memory, FILL_BYTES, at);
	return nr < 0 ? scene_fail("write the region", (int)nr) : 0;
}

static int make_region(struct herd_process *herd, struct scene *scene)
{
	int ret = scene_create_region_on(scene, herd->region.tier, SCENE_NAMESPACE, 1,
					 herd->region.bytes);

	return ret || !herd->region.is_written ? ret : write_region(herd, scene->region);
}

static int open_volume(struct herd_client *client)
{
	const struct afar_volume_options options = {.size = sizeof(options),
						    .mode = AFAR_VOLUME_SHARED};
	int ret =
		afar_volume_open(client->scene.session, SCENE_NAMESPACE, &options, &client->volume);

	return ret ? scene_fail("open the volume", ret) : 0;
}

static int make_volume(struct herd_process *herd, struct herd_client *client)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = herd->region.tier, .width = 1};
	ssize_t nr = 0;
	int ret = afar_volume_create(client->scene.session, SCENE_NAMESPACE, herd->region.bytes,
				     &policy, NULL);

	if (ret)
		return scene_fail("create a volume", ret);
	ret = open_volume(client);
	if (ret || !herd->region.is_written)
		return ret;
	for (uint64_t at = 0; at < herd->region.bytes && nr >= 0; at += FILL_BYTES)
		nr = afar_volume_pwrite(client->volume, herd->memory, FILL_BYTES, at, 0);
	return nr < 0 ? scene_fail("write the volume", (int)nr) : 0;
}

/* The first makes what the others open. */
static int open_target(struct herd_process *herd, struct herd_client *client)
{
	const bool is_first = client == herd->clients;

	if (herd->region.is_volume)
		return is_first ? make_volume(herd, client) : open_volume(client);
	return is_first ? make_region(herd, &client->scene) : scene_open_region(&client->scene);
}

static int open_client(struct herd_process *herd, struct herd_client *client)
{
	int ret = scene_open(&client->scene, herd->uri, 0);

	if (!ret)
		ret = open_target(herd, client);
	if (!ret)
		ret = open_buffer(herd, client);
	return ret ? ret : open_queue(herd, client);
}

static void use_all_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_clients(struct herd_process *herd)
{
	int ret = 0;

	use_all_descriptors();
	herd->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	herd->clients = calloc(herd->nr_clients, sizeof(*herd->clients));
	herd->samples = calloc(SAMPLES_MAX, sizeof(*herd->samples));
	herd->memory = bench_memory_map(HERD_BYTES);
	if (herd->epoll_fd < 0 || !herd->clients || !herd->samples || !herd->memory)
		return bench_fail(-ENOMEM, "no memory for a herd of clients");
	for (unsigned i = 0; i < herd->nr_clients && !ret; i++)
		ret = open_client(herd, &herd->clients[i]);
	return ret;
}

/* ---- One order */

/* A linear congruential generator with the period 2^n: Hull and Dobell, 1962. */
static uint64_t next_place(struct herd_process *herd)
{
	uint64_t nr_places = herd->region.bytes / herd->order.size;

	herd->place = (herd->place * UINT64_C(6364136223846793005) + 1) & (nr_places - 1);
	return herd->place * herd->order.size;
}

/* Returns where in the region the client's next operation is. */
static uint64_t offset_of(struct herd_process *herd, const struct herd_client *client)
{
	const struct herd_order *order = &herd->order;
	const uint64_t part =
		order->part_bytes ? order->part_bytes : HERD_BYTES / order->nr_clients;

	if (order->is_scattered)
		return next_place(herd);
	if (order->is_together)
		return (herd->walked + client->sequence) * order->size % herd->region.bytes;
	return (uint64_t)(client - herd->clients) * part +
	       client->sequence % (part / order->size) * order->size;
}

static int submit(struct herd_process *herd, struct herd_client *client)
{
	const struct herd_order *order = &herd->order;
	uint64_t part = HERD_BYTES / order->nr_clients;
	uint64_t begin = (uint64_t)(client - herd->clients) * part;
	uint64_t local = begin + client->sequence % (part / order->size) * order->size;
	const struct afar_op op = {
		.opcode = order->is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
		.flags = order->flags,
		.nr_iov = 1,
		.target = target_of(client),
		.offset = offset_of(herd, client),
		.iov = &client->iov,
	};
	int ret;

	client->sequence++;
	client->iov = (struct afar_iov){client->buffer, herd->memory + local, order->size};
	client->begun = clock_ns();
	ret = afar_queue_submit(client->queue, &op, 1);
	if (ret != 1)
		return scene_fail("submit", ret < 0 ? ret : -EAGAIN);
	client->is_busy = true;
	herd->nr_busy++;
	return 0;
}

static int take(struct herd_process *herd, struct herd_client *client,
		const struct afar_completion *done)
{
	uint64_t now = clock_ns();

	client->is_busy = false;
	herd->nr_busy--;
	if (done->result != (int64_t)herd->order.size)
		return scene_fail("a transfer", (int)done->result);
	if (now >= herd->end)
		return 0;
	if (herd->nr_done < SAMPLES_MAX)
		herd->samples[herd->nr_done] = (uint32_t)(now - client->begun);
	herd->nr_done++;
	return submit(herd, client);
}

/* Until there is nothing to be done for it before its descriptor says so. */
static int serve(struct herd_process *herd, struct herd_client *client)
{
	struct afar_completion done;
	int nr, ret = 0;

	do {
		nr = afar_queue_wait(client->queue, &done, 1, 0, 0);
		if (nr < 0)
			return scene_fail("reap", nr);
		if (nr == 1)
			ret = take(herd, client, &done);
	} while (!ret && afar_queue_arm(client->queue) == -EAGAIN);
	return ret;
}

static int serve_ready(struct herd_process *herd)
{
	struct epoll_event events[READY_EVENTS];
	int nr = epoll_wait(herd->epoll_fd, events, READY_EVENTS,
			    herd->order.may_sleep ? SLEEP_MS : 0);
	int ret = 0;

	for (int i = 0; i < nr && !ret; i++)
		ret = serve(herd, events[i].data.ptr);
	return ret;
}

static int compare_samples(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static double percentile_us(const uint32_t *sorted, uint32_t nr, double share)
{
	return nr ? (double)sorted[(uint32_t)(share * (nr - 1))] / 1e3 : 0;
}

static void sum_up(struct herd_process *herd, uint64_t begin, struct herd_result *result)
{
	uint32_t nr = herd->nr_done < SAMPLES_MAX ? (uint32_t)herd->nr_done : SAMPLES_MAX;

	result->nr = herd->nr_done;
	result->elapsed_ns = herd->end - begin;
	qsort(herd->samples, nr, sizeof(*herd->samples), compare_samples);
	result->p50_us = percentile_us(herd->samples, nr, 0.5);
	result->p99_us = percentile_us(herd->samples, nr, 0.99);
	result->p999_us = percentile_us(herd->samples, nr, 0.999);
}

/* Those that walk together begin their next order where nobody has been. */
static void walk_on(struct herd_process *herd)
{
	uint64_t farthest = 0;

	for (unsigned i = 0; i < herd->order.nr_clients && herd->order.is_together; i++) {
		if (herd->clients[i].sequence > farthest)
			farthest = herd->clients[i].sequence;
	}
	herd->walked += farthest;
}

static int run_order(struct herd_process *herd, struct herd_result *result)
{
	uint64_t begin = clock_ns();
	uint64_t last;
	int ret = 0;

	herd->end = begin + herd->order.span_ns;
	herd->nr_done = 0;
	last = herd->end + DRAIN_MS * UINT64_C(1000000);
	for (unsigned i = 0; i < herd->order.nr_clients && !ret; i++) {
		herd->clients[i].sequence = 0;
		ret = submit(herd, &herd->clients[i]);
	}
	for (unsigned i = 0; i < herd->order.nr_clients && !ret; i++)
		ret = serve(herd, &herd->clients[i]);
	while (!ret && herd->nr_busy > 0) {
		ret = serve_ready(herd);
		if (!ret && clock_ns() > last)
			ret = bench_fail(-ETIMEDOUT, "clients wait for ever");
	}
	if (!ret)
		sum_up(herd, begin, result);
	walk_on(herd);
	return ret;
}

/* ---- The process */

static int herd_main(int channel, void *argument)
{
	const struct herd_start *start = argument;
	struct herd_process herd = {
		.nr_clients = start->nr_clients, .uri = start->uri, .region = start->region};
	struct herd_result result = {.status = open_clients(&herd)};
	const struct child parent = {.channel = channel};

	while (!child_send(&parent, &result, sizeof(result)) && !result.status) {
		if (recv(channel, &herd.order, sizeof(herd.order), 0) != sizeof(herd.order))
			break;
		result = (struct herd_result){.status = 0};
		result.status = run_order(&herd, &result);
	}
	return result.status ? 1 : 0;
}

static int receive(const struct herd *herd, struct herd_result *result)
{
	int ret = child_receive(&herd->child, result, sizeof(*result));

	if (ret)
		return bench_fail(ret, "the herd of clients has ended early");
	return result->status;
}

int herd_start_on(const struct cluster *cluster, const struct herd_region *region,
		  unsigned nr_clients, struct herd *herd)
{
	struct herd_start start = {cluster_uri(cluster), nr_clients, *region};
	struct herd_result result;
	int ret = child_start(&herd->child, herd_main, &start);

	return ret ? ret : receive(herd, &result);
}

int herd_start(const struct cluster *cluster, unsigned nr_clients, struct herd *herd)
{
	const struct herd_region region = {.tier = AFAR_TIER_DRAM, .bytes = HERD_BYTES};

	return herd_start_on(cluster, &region, nr_clients, herd);
}

void herd_stop(struct herd *herd)
{
	child_stop(&herd->child);
	*herd = (struct herd){0};
}

int herd_begin(const struct herd *herd, const struct herd_order *order)
{
	int ret = child_send(&herd->child, order, sizeof(*order));

	return ret ? bench_fail(ret, "the herd of clients has ended early") : 0;
}

int herd_end(const struct herd *herd, struct herd_result *result)
{
	return receive(herd, result);
}

int herd_run(const struct herd *herd, const struct herd_order *order, struct herd_result *result)
{
	int ret = herd_begin(herd, order);

	return ret ? ret : herd_end(herd, result);
}
