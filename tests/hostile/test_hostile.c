/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that cheats. Whatever it shows, changes, keeps or guesses, it reads and writes nothing that is not
 * its own. An honest client beside it goes on, and the server's log has a line about it.
 *
 *   test_hostile [TEST]     "*" and "?" stand for anything
 *
 * AFAR_LONG=1 also waits for things to expire, and guesses keys for minutes (AFAR_GUESSES, 1 000 000).
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/rand.h>

#include <afar/error.h>

#include "base/clock.h"
#include "fabric/mapped.h"
#include "foothold.h"
#include "lib/base/transport.h"
#include "town.h"

#define SMALL (2 * MIB)

static bool is_long(void)
{
	return getenv("AFAR_LONG") != NULL;
}

static int start(void **state)
{
	(void)state;
	return town_open(&town);
}

static int stop(void **state)
{
	(void)state;
	town_close(&town);
	return 0;
}

/* ---- Passes */

static void expect_no_entry(struct foothold *foothold, const struct key *pass)
{
	struct rpc_connection *control;

	assert_true(intruder_enter(&foothold->intruder, foothold->place.control, pass, &control) <
		    0);
}

static void test_passes(void **state)
{
	struct foothold foothold;
	struct key pass;

	(void)state;
	gain_foothold(&foothold, "passes", SMALL);
	expect_no_entry(&foothold, &town.mallory); /* its own key, which is no pass */
	pass = foothold.place.pass;
	strcpy(pass.identity, "admin");
	expect_no_entry(&foothold, &pass);
	pass = foothold.place.pass; /* another session's, with this one's key */
	snprintf(pass.identity, sizeof(pass.identity), "pass/%llx%s",
		 (unsigned long long)foothold.intruder.session ^ 1,
		 strrchr(foothold.place.pass.identity, '/'));
	expect_no_entry(&foothold, &pass);
	pass = foothold.place.pass; /* good for longer */
	snprintf(pass.identity, sizeof(pass.identity), "pass/%llx/ffffffff",
		 (unsigned long long)foothold.intruder.session);
	expect_no_entry(&foothold, &pass);
	pass = foothold.place.pass;
	pass.secret[0] ^= 1;
	expect_no_entry(&foothold, &pass);
	town_expect_peace(&town, 2);
	lose_foothold(&foothold);
}

static void test_expired_pass(void **state)
{
	struct foothold foothold;

	(void)state;
	if (!is_long())
		skip();
	gain_foothold(&foothold, "expired", SMALL);
	sleep(63); /* passes are good for a minute */
	expect_no_entry(&foothold, &foothold.place.pass);
	town_expect_peace(&town, 1);
	lose_foothold(&foothold);
}

/* ---- Tickets */

static void expect_refused(struct foothold *foothold, const void *shown, size_t length)
{
	assert_true(data_client_connect(&foothold->data, foothold->place.data, shown, length) < 0);
	town_expect_peace(&town, 1);
}

static void expect_no_ticket(struct foothold *foothold, uint64_t ns, uint32_t rights)
{
	struct rpc_ticket ticket;

	assert_int_equal(intruder_ask_ticket(foothold->control, foothold->intruder.session, ns,
					     rights, &ticket),
			 -EACCES);
	town_expect_peace(&town, 1);
}

