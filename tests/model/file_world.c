/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that the search checks, and what users of files may count on. */
#include "file_world.h"

#include <stddef.h>

/* ---- What users may count on */

void count_on_less(struct file *file, uint8_t size)
{
	if (file->least > size)
		file->least = size;
	file->kept &= (uint8_t)((1U << size) - 1);
}

void count_on_claims(const struct file_world *rules, struct file_state *state)
{
	for (unsigned f = 0; f < rules->nr_files; f++) {
		uint8_t size = state->files[f].stored_size;

		for (unsigned c = 0; c < rules->nr_clients; c++) {
			const struct client *client = &state->clients[c];
			const struct opened *opened = &client->opened[f];
			uint8_t end = opened->end > opened->size ? opened->end : opened->size;

			if (client->life == ALIVE && opened->handle >= OPEN && opened->is_present &&
			    end > size)
				size = end;
		}
		count_on_less(&state->files[f], size);
	}
}

void cut_bytes(struct file_state *state, uint8_t unit, uint8_t from)
{
	for (unsigned half = from; half < HALVES && unit != 0; half++)
		if (state->content[unit - 1][half] == WRITTEN)
			state->content[unit - 1][half] = CUT;
}

void change_layout(struct file_state *state, unsigned f)
{
	for (unsigned c = 0; c < CLIENTS_MAX; c++) {
		struct client *client = &state->clients[c];

		client->opened[f].is_present = 0;
		if (client->write != WRITE_NONE && client->posted.file == f)
			client->posted.is_old = 1;
		if (client->doubt.unit != 0 && client->doubt.file == f)
			client->doubt.is_old = 1;
	}
}

/* ---- What must hold */

static const char *wrong_unit(const struct file_world *rules, const struct file_state *state,
			      uint8_t unit)
{
	const uint8_t *content = state->content[unit - 1];
	uint8_t bit = (uint8_t)(1U << (unit - 1));
	unsigned nr_owners = (state->free & bit ? 1U : 0U) + (state->scrubs & bit ? 1U : 0U);

	for (unsigned f = 0; f < rules->nr_files; f++) {
		if (state->files[f].unit != unit)
			continue;
		nr_owners++;
		if (content[0] == CUT || content[1] == CUT)
			return "a file has bytes that are another's, or were cut off";
	}
	if (nr_owners > 1)
		return "a unit has two owners";
	if ((state->free & bit) && (content[0] != ZERO || content[1] != ZERO))
		return "a unit is free, and not zero";
	return NULL;
}

static const char *wrong_file(const struct file_state *state, const struct file *file)
{
	for (unsigned half = 0; half < HALVES; half++)
		if ((file->kept >> half & 1) &&
		    (file->unit == 0 || state->content[file->unit - 1][half] != WRITTEN))
			return "bytes are gone whose write was acknowledged";
	if (file->size > file->most)
		return "a size comes back that was cut off";
	if (state->is_manager_up && state->unreclaimed == 0 && file->size < file->least)
		return "a file is shorter than was acknowledged";
	return NULL;
}

static const char *wrong_client(const struct file_state *state, const struct client *client,
				unsigned f)
{
	const struct opened *opened = &client->opened[f];
	bool is_shut = client->truncate != TRUNCATE_NONE && client->truncated_file == f;

	if (client->life == ALIVE && opened->handle == OPEN && !is_shut && opened->unit != 0 &&
	    opened->unit != state->files[f].unit)
		return "a client may read a unit that the file has no more";
	return NULL;
}

const char *file_world_wrong(const void *context, const void *world)
{
	static const char *const harms[NR_HARMS] = {
		[HARM_FOREIGN] = "a write lands in a unit that its file has no more",
		[HARM_LATE] = "a write of before a truncate lands after it",
	};
	const struct file_world *rules = context;
	const struct file_state *state = world;
	const char *wrong = harms[state->harm];

	for (uint8_t unit = 1; unit <= rules->nr_units && !wrong; unit++)
		wrong = wrong_unit(rules, state, unit);
	for (unsigned f = 0; f < rules->nr_files && !wrong; f++) {
		wrong = wrong_file(state, &state->files[f]);
		for (unsigned c = 0; c < rules->nr_clients && !wrong; c++)
			wrong = wrong_client(state, &state->clients[c], f);
	}
	return wrong;
}

bool file_world_is_well(const void *context, const void *world)
{
	const struct file_world *rules = context;
	const struct file_state *state = world;

	for (unsigned f = 0; f < rules->nr_files; f++)
		if (state->files[f].is_there)
			return false;
	return state->is_manager_up && state->free == (1U << rules->nr_units) - 1;
}
