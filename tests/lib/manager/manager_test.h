/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of the manager's tests begin with this: the fixture, made anew for every test, and the
 * words the tests are written in. A failure in here fails the test.
 */
#ifndef TESTS_MANAGER_TEST_H
#define TESTS_MANAGER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/manager/manager_checks.h"
#include "lib/manager/manager_fixture.h"
#include "lib/manager/manager_requests.h"

extern struct fixture fixture;

/* For cmocka: these make the fixture, and end it. */
int setup(void **state);
int teardown(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Rolls dice, which fall the same way each time. */
uint64_t random_below(uint64_t limit);

/* Servers 0 to nr - 1 join, with 64 MiB each. */
void join_servers(size_t nr);

/* Frees a reply. */
void drop(Afar__Reply *reply);
struct namespace *ns_of(uint64_t number);

/* The client asks, and is answered so. */
#define EXPECT(client, request, status_) \
	assert_int_equal(fixture_do(&fixture, (client), (request)), (status_))

/* The client is answered so, and the sentence says why. */
#define expect_said(client, request, status, said) \
	expect_answer(fixture_ask(&fixture, (client), (request)), (status), (said))
/* Asks what a row of a table of cases asks; a failure names the row. `said`: NULL, or in the answer's sentence. */
void expect_case(const char *what, struct fake_client *client, Afar__Request *request, int status,
		 const char *said);
/* A request that was sent has been answered so; drops the reply. `said`: NULL, or in its sentence. */
#define expect_answer(reply, status, said) \
	expect_answer_at((reply), (status), (said), __FILE__, __LINE__)
void expect_answer_at(Afar__Reply *reply, int status, const char *said, const char *file, int line);
/* It succeeds; the caller drops the reply. */
Afar__Reply *must(struct fake_client *client, Afar__Request *request);
/* An alloc or open that succeeds; the caller drops the reply. */
Afar__RegionInfo *must_open(struct fake_client *client, Afar__Request *request,
			    Afar__Reply **reply);
/*
 * A request that comes again when the client has the replies to all before it, as it may not have
 * had the first time.
 */
void send_again(struct fake_client *client, uint64_t id, Afar__Request *request,
		Afar__Reply **answer);

#endif
