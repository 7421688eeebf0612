/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of clients: tickets for the data port and keys of extents. Runs on the rpc loop's thread;
 * all answers come from memory. Owns the listener and knows its connections, so that it can close
 * them.
 *
 * Logs refusals that a correct client never meets, because they may be attempts to break in.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include "base/error.h"
#include "base/log.h"
#include "fabric/paged.h"
#include "rpc/capability.h"
#include "rpc/pass.h"
#include "server/control/control.h"

/* Connections of one session; one more, and the oldest is closed. A session has one for the DRAM,
 * and one for each store. */
#define NR_PER_SESSION (8U + STORES_MAX)

struct control_client {
	struct cds_list_head node;
	struct rpc_connection *connection; /* alive while this is listed: `closed` unlists it */
	uint64_t session;
};

struct control {
	struct control_options options;
	struct rpc_listener *listener;
	struct log_limit complaints;

	pthread_mutex_t lock;
	pthread_cond_t emptied;	      /* the last client has been removed */
	struct cds_list_head clients; /* newest first */
};

/* ---- Passes */

/* Rejects a pass or capability that would outlive our record of ended sessions; otherwise an ended
 * session could connect again. */
static int check_lifetime(uint32_t age, uint32_t expiry, const char *what)
{
	if (expiry <= age || expiry - age <= PASS_LIFETIME_MAX_S)
		return 0;
	return error_fail(-EACCES,
			  "the %s is good for %u s more, and not for %u at most: this machine's "
			  "clock and the manager's do not run alike; let both be set by NTP, and "
			  "restart the server",
			  what, expiry - age, PASS_LIFETIME_MAX_S);
}

static int check_pass(struct control *control, const char *identity)
{
	uint32_t age = incarnation_age_s(control->options.incarnation);
	uint64_t session;
	uint32_t expiry;
	int ret;

	if (!pass_parse(identity, &session, &expiry))
		return error_fail(-EACCES, "it is no pass");
	if (age > expiry)
		return error_fail(-EACCES, "the pass has expired");
	ret = check_lifetime(age, expiry, "pass");
	if (ret != 0)
		return ret;
	return tickets_check_session(control->options.tickets, session);
}

/* Finds the key of a pass, for its handshake. */
static bool find_key(void *context, const char *identity, uint8_t secret[KEY_BYTES])
{
	struct control *control = context;

	if (check_pass(control, identity) == 0 &&
	    pass_key(control->options.incarnation->signing_key, identity, secret) == 0)
		return true;
	log_limited(&control->complaints, LOG_LEVEL_WARN,
		    "refused a control connection as '%s': %s", identity, error_last_line());
	return false;
}

/* Returns the session that a connection is bound to. */
static uint64_t session_of(const struct rpc_connection *connection)
{
	uint64_t session;
	uint32_t expiry;

	/* The handshake accepts no identity that is not a pass. */
	return pass_parse(rpc_connection_identity(connection), &session, &expiry) ? session : 0;
}

/* Checks that a request is for the session that its connection is bound to, and that the session
 * lives. */
static int check_session(struct control *control, const struct rpc_connection *connection,
			 uint64_t session, const char *what)
{
	if (session == 0)
		return error_fail(-EINVAL, "%s: no session; open one with the manager", what);
	if (session != session_of(connection))
		return error_fail(-EACCES, "%s: session %llx: the pass is another session's", what,
				  (unsigned long long)session);
	return tickets_check_session(control->options.tickets, session);
}

static void refuse(struct control *control, const struct rpc_connection *connection,
		   struct rpc_call *call, int status)
{
	if (status == -EACCES)
		log_limited(&control->complaints, LOG_LEVEL_WARN, "refused %s (%s): %s",
			    rpc_connection_peer(connection), rpc_connection_identity(connection),
			    error_last_line());
	rpc_reply_status(call, control->options.incarnation->number, status);
}

/* ---- Tickets */

/* A ticket that waits to be sent until the connection that it replaces is closed. */
struct reconnection {
	struct rpc_call *call;
	uint64_t incarnation;
	struct rpc_ticket ticket;
	uint64_t connection;
	uint64_t changes;
	struct admission replaced;
};