static void test_tickets(void **state)
{
	struct foothold foothold;
	struct rpc_ticket ticket, altered;
	uint8_t noise[sizeof(ticket)];

	(void)state;
	gain_foothold(&foothold, "tickets", SMALL);
	expect_refused(&foothold, "", 0);
	assert_int_equal(RAND_bytes(noise, sizeof(noise)), 1);
	expect_refused(&foothold, noise, sizeof(noise));
	get_ticket(&foothold, &ticket);
	expect_refused(&foothold, &ticket, sizeof(ticket) - 1);
	altered = ticket;
	altered.session ^= 1;
	expect_refused(&foothold, &altered, sizeof(altered));
	altered = ticket;
	altered.expiry += 3600;
	expect_refused(&foothold, &altered, sizeof(altered));
	altered = ticket;
	altered.mac[TICKET_MAC_BYTES - 1] ^= 1;
	expect_refused(&foothold, &altered, sizeof(altered));

	assert_int_equal(
		data_client_connect(&foothold.data, foothold.place.data, &ticket, sizeof(ticket)),
		0);
	data_client_disconnect(&foothold.data);
	expect_refused(&foothold, &ticket, sizeof(ticket)); /* replayed */
	/* A ticket for somebody else. */
	assert_int_equal(intruder_ask_ticket(foothold.control, foothold.intruder.session ^ 1,
					     foothold.place.ns, RIGHT_ALL, &ticket),
			 -EACCES);
	town_expect_peace(&town, 1);
	/* For somebody else's memory, for more than it has keys of, for nothing at all. */
	expect_no_ticket(&foothold, foothold.place.ns - 1, RIGHT_ALL);
	expect_no_ticket(&foothold, foothold.place.ns + 1, RIGHT_ALL);
	expect_no_ticket(&foothold, foothold.place.ns, RIGHT_READ);
	expect_no_ticket(&foothold, 0, 0);
	expect_no_ticket(&foothold, UINT64_MAX, UINT32_MAX);
	lose_foothold(&foothold);
}

static void test_expired_ticket(void **state)
{
	struct foothold foothold;
	struct rpc_ticket ticket;

	(void)state;
	if (!is_long())
		skip();
	gain_foothold(&foothold, "expired", SMALL);
	get_ticket(&foothold, &ticket);
	sleep(12); /* tickets are good for ten seconds */
	expect_refused(&foothold, &ticket, sizeof(ticket));
	lose_foothold(&foothold);
}

static void test_ticket_of_an_ended_session(void **state)
{
	struct foothold foothold;
	struct rpc_ticket ticket;
	int status;

	(void)state;
	gain_foothold(&foothold, "ended", SMALL);
	get_ticket(&foothold, &ticket);
	assert_true(town_knows(&town, foothold.intruder.session));
	intruder_close(&foothold.intruder);
	while (town_knows(&town, foothold.intruder.session))
		;
	status = data_client_connect(&foothold.data, foothold.place.data, &ticket, sizeof(ticket));
	assert_true(status < 0);
	town_expect_peace(&town, 1);
	data_client_close(&foothold.data);
	rpc_connection_unref(foothold.control); /* its loop has closed it */
	foothold_delete_namespace("ended");
}

/* ---- Capabilities */

static void expect_no_keys(struct foothold *foothold, const struct place *place)
{
	struct remote remote;

	assert_int_equal(
		intruder_ask_keys(foothold->control, foothold->intruder.session, place, &remote),
		-EACCES);
	town_expect_peace(&town, 1);
}

static void test_capabilities(void **state)
{
	struct foothold foothold, other;
	struct place place;
	struct remote remote;

	(void)state;
	gain_foothold(&foothold, "mine", SMALL);
	gain_foothold(&other, "others", SMALL);
	place = foothold.place; /* forged */
	assert_int_equal(RAND_bytes((uint8_t *)&place.capability, sizeof(place.capability)), 1);
	expect_no_keys(&foothold, &place);
	place = foothold.place; /* altered, field by field */
	place.capability.session ^= 1;
	expect_no_keys(&foothold, &place);
	place = foothold.place;
	place.capability.rights |= 4;
	expect_no_keys(&foothold, &place);
	place = foothold.place;
	place.capability.expiry += 3600;
	expect_no_keys(&foothold, &place);
	place = foothold.place;
	place.ns++;
	place.capability.namespace ++;
	expect_no_keys(&foothold, &place);
	place = foothold.place; /* widened: to more extents, digest and all */
	place.extents[place.nr_extents++] = place.extents[0] + 1;
	expect_no_keys(&foothold, &place);
	assert_int_equal(
		capability_digest(place.extents, place.nr_extents, place.capability.digest), 0);
	expect_no_keys(&foothold, &place);
	place = foothold.place; /* another session's */
	place.capability = other.place.capability;
	expect_no_keys(&foothold, &place);
	expect_no_keys(&foothold, &other.place);
	assert_int_equal(
		intruder_ask_keys(foothold.control, other.intruder.session, &other.place, &remote),
		-EACCES);
	town_expect_peace(&town, 1);
	lose_foothold(&other);
	lose_foothold(&foothold);
}

