/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: one connection each, opened from either side, and what is posted on it. Called by whoever
 * owns the endpoint's queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/local/exchange.h"
#include "fabric/local/local.h"
#include "fabric/local/memory.h"

#define LISTENS_MAX 64U /* for what is revoked: more than a socket holds */

/* ---- Opening */

/* Everything behind `done` is left as it is: much of it may never be used. */
static struct local_endpoint *endpoint_new(struct local_queue *queue, struct fabric_domain *domain,
					   void *owner)
{
	struct local_endpoint *endpoint = malloc(sizeof(*endpoint));

	if (!endpoint)
		return NULL;
	memset(endpoint, 0, offsetof(struct local_endpoint, receives));
	endpoint->base.queue = &queue->base;
	endpoint->base.owner = owner;
	endpoint->domain = local_container(domain, struct local_domain);
	endpoint->fd = -1;
	endpoint->depth = queue->depth;
	CDS_INIT_LIST_HEAD(&endpoint->connecting);
	CDS_INIT_LIST_HEAD(&endpoint->eventful);
	CDS_INIT_LIST_HEAD(&endpoint->finished);
	CDS_INIT_LIST_HEAD(&endpoint->loans);
	return endpoint;
}

/* Refused at once or later is the same to the caller. */
static int start_connecting(struct local_endpoint *endpoint)
{
	int ret;

	endpoint->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (endpoint->fd < 0)
		return -errno;
	ret = local_queue_add(local_queue_of(endpoint), endpoint);
	if (ret != 0) {
		close(endpoint->fd);
		return ret;
	}
	local_endpoint_greet(endpoint);
	return 0;
}

int local_connect(struct fabric_queue *base, const char *address, const void *private_data,
		  size_t private_length, void *owner, struct fabric_endpoint **out)
{
	struct local_queue *queue = local_container(base, struct local_queue);
	struct local_endpoint *endpoint;
	struct sockaddr_un peer;
	int ret;

	if (private_length > FABRIC_PRIVATE_MAX)
		return error_code(-EINVAL);
	ret = local_place_find(address, &peer);
	if (ret != 0)
		return ret;
	endpoint = endpoint_new(queue, base->fabric->domain, owner);
	if (!endpoint)
		return error_code(-ENOMEM);
	endpoint->peer = peer;
	endpoint->hello = (struct local_hello){.magic = LOCAL_WIRE_MAGIC,
					       .version = LOCAL_WIRE_VERSION,
					       .private_length = (uint16_t)private_length};
	if (private_length > 0)
		memcpy(endpoint->hello.private_data, private_data, private_length);
	endpoint->hello_length = (uint32_t)(LOCAL_HELLO_HEAD + private_length);
	ret = start_connecting(endpoint);
	if (ret != 0) {
		free(endpoint);
		return error_fail(ret, "connect to %s: %s", address, afar_strerror(ret));
	}
	*out = &endpoint->base;
	return 0;
}

/* ---- The link */