static void give_ticket(void *argument)
{
	struct reconnection *reconnection = argument;
	Afar__Ticket ticket = AFAR__TICKET__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;

	ticket.ticket.data = (uint8_t *)&reconnection->ticket;
	ticket.ticket.len = sizeof(reconnection->ticket);
	ticket.incarnation = reconnection->incarnation;
	ticket.connection = reconnection->connection;
	ticket.changes = reconnection->changes;
	reply.result_case = AFAR__REPLY__RESULT_TICKET;
	reply.ticket = &ticket;
	rpc_reply(reconnection->call, reconnection->incarnation, &reply);
	free(reconnection);
}

static bool is_replaced(const void *argument, const struct admission *connection)
{
	const struct admission *replaced = &((const struct reconnection *)argument)->replaced;

	return connection->session == replaced->session &&
	       connection->connection == replaced->connection;
}

/* Closes the connection that a new one replaces. An operation that was posted on the old one must
 * not land behind operations on the new one. A client that stopped waiting does not know what the
 * server does when it goes on. */
static int close_replaced(struct control *control, struct reconnection *reconnection)
{
	const struct progress_order order = {is_replaced, give_ticket, reconnection, true};
	struct lanes_closing *closing;
	int ret;

	ret = lanes_closing_new(control->options.lanes, &closing);
	if (ret != 0)
		return ret;
	tickets_cancel(control->options.tickets, reconnection->replaced.session,
		       reconnection->replaced.connection);
	lanes_close_connections(closing, &order);
	return 0;
}

static int make_ticket(struct control *control, const struct rpc_connection *connection,
		       const Afar__Connect *request, struct reconnection *out)
{
	struct admission admission = {
		.session = request->session,
		.reach = {request->namespace_, (request->rights & RIGHT_WRITE) != 0},
		.attaches = request->attaches,
	};
	int ret;

	ret = check_session(control, connection, request->session, "connect");
	if (ret == 0 && request->rights != RIGHT_READ && request->rights != RIGHT_ALL)
		ret = error_fail(-EACCES, "connect: rights %x are none that there are",
				 request->rights);
	if (ret == 0)
		ret = tickets_issue(control->options.tickets, &admission, &out->ticket);
	out->connection = admission.connection;
	out->changes = admission.changes;
	out->replaced.session = request->session;
	out->replaced.connection = request->replaces;
	return ret;
}

static void connect_client(struct control *control, const struct rpc_connection *connection,
			   const Afar__Connect *request, struct rpc_call *call)
{
	struct reconnection *reconnection = calloc(1, sizeof(*reconnection));
	int ret;

	if (!reconnection) {
		refuse(control, connection, call, error_code(-ENOMEM));
		return;
	}
	reconnection->call = call;
	reconnection->incarnation = control->options.incarnation->number;
	ret = make_ticket(control, connection, request, reconnection);
	if (ret == 0 && request->replaces == 0)
		give_ticket(reconnection);
	else if (ret == 0)
		ret = close_replaced(control, reconnection);
	if (ret != 0) {
		free(reconnection);
		refuse(control, connection, call, ret);
	}
}

/* ---- Keys */

/* Checks that the capability covers exactly these extents: then their digest is the same. */
static int check_extents(const Afar__Grant *request, const struct rpc_capability *capability)
{
	uint8_t digest[CAPABILITY_DIGEST_BYTES];
	int ret;

	ret = capability_digest(request->extents, request->n_extents, digest);
	if (ret == -ENOMEM)
		return ret;
	if (ret != 0 || CRYPTO_memcmp(digest, capability->digest, sizeof(digest)) != 0)
		return error_fail(-EACCES,
				  "grant: the capability is for other extents than the "
				  "%zu named",
				  request->n_extents);
	return 0;
}

static int fail_no_store(const Afar__Grant *request)
{
	return error_fail(-AFAR_ESERVER,
			  "grant: store %016llx is not at this server; open the region again",
			  (unsigned long long)request->store);
}

