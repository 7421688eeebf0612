/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: building and coding them. layout_look.c finds what is in one. */
#include "rpc/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "rpc/protobuf.h"

/* ---- Arrays, which have room for a power of two of entries */

static uint32_t room_for(uint32_t nr)
{
	uint32_t room = 1;

	while (room < nr)
		room *= 2;
	return room;
}

/* Makes room for one more entry. False: no memory. */
static bool grow(void *array, uint32_t nr, size_t size)
{
	void **entries = array, *more;

	if (*entries && (nr & (nr - 1)) != 0)
		return true;
	more = reallocarray(*entries, room_for(nr + 1), size);
	if (!more)
		return false;
	*entries = more;
	return true;
}

static void *duplicate(const void *entries, uint32_t nr, size_t size)
{
	void *copy = reallocarray(NULL, room_for(nr), size);

	if (copy && nr != 0)
		memcpy(copy, entries, nr * size);
	return copy;
}

/* ---- Making one */

struct layout *layout_new(void)
{
	return calloc(1, sizeof(struct layout));
}

struct layout *layout_duplicate(const struct layout *layout)
{
	struct layout *copy = layout_new();

	if (!copy)
		return NULL;
	*copy = *layout;
	copy->groups = duplicate(layout->groups, layout->nr_groups, sizeof(*layout->groups));
	copy->chunks = duplicate(layout->chunks, layout->nr_chunks, sizeof(*layout->chunks));
	copy->copies = duplicate(layout->copies, layout->nr_copies, sizeof(*layout->copies));
	copy->homes = duplicate(layout->homes, layout->nr_homes, sizeof(*layout->homes));
	if (copy->groups && copy->chunks && copy->copies && copy->homes)
		return copy;
	layout_free(copy);
	return NULL;
}

void layout_free(struct layout *layout)
{
	if (!layout)
		return;
	free(layout->groups);
	free(layout->chunks);
	free(layout->copies);
	free(layout->homes);
	free(layout);
}

int layout_add_group(struct layout *layout, uint64_t chunk_bytes, uint64_t unit_bytes)
{
	if (!grow(&layout->groups, layout->nr_groups, sizeof(*layout->groups)))
		return error_code(-ENOMEM);
	layout->groups[layout->nr_groups++] = (struct layout_group){
		.start = layout->length,
		.chunk_bytes = chunk_bytes,
		.unit_shift = unit_bytes != 0 ? (uint32_t)__builtin_ctzll(unit_bytes) : 0,
		.first_chunk = layout->nr_chunks,
	};
	return 0;
}

/* Adds a home, whether it is there or not. */
static int add_home(struct layout *layout, const struct layout_home *home)
{
	if (layout->nr_homes == LAYOUT_HOMES_MAX)
		return error_code(-E2BIG);
	if (!grow(&layout->homes, layout->nr_homes, sizeof(*layout->homes)))
		return error_code(-ENOMEM);
	layout->homes[layout->nr_homes++] = *home;
	return 0;
}

/* Mostly few: a linear search will do. */
static bool find_home(const struct layout *layout, const struct layout_home *home, uint32_t *index)
{
	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		if (layout_home_is(&layout->homes[i], home)) {
			*index = i;
			return true;
		}
	}
	return false;
}

/* Adds a chunk without copies; the group covers what it did. */
static int add_lost(struct layout *layout, uint64_t server, uint64_t store)
{
	struct layout_group *group = &layout->groups[layout->nr_groups - 1];

	if (!grow(&layout->chunks, layout->nr_chunks, sizeof(*layout->chunks)))
		return error_code(-ENOMEM);
	layout->chunks[layout->nr_chunks++] =
		(struct layout_chunk){.lost_server = server, .lost_store = store};
	group->nr_chunks++;
	return 0;
}

/* Adds a chunk of one copy; the group covers what it did. */
static int add_copy(struct layout *layout, uint32_t home, uint64_t extent, uint64_t offset)
{
	struct layout_group *group = &layout->groups[layout->nr_groups - 1];

	if (!grow(&layout->chunks, layout->nr_chunks, sizeof(*layout->chunks)) ||
	    !grow(&layout->copies, layout->nr_copies, sizeof(*layout->copies)))
		return error_code(-ENOMEM);
	layout->chunks[layout->nr_chunks++] =
		(struct layout_chunk){.first_copy = layout->nr_copies, .nr_copies = 1};
	layout->copies[layout->nr_copies++] = (struct layout_copy){
		.home = home, .group = layout->nr_groups - 1, .extent = extent, .offset = offset};
	group->nr_chunks++;
	return 0;
}

