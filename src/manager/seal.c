/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealing a region: a job of several steps. It is planned where the region's chunks go, each on its own server,
 * and servers are asked for sealed extents where they lack; then all of them are asked to copy; when all have,
 * the region has its new layout in one commit, and the old chunks are free.
 *
 * Before a server copies it closes the namespace's data connections, and tells those that connect again that
 * there was a sealing. They ask what has become of their regions (RegionLook), and that is answered when this is
 * decided. So nobody who heeds it writes at the old place behind the copy, nor reads there, and no reference has
 * to be waited for.
 *
 * Jobs are not stored. When the manager ends in the middle, or a commit fails, the region is as it was and the
 * places that were to be are free. A server that was told to copy there and has not answered loses its connection:
 * it does not begin what it was told on another, and what it has begun it ends before it joins again. Sealed
 * extents that were got stay with the namespace.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/placement.h"
#include "manager/seal_plan.h"

#define ROUNDS_MAX	  4U		       /* of asking for memory: it may come in pieces */
#define COPY_BYTES_PER_MS ((uint64_t)64 << 10) /* that a slow server copies   */
#define PART_EXTENTS_MAX  ((size_t)1 << 16)

enum seal_state {
	SEAL_PLANNING,	/* next behind the commit                        */
	SEAL_RESERVING, /* servers are asked for sealed extents          */
	SEAL_COPYING,	/* servers copy                                  */
	SEAL_FINISHED,	/* in this batch's commit; the next is none: freed */
	SEAL_FAILED,	/* ends with this batch, whatever becomes of that  */
};

struct seal {
	struct cds_list_head node;
	enum seal_state state;
	uint64_t generation;
	uint64_t namespace_number;
	bool may_reserve; /* who asked may get the namespace memory */
	bool is_dropped;  /* with its namespace, in this batch's commit */
	int status;	  /* SEAL_FAILED, and what is told: */
	char *sentence;
	unsigned nr_rounds;
	struct seal_plan plan;
	struct cds_list_head parts;   /* that are not answered */
	struct cds_list_head waiters; /* events */
};

/* What a server is asked. Outlives its job until it is answered. */
struct seal_part {
	struct cds_list_head node; /* of the job's, or the core's seal_grants */
	struct seal *seal;	   /* NULL: nobody waits for it any more */
	uint64_t server;
	uint64_t incarnation;
	uint64_t namespace_number;
	uint64_t bytes; /* asked for; 0: to copy */
	uint64_t copying_ms;
	/* Granted, and in the tables, but in no commit yet. */
	uint64_t *extents;
	size_t nr_extents;
};

/* ---- Ending a job */

/* Its place is free when the job ends: it must not copy there when that is another's. */
static void stop_copy(struct core *core, const struct seal_part *part)
{
	struct live_server *live = core_live_server(core, part->server);

	if (part->bytes == 0 && live && live->peer && live->incarnation == part->incarnation)
		core->environment.close_peer(core->environment.context, live->peer);
}

static void seal_free(struct core *core, struct seal *seal)
{
	struct seal_part *part, *next;

	cds_list_for_each_entry_safe (part, next, &seal->parts, node) {
		cds_list_del(&part->node);
		part->seal = NULL;
		stop_copy(core, part);
	}
	seal_plan_close(&seal->plan);
	cds_list_del(&seal->node);
	free(seal->sentence);
	free(seal);
}

/* The session may have ended meanwhile, or closed the region: it is sealed none the less. */
static int tell_sealed(struct core *core, const struct seal *seal, struct event *event)
{
	const struct session *session = state_session(core->state, event->session);

	if (!session || session->is_ending)
		return error_fail(-AFAR_ESESSION,
				  "seal a region: the session ended meanwhile; open a new one");
	return core_reply(core, session, OUTCOME_REGION, seal->generation, event->reply);
}

static void answer_waiters(struct core *core, struct seal *seal, int status)
{
	struct event *event, *next;

	cds_list_for_each_entry_safe (event, next, &seal->waiters, node) {
		int ret = status;

		cds_list_del(&event->node);
		if (ret == 0)
			ret = tell_sealed(core, seal, event);
		if (ret < 0)
			event_fail(event, ret);
		event_answer(core, event);
	}
}

/* It ends when the batch is over. The thread's last sentence says why. */
static void seal_fail(struct seal *seal, int status)
{
	seal->state = SEAL_FAILED;
	seal->status = status;
	free(seal->sentence);
	seal->sentence = strdup(error_last_line());
}