/* Rejects more extents than there are, which also bounds what we allocate and send. */
static int check_number(struct control *control, const Afar__Grant *request)
{
	struct extent_pool_stat stat;
	struct store *store;
	size_t nr;

	if (request->store != 0) {
		stores_lock(control->options.stores);
		store = stores_find(control->options.stores, request->store);
		nr = store ? store_nr_extents(store) : 0;
		stores_unlock(control->options.stores);
		if (!store)
			return fail_no_store(request);
	} else {
		extent_pool_stat(control->options.pool, &stat);
		nr = stat.nr_granted;
	}
	if (request->n_extents > nr)
		return error_fail(-AFAR_ELOST,
				  "grant: %zu extents asked for where the server has %zu; open the "
				  "region again",
				  request->n_extents, nr);
	return 0;
}

/* Checks that the manager's capability allows what the session asks for, and with which rights. */
static int check_grant(struct control *control, const struct rpc_connection *connection,
		       const Afar__Grant *request, uint32_t *rights)
{
	const struct incarnation *incarnation = control->options.incarnation;
	uint32_t age = incarnation_age_s(incarnation);
	struct rpc_capability capability;
	int ret;

	ret = check_session(control, connection, request->session, "grant");
	if (ret == 0)
		ret = capability_verify(request->capability.data, request->capability.len,
					incarnation->signing_key, incarnation->number, age,
					&capability);
	if (ret == 0)
		ret = check_lifetime(age, capability.expiry, "capability");
	if (ret != 0)
		return ret;
	if (capability.session != request->session)
		return error_fail(-EACCES, "grant: the capability is another session's");
	*rights = request->rights ? request->rights : capability.rights;
	if ((*rights != RIGHT_READ && *rights != RIGHT_ALL) || (*rights & ~capability.rights))
		return error_fail(-EACCES, "grant: the capability is not for rights %x", *rights);
	if (request->namespace_ == 0 || capability.namespace != request->namespace_)
		return error_fail(-EACCES, "grant: the capability is for another namespace");
	ret = check_extents(request, &capability);
	if (ret == 0)
		ret = check_number(control, request);
	return ret;
}

/* An answer to a grant: a key for each extent on each lane. */
struct granted_keys {
	size_t nr_keys;
	Afar__Key *keys;
	Afar__Key **pointers;
};

static void tell_key(struct control *control, uint64_t extent, const struct extent_key *found,
		     unsigned lane, Afar__Key *out)
{
	afar__key__init(out);
	out->extent = extent;
	out->length = found->length;
	out->transport = (char *)lanes_transport(control->options.lanes, lane);
	out->lane = lane;
	out->key = found->on[lane].key;
	out->origin = found->on[lane].origin;
}

/* Finds the keys of all extents asked for, or none. */
static int find_keys(struct control *control, const Afar__Grant *request, struct reach reach,
		     struct granted_keys *out)
{
	const unsigned nr_lanes = lanes_nr(control->options.lanes);
	struct extent_key found;
	int ret;

	/* check_number() has bounded this by the extents that there are. */
	out->keys = calloc(request->n_extents * nr_lanes + 1, sizeof(*out->keys));
	out->pointers = calloc(request->n_extents * nr_lanes + 1, sizeof(Afar__Key *));
	if (!out->keys || !out->pointers)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < request->n_extents; i++) {
		ret = extent_pool_key(control->options.pool, request->extents[i], reach, &found);
		if (ret != 0)
			return ret;
		for (unsigned lane = 0; lane < nr_lanes; lane++) {
			Afar__Key *key = &out->keys[out->nr_keys];

			tell_key(control, request->extents[i], &found, lane, key);
			out->pointers[out->nr_keys++] = key;
		}
	}
	return 0;
}

static int entitle_and_find_keys(struct control *control, const Afar__Grant *request,
				 uint32_t rights, struct granted_keys *out)
{
	const struct admission admission = {
		.session = request->session,
		.reach = {request->namespace_, (rights & RIGHT_WRITE) != 0},
	};
	int ret = tickets_entitle(control->options.tickets, &admission);

	if (ret == 0)
		ret = find_keys(control, request, admission.reach, out);
	/* The namespace may have gone before it was entitled, and nothing else would forget it
	 * then. */
	if (ret != 0)
		tickets_forget_namespace(control->options.tickets, control->options.pool,
					 control->options.stores, request->namespace_);
	return ret;
}

