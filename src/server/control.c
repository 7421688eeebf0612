/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of clients: tickets for the data port and keys of extents. Runs on the rpc loop's thread; all
 * answers come from memory. Owns the listener and knows its connections, so that it can close them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <urcu/list.h>

#include "base/error.h"
#include "server/control.h"

struct control_client {
	struct cds_list_head node;
	struct rpc_connection *connection; /* alive while this is listed: `closed` unlists it */
};

struct control {
	struct control_options options;
	struct rpc_listener *listener;

	pthread_mutex_t lock;
	pthread_cond_t emptied; /* the last client is gone */
	struct cds_list_head clients;
};

/* ---- Calls */

static void connect_client(struct control *control, const Afar__Connect *request,
			   struct rpc_call *call)
{
	uint64_t incarnation = control->options.incarnation;
	Afar__Ticket ticket = AFAR__TICKET__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	struct rpc_ticket signed_ticket;
	int status;

	if (request->session == 0)
		status = error_fail(-EINVAL, "connect: no session; open one with the manager");
	else
		status = tickets_issue(control->options.tickets, request->session, &signed_ticket);
	if (status != 0) {
		rpc_reply_status(call, incarnation, status);
		return;
	}
	ticket.ticket.data = (uint8_t *)&signed_ticket;
	ticket.ticket.len = sizeof(signed_ticket);
	ticket.incarnation = incarnation;
	reply.result_case = AFAR__REPLY__RESULT_TICKET;
	reply.ticket = &ticket;
	rpc_reply(call, incarnation, &reply);
}

/* The keys of all extents asked for, or none. */
static int find_keys(struct control *control, const Afar__Grant *request, Afar__Key *keys)
{
	size_t i;
	int status;

	for (i = 0; i < request->n_extents; i++) {
		afar__key__init(&keys[i]);
		keys[i].extent = request->extents[i];
		keys[i].transport = (char *)control->options.transport;
		status = extent_pool_key(control->options.pool, request->extents[i],
					 request->namespace_, &keys[i].length, &keys[i].key,
					 &keys[i].origin);
		if (status != 0)
			return status;
	}
	return 0;
}

/* Nobody can have more extents than there are: that also bounds what we allocate and send. */
static int check_grant(struct control *control, const Afar__Grant *request)
{
	struct extent_pool_stat stat;
	int status;

	if (request->session == 0 || request->namespace_ == 0)
		return error_fail(-EINVAL, "grant: no session or no namespace");
	status = tickets_check_session(control->options.tickets, request->session);
	if (status != 0)
		return status;
	extent_pool_stat(control->options.pool, &stat);
	if (request->n_extents > stat.nr_granted)
		return error_fail(-AFAR_ELOST,
				  "grant: %zu extents asked for where the server has %zu; open the "
				  "region again",
				  request->n_extents, stat.nr_granted);
	return 0;
}

static void grant_keys(struct control *control, const Afar__Grant *request, struct rpc_call *call)
{
	uint64_t incarnation = control->options.incarnation;
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Keys result = AFAR__KEYS__INIT;
	Afar__Key *keys = NULL, **pointers = NULL;
	int status;

	status = check_grant(control, request);
	if (status != 0)
		goto out_fail;
	keys = calloc(request->n_extents + 1, sizeof(*keys));
	pointers = calloc(request->n_extents + 1, sizeof(Afar__Key *));
	if (!keys || !pointers) {
		status = error_code(-ENOMEM);
		goto out_fail;
	}
	status = find_keys(control, request, keys);
	if (status != 0)
		goto out_fail;
	for (size_t i = 0; i < request->n_extents; i++)
		pointers[i] = &keys[i];
	result.n_keys = request->n_extents;
	result.keys = pointers;
	result.incarnation = incarnation;
	reply.result_case = AFAR__REPLY__RESULT_KEYS;
	reply.keys = &result;
	rpc_reply(call, incarnation, &reply);
	goto out_free;

out_fail:
	rpc_reply_status(call, incarnation, status);
out_free:
	free(pointers);
	free(keys);
}

static void on_request(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	struct control *control = rpc_connection_context(connection);
	const Afar__Request *request = frame->request;

	switch (request->call_case) {
	case AFAR__REQUEST__CALL_CONNECT:
		connect_client(control, request->connect, call);
		break;
	case AFAR__REQUEST__CALL_GRANT:
		grant_keys(control, request->grant, call);
		break;
	case AFAR__REQUEST__CALL_PING:
		rpc_reply_status(call, control->options.incarnation, 0);
		break;
	default:
		rpc_reply_status(call, control->options.incarnation,
				 error_fail(-EOPNOTSUPP,
					    "call %d: a server does not take it from a client; "
					    "ask the manager",
					    (int)request->call_case));
	}
}

/* ---- Connections */

static void on_opened(struct rpc_connection *connection)
{
	struct control *control = rpc_connection_context(connection);
	struct control_client *client = malloc(sizeof(*client));

	if (!client) {
		rpc_connection_close(connection);
		return;
	}
	client->connection = connection;
	pthread_mutex_lock(&control->lock);
	cds_list_add(&client->node, &control->clients);
	pthread_mutex_unlock(&control->lock);
}

static void on_closed(struct rpc_connection *connection, int status)
{
	struct control *control = rpc_connection_context(connection);
	struct control_client *client;

	(void)status;
	pthread_mutex_lock(&control->lock);
	cds_list_for_each_entry (client, &control->clients, node) {
		if (client->connection != connection)
			continue;
		cds_list_del(&client->node);
		free(client);
		break;
	}
	if (cds_list_empty(&control->clients))
		pthread_cond_broadcast(&control->emptied);
	pthread_mutex_unlock(&control->lock);
}

/* ---- Life */

int control_start(const struct control_options *options, struct control **out)
{
	static const struct rpc_handlers handlers = {
		.request = on_request,
		.opened = on_opened,
		.closed = on_closed,
	};
	struct control *control = calloc(1, sizeof(*control));
	int status;

	if (!control)
		return error_code(-ENOMEM);
	control->options = *options;
	pthread_mutex_init(&control->lock, NULL);
	pthread_cond_init(&control->emptied, NULL);
	CDS_INIT_LIST_HEAD(&control->clients);
	status = rpc_listen(options->loop, options->address, options->keys, options->nr_keys,
			    &handlers, control, &control->listener);
	if (status != 0) {
		pthread_cond_destroy(&control->emptied);
		pthread_mutex_destroy(&control->lock);
		free(control);
		return status;
	}
	*out = control;
	return 0;
}

void control_stop(struct control *control)
{
	struct control_client *client;

	if (!control)
		return;
	rpc_listener_close(control->listener);
	pthread_mutex_lock(&control->lock);
	cds_list_for_each_entry (client, &control->clients, node)
		rpc_connection_close(client->connection);
	while (!cds_list_empty(&control->clients))
		pthread_cond_wait(&control->emptied, &control->lock);
	pthread_mutex_unlock(&control->lock);
	pthread_cond_destroy(&control->emptied);
	pthread_mutex_destroy(&control->lock);
	free(control);
}

const char *control_address(const struct control *control)
{
	return rpc_listener_address(control->listener);
}
