/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of operations. The data path (progress.h) and order.c note them when they happen, off the path of
 * operations that succeed. A thread that reaps asks for the line. A queue notes as many failures as
 * it is deep, and forgets the oldest first, so it knows all that were not reaped yet.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/queue/away.h"
#include "client/queue/failures.h"

#define TEXT_MAX    512
#define NS_NAME_MAX 48 /* how much of the namespace's name is noted */

struct failure {
	uint64_t user_data;
	const struct target_kind *kind;
	uint64_t address; /* of the target */
	uint64_t offset;
	uint64_t length;
	uint64_t bad_offset, bad_length; /* the bytes of these that are to blame; 0, 0: unknown */
	const struct peer *peer;	 /* NULL: no server is to blame */
	int status;
	uint16_t opcode;
	char ns_name[NS_NAME_MAX + 1];
	bool is_altered; /* -EBADMSG: the store has its bytes, and others have come */
	bool was_held;	 /* it failed with those it waited for: nothing of it was done */
	bool is_told;	 /* a thread has left its line: away_say() */
};

/* ---- Noting */

int failures_open(struct afar_queue *queue)
{
	queue->failures = calloc(queue->depth, sizeof(*queue->failures));
	return queue->failures ? 0 : error_code(-ENOMEM);
}

void failure_note(struct afar_queue *queue, const struct operation *operation, int status,
		  const struct peer *peer, bool was_held)
{
	struct failure *failure = &queue->failures[queue->nr_failures++ % queue->depth];

	/* Another server of the target is the one that is lost. */
	if (status == -AFAR_ELOST && peer && !peer->is_lost)
		peer = NULL;
	*failure = (struct failure){
		.user_data = operation->user_data,
		.kind = operation->target->kind,
		.address = operation->target->address,
		.offset = operation->begin,
		.length = operation->length,
		.peer = peer,
		.status = status,
		.opcode = operation->opcode,
		.was_held = was_held,
		.is_told = operation->answer == status,
	};
	strncpy(failure->ns_name, operation->target->ns_name, NS_NAME_MAX);
}

void failure_locate(struct afar_queue *queue, const struct operation *operation,
		    const struct transfer *transfer)
{
	struct failure *failure = &queue->failures[(queue->nr_failures - 1) % queue->depth];

	if (queue->nr_failures == 0 || failure->user_data != operation->user_data ||
	    failure->bad_length != 0)
		return;
	failure->bad_offset = transfer->offset;
	failure->bad_length = transfer->length;
}

void failure_note_altered(struct afar_queue *queue, const struct operation *operation)
{
	struct failure *failure = &queue->failures[(queue->nr_failures - 1) % queue->depth];

	if (queue->nr_failures > 0 && failure->user_data == operation->user_data &&
	    failure->status == -EBADMSG)
		failure->is_altered = true;
}

/* ---- Saying */

/* Finds the newest failure that fits; NULL: it is forgotten, or there was none. */
static const struct failure *find_failure(const struct afar_queue *queue,
					  const struct afar_completion *completion)
{
	uint64_t nr = queue->nr_failures < queue->depth ? queue->nr_failures : queue->depth;

	for (uint64_t i = 1; i <= nr; i++) {
		const struct failure *failure =
			&queue->failures[(queue->nr_failures - i) % queue->depth];

		if (failure->user_data == completion->user_data &&
		    failure->status == completion->result)
			return failure;
	}
	return NULL;
}

static const char *verb_of(uint16_t opcode)
{
	return opcode == AFAR_OP_READ	     ? "read"
	       : opcode == AFAR_OP_ZERO	     ? "zero"
	       : opcode == AFAR_OP_TRIM	     ? "trim"
	       : opcode == AFAR_OP_WILL_NEED ? "say that it will need"
					     : "write";
}

static void describe_operation(const struct failure *failure, char out[TEXT_MAX])
{
	unsigned long long offset = failure->offset;
	char what[128], target[TARGET_TEXT_MAX];

	if (failure->opcode == AFAR_OP_FLUSH)
		snprintf(what, sizeof(what), "flush");
	else if (failure->opcode == AFAR_OP_SYNC)
		snprintf(what, sizeof(what), "sync");
	else if (opcode_is_atomic(failure->opcode))
		snprintf(what, sizeof(what), "do an atomic at %llu of", offset);
	else
		snprintf(what, sizeof(what), "%s %llu bytes at %llu of", verb_of(failure->opcode),
			 (unsigned long long)failure->length, offset);
	target_describe(failure->kind, failure->ns_name, failure->address, target);
	snprintf(out, TEXT_MAX, "%s %s", what, target);
}

/* Describes the failed server, and where it was asked: a firewall may let other ports through than this one. If none is noted, the
 * operation waited for others, or the target is lost. */
static void describe_server(const struct failure *failure, char out[TEXT_MAX])
{
	const struct peer *peer = failure->peer;
	const char *lane = peer && peer->nr_lanes > 0
				   ? peer->lanes[atomic_load(&peer->last_lane)].address
				   : "unix:";

	if (peer && strncmp(lane, "unix:", strlen("unix:")) != 0)
		snprintf(out, TEXT_MAX, "server %s at %s", peer->name, lane);
	else if (peer)
		snprintf(out, TEXT_MAX, "server %s at %s:%u", peer->name, peer->control_host,
			 peer->control_port);
	else
		snprintf(out, TEXT_MAX, "%s",
			 failure->status == -AFAR_ELOST ? "a server of it" : "what it waits for");
}

