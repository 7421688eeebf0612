/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes of a private cluster, and their blocking calls as a target of loads, for suite `volume`. */
#include <errno.h>
#include <stdlib.h>

#include "volume.h"

/* ---- Calls as a target */

static uint64_t calls_size(void *target)
{
	const struct volume_calls *calls = target;

	return calls->bytes;
}

static void submit_call(void *target, struct flash_request *request)
{
	struct volume_calls *calls = target;

	calls->waiting = request;
}

static int poll_call(void *target, int timeout_ms)
{
	struct volume_calls *calls = target;
	struct flash_request *request = calls->waiting;
	const struct iovec *memory = &request->memory;
	const unsigned flags = request->is_durable ? AFAR_OP_DURABLE : 0;
	ssize_t nr = request->is_write ? afar_volume_pwrite(calls->volume, memory->iov_base,
							    memory->iov_len, request->offset, flags)
				       : afar_volume_pread(calls->volume, memory->iov_base,
							   memory->iov_len, request->offset);

	(void)timeout_ms;
	if (nr < 0)
		scene_fail("a transfer", (int)nr);
	calls->waiting = NULL;
	request->done(request, nr < 0 ? (int)nr : 0);
	return 1;
}

const struct flash_target flash_target_calls = {
	.size = calls_size,
	.submit = submit_call,
	.poll = poll_call,
};

/* ---- Volumes */

int volume_open(struct afar_session *session, const char *name, uint32_t retry_ms,
		struct afar_volume **out)
{
	const struct afar_volume_options options = {.size = sizeof(options), .retry_ms = retry_ms};
	int ret = afar_volume_open(session, name, &options, out);

	return ret ? scene_fail("open a volume", ret) : 0;
}

void volume_close(struct afar_volume *volume)
{
	if (volume)
		afar_volume_close(volume);
}

/* Blocks that were never written read as zeros, without asking any storage. */
static int fill(struct afar_session *session, const char *name, uint64_t bytes)
{
	struct volume_calls calls = {.bytes = bytes};
	struct flash_queue *queue = NULL;
	int ret = volume_open(session, name, 0, &calls.volume);

	if (ret)
		return ret;
	ret = flash_queue_open(session, afar_volume_target(calls.volume), bytes, &queue);
	if (!ret)
		ret = flash_load_fill(&flash_target_queue, queue, 1);
	if (!ret) {
		ret = afar_volume_sync(calls.volume);
		ret = ret ? scene_fail("sync a volume", ret) : 0;
	}
	flash_queue_close(queue);
	volume_close(calls.volume);
	return ret;
}

int volume_make(struct afar_session *session, const char *name, uint32_t tier, uint64_t bytes)
{
	const struct afar_policy policy = {.size = sizeof(policy), .tier = tier, .width = 1};
	int ret = afar_volume_create(session, name, bytes, &policy, NULL);

	return ret ? scene_fail("create a volume", ret) : fill(session, name, bytes);
}
