/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: every byte of a region has exactly one place, and a message that lies is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "rpc/layout.h"
#include "unit/group.h"

#define MAX_CHUNKS 8
#define MAX_GROUPS 4

/* A layout message in fixed room, so that a test can bend any field of a sound one. */
struct message {
	Layout__Layout layout;
	Layout__Group groups[MAX_GROUPS];
	Layout__Chunk chunks[MAX_GROUPS][MAX_CHUNKS];
	Layout__Copy copies[MAX_GROUPS][MAX_CHUNKS];
	Layout__Home homes[MAX_CHUNKS];
	Layout__Group *group_list[MAX_GROUPS];
	Layout__Chunk *chunk_lists[MAX_GROUPS][MAX_CHUNKS];
	Layout__Copy *copy_lists[MAX_GROUPS][MAX_CHUNKS][1];
	Layout__Home *home_list[MAX_CHUNKS];
};

static void message_init(struct message *message, unsigned nr_homes)
{
	layout__layout__init(&message->layout);
	message->layout.groups = message->group_list;
	message->layout.homes = message->home_list;
	message->layout.n_homes = nr_homes;
	for (unsigned i = 0; i < nr_homes; i++) {
		layout__home__init(&message->homes[i]);
		message->homes[i].server = 100 + i;
		message->homes[i].life = 1000 + i;
		message->home_list[i] = &message->homes[i];
	}
}

static void message_add_group(struct message *message, uint64_t length, uint64_t stripe_bytes,
			      unsigned nr_chunks, uint64_t chunk_bytes)
{
	size_t g = message->layout.n_groups++;
	Layout__Group *group = &message->groups[g];

	layout__group__init(group);
	group->length = length;
	group->stripe_bytes = stripe_bytes;
	group->chunk_bytes = chunk_bytes;
	group->n_chunks = nr_chunks;
	group->chunks = message->chunk_lists[g];
	message->group_list[g] = group;
	for (unsigned i = 0; i < nr_chunks; i++) {
		Layout__Chunk *chunk = &message->chunks[g][i];
		Layout__Copy *copy = &message->copies[g][i];

		layout__copy__init(copy);
		copy->home = (uint32_t)((g + i) % message->layout.n_homes);
		copy->extent = 10 * g + i;
		copy->offset = 4096 * i;
		message->copy_lists[g][i][0] = copy;
		layout__chunk__init(chunk);
		chunk->n_copies = 1;
		chunk->copies = message->copy_lists[g][i];
		message->chunk_lists[g][i] = chunk;
	}
}

static struct layout *must_unpack(const struct message *message)
{
	struct layout *layout;
	const char *why;

	assert_int_equal(layout_unpack(&message->layout, &layout, &why), 0);
	return layout;
}

/* Two groups: three chunks of four 4 KiB units, the last not full, then a plain chunk. */
static void sound_message(struct message *message)
{
	message_init(message, 3);
	message_add_group(message, 45056 + 100, 4096, 3, 16384);
	message_add_group(message, 5000, 4096, 1, 8192);
}

#define SOUND_LENGTH (45056 + 100 + 5000)

static void test_every_byte_has_one_place(void **state)
{
	static uint8_t is_taken[2][3][16384];
	struct message message = {0};
	struct layout *layout;

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	for (uint64_t offset = 0; offset < SOUND_LENGTH; offset++) {
		struct layout_piece piece = layout_piece_at(layout, offset, UINT64_MAX);
		size_t index = (size_t)(piece.copy - layout->copies);
		size_t group = index / 3;

		assert_true(piece.length > 0);
		assert_true(piece.offset + piece.length <=
			    layout->groups[piece.copy->group].chunk_bytes);
		assert_int_equal(is_taken[group][index % 3][piece.offset], 0);
		is_taken[group][index % 3][piece.offset] = 1;
	}
	layout_free(layout);
}

