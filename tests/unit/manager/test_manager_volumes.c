/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes as the manager keeps them: who may open one beside whom, taking over, and sizes. And what
 * nobody may do with the region of a volume. */
#include "lib/manager/manager_test.h"
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

#define BLOCK	     4096U
#define VOLUME_BYTES (3 * MIB + 5 * BLOCK)

/* Each test begins with two servers, three sessions of the owner's, one of a reader's, and volume
 * "v", which nobody has open. */
static struct fake_client client, other, third, reader;
static uint64_t vol;

static void make_volume(const char *name, uint64_t reserved, uint64_t bytes, uint64_t *number)
{
	Afar__Reply *reply;
	Afar__RegionInfo *info;

	*number = create_namespace(&fixture, &client, ask_volume(name));
	EXPECT(&client, ask_reserve(*number, reserved), 0);
	info = must_open(&client, ask_volume_alloc(*number, bytes), &reply);
	assert_true(info->is_unfinished);
	EXPECT(&client, ask_finish(info), 0);
	EXPECT(&client, ask_close(info), 0);
	drop(reply);
}

static int begin(void **state)
{
	setup(state);
	client_open(&fixture, &client);
	client_open(&fixture, &other);
	client_open(&fixture, &third);
	join_servers(2);
	fixture_advance(&fixture, 4000); /* it waits for no servers after its start any more */
	EXPECT(&client, ask_key_add("reader", false), 0);
	client_open_as(&fixture, &reader, "reader");
	make_volume("v", 16 * MIB, VOLUME_BYTES, &vol);
	EXPECT(&client, ask_grant(vol, "reader", RIGHT_READ), 0);
	return 0;
}

/* Whatever was done, all of it can be cleaned up. */
static int end(void **state)
{
	for (size_t i = 0; i < FIXTURE_SERVERS_MAX; i++) {
		fixture.servers[i].is_silent = false;
		if (fixture.servers[i].peer == NULL && fixture.servers[i].capacity != 0)
			assert_int_equal(fixture_join(&fixture, i, fixture.servers[i].capacity), 0);
	}
	fixture_pump(&fixture);
	fixture.time_ns = 0;
	client_lose(&fixture, &client);
	client_lose(&fixture, &other);
	client_lose(&fixture, &third);
	client_lose(&fixture, &reader);
	fixture_advance(&fixture, 10000);
	assert_int_equal(client_open(&fixture, &client), 0);
	while (!cds_list_empty(&fixture.core->state->namespaces)) {
		struct namespace *left = cds_list_first_entry(&fixture.core->state->namespaces,
							      struct namespace, node);

		EXPECT(&client,
		       left->is_volume ? ask_volume_delete(left->name)
				       : ask_delete(left->name, true),
		       0);
	}
	EXPECT(&client, ask_session_close(), 0);
	fixture_advance(&fixture, 10000);
	check_empty(&fixture);
	return teardown(state);
}

#define VOLUME_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static struct region *region_of(uint64_t number)
{
	return cds_list_first_entry(&ns_of(number)->regions, struct region, node);
}

/* How the volume's region is named in requests that no reply is at hand for. */
static Afar__RegionInfo name_of(uint64_t number)
{
	Afar__RegionInfo info = AFAR__REGION_INFO__INIT;

	info.namespace_ = number;
	info.address = region_of(number)->address;
	info.generation = region_of(number)->generation;
	return info;
}

static void close_volume(struct fake_client *who)
{
	const Afar__RegionInfo info = name_of(vol);

	EXPECT(who, ask_close(&info), 0);
}

static Afar__VolumeInfo *look(struct fake_client *who, const char *name, Afar__Reply **reply)
{
	*reply = must(who, ask_namespace(name));
	assert_non_null((*reply)->namespace_info->volume);
	return (*reply)->namespace_info->volume;
}

static enum volume_mode mode_of(const struct fake_client *who)
{
	const struct session *session = state_session(fixture.core->state, who->session);
	const struct reference *reference =
		session ? session_reference(session, region_of(vol)->generation) : NULL;

	return reference ? reference->mode : VOLUME_NONE;
}

/* ---- Making one */

