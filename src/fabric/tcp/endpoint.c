/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: one connection each, opened from either side, and what is posted on it. Called by whoever
 * owns the endpoint's queue.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/address.h"
#include "fabric/tcp/paged.h"
#include "fabric/tcp/tcp.h"

/* A peer may well leave us unread for a while: it has posted a read and computes. */
#define SILENT_MS  60000
#define IDLE_S	   5
#define INTERVAL_S 2

/* ---- Opening */

static void set_socket_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, SILENT_MS},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, INTERVAL_S},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof(options[i].value));
}

/*
 * Ends a connection for good: what is in the socket does not reach the peer any more. The peer
 * hears of the end at once, whatever else has the socket open (a forked child).
 */
static void abort_socket(int fd)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	(void)connect(fd, &none, sizeof(none)); /* it fails on what has ended already */
	close(fd);
}

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t power = 1;

	while (power < at_least)
		power *= 2;
	return power;
}

/* An endpoint and its rings are one piece of memory. Rings and stage are left as they are: much of them may never
 * be used. */
static struct tcp_endpoint *endpoint_new(struct tcp_queue *queue, struct fabric_domain *domain,
					 void *owner)
{
	uint32_t nr_out = power_of_two(queue->depth + TCP_REPLIES_MAX);
	uint32_t nr_expected = power_of_two(queue->depth);
	struct tcp_endpoint *endpoint = malloc(sizeof(*endpoint) + nr_out * sizeof(*endpoint->out) +
					       nr_expected * sizeof(*endpoint->expected));

	if (!endpoint)
		return NULL;
	memset(endpoint, 0, offsetof(struct tcp_endpoint, stage));
	endpoint->base.queue = &queue->base;
	endpoint->base.owner = owner;
	endpoint->domain = tcp_container(domain, struct tcp_domain);
	endpoint->fd = -1;
	endpoint->depth = queue->depth;
	endpoint->out = (struct tcp_outgoing *)(endpoint + 1);
	endpoint->out_mask = nr_out - 1;
	endpoint->expected = (struct tcp_expected *)(endpoint->out + nr_out);
	endpoint->expected_mask = nr_expected - 1;
	CDS_INIT_LIST_HEAD(&endpoint->connecting);
	CDS_INIT_LIST_HEAD(&endpoint->eventful);
	CDS_INIT_LIST_HEAD(&endpoint->held);
	return endpoint;
}

/* The hello waits in the stage. */
static void write_hello(struct tcp_endpoint *endpoint, const void *private_data, size_t length)
{
	struct tcp_hello hello = {
		.magic = htole32(TCP_WIRE_MAGIC),
		.version = htole16(TCP_WIRE_VERSION),
		.private_length = htole16((uint16_t)length),
	};

	if (length > 0)
		memcpy(hello.private_data, private_data, length);
	memcpy(endpoint->stage, &hello, sizeof(hello));
	endpoint->stage_end = (uint32_t)(TCP_HELLO_HEAD + length);
}

/* Refused at once or later is the same to the caller. */
static int start_connecting(struct tcp_endpoint *endpoint, const struct fabric_address *peer)
{
	struct tcp_queue *queue = tcp_container(endpoint->base.queue, struct tcp_queue);
	bool is_refused;
	int ret;

	endpoint->fd =
		socket(peer->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (endpoint->fd < 0)
		return -errno;
	set_socket_options(endpoint->fd);
	ret = tcp_congestion_connect(endpoint->fd, queue->base.fabric->congestion, peer);
	if (ret != 0) {
		close(endpoint->fd);
		return ret;
	}
	is_refused =
		connect(endpoint->fd, (const struct sockaddr *)&peer->storage, peer->length) != 0 &&
		errno != EINPROGRESS;
	ret = tcp_queue_add(queue, endpoint);
	if (ret != 0) {
		abort_socket(endpoint->fd);
		return ret;
	}
	if (is_refused)
		tcp_endpoint_break(endpoint);
	return 0;
}

int tcp_connect(struct fabric_queue *base, const char *address, const void *private_data,
		size_t private_length, void *owner, struct fabric_endpoint **out)
{
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);
	struct tcp_endpoint *endpoint;
	struct fabric_address peer;
	int ret;

	if (private_length > FABRIC_PRIVATE_MAX)
		return error_code(-EINVAL);
	ret = fabric_address_resolve("connect to", address, false, &peer);
	if (ret != 0)
		return ret;
	endpoint = endpoint_new(queue, base->fabric->domain, owner);
	if (!endpoint)
		return error_code(-ENOMEM);
	write_hello(endpoint, private_data, private_length);
	ret = start_connecting(endpoint, &peer);
	if (ret != 0) {
		free(endpoint);
		return error_fail(ret, "connect to %s: %s", address, afar_strerror(ret));
	}
	*out = &endpoint->base;
	return 0;
}