/* ---- Keys */

/* Mallory may read the victim's namespace, and tries to write. */
static void test_read_only_key(void **state)
{
	static uint8_t memory[VICTIM_BYTES];
	struct foothold foothold;
	struct intruder *intruder = &foothold.intruder;
	struct place place;
	struct remote remote;

	(void)state;
	assert_int_equal(afar_namespace_grant(town.victim, "mallory", AFAR_RIGHT_READ), 0);
	gain_foothold(&foothold, "reader", SMALL);
	intruder_open_region(intruder, intruder_open_namespace(intruder, "victim"), "r", &place);
	get_keys(&foothold, &place, &remote);
	expect_no_ticket(&foothold, place.ns, RIGHT_ALL);
	connect_to(&foothold, &place, RIGHT_READ);
	assert_int_equal(data_client_read(&foothold.data, memory, 4096, remote.at, remote.key), 0);
	assert_int_equal(count_bytes(memory, 4096, VICTIM_BYTE), 4096);
	memset(memory, 'M', sizeof(memory));
	assert_true(data_client_write(&foothold.data, memory, 4096, remote.at, remote.key) < 0);
	town_expect_peace(&town, 0);
	connect_to(&foothold, &place, RIGHT_READ);
	assert_true(data_client_write(&foothold.data, memory, VICTIM_BYTES, remote.at, remote.key) <
		    0);
	town_expect_peace(&town, 0);
	place.capability.rights = htole32(RIGHT_ALL);
	expect_no_keys(&foothold, &place);
	assert_int_equal(afar_namespace_grant(town.victim, "mallory", 0), 0);
	lose_foothold(&foothold);
}

static void expect_dead_key(struct foothold *foothold, const struct remote *remote)
{
	uint8_t memory[4096];

	memset(memory, 'M', sizeof(memory));
	assert_true(data_client_write(&foothold->data, memory, sizeof(memory), remote->at,
				      remote->key) < 0);
	connect_data(foothold);
	memset(memory, 0, sizeof(memory));
	assert_true(data_client_read(&foothold->data, memory, sizeof(memory), remote->at,
				     remote->key) < 0);
	assert_int_equal(count_bytes(memory, sizeof(memory), 0), sizeof(memory));
	connect_data(foothold);
}

