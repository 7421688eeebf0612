/* SPDX-License-Identifier: BSD-3-Clause */
/* What each of the manager's test programs begins with: its fixture, made anew for every test, and the
 * words the tests are written in. Included once, by a program's only file. */
#ifndef TESTS_MANAGER_TEST_H
#define TESTS_MANAGER_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "manager_fixture.h"

static struct fixture fixture;
static uint64_t seed = 1;

static inline int setup(void **state)
{
	(void)state;
	fixture_open(&fixture);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	fixture_close(&fixture);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static inline uint64_t random_below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 24) % limit;
}

static inline void drop(Afar__Reply *reply)
{
	afar__reply__free_unpacked(reply, NULL);
}

static inline struct namespace *ns_of(uint64_t number)
{
	return state_namespace(fixture.core->state, number);
}

/* What the client asks is answered so. */
#define EXPECT(client, request, status_) \
	assert_int_equal(fixture_do(&fixture, (client), (request)), (status_))

/* And the sentence says why. */
static inline void expect_said(struct fake_client *client, Afar__Request *request, int status,
			       const char *said)
{
	Afar__Reply *reply = fixture_ask(&fixture, client, request);

	assert_int_equal(reply->status, status);
	if (strstr(reply->message, said) == NULL)
		fail_msg("'%s' does not say '%s'", reply->message, said);
	drop(reply);
}

/* It succeeds; the caller drops the reply. */
static inline Afar__Reply *must(struct fake_client *client, Afar__Request *request)
{
	Afar__Reply *reply = fixture_ask(&fixture, client, request);

	assert_int_equal(reply->status, 0);
	return reply;
}

/* A request that comes again when the client has the replies to all before it, as it may not have had the first time. */
static inline void send_again(struct fake_client *client, uint64_t id, Afar__Request *request,
			      Afar__Reply **answer)
{
	fixture_send(&fixture, client, id, request, answer);
	cds_list_entry(fixture.events.prev, struct event, node)->settled_below = id;
}

/* An alloc or open that succeeds; the caller drops the reply. */
static inline Afar__RegionInfo *must_open(struct fake_client *client, Afar__Request *request,
					  Afar__Reply **reply)
{
	*reply = must(client, request);
	assert_int_equal((*reply)->result_case, AFAR__REPLY__RESULT_REGION_INFO);
	return (*reply)->region_info;
}

#endif
