/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue of libafar as a target of loads: what is submitted between two polls goes out at once. */
#include <errno.h>
#include <stdlib.h>

#include "flash.h"
#include "harness/scene.h"

struct flash_queue {
	struct afar_session *session;
	struct afar_queue *queue;
	struct afar_target *target;
	struct afar_buffer *buffer; /* of the requests' memory; NULL: it is in none */
	uint64_t bytes;
	unsigned nr_waiting; /* operations that the next poll submits */
	struct afar_op waiting[FLASH_QUEUE_DEPTH];
};

static uint64_t queue_size(void *target)
{
	const struct flash_queue *queue = target;

	return queue->bytes;
}

/* Some transports want it. */
static int lend_to_queue(void *target, void *memory, size_t length)
{
	const struct afar_memory lent = {.size = sizeof(lent), .addr = memory, .length = length};
	struct flash_queue *queue = target;
	int ret = afar_buffer_register(queue->session, &lent, AFAR_ACCESS_READ | AFAR_ACCESS_WRITE,
				       &queue->buffer);

	return ret ? scene_fail("register memory", ret) : 0;
}

static void take_back_from_queue(void *target)
{
	struct flash_queue *queue = target;

	afar_buffer_unregister(queue->buffer);
	queue->buffer = NULL;
}

static void submit_to_queue(void *target, struct flash_request *request)
{
	struct flash_queue *queue = target;

	request->piece = (struct afar_iov){
		.buffer = queue->buffer,
		.addr = request->memory.iov_base,
		.length = request->memory.iov_len,
	};
	queue->waiting[queue->nr_waiting++] = (struct afar_op){
		.opcode = request->is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
		.flags = (request->is_durable ? AFAR_OP_DURABLE : 0) |
			 (request->is_checked ? AFAR_OP_CHECKED : 0) |
			 (request->is_once ? AFAR_OP_ONCE : 0),
		.nr_iov = 1,
		.target = queue->target,
		.offset = request->offset,
		.iov = &request->piece,
		.user_data = (uintptr_t)request,
	};
}

static void take(struct flash_queue *queue, const struct afar_completion *done)
{
	struct flash_request *request = (struct flash_request *)(uintptr_t)done->user_data;
	int status = 0;

	if (done->result != (int64_t)request->memory.iov_len)
		status = scene_fail_operation("a transfer", queue->queue, done);
	request->done(request, status);
}

static int poll_queue(void *target, int timeout_ms)
{
	struct flash_queue *queue = target;
	struct afar_completion done[FLASH_QUEUE_DEPTH];
	unsigned nr_submitted = queue->nr_waiting;
	int nr = 0;

	if (nr_submitted > 0)
		nr = afar_queue_submit(queue->queue, queue->waiting, nr_submitted);
	if (nr != (int)nr_submitted)
		return scene_fail("submit", nr < 0 ? nr : -EAGAIN);
	queue->nr_waiting = 0;
	nr = afar_queue_wait(queue->queue, done, FLASH_QUEUE_DEPTH, 1, timeout_ms);
	for (int i = 0; i < nr; i++)
		take(queue, &done[i]);
	return nr;
}

const struct flash_target flash_target_queue = {
	.size = queue_size,
	.lend = lend_to_queue,
	.take_back = take_back_from_queue,
	.submit = submit_to_queue,
	.poll = poll_queue,
};

int flash_queue_open(struct afar_session *session, struct afar_target *target, uint64_t bytes,
		     struct flash_queue **out)
{
	const struct afar_queue_options options = {.size = sizeof(options),
						   .depth = FLASH_QUEUE_DEPTH};
	struct flash_queue *queue = calloc(1, sizeof(*queue));
	int ret;

	if (!queue)
		return bench_fail(-ENOMEM, "no memory for the suite");
	queue->session = session;
	queue->target = target;
	queue->bytes = bytes;
	ret = afar_queue_open(session, &options, &queue->queue);
	if (!ret)
		ret = afar_queue_connect(queue->queue, target);
	if (ret) {
		scene_fail("open a queue", ret);
		flash_queue_close(queue);
	} else {
		*out = queue;
	}
	return ret;
}

int flash_queue_connect(struct flash_queue *queue)
{
	int ret = afar_queue_connect(queue->queue, queue->target);

	return ret ? scene_fail("connect a queue", ret) : 0;
}

void flash_queue_close(struct flash_queue *queue)
{
	if (!queue)
		return;
	if (queue->queue)
		afar_queue_close(queue->queue);
	free(queue);
}
