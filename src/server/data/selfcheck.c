/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of a connection on one thread: a listener and a target's queue, an initiator's queue,
 * one lent page. A refused write ends the connection, so each attempt has its own. Called when a
 * server starts; leaves nothing behind.
 */
#include "server/data/selfcheck.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/shared.h"
#include "fabric/listener.h"

#define PAGE_BYTES  4096U
#define WORD_BYTES  16U
#define PATIENCE_MS 15000 /* long, because a machine that starts up may be busy */

struct check {
	struct fabric *fabric;
	struct fabric_domain
		*domain; /* in which the page is registered, and connections are accepted */
	const char *address;
	uint64_t deadline;
	struct fabric_listener *listener;
	struct fabric_queue *target_queue, *queue;
	struct fabric_endpoint *accepted, *endpoint; /* NULL: none, or closed */
	bool is_accepted_open, is_open, is_refused;
	uint8_t password[WORD_BYTES]; /* because other peers may connect to the listener, too */
	uint8_t *page;		      /* the lent page, which any transport can lend */
	uint8_t *source;	      /* the bytes that are written into it */
	struct fabric_memory source_memory;
};

static int fail(const struct check *check, int status, const char *why)
{
	return error_fail(status, "check of transport %s at %s: %s",
			  check->fabric->attributes.transport, check->address, why);
}

/* ---- The connection */

static void disconnect(struct check *check)
{
	if (check->endpoint)
		fabric_endpoint_close(check->endpoint);
	if (check->accepted)
		fabric_endpoint_close(check->accepted);
	check->endpoint = check->accepted = NULL;
	check->is_open = check->is_accepted_open = check->is_refused = false;
}

static void take_request(struct check *check)
{
	struct fabric_request request;

	if (fabric_listener_next(check->listener, &request) != 0)
		return;
	if (check->accepted || request.private_length < WORD_BYTES ||
	    memcmp(request.private_data, check->password, WORD_BYTES) != 0 ||
	    fabric_accept(&request, check->target_queue, check->domain, NULL, &check->accepted) !=
		    0)
		fabric_reject(check->listener, &request);
}

static void take_event(struct fabric_queue *queue, bool *is_open, bool *is_refused)
{
	struct fabric_event event;

	if (fabric_queue_event(queue, &event) != 1)
		return;
	*is_open = event.kind == FABRIC_CONNECTED;
	*is_refused = *is_refused || event.kind == FABRIC_CLOSED;
}

/* Makes progress at both ends. 1: `completion` is one of the initiator. */
static int step(struct check *check, struct fabric_completion *completion)
{
	struct fabric_completion ignored;
	bool is_target_closed = false;

	take_request(check);
	fabric_queue_poll(check->target_queue, &ignored, 1);
	take_event(check->target_queue, &check->is_accepted_open, &is_target_closed);
	if (fabric_queue_poll(check->queue, completion, 1) == 1)
		return 1;
	take_event(check->queue, &check->is_open, &check->is_refused);
	return 0;
}

static int connect_self(struct check *check)
{
	struct fabric_completion completion;
	int ret;

	disconnect(check);
	ret = fabric_connect(check->queue, check->listener->address, check->password, WORD_BYTES,
			     NULL, &check->endpoint);
	while (ret == 0 && !(check->is_open && check->is_accepted_open)) {
		step(check, &completion);
		if (check->is_refused)
			ret = -ECONNREFUSED;
		else if (clock_ns() >= check->deadline)
			ret = -ETIMEDOUT;
	}
	return ret == 0 ? 0 : fail(check, ret, "it does not connect to itself");
}

/* ---- Attempts */

/* Tries a write. 1: it went through, or has left something; 0: it was refused. */
static int try_write(struct check *check, const struct fabric_memory *memory)
{
	const struct fabric_piece piece = {check->source, WORD_BYTES,
					   check->source_memory.descriptor};
	struct fabric_completion completion = {0};
	int ret;

	ret = connect_self(check);
	if (ret != 0)
		return ret;
	memset(check->page, 0, PAGE_BYTES);
	ret = fabric_write(check->endpoint, &piece, 1, memory->base, memory->key, 1);
	if (ret != 0)
		return fail(check, ret, "it starts no transfer");
	while (!check->is_refused && step(check, &completion) == 0) {
		if (clock_ns() >= check->deadline)
			return fail(check, -ETIMEDOUT, "a transfer does not end");
	}
	if (!check->is_refused && completion.status == 0)
		return 1;
	return memcmp(check->page, check->source, WORD_BYTES) == 0;
}