static void test_unfinished_until_said(void **state)
{
	Afar__RegionInfo *info;
	Afar__Reply *made, *reply;
	Afar__VolumeInfo *volume;
	uint64_t number;

	(void)state;
	number = create_namespace(&fixture, &client, ask_volume("w"));
	assert_true(look(&other, "w", &reply)->is_unfinished);
	drop(reply);
	expect_said(&client, ask_volume_open(number, VOLUME_EXCLUSIVE), -ENOENT,
		    "has not finished");
	expect_said(&client, ask_resize(number, BLOCK), -ENOENT, "none that is finished");
	EXPECT(&client, ask_take_over(number, VOLUME_EXCLUSIVE), 0);
	EXPECT(&client, ask_reserve(number, 4 * MIB), 0);
	expect_said(&client, ask_volume_alloc(number, MIB + 5), -EINVAL, "a multiple of 4096");
	expect_said(&client, ask_volume_alloc(number, UINT64_MAX), -EINVAL, "a multiple of 4096");
	expect_said(&client, ask_volume_alloc(number, -(uint64_t)BLOCK), -EINVAL, "address space");
	info = must_open(&client, ask_volume_alloc(number, MIB), &made);
	expect_said(&client, ask_volume_alloc(number, MIB), -EINVAL, "it is a volume");
	for (uint32_t mode = VOLUME_EXCLUSIVE; mode <= VOLUME_READ_ONLY; mode++) {
		expect_said(&other, ask_volume_open(number, mode), -ENOENT, "has not finished");
		expect_said(&client, ask_volume_open(number, mode), -ENOENT, "has not finished");
	}
	expect_said(&client, ask_resize(number, 2 * MIB), -ENOENT, "none that is finished");
	volume = look(&other, "w", &reply);
	assert_true(volume->is_unfinished && volume->is_exclusive);
	assert_int_equal(volume->nr_writers, 1);
	assert_int_equal(volume->nr_readers, 0);
	drop(reply);
	expect_said(&other, ask_volume_delete("w"), -EBUSY, "has it open exclusively");
	expect_said(&reader, ask_finish(info), -AFAR_EFREED, "");
	EXPECT(&client, ask_finish(info), 0);
	/* Its maker still has it open, for itself. */
	expect_said(&other, ask_volume_open(number, VOLUME_SHARED), -EBUSY, "exclusively");
	EXPECT(&client, ask_close(info), 0);
	drop(made);
	volume = look(&other, "w", &reply);
	assert_false(volume->is_unfinished || volume->is_exclusive);
	assert_int_equal(volume->bytes, MIB);
	assert_int_equal(volume->nr_writers, 0);
	assert_string_equal(volume->holder, "");
	drop(reply);
	EXPECT(&other, ask_volume_open(number, VOLUME_SHARED), 0);
	check_all(&fixture);
}

/* A volume whose maker dies cannot be opened, and can be deleted. */
static void test_maker_dies(void **state)
{
	uint64_t number;

	(void)state;
	number = create_namespace(&fixture, &third, ask_volume("w"));
	EXPECT(&third, ask_reserve(number, 4 * MIB), 0);
	EXPECT(&third, ask_volume_alloc(number, MIB), 0);
	client_lose(&fixture, &third);
	expect_said(&other, ask_volume_delete("w"), -EBUSY, "its connection is lost, and it ends");
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	expect_said(&other, ask_volume_open(number, VOLUME_SHARED), -ENOENT, "has not finished");
	EXPECT(&other, ask_volume_delete("w"), 0);
	assert_null(ns_of(number));
}

/* ---- What is refused */

