/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: opening and closing, and the connection to the manager. */
#include "client/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/error.h"
#include "base/forks.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/session/registrations.h"
#include "client/target/peer.h"

#define DEFAULT_TIMEOUT_MS 30000
#define DEFAULT_SPIN_US	   50
#define RETRY_MIN_MS	   20
#define RETRY_MAX_MS	   1000
#define RETRIES_PER_LEASE  4U
#define CLOSE_MS	   1000 /* how long closing waits for the manager's answer */

/* ---- The connection to the manager. Everything here runs on the control thread. */

static void set_state(struct afar_session *session, enum session_state state, int status)
{
	session->state = state;
	session->state_status = status;
	pthread_cond_broadcast(&session->changed);
}

static void connect_again(void *argument);

static int check_opened(const struct afar_session *session, const Afar__Reply *reply)
{
	const Afar__SessionOpened *opened = reply->session_opened;

	if (reply->status)
		return reply->status;
	if (reply->result_case != AFAR__REPLY__RESULT_SESSION_OPENED || opened->session == 0 ||
	    opened->secret.len != sizeof(session->secret))
		return -AFAR_EMALFORMED;
	/* A manager that resumes us as another session does not know what is open here. */
	if (session->number && session->number != opened->session)
		return -AFAR_EMALFORMED;
	if (session->cluster && strcmp(session->cluster, opened->cluster) != 0)
		return -ESTALE;
	return 0;
}

/* Retries several times per lease, because a lease begins anew when the manager is back. */
static uint32_t retry_max_ms(uint32_t lease_ms)
{
	uint32_t ms = lease_ms / RETRIES_PER_LEASE;

	return ms < RETRY_MIN_MS ? RETRY_MIN_MS : ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms;
}

/* True if asking again cannot help. A manager that cannot resume a session now, for example because
 * its store is full, may be able to later. */
static bool is_final(const struct afar_session *session, int status)
{
	return !session->number || status == -AFAR_ESESSION || status == -AFAR_EAUTH ||
	       status == -EACCES || status == -AFAR_EVERSION || status == -AFAR_EMALFORMED ||
	       status == -ESTALE;
}

static void take_answer(struct afar_session *session, const Afar__Reply *reply)
{
	int status = check_opened(session, reply);

	if (status) {
		if (!session->refusal && reply->message && reply->message[0])
			session->refusal = strdup(reply->message);
		if (is_final(session, status))
			set_state(session, SESSION_ENDED, status);
		/* Closes the connection, so that we try again, or the manager does not think that
		 * the session goes on. */
		if (session->manager)
			rpc_connection_close(session->manager);
		return;
	}
	if (!session->number) {
		session->number = reply->session_opened->session;
		memcpy(session->secret, reply->session_opened->secret.data,
		       sizeof(session->secret));
		session->retry.max_ms = retry_max_ms(reply->session_opened->lease_ms);
		snprintf(session->principal, sizeof(session->principal), "%s",
			 reply->session_opened->principal);
		session->cluster = strdup(reply->session_opened->cluster);
	}
	session->features = reply->session_opened->features; /* a newer manager may have come */
	backoff_reset(&session->retry);
	session->events->resumed(session);
	set_state(session, SESSION_UP, 0);
}

static void session_opened(void *argument, const Afar__Frame *frame, int status)
{
	struct afar_session *session = argument;

	bool has_ended = false;

	pthread_mutex_lock(&session->lock);
	if (session->state == SESSION_ENDED) {
		/* The session is being closed: nobody waits for the answer. */
	} else if (frame) {
		take_answer(session, frame->reply);
		has_ended = session->state == SESSION_ENDED;
	} else if (status == -ETIMEDOUT && session->manager) {
		/* Treats a manager that does not answer as gone: manager_closed() tries again. */
		rpc_connection_close(session->manager);
	}
	pthread_mutex_unlock(&session->lock);
	if (has_ended)
		session->events->ended(session);
}

