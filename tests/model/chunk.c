/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model, and where it is from:
 *
 *  - memory of a server     src/server/memory/extent_book.c (the table of states), extent.c, fence.c
 *     - FREE -> GRANTED       extent_pool_reserve(), for ExtentsReserve; numbers are never used again
 *     - GRANTED -> DRAINING   extent_pool_drain(): no key is given any more; for ExtentsRelease, or because
 *                             ServerJoined lists it
 *     - DRAINING -> KEYLESS   the same: the registrations are closed, no write can begin
 *     - KEYLESS -> FENCED     extent_pool_drained(), when fence_extents() has had every endpoint closed that
 *                             may have met a key: no write can go on (there: DIRTY)
 *     - FENCED -> FREE        scrub_one() (there: SCRUBBING, then CLEAN)
 *  - a session on a server  control.c: Connect, Grant; tickets.c: issue, redeem, revoke.
 *                             An endpoint is in the domain of its session's namespace, whose keys alone
 *                             it can use (domains.c)
 *     - its end               fence_session(), for SessionEnd: no tickets, endpoints closed
 *  - the manager            sessions.c: end_session(), make_fences(), session_fenced(), let_go();
 *                           servers.c: servers_drive(), server_answered(), server_down(), reconcile(),
 *                           lose_incarnation(), forget(); reserve.c: job_finish(); rights.c: end_users();
 *                           namespaces.c: namespace_release()
 *
 * The manager has stored a record (granted, releasing), fences, ends of sessions and their regions. All that it
 * has asked and not heard of is lost with it, and with the connection.
 *
 * All sessions are hostile. They take at once whatever they can get (passes, capabilities, tickets, endpoints),
 * close nothing, and share keys within their namespace. Each endpoint that ever met a valid key has a transfer
 * half through. It can go on at any moment until the endpoint is closed: tcp looks at a key when a transfer
 * begins. Taking less, or later, would only spare the search what is less dangerous. Every end of a session
 * counts as one by force.
 */
#include "chunk.h"

#include <stdint.h>

#include "world.h"

/* ---- A server's keys */

/* Where it matters who asks for keys and who does not. */
static void grant_steps(struct search *search, const struct chunk_world *rules,
			const struct world *world, unsigned v)
{
	const struct server *server = &world->servers[v];

	for (unsigned s = 0; s < rules->nr_sessions; s++) {
		uint8_t bit = (uint8_t)(1U << s);
		struct world next = *world;

		if (rules->bug != BUG_FENCE_ONLY_WHO_WAS_GRANTED || server->memory != GRANTED ||
		    !(server->capabilities & server->passes & bit & ~server->ended) ||
		    (server->noted & bit))
			continue;
		take_keys(&next.servers[v], bit);
		reach(search, rules, "server: gives a session the key", STEP_FAILURE, &next);
	}
}

/* ---- The server */

static void begin_release(struct server *server, uint8_t number)
{
	bool has_it = server->memory == GRANTED && server->memory_number == number;

	if (has_it) {
		server->memory = DRAINING;
		server->is_release_due = server->link == LINK_JOINED;
	} else if (server->link == LINK_JOINED) {
		server->say_released = number;
	}
}

static void close_endpoints(struct server *server, uint8_t of)
{
	server->endpoints &= (uint8_t)~of;
	server->writing &= (uint8_t)~of;
}

static void close_for_release(const struct chunk_world *rules, struct server *server)
{
	if (rules->bug == BUG_RELEASE_CLOSES_NO_ENDPOINTS || rules->bug == BUG_RELEASE_BY_CLOCK)
		return;
	close_endpoints(server, rules->bug == BUG_FENCE_ONLY_WHO_WAS_GRANTED
					? server->noted
					: sessions_of(rules, server->memory_ns));
	server->noted = 0;
}

static void close_keys(struct server *server)
{
	server->is_key_out = 0;
	server->capabilities = 0; /* worthless from now on */
}

static void become_free(const struct chunk_world *rules, struct server *server)
{
	server->memory = FREE;
	server->memory_ns = server->memory_number = 0;
	if (rules->bug != BUG_NO_SCRUB && rules->bug != BUG_SCRUB_BEFORE_FENCE)
		server->content = 0;
}