static void test_volumes_are_no_namespaces(void **state)
{
	Afar__RegionInfo info = name_of(vol);
	Afar__Reply *reply;
	uint64_t plain;

	(void)state;
	plain = make_namespace(&fixture, &client, "plain");
	EXPECT(&client, ask_reserve(plain, 4 * MIB), 0);
	EXPECT(&client, ask_alloc(plain, "r", MIB, false), 0);
	expect_said(&client, ask_volume("v"), -EEXIST, "it exists, as a volume");
	expect_said(&client, ask_volume("plain"), -EEXIST, "it exists, as a namespace");
	expect_said(&client, ask_create("v", 0, 0), -EEXIST, "it exists, as a volume");

	/* A volume, as if it were none. */
	expect_said(&client, ask_alloc(vol, "r", MIB, false), -EINVAL, "it is a volume");
	expect_said(&client, ask_open(vol, "", info.address), -EINVAL, "it is a volume");
	expect_said(&client, ask_delete("v", true), -EINVAL, "it is a volume");
	expect_said(&client, ask_free(&info), -EINVAL, "all of the volume 'v'");
	info.generation = 0;
	expect_said(&client, ask_free(&info), -EINVAL, "all of the volume 'v'");

	/* None, as if it were a volume. */
	expect_said(&client, ask_volume_alloc(plain, MIB), -EINVAL, "no volume");
	for (uint32_t mode = VOLUME_EXCLUSIVE; mode <= VOLUME_READ_ONLY; mode++) {
		expect_said(&client, ask_volume_open(plain, mode), -EINVAL, "no volume");
		expect_said(&client, ask_take_over(plain, mode), -EINVAL, "no volume");
	}
	expect_said(&client, ask_resize(plain, 2 * MIB), -ENOENT, "none that is finished");
	expect_said(&client, ask_volume_delete("plain"), -ENOENT, "no volume");
	reply = must(&client, ask_namespace("plain"));
	assert_null(reply->namespace_info->volume);
	drop(reply);

	/* Modes that there are not. */
	for (uint64_t mode = 4; mode <= UINT32_MAX; mode *= 3) {
		expect_said(&client, ask_volume_open(vol, (uint32_t)mode), -EINVAL, "unknown");
		expect_said(&client, ask_take_over(vol, (uint32_t)mode), -EINVAL, "unknown");
	}
	expect_said(&client, ask_take_over(vol, 0), -EINVAL, "");
	/* Namespaces that there are not. */
	expect_said(&client, ask_take_over(1000, VOLUME_SHARED), -ENOENT, "");
	expect_said(&client, ask_resize(1000, MIB), -ENOENT, "");
	expect_said(&client, ask_volume_open(1000, VOLUME_SHARED), -ENOENT, "");
	expect_said(&client, ask_volume_delete("w"), -ENOENT, "");
	check_all(&fixture);
}

/* A session asks things of the region that it does not have open, or has open in another way. */
static void test_region_of_a_volume(void **state)
{
	const Afar__RegionInfo info = name_of(vol);

	(void)state;
	expect_said(&client, ask_close(&info), -EINVAL, "does not have it open");
	expect_said(&client, ask_access(&info), -EINVAL, "does not have it open");
	expect_said(&client, ask_look(&info), -EINVAL, "does not have it open");
	expect_said(&client, ask_seal(&info), -EINVAL, "does not have it open");
	EXPECT(&client, ask_finish(&info), 0); /* it is */
	EXPECT(&client, ask_volume_open(vol, VOLUME_SHARED), 0);
	/* Its size changes, which a sealed region's cannot, nor can it while one is being sealed. */
	expect_said(&client, ask_seal(&info), -EINVAL, "it is the volume 'v'");
	assert_false(region_of(vol)->layout->is_sealed);
	close_volume(&client);
	expect_said(&client, ask_close(&info), -EINVAL, "does not have it open");
	assert_true(cds_list_empty(&region_of(vol)->references));
	check_all(&fixture);
}

/* ---- Modes */

static bool may_be_beside(uint32_t held, uint32_t wanted)
{
	static const bool may[4][4] = {
		[VOLUME_EXCLUSIVE] = {[VOLUME_READ_ONLY] = true},
		[VOLUME_SHARED] = {[VOLUME_SHARED] = true, [VOLUME_READ_ONLY] = true},
		[VOLUME_READ_ONLY] = {[VOLUME_EXCLUSIVE] = true,
				      [VOLUME_SHARED] = true,
				      [VOLUME_READ_ONLY] = true},
	};

	return may[held][wanted];
}

static void test_modes_of_two(void **state)
{
	(void)state;
	for (uint32_t held = VOLUME_EXCLUSIVE; held <= VOLUME_READ_ONLY; held++) {
		for (uint32_t wanted = VOLUME_EXCLUSIVE; wanted <= VOLUME_READ_ONLY; wanted++) {
			EXPECT(&client, ask_volume_open(vol, held), 0);
			assert_int_equal(mode_of(&client), held);
			if (may_be_beside(held, wanted)) {
				EXPECT(&other, ask_volume_open(vol, wanted), 0);
				assert_int_equal(mode_of(&other), wanted);
				close_volume(&other);
			} else {
				expect_said(&other, ask_volume_open(vol, wanted), -EBUSY,
					    "has it open");
				assert_int_equal(mode_of(&other), VOLUME_NONE);
			}
			assert_int_equal(mode_of(&client), held);
			check_all(&fixture);
			close_volume(&client);
		}
	}
}