static void test_pieces_join_up(void **state)
{
	struct message message = {0};
	struct layout *layout;

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	for (uint64_t limit = 1; limit < 9000; limit += 977) {
		uint64_t offset = 0;

		while (offset < SOUND_LENGTH) {
			struct layout_piece piece = layout_piece_at(layout, offset, limit);

			assert_true(piece.length > 0 && piece.length <= limit);
			offset += piece.length;
			assert_true(offset <= SOUND_LENGTH);
		}
	}
	layout_free(layout);
}

static void test_units_go_round(void **state)
{
	struct message message = {0};
	struct layout *layout;
	struct layout_piece piece;

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	piece = layout_piece_at(layout, 4096 * 4 + 10,
				UINT64_MAX); /* unit 4: chunk 1, its unit 1 */
	assert_ptr_equal(piece.copy, &layout->copies[1]);
	assert_int_equal(piece.offset, 4096 + 10);
	assert_int_equal(piece.length, 4096 - 10);
	piece = layout_piece_at(layout, 45056 + 100, UINT64_MAX); /* the second group, unstriped */
	assert_ptr_equal(piece.copy, &layout->copies[3]);
	assert_int_equal(piece.length, 5000);
	layout_free(layout);
}

static void expect_refused(const Layout__Layout *message)
{
	struct layout *layout;
	const char *why = NULL;

	assert_int_equal(layout_unpack(message, &layout, &why), -EINVAL);
	assert_non_null(why);
}