/* Answers, and gives back what is planned. Between batches. */
static void seal_end(struct core *core, struct seal *seal)
{
	size_t mark = undo_mark(core->undo);

	if (undo_end(core->undo, mark, seal_plan_undo(core, &seal->plan)) < 0)
		log_warn("sealing a region failed, and no memory is there to give back what it "
			 "took");
	undo_keep(core->undo);
	answer_waiters(core, seal,
		       error_fail(seal->status, "%s", seal->sentence ? seal->sentence : ""));
	seal_free(core, seal);
}

static void fail_part(struct core *core, struct seal *seal, const struct seal_part *part,
		      int status)
{
	char text[SERVER_TEXT_MAX];

	server_describe(core, part->server, text);
	if (status == -ENOSPC || status == -ENOMEM)
		status = error_fail(-ENOSPC,
				    "seal a region: %s has no %llu MiB free for the copy; release "
				    "memory, or free regions",
				    text, (unsigned long long)(part->bytes >> 20));
	else
		status = error_fail(-AFAR_ESERVER,
				    "seal a region: %s failed (%s); the region is as it was, try "
				    "again",
				    text, afar_error_name(status));
	seal_fail(seal, status);
}

/* ---- Asking servers */

static bool fill_moves(Afar__ExtentsSeal *ask, const struct seal_plan *plan, uint64_t server)
{
	ask->moves = calloc(plan->nr_pieces + 1, sizeof(*ask->moves));
	for (size_t i = 0; i < plan->nr_pieces && ask->moves; i++) {
		const struct seal_piece *piece = &plan->pieces[i];
		Afar__SealMove *move;

		if (piece->server != server)
			continue;
		move = MESSAGE_NEW(afar__seal_move, Afar__SealMove);
		if (!move)
			return false;
		move->from = piece->from;
		move->from_offset = piece->from_offset;
		move->to = piece->to;
		move->to_offset = piece->to_offset;
		move->length = piece->length;
		ask->moves[ask->n_moves++] = move;
	}
	return ask->moves != NULL;
}

static Afar__Request *make_copy(const struct seal *seal, uint64_t server)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);

	if (!request)
		return NULL;
	request->extents_seal = MESSAGE_NEW(afar__extents_seal, Afar__ExtentsSeal);
	if (!request->extents_seal) {
		free(request);
		return NULL;
	}
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_SEAL;
	request->extents_seal->namespace_ = seal->namespace_number;
	request->extents_seal->generation = seal->generation;
	if (fill_moves(request->extents_seal, &seal->plan, server))
		return request;
	afar__request__free_unpacked(request, NULL);
	return NULL;
}

/* Takes `request` over, which may be NULL. `bytes` to reserve, or 0; `moved`: to copy. */
static int ask(struct core *core, struct seal *seal, uint64_t server, Afar__Request *request,
	       uint64_t bytes, uint64_t moved)
{
	struct live_server *live = core_live_server(core, server);
	struct seal_part *part = calloc(1, sizeof(*part));
	struct outgoing *outgoing = NULL;

	if (live && live->peer)
		outgoing = outgoing_new(OUTGOING_SEAL, live);
	if (!outgoing || !part || !request) {
		free(part);
		outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return error_code(!live || !live->peer ? -AFAR_ESERVER : -ENOMEM);
	}
	*part = (struct seal_part){.seal = seal,
				   .server = server,
				   .incarnation = live->incarnation,
				   .namespace_number = seal->namespace_number,
				   .bytes = bytes,
				   .copying_ms = moved / COPY_BYTES_PER_MS};
	cds_list_add_tail(&part->node, &seal->parts);
	live->pending_bytes += bytes;
	live->copying_ms += part->copying_ms;
	outgoing->part = part;
	server_call(core, live, server_timeout_ms(live), request, outgoing);
	return 0;
}

static int ask_reserve(struct core *core, struct seal *seal)
{
	int ret = 0;

	seal->state = SEAL_RESERVING;
	seal->nr_rounds++;
	for (size_t i = 0; i < seal->plan.nr_lacks && ret == 0; i++) {
		const struct seal_lack *lack = &seal->plan.lacks[i];
		uint64_t bytes = (lack->bytes + PLACEMENT_EXTENT_UNIT - 1) / PLACEMENT_EXTENT_UNIT *
				 PLACEMENT_EXTENT_UNIT;

		ret = ask(core, seal, lack->server,
			  server_ask_extents(seal->namespace_number, bytes, true), bytes, 0);
	}
	return ret;
}