int layout_add_chunk(struct layout *layout, const struct layout_home *home, uint64_t extent,
		     uint64_t offset)
{
	const struct layout_group *group = &layout->groups[layout->nr_groups - 1];
	uint32_t index = layout->nr_homes;
	int ret = 0;

	if (!find_home(layout, home, &index))
		ret = add_home(layout, home);
	if (ret == 0)
		ret = add_copy(layout, index, extent, offset);
	if (ret == 0)
		layout_set_last(layout, group->length + group->chunk_bytes);
	return ret;
}

int layout_add_lost_chunk(struct layout *layout, uint64_t server, uint64_t store)
{
	const struct layout_group *group = &layout->groups[layout->nr_groups - 1];
	int ret = add_lost(layout, server, store);

	if (ret == 0)
		layout_set_last(layout, group->length + group->chunk_bytes);
	return ret;
}

void layout_set_last(struct layout *layout, uint64_t length)
{
	struct layout_group *group = &layout->groups[layout->nr_groups - 1];

	group->length = length;
	layout->length = group->start + length;
}

/* The part of a layout that is lost when another is made like it. */
struct loss {
	const struct layout_home *home; /* NULL: nothing more than before */
	uint64_t extent;
};

static bool is_in(const struct layout *layout, const struct layout_copy *copy,
		  const struct loss *loss)
{
	return loss->home && copy->extent == loss->extent &&
	       layout_home_is(layout_home_of(layout, copy), loss->home);
}

static int append_chunk(struct layout *layout, const struct layout *from,
			const struct layout_chunk *chunk, const struct loss *loss)
{
	const struct layout_copy *copy = &from->copies[chunk->first_copy];

	if (chunk->nr_copies == 0)
		return layout_add_lost_chunk(layout, chunk->lost_server, chunk->lost_store);
	if (is_in(from, copy, loss))
		return layout_add_lost_chunk(layout, loss->home->server,
					     loss->home->is_store ? loss->home->life : 0);
	return layout_add_chunk(layout, layout_home_of(from, copy), copy->extent, copy->offset);
}

/* Adds a group like that one, of at most `left` bytes. */
static int append_group(struct layout *layout, const struct layout *from, uint32_t index,
			uint64_t left, const struct loss *loss)
{
	const struct layout_group *group = &from->groups[index];
	int ret = layout_add_group(layout, group->chunk_bytes, UINT64_C(1) << group->unit_shift);

	if (ret == 0)
		layout->groups[layout->nr_groups - 1].is_frozen = group->is_frozen;
	for (uint32_t c = 0; c < group->nr_chunks && ret == 0; c++)
		ret = append_chunk(layout, from, &from->chunks[group->first_chunk + c], loss);
	if (ret == 0)
		layout_set_last(layout, group->length < left ? group->length : left);
	return ret;
}

static int append(struct layout *layout, const struct layout *from, uint64_t length,
		  const struct loss *loss)
{
	uint64_t end = layout->length + length;
	int ret = 0;

	for (uint32_t g = 0; g < from->nr_groups && layout->length < end && ret == 0; g++)
		ret = append_group(layout, from, g, end - layout->length, loss);
	return ret;
}

int layout_append_group(struct layout *layout, const struct layout *from, uint32_t group)
{
	const struct loss nothing = {.home = NULL};

	return append_group(layout, from, group, UINT64_MAX, &nothing);
}

int layout_add_hole(struct layout *layout, uint64_t length)
{
	int ret = layout_add_group(layout, 0, 1);

	if (ret == 0)
		layout_set_last(layout, length);
	return ret;
}

int layout_append(struct layout *layout, const struct layout *from, uint64_t length)
{
	const struct loss nothing = {.home = NULL};

	return append(layout, from, length, &nothing);
}

