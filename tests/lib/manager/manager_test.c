/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of the manager's tests; see manager_test.h. */
#include "lib/manager/manager_test.h"

#include <string.h>

struct fixture fixture;

int setup(void **state)
{
	(void)state;
	fixture_open(&fixture);
	return 0;
}

int teardown(void **state)
{
	(void)state;
	fixture_close(&fixture);
	return 0;
}

uint64_t random_below(uint64_t limit)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 24) % limit;
}

void join_servers(size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		assert_int_equal(fixture_join(&fixture, i, 64 * MIB), 0);
}

void drop(Afar__Reply *reply)
{
	afar__reply__free_unpacked(reply, NULL);
}

struct namespace *ns_of(uint64_t number)
{
	return state_namespace(fixture.core->state, number);
}

void expect_answer_at(Afar__Reply *reply, int status, const char *said, const char *file, int line)
{
	if (reply == NULL) {
		print_error("there is no answer\n");
		_fail(file, line);
		return;
	}
	if (reply->status != status || (said != NULL && strstr(reply->message, said) == NULL)) {
		print_error("%d '%s', and not %d '%s'\n", reply->status, reply->message, status,
			    said != NULL ? said : "");
		_fail(file, line);
	}
	drop(reply);
}

void expect_case(const char *what, struct fake_client *client, Afar__Request *request, int status,
		 const char *said)
{
	Afar__Reply *reply = fixture_ask(&fixture, client, request);

	if (reply->status != status || (said != NULL && strstr(reply->message, said) == NULL))
		fail_msg("%s: %d '%s', and not %d '%s'", what, reply->status, reply->message,
			 status, said != NULL ? said : "");
	drop(reply);
}

Afar__Reply *must(struct fake_client *client, Afar__Request *request)
{
	Afar__Reply *reply = fixture_ask(&fixture, client, request);

	assert_int_equal(reply->status, 0);
	return reply;
}

Afar__RegionInfo *must_open(struct fake_client *client, Afar__Request *request, Afar__Reply **reply)
{
	*reply = must(client, request);
	assert_int_equal((*reply)->result_case, AFAR__REPLY__RESULT_REGION_INFO);
	return (*reply)->region_info;
}

void send_again(struct fake_client *client, uint64_t id, Afar__Request *request,
		Afar__Reply **answer)
{
	fixture_send(&fixture, client, id, request, answer);
	cds_list_entry(fixture.events.prev, struct event, node)->settled_below = id;
}