/* Checks that a valid key works, and that it does not after it was closed. The valid write shows
 * that the others fail only because of their keys. */
static int check_closed_key(struct check *check)
{
	struct fabric_memory memory;
	int ret;

	ret = fabric_memory_register(check->domain, check->page, PAGE_BYTES,
				     FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memory);
	if (ret != 0)
		return ret;
	ret = try_write(check, &memory);
	fabric_memory_deregister(&memory);
	if (ret < 0)
		return ret;
	if (ret != 1)
		return fail(check, -EIO, "an honest write does not arrive");
	ret = try_write(check, &memory);
	return ret == 1 ? fail(check, -EPERM,
			       "a write through a closed key goes through, so nobody's memory "
			       "would be safe; set FI_MR_CACHE_MAX_COUNT=0, or use another "
			       "transport")
			: ret;
}

static int check_read_only_key(struct check *check)
{
	struct fabric_memory memory;
	int ret;

	ret = fabric_memory_register(check->domain, check->page, PAGE_BYTES, FABRIC_REMOTE_READ,
				     &memory);
	if (ret != 0)
		return ret;
	ret = try_write(check, &memory);
	fabric_memory_deregister(&memory);
	return ret == 1 ? fail(check, -EPERM,
			       "a write through a read-only key goes through, so nobody's "
			       "memory would be safe; set FI_MR_CACHE_MAX_COUNT=0, or use "
			       "another transport")
			: ret;
}

/* Checks that a key does not work outside of its domain. Keys are no secrets inside of it, so this
 * alone keeps namespaces apart. */
static int check_foreign_key(struct check *check)
{
	struct fabric_memory memory;
	int ret;

	ret = fabric_memory_register(check->fabric->domain, check->page, PAGE_BYTES,
				     FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memory);
	if (ret != 0)
		return ret;
	ret = try_write(check, &memory);
	fabric_memory_deregister(&memory);
	return ret == 1 ? fail(check, -EPERM,
			       "a write with a key of another protection domain goes through, so "
			       "nobody's memory would be safe; use another transport")
			: ret;
}

/* ---- Setting up */

static int open_ends(struct check *check)
{
	int ret;

	ret = fabric_listen(check->fabric, check->address, &check->listener);
	if (ret == 0)
		ret = fabric_domain_open(check->fabric, &check->domain);
	if (ret == 0)
		ret = fabric_queue_open(check->fabric, 1, &check->target_queue);
	if (ret == 0)
		ret = fabric_queue_open(check->fabric, 1, &check->queue);
	if (ret == 0)
		ret = fabric_memory_register(check->fabric->domain, check->source, PAGE_BYTES,
					     FABRIC_LOCAL, &check->source_memory);
	return ret;
}

static void close_ends(struct check *check)
{
	disconnect(check);
	if (check->source_memory.domain)
		fabric_memory_deregister(&check->source_memory);
	if (check->queue)
		fabric_queue_close(check->queue);
	if (check->target_queue)
		fabric_queue_close(check->target_queue);
	if (check->domain)
		fabric_domain_close(check->domain);
	if (check->listener)
		fabric_listener_close(check->listener);
}

int selfcheck(struct fabric *fabric, const char *address)
{
	struct check check = {
		.fabric = fabric, .address = address, .deadline = clock_deadline_ms(PATIENCE_MS)};
	void *page;
	int ret;

	ret = shared_map(PAGE_BYTES, PAGE_BYTES, &page);
	if (ret != 0)
		return ret;
	check.page = page;
	check.source = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	if (!check.source) {
		ret = error_code(-ENOMEM);
		goto out_free;
	}
	if (RAND_bytes(check.password, WORD_BYTES) != 1) {
		ret = fail(&check, -EIO, "no randomness");
		goto out_free;
	}
	memset(check.source, 0x5a, PAGE_BYTES);
	ret = open_ends(&check);
	if (ret == 0)
		ret = check_closed_key(&check);
	if (ret == 0)
		ret = check_read_only_key(&check);
	if (ret == 0)
		ret = check_foreign_key(&check);
	close_ends(&check);

out_free:
	free(check.source);
	shared_unmap(check.page);
	return ret;
}
