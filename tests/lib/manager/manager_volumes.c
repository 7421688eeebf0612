/* SPDX-License-Identifier: BSD-3-Clause */
/* See manager_volumes.h. */
#include "lib/manager/manager_volumes.h"

#include <endian.h>
#include <string.h>

#include "rpc/capability.h"

struct fake_client third, reader; /* the others are manager_files.c's */
uint64_t vol;

void make_volume(const char *name, uint64_t reserved, uint64_t bytes, uint64_t *number)
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

int begin_volumes(void **state)
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

int end_volumes(void **state)
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

struct region *region_of(uint64_t number)
{
	return cds_list_first_entry(&ns_of(number)->regions, struct region, node);
}

Afar__RegionInfo name_of(uint64_t number)
{
	Afar__RegionInfo info = AFAR__REGION_INFO__INIT;

	info.namespace_ = number;
	info.address = region_of(number)->address;
	info.generation = region_of(number)->generation;
	return info;
}

void close_volume(struct fake_client *who)
{
	const Afar__RegionInfo info = name_of(vol);

	EXPECT(who, ask_close(&info), 0);
}

Afar__VolumeInfo *look(struct fake_client *who, const char *name, Afar__Reply **reply)
{
	*reply = must(who, ask_namespace(name));
	assert_non_null((*reply)->namespace_info->volume);
	return (*reply)->namespace_info->volume;
}

enum volume_mode mode_of(const struct fake_client *who)
{
	const struct session *session = state_session(fixture.core->state, who->session);
	const struct reference *reference =
		session ? session_reference(session, region_of(vol)->generation) : NULL;

	return reference ? reference->mode : VOLUME_NONE;
}

void expect_capabilities(Afar__Access *const *accesses, size_t nr, uint32_t rights)
{
	assert_int_not_equal(nr, 0);
	for (size_t i = 0; i < nr; i++) {
		struct rpc_capability capability;

		assert_int_equal(accesses[i]->capability.len, sizeof(capability));
		memcpy(&capability, accesses[i]->capability.data, sizeof(capability));
		assert_int_equal(le32toh(capability.rights), rights);
	}
}

void expect_rights_again(struct fake_client *who, uint32_t rights)
{
	const Afar__RegionInfo info = name_of(vol);
	Afar__Reply *reply = must(who, ask_access(&info));

	expect_capabilities(reply->accesses->entries, reply->accesses->n_entries, rights);
	drop(reply);
}
