/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes as the manager keeps them: who may open one beside whom, and taking over. And what nobody may do with the
 * region of a volume. */
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
			end_volumes(state);
			begin_volumes(state);
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
		end_volumes(state);
		begin_volumes(state);
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
		VOLUME_TEST(test_deletion),
		VOLUME_TEST(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
