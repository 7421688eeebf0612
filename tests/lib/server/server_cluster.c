/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with a fake manager and a client; see server_cluster.h. */
#include "lib/server/server_cluster.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/transport.h"
#include "lib/rpc/control.h"

void cluster_flash_path(const struct cluster *cluster, char out[static 64])
{
	snprintf(out, 64, "%s/flash", cluster->folder);
}

void start_server(struct cluster *cluster, unsigned nr_progress)
{
	const struct server_lane lanes[] = {
		{test_transport(), is_on_tcp() ? "0.0.0.0:0" : any_port()},
		{test_transport(), any_port()},
	};
	char flash[64];
	const struct server_store store = {flash, cluster->flash_bytes};
	const struct server_options options = {
		.name = "lender",
		.manager_host = "127.0.0.1",
		.manager_port = fake_manager_port(&cluster->manager),
		.key = &cluster->manager.key,
		.control_address = "127.0.0.1:0",
		.lanes = lanes,
		.nr_lanes = cluster->nr_lanes,
		.stores = &store,
		.nr_stores = cluster->flash_bytes != 0,
		.folder = cluster->folder,
		.capacity_bytes = CAPACITY,
		.nr_progress = nr_progress,
	};
	unsigned nr_joins = cluster->manager.nr_joins;

	cluster_flash_path(cluster, flash);

	assert_int_equal(rpc_loop_start("server", &cluster->loop), 0);
	assert_int_equal(server_start(cluster->loop, &options, &cluster->server), 0);
	fake_manager_await(&cluster->manager, cluster->manager.nr_joins > nr_joins);
}

void stop_server(struct cluster *cluster)
{
	server_stop(cluster->server);
	rpc_loop_stop(cluster->loop);
}

int try_control(struct cluster *cluster, const struct key *pass, struct rpc_connection **out)
{
	return control_open(cluster->client_loop, cluster->manager.control, pass, out);
}

void connect_control(struct cluster *cluster, uint64_t session)
{
	struct key pass = fake_manager_pass(&cluster->manager, session);

	if (cluster->control) {
		control_close(cluster->control);
	}
	assert_int_equal(try_control(cluster, &pass, &cluster->control), 0);
	cluster->session = session;
}

static void open_all(struct cluster *cluster, unsigned nr_lanes, unsigned nr_progress)
{
	cluster->nr_lanes = nr_lanes;
	cluster->lane = 0;
	strcpy(cluster->folder, "/tmp/afar-server-XXXXXX");
	assert_non_null(mkdtemp(cluster->folder));
	fake_manager_open(&cluster->manager);
	start_server(cluster, nr_progress);
	assert_int_equal(rpc_loop_start("client", &cluster->client_loop), 0);
	cluster->control = NULL;
	cluster->connection = cluster->replaces = 0;
	cluster->wanted = 0;
	connect_control(cluster, SESSION);
	data_client_open(&cluster->data);
}

void cluster_open_lanes(struct cluster *cluster, unsigned nr_lanes, unsigned nr_progress)
{
	cluster->flash_bytes = 0;
	open_all(cluster, nr_lanes, nr_progress);
}

void cluster_open_flash(struct cluster *cluster, uint64_t bytes)
{
	cluster->flash_bytes = bytes;
	open_all(cluster, 1, 1);
}

void cluster_open(struct cluster *cluster, unsigned nr_progress)
{
	cluster_open_lanes(cluster, 1, nr_progress);
}