static void memory_steps(struct search *search, const struct chunk_world *rules,
			 const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];
	bool was_writing;

	switch (server->memory) {
	case DRAINING:
		if (rules->bug == BUG_RELEASE_CLOSES_ENDPOINTS_FIRST)
			close_for_release(rules, server);
		else
			close_keys(server);
		server->memory = KEYLESS;
		reach(search, rules, "server: closes the keys", STEP_REPAIR, &next);
		break;
	case KEYLESS:
		was_writing = server->writing != 0;
		if (rules->bug == BUG_RELEASE_CLOSES_ENDPOINTS_FIRST)
			close_keys(server);
		else
			close_for_release(rules, server);
		server->memory = FENCED;
		/* Not what was scrubbed already: but writes went on. */
		if (rules->bug == BUG_SCRUB_BEFORE_FENCE)
			server->content = was_writing ? server->content : 0;
		if (server->is_release_due)
			server->say_released = server->memory_number;
		server->is_release_due = 0;
		reach(search, rules, "server: closes the endpoints: fenced", STEP_REPAIR, &next);
		break;
	case FENCED:
		become_free(rules, server);
		reach(search, rules, "server: scrubs", STEP_REPAIR, &next);
		break;
	default:
		break;
	}
}

static bool may_grant(const struct chunk_world *rules, const struct server *server)
{
	return server->memory == FREE ||
	       (rules->bug == BUG_GRANT_WHILE_DRAINING && server->memory == KEYLESS);
}

static void reserve_steps(struct search *search, const struct chunk_world *rules,
			  const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];

	if (server->link != LINK_JOINED || !server->ask_reserve)
		return;
	if (may_grant(rules, server)) {
		server->memory = GRANTED;
		server->memory_ns = (uint8_t)(server->ask_reserve - 1);
		server->memory_number = 0;
		server->memory_number = fresh_number(server);
		server->content |= (uint8_t)(1U << server->memory_ns);
		server->say_reserved = server->memory_number;
		server->say_reserved_ns = server->memory_ns;
	} else if (server->memory == GRANTED) {
		server->is_reserving = 0; /* its refusal, and the manager hearing of it */
	} else {
		return; /* waits for the scrubber */
	}
	server->ask_reserve = 0;
	reach(search, rules, "server: reserves", STEP_REPAIR, &next);
}

static void release_steps(struct search *search, const struct chunk_world *rules,
			  const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];

	if (server->ask_release && server->link != LINK_JOINING) {
		begin_release(server, server->ask_release);
		server->ask_release = 0;
		reach(search, rules, "server: takes ExtentsRelease", STEP_REPAIR, &next);
	}
	next = *world;
	if (server->link == LINK_JOINING) {
		uint8_t number = server->join_release;

		server->join_release = 0;
		if (number && server->memory == GRANTED && server->memory_number == number)
			server->memory = DRAINING;
		server->link = LINK_JOINED;
		reach(search, rules, "server: takes ServerJoined", STEP_REPAIR, &next);
	}
}

static void end_steps(struct search *search, const struct chunk_world *rules,
		      const struct world *world, unsigned v)
{
	for (unsigned s = 0; s < rules->nr_sessions; s++) {
		uint8_t bit = (uint8_t)(1U << s);
		struct world next = *world;
		struct server *server = &next.servers[v];

		if (server->ask_ends & bit) {
			server->ask_ends &= (uint8_t)~bit;
			server->ended |= bit;
			if (rules->bug != BUG_END_FORGETS_TICKETS)
				server->tickets &= (uint8_t)~bit;
			server->closing |= bit;
			if (server->link != LINK_DOWN)
				server->ends_due |= bit;
			if (rules->bug == BUG_END_ANSWERED_EARLY) {
				server->say_ended |= server->ends_due & bit;
				server->ends_due &= (uint8_t)~bit;
			}
			reach(search, rules, "server: takes SessionEnd", STEP_REPAIR, &next);
		}
		next = *world;
		if (server->closing & bit) {
			server->closing &= (uint8_t)~bit;
			close_endpoints(server, bit);
			server->say_ended |= server->ends_due & bit;
			server->ends_due &= (uint8_t)~bit;
			reach(search, rules, "server: closes an ended session's endpoints",
			      STEP_REPAIR, &next);
		}
	}
}

/* ---- The manager */