static void describe_client(char *out, size_t size)
{
	char host[64] = "?";

	gethostname(host, sizeof(host) - 1);
	snprintf(out, size, "%s:%d %s", host, (int)getpid(), program_invocation_short_name);
}

static void manager_opened(struct rpc_connection *connection)
{
	struct afar_session *session = rpc_connection_context(connection);
	Afar__SessionOpen open = AFAR__SESSION_OPEN__INIT;
	struct rpc_envelope envelope = {.deadline = session_deadline(session)};
	char client[256];
	int ret;

	describe_client(client, sizeof(client));
	open.client = client;
	open.resume = session->number;
	if (session->number) {
		open.secret.data = session->secret;
		open.secret.len = sizeof(session->secret);
		open.cluster = session->cluster ? session->cluster : open.cluster;
	}
	ret = rpc_send(connection, &envelope, RPC_REQUEST(SESSION_OPEN, session_open, &open),
		       session_opened, session);
	if (ret)
		rpc_connection_close(connection);
}

/* True if an overloaded manager may have closed or refused the connection before we authenticated.
 * Opening the session then tries again until the caller's timeout. */
static bool may_open_again(int status)
{
	return status == -ECONNRESET || status == -ETIMEDOUT;
}

static void manager_closed(struct rpc_connection *connection, int status)
{
	struct afar_session *session = rpc_connection_context(connection);
	uint32_t delay_ms = 0;
	bool has_ended = false;

	status = status ? status : -ECONNRESET;
	pthread_mutex_lock(&session->lock);
	if (session->manager == connection) {
		session->manager = NULL;
		rpc_connection_unref(connection);
	}
	if (session->state == SESSION_OPENING && may_open_again(status)) {
		delay_ms = backoff_next_ms(&session->retry);
	} else if (session->state == SESSION_OPENING) {
		/* Nothing was promised yet, so opening the session fails at once. */
		set_state(session, SESSION_ENDED, status);
	} else if (session->state != SESSION_ENDED && status == -AFAR_EAUTH) {
		/* The key was good before: it has been revoked. */
		set_state(session, SESSION_ENDED, status);
		has_ended = true;
	} else if (session->state != SESSION_ENDED) {
		set_state(session, SESSION_DOWN, status);
		delay_ms = backoff_next_ms(&session->retry);
	}
	pthread_mutex_unlock(&session->lock);
	if (has_ended)
		session->events->ended(session);
	if (delay_ms)
		rpc_loop_timer(session->loop, delay_ms, connect_again, session);
}

/* Answers requests of the manager. */
static void manager_asks(struct rpc_connection *connection, const Afar__Frame *frame,
			 struct rpc_call *call)
{
	struct afar_session *session = rpc_connection_context(connection);

	if (frame->request->call_case == AFAR__REQUEST__CALL_LOOK)
		counts_answer(session, call);
	else if (!session->events->asked(session, frame->request, call))
		rpc_reply_status(call, 0,
				 error_fail(-EOPNOTSUPP, "call %d: a client does not take it",
					    (int)frame->request->call_case));
}

static const struct rpc_handlers manager_handlers = {
	.request = manager_asks,
	.opened = manager_opened,
	.closed = manager_closed,
};

/* Begins to connect to the manager. Call it on the control thread, so that no callback comes in
 * between, or with the lock held before other threads know the session. Resolving the name may take
 * long. */
static int connect_manager(struct afar_session *session, struct rpc_connection **out)
{
	return rpc_connect(session->loop, session->uri.host, session->uri.port, &session->key,
			   &manager_handlers, session, out);
}