/* ---- Keys of a store, which its thread gives */

/* It may outlive the control port: the store's thread ends later. */
struct store_grant {
	struct store_keys keys;
	struct control_options options;
	struct rpc_call *call;
	uint64_t namespace;
	uint64_t *extents;
};

static void free_store_grant(struct store_grant *grant)
{
	free(grant->extents);
	free(grant->keys.keys);
	free(grant);
}

static int reply_store_keys(struct store_grant *grant)
{
	const uint64_t incarnation = grant->options.incarnation->number;
	const struct store *store = grant->keys.store;
	const size_t nr_lanes = store_nr_lanes(store), nr = grant->keys.nr_extents * nr_lanes;
	Afar__Key *keys = calloc(nr + 1, sizeof(*keys));
	Afar__Key **pointers = calloc(nr + 1, sizeof(Afar__Key *));
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Keys result = AFAR__KEYS__INIT;

	for (size_t i = 0; i < nr && keys && pointers; i++) {
		const struct extent_key *found = &grant->keys.keys[i / nr_lanes];
		const unsigned lane = (unsigned)(i % nr_lanes);

		afar__key__init(&keys[i]);
		keys[i].extent = grant->extents[i / nr_lanes];
		keys[i].length = found->length;
		keys[i].transport = (char *)store_lane_transport(store, lane);
		keys[i].lane = lane;
		keys[i].key = found->on[store_lane_fabric(store, lane)].key;
		keys[i].origin = found->on[store_lane_fabric(store, lane)].origin;
		pointers[i] = &keys[i];
	}
	if (keys && pointers) {
		result.n_keys = nr;
		result.keys = pointers;
		result.incarnation = incarnation;
		result.hints = FABRIC_PAGED_HINTS;
		reply.result_case = AFAR__REPLY__RESULT_KEYS;
		reply.keys = &result;
		rpc_reply(grant->call, incarnation, &reply);
	}
	free(pointers);
	free(keys);
	return keys && pointers ? 0 : error_code(-ENOMEM);
}

/* Answers, on the store's thread. */
static void on_store_keys(struct store_keys *keys, int status)
{
	struct store_grant *grant = caa_container_of(keys, struct store_grant, keys);
	const struct control_options *options = &grant->options;

	if (status == 0)
		status = reply_store_keys(grant);
	if (status != 0) {
		rpc_reply_status(grant->call, options->incarnation->number, status);
		tickets_forget_namespace(options->tickets, options->pool, options->stores,
					 grant->namespace);
	}
	free_store_grant(grant);
}

static int grant_store_keys(struct control *control, const Afar__Grant *request, uint32_t rights,
			    struct rpc_call *call)
{
	const struct admission admission = {
		.session = request->session,
		.reach = {request->namespace_, (rights & RIGHT_WRITE) != 0},
	};
	struct store_grant *grant = calloc(1, sizeof(*grant));
	struct store *store;
	int ret;

	if (!grant)
		return error_code(-ENOMEM);
	grant->options = control->options;
	grant->call = call;
	grant->namespace = request->namespace_;
	grant->extents = calloc(request->n_extents + 1, sizeof(*grant->extents));
	grant->keys = (struct store_keys){
		.reach = admission.reach,
		.extents = grant->extents,
		.nr_extents = request->n_extents,
		.keys = calloc(request->n_extents + 1, sizeof(*grant->keys.keys)),
		.done = on_store_keys,
	};
	if (request->n_extents > 0 && grant->extents)
		memcpy(grant->extents, request->extents,
		       request->n_extents * sizeof(*grant->extents));
	ret = grant->extents && grant->keys.keys
		      ? tickets_entitle(control->options.tickets, &admission)
		      : error_code(-ENOMEM);
	if (ret == 0) {
		stores_lock(control->options.stores);
		store = stores_find(control->options.stores, request->store);
		ret = store ? store_get_keys(store, &grant->keys) : fail_no_store(request);
		stores_unlock(control->options.stores);
	}
	if (ret != 0)
		free_store_grant(grant);
	return ret;
}

