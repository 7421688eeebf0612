/* SPDX-License-Identifier: BSD-3-Clause */
/* Says which homes of a target a call needs, and which of them a sync. */
#include "client/target/apart.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

/* ---- What is needed */

static bool range_has(const struct layout *layout, uint64_t offset, uint64_t length, uint32_t home)
{
	while (length) {
		struct layout_piece at;

		if (offset >= layout->length)
			return true; /* it is for others to say that it is outside */
		at = layout_piece_at(layout, offset, length);
		if (at.copy && at.copy->home == home)
			return true;
		offset += at.length;
		length -= at.length;
	}
	return false;
}

bool binding_may_skip(const struct binding_server *server)
{
	const struct peer *peer = server->peer;

	return peer->store == 0 || (!server->owes_sync && !server->may_owe_sync &&
				    server->nr_synced == peer->nr_written);
}

bool need_has(const struct target_need *need, const struct binding *binding, uint32_t home)
{
	if (!need)
		return true;
	if (need->is_sync)
		return !binding_may_skip(&binding->servers[home]);
	for (unsigned i = 0; i < need->nr; i++) {
		const struct target_piece *piece = &need->pieces[i];

		if ((!need->is_of_left || piece->status == PIECE_LEFT) &&
		    range_has(binding->layout, piece->offset, piece->memory.length, home))
			return true;
	}
	return false;
}

/* ---- Syncs */

void apart_owe_syncs(struct afar_target *target)
{
	struct binding *binding = target_binding(target);

	for (uint32_t i = 0; i < binding->layout->nr_homes; i++)
		binding->servers[i].owes_sync = true;
	binding_unref(binding);
}

int sync_marks_take(struct sync_marks *marks, struct afar_target *target)
{
	struct binding *binding = target_binding(target);

	*marks = (struct sync_marks){.binding = binding};
	marks->nr_written =
		calloc((size_t)binding->layout->nr_homes + 1, sizeof(*marks->nr_written));
	if (!marks->nr_written) {
		binding_unref(binding);
		return error_code(-ENOMEM);
	}
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		marks->nr_written[i] = binding->servers[i].peer->nr_written;
		binding->servers[i].has_refused_sync = false;
	}
	return 0;
}

void sync_marks_end(struct sync_marks *marks, bool is_done)
{
	struct binding *binding = marks->binding;

	/* A binding that has come meanwhile took over what was owed: then the next sync goes there again. */
	for (uint32_t i = 0; i < binding->layout->nr_homes; i++) {
		struct binding_server *server = &binding->servers[i];

		if (binding_may_skip(server) || !(is_done || server->has_refused_sync))
			continue;
		server->nr_synced = marks->nr_written[i];
		server->owes_sync = false;
		server->may_owe_sync = false;
	}
	binding_unref(binding);
	free(marks->nr_written);
}