/* Makes a link of a length that nobody can change. */
static int make_link(void)
{
	int fd = memfd_create("afar-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct local_link)) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -ENOMEM;
}

bool local_endpoint_link(struct local_endpoint *endpoint, int fd, enum local_side_index side)
{
	const int other = LOCAL_NR_SIDES - 1 - (int)side, seals = fcntl(fd, F_GET_SEALS);
	struct local_link *link;
	struct stat file;

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0 ||
	    file.st_size != (off_t)sizeof(*link))
		return false;
	link = mmap(NULL, sizeof(*link), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (link == MAP_FAILED)
		return false;
	madvise(link, sizeof(*link), MADV_DONTFORK);
	endpoint->link = link;
	endpoint->mine = &link->sides[side];
	endpoint->theirs = &link->sides[other];
	endpoint->out_ring = link->rings[side];
	endpoint->in_ring = link->rings[other];
	if (side == LOCAL_ACCEPTING_SIDE)
		endpoint->mine->reaches_all = epoch_reach_all();
	else
		endpoint->is_reached = endpoint->theirs->reaches_all && epoch_is_reached();
	return true;
}

void local_endpoint_open(struct local_endpoint *endpoint)
{
	endpoint->state = LOCAL_IS_CONNECTED;
	local_queue_tell(local_queue_of(endpoint), endpoint);
	local_queue_warm(local_queue_of(endpoint), endpoint);
}

/* It is the first that is sent: there is room, or the peer has gone. */
static bool welcome(struct local_endpoint *endpoint)
{
	struct local_message message = local_talk_message(LOCAL_WELCOME, 0);
	int fd = make_link();
	bool is_done;

	if (fd < 0)
		return false;
	message.length = sizeof(struct local_link);
	is_done = local_endpoint_link(endpoint, fd, LOCAL_ACCEPTING_SIDE) &&
		  local_talk_say(endpoint->fd, &message, fd);
	close(fd);
	return is_done;
}

int local_accept(struct fabric_request *request, struct fabric_queue *base,
		 struct fabric_domain *domain, void *owner, struct fabric_endpoint **out)
{
	struct local_queue *queue = local_container(base, struct local_queue);
	struct local_endpoint *endpoint = endpoint_new(queue, domain, owner);
	int ret;

	if (!endpoint)
		return error_code(-ENOMEM);
	endpoint->fd = local_request_take(request);
	ret = local_queue_add(queue, endpoint);
	if (ret != 0) {
		close(endpoint->fd);
		free(endpoint);
		return error_fail(ret, "accept %s: %s", request->peer, afar_strerror(ret));
	}
	if (welcome(endpoint)) {
		local_endpoint_open(endpoint);
	} else {
		endpoint->state = LOCAL_IS_CONNECTED;
		local_endpoint_break(endpoint);
	}
	*out = &endpoint->base;
	return 0;
}

/* ---- Hello */

/* -EAGAIN: many are before us. Sockets of this kind cannot be waited for: we try again. */
static int send_hello(struct local_endpoint *endpoint)
{
	if (connect(endpoint->fd, (const struct sockaddr *)&endpoint->peer,
		    sizeof(endpoint->peer)) != 0 &&
	    errno != EISCONN)
		return -errno;
	if (!local_place_is_trusted(endpoint->fd))
		return -EPERM;
	if (send(endpoint->fd, &endpoint->hello, endpoint->hello_length,
		 MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)endpoint->hello_length)
		return -errno;
	return 0;
}

void local_endpoint_greet(struct local_endpoint *endpoint)
{
	int ret;

	if (endpoint->has_greeted) {
		local_hear(endpoint);
		return;
	}
	ret = send_hello(endpoint);
	endpoint->has_greeted = ret == 0;
	if (ret != 0 && ret != -EAGAIN && ret != -EINTR)
		local_endpoint_break(endpoint);
}

/* ---- Ending */

/* All that was posted ends. There is room to tell of it: no more is ever posted. */
static void fail_all(struct local_endpoint *endpoint)
{
	while (endpoint->nr_waiting > 0)
		local_endpoint_finish(endpoint, endpoint->waiting[--endpoint->nr_waiting].context,
				      -ECONNRESET, false);
	while (endpoint->out_first != endpoint->out_end)
		local_endpoint_finish(
			endpoint, endpoint->out[endpoint->out_first++ % LOCAL_DEPTH_MAX].context,
			-ECONNRESET, false);
	while (endpoint->receive_first != endpoint->receive_end)
		local_endpoint_finish(
			endpoint,
			endpoint->receives[endpoint->receive_first++ % FABRIC_RECEIVE_MAX].context,
			-ECONNRESET, true);
}

static void unlink_peer(struct local_endpoint *endpoint)
{
	if (!endpoint->link)
		return;
	local_deaths_forget(endpoint);
	atomic_store(&endpoint->mine->nr_revoked, LOCAL_ENDED);
	munmap(endpoint->link, sizeof(*endpoint->link));
	endpoint->link = NULL;
}

/* All but the socket. */
static void let_go(struct local_endpoint *endpoint, enum local_state state)
{
	if (endpoint->state < LOCAL_IS_ENDING)
		endpoint->was_connected = endpoint->state == LOCAL_IS_CONNECTED;
	endpoint->state = state;
	local_memory_forget(endpoint);
	/* Do this before the link goes, because threads at a window look into the link, too. */
	local_mapping_remove_all(endpoint);
	local_queue_of(endpoint)->paged->close(endpoint);
	unlink_peer(endpoint);
	fail_all(endpoint);
}

void local_endpoint_break(struct local_endpoint *endpoint)
{
	struct local_queue *queue = local_queue_of(endpoint);

	if (endpoint->state == LOCAL_IS_CLOSED)
		return;
	/* First: the peer takes the end of the socket for our word that nothing is mapped any more. */
	let_go(endpoint, LOCAL_IS_CLOSED);
	local_queue_forget_socket(queue, endpoint);
	/* Closing it would not do when a forked child has it too. */
	shutdown(endpoint->fd, SHUT_RDWR);
	close(endpoint->fd);
	endpoint->fd = -1;
	local_queue_tell(queue, endpoint);
}

/* It has been told of the end. */
static bool is_peer_touching(const struct local_endpoint *endpoint)
{
	bool is_touching = false;

	if (!endpoint->link)
		return false;
	epoch_reach_all();
	is_touching = atomic_load(&endpoint->theirs->nr_touching) != 0;
	for (unsigned i = 0; i < EPOCH_NUMBERS && !is_touching; i++)
		is_touching = atomic_load(&endpoint->theirs->at_windows[i].nr) != 0;
	return is_touching;
}

void local_endpoint_end(struct fabric_endpoint *base)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);

	if (endpoint->state >= LOCAL_IS_ENDING)
		return;
	if (endpoint->link)
		atomic_store(&endpoint->mine->nr_revoked, LOCAL_ENDED);
	if (endpoint->state == LOCAL_IS_CONNECTING || !is_peer_touching(endpoint)) {
		local_endpoint_break(endpoint);
		return;
	}
	local_queue_cool(endpoint);
	let_go(endpoint, LOCAL_IS_ENDING);
	shutdown(endpoint->fd, SHUT_WR);
}