static void grant_keys(struct control *control, const struct rpc_connection *connection,
		       const Afar__Grant *request, struct rpc_call *call)
{
	uint64_t incarnation = control->options.incarnation->number;
	struct granted_keys granted = {0};
	Afar__Reply reply = AFAR__REPLY__INIT;
	Afar__Keys result = AFAR__KEYS__INIT;
	uint32_t rights;
	int ret;

	ret = check_grant(control, connection, request, &rights);
	if (ret == 0 && request->store != 0) {
		ret = grant_store_keys(control, request, rights, call);
		if (ret != 0)
			refuse(control, connection, call, ret);
		return;
	}
	if (ret == 0)
		ret = entitle_and_find_keys(control, request, rights, &granted);
	if (ret == 0) {
		result.n_keys = granted.nr_keys;
		result.keys = granted.pointers;
		result.incarnation = incarnation;
		reply.result_case = AFAR__REPLY__RESULT_KEYS;
		reply.keys = &result;
		rpc_reply(call, incarnation, &reply);
	} else {
		refuse(control, connection, call, ret);
	}
	free(granted.pointers);
	free(granted.keys);
}

static void on_request(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	struct control *control = rpc_connection_context(connection);
	const Afar__Request *request = frame->request;

	switch (request->call_case) {
	case AFAR__REQUEST__CALL_CONNECT:
		connect_client(control, connection, request->connect, call);
		break;
	case AFAR__REQUEST__CALL_GRANT:
		grant_keys(control, connection, request->grant, call);
		break;
	case AFAR__REQUEST__CALL_PING:
		rpc_reply_status(call, control->options.incarnation->number, 0);
		break;
	default:
		rpc_reply_status(call, control->options.incarnation->number,
				 error_fail(-EOPNOTSUPP,
					    "call %d: a server does not take it from a client; "
					    "ask the manager",
					    (int)request->call_case));
	}
}

/* ---- Connections */

/* Closes the session's oldest connections beyond NR_PER_SESSION. A session needs one, and none may
 * take all descriptors. The caller holds the lock. */
static void close_surplus(struct control *control, uint64_t session)
{
	struct control_client *client;
	unsigned nr = 0;

	cds_list_for_each_entry (client, &control->clients, node) {
		if (client->session == session && ++nr > NR_PER_SESSION)
			rpc_connection_close(client->connection);
	}
}

static void on_opened(struct rpc_connection *connection)
{
	struct control *control = rpc_connection_context(connection);
	struct control_client *client = malloc(sizeof(*client));

	if (!client) {
		rpc_connection_close(connection);
		return;
	}
	client->connection = connection;
	client->session = session_of(connection);
	/* The session may have ended since the pass was checked. */
	if (tickets_check_session(control->options.tickets, client->session) != 0)
		rpc_connection_close(connection);
	pthread_mutex_lock(&control->lock);
	cds_list_add(&client->node, &control->clients);
	close_surplus(control, client->session);
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
	const struct rpc_keyring keyring = {.find = find_key, .context = control};
	int ret;

	if (!control)
		return error_code(-ENOMEM);
	control->options = *options;
	pthread_mutex_init(&control->lock, NULL);
	pthread_cond_init(&control->emptied, NULL);
	CDS_INIT_LIST_HEAD(&control->clients);
	ret = rpc_listen(options->loop, options->address, &keyring, &handlers, control,
			 &control->listener);
	if (ret != 0) {
		pthread_cond_destroy(&control->emptied);
		pthread_mutex_destroy(&control->lock);
		free(control);
		return ret;
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

void control_end_session(struct control *control, uint64_t session)
{
	struct control_client *client;

	pthread_mutex_lock(&control->lock);
	cds_list_for_each_entry (client, &control->clients, node) {
		if (client->session == session)
			rpc_connection_close(client->connection);
	}
	pthread_mutex_unlock(&control->lock);
}

void control_end_all(struct control *control)
{
	struct control_client *client;

	pthread_mutex_lock(&control->lock);
	cds_list_for_each_entry (client, &control->clients, node)
		rpc_connection_close(client->connection);
	pthread_mutex_unlock(&control->lock);
}

const char *control_address(const struct control *control)
{
	return rpc_listener_address(control->listener);
}