/* Each server once: at its first piece. */
static int ask_copy(struct core *core, struct seal *seal)
{
	const struct seal_plan *plan = &seal->plan;
	int ret = 0;

	seal->state = SEAL_COPYING;
	for (size_t i = 0; i < plan->nr_pieces && ret == 0; i++) {
		uint64_t server = plan->pieces[i].server, moved = 0;
		const struct seal_part *part;
		bool is_asked = false;

		cds_list_for_each_entry (part, &seal->parts, node)
			is_asked = is_asked || part->server == server;
		if (is_asked)
			continue;
		for (size_t j = i; j < plan->nr_pieces; j++)
			moved += plan->pieces[j].server == server ? plan->pieces[j].length : 0;
		ret = ask(core, seal, server, make_copy(seal, server), 0, moved);
	}
	return ret;
}

/* ---- Steps */

/* The region as it is now, if it can still be sealed. */
static int find_region(const struct core *core, const struct seal *seal, struct region **out)
{
	*out = state_region(core->state, seal->generation);
	if (!*out || (*out)->is_freed)
		return error_fail(-AFAR_EFREED, "seal a region: it was freed meanwhile");
	if ((*out)->is_lost)
		return error_fail(-AFAR_ELOST,
				  "seal the region at 0x%llx: a server that held part of it has "
				  "restarted; free it and make it anew",
				  (unsigned long long)(*out)->address);
	return 0;
}

static uint64_t lacking(const struct seal_plan *plan)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->nr_lacks; i++)
		bytes += plan->lacks[i].bytes;
	return bytes;
}

/* The first of its servers that is down. */
static uint64_t find_down(const struct core *core, const struct region *region)
{
	for (size_t i = 0; i < region->nr_chunks; i++) {
		const struct server *server = state_server(core->state, region->chunks[i].server);

		if (!server || !server_is_up(server))
			return region->chunks[i].server;
	}
	return 0;
}

static int cannot(const struct core *core, const struct seal *seal, const struct region *region,
		  int status)
{
	unsigned long long address = region->address;
	char text[SERVER_TEXT_MAX];

	if (status == -ENOSPC && !seal->may_reserve)
		return error_fail(-AFAR_ERESERVE,
				  "seal the region at 0x%llx: '%s' lacks %llu bytes for the copy, "
				  "and only its owner may get it memory; let the owner seal it",
				  address, region->ns->name,
				  (unsigned long long)lacking(&seal->plan));
	if (status == -ENOSPC || status == -E2BIG)
		return error_fail(-ENOSPC,
				  "seal the region at 0x%llx: the free memory of its servers is in "
				  "too small pieces; release some of '%s', or free regions",
				  address, region->ns->name);
	if (status != -AFAR_ESERVER)
		return status;
	server_describe(core, find_down(core, region), text);
	return error_fail(
		status,
		"seal the region at 0x%llx: %s, which holds part of it, cannot be reached; "
		"bring it back and try again",
		address, text);
}

static void seal_step(struct core *core, struct seal *seal)
{
	struct region *region;
	int ret = find_region(core, seal, &region);

	if (ret < 0) {
		seal_fail(seal, ret);
		return;
	}
	seal_plan_close(&seal->plan);
	ret = seal_plan_make(core, region, &seal->plan);
	if (ret == -ENOSPC && seal->may_reserve && seal->nr_rounds < ROUNDS_MAX)
		ret = ask_reserve(core, seal);
	else if (ret == 0)
		ret = ask_copy(core, seal);
	if (ret < 0)
		seal_fail(seal, cannot(core, seal, region, ret));
}

void seals_drive(struct core *core)
{
	struct seal *seal, *next;

	cds_list_for_each_entry_safe (seal, next, &core->seals, node) {
		if (seal->state == SEAL_PLANNING)
			seal_step(core, seal);
		if (seal->state == SEAL_FAILED)
			seal_end(core, seal);
	}
}

