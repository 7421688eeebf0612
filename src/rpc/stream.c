/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of a connection in both directions. Senders queue and write frames; the loop's thread reads
 * bytes and cuts them into frames, and drops them while the last frames go out. Called by
 * connection.c for events and by call.c for frames; owns nothing of its own.
 */
#include "rpc/connection.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

#define RECEIVE_BUFFER_MIN 4096
#define RECEIVE_BUFFER_MAX (FRAME_HEADER + (size_t)RPC_FRAME_MAX)
#define RECEIVE_TURN	   (256U << 10) /* bytes from one peer before others have their turn */

/* ---- Bytes out */

void stream_flush(struct rpc_connection *connection)
{
	struct frame_buffer *buffer, *next;

	if (connection->failure)
		return;
	cds_list_for_each_entry_safe (buffer, next, &connection->outgoing, entry) {
		while (buffer->sent < buffer->length) {
			ssize_t count = tls_write(connection->tls, buffer->bytes + buffer->sent,
						  buffer->length - buffer->sent);

			if (count == -EAGAIN)
				return;
			if (count < 0) {
				connection_fail(connection, (int)count);
				return;
			}
			buffer->sent += (size_t)count;
		}
		connection->outgoing_bytes -= buffer->length;
		buffer_cap_remove(&connection->buffered, buffer->length);
		cds_list_del(&buffer->entry);
		frame_buffer_free(buffer);
	}
}

bool stream_push(struct rpc_connection *connection, struct frame_buffer *buffer)
{
	if (connection->state >= CONNECTION_CLOSING || connection->failure ||
	    connection->is_close_asked) {
		frame_buffer_free(buffer);
		return false;
	}
	if (connection->outgoing_bytes + buffer->length > CONNECTION_QUEUE_MAX) {
		frame_buffer_free(buffer);
		connection_fail(connection, -ETIMEDOUT);
		return false;
	}
	connection->outgoing_bytes += buffer->length;
	buffer_cap_add(connection->loop, &connection->buffered, buffer->length);
	cds_list_add_tail(&buffer->entry, &connection->outgoing);
	if (connection->state == CONNECTION_OPEN && connection->outgoing.next == &buffer->entry)
		stream_flush(connection);
	return true;
}

/* ---- Bytes in */

void stream_free_received(struct rpc_connection *connection)
{
	if (connection->received)
		OPENSSL_cleanse(connection->received, connection->received_capacity);
	free(connection->received);
	connection->received = NULL;
}

static bool make_room(struct rpc_connection *connection)
{
	size_t capacity = 2 * connection->received_capacity;
	uint8_t *bytes;

	if (connection->received_length < connection->received_capacity)
		return true;
	if (capacity < RECEIVE_BUFFER_MIN)
		capacity = RECEIVE_BUFFER_MIN;
	if (capacity > RECEIVE_BUFFER_MAX)
		capacity = RECEIVE_BUFFER_MAX;
	bytes = malloc(capacity); /* not realloc(), which may leave a copy behind */
	if (!bytes)
		return false;
	if (connection->received_length)
		memcpy(bytes, connection->received, connection->received_length);
	buffer_cap_add(connection->loop, &connection->buffered,
		       capacity - connection->received_capacity);
	stream_free_received(connection);
	connection->received = bytes;
	connection->received_capacity = capacity;
	return true;
}

static void release_room(struct rpc_connection *connection)
{
	if (connection->received_length || connection->received_capacity <= RECEIVE_BUFFER_MIN)
		return;
	buffer_cap_remove(&connection->buffered, connection->received_capacity);
	stream_free_received(connection);
	connection->received_capacity = 0;
}

/* Decrypts what fits. The buffer grows with the bytes that have arrived, not with the length that
 * was announced. */
static ssize_t receive_some(struct rpc_connection *connection)
{
	ssize_t count;

	if (!make_room(connection))
		return -ENOMEM;
	pthread_mutex_lock(&connection->lock);
	count = tls_read(connection->tls, connection->received + connection->received_length,
			 connection->received_capacity - connection->received_length);
	pthread_mutex_unlock(&connection->lock);
	if (count > 0)
		connection->received_length += (size_t)count;
	return count;
}