static void test_key_used_after_release(void **state)
{
	struct foothold foothold;
	struct next_owner next;
	struct rpc_ticket ticket;
	struct remote remote;
	uint8_t memory[4096];

	(void)state;
	gain_foothold(&foothold, "released", INTRUDER_ROOM);
	remote = foothold.remote;
	connect_data(&foothold);
	intruder_give_back(&foothold.intruder, &foothold.place);
	town_move_in(&town, INTRUDER_ROOM, &next);
	memset(memory, 'M', sizeof(memory));
	assert_true(data_client_write(&foothold.data, memory, sizeof(memory), remote.at,
				      remote.key) < 0);
	/* Its namespace has no memory there: there is nothing to connect for, nor keys for the old capability. */
	assert_int_equal(ask_ticket(&foothold, &foothold.place, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(intruder_ask_keys(foothold.control, foothold.intruder.session,
					   &foothold.place, &remote),
			 -AFAR_ELOST);
	assert_int_equal(ask_ticket(&foothold, &foothold.place, RIGHT_ALL, &ticket), -EACCES);
	town_move_out(&town, &next);
	town_expect_peace(&town, 0);
	lose_foothold(&foothold);
}

/* Mallory was allowed to read and write the victim's memory, and is no more. It has remembered the key, and
 * comes back with another session, for memory of its own on the same server. */
static void test_key_used_after_rights_are_taken(void **state)
{
	struct foothold before, after;
	struct place place;
	struct remote remote;
	uint8_t memory[4096];
	uint64_t ns;

	(void)state;
	assert_int_equal(
		afar_namespace_grant(town.victim, "mallory", AFAR_RIGHT_READ | AFAR_RIGHT_WRITE),
		0);
	gain_foothold(&before, "before", SMALL);
	ns = intruder_open_namespace(&before.intruder, "victim");
	intruder_open_region(&before.intruder, ns, "r", &place);
	get_keys(&before, &place, &remote);
	connect_to(&before, &place, RIGHT_ALL);
	assert_int_equal(
		data_client_read(&before.data, memory, sizeof(memory), remote.at, remote.key), 0);
	/* Closed: as if it had nothing to do with it any more. */
	intruder_close_region(&before.intruder, &place);
	assert_int_equal(afar_namespace_grant(town.victim, "mallory", 0), 0);
	data_client_await_closed(&before.data);

	gain_foothold(&after, "after", SMALL);
	connect_data(&after);
	expect_dead_key(&after, &remote);
	town_expect_peace(&town, 0);
	lose_foothold(&after);
	lose_foothold(&before);
}

/* Its key is revoked: it is put out everywhere, and nothing that it has lets it in again. */
static void test_revoked_principal(void **state)
{
	struct foothold foothold;
	struct rpc_connection *manager;
	struct rpc_ticket ticket;
	struct remote remote;
	char address[80];

	(void)state;
	gain_foothold(&foothold, "revoked", SMALL);
	connect_data(&foothold);
	get_ticket(&foothold, &ticket);
	assert_int_equal(afar_key_revoke(town.admin, "mallory"), 0);
	data_client_await_closed(&foothold.data);
	expect_refused(&foothold, &ticket, sizeof(ticket));
	expect_no_entry(&foothold, &foothold.place.pass);
	town_expect_peace(&town, 1);
	assert_true(ask_ticket(&foothold, &foothold.place, RIGHT_ALL, &ticket) < 0);
	assert_true(intruder_ask_keys(foothold.control, foothold.intruder.session, &foothold.place,
				      &remote) < 0);
	snprintf(address, sizeof(address), "%s:%u", town.host, town.port);
	assert_true(intruder_enter(&foothold.intruder, address, &town.mallory, &manager) < 0);
	town_expect_peace(&town, 0);
	lose_foothold(&foothold);
}

/* ---- Transfers half through */

static uint8_t bulk[INTRUDER_ROOM];

/* Begins to read or write all of the region, and stops in the middle. The rest is not sent, or not taken,
 * before the queue is polled again. */
static void begin_transfer(struct data_client *data, const struct place *place,
			   const struct remote *remote, bool is_write)
{
	struct fabric_piece piece = {.addr = bulk, .length = place->first_length};
	int status;

	memset(bulk, is_write ? 'M' : 0, sizeof(bulk));
	status = is_write ? fabric_write(data->endpoint, &piece, 1, remote->at, remote->key, 1)
			  : fabric_read(data->endpoint, &piece, 1, remote->at, remote->key, 1);
	assert_int_equal(status, 0);
}

/* A write has begun when its first bytes have arrived; a read cannot be seen, but is asked for before. */
static void await_first_byte(struct foothold *owner, const struct remote *remote)
{
	uint8_t byte = 0;

	while (byte != 'M')
		assert_int_equal(data_client_read(&owner->data, &byte, 1, remote->at, remote->key),
				 0);
}

static void go_on(struct data_client *data)
{
	struct fabric_completion completion;
	struct fabric_event event = {0};

	for (;;) {
		int step = data_client_step(data, &completion, &event);

		if (step == 1 || (step == 2 && event.kind == FABRIC_CLOSED))
			return;
	}
}

/* `stalled` has begun; the memory changes hands; it goes on. */
static void change_hands_under(struct foothold *owner, struct data_client *stalled)
{
	struct next_owner next;

	intruder_give_back(&owner->intruder, &owner->place);
	town_move_in(&town, owner->place.length, &next);
	go_on(stalled);
	assert_int_equal(count_bytes(bulk, sizeof(bulk), NEXT_BYTE), 0);
	town_move_out(&town, &next);
	town_expect_peace(&town, 0);
}

static void stall(bool is_write)
{
	struct foothold foothold;
	struct data_client second;
	struct rpc_ticket ticket;

	gain_foothold(&foothold, "stalled", INTRUDER_ROOM);
	connect_data(&foothold);
	data_client_open(&second);
	get_ticket(&foothold, &ticket);
	assert_int_equal(data_client_connect(&second, foothold.place.data, &ticket, sizeof(ticket)),
			 0);
	begin_transfer(&second, &foothold.place, &foothold.remote, is_write);
	if (is_write)
		await_first_byte(&foothold, &foothold.remote);
	change_hands_under(&foothold, &second);
	data_client_close(&second);
	lose_foothold(&foothold);
}

static void test_stalled_write(void **state)
{
	(void)state;
	if (is_on_local()) /* a copy is done when it has been begun: tests/fault stops processes in it */
		skip();
	stall(true);
}

static void test_stalled_read(void **state)
{
	(void)state;
	if (is_on_local()) /* a copy is done when it has been begun: tests/fault stops processes in it */
		skip();
	stall(false);
}

/* Stalls on a connection of another session, which has opened another region of the namespace: it was told the key. */
static void stall_with_accomplice(bool is_write)
{
	struct foothold owner, accomplice;
	struct place place;
	struct remote remote;

	gain_foothold(&accomplice, "accomplice", SMALL);
	gain_foothold(&owner, "stalled", INTRUDER_ROOM - SMALL);
	intruder_open_region(&accomplice.intruder, owner.place.ns, "r", &place);
	get_keys(&accomplice, &place, &remote);
	intruder_close_region(&accomplice.intruder, &place);
	connect_data(&owner);
	connect_to(&accomplice, &place, RIGHT_ALL);
	begin_transfer(&accomplice.data, &owner.place, &owner.remote, is_write);
	if (is_write)
		await_first_byte(&owner, &owner.remote);
	change_hands_under(&owner, &accomplice.data);
	lose_foothold(&owner);
	lose_foothold(&accomplice);
}

static void test_accomplice_stalls_a_write(void **state)
{
	(void)state;
	if (is_on_local()) /* a copy is done when it has been begun: tests/fault stops processes in it */
		skip();
	stall_with_accomplice(true);
}

static void test_accomplice_stalls_a_read(void **state)
{
	(void)state;
	if (is_on_local()) /* a copy is done when it has been begun: tests/fault stops processes in it */
		skip();
	stall_with_accomplice(false);
}

/* Somebody who may do everything with its memory tells another, who has nothing to do with it. */
static void test_told_key(void **state)
{
	struct foothold owner, stranger;
	uint8_t memory[4096];

	(void)state;
	gain_foothold(&owner, "teller", SMALL);
	gain_foothold(&stranger, "told", SMALL);
	connect_data(&stranger);
	expect_dead_key(&stranger, &owner.remote);
	connect_data(&owner);
	assert_int_equal(data_client_read(&owner.data, memory, sizeof(memory), owner.remote.at,
					  owner.remote.key),
			 0);
	assert_int_equal(count_bytes(memory, sizeof(memory), 0), sizeof(memory));
	lose_foothold(&stranger);
	lose_foothold(&owner);
}

/* ---- Memory itself */

static int ask_to_attach(struct foothold *foothold, const struct place *place, uint32_t rights,
			 struct rpc_ticket *out)
{
	return intruder_ask_to_attach(foothold->control, foothold->intruder.session, place->ns,
				      rights, place->generation, out);
}

static void connect_to_attach(struct foothold *foothold, const struct place *place, uint32_t rights)
{
	struct rpc_ticket ticket;

	assert_int_equal(ask_to_attach(foothold, place, rights, &ticket), 0);
	assert_int_equal(data_client_connect(&foothold->data, place->data, &ticket, sizeof(ticket)),
			 0);
}

/* 0 when the server gives it, or an error when it closes the connection over that. */
static int ask_for_memory(struct data_client *data, uint64_t key)
{
	struct pollfd ready = {.fd = fabric_queue_fd(data->queue), .events = POLLIN};
	struct fabric_completion completion;
	struct fabric_event event;
	int status;

	while ((status = fabric_prepare(data->endpoint, key)) == -EAGAIN) {
		if (fabric_queue_arm(data->queue) == 0)
			assert_int_equal(poll(&ready, 1, DATA_CLIENT_PATIENCE_MS), 1);
		assert_int_equal(fabric_queue_poll(data->queue, &completion, 1), 0);
		fabric_queue_event(data->queue, &event);
	}
	return status;
}

/* The first page of what a key is for. */
static uint8_t *attach_page(struct data_client *data, const struct remote *remote, bool may_write,
			    int status)
{
	uint8_t *addr = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(addr != MAP_FAILED);
	assert_int_equal(
		fabric_attach(data->endpoint, remote->key, remote->at, 4096, may_write, addr),
		status);
	return addr;
}

/* Without a right to the namespace, on a connection for another one, and with less of a right. */
static void test_attaching_without_right(void **state)
{
	struct foothold owner, stranger;
	struct rpc_ticket ticket;
	struct place place;
	struct remote remote;
	uint8_t *page;

	(void)state;
	gain_foothold(&owner, "owner", SMALL);
	gain_foothold(&stranger, "stranger", SMALL);
	assert_int_equal(ask_to_attach(&stranger, &owner.place, RIGHT_READ, &ticket), -EACCES);
	assert_int_equal(ask_to_attach(&stranger, &owner.place, RIGHT_ALL, &ticket), -EACCES);
	assert_int_equal(ask_to_attach(&stranger, &stranger.place, RIGHT_READ, &ticket), -EACCES);
	town_expect_peace(&town, 3);
	if (!is_on_local()) {
		assert_int_equal(ask_to_attach(&stranger, &stranger.place, RIGHT_ALL, &ticket), 0);
		assert_true(data_client_connect(&stranger.data, stranger.place.data, &ticket,
						sizeof(ticket)) < 0);
		town_expect_peace(&town, 1);
		goto out_lose;
	}
	/* It was told the key, and names the layout that it is for. */
	place = stranger.place;
	place.generation = owner.place.generation;
	connect_to_attach(&stranger, &place, RIGHT_ALL);
	assert_int_equal(ask_for_memory(&stranger.data, owner.remote.key), -ENOTCONN);
	data_client_disconnect(&stranger.data);

	assert_int_equal(afar_namespace_grant(town.victim, "mallory", AFAR_RIGHT_READ), 0);
	intruder_open_region(&stranger.intruder,
			     intruder_open_namespace(&stranger.intruder, "victim"), "r", &place);
	get_keys(&stranger, &place, &remote);
	assert_int_equal(ask_to_attach(&stranger, &place, RIGHT_ALL, &ticket), -EACCES);
	connect_to_attach(&stranger, &place, RIGHT_READ);
	assert_int_equal(ask_for_memory(&stranger.data, remote.key), 0);
	munmap(attach_page(&stranger.data, &remote, true, -EACCES), 4096);
	page = attach_page(&stranger.data, &remote, false, 0);
	assert_int_equal(count_bytes(page, 4096, VICTIM_BYTE), 4096);
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), -1);
	town_expect_peace(&town, 1);
	data_client_disconnect(&stranger.data);
	munmap(page, 4096);
	assert_int_equal(afar_namespace_grant(town.victim, "mallory", 0), 0);

out_lose:
	lose_foothold(&stranger);
	lose_foothold(&owner);
}