/* So that whoever asks again gets the same answer. */
static int record_outcomes(struct core *core, const struct seal *seal)
{
	const struct event *event;
	int ret = 0;

	cds_list_for_each_entry (event, &seal->waiters, node) {
		struct session *session = state_session(core->state, event->session);

		if (!session || session->is_ending || session_outcome(session, event->request_id))
			continue;
		ret = state_add_outcome(core->state, session, event->request_id, OUTCOME_REGION,
					seal->generation);
		if (ret < 0)
			return ret;
		store_put_outcome(core->store, session, event->request_id, OUTCOME_REGION,
				  seal->generation);
	}
	return ret;
}

/* Puts the new layout into the tables and the batch's commit; seals_committed() does the rest. */
static void seal_finish(struct core *core, struct seal *seal)
{
	size_t mark = undo_mark(core->undo);
	struct region *region;
	struct chunk *chunks;
	int ret = find_region(core, seal, &region);

	if (ret == 0)
		ret = seal_plan_chunks(core, &seal->plan, &chunks);
	if (ret < 0) {
		seal_fail(seal, ret);
		return;
	}
	ret = state_seal_region(core->state, region, seal->plan.groups, seal->plan.nr_groups,
				chunks, seal->plan.nr_pieces);
	seal->plan.groups = NULL;
	if (ret == 0)
		ret = record_outcomes(core, seal);
	if (ret == 0)
		store_put_region(core->store, region);
	ret = undo_end(core->undo, mark, ret);
	if (ret < 0)
		seal_fail(seal, ret);
	else
		seal->state = SEAL_FINISHED;
}

static void part_free(struct seal_part *part)
{
	free(part->extents);
	free(part);
}

/* The tables know nothing of it any more: its server gets it back. */
static void undo_grant(struct core *core, struct seal_part *part)
{
	struct live_server *live = core_live_server(core, part->server);

	if (!live || !live->peer || live->incarnation != part->incarnation)
		return;
	server_undo(core, live, part->extents, part->nr_extents);
	part->extents = NULL;
}

static void settle_grants(struct core *core, int status)
{
	struct seal_part *part, *next;

	cds_list_for_each_entry_safe (part, next, &core->seal_grants, node) {
		cds_list_del(&part->node);
		if (status < 0)
			undo_grant(core, part);
		part_free(part);
	}
}

void seals_committed(struct core *core, int status)
{
	char sentence[ERROR_LINE_BYTES];
	struct seal *seal, *next;

	snprintf(sentence, sizeof(sentence), "%s", error_last_line());
	cds_list_for_each_entry_safe (seal, next, &core->seals, node) {
		if (status < 0 && seal->state != SEAL_FAILED)
			seal_fail(seal, error_fail(status, "%s", sentence));
		if (seal->is_dropped)
			seal_fail(seal, error_fail(-AFAR_EFREED,
						   "seal a region: it was freed meanwhile"));
		if (seal->state == SEAL_FAILED) {
			seal_end(core, seal);
		} else if (seal->state == SEAL_FINISHED) {
			seal->plan.nr_pieces = 0;
			answer_waiters(core, seal, 0);
			seal_free(core, seal);
		}
	}
	/* Behind the answers, whose sentence it may replace. */
	settle_grants(core, status);
}

/* ---- Servers' answers */

static bool is_good(const struct core *core, const struct seal_part *part,
		    const Afar__Extent *extent)
{
	return extent->namespace_ == part->namespace_number && extent->is_sealed &&
	       extent->length != 0 && extent->length % PLACEMENT_EXTENT_UNIT == 0 &&
	       !state_extent(core->state, part->server, part->incarnation, extent->extent);
}

static int check_extents(const struct core *core, const struct seal_part *part,
			 const Afar__Extents *extents)
{
	uint64_t sum = 0;

	if (extents->n_extents > PART_EXTENTS_MAX)
		return error_code(-AFAR_EMALFORMED);
	for (size_t i = 0; i < extents->n_extents; i++) {
		if (!is_good(core, part, extents->extents[i]) ||
		    __builtin_add_overflow(sum, extents->extents[i]->length, &sum))
			return error_code(-AFAR_EMALFORMED);
		for (size_t j = 0; j < i; j++)
			if (extents->extents[j]->extent == extents->extents[i]->extent)
				return error_code(-AFAR_EMALFORMED);
	}
	return sum < part->bytes ? error_code(-AFAR_EMALFORMED) : 0;
}

static int make_room(struct seal_part *part, const Afar__Extents *extents)
{
	part->extents = calloc(extents->n_extents + 1, sizeof(*part->extents));
	return part->extents ? 0 : error_code(-ENOMEM);
}