/* Says whether a posted write may have been carried out. For a read that does not matter. */
static const char *outcome(const struct failure *failure)
{
	return opcode_writes(failure->opcode) ? "outcome unknown, " : "";
}

/* Fails as a store has: `what` is said of it. */
static int fail_in_store(const struct failure *failure, const char *asked, const char *what)
{
	const struct peer *peer = failure->peer;
	char where[64] = "", device[sizeof(peer->device) + 4] = "";

	/* Only operators are told the path. */
	if (*peer->device)
		snprintf(device, sizeof(device), "%s at ", peer->device);
	if (failure->bad_length != 0 && failure->bad_length != failure->length)
		snprintf(where, sizeof(where),
			 "%llu bytes at %llu: ", (unsigned long long)failure->bad_length,
			 (unsigned long long)failure->bad_offset);
	return error_fail(failure->status, "%s: %sstore %016llx (%sserver %s) %s", asked, where,
			  (unsigned long long)peer->store, device, peer->name, what);
}

/* Returns whether a store's failure has been told, as `*ret`. */
static bool is_stores(const struct failure *failure, const char *asked, int *ret)
{
	const char *what = NULL;

	if (!failure->peer || failure->peer->store == 0)
		return false;
	if (failure->is_altered && failure->opcode == AFAR_OP_READ)
		what = "has sent other bytes than have come; something on the way changes bytes, "
		       "or "
		       "the memory was written meanwhile: look for that, and read again";
	else if (failure->is_altered)
		what = "got other bytes than were sent, and did not take them; something on the "
		       "way "
		       "changes bytes, or the memory was written meanwhile: look for that, and "
		       "write again";
	else if (failure->status == -EBADMSG)
		what = "has a block there that is not what was written; write it anew, or restore "
		       "it from a copy";
	else if (failure->status == -EIO)
		what = "cannot use its device there; its server's log says more";
	else if (failure->status == -ENOSPC)
		what = "is full; free regions, or release what namespaces have reserved";
	else if (failure->status == -AFAR_EUNSYNCED)
		what = "ended before all was synced: writes since it was opened or last "
		       "synced may be lost; write them again and sync";
	if (what)
		*ret = fail_in_store(failure, asked, what);
	return what;
}

static int fail_as(const struct failure *failure, const char *again, uint32_t timeout_ms)
{
	char asked[TEXT_MAX], server[TEXT_MAX];
	int ret;

	describe_operation(failure, asked);
	describe_server(failure, server);
	if (is_stores(failure, asked, &ret))
		return ret;
	switch (failure->status) {
	case -ETIMEDOUT:
		return error_fail(failure->status,
				  "%s: %s did not answer in %u ms; %slook whether it runs or is "
				  "stopped, and %s",
				  asked, server, timeout_ms, outcome(failure), again);
	case -AFAR_ESERVER:
		return error_fail(failure->status,
				  "%s: the connection to %s has ended; %ssee 'afar status' whether "
				  "it is up, and %s",
				  asked, server, outcome(failure), again);
	case -ENOTCONN:
		return error_fail(failure->status,
				  "%s: the queue is not connected to %s; connect it first "
				  "(afar_queue_connect())",
				  asked, server);
	case -AFAR_ELOST:
		return error_fail(
			failure->status,
			"%s: %s has restarted, and what its memory held is lost; free the "
			"region and make it anew",
			asked, server);
	case -EOPNOTSUPP:
		return error_fail(failure->status,
				  "%s: the transport to %s cannot do that; use another operation",
				  asked, server);
	case -EROFS:
		return error_fail(
			failure->status,
			"%s: nobody writes there, for it is sealed, or of a published version; "
			"write to another, or prepare it",
			asked);
	case -ERANGE:
		return error_fail(failure->status,
				  "%s: it has become shorter than that meanwhile; look how long it "
				  "is (afar_region_stat())",
				  asked);
	case -ENXIO:
		return error_fail(failure->status,
				  "%s: there is no memory behind a part of it, which can only be "
				  "read; write elsewhere",
				  asked);
	case -ECANCELED:
		if (failure->was_held)
			return error_fail(failure->status,
					  "%s: one that it waited for has failed, and nothing of "
					  "it was done; look at that one first",
					  asked);
		if (!failure->peer)
			return error_fail(failure->status, "%s: it was cancelled; %s%s", asked,
					  outcome(failure), again);
		return error_fail(failure->status,
				  "%s: another operation at %s took too long, which costs the "
				  "connection; %s%s",
				  asked, server, outcome(failure), again);
	default:
		return error_fail(failure->status, "%s: %s", asked, afar_strerror(failure->status));
	}
}

int failure_say(const struct afar_queue *queue, const struct afar_completion *completion,
		const char *again)
{
	const struct failure *failure = find_failure(queue, completion);

	if (!failure)
		return error_code((int)completion->result);
	if (failure->is_told && away_say(queue->away, completion))
		return (int)completion->result;
	return fail_as(failure, again, queue->session->timeout_ms);
}

int failure_on_the_way(const struct afar_op *op, uint64_t length, int status, bool was_begun)
{
	struct failure failure = {
		.kind = op->target->kind,
		.address = op->target->address,
		.offset = op->offset,
		.length = length,
		.opcode = op->opcode,
	};
	char asked[TEXT_MAX];

	if (status != -AFAR_ESERVER && status != -ETIMEDOUT)
		return status;
	strncpy(failure.ns_name, op->target->ns_name, NS_NAME_MAX);
	describe_operation(&failure, asked);
	return error_fail(status, "%s: %s%s", asked, error_last_line(),
			  was_begun && opcode_writes(op->opcode) ? "; outcome unknown" : "");
}