int layout_without(const struct layout *layout, const struct layout_home *home, uint64_t extent,
		   struct layout **out)
{
	const struct loss loss = {home, extent};
	struct layout *made = layout_new();
	int ret = made ? append(made, layout, layout->length, &loss) : error_code(-ENOMEM);

	if (ret < 0) {
		layout_free(made);
		return ret;
	}
	made->is_sealed = layout->is_sealed;
	*out = made;
	return 0;
}

/* Returns whether all chunks of a group have been given up, or are to be. */
static bool goes_whole(const struct layout *layout, const struct layout_group *group,
		       const bool goes[])
{
	for (uint32_t c = 0; c < group->nr_chunks; c++) {
		const struct layout_chunk *chunk = &layout->chunks[group->first_chunk + c];

		if (chunk->nr_copies != 0 ? !goes[chunk->first_copy]
					  : chunk->lost_server != 0 || chunk->lost_store != 0)
			return false;
	}
	return group->nr_chunks != 0;
}

/* Adds a part that is given up: one lost chunk, which nobody has lost. `*is_open`: the last group is such a part. */
static int append_given_up(struct layout *layout, uint64_t length, bool *is_open)
{
	uint64_t before = *is_open ? layout->groups[layout->nr_groups - 1].length : 0;
	int ret = 0;

	if (!*is_open) {
		ret = layout_add_group(layout, length, LAYOUT_UNIT_MIN);
		if (ret == 0)
			ret = add_lost(layout, 0, 0);
	}
	if (ret < 0)
		return ret;
	layout->groups[layout->nr_groups - 1].chunk_bytes = before + length;
	layout_set_last(layout, before + length);
	*is_open = true;
	return 0;
}

/* Adds a group without the copies that go. */
static int append_kept(struct layout *layout, const struct layout *from, uint32_t index,
		       const bool goes[])
{
	const struct layout_group *group = &from->groups[index];
	const struct loss nothing = {.home = NULL};
	int ret = layout_add_group(layout, group->chunk_bytes, UINT64_C(1) << group->unit_shift);

	if (ret == 0)
		layout->groups[layout->nr_groups - 1].is_frozen = group->is_frozen;
	for (uint32_t c = 0; c < group->nr_chunks && ret == 0; c++) {
		const struct layout_chunk *chunk = &from->chunks[group->first_chunk + c];

		if (chunk->nr_copies != 0 && goes[chunk->first_copy])
			ret = layout_add_lost_chunk(layout, 0, 0);
		else
			ret = append_chunk(layout, from, chunk, &nothing);
	}
	if (ret == 0)
		layout_set_last(layout, group->length);
	return ret;
}

int layout_give_up(const struct layout *layout, const bool goes[], struct layout **out)
{
	struct layout *made = layout_new();
	bool is_open = false;
	int ret = made ? 0 : error_code(-ENOMEM);

	for (uint32_t g = 0; g < layout->nr_groups && ret == 0; g++) {
		const struct layout_group *group = &layout->groups[g];

		if (goes_whole(layout, group, goes)) {
			ret = append_given_up(made, group->length, &is_open);
			continue;
		}
		ret = append_kept(made, layout, g, goes);
		is_open = false;
	}
	if (ret < 0) {
		layout_free(made);
		return ret;
	}
	made->is_sealed = layout->is_sealed;
	*out = made;
	return 0;
}

uint64_t layout_spare(const struct layout *layout)
{
	const struct layout_group *group = &layout->groups[layout->nr_groups - 1];

	return group->chunk_bytes * group->nr_chunks - group->length;
}

/* Adds a group of one chunk: the sums behind a copy. */
static int add_sums(struct layout *layout, const struct layout_copy *of)
{
	const struct layout_home home = *layout_home_of(layout, of);
	const uint64_t bytes = layout->groups[of->group].chunk_bytes;
	int ret = layout_add_group(layout, checksum_bytes(bytes), LAYOUT_UNIT_MIN);

	return ret == 0 ? layout_add_chunk(layout, &home, of->extent, of->offset + bytes) : ret;
}