static void reconcile(const struct chunk_world *rules, struct server *server)
{
	bool has = server->memory == GRANTED;
	bool is_known = has && server->record != RECORD_NONE &&
			server->record_number == server->memory_number &&
			server->record_ns == server->memory_ns;

	server->join_release = 0;
	if (has && (!is_known || server->record == RECORD_RELEASING) &&
	    !(rules->bug == BUG_UNKNOWN_IS_KEPT && !is_known))
		server->join_release = server->memory_number;
	if (server->record != RECORD_NONE && (!is_known || server->record == RECORD_RELEASING))
		server->record = server->record_ns = server->record_number = 0;
}

static void join_steps(struct search *search, const struct chunk_world *rules,
		       const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];

	if (!world->is_manager_up || !server->is_up || server->link != LINK_DOWN)
		return;
	if (!server->is_known) {
		server->record = server->record_ns = server->record_number = 0;
		server->fences = 0;
	}
	if (rules->bug == BUG_END_SETTLED_BY_REJOIN)
		server->fences = 0;
	server->is_known = 1;
	reconcile(rules, server);
	server->link = LINK_JOINING;
	reach(search, rules, "manager: takes ServerJoin", STEP_REPAIR, &next);
}

/* Sends what servers must be told. */
static void drive_steps(struct search *search, const struct chunk_world *rules,
			const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];

	if (!world->is_manager_up || server->link == LINK_DOWN)
		return;
	if (server->record == RECORD_RELEASING && !server->release_sent) {
		server->release_sent = 1;
		server->ask_release = server->record_number;
		reach(search, rules, "manager: sends ExtentsRelease", STEP_REPAIR, &next);
	}
	next = *world;
	for (unsigned s = 0; s < rules->nr_sessions; s++) {
		uint8_t bit = (uint8_t)(1U << s);

		if (!(server->fences & bit) || (server->ends_sent & bit))
			continue;
		server->ends_sent |= bit;
		server->ask_ends |= bit;
		reach(search, rules, "manager: sends SessionEnd", STEP_REPAIR, &next);
		next = *world;
	}
}

static void answer_steps(struct search *search, const struct chunk_world *rules,
			 const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];

	if (!world->is_manager_up)
		return;
	if (server->say_reserved) {
		server->record = RECORD_GRANTED;
		server->record_ns = server->say_reserved_ns;
		server->record_number = server->say_reserved;
		server->say_reserved = server->say_reserved_ns = server->is_reserving = 0;
		reach(search, rules, "manager: records the extent", STEP_REPAIR, &next);
	}
	next = *world;
	if (server->say_released) {
		if (server->record == RECORD_RELEASING &&
		    server->record_number == server->say_released)
			server->record = server->record_ns = server->record_number =
				server->release_sent = 0;
		server->say_released = 0;
		reach(search, rules, "manager: hears of the release", STEP_REPAIR, &next);
	}
	next = *world;
	if (server->say_ended) {
		server->fences &= (uint8_t)~server->say_ended;
		server->ends_sent &= (uint8_t)~server->say_ended;
		server->say_ended = 0;
		reach(search, rules, "manager: hears that endpoints are closed", STEP_REPAIR,
		      &next);
	}
	next = *world;
	/* forget(): it is away and holds nothing. */
	if (server->link == LINK_DOWN && server->record == RECORD_NONE && server->fences) {
		server->fences = 0;
		reach(search, rules, "manager: forgets a server that holds nothing", STEP_REPAIR,
		      &next);
	}
}

/* let_go(): a session's region goes when all servers that hold it are fenced, the session when all are. */
static void let_go_steps(struct search *search, const struct chunk_world *rules,
			 const struct world *world)
{
	for (unsigned s = 0; s < rules->nr_sessions && world->is_manager_up; s++) {
		uint8_t bit = (uint8_t)(1U << s);
		bool is_fenced = true, is_region_fenced = true;
		struct world next = *world;

		if (world->lives[s] != ENDING)
			continue;
		for (unsigned v = 0; v < rules->nr_servers; v++) {
			const struct server *server = &world->servers[v];

			if (!(server->fences & bit))
				continue;
			is_fenced = false;
			if (server->record == RECORD_GRANTED &&
			    server->record_ns == namespace_of(rules, s))
				is_region_fenced = false;
		}
		if (is_fenced)
			next.lives[s] = GONE;
		if (is_region_fenced)
			next.open &= (uint8_t)~bit;
		if (is_fenced || (world->open & bit & ~next.open))
			reach(search, rules, "manager: lets go of an ended session", STEP_REPAIR,
			      &next);
	}
}