/* They are the namespace's from now on, whatever becomes of the job. */
static int record_extents(struct core *core, struct seal_part *part, const Afar__Extents *extents)
{
	struct server *server = state_server(core->state, part->server);
	struct namespace *ns = state_namespace(core->state, part->namespace_number);
	size_t mark = undo_mark(core->undo);
	struct extent *extent;
	int ret = check_extents(core, part, extents);

	if (ret == 0 && (!server || !ns))
		ret = error_code(-AFAR_ESERVER);
	if (ret == 0)
		ret = make_room(part, extents);
	for (size_t i = 0; i < extents->n_extents && ret == 0; i++) {
		ret = state_add_extent(core->state, server, part->incarnation,
				       extents->extents[i]->extent, ns, ns->number,
				       extents->extents[i]->length, &extent);
		if (ret < 0)
			break;
		extent->is_sealed = true;
		part->extents[i] = extent->number;
		store_put_extent(core->store, extent);
	}
	ret = undo_end(core->undo, mark, ret);
	part->nr_extents = ret == 0 ? extents->n_extents : 0;
	return ret;
}

/* The job has failed meanwhile. */
static int return_extents(struct core *core, struct seal_part *part, const Afar__Extents *extents)
{
	int ret = check_extents(core, part, extents);

	if (ret == 0)
		ret = make_room(part, extents);
	for (size_t i = 0; i < extents->n_extents && ret == 0; i++)
		part->extents[part->nr_extents++] = extents->extents[i]->extent;
	if (ret == 0)
		undo_grant(core, part);
	part->nr_extents = 0;
	return ret;
}

static int take_answer(struct core *core, struct seal_part *part, const Afar__Reply *answer,
		       int status)
{
	if (!answer)
		return status;
	if (answer->status < 0)
		return answer->status;
	if (part->bytes == 0)
		return 0;
	if (answer->result_case != AFAR__REPLY__RESULT_EXTENTS)
		return error_code(-AFAR_EMALFORMED);
	if (!part->seal)
		return return_extents(core, part, answer->extents);
	return record_extents(core, part, answer->extents);
}

static void drop_pending(struct live_server *live, const struct seal_part *part)
{
	if (!live || live->incarnation != part->incarnation)
		return;
	live->pending_bytes -=
		part->bytes < live->pending_bytes ? part->bytes : live->pending_bytes;
	live->copying_ms -=
		part->copying_ms < live->copying_ms ? part->copying_ms : live->copying_ms;
}

void seal_answered(struct core *core, struct seal_part *part, const void *peer,
		   const Afar__Reply *answer, int status)
{
	struct live_server *live = core_live_server(core, part->server);
	struct seal *seal = part->seal;
	/* As in reserve_answered(). */
	bool is_current = live && live->peer == peer;
	int ret = is_current ? take_answer(core, part, answer, status) : error_code(-AFAR_ESERVER);

	drop_pending(live, part);
	/* Whether it was done is unknown, or it has granted something that nobody knows: rejoining settles that. */
	if (ret < 0 && is_current && (!answer || (answer->status == 0 && part->bytes != 0)))
		core->environment.close_peer(core->environment.context, live->peer);
	if (seal) {
		cds_list_del(&part->node);
		if (seal->state == SEAL_FAILED || seal->is_dropped) {
			/* Ends with this batch. */
		} else if (ret < 0) {
			log_warn("server %llu did not seal: %s", (unsigned long long)part->server,
				 afar_strerror(ret));
			fail_part(core, seal, part, ret);
		} else if (cds_list_empty(&seal->parts) && seal->state == SEAL_RESERVING) {
			seal->state = SEAL_PLANNING;
		} else if (cds_list_empty(&seal->parts) && seal->state == SEAL_COPYING) {
			seal_finish(core, seal);
		}
	}
	if (part->nr_extents != 0)
		cds_list_add_tail(&part->node, &core->seal_grants);
	else
		part_free(part);
}

/* ---- Those who cannot wait any longer */

static struct seal *seal_of(const struct core *core, uint64_t generation)
{
	struct seal *seal;

	cds_list_for_each_entry (seal, &core->seals, node)
		if (seal->generation == generation)
			return seal;
	return NULL;
}

bool seal_is_running(const struct core *core, uint64_t generation)
{
	return seal_of(core, generation) != NULL;
}

