/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: every byte of a region has exactly one place, and a message that lies is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/layout.h"
#include "group.h"

#define MAX_CHUNKS 8
#define MAX_GROUPS 4

/* A layout message in fixed room, so that a test can bend any field of a sound one. */
struct message {
	Afar__Layout layout;
	Afar__Group groups[MAX_GROUPS];
	Afar__Chunk chunks[MAX_GROUPS][MAX_CHUNKS];
	Afar__Server servers[MAX_CHUNKS];
	Afar__Group *group_list[MAX_GROUPS];
	Afar__Chunk *chunk_lists[MAX_GROUPS][MAX_CHUNKS];
	Afar__Server *server_list[MAX_CHUNKS];
};

static void message_init(struct message *message, unsigned nr_servers)
{
	afar__layout__init(&message->layout);
	message->layout.groups = message->group_list;
	message->layout.servers = message->server_list;
	message->layout.n_servers = nr_servers;
	for (unsigned i = 0; i < nr_servers; i++) {
		afar__server__init(&message->servers[i]);
		message->servers[i].server = 100 + i;
		message->server_list[i] = &message->servers[i];
	}
}

static void message_add_group(struct message *message, uint64_t length, uint64_t stripe_bytes,
			      unsigned nr_chunks, uint64_t chunk_length)
{
	size_t g = message->layout.n_groups++;
	Afar__Group *group = &message->groups[g];

	afar__group__init(group);
	group->length = length;
	group->stripe_bytes = stripe_bytes;
	group->n_chunks = nr_chunks;
	group->chunks = message->chunk_lists[g];
	message->group_list[g] = group;
	for (unsigned i = 0; i < nr_chunks; i++) {
		Afar__Chunk *chunk = &message->chunks[g][i];

		afar__chunk__init(chunk);
		chunk->server = 100 + (g + i) % message->layout.n_servers;
		chunk->extent = 10 * g + i;
		chunk->offset = 4096 * i;
		chunk->length = chunk_length;
		message->chunk_lists[g][i] = chunk;
	}
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
	assert_int_equal(layout_decode(&message.layout, SOUND_LENGTH, &layout), 0);
	for (uint64_t offset = 0; offset < SOUND_LENGTH; offset++) {
		struct layout_piece piece = layout_piece_at(layout, offset, UINT64_MAX);
		size_t index = (size_t)(piece.chunk - layout->chunks);
		size_t group = index / 3;

		assert_true(piece.length > 0);
		assert_true(piece.offset + piece.length <= piece.chunk->length);
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
	assert_int_equal(layout_decode(&message.layout, SOUND_LENGTH, &layout), 0);
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
	assert_int_equal(layout_decode(&message.layout, SOUND_LENGTH, &layout), 0);
	piece = layout_piece_at(layout, 4096 * 4 + 10,
				UINT64_MAX); /* unit 4: chunk 1, its unit 1 */
	assert_ptr_equal(piece.chunk, &layout->chunks[1]);
	assert_int_equal(piece.offset, 4096 + 10);
	assert_int_equal(piece.length, 4096 - 10);
	piece = layout_piece_at(layout, 45056 + 100, UINT64_MAX); /* the second group, unstriped */
	assert_ptr_equal(piece.chunk, &layout->chunks[3]);
	assert_int_equal(piece.length, 5000);
	layout_free(layout);
}

static void expect_refused(struct message *message, uint64_t length)
{
	struct layout *layout;

	assert_int_equal(layout_decode(&message->layout, length, &layout), -AFAR_EMALFORMED);
	assert_true(error_last_line()[0] != '\0');
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
		message.chunks[g][0].server = 100;
		message.chunks[g][0].extent = mixed[g];
		message.chunks[g][1].server = 102;
	}
	assert_int_equal(layout_decode(&message.layout, (uint64_t)4 * 8192, &layout), 0);
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
	assert_int_equal(layout_decode(&message.layout, SOUND_LENGTH, &layout), 0);
	end = message.groups[0].length;
	piece = layout_piece_at(layout, 1, UINT64_MAX);
	assert_null(piece.chunk);
	assert_int_equal(piece.length, end - 1);
	piece = layout_piece_at(layout, end, UINT64_MAX);
	assert_non_null(piece.chunk);
	assert_int_equal(piece.offset, 0);
	layout_free(layout);
}

static void test_lies_are_refused(void **state)
{
	struct message message;

	(void)state;
#define LIE(statement, length)                    \
	do {                                      \
		message = (struct message){0};    \
		sound_message(&message);          \
		statement;                        \
		expect_refused(&message, length); \
	} while (0)
	LIE(, SOUND_LENGTH + 1);
	LIE(, SOUND_LENGTH - 1);
	LIE(message.layout.n_groups = 0, 0);
	LIE(message.groups[0].length = 0, 5000);
	LIE(message.groups[0].length = 3 * 16384 + 1, 3 * 16384 + 1 + 5000);
	LIE(message.groups[0].length = UINT64_MAX, 4999);
	LIE(message.groups[0].stripe_bytes = 4097, SOUND_LENGTH);
	LIE(message.groups[0].stripe_bytes = 2048, SOUND_LENGTH);
	LIE(message.groups[0].stripe_bytes = 0, SOUND_LENGTH);
	LIE(message.groups[0].stripe_bytes = 1U << 31, SOUND_LENGTH);
	LIE(message.chunks[0][1].length = 8192, SOUND_LENGTH);
	LIE(message.chunks[0][1].server = 7, SOUND_LENGTH);
	LIE(message.chunks[1][0].length = 0, SOUND_LENGTH);
	LIE(message.chunks[1][0].offset = UINT64_MAX - 10, SOUND_LENGTH);
#undef LIE
	assert_int_equal(layout_decode(NULL, 1, &(struct layout *){NULL}), -AFAR_EMALFORMED);
}

TEST_GROUP(layout)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte_has_one_place),
		cmocka_unit_test(test_pieces_join_up),
		cmocka_unit_test(test_units_go_round),
		cmocka_unit_test(test_extents_of_a_server),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_lies_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