int tcp_accept(struct fabric_request *request, struct fabric_queue *base,
	       struct fabric_domain *domain, void *owner, struct fabric_endpoint **out)
{
	const struct tcp_welcome welcome = {.magic = htole32(TCP_WIRE_MAGIC),
					    .version = htole16(TCP_WIRE_VERSION)};
	struct tcp_queue *queue = tcp_container(base, struct tcp_queue);
	struct tcp_endpoint *endpoint = endpoint_new(queue, domain, owner);
	int ret;

	if (!endpoint)
		return error_code(-ENOMEM);
	endpoint->fd = tcp_request_take(request);
	set_socket_options(endpoint->fd);
	tcp_congestion_accept(endpoint->fd, base->fabric->congestion);
	endpoint->state = TCP_IS_CONNECTED;
	ret = tcp_queue_add(queue, endpoint);
	if (ret != 0) {
		abort_socket(endpoint->fd);
		free(endpoint);
		return error_fail(ret, "accept %s: %s", request->peer, afar_strerror(ret));
	}
	tcp_queue_tell(queue, endpoint);
	/* It is the first that is sent: there is room, or the peer has gone. */
	if (send(endpoint->fd, &welcome, sizeof(welcome), MSG_DONTWAIT | MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(welcome))
		tcp_endpoint_break(endpoint);
	*out = &endpoint->base;
	return 0;
}

/* ---- Hello and welcome */

static void send_hello(struct tcp_endpoint *endpoint)
{
	/* Until it is connected the socket says EAGAIN. */
	ssize_t nr = send(endpoint->fd, endpoint->stage, endpoint->stage_end,
			  MSG_DONTWAIT | MSG_NOSIGNAL);

	if (nr < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (nr != (ssize_t)endpoint->stage_end) {
		tcp_endpoint_break(endpoint);
		return;
	}
	endpoint->has_greeted = true;
	endpoint->stage_end = 0;
}

static bool is_welcome(const struct tcp_welcome *welcome)
{
	return le32toh(welcome->magic) == TCP_WIRE_MAGIC &&
	       le16toh(welcome->version) == TCP_WIRE_VERSION && welcome->reserved == 0;
}

static void receive_welcome(struct tcp_endpoint *endpoint)
{
	struct tcp_queue *queue = tcp_container(endpoint->base.queue, struct tcp_queue);
	struct tcp_welcome welcome;
	ssize_t nr = recv(endpoint->fd, endpoint->stage + endpoint->stage_end,
			  sizeof(welcome) - endpoint->stage_end, MSG_DONTWAIT);

	if (nr < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (nr <= 0) {
		tcp_endpoint_break(endpoint);
		return;
	}
	endpoint->stage_end += (uint32_t)nr;
	if (endpoint->stage_end < sizeof(welcome))
		return;
	memcpy(&welcome, endpoint->stage, sizeof(welcome));
	endpoint->stage_end = 0;
	if (!is_welcome(&welcome)) {
		tcp_endpoint_break(endpoint);
		return;
	}
	endpoint->state = TCP_IS_CONNECTED;
	tcp_queue_tell(queue, endpoint);
}

void tcp_endpoint_greet(struct tcp_endpoint *endpoint)
{
	if (!endpoint->has_greeted)
		send_hello(endpoint);
	if (endpoint->has_greeted)
		receive_welcome(endpoint);
}

/* ---- Ending: CONNECTING -> CONNECTED -> CLOSED, or CONNECTING -> CLOSED */

void tcp_endpoint_break(struct tcp_endpoint *endpoint)
{
	struct tcp_queue *queue = tcp_container(endpoint->base.queue, struct tcp_queue);

	if (endpoint->state == TCP_IS_CLOSED)
		return;
	endpoint->was_connected = endpoint->state == TCP_IS_CONNECTED;
	endpoint->state = TCP_IS_CLOSED;
	tcp_queue_forget_socket(queue, endpoint);
	abort_socket(endpoint->fd);
	endpoint->fd = -1;
	tcp_paged_end(endpoint);
	tcp_queue_tell(queue, endpoint);
	/* Polling tells of what has ended. */
	tcp_queue_warm(queue, endpoint);
}

void tcp_endpoint_fail(struct tcp_endpoint *endpoint, int error)
{
	endpoint->is_silent = error != ECONNRESET && error != EPIPE;
	tcp_endpoint_break(endpoint);
}

void tcp_endpoint_fault(struct tcp_endpoint *endpoint, uint32_t place)
{
	endpoint->has_fault = true;
	endpoint->fault = place & endpoint->expected_mask;
	tcp_endpoint_break(endpoint);
}

void tcp_endpoint_fail_rest(struct tcp_endpoint *endpoint, struct tcp_sink *sink)
{
	const int status = !endpoint->was_connected ? -ECONNREFUSED
			   : endpoint->is_silent    ? -ETIMEDOUT
						    : -ECONNRESET;
	const struct tcp_outgoing *out;

	if (endpoint->has_fault && !endpoint->is_fault_told && !tcp_sink_is_full(sink)) {
		tcp_sink_put(sink, endpoint->expected[endpoint->fault].context, -EFAULT);
		endpoint->is_fault_told = true;
	}
	while (endpoint->expected_first != endpoint->expected_end && !tcp_sink_is_full(sink)) {
		uint32_t index = endpoint->expected_first++ & endpoint->expected_mask;

		if (endpoint->has_fault && endpoint->fault == index)
			continue;
		tcp_sink_put(sink, endpoint->expected[index].context, status);
	}
	while (endpoint->out_first != endpoint->out_end && !tcp_sink_is_full(sink)) {
		out = &endpoint->out[endpoint->out_first++ & endpoint->out_mask];
		if (out->type == TCP_MESSAGE)
			tcp_sink_put(sink, out->context, status);
	}
	while (endpoint->receive_first != endpoint->receive_end && !tcp_sink_is_full(sink)) {
		uint32_t index = endpoint->receive_first++ % FABRIC_RECEIVE_MOST;

		tcp_sink_put(sink, endpoint->receives[index].context, status);
	}
}

void tcp_endpoint_close(struct fabric_endpoint *base)
{
	struct tcp_endpoint *endpoint = tcp_container(base, struct tcp_endpoint);
	struct tcp_queue *queue = tcp_container(base->queue, struct tcp_queue);

	tcp_endpoint_break(endpoint);
	tcp_queue_remove(queue, endpoint);
	free(endpoint->paging);
	free(endpoint->sums);
	free(endpoint);
}

void tcp_endpoint_congestion(struct fabric_endpoint *base, char out[static FABRIC_CONGESTION_MAX])
{
	tcp_congestion_get(tcp_container(base, struct tcp_endpoint)->fd, out);
}

/* ---- Posting */

static int push_request(struct tcp_endpoint *endpoint, bool is_first, uint64_t length)
{
	struct tcp_queue *queue = tcp_container(endpoint->base.queue, struct tcp_queue);

	endpoint->nr_requests++;
	tcp_stream_push(endpoint);
	tcp_queue_warm(queue, endpoint);
	tcp_queue_send(queue, endpoint, is_first, length);
	return 0;
}

/* Fills `iov` with the pieces that have any bytes. */
static uint32_t fill_iov(struct iovec *iov, const struct fabric_piece *pieces, unsigned nr_pieces)
{
	uint32_t nr = 0;

	for (unsigned i = 0; i < nr_pieces; i++) {
		if (pieces[i].length > 0)
			iov[nr++] = (struct iovec){pieces[i].addr, pieces[i].length};
	}
	return nr;
}

/* -EINVAL, -EMSGSIZE. */
static int sum_lengths(const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t *length)
{
	*length = 0;
	for (unsigned i = 0; i < nr_pieces; i++) {
		if (__builtin_add_overflow(*length, pieces[i].length, length))
			return -EINVAL;
	}
	return *length > TCP_TRANSFER_MAX ? -EMSGSIZE : 0;
}

/* After a silent end the answer is -ETIMEDOUT, as for the requests before: the peer may still carry
 * them out. */
static int why_not(const struct tcp_endpoint *endpoint)
{
	return endpoint->state == TCP_IS_CLOSED && endpoint->is_silent ? -ETIMEDOUT : -ENOTCONN;
}

static inline int transfer(struct fabric_endpoint *base, uint32_t type, uint32_t hints,
			   const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			   uint64_t key, uint64_t context)
{
	struct tcp_endpoint *endpoint = tcp_container(base, struct tcp_endpoint);
	bool is_first = endpoint->out_next == endpoint->out_end;
	struct tcp_expected *expected;
	struct tcp_outgoing *out;
	uint64_t length;
	int ret;

	if (endpoint->state != TCP_IS_CONNECTED)
		return why_not(endpoint);
	if (nr_pieces == 0 || nr_pieces > FABRIC_IOV_MAX || context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	ret = sum_lengths(pieces, nr_pieces, &length);
	if (ret != 0)
		return ret;
	if (endpoint->nr_requests == endpoint->depth)
		return -EAGAIN;
	out = tcp_stream_place(endpoint, type, length);
	if (!out)
		return -EAGAIN;
	out->frame.word = htole32(hints);
	out->frame.key = htole64(key);
	out->frame.offset = htole64(remote);
	expected = &endpoint->expected[endpoint->expected_end++ & endpoint->expected_mask];
	expected->length = length;
	expected->context = context;
	expected->nr_iov = 0;
	if (tcp_is_read(type)) {
		expected->type = type == TCP_READ ? TCP_READ_REPLY : TCP_CHECKED_REPLY;
		expected->nr_iov = fill_iov(expected->iov, pieces, nr_pieces);
	} else {
		expected->type = TCP_WRITE_ACK;
		out->nr_iov = fill_iov(out->iov, pieces, nr_pieces);
	}
	if (__builtin_expect(tcp_is_checked(type), 0))
		tcp_sums_prepare(endpoint, expected, out);
	return push_request(endpoint, is_first, tcp_is_read(type) ? 0 : length);
}

int tcp_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	return transfer(endpoint, TCP_READ, 0, pieces, nr_pieces, remote, key, context);
}

int tcp_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	return transfer(endpoint, TCP_WRITE, 0, pieces, nr_pieces, remote, key, context);
}

/* Checks what only a checked transfer must heed, and makes room for its sums. */
static int check_blocks(struct fabric_endpoint *base, const struct fabric_piece *pieces,
			unsigned nr_pieces, uint64_t remote)
{
	uint64_t length;
	int ret = sum_lengths(pieces, nr_pieces, &length);

	if (ret != 0)
		return ret;
	if (length > FABRIC_PAGED_MAX)
		return -EMSGSIZE;
	if (length == 0 || remote % CHECKSUM_BLOCK != 0)
		return -EINVAL;
	return tcp_sums_open(tcp_container(base, struct tcp_endpoint));
}

int tcp_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
		       const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
		       uint64_t key, uint64_t context)
{
	int ret = flags & FABRIC_PAGED_CHECKED ? check_blocks(endpoint, pieces, nr_pieces, remote)
					       : 0;

	return ret != 0 ? ret
			: transfer(endpoint, tcp_type_of(flags), flags & FABRIC_PAGED_HINTS, pieces,
				   nr_pieces, remote, key, context);
}

int tcp_receive(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct tcp_endpoint *endpoint = tcp_container(base, struct tcp_endpoint);
	struct tcp_queue *queue = tcp_container(base->queue, struct tcp_queue);

	if (endpoint->state == TCP_IS_CLOSED)
		return -ENOTCONN;
	if (context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	if (endpoint->receive_end - endpoint->receive_first == base->queue->fabric->nr_receives)
		return -EAGAIN;
	endpoint->receives[endpoint->receive_end++ % FABRIC_RECEIVE_MOST] =
		(struct tcp_receive){piece->addr, piece->length, context};
	if (endpoint->lacks_receive) {
		/* The message is here: nobody may sleep on it. */
		endpoint->lacks_receive = false;
		queue->is_drained = false;
		tcp_queue_warm(queue, endpoint);
	}
	return 0;
}

int tcp_send(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct tcp_endpoint *endpoint = tcp_container(base, struct tcp_endpoint);
	bool is_first = endpoint->out_next == endpoint->out_end;
	struct tcp_outgoing *out;

	if (endpoint->state != TCP_IS_CONNECTED)
		return why_not(endpoint);
	if (context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	if (piece->length > TCP_TRANSFER_MAX)
		return -EMSGSIZE;
	if (endpoint->nr_requests == endpoint->depth)
		return -EAGAIN;
	out = tcp_stream_place(endpoint, TCP_MESSAGE, piece->length);
	if (!out)
		return -EAGAIN;
	out->context = context;
	out->nr_iov = fill_iov(out->iov, piece, 1);
	return push_request(endpoint, is_first, piece->length);
}
