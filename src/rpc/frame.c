/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes frames. Connections call it; the fuzzer feeds the decoder, which must take
 * anything that a peer sends. Checks only the form: protobuf, version, that there is a body.
 */
#include "rpc/frame.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>

#include "base/error.h"
#include "rpc/protobuf.h"

/* The most memory that a decoded frame may take. The length of the frame does not bound that,
 * because a field of two bytes on the wire can become a struct of a hundred. */
#define DECODED_MAX (4U * (size_t)RPC_FRAME_MAX)

static void *budget_alloc(void *budget, size_t size)
{
	size_t *left = budget;

	if (size > *left)
		return NULL;
	*left -= size;
	return malloc(size);
}

static void budget_free(void *budget, void *memory)
{
	(void)budget;
	free(memory);
}

int rpc_frame_decode(const uint8_t *bytes, size_t length, Afar__Frame **out)
{
	size_t budget = DECODED_MAX;
	ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
	Afar__Frame *frame;

	*out = NULL;
	if (length > RPC_FRAME_MAX)
		return error_fail(-AFAR_EMALFORMED, "frame: %zu bytes are more than the %u allowed",
				  length, RPC_FRAME_MAX);
	frame = afar__frame__unpack(&allocator, length, bytes);
	if (!frame)
		return error_fail(-AFAR_EMALFORMED, "frame of %zu bytes: it is not a message",
				  length);
	if (frame->version != RPC_VERSION && frame->version != 0) {
		*out = frame;
		return error_fail(-AFAR_EVERSION,
				  "frame: the peer speaks protocol %u, this is protocol %u; "
				  "upgrade the end with the lower number",
				  frame->version, RPC_VERSION);
	}
	if (frame->version == 0 || frame->body_case == AFAR__FRAME__BODY__NOT_SET) {
		rpc_frame_free(frame);
		return error_fail(-AFAR_EMALFORMED,
				  "frame of %zu bytes: it has no version or no body", length);
	}
	*out = frame;
	return 0;
}

ProtobufCAllocator *request_freer(const Afar__Request *request)
{
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_FILES_LOOK:
	case AFAR__REQUEST__CALL_FILES_HOLD:
	case AFAR__REQUEST__CALL_FILES_CHANGE:
		return NULL;
	default:
		return &protobuf_wiping;
	}
}

ProtobufCAllocator *reply_freer(const Afar__Reply *reply)
{
	return reply->result_case == AFAR__REPLY__RESULT_FILE_RESULTS ? NULL : &protobuf_wiping;
}

static ProtobufCAllocator *freer(const Afar__Frame *frame)
{
	if (frame->body_case == AFAR__FRAME__BODY_REQUEST)
		return request_freer(frame->request);
	return frame->body_case == AFAR__FRAME__BODY_REPLY ? reply_freer(frame->reply) : NULL;
}

bool frame_is_to_wipe(const Afar__Frame *frame)
{
	return freer(frame) != NULL;
}

void rpc_frame_free(Afar__Frame *frame)
{
	if (frame)
		afar__frame__free_unpacked(frame, freer(frame));
}

void frame_buffer_free(struct frame_buffer *buffer)
{
	if (buffer->is_to_wipe)
		OPENSSL_cleanse(buffer->bytes, buffer->length);
	free(buffer);
}

int frame_encode(const Afar__Frame *frame, struct frame_buffer **out)
{
	size_t length = afar__frame__get_packed_size(frame);
	struct frame_buffer *buffer;

	if (length > RPC_FRAME_MAX)
		return error_fail(-EMSGSIZE,
				  "message of %zu bytes: longer than the %u allowed; ask for less",
				  length, RPC_FRAME_MAX);
	buffer = malloc(sizeof(*buffer) + FRAME_HEADER + length);
	if (!buffer)
		return error_code(-ENOMEM);
	buffer->length = FRAME_HEADER + length;
	buffer->sent = 0;
	buffer->is_to_wipe = frame_is_to_wipe(frame);
	for (unsigned i = 0; i < FRAME_HEADER; i++)
		buffer->bytes[i] = (uint8_t)(length >> 8 * i);
	afar__frame__pack(frame, buffer->bytes + FRAME_HEADER);
	*out = buffer;
	return 0;
}
