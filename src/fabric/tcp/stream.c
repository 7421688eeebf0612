/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames out of a socket and into it. Payloads go straight between the socket and the memory they are of;
 * headers, and payloads that come along with them, pass the stage. Called by queue.c's polls and
 * endpoint.c's posting; owns nothing.
 *
 * Everything that comes is a peer's: step() is where it is believed or not.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/tcp/paged.h"
#include "fabric/tcp/tcp.h"

#define SEND_IOV      128U /* of one system call: 60 small replies, or so           */
#define SEND_BYTES    ((1025U << 10) + 64) /* of one system call at most: a MiB, sums, a header */
#define LAST_BYTES    ((512U << 10) + 64)  /* the same when nothing else is to be sent          */
#define RECEIVE_BYTES (1024U << 10) /* of one system call at most, and of one poll, about     */
#define TAIL_BYTES    64U /* of what follows a payload: the next header comes along with it */

/* ---- Sending */

struct tcp_outgoing *tcp_stream_place(struct tcp_endpoint *endpoint, uint32_t type, uint64_t length)
{
	struct tcp_outgoing *out;

	if (endpoint->out_end - endpoint->out_first > endpoint->out_mask)
		return NULL;
	out = &endpoint->out[endpoint->out_end & endpoint->out_mask];
	out->frame = (struct tcp_frame){.type = htole32(type), .length = htole64(length)};
	out->type = type;
	out->length = length;
	out->nr_iov = 0;
	return out;
}

static uint64_t payload_of(const struct tcp_outgoing *out)
{
	return tcp_is_read(out->type) || out->type == TCP_WRITE_ACK ? 0 : out->length;
}

/* Adds what is left of a frame, of which `skip` bytes are sent, up to `most` bytes. Returns how many. */
static size_t gather_frame(struct tcp_outgoing *out, uint64_t skip, size_t most, struct iovec *iov,
			   size_t *nr_iov)
{
	uint32_t header = tcp_frame_bytes(out->type);
	size_t bytes = 0;

	for (uint32_t i = 0; i <= out->nr_iov; i++) {
		struct iovec piece = i == 0 ? (struct iovec){&out->frame, header} : out->iov[i - 1];

		if (skip >= piece.iov_len) {
			skip -= piece.iov_len;
			continue;
		}
		piece.iov_base = (char *)piece.iov_base + skip;
		piece.iov_len -= skip;
		skip = 0;
		if (piece.iov_len > most - bytes)
			piece.iov_len = most - bytes;
		bytes += piece.iov_len;
		iov[(*nr_iov)++] = piece;
		if (bytes == most)
			break;
	}
	return bytes;
}

/* Gathers `nr_max` frames and `most` bytes at most. */
static size_t gather(struct tcp_endpoint *endpoint, uint32_t nr_max, size_t most, struct iovec *iov,
		     size_t *nr_iov)
{
	uint64_t skip = endpoint->out_sent;
	size_t bytes = 0;

	*nr_iov = 0;
	for (uint32_t i = endpoint->out_next; i != endpoint->out_end && nr_max-- > 0; i++) {
		struct tcp_outgoing *out = &endpoint->out[i & endpoint->out_mask];

		if (*nr_iov + 1 + TCP_IOV_MAX > SEND_IOV || bytes >= most ||
		    out->type == TCP_UNDECIDED)
			break;
		bytes += gather_frame(out, skip, most - bytes, iov, nr_iov);
		skip = 0;
	}
	return bytes;
}

/* So many bytes are sent. */
static void note_sent(struct tcp_endpoint *endpoint, uint64_t bytes)
{
	counter_add(&endpoint->base.queue->bytes_out, bytes);
	endpoint->out_sent += bytes;
	while (endpoint->out_next != endpoint->out_end) {
		const struct tcp_outgoing *out =
			&endpoint->out[endpoint->out_next & endpoint->out_mask];
		uint64_t length = tcp_frame_bytes(out->type) + payload_of(out);

		if (endpoint->out_sent < length)
			break;
		endpoint->out_sent -= length;
		endpoint->out_next++;
		if (tcp_is_request(out->type))
			endpoint->expected_sent++;
	}
}