void cluster_remove_folder(const char *folder)
{
	char path[300];
	struct dirent *entry;
	DIR *open = opendir(folder);

	assert_non_null(open);
	while ((entry = readdir(open))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(open);
	assert_int_equal(rmdir(folder), 0);
}

void cluster_close_client(struct cluster *cluster)
{
	data_client_close(&cluster->data);
	control_close(cluster->control);
	rpc_loop_stop(cluster->client_loop);
}

void cluster_close(struct cluster *cluster)
{
	cluster_close_client(cluster);
	stop_server(cluster);
	fake_manager_close(&cluster->manager);
	cluster_remove_folder(cluster->folder);
}

/* ---- What a client does */

int ask_ticket(struct cluster *cluster, uint64_t session, uint64_t namespace, uint32_t rights,
	       struct rpc_ticket *out)
{
	Afar__Connect connect = AFAR__CONNECT__INIT;
	Afar__Frame *frame;
	int ret;

	connect.session = session;
	connect.namespace_ = namespace;
	connect.rights = rights;
	connect.replaces = cluster->replaces;
	ret = control_ask_ticket(cluster->control, &connect, out, &frame);
	if (ret)
		return ret;
	assert_int_equal(frame->reply->ticket->incarnation, cluster->manager.incarnation);
	cluster->connection = frame->reply->ticket->connection;
	cluster->replaces = 0;
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

int ask_keys(struct cluster *cluster, uint64_t session, uint64_t namespace, uint64_t *extents,
	     size_t nr_extents, const void *capability, size_t length, struct key_of *out)
{
	Afar__Grant grant = AFAR__GRANT__INIT;
	Afar__Frame *frame;
	Afar__Key *key;
	int ret;

	grant.session = session;
	grant.namespace_ = namespace;
	grant.n_extents = nr_extents;
	grant.extents = extents;
	grant.capability.data = (uint8_t *)(uintptr_t)capability;
	grant.capability.len = length;
	grant.rights = cluster->wanted;
	ret = control_ask_keys(cluster->control, &grant, &frame);
	if (ret)
		return ret;
	assert_int_equal(frame->reply->keys->n_keys, nr_extents * cluster->nr_lanes);
	for (size_t i = 0; i < nr_extents; i++) {
		key = frame->reply->keys->keys[i * cluster->nr_lanes + cluster->lane];
		assert_int_equal(key->lane, cluster->lane);
		assert_int_equal(key->extent, extents[i]);
		assert_string_equal(key->transport, test_transport());
		out[i] = (struct key_of){key->length, key->key, key->origin};
	}
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

int get_keys_with(struct cluster *cluster, uint64_t namespace, uint32_t rights, uint64_t *extents,
		  size_t nr_extents, struct key_of *out)
{
	struct rpc_capability capability = fake_manager_capability(
		&cluster->manager, cluster->session, namespace, rights, extents, nr_extents);

	assert_int_equal(capability_sign(&capability, cluster->manager.signing_key), 0);
	return ask_keys(cluster, cluster->session, namespace, extents, nr_extents, &capability,
			sizeof(capability), out);
}

int get_keys(struct cluster *cluster, uint64_t namespace, uint64_t *extents, size_t nr_extents,
	     struct key_of *out)
{
	return get_keys_with(cluster, namespace, RIGHT_ALL, extents, nr_extents, out);
}

int get_ticket_for(struct cluster *cluster, uint64_t session, uint64_t namespace, uint32_t rights,
		   struct rpc_ticket *out)
{
	int status;

	if (session != cluster->session)
		connect_control(cluster, session);
	status = get_keys_with(cluster, namespace, rights, NULL, 0, NULL);
	return status ? status : ask_ticket(cluster, session, namespace, rights, out);
}

int get_ticket(struct cluster *cluster, uint64_t session, struct rpc_ticket *out)
{
	return get_ticket_for(cluster, session, NAMESPACE, RIGHT_ALL, out);
}

int connect_data_for(struct cluster *cluster, uint64_t session, uint64_t namespace, uint32_t rights)
{
	struct rpc_ticket ticket;

	data_client_disconnect(&cluster->data);
	assert_int_equal(get_ticket_for(cluster, session, namespace, rights, &ticket), 0);
	return data_client_connect(&cluster->data, cluster->manager.data[cluster->lane], &ticket,
				   sizeof(ticket));
}

int connect_data(struct cluster *cluster, uint64_t session)
{
	return connect_data_for(cluster, session, NAMESPACE, RIGHT_ALL);
}

int get_flash_keys(struct cluster *cluster, uint64_t namespace, uint64_t *extents,
		   size_t nr_extents, struct key_of *out)
{
	struct rpc_capability capability = fake_manager_capability(
		&cluster->manager, cluster->session, namespace, RIGHT_ALL, extents, nr_extents);
	Afar__Grant grant = AFAR__GRANT__INIT;
	Afar__Frame *frame;
	int ret;

	assert_int_equal(capability_sign(&capability, cluster->manager.signing_key), 0);
	grant.session = cluster->session;
	grant.namespace_ = namespace;
	grant.n_extents = nr_extents;
	grant.extents = extents;
	grant.capability.data = (uint8_t *)&capability;
	grant.capability.len = sizeof(capability);
	grant.store = cluster->manager.store.number;
	ret = control_ask_keys(cluster->control, &grant, &frame);
	if (ret != 0)
		return ret;
	assert_int_equal(frame->reply->keys->n_keys, nr_extents);
	for (size_t i = 0; i < nr_extents; i++) {
		const Afar__Key *key = frame->reply->keys->keys[i];

		assert_int_equal(key->extent, extents[i]);
		out[i] = (struct key_of){key->length, key->key, key->origin};
	}
	afar__frame__free_unpacked(frame, NULL);
	return 0;
}

int connect_flash(struct cluster *cluster, struct data_client *client, uint64_t session,
		  uint64_t namespace)
{
	struct rpc_ticket ticket;

	data_client_disconnect(client);
	if (session != cluster->session)
		connect_control(cluster, session);
	assert_int_equal(get_flash_keys(cluster, namespace, NULL, 0, NULL), 0);
	assert_int_equal(ask_ticket(cluster, session, namespace, RIGHT_ALL, &ticket), 0);
	return data_client_connect(client, cluster->manager.store.data, &ticket, sizeof(ticket));
}

struct fake_extent reserve_one(struct cluster *cluster, struct key_of *key)
{
	struct fake_extent extent;
	size_t nr_extents = 1;

	assert_int_equal(
		fake_manager_reserve(&cluster->manager, NAMESPACE, 2 * MIB, &extent, &nr_extents),
		0);
	assert_int_equal(nr_extents, 1);
	assert_int_equal(extent.namespace, NAMESPACE);
	assert_int_equal(get_keys(cluster, NAMESPACE, &extent.extent, 1, key), 0);
	assert_int_equal(key->length, 2 * MIB);
	return extent;
}