static int fail_slow(const struct core *core, const struct seal *seal)
{
	const struct seal_part *part;
	char text[SERVER_TEXT_MAX] = "a server";

	cds_list_for_each_entry (part, &seal->parts, node) {
		server_describe(core, part->server, text);
		break;
	}
	return error_fail(-ETIMEDOUT,
			  "seal a region: %s did not answer in time; outcome unknown, look whether "
			  "it runs or is stopped, and try again",
			  text);
}

int seal_fail_slow(const struct core *core, uint64_t generation)
{
	return fail_slow(core, seal_of(core, generation));
}

void seals_tell(struct core *core)
{
	struct seal *seal;

	cds_list_for_each_entry (seal, &core->seals, node)
		if (waiters_due(&seal->waiters) <= core_now(core))
			waiters_answer_due(core, &seal->waiters, fail_slow(core, seal));
}

uint64_t seals_next_tell(const struct core *core)
{
	const struct seal *seal;
	uint64_t next = CORE_NEVER, due;

	cds_list_for_each_entry (seal, &core->seals, node) {
		due = waiters_due(&seal->waiters);
		next = due < next ? due : next;
	}
	return next;
}

/* ---- The request */

static void wait_for_seal(struct seal *seal, struct event *event)
{
	afar__request__free_unpacked(event->request, NULL);
	event->request = NULL;
	cds_list_add_tail(&event->node, &seal->waiters);
}

bool seal_attach(struct core *core, struct event *event)
{
	const struct event *waiter;
	struct seal *seal;

	cds_list_for_each_entry (seal, &core->seals, node) {
		cds_list_for_each_entry (waiter, &seal->waiters, node) {
			if (waiter->session != event->session ||
			    waiter->request_id != event->request_id)
				continue;
			wait_for_seal(seal, event);
			return true;
		}
	}
	return false;
}

static int begin(struct core *core, const struct session *session, const struct region *region,
		 struct seal **out)
{
	struct seal *seal = seal_of(core, region->generation);

	if (!seal) {
		seal = calloc(1, sizeof(*seal));
		if (!seal)
			return error_code(-ENOMEM);
		seal->generation = region->generation;
		seal->namespace_number = region->ns->number;
		seal->may_reserve =
			(rights_of(core, session->principal, region->ns) & RIGHT_OWN) != 0;
		CDS_INIT_LIST_HEAD(&seal->parts);
		CDS_INIT_LIST_HEAD(&seal->waiters);
		cds_list_add_tail(&seal->node, &core->seals);
	}
	*out = seal;
	return 0;
}

int region_seal(struct core *core, struct session *session, struct event *event)
{
	const Afar__RegionSeal *wanted = event->request->region_seal;
	struct reference *reference = NULL;
	struct region *region = NULL;
	struct seal *seal;
	int ret = region_find(core, "seal", wanted->namespace_, wanted->address, wanted->generation,
			      &region);

	if (ret == 0)
		ret = region_find_reference(session, "seal", region, &reference);
	if (ret == 0)
		ret = rights_check(core, session, region->ns, RIGHT_ALL, "seal a region");
	if (ret < 0)
		return ret;
	if (region->is_sealed) {
		event->outcome_kind = OUTCOME_REGION;
		event->outcome_value = region->generation;
		return 0;
	}
	if (region->is_freed)
		return error_fail(-AFAR_EFREED, "seal the region at 0x%llx: it was freed before",
				  (unsigned long long)region->address);
	ret = begin(core, session, region, &seal);
	if (ret < 0)
		return ret;
	wait_for_seal(seal, event);
	return CORE_DEFERRED;
}

int seals_drop(struct core *core, uint64_t ns)
{
	struct seal *seal;
	int ret = 0;

	cds_list_for_each_entry (seal, &core->seals, node) {
		if (seal->namespace_number != ns || seal->state == SEAL_FINISHED)
			continue;
		ret = seal_plan_undo(core, &seal->plan);
		if (ret == 0)
			ret = undo_room(core->undo, 1);
		if (ret < 0)
			break;
		undo_set(core->undo, seal->is_dropped, true);
	}
	return ret;
}

void seals_close(struct core *core)
{
	struct seal *seal, *next;

	cds_list_for_each_entry_safe (seal, next, &core->seals, node) {
		seal_fail(seal, error_fail(-AFAR_EMANAGER,
					   "seal a region: the manager stops; try again later"));
		seal_end(core, seal);
	}
}