static void connect_again(void *argument)
{
	struct afar_session *session = argument;
	struct rpc_connection *connection;
	bool is_wanted;

	pthread_mutex_lock(&session->lock);
	is_wanted = (session->state == SESSION_DOWN || session->state == SESSION_OPENING) &&
		    !session->manager;
	pthread_mutex_unlock(&session->lock);
	if (!is_wanted)
		return;
	if (connect_manager(session, &connection) != 0) {
		rpc_loop_timer(session->loop, session->retry.max_ms, connect_again, session);
		return;
	}
	pthread_mutex_lock(&session->lock);
	session->manager = connection;
	pthread_mutex_unlock(&session->lock);
}

/* ---- Opening and closing */

static const char *default_key_file(const struct uri *uri,
				    const struct afar_session_options *options)
{
	const char *environment = getenv("AFAR_KEY");

	if (options->key_file)
		return options->key_file;
	if (uri->key_file[0])
		return uri->key_file;
	if (environment && environment[0])
		return environment;
	return NULL;
}

static int load_key(struct afar_session *session, const struct afar_session_options *options)
{
	const char *file = default_key_file(&session->uri, options);
	const char *home = getenv("HOME");
	char path[PATH_MAX], here[PATH_MAX];
	bool is_default = !file;
	int ret;

	if (is_default) {
		/* Takes the user's file, else the machine's. */
		snprintf(path, sizeof(path), "%s/.config/afar/key", home ? home : "");
		file = home && access(path, F_OK) == 0 ? path : "/etc/afar/key";
	}
	ret = key_load(file, &session->key, 1);
	if (ret == -ENOENT && is_default)
		return error_fail(ret,
				  "open a session with %s: no key is named, and there is neither "
				  "~/.config/afar/key nor /etc/afar/key; name the cluster's with "
				  "?key=FILE or AFAR_KEY, or start a cluster with 'afar up'",
				  session->uri.host);
	if (ret < 0)
		return ret;
	/* Links stay, because keys are renewed by them. */
	if (*file != '/' && getcwd(here, sizeof(here)))
		ret = asprintf(&session->key_file, "%s/%s", here, file);
	else
		ret = asprintf(&session->key_file, "%s", file);
	return ret < 0 ? error_code(-ENOMEM) : 0;
}

static uint64_t default_cache_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8;
}

/* Takes the path from the environment where the options give none. */
static int check_path(struct afar_session_options *options)
{
	const char *environment = getenv("AFAR_PATH");
	char problem[128];

	if (!options->path)
		options->path = environment ? environment : "";
	if (options->path[0] && fabric_transport_check(options->path, problem, sizeof(problem)))
		return error_fail(-EINVAL, "open a session: %s", problem);
	return 0;
}

static int set_congestion(struct afar_session *session, const char *congestion)
{
	const char *environment = getenv("AFAR_CONGESTION");
	char problem[256];

	if (!congestion)
		congestion = environment && environment[0] ? environment : "auto";
	if (fabric_congestion_check(congestion, problem, sizeof(problem)))
		return error_fail(-EINVAL, "open a session: congestion control %s", problem);
	snprintf(session->congestion, sizeof(session->congestion), "%s", congestion);
	session->fabrics.congestion = session->congestion;
	return 0;
}

static void apply_options(struct afar_session *session, const struct afar_session_options *options)
{
	uint32_t spin_us = options->spin_us ? options->spin_us : DEFAULT_SPIN_US;

	session->timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
	session->spin_ns = spin_us == UINT32_MAX ? 0 : (uint64_t)spin_us * 1000;
}

static struct afar_session *session_new(void)
{
	struct afar_session *session = handle_new(HANDLE_SESSION, sizeof(*session));
	pthread_condattr_t monotonic;

	if (!session)
		return NULL;
	pthread_mutex_init(&session->lock, NULL);
	fabrics_init(&session->fabrics);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&session->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	session->retry = (struct backoff){.min_ms = RETRY_MIN_MS, .max_ms = RETRY_MAX_MS};
	CDS_INIT_LIST_HEAD(&session->calls);
	CDS_INIT_LIST_HEAD(&session->peers);
	CDS_INIT_LIST_HEAD(&session->targets);
	CDS_INIT_LIST_HEAD(&session->file_systems);
	CDS_INIT_LIST_HEAD(&session->free_reaches);
	CDS_INIT_LIST_HEAD(&session->deferred);
	CDS_INIT_LIST_HEAD(&session->idle_queues);
	session_counts_init(&session->counts);
	pthread_mutex_init(&session->attach_lock, NULL);
	CDS_INIT_LIST_HEAD(&session->attachments);
	session->attach_fd = -1;
	session->fork_generation = forks_generation();
	return session;
}