static void test_extents_of_a_server(void **state)
{
	static const uint64_t mixed[] = {7, 3, 9, 3};
	struct message message = {0};
	struct layout *layout;
	uint64_t *extents;
	size_t count;

	(void)state;
	message_init(&message, 3);
	for (unsigned g = 0; g < 4; g++)
		message_add_group(&message, 8192, 4096, 2, 4096);
	for (unsigned g = 0; g < 4; g++) {
		message.copies[g][0].home = 0;
		message.copies[g][0].extent = mixed[g];
		message.copies[g][1].home = 2;
	}
	layout = must_unpack(&message);
	assert_int_equal(layout_extents(layout, 0, &extents, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(extents[0], 3);
	assert_int_equal(extents[1], 7);
	assert_int_equal(extents[2], 9);
	free(extents);
	assert_int_equal(layout_extents(layout, 1, &extents, &count), 0);
	assert_int_equal(count, 0);
	free(extents);
	layout_free(layout);
}

/* A group without chunks is a hole. */
static void test_holes(void **state)
{
	struct message message = {0};
	struct layout *layout;
	struct layout_piece piece;
	uint64_t end;

	(void)state;
	sound_message(&message);
	message.groups[0].n_chunks = 0;
	message.groups[0].stripe_bytes = 0;
	layout = must_unpack(&message);
	end = message.groups[0].length;
	piece = layout_piece_at(layout, 1, UINT64_MAX);
	assert_null(piece.copy);
	assert_int_equal(piece.length, end - 1);
	piece = layout_piece_at(layout, end, UINT64_MAX);
	assert_non_null(piece.copy);
	assert_int_equal(piece.offset, 0);
	layout_free(layout);
}

static void test_lies_are_refused(void **state)
{
	struct message message;

	(void)state;
#define LIE(statement)                           \
	do {                                     \
		message = (struct message){0};   \
		sound_message(&message);         \
		statement;                       \
		expect_refused(&message.layout); \
	} while (0)
	LIE(message.layout.n_groups = 0);
	LIE(message.groups[0].length = 0);
	LIE(message.groups[0].length = 3 * 16384 + 1);
	LIE(message.groups[0].length = UINT64_MAX);
	LIE(message.groups[0].n_chunks = 0; message.groups[0].length = UINT64_MAX);
	LIE(message.groups[0].stripe_bytes = 4097);
	LIE(message.groups[0].stripe_bytes = 2048);
	LIE(message.groups[0].stripe_bytes = 0);
	LIE(message.groups[0].stripe_bytes = 1U << 31);
	LIE(message.groups[0].chunk_bytes = 8192);
	LIE(message.groups[0].chunk_bytes = 16384 + 512);
	LIE(message.groups[0].chunk_bytes = UINT64_MAX / 2);
	LIE(message.groups[1].chunk_bytes = 0);
	LIE(message.chunks[0][1].n_copies = 2);
	LIE(message.chunks[0][1].n_copies = 0; message.layout.is_sealed = true);
	LIE(message.copies[0][1].home = 3);
	LIE(message.copies[0][1].home = UINT32_MAX);
	LIE(message.copies[1][0].offset = UINT64_MAX - 10);
	LIE(message.homes[2] = message.homes[1]);
	LIE(message.layout.n_homes = LAYOUT_HOMES_MAX + 1);
#undef LIE
	expect_refused(NULL);
}

static void expect_same(const struct layout *a, const struct layout *b)
{
	assert_int_equal(a->length, b->length);
	assert_int_equal(a->is_sealed, b->is_sealed);
	assert_int_equal(a->nr_groups, b->nr_groups);
	assert_int_equal(a->nr_chunks, b->nr_chunks);
	assert_int_equal(a->nr_copies, b->nr_copies);
	assert_int_equal(a->nr_homes, b->nr_homes);
	assert_memory_equal(a->groups, b->groups, a->nr_groups * sizeof(*a->groups));
	assert_memory_equal(a->chunks, b->chunks, a->nr_chunks * sizeof(*a->chunks));
	assert_memory_equal(a->copies, b->copies, a->nr_copies * sizeof(*a->copies));
	for (uint32_t i = 0; i < a->nr_homes; i++)
		assert_true(layout_home_is(&a->homes[i], &b->homes[i]));
}

/* Packing and unpacking a layout makes the same one, and so does duplicating it. */
static void test_packing(void **state)
{
	struct message message = {0};
	struct layout *layout, *again, *copy;
	Layout__Layout *packed;
	const char *why;

	(void)state;
	sound_message(&message);
	message.layout.is_sealed = true;
	layout = must_unpack(&message);
	assert_int_equal(layout->length, SOUND_LENGTH);
	packed = layout_pack(layout);
	assert_non_null(packed);
	assert_int_equal(layout_unpack(packed, &again, &why), 0);
	expect_same(again, layout);
	copy = layout_duplicate(layout);
	assert_non_null(copy);
	expect_same(copy, layout);
	layout__layout__free_unpacked(packed, NULL);
	layout_free(copy);
	layout_free(again);
	layout_free(layout);
}

/* The bytes of `layout` from `start` on lie where those of `from` do from its beginning on. */
static void expect_at(const struct layout *layout, uint64_t start, const struct layout *from,
		      uint64_t length)
{
	for (uint64_t at = 0; at < length; at += 50) {
		struct layout_piece is = layout_piece_at(layout, start + at, 1);
		struct layout_piece was = layout_piece_at(from, at, 1);

		assert_int_equal(is.offset, was.offset);
		assert_int_equal(is.copy != NULL, was.copy != NULL);
		if (!is.copy)
			continue;
		assert_int_equal(is.copy->extent, was.copy->extent);
		assert_int_equal(is.copy->offset, was.copy->offset);
		assert_true(layout_home_is(layout_home_of(layout, is.copy),
					   layout_home_of(from, was.copy)));
		assert_int_equal(layout_copy_span(layout, is.copy),
				 layout_copy_span(from, was.copy));
	}
}

/* It is one that a peer takes, too. */
static void expect_sound(const struct layout *layout)
{
	Layout__Layout *packed = layout_pack(layout);
	struct layout *again;
	const char *why;

	assert_non_null(packed);
	assert_int_equal(layout_unpack(packed, &again, &why), 0);
	expect_same(again, layout);
	layout_free(again);
	layout__layout__free_unpacked(packed, NULL);
}

/* A layout, or nothing, and behind it every part of another that has homes of its own and homes that
 * both have. */
static void test_appending(void **state)
{
	static const uint64_t lengths[] = {
		1, 4096, 4097, 45056, 45155, 45156, 45156 + 1, SOUND_LENGTH - 1, SOUND_LENGTH};
	struct message message = {0}, other = {0};
	struct layout *first, *from;

	(void)state;
	sound_message(&message);
	first = must_unpack(&message);
	message_init(&other, 3);
	other.homes[1].server = 500;
	message_add_group(&other, 45056 + 100, 4096, 3, 16384);
	message_add_group(&other, 5000, 4096, 1, 8192);
	for (unsigned i = 0; i < 3; i++)
		other.copies[0][i].extent = 90 + i;
	from = must_unpack(&other);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct layout *none = layout_new(), *both = layout_duplicate(first);

		assert_int_equal(layout_append(none, from, lengths[i]), 0);
		assert_int_equal(none->length, lengths[i]);
		expect_at(none, 0, from, lengths[i]);
		assert_int_equal(none->nr_groups, lengths[i] > 45156 ? 2 : 1);
		expect_sound(none);
		assert_int_equal(layout_append(both, from, lengths[i]), 0);
		assert_int_equal(both->length, SOUND_LENGTH + lengths[i]);
		assert_int_equal(both->nr_homes, 4);
		expect_at(both, 0, first, SOUND_LENGTH);
		expect_at(both, SOUND_LENGTH, from, lengths[i]);
		expect_sound(both);
		layout_free(none);
		layout_free(both);
	}
	layout_free(first);
	layout_free(from);
}

static void test_appending_holes(void **state)
{
	struct message message = {0};
	struct layout *layout, *from;

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	message.groups[0].n_chunks = 0;
	from = must_unpack(&message);
	assert_int_equal(layout_append(layout, from, SOUND_LENGTH - 7), 0);
	assert_int_equal(layout->length, 2 * SOUND_LENGTH - 7);
	expect_at(layout, SOUND_LENGTH, from, SOUND_LENGTH - 7);
	layout_free(layout);
	layout_free(from);
}

/* Homes are counted once each, and no layout has more than a message may name. */
static void test_appending_too_many_homes(void **state)
{
	struct layout *many = layout_new(), *one = layout_new();
	struct layout_home home = {.life = 1};

	(void)state;
	for (uint64_t i = 0; i < LAYOUT_HOMES_MAX; i++) {
		home.server = i + 1;
		assert_int_equal(layout_add_group(many, 4096, 4096), 0);
		assert_int_equal(layout_add_chunk(many, &home, i, 0), 0);
	}
	assert_int_equal(layout_add_group(one, 4096, 4096), 0);
	assert_int_equal(layout_add_chunk(one, &home, 7, 4096), 0);
	assert_int_equal(layout_append(many, one, 4096), 0);
	home.server++;
	assert_int_equal(layout_add_group(one, 4096, 4096), 0);
	assert_int_equal(layout_add_chunk(one, &home, 7, 8192), 0);
	assert_int_equal(layout_append(many, one, 4096), 0); /* the first group alone */
	assert_int_equal(layout_append(many, one, 4097), -E2BIG);
	layout_free(many);
	layout_free(one);
}

/* Spare is how much more the last group can cover in chunks that it has. */
static void test_spare(void **state)
{
	struct message message = {0};
	struct layout *layout;

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	assert_int_equal(layout_spare(layout), 8192 - 5000);
	layout_set_last(layout, 5000 + layout_spare(layout));
	assert_int_equal(layout_spare(layout), 0);
	assert_int_equal(layout->length, 45056 + 100 + 8192);
	expect_sound(layout);
	layout_free(layout);

	message = (struct message){0};
	message_init(&message, 3);
	message_add_group(&message, 100, 4096, 3, 16384);
	layout = must_unpack(&message);
	assert_int_equal(layout_spare(layout), 3 * 16384 - 100);
	layout_set_last(layout, 100 + layout_spare(layout));
	for (uint64_t at = 0; at < layout->length; at += 4096) {
		struct layout_piece piece = layout_piece_at(layout, at, 4096);

		assert_int_equal(piece.copy - layout->copies, at / 4096 % 3);
		assert_true(piece.offset + piece.length <= 16384);
	}
	layout_free(layout);
}

/* Without an extent its chunks are lost: every other byte is where it was, and what is lost is counted as it
 * is found. Homes that nothing is left of go. */
static void test_losing_an_extent(void **state)
{
	const struct layout_home home = {.server = 101, .life = 1001};
	struct message message = {0};
	struct layout *layout, *left, *more;
	uint64_t nr_lost = 0, next;

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	assert_int_equal(layout_without(layout, &home, 1, &left), 0);
	assert_int_equal(left->length, SOUND_LENGTH);
	assert_int_equal(left->nr_copies, 3);
	assert_int_equal(left->nr_homes, 3); /* the second group is there, too */
	for (uint64_t at = 0; at < SOUND_LENGTH; at = next) {
		struct layout_piece is = layout_piece_at(left, at, UINT64_MAX);
		struct layout_piece was = layout_piece_at(layout, at, UINT64_MAX);

		assert_int_equal(is.offset, was.offset);
		assert_int_equal(is.length, was.length);
		assert_true(is.copy == NULL || is.lost == NULL);
		assert_int_equal(is.lost != NULL, was.copy->extent == 1);
		if (is.lost) {
			assert_int_equal(is.lost->lost_server, 101);
			nr_lost += is.length;
		} else {
			assert_int_equal(is.copy->extent, was.copy->extent);
			assert_int_equal(is.copy->offset, was.copy->offset);
		}
		next = at + is.length;
	}
	assert_int_equal(layout_lost_bytes(layout), 0);
	assert_int_equal(layout_lost_bytes(left), nr_lost);
	assert_int_equal(layout_spare(left), layout_spare(layout));
	expect_sound(left);
	/* The rest of the home goes, and what was lost before stays. */
	assert_int_equal(layout_without(left, &home, 10, &more), 0);
	assert_int_equal(more->nr_homes, 2);
	assert_int_equal(layout_lost_bytes(more), nr_lost + 5000);
	expect_sound(more);
	layout_free(more);
	/* Nothing is lost with a home of another life. */
	assert_int_equal(
		layout_without(layout, &(struct layout_home){.server = 101, .life = 7}, 1, &more),
		0);
	assert_int_equal(layout_lost_bytes(more), 0);
	expect_same(more, layout);
	layout_free(more);
	layout_free(left);
	layout_free(layout);
}

/* A piece that is given up keeps its place, and was no server's. It is one with a given up piece beside it, and not with one
 * that a server has lost. */
static void test_giving_up(void **state)
{
	const struct layout_home home = {.server = 101, .life = 1001};
	const bool all[4] = {true, true, true, true};
	bool one[4] = {false};
	struct layout *layout, *left, *lost, *none;
	struct message message = {0};

	(void)state;
	sound_message(&message);
	layout = must_unpack(&message);
	assert_int_equal(layout_without(layout, &home, 1, &lost), 0);
	for (uint32_t i = 0; i < layout->nr_copies; i++)
		one[i] = layout->copies[i].extent == 1;
	assert_int_equal(layout_give_up(layout, one, &left), 0);
	expect_sound(left);
	assert_int_equal(left->nr_copies, 3);
	assert_int_equal(layout_lost_bytes(left), layout_lost_bytes(lost));
	for (uint64_t at = 0, next; at < SOUND_LENGTH; at = next) {
		struct layout_piece is = layout_piece_at(left, at, UINT64_MAX);
		struct layout_piece was = layout_piece_at(lost, at, UINT64_MAX);

		assert_int_equal(is.length, was.length);
		assert_int_equal(is.lost != NULL, was.lost != NULL);
		if (is.lost)
			assert_true(is.lost->lost_server == 0 && is.lost->lost_store == 0);
		next = at + is.length;
	}
	assert_int_equal(layout_give_up(left, all, &none), 0);
	expect_sound(none);
	assert_int_equal(none->nr_groups, 1);
	assert_int_equal(none->nr_homes, 0);
	assert_int_equal(none->length, SOUND_LENGTH);
	assert_int_equal(layout_lost_bytes(none), SOUND_LENGTH);
	assert_int_equal(layout_spare(none), 0);
	layout_free(none);
	assert_int_equal(layout_give_up(lost, all, &none), 0);
	assert_int_equal(none->nr_groups, 2);
	assert_int_equal(layout_piece_at(none, 4096, 1).lost->lost_server, 101);
	layout_free(none);
	layout_free(left);
	layout_free(lost);
	layout_free(layout);
}

/* Returns how many bytes of their extents the copies of a layout take. */
static uint64_t spans(const struct layout *layout)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < layout->nr_copies; i++)
		bytes += layout_copy_span(layout, &layout->copies[i]);
	return bytes;
}