void local_endpoint_close(struct fabric_endpoint *base)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);

	local_endpoint_break(endpoint);
	local_queue_remove(local_queue_of(endpoint), endpoint);
	free(endpoint);
}

/* ---- Completing */

static void add_done(struct local_endpoint *endpoint, const struct local_done *done)
{
	struct local_queue *queue = local_queue_of(endpoint);

	if (endpoint->done_first == endpoint->done_end)
		cds_list_add_tail(&endpoint->finished, &queue->finished);
	endpoint->done[endpoint->done_end++ % LOCAL_DONE_MAX] = *done;
}

void local_endpoint_finish(struct local_endpoint *endpoint, uint64_t context, int status,
			   bool is_receive)
{
	const struct local_done done = {.completion = {.context = context, .status = status},
					.is_receive = is_receive};

	add_done(endpoint, &done);
}

void local_endpoint_finish_with(struct local_endpoint *endpoint,
				const struct fabric_completion *completion)
{
	const struct local_done done = {.completion = *completion};

	add_done(endpoint, &done);
}

/* ---- Reading and writing */

/* True: all that the peer has revoked is heard of, so that what is mapped is still lent. */
static inline bool is_current(const struct local_endpoint *endpoint)
{
	return atomic_load(&endpoint->theirs->nr_revoked) == endpoint->nr_revoked_heard;
}

bool local_endpoint_catch_up(struct local_endpoint *endpoint)
{
	/* The messages were there before the count: a peer of which they do not come has just ended, or
	 * counts wrong. */
	for (unsigned i = 0; i < LISTENS_MAX && !is_current(endpoint); i++) {
		local_hear(endpoint);
		if (endpoint->state != LOCAL_IS_CONNECTED)
			return false;
	}
	if (!is_current(endpoint))
		local_endpoint_break(endpoint);
	return endpoint->state == LOCAL_IS_CONNECTED;
}

/* False: the memory is not lent any more, or not for this. */
static bool run_lent(struct local_endpoint *endpoint, const struct local_transfer *transfer)
{
	const struct local_mapping *mapping;

	if (!local_endpoint_catch_up(endpoint))
		return false;
	mapping = local_mapping_find(endpoint, transfer->key);
	return mapping && (transfer->paged & ~FABRIC_PAGED_HINTS) == 0 &&
	       local_mapping_do(mapping, transfer);
}

/* A copy counts if the memory was still lent afterwards, because the peer says that it is not
 * before it gives the memory up. */
static bool is_lent_still(struct local_endpoint *endpoint, uint64_t key)
{
	return is_current(endpoint) ||
	       (local_endpoint_catch_up(endpoint) && local_mapping_find(endpoint, key));
}

