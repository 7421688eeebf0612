/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes that grow and shrink, as the manager has them do that; and what they lie on. */
#include "lib/manager/manager_volumes.h"
#include "manager/regions/namespaces.h"
#include "manager/regions/regions.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include <afar/afar.h>

#include "manager/regions/volumes.h"
#include "manager/tables/placement.h"
#include "rpc/capability.h"
#include "unit/group.h"

/* ---- Sizes */

static void expect_size(uint64_t bytes)
{
	const struct region *region = region_of(vol);
	Afar__Reply *reply;

	assert_int_equal(region->length, bytes);
	assert_int_equal(region->layout->length, bytes);
	assert_int_equal(look(&client, "v", &reply)->bytes, bytes);
	drop(reply);
	check_all(&fixture);
}

/* The layout that it has now begins with what `before` covers, at the same places. */
static void expect_begins(const struct layout *before)
{
	const struct layout *now = region_of(vol)->layout;
	uint64_t end = before->length < now->length ? before->length : now->length;

	for (uint64_t at = 0; at < end; at += BLOCK) {
		struct layout_piece was = layout_piece_at(before, at, BLOCK);
		struct layout_piece is = layout_piece_at(now, at, BLOCK);

		assert_int_equal(was.offset, is.offset);
		assert_int_equal(was.copy->extent, is.copy->extent);
		assert_int_equal(was.copy->offset, is.copy->offset);
		assert_true(layout_home_is(layout_home_of(before, was.copy),
					   layout_home_of(now, is.copy)));
	}
}

static void test_grows(void **state)
{
	struct layout *before = layout_duplicate(region_of(vol)->layout);
	uint64_t allocated = ns_of(vol)->allocated_bytes;
	uint64_t number = region_of(vol)->layout_number, bytes;

	(void)state;
	/* By a block each time: the same places as long as there are, then new ones. */
	for (bytes = VOLUME_BYTES + BLOCK; bytes <= VOLUME_BYTES + 40 * BLOCK; bytes += BLOCK) {
		uint64_t spare = layout_spare(region_of(vol)->layout);

		allocated = ns_of(vol)->allocated_bytes;
		EXPECT(&client, ask_resize(vol, bytes), 0);
		assert_int_equal(ns_of(vol)->allocated_bytes,
				 allocated + (spare >= BLOCK ? 0 : BLOCK - spare));
		expect_size(bytes);
		expect_begins(before);
		assert_int_equal(region_of(vol)->layout_number, ++number);
	}
	/* By a lot, over both servers; nothing moves. */
	EXPECT(&client, ask_resize(vol, 12 * MIB), 0);
	expect_size(12 * MIB);
	expect_begins(before);
	assert_int_equal(layout_width(region_of(vol)->layout), 2);
	/* To what it is: nothing. */
	number = region_of(vol)->layout_number;
	EXPECT(&client, ask_resize(vol, 12 * MIB), 0);
	assert_int_equal(region_of(vol)->layout_number, number);
	layout_free(before);
}

/* A layout that covers less than its last group's chunks hold covers more of them. */
static void test_grows_into_what_is_spare(void **state)
{
	struct layout *before;
	uint64_t allocated, bytes;

	(void)state;
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&client, ask_resize(vol, MIB), 0);
	expect_size(MIB);
	before = layout_duplicate(region_of(vol)->layout);
	allocated = ns_of(vol)->allocated_bytes;
	bytes = MIB + layout_spare(before);
	assert_true(bytes > MIB + BLOCK);
	EXPECT(&client, ask_resize(vol, bytes - BLOCK), 0);
	expect_size(bytes - BLOCK);
	EXPECT(&client, ask_resize(vol, bytes), 0);
	expect_size(bytes);
	assert_int_equal(ns_of(vol)->allocated_bytes, allocated);
	assert_int_equal(region_of(vol)->layout->nr_groups, before->nr_groups);
	expect_begins(before);
	EXPECT(&client, ask_resize(vol, bytes + BLOCK), 0);
	expect_size(bytes + BLOCK);
	assert_int_equal(ns_of(vol)->allocated_bytes, allocated + BLOCK);
	layout_free(before);
}