int layout_with_sums(const struct layout *layout, struct layout **out, uint64_t **sums_at)
{
	uint64_t *starts = calloc((size_t)layout->nr_copies + 1, sizeof(*starts));
	const struct layout_group *last = &layout->groups[layout->nr_groups - 1];
	struct layout *made = layout_duplicate(layout);
	uint64_t excess = layout->length % CHECKSUM_BLOCK;
	int ret = made && starts ? 0 : error_code(-ENOMEM);

	if (ret == 0 && excess)
		layout_set_last(made, last->length + CHECKSUM_BLOCK - excess);
	for (uint32_t i = 0; i < layout->nr_copies && ret == 0; i++) {
		starts[i] = made->length;
		ret = add_sums(made, &layout->copies[i]);
	}
	if (ret < 0) {
		layout_free(made);
		free(starts);
		return ret;
	}
	*out = made;
	*sums_at = starts;
	return 0;
}

/* ---- To a message */

static Layout__Home *pack_home(const struct layout_home *home)
{
	Layout__Home *message = MESSAGE_NEW(layout__home, Layout__Home);

	if (!message)
		return NULL;
	message->server = home->server;
	message->life = home->life;
	message->is_store = home->is_store;
	return message;
}

static Layout__Copy *pack_copy(const struct layout_copy *copy)
{
	Layout__Copy *message = MESSAGE_NEW(layout__copy, Layout__Copy);

	if (!message)
		return NULL;
	message->home = copy->home;
	message->extent = copy->extent;
	message->offset = copy->offset;
	return message;
}

static Layout__Chunk *pack_chunk(const struct layout *layout, const struct layout_chunk *chunk)
{
	Layout__Chunk *message = MESSAGE_NEW(layout__chunk, Layout__Chunk);

	if (!message)
		return NULL;
	message->lost_server = chunk->lost_server;
	message->lost_store = chunk->lost_store;
	message->copies = calloc((size_t)chunk->nr_copies + 1, sizeof(*message->copies));
	for (uint32_t i = 0; i < chunk->nr_copies && message->copies; i++) {
		message->copies[i] = pack_copy(&layout->copies[chunk->first_copy + i]);
		if (!message->copies[i])
			break;
		message->n_copies++;
	}
	if (message->copies && message->n_copies == chunk->nr_copies)
		return message;
	layout__chunk__free_unpacked(message, NULL);
	return NULL;
}

static Layout__Group *pack_group(const struct layout *layout, const struct layout_group *group)
{
	Layout__Group *message = MESSAGE_NEW(layout__group, Layout__Group);

	if (!message)
		return NULL;
	message->length = group->length;
	message->stripe_bytes = UINT64_C(1) << group->unit_shift;
	message->chunk_bytes = group->chunk_bytes;
	message->is_frozen = group->is_frozen;
	message->chunks = calloc((size_t)group->nr_chunks + 1, sizeof(*message->chunks));
	for (uint32_t i = 0; i < group->nr_chunks && message->chunks; i++) {
		message->chunks[i] = pack_chunk(layout, &layout->chunks[group->first_chunk + i]);
		if (!message->chunks[i])
			break;
		message->n_chunks++;
	}
	if (message->chunks && message->n_chunks == group->nr_chunks)
		return message;
	layout__group__free_unpacked(message, NULL);
	return NULL;
}

Layout__Layout *layout_pack(const struct layout *layout)
{
	Layout__Layout *message = MESSAGE_NEW(layout__layout, Layout__Layout);

	if (!message)
		return NULL;
	message->is_sealed = layout->is_sealed;
	message->homes = calloc((size_t)layout->nr_homes + 1, sizeof(*message->homes));
	message->groups = calloc((size_t)layout->nr_groups + 1, sizeof(*message->groups));
	for (uint32_t i = 0; i < layout->nr_homes && message->homes; i++) {
		message->homes[i] = pack_home(&layout->homes[i]);
		if (!message->homes[i])
			break;
		message->n_homes++;
	}
	for (uint32_t i = 0; i < layout->nr_groups && message->groups; i++) {
		message->groups[i] = pack_group(layout, &layout->groups[i]);
		if (!message->groups[i])
			break;
		message->n_groups++;
	}
	if (message->homes && message->groups && message->n_homes == layout->nr_homes &&
	    message->n_groups == layout->nr_groups)
		return message;
	layout__layout__free_unpacked(message, NULL);
	return NULL;
}