static void fail(struct local_endpoint *endpoint, const struct local_transfer *transfer)
{
	local_endpoint_finish(endpoint, transfer->context, -ECONNRESET, false);
	local_endpoint_break(endpoint);
}

/* Reads what a pager keeps where we can see it, or asks for it. */
static void run_paged(struct local_endpoint *endpoint, const struct local_mapping *mapping,
		      const struct local_transfer *transfer)
{
	const struct local_paged_calls *paged = local_queue_of(endpoint)->paged;

	if ((mapping->access & FABRIC_REMOTE_READ) != 0 && paged->find(endpoint, transfer) &&
	    is_current(endpoint))
		local_endpoint_finish(endpoint, transfer->context, 0, false);
	else if (!paged->begin(endpoint, transfer))
		fail(endpoint, transfer);
}

/* It is none of those that wait any more. One that fails costs the connection. */
static void run(struct local_endpoint *endpoint, const struct local_mapping *mapping,
		const struct local_transfer *transfer)
{
	bool is_done;

	if (mapping->is_paged) {
		run_paged(endpoint, mapping, transfer);
		return;
	}
	local_touch_begin(endpoint);
	is_done = run_lent(endpoint, transfer);
	/* With that the bytes are there, too, before the peer is looked at. */
	local_touch_end(endpoint);
	is_done = is_done && is_lent_still(endpoint, transfer->key);
	if (is_done)
		local_endpoint_finish(endpoint, transfer->context, 0, false);
	else
		fail(endpoint, transfer);
}

static bool is_asked(const struct local_endpoint *endpoint, uint64_t key)
{
	for (uint32_t i = 0; i < endpoint->nr_asked; i++) {
		if (endpoint->asked[i] == key)
			return true;
	}
	return false;
}

/* The first that names a key. The answer comes by the socket. */
static int ask(struct local_endpoint *endpoint, uint64_t key)
{
	struct local_message message = local_talk_message(LOCAL_ASK, key);

	message.access = LOCAL_TAKES_REFERENCES;
	if (is_asked(endpoint, key))
		return 0;
	if (endpoint->nr_asked == LOCAL_ASKED_MAX || !local_talk_say(endpoint->fd, &message, -1))
		return -EAGAIN;
	endpoint->asked[endpoint->nr_asked++] = key;
	return 0;
}

/* False: a pager has it, and others must end before it can be asked. */
static bool has_room(const struct local_endpoint *endpoint, const struct local_mapping *mapping,
		     const struct local_transfer *transfer)
{
	return !mapping->is_paged || local_queue_of(endpoint)->paged->has_room(endpoint, transfer);
}

/* The first in order whose memory is there. NULL: there is none. */
static const struct local_mapping *take_resumable(struct local_endpoint *endpoint,
						  struct local_transfer *out)
{
	for (uint32_t i = 0; i < endpoint->nr_waiting; i++) {
		const struct local_mapping *mapping =
			local_mapping_find(endpoint, endpoint->waiting[i].key);

		if (!mapping || !has_room(endpoint, mapping, &endpoint->waiting[i]))
			continue;
		*out = endpoint->waiting[i];
		endpoint->nr_waiting--;
		memmove(&endpoint->waiting[i], &endpoint->waiting[i + 1],
			(endpoint->nr_waiting - i) * sizeof(*out));
		return mapping;
	}
	return NULL;
}

void local_endpoint_resume(struct local_endpoint *endpoint)
{
	const struct local_mapping *mapping;
	struct local_transfer transfer;

	/* Copying may hear of more, which comes back here, or of the end, which ends all that wait. */
	while (endpoint->state == LOCAL_IS_CONNECTED &&
	       (mapping = take_resumable(endpoint, &transfer)))
		run(endpoint, mapping, &transfer);
}

/* -EINVAL, -EMSGSIZE. */
static int check_pieces(const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t context)
{
	uint64_t length = 0;

	if (nr_pieces == 0 || nr_pieces > FABRIC_IOV_MAX || context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < nr_pieces; i++) {
		if (__builtin_add_overflow(length, pieces[i].length, &length))
			return -EINVAL;
	}
	return length > LOCAL_TRANSFER_MAX ? -EMSGSIZE : 0;
}