/* Growing goes on for whoever has it open, and for the tables of a manager that restarts. */
static void test_grows_while_it_is_open(void **state)
{
	const Afar__RegionInfo info = name_of(vol);
	Afar__Reply *reply;

	(void)state;
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&reader, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	EXPECT(&client, ask_resize(vol, 8 * MIB), 0);
	reply = must(&other, ask_look(&info));
	assert_int_equal(reply->region_info->length, 8 * MIB);
	assert_int_equal(reply->region_info->layout_number, 1);
	assert_non_null(reply->region_info->layout);
	drop(reply);
	expect_rights_again(&reader, RIGHT_READ);
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &client), 0);
	expect_size(8 * MIB);
}

static void test_shrinks(void **state)
{
	const uint64_t allocated = ns_of(vol)->allocated_bytes;
	struct layout *before;

	(void)state;
	for (int round = 0; round < 3; round++) {
		EXPECT(&client, ask_resize(vol, 9 * MIB), 0);
		EXPECT(&client, ask_resize(vol, 14 * MIB), 0);
		before = layout_duplicate(region_of(vol)->layout);
		EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
		EXPECT(&client, ask_resize(vol, VOLUME_BYTES), 0);
		expect_size(VOLUME_BYTES);
		expect_begins(before);
		/* All that it had got since is there for others. */
		assert_int_equal(ns_of(vol)->allocated_bytes, allocated);
		layout_free(before);
		close_volume(&client);
	}
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&client, ask_resize(vol, BLOCK), 0);
	expect_size(BLOCK);
	assert_int_equal(region_of(vol)->layout->nr_groups, 1);
	EXPECT(&client, ask_resize(vol, 16 * MIB - BLOCK), 0);
	expect_size(16 * MIB - BLOCK);
}

static void test_who_may_shrink(void **state)
{
	(void)state;
	expect_said(&client, ask_resize(vol, MIB), -EINVAL, "open it exclusively first");
	EXPECT(&client, ask_volume_open(vol, VOLUME_SHARED), 0);
	expect_said(&client, ask_resize(vol, MIB), -EBUSY, "to write");
	close_volume(&client);
	EXPECT(&client, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	expect_said(&client, ask_resize(vol, MIB), -EBUSY, "to read");
	close_volume(&client);
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	expect_said(&client, ask_resize(vol, MIB), -EBUSY, "exclusively");
	close_volume(&other);
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&reader, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	expect_said(&client, ask_resize(vol, MIB), -EBUSY, "'reader'");
	/* One that has ended, but may still write, is in the way, too. */
	fixture.servers[0].is_silent = true;
	EXPECT(&client, ask_key_revoke("reader"), 0);
	expect_said(&client, ask_resize(vol, MIB), -EBUSY, "it has ended");
	expect_size(VOLUME_BYTES);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	EXPECT(&client, ask_resize(vol, MIB), 0);
	expect_size(MIB);
}

static void test_sizes_that_are_refused(void **state)
{
	static const uint64_t huge[] = {
		16 * MIB + BLOCK,     UINT64_C(1) << 62,	  UINT64_C(1) << 63,
		-(UINT64_C(1) << 62), UINT64_MAX - 16 * MIB + 1,  UINT64_MAX - VOLUME_BYTES + 1,
		UINT64_MAX - MIB + 1, UINT64_MAX - 2 * BLOCK + 1, UINT64_MAX - BLOCK + 1,
	};
	static const uint64_t odd[] = {0, 1, BLOCK - 1, MIB + 1, VOLUME_BYTES + 512, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		expect_said(&client, ask_resize(vol, odd[i]), -EINVAL, "a multiple of 4096");
	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		expect_said(&client, ask_resize(vol, huge[i]), -AFAR_ERESERVE, "reserve");
		expect_size(VOLUME_BYTES);
	}
	/* All that there is, and not a block more. */
	EXPECT(&client, ask_resize(vol, 16 * MIB), 0);
	expect_size(16 * MIB);
	expect_said(&client, ask_resize(vol, 16 * MIB + BLOCK), -AFAR_ERESERVE, "reserve 4096");
	/* A server that cannot be reached does not help. */
	EXPECT(&client, ask_reserve(vol, 8 * MIB), 0);
	fixture_disconnect(&fixture, 0);
	fixture_disconnect(&fixture, 1);
	expect_said(&client, ask_resize(vol, 17 * MIB), -AFAR_ERESERVE, "cannot be reached");
	expect_size(16 * MIB);
}

/* Replaces a layout by one that covers the same chunks in pieces of a block. */
static void cut_up(struct region *region)
{
	struct layout *whole = region->layout, *pieces = layout_new();

	for (uint32_t i = 0; i < whole->nr_copies; i++) {
		const struct layout_copy *copy = &whole->copies[i];

		for (uint64_t at = 0; at < layout_copy_span(whole, copy); at += BLOCK) {
			assert_int_equal(layout_add_group(pieces, BLOCK, BLOCK), 0);
			assert_int_equal(layout_add_chunk(pieces, layout_home_of(whole, copy),
							  copy->extent, copy->offset + at),
					 0);
		}
	}
	assert_int_equal(pieces->length, whole->length);
	region->layout = pieces;
	layout_free(whole);
}

/* A layout of more pieces than a message holds could not be told to anybody. */
static void test_too_many_pieces(void **state)
{
	const uint64_t bytes = (uint64_t)(PLACEMENT_CHUNKS_MAX - 1) * BLOCK;

	(void)state;
	assert_int_equal(fixture_join(&fixture, 2, 512 * MIB), 0);
	EXPECT(&client, ask_reserve(vol, 300 * MIB), 0);
	EXPECT(&client, ask_resize(vol, bytes), 0);
	cut_up(region_of(vol));
	EXPECT(&client, ask_resize(vol, bytes + BLOCK), 0);
	expect_size(bytes + BLOCK);
	assert_int_equal(region_of(vol)->layout->nr_copies, PLACEMENT_CHUNKS_MAX);
	expect_said(&client, ask_resize(vol, bytes + 2 * BLOCK), -AFAR_ERESERVE, "65536 pieces");
	expect_size(bytes + BLOCK);
}

/* One part of it is lost: it is good for nothing but deletion. */
static void test_lost(void **state)
{
	Afar__Reply *reply;

	(void)state;
	fixture_kill(&fixture, 0);
	assert_int_equal(fixture_join(&fixture, 0, 64 * MIB), 0);
	assert_true(look(&client, "v", &reply)->is_lost);
	drop(reply);
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), -AFAR_ELOST);
	EXPECT(&client, ask_resize(vol, 4 * MIB), -AFAR_ELOST);
	EXPECT(&client, ask_resize(vol, BLOCK), -AFAR_ELOST);
	EXPECT(&client, ask_volume_delete("v"), 0);
	check_all(&fixture);
}