static bool is_to_fence(const struct chunk_world *rules, const struct world *world, unsigned s,
			unsigned v)
{
	const struct server *server = &world->servers[v];
	bool is_up = server->link != LINK_DOWN;
	bool holds = (world->open >> s & 1) && server->record != RECORD_NONE &&
		     server->record_ns == namespace_of(rules, s);

	return rules->bug != BUG_END_ONLY_WHERE_UP || is_up || holds;
}

/* ---- What users ask of the manager */

static void session_steps(struct search *search, const struct chunk_world *rules,
			  const struct world *world)
{
	for (unsigned s = 0; s < rules->nr_sessions && world->is_manager_up; s++) {
		uint8_t bit = (uint8_t)(1U << s);
		bool has_memory = false;
		struct world next = *world;

		if (world->lives[s] != LIVE)
			continue;
		for (unsigned v = 0; v < rules->nr_servers; v++)
			has_memory = has_memory ||
				     (world->servers[v].record == RECORD_GRANTED &&
				      world->servers[v].record_ns == namespace_of(rules, s));
		if (world->open & bit) {
			next.open &= (uint8_t)~bit;
			reach(search, rules, "user: closes its region", STEP_REPAIR, &next);
		} else if (has_memory) {
			next.open |= bit;
			reach(search, rules, "user: opens a region", STEP_FAILURE, &next);
		}

		next = *world;
		next.lives[s] = ENDING;
		for (unsigned v = 0; v < rules->nr_servers; v++)
			if (is_to_fence(rules, world, s, v))
				next.servers[v].fences |= bit;
		reach(search, rules, "manager: a session ends", STEP_REPAIR, &next);
		if (rules->bug != BUG_END_ONLY_WHERE_OPEN || (world->revoked & bit) ||
		    (world->open & bit))
			continue;
		/* The right rule would end the session, as above. */
		next = *world;
		next.revoked |= bit;
		reach(search, rules, "manager: takes a session's rights away", STEP_FAILURE, &next);
	}
}

static void namespace_steps(struct search *search, const struct chunk_world *rules,
			    const struct world *world, unsigned v)
{
	const struct server *server = &world->servers[v];

	if (!world->is_manager_up)
		return;
	if (server->record == RECORD_GRANTED &&
	    !(world->open & sessions_of(rules, server->record_ns))) {
		struct world next = *world;

		next.servers[v].record = RECORD_RELEASING;
		reach(search, rules, "user: gives the memory back", STEP_REPAIR, &next);
	}
	if (server->link == LINK_DOWN || server->record != RECORD_NONE || server->is_reserving)
		return;
	for (uint8_t ns = 0; ns < 2; ns++) {
		struct world next = *world;

		next.servers[v].is_reserving = 1;
		next.servers[v].ask_reserve = (uint8_t)(ns + 1);
		reach(search, rules, "user: reserves memory", STEP_FAILURE, &next);
	}
}

/* ---- What fails */

static bool may_fail(const struct chunk_world *rules, struct world *next)
{
	if (rules->nr_failures == CHUNK_ENDLESS)
		return true;
	if (next->nr_failures_left == 0)
		return false;
	next->nr_failures_left--;
	return true;
}

/* Answers are lost, and what the server has not taken; what it has taken, it goes on with. */
static void lose_link(const struct chunk_world *rules, struct server *server, bool has_arrived)
{
	server->link = LINK_DOWN;
	server->is_reserving = server->ask_reserve = 0;
	server->say_reserved = server->say_reserved_ns = 0;
	server->say_released = server->say_ended = 0;
	server->is_release_due = server->ends_due = 0;
	server->join_release = 0;
	if (!has_arrived)
		server->ask_release = server->ask_ends = 0;
	if (rules->bug != BUG_RELEASE_SENT_ONCE)
		server->release_sent = 0;
	if (rules->bug != BUG_END_SENT_ONCE)
		server->ends_sent = 0;
}

