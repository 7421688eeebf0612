/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `queue`: what submitting and reaping cost, whatever is transferred. */
#include "queue.h"

#include <errno.h>
#include <string.h>

#define REGION_BYTES (UINT64_C(2) << 20)

int queue_scene_open(struct queue_scene *scene)
{
	int ret = cluster_start(1, 4 * REGION_BYTES, &scene->cluster);

	if (!ret)
		ret = scene_open(&scene->scene, cluster_uri(scene->cluster), 0);
	if (!ret)
		ret = scene_create_region(&scene->scene, SCENE_NAMESPACE, 1, REGION_BYTES);
	if (ret)
		return ret;
	ret = afar_buffer_alloc(scene->scene.session, QUEUE_SLOTS * QUEUE_SLOT_BYTES,
				&scene->buffer);
	if (ret)
		return scene_fail("allocate a buffer", ret);
	memset(afar_buffer_data(scene->buffer), 0, QUEUE_SLOTS * QUEUE_SLOT_BYTES);
	return 0;
}

void queue_scene_close(struct queue_scene *scene)
{
	if (scene->buffer)
		afar_buffer_unregister(scene->buffer);
	scene_close(&scene->scene);
	cluster_stop(scene->cluster);
}

int queue_scene_connect(struct queue_scene *scene, uint32_t depth, struct afar_queue **out)
{
	const struct afar_queue_options options = {.size = sizeof(options), .depth = depth};
	int ret = afar_queue_open(scene->scene.session, &options, out);

	if (ret)
		return scene_fail("open a queue", ret);
	ret = afar_queue_connect(*out, afar_region_target(scene->scene.region));
	return ret ? scene_fail("connect a queue", ret) : 0;
}

struct afar_op queue_read(const struct queue_scene *scene, unsigned slot, size_t size,
			  struct afar_iov *iov)
{
	*iov = (struct afar_iov){
		.buffer = scene->buffer,
		.addr = (char *)afar_buffer_data(scene->buffer) + slot * QUEUE_SLOT_BYTES,
		.length = size,
	};
	return (struct afar_op){
		.opcode = AFAR_OP_READ,
		.nr_iov = 1,
		.target = afar_region_target(scene->scene.region),
		.iov = iov,
		.user_data = slot,
	};
}

uint64_t queue_offset(uint64_t sequence, size_t size)
{
	return sequence * size % QUEUE_WINDOW;
}

int queue_submit_all(struct afar_queue *queue, const struct afar_op *ops, unsigned nr)
{
	int taken = afar_queue_submit(queue, ops, nr);

	return taken == (int)nr ? 0 : scene_fail("submit", taken < 0 ? taken : -EAGAIN);
}

void queue_drain(struct afar_queue *queue)
{
	struct afar_completion done[QUEUE_SLOTS];

	afar_queue_wait(queue, done, QUEUE_SLOTS, QUEUE_SLOTS, -1);
}

static const struct bench_stage *const stages[] = {&queue_batches_stage, &queue_completions_stage};

const struct bench_suite bench_suite_queue = {
	.name = "queue",
	.summary = "queues: batches of operations, and completions against a dispatcher thread",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