/* It does not listen when its memory is released, and goes on with what it has. */
static void test_attached_after_release(void **state)
{
	struct foothold foothold;
	struct next_owner next;
	uint8_t *page;

	(void)state;
	if (!is_on_local())
		skip();
	gain_foothold(&foothold, "clinging", INTRUDER_ROOM);
	connect_to_attach(&foothold, &foothold.place, RIGHT_ALL);
	assert_int_equal(ask_for_memory(&foothold.data, foothold.remote.key), 0);
	page = attach_page(&foothold.data, &foothold.remote, true, 0);
	memset(page, 'M', 4096);
	intruder_give_back(&foothold.intruder, &foothold.place);
	town_move_in(&town, INTRUDER_ROOM, &next);
	assert_int_equal(count_bytes(page, 4096, NEXT_BYTE), 0);
	memset(page, 'M', 4096);
	town_move_out(&town, &next);
	town_expect_peace(&town, 0);
	data_client_disconnect(&foothold.data);
	munmap(page, 4096);
	lose_foothold(&foothold);
}

/* ---- Guessing */

/* Each guess costs a connection. The victim's memory is there to be hit. */
static void test_guessed_keys(void **state)
{
	const char *wanted = getenv("AFAR_GUESSES");
	uint64_t nr_guesses = wanted ? strtoull(wanted, NULL, 0) : is_long() ? 1000000 : 200;
	struct foothold foothold;
	uint64_t began;

	(void)state;
	gain_foothold(&foothold, "guesses", SMALL);
	began = clock_ns();
	for (uint64_t i = 0; i < nr_guesses; i++) {
		uint8_t memory[64] = {0};
		uint64_t key;

		assert_int_equal(RAND_bytes((uint8_t *)&key, sizeof(key)), 1);
		/* Also close to one that is right. */
		if (i % 2)
			key = foothold.remote.key + (i % 4 == 1 ? i : -i);
		connect_data(&foothold);
		assert_true(data_client_read(&foothold.data, memory, sizeof(memory),
					     foothold.remote.at, key) < 0);
		assert_int_equal(count_bytes(memory, sizeof(memory), 0), sizeof(memory));
		if (i % 1024 == 0)
			town_expect_peace(&town, 0);
	}
	print_message("%llu guesses, %llu a second\n", (unsigned long long)nr_guesses,
		      (unsigned long long)(nr_guesses * 1000000000 / (clock_ns() - began)));
	town_expect_peace(&town, 0);
	lose_foothold(&foothold);
}