/* The head is in the same places as before. It has no more of the chunks than whole units need. The tail has all the rest. */
static void expect_cut(const struct layout *layout, uint64_t length)
{
	struct layout *head, *tail;
	uint64_t offset = 0;

	assert_int_equal(layout_cut(layout, length, &head, &tail), 0);
	assert_int_equal(head->length, length);
	assert_int_equal(spans(head) + spans(tail), spans(layout));
	while (offset < length) {
		const struct layout_piece was = layout_piece_at(layout, offset, length - offset);
		const struct layout_piece is = layout_piece_at(head, offset, length - offset);

		assert_int_equal(is.length, was.length);
		assert_int_equal(is.copy->extent, was.copy->extent);
		assert_int_equal(is.copy->offset + is.offset, was.copy->offset + was.offset);
		assert_true(layout_home_is(layout_home_of(head, is.copy),
					   layout_home_of(layout, was.copy)));
		offset += is.length;
	}
	assert_true(layout_piece_at(head, length, 5).is_past);
	assert_null(layout_piece_at(head, UINT64_MAX, 5).copy);
	for (uint32_t i = 0; i < tail->nr_copies; i++) {
		const struct layout_copy *copy = &tail->copies[i];

		for (uint32_t j = 0; j < head->nr_copies; j++) {
			const struct layout_copy *kept = &head->copies[j];

			assert_true(kept->extent != copy->extent ||
				    kept->offset + layout_copy_span(head, kept) <= copy->offset ||
				    copy->offset + layout_copy_span(tail, copy) <= kept->offset);
		}
	}
	layout_free(head);
	layout_free(tail);
}