/* ---- From a message */

static int refuse(const char **why, const char *what)
{
	*why = what;
	return error_code(-EINVAL);
}

static int unpack_homes(struct layout *layout, const Layout__Layout *message, const char **why)
{
	uint32_t index;
	int ret = message->n_homes > LAYOUT_HOMES_MAX ? refuse(why, "it has too many homes") : 0;

	for (size_t i = 0; i < message->n_homes && ret == 0; i++) {
		const struct layout_home home = {.server = message->homes[i]->server,
						 .life = message->homes[i]->life,
						 .is_store = message->homes[i]->is_store};

		if (home.is_store && (home.server != 0 || home.life == 0))
			ret = refuse(why, "a store has no number, or one of a server");
		else if (find_home(layout, &home, &index))
			ret = refuse(why, "a home is listed twice");
		else
			ret = add_home(layout, &home);
	}
	return ret;
}

static int unpack_chunk(struct layout *layout, const Layout__Group *group,
			const Layout__Chunk *chunk, const char **why)
{
	const Layout__Copy *copy;
	uint64_t end;

	if (chunk->n_copies > 1)
		return refuse(why, "a chunk has more than one copy");
	if (chunk->n_copies == 0)
		return layout->is_sealed ? refuse(why, "a chunk of what is sealed has no copy")
					 : add_lost(layout, chunk->lost_server, chunk->lost_store);
	copy = chunk->copies[0];
	if (copy->home >= layout->nr_homes)
		return refuse(why, "a chunk names a server that is not listed");
	if (__builtin_add_overflow(copy->offset, group->chunk_bytes, &end))
		return refuse(why, "a chunk wraps around");
	return add_copy(layout, copy->home, copy->extent, copy->offset);
}

static int check_group(const Layout__Group *message, const char **why)
{
	const uint64_t unit_bytes = message->stripe_bytes;
	uint64_t capacity;

	if (message->length == 0 || message->n_chunks > LAYOUT_WIDTH_MAX)
		return refuse(why, "a group is empty or too wide");
	if (message->n_chunks == 0)
		return 0;
	if (unit_bytes < LAYOUT_UNIT_MIN || (unit_bytes & (unit_bytes - 1)) != 0)
		return refuse(why, "a stripe unit is not a power of two from 4 KiB");
	if (message->chunk_bytes == 0)
		return refuse(why, "a chunk is empty");
	if (message->n_chunks > 1 && message->chunk_bytes % unit_bytes != 0)
		return refuse(why, "a chunk is not a whole number of stripe units");
	if (__builtin_mul_overflow(message->chunk_bytes, (uint64_t)message->n_chunks, &capacity) ||
	    capacity < message->length)
		return refuse(why, "a group is longer than its chunks");
	return 0;
}

static int unpack_group(struct layout *layout, const Layout__Group *message, const char **why)
{
	uint64_t end;
	int ret = check_group(message, why);

	if (ret == 0 && __builtin_add_overflow(layout->length, message->length, &end))
		ret = refuse(why, "its groups wrap around");
	if (ret == 0)
		ret = layout_add_group(layout, message->n_chunks != 0 ? message->chunk_bytes : 0,
				       message->n_chunks != 0 ? message->stripe_bytes : 1);
	if (ret == 0)
		layout->groups[layout->nr_groups - 1].is_frozen = message->is_frozen;
	for (size_t i = 0; i < message->n_chunks && ret == 0; i++)
		ret = unpack_chunk(layout, message, message->chunks[i], why);
	if (ret == 0)
		layout_set_last(layout, message->length);
	return ret;
}

int layout_unpack(const Layout__Layout *message, struct layout **out, const char **why)
{
	struct layout *layout;
	int ret;

	if (!message || message->n_groups == 0 || message->n_groups > LAYOUT_GROUPS_MAX)
		return refuse(why, "it has no groups, or too many");
	layout = layout_new();
	if (!layout)
		return error_code(-ENOMEM);
	layout->is_sealed = message->is_sealed;
	ret = unpack_homes(layout, message, why);
	for (size_t i = 0; i < message->n_groups && ret == 0; i++)
		ret = unpack_group(layout, message->groups[i], why);
	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	*out = layout;
	return 0;
}