/* Few tests share a town: a server logs only so many refusals in a row. */
int main(int argc, char **argv)
{
	const struct CMUnitTest showing[] = {
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_tickets),
		cmocka_unit_test(test_ticket_of_an_ended_session),
		cmocka_unit_test(test_capabilities),
	};
	const struct CMUnitTest keeping[] = {
		cmocka_unit_test(test_read_only_key),
		cmocka_unit_test(test_key_used_after_release),
		cmocka_unit_test(test_key_used_after_rights_are_taken),
		cmocka_unit_test(test_stalled_write),
		cmocka_unit_test(test_stalled_read),
		cmocka_unit_test(test_accomplice_stalls_a_write),
		cmocka_unit_test(test_accomplice_stalls_a_read),
		cmocka_unit_test(test_told_key),
		cmocka_unit_test(test_attaching_without_right),
		cmocka_unit_test(test_attached_after_release),
		cmocka_unit_test(test_expired_ticket),
		cmocka_unit_test(test_expired_pass),
		cmocka_unit_test(test_revoked_principal), /* the last that mallory can do */
	};
	const struct CMUnitTest guessing[] = {
		cmocka_unit_test(test_guessed_keys),
	};
	int nr_failed;

	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	nr_failed = cmocka_run_group_tests(showing, start, stop);
	nr_failed += cmocka_run_group_tests(keeping, start, stop);
	return nr_failed + cmocka_run_group_tests(guessing, start, stop);
}
