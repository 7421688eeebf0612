/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that is reached in another way now: it restarted, vanished from its server, or came to another. A sync goes there
 * only if the handle has written something that no sync has covered, or may be writing it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/target/apart.h"
#include "unit/group.h"

#define STORE 7

static struct layout_home home = {.life = STORE, .is_store = true};
static struct layout layout = {.nr_homes = 1, .homes = &home};
static struct peer peers[3];

static struct binding *make_binding(struct peer *peer)
{
	struct binding *binding = calloc(1, sizeof(*binding) + sizeof(binding->servers[0]));

	peer->store = STORE;
	binding->layout = &layout;
	binding->servers[0].peer = peer;
	return binding;
}

/* Binds again as target_bind() does. `meanwhile` happens between its two looks, and counts, too. */
static bool may_skip_after(struct binding *old, struct peer *peer, struct binding **out,
			   void (*meanwhile)(struct peer *old))
{
	*out = make_binding(peer);
	binding_remember(*out, old);
	if (meanwhile)
		meanwhile(old->servers[0].peer);
	binding_settle_owed(*out, old);
	return binding_may_skip(&(*out)->servers[0]);
}

static void begin_write(struct peer *peer)
{
	peer->nr_writing++;
}

static void write_once(struct peer *peer)
{
	peer->nr_written++;
}

struct owed {
	uint64_t nr_written, nr_writing;
	bool owes;
	bool has_moved;
	void (*meanwhile)(struct peer *old);
	bool may_skip;
};

static void test_after_a_rebind(void **state)
{
	static const struct owed cases[] = {
		{.nr_written = 5, .has_moved = true, .may_skip = true},
		{.nr_written = 5, .may_skip = true},
		{.nr_written = 6, .has_moved = true},
		{.nr_written = 6},
		{.nr_written = 5, .nr_writing = 1, .has_moved = true},
		{.nr_written = 5, .owes = true, .has_moved = true},
		{.nr_written = 5, .owes = true},
		{.nr_written = 5, .has_moved = true, .meanwhile = begin_write},
		{.nr_written = 5, .has_moved = true, .meanwhile = write_once},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct owed *owed = &cases[i];
		struct binding *old = make_binding(&peers[0]), *binding, *next;

		peers[0].nr_written = owed->nr_written;
		peers[0].nr_writing = owed->nr_writing;
		old->servers[0].nr_synced = 5;
		old->servers[0].owes_sync = owed->owes;
		if (may_skip_after(old, &peers[owed->has_moved], &binding, owed->meanwhile) !=
		    owed->may_skip)
			fail_msg("case %zu", i);
		/* It stays so when the store is reached in yet another way before a sync. */
		if (may_skip_after(binding, &peers[2], &next, NULL) != owed->may_skip)
			fail_msg("case %zu, moved again", i);
		free(old);
		free(binding);
		free(next);
	}
}

TEST_GROUP(owed)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_after_a_rebind)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
