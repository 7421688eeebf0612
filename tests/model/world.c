/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that the search checks, the greed of hostile sessions, and states that count as one. */
#include "world.h"

/* ---- Small questions */

unsigned namespace_of(const struct chunk_world *rules, unsigned session)
{
	return session == rules->nr_sessions - 1;
}

uint8_t sessions_of(const struct chunk_world *rules, unsigned ns)
{
	uint8_t set = 0;

	for (unsigned s = 0; s < rules->nr_sessions; s++)
		if (namespace_of(rules, s) == ns)
			set |= (uint8_t)(1U << s);
	return set;
}

static bool is_number_used(const struct server *server, unsigned number)
{
	return server->record_number == number || server->ask_release == number ||
	       server->say_reserved == number || server->say_released == number ||
	       server->join_release == number || server->memory_number == number;
}

uint8_t fresh_number(const struct server *server)
{
	uint8_t number = 1;

	while (is_number_used(server, number))
		number++;
	return number;
}

bool is_record_true(const struct server *server)
{
	return server->record == RECORD_GRANTED && server->memory == GRANTED &&
	       server->record_number == server->memory_number;
}

/* ---- What must hold */

static const char *wrong_memory(const struct chunk_world *rules, const struct server *server)
{
	uint8_t owners = sessions_of(rules, server->memory_ns);
	bool is_fenced = server->memory == FENCED || server->memory == FREE;

	if (is_fenced && server->writing)
		return "memory counts as fenced, and a session can still write it";
	if (server->memory == GRANTED && (server->writing & ~owners))
		return "a session can write memory that another namespace has";
	if (server->memory == FREE && server->content)
		return "memory is free, and has a namespace's bytes in it";
	if (server->memory == GRANTED && (server->content & ~(1U << server->memory_ns)))
		return "memory was granted with another namespace's bytes in it";
	return NULL;
}

/* The manager counts on this: memory on its books is out of reach for a session that is gone. */
static const char *wrong_session(const struct world *world, const struct server *server, unsigned s)
{
	uint8_t bit = (uint8_t)(1U << s);
	bool is_gone = world->lives[s] == GONE;

	if (is_gone && (server->endpoints & server->ended & ~server->closing & bit))
		return "a session's end was confirmed, and it is connected";
	if (!(server->noted & bit) || !is_record_true(server))
		return NULL;
	if (is_gone && (server->writing & bit))
		return "a session is gone, and can still write";
	if (world->lives[s] == LIVE && (world->revoked & server->writing & bit))
		return "a session's rights were taken, and it can still write";
	return NULL;
}

const char *world_wrong(const void *context, const void *state)
{
	const struct chunk_world *rules = context;
	const struct world *world = state;
	const char *wrong = NULL;

	for (unsigned v = 0; v < rules->nr_servers && !wrong; v++) {
		wrong = wrong_memory(rules, &world->servers[v]);
		for (unsigned s = 0; s < rules->nr_sessions && !wrong; s++)
			wrong = wrong_session(world, &world->servers[v], s);
	}
	return wrong;
}

bool world_is_well(const void *context, const void *state)
{
	const struct chunk_world *rules = context;
	const struct world *world = state;

	for (unsigned s = 0; s < rules->nr_sessions; s++)
		if (world->lives[s] != GONE)
			return false;
	for (unsigned v = 0; v < rules->nr_servers; v++)
		if (world->servers[v].memory != FREE || world->servers[v].record != RECORD_NONE ||
		    !world->servers[v].is_up)
			return false;
	return world->is_manager_up;
}

/* ---- Hostile sessions: what they do by themselves, at once */

void take_keys(struct server *server, uint8_t sessions)
{
	server->noted |= sessions;
	if (server->noted)
		server->is_key_out = 1;
}

/* Returns whose endpoints the memory's keys are good on. */
static uint8_t domain_of(const struct chunk_world *rules, const struct server *server)
{
	return rules->bug == BUG_ONE_DOMAIN ? 0xff : sessions_of(rules, server->memory_ns);
}

static void take_what_can_be_had(const struct chunk_world *rules, struct world *world, unsigned v)
{
	struct server *server = &world->servers[v];
	uint8_t open = 0, may_ask, used;

	for (unsigned s = 0; s < rules->nr_sessions; s++)
		if (world->lives[s] == LIVE && (world->open >> s & 1) &&
		    server->record == RECORD_GRANTED && server->record_ns == namespace_of(rules, s))
			open |= (uint8_t)(1U << s);
	/* RegionOpen, RegionAccess. */
	if (world->is_manager_up && server->link != LINK_DOWN && server->is_known) {
		server->passes |= open;
		if (is_record_true(server))
			server->capabilities |= open;
	}
	/* Connect; then the data port. */
	may_ask = server->passes;
	if (rules->bug != BUG_END_IS_NOT_REMEMBERED)
		may_ask &= (uint8_t)~server->ended;
	used = (server->tickets | may_ask) & (uint8_t)~server->endpoints;
	server->endpoints |= used;
	server->tickets = (server->tickets & (uint8_t)~used) | may_ask;
	/* Grant. A session that can use another's key may prefer not to be seen with one. */
	if (server->memory == GRANTED && rules->bug != BUG_FENCE_ONLY_WHO_WAS_GRANTED)
		take_keys(server, server->capabilities & may_ask);

	if (server->is_key_out)
		server->writing |= server->endpoints & domain_of(rules, server);
	for (unsigned s = 0; s < rules->nr_sessions; s++)
		if (server->writing >> s & 1)
			server->content |= (uint8_t)(1U << namespace_of(rules, s));
}

/* ---- States that differ in nothing that matters are made one */

/* Forgets what is left on a server of a session that is gone and can do nothing there. */
static void forget_gone(const struct chunk_world *rules, const struct world *world,
			struct server *server)
{
	for (unsigned s = 0; s < rules->nr_sessions; s++) {
		uint8_t bit = (uint8_t)(1U << s), others = (uint8_t)~bit;
		bool may_return =
			(server->tickets & bit) ||
			((server->passes & bit) &&
			 (!(server->ended & bit) || rules->bug == BUG_END_IS_NOT_REMEMBERED));

		if (world->lives[s] != GONE || may_return || (server->endpoints & bit))
			continue;
		server->passes &= others;
		server->capabilities &= others;
		server->ended &= others;
		server->closing &= others;
		server->noted &= others;
		server->ask_ends &= others;
		server->ends_due &= others;
		server->say_ended &= others;
	}
}

/* Numbers in the order of their places; those that nobody heeds are dropped. */
static void renumber(struct server *server)
{
	uint8_t *places[] = {&server->memory_number, &server->record_number, &server->ask_release,
			     &server->say_reserved,  &server->say_released,  &server->join_release};
	const size_t nr_places = sizeof(places) / sizeof(places[0]);
	uint8_t names[16] = {0}, next = 1;

	if (server->ask_release != server->memory_number &&
	    server->ask_release != server->record_number)
		server->ask_release = 0;
	if (server->say_released != server->record_number)
		server->say_released = 0;
	for (size_t i = 0; i < nr_places; i++) {
		if (*places[i] == 0)
			continue;
		if (names[*places[i]] == 0)
			names[*places[i]] = next++;
		*places[i] = names[*places[i]];
	}
}

void reach(struct search *search, const struct chunk_world *rules, const char *step,
	   enum step_kind kind, struct world *next)
{
	for (unsigned v = 0; v < rules->nr_servers; v++) {
		take_what_can_be_had(rules, next, v);
		forget_gone(rules, next, &next->servers[v]);
		renumber(&next->servers[v]);
	}
	search_reach(search, step, kind, next);
}