/* One session opens it twice: in the same mode, if others might, too. Each is closed by itself. */
static void test_modes_of_one(void **state)
{
	(void)state;
	for (uint32_t held = VOLUME_EXCLUSIVE; held <= VOLUME_READ_ONLY; held++) {
		for (uint32_t wanted = VOLUME_EXCLUSIVE; wanted <= VOLUME_READ_ONLY; wanted++) {
			EXPECT(&client, ask_volume_open(vol, held), 0);
			if (held != wanted) {
				EXPECT(&client, ask_volume_open(vol, wanted), -EBUSY);
			} else if (held == VOLUME_EXCLUSIVE) {
				expect_said(&client, ask_volume_open(vol, wanted), -EBUSY,
					    "exclusively");
			} else {
				EXPECT(&client, ask_volume_open(vol, wanted), 0);
				close_volume(&client);
			}
			assert_int_equal(mode_of(&client), held);
			check_all(&fixture);
			close_volume(&client);
			assert_int_equal(mode_of(&client), VOLUME_NONE);
		}
	}
}

static void test_many_at_once(void **state)
{
	Afar__VolumeInfo *volume;
	Afar__Reply *reply;

	(void)state;
	EXPECT(&client, ask_volume_open(vol, VOLUME_SHARED), 0);
	EXPECT(&other, ask_volume_open(vol, VOLUME_SHARED), 0);
	EXPECT(&other, ask_volume_open(vol, VOLUME_SHARED), 0);
	EXPECT(&reader, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	expect_said(&third, ask_volume_open(vol, VOLUME_EXCLUSIVE), -EBUSY, "to write");
	volume = look(&reader, "v", &reply);
	assert_int_equal(volume->nr_writers, 2); /* sessions, not openings */
	assert_int_equal(volume->nr_readers, 1);
	assert_false(volume->is_exclusive);
	assert_non_null(strstr(volume->holder, "'admin'"));
	drop(reply);
	close_volume(&client);
	close_volume(&other);
	expect_said(&third, ask_volume_open(vol, VOLUME_EXCLUSIVE), -EBUSY, "to write");
	close_volume(&other);
	EXPECT(&third, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	volume = look(&reader, "v", &reply);
	assert_int_equal(volume->nr_writers, 1);
	assert_int_equal(volume->nr_readers, 1);
	assert_true(volume->is_exclusive);
	drop(reply);
	expect_said(&client, ask_volume_delete("v"), -EBUSY, "has it open");
	close_volume(&third);
	expect_said(&client, ask_volume_delete("v"), -EBUSY, "to read");
	close_volume(&reader);
	check_all(&fixture);
}

/* ---- Rights */

static void expect_capabilities(Afar__Access *const *accesses, size_t nr, uint32_t rights)
{
	assert_int_not_equal(nr, 0);
	for (size_t i = 0; i < nr; i++) {
		struct rpc_capability capability;

		assert_int_equal(accesses[i]->capability.len, sizeof(capability));
		memcpy(&capability, accesses[i]->capability.data, sizeof(capability));
		assert_int_equal(le32toh(capability.rights), rights);
	}
}

/* The capabilities that it asks for later allow the same. */
static void expect_rights_again(struct fake_client *who, uint32_t rights)
{
	const Afar__RegionInfo info = name_of(vol);
	Afar__Reply *reply = must(who, ask_access(&info));

	expect_capabilities(reply->accesses->entries, reply->accesses->n_entries, rights);
	drop(reply);
}

/* Opens it, and keeps it open. */
static void open_with_rights(struct fake_client *who, uint32_t mode, uint32_t rights)
{
	Afar__Reply *reply;
	Afar__RegionInfo *info = must_open(who, ask_volume_open(vol, mode), &reply);

	assert_int_equal(info->rights, rights);
	expect_capabilities(info->layout->accesses, info->layout->n_accesses, rights);
	drop(reply);
	expect_rights_again(who, rights);
}

/* Its owner, too, may only read it if it is open to read. */
static void test_rights_of_modes(void **state)
{
	static const uint32_t rights[] = {
		[VOLUME_EXCLUSIVE] = RIGHT_ALL,
		[VOLUME_SHARED] = RIGHT_ALL,
		[VOLUME_READ_ONLY] = RIGHT_READ,
	};

	(void)state;
	for (uint32_t mode = VOLUME_EXCLUSIVE; mode <= VOLUME_READ_ONLY; mode++) {
		open_with_rights(&client, mode, rights[mode]);
		close_volume(&client);
	}
}

static void test_rights_of_principals(void **state)
{
	(void)state;
	expect_said(&reader, ask_volume_open(vol, VOLUME_EXCLUSIVE), -EACCES, "to write");
	expect_said(&reader, ask_volume_open(vol, VOLUME_SHARED), -EACCES, "to write");
	open_with_rights(&reader, VOLUME_READ_ONLY, RIGHT_READ);
	for (uint32_t mode = VOLUME_EXCLUSIVE; mode <= VOLUME_READ_ONLY; mode++)
		EXPECT(&reader, ask_take_over(vol, mode), mode == VOLUME_READ_ONLY ? 0 : -EACCES);
	EXPECT(&reader, ask_resize(vol, 4 * MIB), -EACCES);
	EXPECT(&reader, ask_volume_delete("v"), -EACCES);
	close_volume(&reader);
	/* A principal that may write may do so, and take over, but neither resize nor delete. */
	EXPECT(&client, ask_grant(vol, "reader", RIGHT_ALL), 0);
	EXPECT(&reader, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&reader, ask_take_over(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&reader, ask_resize(vol, 4 * MIB), -EACCES);
	EXPECT(&reader, ask_volume_delete("v"), -EACCES);
	/* Losing the right to write ends its session, and so its hold. */
	EXPECT(&client, ask_grant(vol, "reader", RIGHT_READ), 0);
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	client_open_as(&fixture, &reader, "reader");
	/* Without any right it is not found either. */
	EXPECT(&client, ask_grant(vol, "reader", 0), 0);
	client_open_as(&fixture, &reader, "reader");
	EXPECT(&reader, ask_volume_open(vol, VOLUME_READ_ONLY), -ENOENT);
	check_all(&fixture);
}

/* ---- Who is in the way */

static void expect_busy(struct fake_client *who, const char *said)
{
	expect_said(who, ask_volume_open(vol, VOLUME_EXCLUSIVE), -EBUSY, said);
}

static void test_sentences_name_the_holder(void **state)
{
	char number[32];

	(void)state;
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	snprintf(number, sizeof(number), "session %llx of 'admin'",
		 (unsigned long long)client.session);
	expect_busy(&other, number);
	expect_busy(&other, "(host:1 test) has it open exclusively; close it there, or take");
	expect_said(&other, ask_volume_delete("v"), -EBUSY, number);
	expect_said(&other, ask_resize(vol, BLOCK), -EBUSY, number);
	client_lose(&fixture, &client);
	fixture_pump(&fixture);
	expect_busy(&other, "its connection is lost, and it ends in 2 s");
	fixture_advance(&fixture, FIXTURE_LEASE_MS / 2);
	expect_busy(&other, "its connection is lost, and it ends in 1 s");
	assert_int_equal(client_resume(&fixture, &client), 0);
	expect_busy(&other, "has it open exclusively; close it there");
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	check_all(&fixture);
}

/* ---- Taking over */

static bool is_alive(const struct fake_client *who)
{
	const struct session *session = state_session(fixture.core->state, who->session);

	return session && !session->is_ending;
}

/* Those in the way are ended, and no others. */
static void test_take_over_ends_those_in_the_way(void **state)
{
	for (uint32_t held = VOLUME_EXCLUSIVE; held <= VOLUME_READ_ONLY; held++) {
		for (uint32_t wanted = VOLUME_EXCLUSIVE; wanted <= VOLUME_READ_ONLY; wanted++) {
			bool may = may_be_beside(held, wanted);

			EXPECT(&other, ask_volume_open(vol, held), 0);
			EXPECT(&reader, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
			EXPECT(&client, ask_take_over(vol, wanted), 0);
			assert_int_equal(is_alive(&other), may);
			assert_true(is_alive(&reader));
			assert_true(is_alive(&third));
			EXPECT(&client, ask_volume_open(vol, wanted), 0);
			check_all(&fixture);
			end(state);
			begin(state);
		}
	}
	/* All that share it. */
	EXPECT(&other, ask_volume_open(vol, VOLUME_SHARED), 0);
	EXPECT(&third, ask_volume_open(vol, VOLUME_SHARED), 0);
	EXPECT(&client, ask_take_over(vol, VOLUME_SHARED), 0);
	assert_true(is_alive(&other) && is_alive(&third));
	EXPECT(&client, ask_take_over(vol, VOLUME_EXCLUSIVE), 0);
	assert_false(is_alive(&other) || is_alive(&third));
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	/* Not the caller's own session. */
	EXPECT(&client, ask_take_over(vol, VOLUME_EXCLUSIVE), 0);
	assert_true(is_alive(&client));
	assert_int_equal(mode_of(&client), VOLUME_EXCLUSIVE);
}

static void make_silent(bool is_silent)
{
	for (size_t i = 0; i < 2; i++)
		fixture.servers[i].is_silent = is_silent;
}

/* Sends an opening that will wait. */
static void send_asked(struct fake_client *who, Afar__Request *request, Afar__Reply **reply)
{
	fixture_send(&fixture, who, ++who->next_id, request, reply);
	fixture_pump(&fixture);
}

static void send_open(struct fake_client *who, Afar__Reply **reply)
{
	send_asked(who, ask_volume_open(vol, VOLUME_EXCLUSIVE), reply);
}

static Afar__Request *ask_to_replace(uint32_t mode, uint64_t session)
{
	Afar__Request *request = ask_take_over(vol, mode);

	request->volume_take_over->session = session;
	return request;
}

static Afar__Request *ask_open_after(uint32_t mode, uint64_t session)
{
	Afar__Request *request = ask_volume_open(vol, mode);

	request->region_open->after = session;
	return request;
}

/* A session takes the place of one of its principal. Only that one is ended, whatever the mode, and
 * the opening waits until nothing of it can land. */
static void test_take_the_place_of_one(void **state)
{
	static const uint32_t modes[] = {VOLUME_EXCLUSIVE, VOLUME_SHARED, VOLUME_READ_ONLY};
	Afar__Reply *reply;

	for (size_t i = 0; i < 3; i++) {
		EXPECT(&other, ask_volume_open(vol, modes[i]), 0);
		if (modes[i] != VOLUME_EXCLUSIVE)
			EXPECT(&third, ask_volume_open(vol, modes[i]), 0);
		EXPECT(&reader, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
		make_silent(true);
		EXPECT(&client, ask_to_replace(modes[i], other.session), 0);
		assert_false(is_alive(&other));
		assert_true(is_alive(&third) && is_alive(&reader));
		send_asked(&client, ask_open_after(modes[i], other.session), &reply);
		assert_null(reply);
		make_silent(false);
		fixture_pump(&fixture);
		expect_answer(reply, 0, NULL);
		assert_int_equal(mode_of(&client), modes[i]);
		check_all(&fixture);
		end(state);
		begin(state);
	}
	/* A session that has it by now keeps it, whether the one to be replaced still is or not. */
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	EXPECT(&client, ask_to_replace(VOLUME_EXCLUSIVE, third.session), 0);
	EXPECT(&client, ask_to_replace(VOLUME_EXCLUSIVE, 1000), 0);
	EXPECT(&client, ask_to_replace(VOLUME_EXCLUSIVE, client.session), 0);
	assert_true(is_alive(&third) && is_alive(&other) && is_alive(&client));
	expect_said(&client, ask_open_after(VOLUME_EXCLUSIVE, third.session), -EBUSY,
		    "exclusively");
	/* Others' sessions cannot be named: who may only read could end who writes. */
	EXPECT(&reader, ask_to_replace(VOLUME_READ_ONLY, other.session), 0);
	assert_true(is_alive(&other));
	check_all(&fixture);
}

/* The client takes it over from the other, whose end no server confirms. */
static void take_over_in_silence(void)
{
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	make_silent(true);
	EXPECT(&client, ask_take_over(vol, VOLUME_EXCLUSIVE), 0);
}

/* The volume lies on both servers: the opening waits for both. */
static void test_open_waits_for_all_fences(void **state)
{
	Afar__Reply *reply;

	(void)state;
	take_over_in_silence();
	send_open(&client, &reply);
	assert_null(reply);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_null(reply);
	fixture_advance(&fixture, 600000); /* it has all the time that there is */
	assert_null(reply);
	/* Somebody else who may wait, too, and one that is in nobody's way. */
	EXPECT(&third, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	assert_int_equal(mode_of(&client), VOLUME_EXCLUSIVE);
	assert_int_equal(fixture.servers[0].nr_session_ends, 1);
	assert_int_equal(fixture.servers[1].nr_session_ends, 1);
	check_all(&fixture);
}

static void test_open_waits_until_its_time_is_over(void **state)
{
	Afar__Reply *reply, *later;

	(void)state;
	take_over_in_silence();
	fixture.time_ns = 8000000000U;
	send_open(&client, &reply);
	fixture_advance(&fixture, 5000);
	assert_null(reply);
	send_open(&third, &later);
	fixture_advance(&fixture,
			1000); /* somewhat before its time is over, so that it hears why */
	expect_answer(reply, -EBUSY, "closes its connections within seconds");
	assert_null(later);
	make_silent(false);
	fixture_pump(&fixture);
	expect_answer(later, 0, NULL);
	assert_int_equal(mode_of(&third), VOLUME_EXCLUSIVE);
	assert_int_equal(mode_of(&client), VOLUME_NONE);
	/* The first one lost, though it has taken it over. */
	expect_busy(&client, "has it open exclusively");
	check_all(&fixture);
}

/* One of two that wait gets it, and the other hears who. */
static void test_two_wait(void **state)
{
	Afar__Reply *one, *two;

	(void)state;
	take_over_in_silence();
	send_open(&client, &one);
	EXPECT(&third, ask_take_over(vol, VOLUME_EXCLUSIVE), 0); /* nobody is left to be ended */
	assert_true(is_alive(&client));
	send_open(&third, &two);
	make_silent(false);
	fixture_pump(&fixture);
	expect_answer(one, 0, NULL);
	expect_answer(two, -EBUSY, "exclusively");
	check_all(&fixture);
}

/* One that waits goes away meanwhile, and does not get it. */
static void test_one_that_waits_ends(void **state)
{
	Afar__Reply *reply;

	(void)state;
	take_over_in_silence();
	send_open(&client, &reply);
	client_lose(&fixture, &client);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	make_silent(false);
	fixture_pump(&fixture);
	expect_answer(reply, -AFAR_ESESSION, NULL);
	EXPECT(&third, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	check_all(&fixture);
}

/* A fence is over too when the server that owes it restarts. */
static void test_server_restarts_instead(void **state)
{
	Afar__Reply *reply;

	(void)state;
	take_over_in_silence();
	send_open(&client, &reply);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	assert_null(reply);
	fixture_kill(&fixture, 1);
	fixture_pump(&fixture);
	assert_null(reply); /* it may live on without us */
	fixture.servers[1].is_silent = false;
	assert_int_equal(fixture_join(&fixture, 1, 64 * MIB), 0);
	/* Its memory is gone, and the volume with it. */
	expect_answer(reply, -AFAR_ELOST, NULL);
	check_all(&fixture);
}

/* The manager restarts while fences are awaited: modes, the end and the fences come back. */
static void test_manager_restarts(void **state)
{
	Afar__Reply *reply;

	(void)state;
	EXPECT(&third, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	fixture_restart(&fixture);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &client), 0);
	assert_int_equal(client_resume(&fixture, &other), 0);
	assert_int_equal(client_resume(&fixture, &third), 0);
	assert_true(ns_of(vol)->is_volume);
	assert_int_equal(mode_of(&other), VOLUME_EXCLUSIVE);
	assert_int_equal(mode_of(&third), VOLUME_READ_ONLY);
	expect_busy(&client, "exclusively");
	expect_rights_again(&third, RIGHT_READ);

	make_silent(true);
	EXPECT(&client, ask_take_over(vol, VOLUME_EXCLUSIVE), 0);
	fixture_restart(&fixture);
	make_silent(true);
	join_servers(2);
	assert_int_equal(client_resume(&fixture, &client), 0);
	assert_int_equal(client_resume(&fixture, &other), -AFAR_ESESSION);
	assert_int_equal(client_resume(&fixture, &third), 0);
	send_open(&client, &reply);
	assert_null(reply);
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	assert_null(reply);
	fixture.servers[0].is_silent = false;
	fixture_pump(&fixture);
	expect_answer(reply, 0, NULL);
	assert_int_equal(mode_of(&client), VOLUME_EXCLUSIVE);
	check_all(&fixture);
}

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

/* ---- Ending */

static void test_deletion(void **state)
{
	Afar__Request *request;

	(void)state;
	EXPECT(&other, ask_volume_open(vol, VOLUME_READ_ONLY), 0);
	expect_said(&client, ask_volume_delete("v"), -EBUSY, "to read; close it there first");
	fixture.servers[1].is_silent = true;
	client_lose(&fixture, &other);
	fixture_advance(&fixture, FIXTURE_LEASE_MS);
	expect_said(&client, ask_volume_delete("v"), -EBUSY, "it has ended");
	fixture.servers[1].is_silent = false;
	fixture_pump(&fixture);
	request = ask_volume_delete("v");
	request->namespace_delete->with_regions = false;
	EXPECT(&client, request, -ENOTEMPTY);
	EXPECT(&client, ask_volume_delete("v"), 0);
	assert_null(ns_of(vol));
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fixture.servers[i].nr_extents, 0);
	EXPECT(&client, ask_volume_open(vol, VOLUME_EXCLUSIVE), -ENOENT);
	/* Its name is free. */
	make_namespace(&fixture, &client, "v");
	check_all(&fixture);
}

static void test_list(void **state)
{
	uint64_t number;
	Afar__Reply *reply;

	(void)state;
	make_namespace(&fixture, &client, "plain");
	make_volume("w", 4 * MIB, BLOCK, &number);
	EXPECT(&other, ask_volume_open(vol, VOLUME_EXCLUSIVE), 0);
	reply = must(&client, ask_namespaces("", 0));
	assert_int_equal(reply->namespace_infos->n_entries, 3);
	for (size_t i = 0; i < 3; i++) {
		const Afar__NamespaceInfo *info = reply->namespace_infos->entries[i];

		assert_string_equal(info->name, ((const char *[]){"plain", "v", "w"})[i]);
		assert_int_equal(info->volume != NULL, i != 0);
		if (i == 0)
			continue;
		assert_int_equal(info->volume->bytes, i == 1 ? VOLUME_BYTES : BLOCK);
		assert_int_equal(info->volume->width, i == 1 ? 2 : 1);
		assert_int_equal(info->volume->is_exclusive, i == 1);
		assert_int_equal(info->volume->nr_writers, i == 1);
		assert_int_equal(info->volume->holder[0] != '\0', i == 1);
	}
	drop(reply);
	reply = must(&reader, ask_namespaces("", 0));
	assert_int_equal(reply->namespace_infos->n_entries, 1); /* what it may read */
	drop(reply);
}

TEST_GROUP(manager_volumes)
{
	const struct CMUnitTest tests[] = {
		VOLUME_TEST(test_unfinished_until_said),
		VOLUME_TEST(test_maker_dies),
		VOLUME_TEST(test_volumes_are_no_namespaces),
		VOLUME_TEST(test_region_of_a_volume),
		VOLUME_TEST(test_modes_of_two),
		VOLUME_TEST(test_modes_of_one),
		VOLUME_TEST(test_many_at_once),
		VOLUME_TEST(test_rights_of_modes),
		VOLUME_TEST(test_rights_of_principals),
		VOLUME_TEST(test_sentences_name_the_holder),
		VOLUME_TEST(test_take_over_ends_those_in_the_way),
		VOLUME_TEST(test_take_the_place_of_one),
		VOLUME_TEST(test_open_waits_for_all_fences),
		VOLUME_TEST(test_open_waits_until_its_time_is_over),
		VOLUME_TEST(test_two_wait),
		VOLUME_TEST(test_one_that_waits_ends),
		VOLUME_TEST(test_server_restarts_instead),
		VOLUME_TEST(test_manager_restarts),
		VOLUME_TEST(test_grows),
		VOLUME_TEST(test_grows_into_what_is_spare),
		VOLUME_TEST(test_grows_while_it_is_open),
		VOLUME_TEST(test_shrinks),
		VOLUME_TEST(test_who_may_shrink),
		VOLUME_TEST(test_sizes_that_are_refused),
		VOLUME_TEST(test_too_many_pieces),
		VOLUME_TEST(test_lost),
		VOLUME_TEST(test_on_flash),
		VOLUME_TEST(test_deletion),
		VOLUME_TEST(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