static void session_destroy(struct afar_session *session)
{
	/* Stops the control thread first, because it may be using the queues. */
	if (session->loop)
		rpc_loop_stop(session->loop);
	session->events->freed(session);
	peers_free(session);
	reaches_free(session);
	session_counts_free(&session->counts);
	if (session->manager)
		rpc_connection_unref(session->manager);
	registration_cache_close(session->registrations);
	fabrics_close(&session->fabrics);
	if (session->segments)
		segment_cache_close(session->segments);
	free(session->key_file);
	free(session->refusal);
	free(session->cluster);
	pthread_cond_destroy(&session->changed);
	pthread_mutex_destroy(&session->attach_lock);
	pthread_mutex_destroy(&session->lock);
	explicit_bzero(&session->key, sizeof(session->key));
	explicit_bzero(session->secret, sizeof(session->secret));
}

static int fail_opening(const struct afar_session *session, int status)
{
	const char *host = session->uri.host;
	unsigned port = session->uri.port;

	switch (status) {
	case -AFAR_EAUTH:
		return error_fail(
			status,
			"open a session with %s:%u: the manager does not accept the key \"%s\": "
			"it knows none of this name, or that one's secret differs; use one that an "
			"operator made there with 'afar key add'",
			host, port, session->key.identity);
	case -AFAR_EVERSION:
	case -AFAR_EMALFORMED:
		return error_fail(
			status, "open a session with %s:%u: %s; use the same release on both sides",
			host, port, afar_strerror(status));
	case -ECONNRESET:
	case -ETIMEDOUT:
		return error_fail(-AFAR_EMANAGER,
				  "open a session with %s:%u: nobody answers there in time (%s); "
				  "look whether a manager runs there and is not overloaded",
				  host, port, afar_strerror(status));
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return error_fail(
			-AFAR_EMANAGER,
			"open a session with %s:%u: nobody answers there (%s); see that a manager "
			"runs there ('afard', 'afar up'), or name another with AFAR_CLUSTER",
			host, port, afar_strerror(status));
	case -EACCES:
		return error_fail(
			status,
			"open a session with %s:%u: \"%s\" is the join key of servers; use a "
			"client's ('afar key add')",
			host, port, session->key.identity);
	default:
		return error_fail(status, "open a session with %s:%u: %s", host, port,
				  session->refusal ? session->refusal : afar_strerror(status));
	}
}

static int wait_opened(struct afar_session *session)
{
	uint64_t deadline = session_deadline(session);
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	while (session->state == SESSION_OPENING && ret == 0)
		ret = session_wait_changed(session, deadline);
	if (session->state == SESSION_UP)
		ret = 0;
	else if (session->state == SESSION_ENDED)
		ret = session->state_status;
	pthread_mutex_unlock(&session->lock);
	return ret ? fail_opening(session, ret) : 0;
}