/* Groups of one chunk and of three; the last does not cover all that its chunks hold. */
static void test_cutting(void **state)
{
	const struct layout_home homes[] = {{.server = 1, .life = 10}, {.server = 2, .life = 20}};
	struct layout *layout = layout_new();

	(void)state;
	assert_int_equal(layout_add_group(layout, 5 * 4096, 65536), 0);
	assert_int_equal(layout_add_chunk(layout, &homes[0], 1, 8192), 0);
	assert_int_equal(layout_add_group(layout, 4 * 8192, 8192), 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(layout_add_chunk(layout, &homes[i % 2], 2 + i, 4096 * i), 0);
	layout_set_last(layout, 11 * 8192 + 5);
	for (uint64_t length = 1; length < layout->length; length += 997)
		expect_cut(layout, length);
	for (uint64_t length = 4096; length < layout->length; length += 4096)
		expect_cut(layout, length);
	expect_cut(layout, layout->length - 1);
	layout_free(layout);
}

TEST_GROUP(layout)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte_has_one_place),
		cmocka_unit_test(test_pieces_join_up),
		cmocka_unit_test(test_units_go_round),
		cmocka_unit_test(test_extents_of_a_server),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_losing_an_extent),
		cmocka_unit_test(test_giving_up),
		cmocka_unit_test(test_lies_are_refused),
		cmocka_unit_test(test_packing),
		cmocka_unit_test(test_appending),
		cmocka_unit_test(test_appending_holes),
		cmocka_unit_test(test_appending_too_many_homes),
		cmocka_unit_test(test_spare),
		cmocka_unit_test(test_cutting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