static void die(const struct chunk_world *rules, struct server *server)
{
	struct server dead = {0};

	lose_link(rules, server, false);
	dead.record = server->record;
	dead.record_ns = server->record_ns;
	dead.record_number = server->record_number;
	dead.fences = server->fences;
	dead.release_sent = server->release_sent;
	dead.ends_sent = server->ends_sent;
	*server = dead;
}

static void server_failures(struct search *search, const struct chunk_world *rules,
			    const struct world *world, unsigned v)
{
	struct world next = *world;
	struct server *server = &next.servers[v];

	if (!server->is_up) {
		server->is_up = 1;
		reach(search, rules, "server: starts again, empty", STEP_REPAIR, &next);
		return;
	}
	if (!may_fail(rules, &next))
		return;
	die(rules, server);
	reach(search, rules, "server: is killed", STEP_FAILURE, &next);
	for (unsigned has_arrived = 0; has_arrived < 2; has_arrived++) {
		next = *world;
		if (server->link == LINK_DOWN || !may_fail(rules, &next))
			continue;
		lose_link(rules, server, has_arrived);
		reach(search, rules, "manager and server: the connection is lost", STEP_FAILURE,
		      &next);
	}
	next = *world;
	if (rules->bug == BUG_END_BY_CLOCK && server->fences && world->is_manager_up) {
		server->fences = 0;
		reach(search, rules, "manager: has waited long enough", STEP_FAILURE, &next);
	}
}

static void manager_failures(struct search *search, const struct chunk_world *rules,
			     const struct world *world)
{
	for (unsigned has_arrived = 0; has_arrived < 2; has_arrived++) {
		struct world next = *world;

		if (!world->is_manager_up || !may_fail(rules, &next))
			continue;
		next.is_manager_up = 0;
		for (unsigned v = 0; v < rules->nr_servers; v++)
			lose_link(rules, &next.servers[v], has_arrived);
		reach(search, rules, "manager: is killed", STEP_FAILURE, &next);
	}
	if (!world->is_manager_up) {
		struct world next = *world;

		next.is_manager_up = 1;
		for (unsigned v = 0; v < rules->nr_servers; v++)
			if (rules->bug == BUG_END_FORGOTTEN_BY_RESTART)
				next.servers[v].fences = 0;
		reach(search, rules, "manager: starts again", STEP_REPAIR, &next);
	}
}

/* ---- All of it */

static void take_steps(struct search *search, const void *context, const void *state)
{
	const struct chunk_world *rules = context;
	const struct world *world = state;

	for (unsigned v = 0; v < rules->nr_servers; v++) {
		memory_steps(search, rules, world, v);
		reserve_steps(search, rules, world, v);
		release_steps(search, rules, world, v);
		end_steps(search, rules, world, v);
		grant_steps(search, rules, world, v);
		join_steps(search, rules, world, v);
		drive_steps(search, rules, world, v);
		answer_steps(search, rules, world, v);
		namespace_steps(search, rules, world, v);
		server_failures(search, rules, world, v);
	}
	session_steps(search, rules, world);
	let_go_steps(search, rules, world);
	manager_failures(search, rules, world);
}

struct search_result chunk_search(const struct chunk_world *rules, bool is_shown)
{
	struct world first = {.is_manager_up = 1, .nr_failures_left = (uint8_t)rules->nr_failures};
	const struct model model = {
		.state_bytes = sizeof(first),
		.first = &first,
		.context = rules,
		.steps = take_steps,
		.wrong = world_wrong,
		.is_well = world_is_well,
	};

	for (unsigned v = 0; v < rules->nr_servers; v++)
		first.servers[v] = (struct server){.is_up = 1, .is_known = 1};
	return search_run(&model, is_shown);
}

/* ---- Names */

const char *chunk_bug_name(enum chunk_bug bug)
{
	static const char *const names[] = {"none",
#define CHUNK_BUG_NAME(name, sentence) #name,
					    CHUNK_BUGS(CHUNK_BUG_NAME)
#undef CHUNK_BUG_NAME
	};

	return names[bug];
}

const char *chunk_bug_sentence(enum chunk_bug bug)
{
	static const char *const sentences[] = {"nothing",
#define CHUNK_BUG_SENTENCE(name, sentence) sentence,
						CHUNK_BUGS(CHUNK_BUG_SENTENCE)
#undef CHUNK_BUG_SENTENCE
	};

	return sentences[bug];
}