int session_open(const struct session_events *events, const char *uri,
		 const struct afar_session_options *given, struct afar_session **out)
{
	struct afar_session_options options = {0};
	char default_uri[PATH_MAX + 512];
	struct afar_session *session;
	int ret;

	if (!out)
		return error_fail(-EINVAL,
				  "open a session: there is nowhere to put it (out is null)");
	ret = given ? ABI_TAKE(&options, given, afar_session_options, cache_bytes) : 0;
	if (!ret)
		ret = check_path(&options);
	if (ret)
		return ret;
	if (!uri) {
		ret = uri_default(default_uri, sizeof(default_uri));
		if (ret)
			return ret;
		uri = default_uri;
	}
	session = session_new();
	if (!session)
		return error_code(-ENOMEM);

	session->events = events;
	apply_options(session, &options);
	snprintf(session->path, sizeof(session->path), "%s", options.path);
	ret = uri_parse(uri, &session->uri);
	if (!ret)
		ret = set_congestion(session, options.congestion);
	if (!ret)
		ret = load_key(session, &options);
	if (!ret)
		ret = segment_cache_open(options.cache_bytes ? options.cache_bytes
							     : default_cache_bytes(),
					 &session->segments);
	if (!ret)
		ret = registrations_open(session, options.registration_bytes);
	epoch_prepare(); /* now, because the process may have only one thread yet */
	if (!ret)
		ret = rpc_loop_start("afar-control", &session->loop);
	session->fabrics.loop = session->loop;
	if (!ret) {
		pthread_mutex_lock(&session->lock);
		ret = connect_manager(session, &session->manager);
		pthread_mutex_unlock(&session->lock);
		if (ret == -EHOSTUNREACH) /* its name has no address; the line says which */
			ret = error_fail(-AFAR_EMANAGER, "open a session: %s", error_last_line());
		else if (ret)
			ret = fail_opening(session, ret);
	}
	if (!ret)
		ret = wait_opened(session);
	if (ret) {
		pthread_mutex_lock(&session->lock);
		session->state = SESSION_ENDED;
		pthread_mutex_unlock(&session->lock);
		session_destroy(session);
		handle_discard(session);
		return ret;
	}
	*out = session;
	return 0;
}

PUBLIC_CALL(int, afar_session_uri, (struct afar_session *session, char **uri), (session, uri))
{
	int ret = session_check(session);
	bool is_ipv6;

	if (ret == 0 && !uri)
		ret = error_fail(-EINVAL, "tell the URI of a session: there is nowhere to put it");
	if (ret)
		return ret;
	is_ipv6 = strchr(session->uri.host, ':');
	if (asprintf(uri, "afar://%s%s%s:%u?key=%s", is_ipv6 ? "[" : "", session->uri.host,
		     is_ipv6 ? "]" : "", session->uri.port, session->key_file) < 0)
		return error_code(-ENOMEM);
	return 0;
}

/* Tells the manager of the closing. If that fails, the manager finds out at the end of the
 * lease. */
static void tell_manager(struct afar_session *session)
{
	Afar__SessionClose close = AFAR__SESSION_CLOSE__INIT;
	struct rpc_envelope envelope = {.deadline = clock_deadline_ms(CLOSE_MS)};
	struct rpc_connection *manager = NULL;

	pthread_mutex_lock(&session->lock);
	if (session->state == SESSION_UP) {
		manager = session->manager;
		rpc_connection_ref(manager);
		envelope.session = session->number;
		envelope.request_id = ++session->next_request_id;
		envelope.settled_below = session->next_request_id;
	}
	set_state(session, SESSION_ENDED, -ESHUTDOWN);
	pthread_mutex_unlock(&session->lock);
	if (!manager)
		return;
	rpc_call(manager, &envelope, RPC_REQUEST(SESSION_CLOSE, session_close, &close), NULL);
	rpc_connection_unref(manager);
}

PUBLIC_CALL(int, afar_session_close, (struct afar_session *session), (session))
{
	int ret = session_check(session);

	if (ret)
		return ret;
	ret = handle_close(session, HANDLE_SESSION);
	if (ret == -EBUSY)
		return error_fail(ret, "close a session: namespaces, buffers or queues of it are "
				       "still open; close them first");
	if (ret)
		return error_fail(ret, "close a session: it is closed already");
	/* Ends the connections first: nothing posted can land after the manager has heard. */
	session->events->closing(session);
	tell_manager(session);
	session_destroy(session);
	handle_retire(session);
	return 0;
}