/*
 * TCP may send nothing of a call before it has copied all of it from us. With more to come the peer
 * is busy meanwhile. But a peer that waits for a MiB and nothing else would wait for two copies,
 * one after the other. So the last goes in two parts.
 */
static ssize_t send_frames(struct tcp_endpoint *endpoint, uint32_t nr_max)
{
	struct iovec iov[SEND_IOV];
	struct msghdr message = {.msg_iov = iov};
	size_t bytes = gather(endpoint, nr_max, SEND_BYTES, iov, &message.msg_iovlen);

	if (bytes > LAST_BYTES && bytes < SEND_BYTES)
		bytes = gather(endpoint, nr_max, LAST_BYTES, iov, &message.msg_iovlen);
	return message.msg_iovlen == 1
		       ? send(endpoint->fd, iov[0].iov_base, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
		       : sendmsg(endpoint->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The first frame that is not sent is of memory that is not there. */
__attribute__((cold)) static void fail_sending(struct tcp_endpoint *endpoint)
{
	if (tcp_is_request(endpoint->out[endpoint->out_next & endpoint->out_mask].type))
		tcp_endpoint_fault(endpoint, endpoint->expected_sent);
	else
		tcp_endpoint_break(endpoint);
}

bool tcp_stream_flush(struct tcp_endpoint *endpoint)
{
	ssize_t nr;

	if (endpoint->out_next == endpoint->out_end || tcp_stream_is_undecided(endpoint))
		return false;
	nr = send_frames(endpoint, UINT32_MAX);
	if (nr < 0 && errno == EFAULT)
		nr = send_frames(endpoint, 1); /* it may be one behind that */
	if (nr >= 0)
		note_sent(endpoint, (uint64_t)nr);
	else if (errno == EFAULT)
		fail_sending(endpoint);
	else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		tcp_endpoint_fail(endpoint, errno);
	return nr > 0;
}

void tcp_stream_reap(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	while (endpoint->out_first != endpoint->out_next) {
		const struct tcp_outgoing *out =
			&endpoint->out[endpoint->out_first & endpoint->out_mask];

		if (out->type == TCP_MESSAGE) {
			if (tcp_sink_is_full(sink))
				return;
			tcp_sink_put(sink, out->context, 0);
			endpoint->nr_requests--;
		} else if (out->type == TCP_READ_REPLY || out->type == TCP_WRITE_ACK) {
			endpoint->nr_replies--;
		} else if (out->type == TCP_PAGED_REPLY) {
			endpoint->nr_replies--;
			tcp_paged_finish(out);
		}
		endpoint->out_first++;
	}
	if (endpoint->out_first == endpoint->out_end)
		endpoint->out_first = endpoint->out_next = endpoint->out_end = 0;
}

/* ---- Receiving: what a header says */

enum step {
	STEP_DONE,    /* go on                                               */
	STEP_STARVED, /* more must come first                                */
	STEP_BLOCKED, /* the peer, or our owner, must take something first   */
	STEP_BROKEN,  /* the peer has said what it may not                   */
};

/* The frame has a payload of so many bytes. */
static void expect_payload(struct tcp_endpoint *endpoint, const struct tcp_frame *frame,
			   const struct iovec *iov, unsigned nr_iov, uint64_t bytes)
{
	struct tcp_incoming *in = &endpoint->in;

	in->is_payload = true;
	in->type = frame->type;
	in->length = frame->length;
	in->left = bytes;
	in->iov_first = 0;
	in->nr_iov = nr_iov;
	if (nr_iov > 0)
		memcpy(in->iov, iov, nr_iov * sizeof(*iov));
}

/* A reply in line. There is a place: a request is taken only when there is. */
static void push_reply(struct tcp_endpoint *endpoint, uint32_t type, void *data, uint64_t length)
{
	struct tcp_outgoing *out = tcp_stream_place(endpoint, type, length);

	if (type == TCP_READ_REPLY && length > 0) {
		out->iov[0] = (struct iovec){data, length};
		out->nr_iov = 1;
	}
	endpoint->nr_replies++;
	tcp_stream_push(endpoint);
}

/* The payload of a write to paged memory goes to where the pager wants it, or else is dropped. */
static void expect_paged(struct tcp_endpoint *endpoint, const struct tcp_frame *frame,
			 struct tcp_paged *paged, int status)
{
	const uint64_t sums = tcp_is_checked(frame->type) ? tcp_sums_bytes(frame->length) : 0;
	const struct iovec iov[2] = {{paged ? paged->base.addr : NULL, frame->length},
				     {paged ? paged->base.sums : NULL, sums}};

	expect_payload(endpoint, frame, iov, !paged ? 0 : sums > 0 ? 2 : 1, frame->length + sums);
	endpoint->in.type = paged ? TCP_PUT : TCP_DROPPED;
	endpoint->in.paged = paged;
	endpoint->in.status = status;
}

/* The peer asks for paged memory, or for memory that it may not have. */
__attribute__((cold, noinline)) static enum step take_paged(struct tcp_endpoint *endpoint,
							    const struct tcp_frame *frame)
{
	bool is_read = tcp_is_read(frame->type);
	struct fabric_pager *pager = tcp_memory_find_pager(
		endpoint->domain, &endpoint->known, frame->key, frame->offset, frame->length,
		is_read ? FABRIC_REMOTE_READ : FABRIC_REMOTE_WRITE);
	struct tcp_paged *paged = NULL;
	int ret;

	if (!pager || frame->length > FABRIC_PAGED_MAX)
		return STEP_BROKEN;
	/* The pager is not asked for nothing. */
	if (frame->length == 0) {
		push_reply(endpoint, is_read ? TCP_READ_REPLY : TCP_WRITE_ACK, NULL, 0);
		return STEP_DONE;
	}
	ret = tcp_paged_take(endpoint, pager, frame, &paged);
	if (ret == -EAGAIN)
		return STEP_BLOCKED;
	if (!is_read)
		expect_paged(endpoint, frame, paged, ret);
	else if (ret == 0)
		tcp_paged_begin(paged);
	else
		tcp_paged_refuse(endpoint, frame->length, ret);
	return STEP_DONE;
}

/* A request that is for paged memory alone. */
static enum step take_for_paged(struct tcp_endpoint *endpoint, const struct tcp_frame *frame)
{
	endpoint->lacks_place = !tcp_stream_has_reply_place(endpoint);
	return endpoint->lacks_place ? STEP_BLOCKED : take_paged(endpoint, frame);
}

/* It is of whole blocks but for the last one's end, and at least of a part of one. */
static enum step take_checked(struct tcp_endpoint *endpoint, const struct tcp_frame *frame)
{
	if (frame->length == 0 || frame->offset % CHECKSUM_BLOCK != 0)
		return STEP_BROKEN;
	return take_for_paged(endpoint, frame);
}

static enum step take_request(struct tcp_endpoint *endpoint, const struct tcp_frame *frame)
{
	bool is_read = frame->type == TCP_READ;
	struct iovec iov;
	uint8_t *data;

	endpoint->lacks_place = !tcp_stream_has_reply_place(endpoint);
	if (endpoint->lacks_place)
		return STEP_BLOCKED;
	data = tcp_memory_find(endpoint->domain, &endpoint->known, frame->key, frame->offset,
			       frame->length, is_read ? FABRIC_REMOTE_READ : FABRIC_REMOTE_WRITE);
	if (!data)
		return take_paged(endpoint, frame);
	if (is_read) {
		push_reply(endpoint, TCP_READ_REPLY, data, frame->length);
	} else {
		iov = (struct iovec){data, frame->length};
		expect_payload(endpoint, frame, &iov, 1, frame->length);
	}
	return STEP_DONE;
}

/* Replies must be those that are due. */
static enum step take_reply(struct tcp_endpoint *endpoint, const struct tcp_frame *frame)
{
	const struct tcp_expected *expected =
		&endpoint->expected[endpoint->expected_first & endpoint->expected_mask];

	uint64_t bytes = 0;

	if (endpoint->expected_first == endpoint->expected_sent || frame->type != expected->type ||
	    frame->length != expected->length)
		return STEP_BROKEN;
	if (frame->type != TCP_WRITE_ACK)
		bytes = frame->length;
	if (frame->type == TCP_CHECKED_REPLY)
		bytes += tcp_sums_bytes(frame->length);
	expect_payload(endpoint, frame, expected->iov, expected->nr_iov, bytes);
	return STEP_DONE;
}

/* Instead of the reply that is due. */
static enum step take_failure(struct tcp_endpoint *endpoint, const struct tcp_frame *frame)
{
	const struct tcp_expected *expected =
		&endpoint->expected[endpoint->expected_first & endpoint->expected_mask];
	const uint32_t code = frame->word;

	if (endpoint->expected_first == endpoint->expected_sent ||
	    frame->length != expected->length || !tcp_is_code(code))
		return STEP_BROKEN;
	expect_payload(endpoint, frame, NULL, 0, 0);
	endpoint->in.status = -(int)code;
	return STEP_DONE;
}

static enum step take_message(struct tcp_endpoint *endpoint, const struct tcp_frame *frame)
{
	const struct tcp_receive *receive =
		&endpoint->receives[endpoint->receive_first % FABRIC_RECEIVE_MOST];
	struct iovec iov;

	if (endpoint->receive_first == endpoint->receive_end) {
		endpoint->lacks_receive = true;
		return STEP_BLOCKED;
	}
	if (frame->length > receive->length)
		return STEP_BROKEN;
	iov = (struct iovec){receive->addr, frame->length};
	expect_payload(endpoint, frame, &iov, 1, frame->length);
	return STEP_DONE;
}

static enum step take_header(struct tcp_endpoint *endpoint)
{
	uint32_t staged = endpoint->stage_end - endpoint->stage_begin, header;
	struct tcp_frame frame = {0};
	enum step step = STEP_BROKEN;

	if (staged < TCP_FRAME_SHORT)
		return STEP_STARVED;
	memcpy(&frame, endpoint->stage + endpoint->stage_begin, TCP_FRAME_SHORT);
	header = tcp_frame_bytes(le32toh(frame.type));
	if (staged < header)
		return STEP_STARVED;
	memcpy(&frame, endpoint->stage + endpoint->stage_begin, header);
	frame.type = le32toh(frame.type);
	frame.word = le32toh(frame.word);
	if (!tcp_is_word_good(frame.type, frame.word))
		return STEP_BROKEN;
	frame.length = le64toh(frame.length);
	frame.key = le64toh(frame.key);
	frame.offset = le64toh(frame.offset);
	if (frame.type == TCP_READ || frame.type == TCP_WRITE)
		step = take_request(endpoint, &frame);
	else if (frame.type == TCP_READ_REPLY || frame.type == TCP_WRITE_ACK ||
		 frame.type == TCP_CHECKED_REPLY)
		step = take_reply(endpoint, &frame);
	else if (frame.type == TCP_MESSAGE)
		step = take_message(endpoint, &frame);
	else if (frame.type == TCP_WRITE_DURABLE)
		step = take_for_paged(endpoint, &frame);
	else if (tcp_is_checked(frame.type))
		step = take_checked(endpoint, &frame);
	else if (frame.type == TCP_FAILED)
		step = take_failure(endpoint, &frame);
	if (step == STEP_DONE)
		endpoint->stage_begin += header;
	return step;
}

/* ---- Receiving: payloads */

/* So many bytes of the payload are in their place. */
static void note_payload(struct tcp_incoming *in, uint64_t bytes)
{
	in->left -= bytes;
	while (bytes > 0) {
		struct iovec *iov = &in->iov[in->iov_first];
		size_t part = bytes < iov->iov_len ? (size_t)bytes : iov->iov_len;

		iov->iov_base = (char *)iov->iov_base + part;
		iov->iov_len -= part;
		bytes -= part;
		if (iov->iov_len == 0)
			in->iov_first++;
	}
}

static void copy_staged(struct tcp_endpoint *endpoint)
{
	struct tcp_incoming *in = &endpoint->in;

	while (in->left > 0 && endpoint->stage_begin < endpoint->stage_end) {
		const struct iovec *iov = &in->iov[in->iov_first];
		size_t part = endpoint->stage_end - endpoint->stage_begin;

		if (part > iov->iov_len)
			part = iov->iov_len;
		memcpy(iov->iov_base, endpoint->stage + endpoint->stage_begin, part);
		endpoint->stage_begin += (uint32_t)part;
		note_payload(in, part);
	}
}

/* Drops what is staged of a payload that nobody takes. */
static void drop_staged(struct tcp_endpoint *endpoint)
{
	uint64_t part = endpoint->stage_end - endpoint->stage_begin;

	if (part > endpoint->in.left)
		part = endpoint->in.left;
	endpoint->stage_begin += (uint32_t)part;
	endpoint->in.left -= part;
}

/* The request whose turn it is has its reply. */
static void finish_request(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	uint32_t index = endpoint->expected_first++ & endpoint->expected_mask;

	endpoint->nr_requests--;
	tcp_sink_put(sink, endpoint->expected[index].context, 0);
	if (endpoint->expected_first == endpoint->expected_end)
		endpoint->expected_first = endpoint->expected_sent = endpoint->expected_end = 0;
}

/* The bytes of a checked read are there, and their sums. */
__attribute__((noinline)) static void finish_checked(struct tcp_endpoint *endpoint,
						     struct tcp_sink *sink)
{
	bool is_good = tcp_sums_fit(endpoint);

	finish_request(endpoint, sink);
	if (!is_good)
		tcp_sink_fail_altered(sink);
}

static void finish_message(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	uint32_t index = endpoint->receive_first++ % FABRIC_RECEIVE_MOST;

	tcp_sink_put(sink, endpoint->receives[index].context, 0);
}

static void finish_frame(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	const struct tcp_incoming *in = &endpoint->in;

	endpoint->in.is_payload = false;
	if (in->type == TCP_WRITE) {
		push_reply(endpoint, TCP_WRITE_ACK, NULL, in->length);
	} else if (in->type == TCP_MESSAGE) {
		finish_message(endpoint, sink);
	} else if (in->type == TCP_PUT) {
		tcp_paged_begin(in->paged);
	} else if (in->type == TCP_DROPPED) {
		tcp_paged_refuse(endpoint, in->length, in->status);
	} else if (in->type == TCP_CHECKED_REPLY) {
		finish_checked(endpoint, sink);
	} else {
		finish_request(endpoint, sink);
		if (in->type == TCP_FAILED)
			tcp_sink_fail_alone(sink, in->status);
	}
}

/* One header, or one payload, of what is staged. There is room in the sink. */
static enum step step(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	if (!endpoint->in.is_payload)
		return take_header(endpoint);
	if (__builtin_expect(endpoint->in.type == TCP_DROPPED, 0))
		drop_staged(endpoint);
	else
		copy_staged(endpoint);
	if (endpoint->in.left > 0)
		return STEP_STARVED;
	finish_frame(endpoint, sink);
	return STEP_DONE;
}

/* ---- Receiving: the socket */

/* The stage is empty: payload goes into its place, and a bit of what follows into the stage. `*asked` is what
 * there was room for. */
static ssize_t receive_payload(struct tcp_endpoint *endpoint, size_t *asked)
{
	struct tcp_incoming *in = &endpoint->in;
	struct iovec iov[TCP_IOV_MAX + 1];
	struct msghdr message = {.msg_iov = iov};
	size_t bytes = 0;
	ssize_t nr;

	for (unsigned i = in->iov_first; i < in->nr_iov && bytes < RECEIVE_BYTES; i++) {
		iov[message.msg_iovlen] = in->iov[i];
		if (iov[message.msg_iovlen].iov_len > RECEIVE_BYTES - bytes)
			iov[message.msg_iovlen].iov_len = RECEIVE_BYTES - bytes;
		bytes += iov[message.msg_iovlen++].iov_len;
	}
	*asked = bytes;
	if (bytes == in->left) {
		iov[message.msg_iovlen++] = (struct iovec){endpoint->stage, TAIL_BYTES};
		*asked += TAIL_BYTES;
	}
	nr = recvmsg(endpoint->fd, &message, MSG_DONTWAIT);
	if (nr <= 0)
		return nr;
	if ((size_t)nr < bytes)
		bytes = (size_t)nr;
	note_payload(in, bytes);
	endpoint->stage_begin = 0;
	endpoint->stage_end = (uint32_t)((size_t)nr - bytes);
	return nr;
}

static ssize_t receive_header(struct tcp_endpoint *endpoint, size_t *asked)
{
	uint32_t staged = endpoint->stage_end - endpoint->stage_begin;
	ssize_t nr;

	if (staged > 0 && endpoint->stage_begin > 0)
		memmove(endpoint->stage, endpoint->stage + endpoint->stage_begin, staged);
	endpoint->stage_begin = 0;
	endpoint->stage_end = staged;
	*asked = TCP_STAGE_BYTES - staged;
	nr = recv(endpoint->fd, endpoint->stage + staged, *asked, MSG_DONTWAIT);
	if (nr > 0)
		endpoint->stage_end += (uint32_t)nr;
	return nr;
}

/* There is memory for what comes next, and the socket's bytes go straight to it. */
static bool has_place(const struct tcp_incoming *in)
{
	return in->is_payload && in->type != TCP_DROPPED;
}

/* The memory that a payload is for is not there. */
__attribute__((cold)) static void fail_receiving(struct tcp_endpoint *endpoint)
{
	if (endpoint->in.type == TCP_READ_REPLY || endpoint->in.type == TCP_CHECKED_REPLY)
		tcp_endpoint_fault(endpoint, endpoint->expected_first);
	else
		tcp_endpoint_break(endpoint);
}

/* Returns how many bytes have come, 0 for none; `*is_drained`: there are no more for now. */
static size_t receive(struct tcp_endpoint *endpoint, bool *is_drained)
{
	size_t asked;
	ssize_t nr = has_place(&endpoint->in) ? receive_payload(endpoint, &asked)
					      : receive_header(endpoint, &asked);

	if (nr == 0)
		tcp_endpoint_break(endpoint);
	else if (nr < 0 && errno == EFAULT)
		fail_receiving(endpoint);
	else if (nr < 0 && errno != EAGAIN && errno != EINTR)
		tcp_endpoint_fail(endpoint, errno);
	*is_drained = nr < (ssize_t)asked;
	if (nr <= 0)
		return 0;
	counter_add(&endpoint->base.queue->bytes_in, (uint64_t)nr);
	return (size_t)nr;
}

/* ---- Both */

static enum step take_staged(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	enum step result = STEP_DONE;

	while (result == STEP_DONE && !tcp_sink_is_full(sink)) {
		result = step(endpoint, sink);
	}
	if (result == STEP_BROKEN)
		tcp_endpoint_break(endpoint);
	return result;
}

bool tcp_stream_progress(struct tcp_endpoint *endpoint, bool may_receive, struct tcp_sink *sink)
{
	size_t budget = may_receive ? RECEIVE_BYTES : 0, received;
	bool has_moved = false, is_drained = false;
	enum step result;

	tcp_stream_reap(endpoint, sink);
	do {
		result = take_staged(endpoint, sink);
		if (result != STEP_STARVED || is_drained || budget == 0)
			break;
		received = receive(endpoint, &is_drained);
		has_moved = has_moved || received > 0;
		budget -= received < budget ? received : budget;
		/* Process what has come before anything else. */
	} while (endpoint->state == TCP_IS_CONNECTED);
	/* Blocked, and whoever could end that has gone. */
	if (result == STEP_BLOCKED && endpoint->is_hung)
		tcp_endpoint_break(endpoint);
	if (endpoint->state == TCP_IS_CONNECTED && tcp_stream_flush(endpoint))
		has_moved = true;
	if (endpoint->state == TCP_IS_CONNECTED)
		tcp_stream_reap(endpoint, sink);
	return has_moved;
}