/* In stores of flash, of which one moves to the other server. */
static void test_on_flash(void **state)
{
	Afar__Request *request = ask_volume("f");
	Afar__Reply *reply;
	uint64_t number, allocated;
	const struct region *region;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		fixture_disconnect(&fixture, i);
		fixture_plug(&fixture, i, i, 64 * MIB);
		assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
	}
	request->namespace_create->policy->tier = AFAR_TIER_FLASH;
	number = create_namespace(&fixture, &client, request);
	EXPECT(&client, ask_reserve(number, 16 * MIB), 0);
	EXPECT(&client, ask_volume_alloc(number, 3 * MIB), 0);
	region = region_of(number);
	EXPECT(&client,
	       ask_finish(&(Afar__RegionInfo){.namespace_ = number,
					      .address = region->address,
					      .generation = region->generation}),
	       0);
	allocated = ns_of(number)->allocated_bytes;
	EXPECT(&client, ask_resize(number, 12 * MIB), 0);
	assert_int_equal(region->length, 12 * MIB);
	assert_int_equal(region->layout->nr_homes, 2);
	EXPECT(&client, ask_resize(number, 3 * MIB), 0);
	assert_int_equal(ns_of(number)->allocated_bytes, allocated);
	check_all(&fixture);
	/* Its holder is ended, and a server does not answer: the store waits for that server alone. */
	fixture.servers[0].is_silent = true;
	EXPECT(&other, ask_take_over(number, VOLUME_SHARED), 0);
	fixture_send(&fixture, &other, ++other.next_id, ask_volume_open(number, VOLUME_SHARED),
		     &reply);
	fixture_pump(&fixture);
	assert_null(reply);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	check_all(&fixture);
	assert_int_equal(client_open(&fixture, &client), 0);
}

TEST_GROUP(manager_volume_sizes)
{
	const struct CMUnitTest tests[] = {
		VOLUME_TEST(test_grows),
		VOLUME_TEST(test_grows_into_what_is_spare),
		VOLUME_TEST(test_grows_while_it_is_open),
		VOLUME_TEST(test_shrinks),
		VOLUME_TEST(test_who_may_shrink),
		VOLUME_TEST(test_sizes_that_are_refused),
		VOLUME_TEST(test_too_many_pieces),
		VOLUME_TEST(test_lost),
		VOLUME_TEST(test_on_flash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
