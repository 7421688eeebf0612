/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds arbitrary bytes to rpc_frame_decode(), which meets what any holder of a key may send. A frame that
 * it accepts must be in order: our version, a body, and what packing makes of it is safe to decode too. */
#include <stdint.h>
#include <stdlib.h>

#include <afar/error.h>

#include "rpc/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_accepted(const Afar__Frame *frame)
{
	size_t length = afar__frame__get_packed_size(frame);
	uint8_t *bytes = malloc(length ? length : 1);
	Afar__Frame *again;

	require(frame->version == RPC_VERSION);
	if (frame->body_case == AFAR__FRAME__BODY_REQUEST)
		require(frame->request != NULL);
	else
		require(frame->body_case == AFAR__FRAME__BODY_REPLY && frame->reply != NULL);
	require(bytes && afar__frame__pack(frame, bytes) == length);
	/* Unknown fields go along, and protobuf-c takes some of them only in a longer form than it
	 * writes: then the copy is refused. */
	if (rpc_frame_decode(bytes, length, &again) == 0) {
		require(again->request_id == frame->request_id);
		require(again->body_case == frame->body_case);
		afar__frame__free_unpacked(again, NULL);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Afar__Frame *frame;
	int status = rpc_frame_decode(data, size, &frame);

	if (status == 0)
		check_accepted(frame);
	else if (status == -AFAR_EVERSION)
		require(frame && frame->version != RPC_VERSION);
	else
		require(status == -AFAR_EMALFORMED && !frame);
	if (frame)
		afar__frame__free_unpacked(frame, NULL);
	return 0;
}