/* False if the owner, or a sender that met an error, has asked for the end. */
static bool is_receiving(struct rpc_connection *connection)
{
	bool answer;

	pthread_mutex_lock(&connection->lock);
	answer = connection->state == CONNECTION_OPEN && !connection->is_close_asked &&
		 !connection->failure;
	pthread_mutex_unlock(&connection->lock);
	return answer;
}

static int consume_frame(struct rpc_connection *connection, uint8_t *bytes, size_t length)
{
	bool is_taken = false;
	Afar__Frame *frame;
	int ret = rpc_frame_decode(bytes, length, &frame);

	if (frame && frame_is_to_wipe(frame))
		OPENSSL_cleanse(bytes, length);
	if (!ret)
		call_receive(connection, frame, &is_taken);
	else if (ret == -AFAR_EVERSION)
		call_receive_alien(connection, frame, &is_taken);
	if (!is_taken)
		rpc_frame_free(frame);
	return ret;
}

static int consume_frames(struct rpc_connection *connection)
{
	size_t offset = 0;
	int ret = 0;

	while (!ret && is_receiving(connection)) {
		uint8_t *bytes = connection->received + offset;
		size_t have = connection->received_length - offset;
		size_t length;

		if (have < FRAME_HEADER)
			break;
		length = frame_length(bytes);
		if (length > RPC_FRAME_MAX) {
			ret = error_fail(-AFAR_EMALFORMED,
					 "frame: %zu bytes are more than the %u allowed", length,
					 RPC_FRAME_MAX);
			break;
		}
		if (have - FRAME_HEADER < length)
			break;
		ret = consume_frame(connection, bytes + FRAME_HEADER, length);
		offset += FRAME_HEADER + length;
	}
	connection->received_length -= offset;
	if (offset && connection->received_length)
		memmove(connection->received, connection->received + offset,
			connection->received_length);
	return ret;
}

static void ask_for_another_turn(struct rpc_connection *connection)
{
	pthread_mutex_lock(&connection->lock);
	connection->has_more = true;
	pthread_mutex_unlock(&connection->lock);
	connection_call_attention(connection);
}

/* Ends the connection of a peer that broke the protocol: `status` has just been failed with a
 * sentence. */
static void end_for_breach(struct rpc_connection *connection, int status)
{
	if (connection->is_accepted)
		connection_complain(connection, NULL, status);
	if (status == -AFAR_EVERSION)
		connection_end(connection, status);
	else
		connection_finish(connection, status);
}

void stream_receive(struct rpc_connection *connection)
{
	size_t turn = 0;
	ssize_t count = 0;
	int ret = 0;

	while (!ret && is_receiving(connection) && turn < RECEIVE_TURN) {
		count = receive_some(connection);
		if (count < 0)
			break;
		turn += (size_t)count;
		ret = consume_frames(connection);
	}
	release_room(connection);
	if (count == -AFAR_EMALFORMED)
		ret = error_fail(-AFAR_EMALFORMED, "TLS: a record is broken");
	if (ret)
		end_for_breach(connection, ret);
	else if (count < 0 && count != -EAGAIN)
		connection_finish(connection, (int)count);
	else if (turn >= RECEIVE_TURN)
		ask_for_another_turn(connection);
}

/* ---- Closing: sends the last frames, then reads and drops what comes until the peer has closed,
 * too. Closing with bytes unread would reset the connection before the peer has the last frames. */

static void send_last_frames(struct rpc_connection *connection)
{
	pthread_mutex_lock(&connection->lock);
	stream_flush(connection);
	if (cds_list_empty(&connection->outgoing) && !connection->failure &&
	    !connection->has_sent_close_notify) {
		connection->has_sent_close_notify = true;
		tls_close_notify(connection->tls);
		shutdown(connection->source.fd, SHUT_WR);
	}
	pthread_mutex_unlock(&connection->lock);
}

void stream_linger(struct rpc_connection *connection)
{
	size_t turn = 0;
	ssize_t count;

	send_last_frames(connection);
	connection->received_length = 0;
	do {
		count = receive_some(connection);
		connection->received_length = 0;
		turn += count > 0 ? (size_t)count : 0;
	} while (count > 0 && turn < RECEIVE_TURN);
	if (count > 0)
		ask_for_another_turn(connection);
	else if (count != -EAGAIN)
		connection_finish(connection, connection->closing_status);
}