int local_transfer_post(struct fabric_endpoint *base, struct local_transfer *new,
			const struct fabric_piece *pieces, unsigned nr_pieces)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);
	const struct local_mapping *mapping;
	int ret;

	if (endpoint->state != LOCAL_IS_CONNECTED)
		return -ENOTCONN;
	ret = check_pieces(pieces, nr_pieces, new->context);
	if (ret != 0)
		return ret;
	if (endpoint->nr_requests == endpoint->depth)
		return -EAGAIN;
	if (!local_endpoint_catch_up(endpoint))
		return -ENOTCONN;
	memcpy(new->pieces, pieces, nr_pieces * sizeof(*pieces));
	new->nr_pieces = nr_pieces;
	mapping = local_mapping_find(endpoint, new->key);
	if (!mapping) {
		ret = ask(endpoint, new->key);
		if (ret != 0)
			return ret;
		endpoint->waiting[endpoint->nr_waiting++] = *new;
		endpoint->nr_requests++;
		return 0;
	}
	if (!has_room(endpoint, mapping, new))
		return -EAGAIN;
	endpoint->nr_requests++;
	run(endpoint, mapping, new);
	return 0;
}

int local_prepare(struct fabric_endpoint *base, uint64_t key)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);
	int ret;

	if (endpoint->state != LOCAL_IS_CONNECTED || !local_endpoint_catch_up(endpoint))
		return -ENOTCONN;
	if (local_mapping_find(endpoint, key))
		return 0;
	ret = ask(endpoint, key);
	return ret ? ret : -EAGAIN;
}

int local_window(struct fabric_endpoint *base, uint64_t key, struct fabric_window *out)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);

	if (endpoint->state != LOCAL_IS_CONNECTED || !local_endpoint_catch_up(endpoint))
		return -ENOTCONN;
	return local_mapping_window(endpoint, key, out);
}

int local_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	       unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	struct local_transfer new = {
		.opcode = LOCAL_READ, .remote = remote, .key = key, .context = context};

	return local_transfer_post(endpoint, &new, pieces, nr_pieces);
}

int local_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	struct local_transfer new = {
		.opcode = LOCAL_WRITE, .remote = remote, .key = key, .context = context};

	return local_transfer_post(endpoint, &new, pieces, nr_pieces);
}

int local_fetch_add(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
		    uint64_t remote, uint64_t key, uint64_t operand, uint64_t context)
{
	struct local_transfer new = {.opcode = LOCAL_FETCH_ADD,
				     .remote = remote,
				     .key = key,
				     .context = context,
				     .operand = operand};

	return local_transfer_post(endpoint, &new, result, 1);
}

int local_compare_swap(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
		       uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
		       uint64_t context)
{
	struct local_transfer new = {.opcode = LOCAL_COMPARE_SWAP,
				     .remote = remote,
				     .key = key,
				     .context = context,
				     .operand = operand,
				     .compare = compare};

	return local_transfer_post(endpoint, &new, result, 1);
}

/* ---- Messages */

int local_receive(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);

	if (endpoint->state >= LOCAL_IS_ENDING)
		return -ENOTCONN;
	if (context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	if (endpoint->nr_receives == FABRIC_RECEIVE_MAX)
		return -EAGAIN;
	endpoint->receives[endpoint->receive_end++ % FABRIC_RECEIVE_MAX] =
		(struct local_receive){piece->addr, piece->length, context};
	endpoint->nr_receives++;
	/* The message may be here already: nobody may sleep on it. */
	local_queue_warm(local_queue_of(endpoint), endpoint);
	return 0;
}

int local_send(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);

	if (endpoint->state != LOCAL_IS_CONNECTED)
		return -ENOTCONN;
	if (context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	if (piece->length > LOCAL_MESSAGE_MAX)
		return -EMSGSIZE;
	if (endpoint->nr_requests == endpoint->depth)
		return -EAGAIN;
	endpoint->out[endpoint->out_end++ % LOCAL_DEPTH_MAX] = (struct local_outgoing){
		.addr = piece->addr, .length = piece->length, .context = context};
	endpoint->nr_requests++;
	local_queue_warm(local_queue_of(endpoint), endpoint);
	local_ring_flush(endpoint);
	return 0;
}
