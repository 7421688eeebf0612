/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The membership's one thread connects, joins, does the requests that wait in orders.c, and
 * reports. The rpc loop's callbacks only take notes for it. Owns the connection to the manager and
 * the orders.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "server/control/identity.h"
#include "server/control/membership_private.h"

#define BACKOFF_MIN_MS	   100U
#define BACKOFF_MAX_MS	   2000U
#define REPORT_INTERVAL_MS 1000
#define REPORT_ANYWAY_MS   10000 /* its answer has the manager's term */

static unsigned long long printable(uint64_t number)
{
	return (unsigned long long)number;
}

/* ---- What the loop's thread notes, and answers at once */

static void answer_look(struct membership *membership, struct rpc_call *call)
{
	Afar__Reply reply = AFAR__REPLY__INIT;
	struct report report;

	report_fill(membership->options.pool, membership->options.lanes, membership->options.stores,
		    &report);
	reply.result_case = AFAR__REPLY__RESULT_SERVER_REPORT;
	reply.server_report = &report.message;
	rpc_reply(call, membership->options.incarnation->number, &reply);
}

static void on_request(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	struct membership *membership = rpc_connection_context(connection);

	if (frame->request->call_case == AFAR__REQUEST__CALL_LOOK)
		answer_look(membership, call);
	else
		orders_request(membership->orders, frame, call);
}

static void on_opened(struct rpc_connection *connection)
{
	struct membership *membership = rpc_connection_context(connection);

	pthread_mutex_lock(&membership->lock);
	orders_connected(membership->orders);
	if (membership->state == LINK_CONNECTING)
		membership->state = LINK_OPEN;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

/* On a progress thread, or on the loop's. */
static void on_sessions_ended(void *argument)
{
	struct membership *membership = argument;

	pthread_mutex_lock(&membership->lock);
	membership->sessions = SESSIONS_ENDED;
	membership->next_attempt = 0;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

/* If this fails, it is tried again when the next join is answered so. */
static void end_sessions(struct membership *membership)
{
	log_warn("the manager's records are older than what this server has seen, and an operator "
		 "has accepted that: all sessions end here, and then it joins");
	if (fence_all_sessions(membership->options.fence, on_sessions_ended, membership) == 0)
		return;
	log_error("end all sessions: %s", error_last_line());
	pthread_mutex_lock(&membership->lock);
	membership->sessions = SESSIONS_LIVE;
	pthread_mutex_unlock(&membership->lock);
}

static void on_closed(struct rpc_connection *connection, int status)
{
	struct membership *membership = rpc_connection_context(connection);
	bool is_to_end;

	pthread_mutex_lock(&membership->lock);
	is_to_end = membership->sessions == SESSIONS_TO_END && !membership->is_stopping;
	if (is_to_end)
		membership->sessions = SESSIONS_ENDING;
	pthread_mutex_unlock(&membership->lock);
	/* It is the last that is done with this connection: whoever waits for that may end the rest. */
	if (is_to_end)
		end_sessions(membership);
	pthread_mutex_lock(&membership->lock);
	membership->state = LINK_DOWN;
	orders_set_joined(membership->orders, false);
	membership->closed_status = status;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

/* ---- The connection. On the membership's thread. */

/* Logs one line per outage and reason, not one per attempt. The reason matters: it may be a refused
 * key. */
static void log_outage(struct membership *membership, const char *what)
{
	bool is_news;

	pthread_mutex_lock(&membership->lock);
	is_news =
		strncmp(membership->outage, what, OUTAGE_MAX - 1) != 0 && !membership->is_stopping;
	snprintf(membership->outage, OUTAGE_MAX, "%s", what);
	pthread_mutex_unlock(&membership->lock);
	if (is_news)
		log_warn("manager %s:%u: %s; trying again until it is back",
			 membership->options.manager_host, membership->options.manager_port, what);
}

/* Schedules the next attempt later than the last one. The caller holds the lock. */
static void back_off(struct membership *membership)
{
	membership->state = LINK_DOWN;
	membership->next_attempt = clock_deadline_ms(backoff_next_ms(&membership->backoff));
}

/*
 * True: it is useless to try again, because the key is refused, or the server or a store of it is
 * another cluster's. A server that was a member tries on, unless an operator removed it. Its memory
 * is at stake, and operators may change keys while servers run. So does one whose key file has
 * another key. Call it once for each failure.
 */
static bool is_final(struct membership *membership, int status)
{
	const bool is_of_key = status == -AFAR_EAUTH || status == -EACCES;

	if (status == -AFAR_ELOST)
		return true;
	if (is_of_key && join_key_refused(&membership->join_key))
		return false;
	return (status == -AFAR_EAUTH || status == -EACCES || status == -EINVAL) &&
	       !membership->has_joined;
}

/* Notes that the membership has failed, with the thread's last sentence. */
static void give_up(struct membership *membership, int status)
{
	pthread_mutex_lock(&membership->lock);
	membership->failure = status;
	snprintf(membership->failure_sentence, FAILURE_MAX, "%s", error_last_line());
	pthread_mutex_unlock(&membership->lock);
	if (membership->options.gave_up)
		membership->options.gave_up(membership->options.context);
}

static void connect_manager(struct membership *membership)
{
	static const struct rpc_handlers handlers = {
		.request = on_request,
		.opened = on_opened,
		.closed = on_closed,
	};
	const struct membership_options *options = &membership->options;
	struct rpc_connection *connection;
	int ret;

	pthread_mutex_lock(&membership->lock);
	membership->state = LINK_CONNECTING;
	pthread_mutex_unlock(&membership->lock);
	join_key_choose(&membership->join_key);
	ret = rpc_connect(options->loop, options->manager_host, options->manager_port,
			  &membership->join_key.key, &handlers, membership, &connection);
	pthread_mutex_lock(&membership->lock);
	if (ret == 0)
		membership->connection = connection;
	else
		back_off(membership);
	pthread_mutex_unlock(&membership->lock);
	if (ret != 0)
		log_outage(membership, error_last_line());
}

/* Call it when the loop has said that the connection is closed. */
static void drop_connection(struct membership *membership)
{
	bool is_told;
	int ret;

	pthread_mutex_lock(&membership->lock);
	rpc_connection_unref(membership->connection);
	membership->connection = NULL;
	ret = membership->closed_status;
	is_told = membership->is_told;
	membership->is_told = false;
	back_off(membership);
	pthread_mutex_unlock(&membership->lock);
	if (is_told)
		return;
	if (ret == -AFAR_EAUTH && is_final(membership, ret)) {
		error_fail(
			ret,
			"join the cluster: the manager at %s:%u does not accept the key \"%s\"; "
			"start the server with a join key of it (its server.key, or 'afar key add "
			"--server')",
			membership->options.manager_host, membership->options.manager_port,
			membership->join_key.key.identity);
		give_up(membership, ret);
		return;
	}
	log_outage(membership, ret == 0 ? "the connection was closed" : afar_strerror(ret));
}

/* ---- Joining. On the membership's thread. */

static void join_manager(struct membership *membership)
{
	int ret = membership_send_join(membership);

	if (is_final(membership, ret))
		give_up(membership, ret);
	else if (ret != 0)
		log_outage(membership, error_last_line());
	pthread_mutex_lock(&membership->lock);
	membership->is_kept_out = ret == -ESTALE;
	if (membership->state == LINK_OPEN && ret == 0) {
		membership->state = LINK_JOINED;
		membership->has_joined = true;
		membership->sessions = SESSIONS_LIVE;
		join_key_accepted(&membership->join_key);
		orders_set_joined(membership->orders, true);
		membership->outage[0] = '\0';
		backoff_reset(&membership->backoff);
		membership->is_report_due = true;
		membership->reported = (struct reported){0};
	} else if (membership->state == LINK_OPEN) {
		membership->state = LINK_CLOSING;
		membership->is_told = true;
		rpc_connection_close(membership->connection);
	}
	pthread_mutex_unlock(&membership->lock);
	if (ret == 0)
		log_info("joined the cluster of manager %s:%u as server %llu",
			 membership->options.manager_host, membership->options.manager_port,
			 printable(membership->self.number));
}

/* Reads the key file, and leaves the manager, to come again with another key, if there is one. Nobody else notices more than a lost
 * connection to the manager. */
static void renew_key(struct membership *membership)
{
	if (!join_key_renew(&membership->join_key))
		return;
	log_info("the server joins anew, with the key of '%s'", membership->join_key.key.identity);
	pthread_mutex_lock(&membership->lock);
	membership->next_attempt = 0;
	if (membership->state == LINK_JOINED) {
		membership->state = LINK_CLOSING;
		membership->is_told = true;
		backoff_reset(&membership->backoff);
		rpc_connection_close(membership->connection);
	}
	pthread_mutex_unlock(&membership->lock);
}

/* ---- Reporting. On the membership's thread. */

/* On the loop's thread. */
static void on_reported(void *argument, const Afar__Frame *frame, int status)
{
	struct membership *membership = argument;

	(void)status;
	if (frame && frame->body_case == AFAR__FRAME__BODY_REPLY &&
	    frame->reply->result_case == AFAR__REPLY__RESULT_TERM)
		membership_take_term(membership, frame->reply->term);
}

/* Has the stores note the manager's term. */
static void note_term(struct membership *membership)
{
	struct stores *stores = membership->options.stores;
	struct store_term term;

	pthread_mutex_lock(&membership->lock);
	term = membership->term;
	pthread_mutex_unlock(&membership->lock);
	for (unsigned i = 0; i < stores->nr; i++)
		if (store_note_term(stores->entries[i], term) != 0)
			log_error("%s", error_last_line());
}

static void send_report(struct membership *membership)
{
	const struct rpc_envelope envelope = {
		.incarnation = membership->options.incarnation->number,
		.deadline = clock_deadline_ms(JOIN_TIMEOUT_MS),
	};
	const bool is_due = clock_ns() >= membership->report_anyway;
	struct report report;

	report_fill(membership->options.pool, membership->options.lanes, membership->options.stores,
		    &report);
	if (!report_is_news(&report.message, &membership->reported) && !is_due)
		return;
	/* If it cannot be sent, the connection is about to be closed, and the next one begins with
	 * a report. */
	rpc_send(membership->connection, &envelope,
		 RPC_REQUEST(SERVER_REPORT, server_report, &report.message), on_reported,
		 membership);
	pthread_mutex_lock(&membership->lock);
	membership->next_report = clock_deadline_ms(REPORT_INTERVAL_MS);
	membership->report_anyway = clock_deadline_ms(REPORT_ANYWAY_MS);
	pthread_mutex_unlock(&membership->lock);
}

/* ---- The thread */

/* Waits until a signal, or `deadline`. The caller holds the lock. */
static void wait_until(struct membership *membership, uint64_t deadline)
{
	struct timespec until;

	if (deadline == CLOCK_NEVER) {
		pthread_cond_wait(&membership->changed, &membership->lock);
		return;
	}
	until = clock_to_timespec(deadline);
	pthread_cond_timedwait(&membership->changed, &membership->lock, &until);
}

enum duty {
	DUTY_DROP,
	DUTY_CONNECT,
	DUTY_JOIN,
	DUTY_KEY,
	DUTY_ORDERS,
	DUTY_TERM,
	DUTY_REPORT,
	DUTY_STOP,
};

/* Returns the most urgent duty; waits while there is none. The caller holds the lock. */
static enum duty next_duty(struct membership *membership)
{
	uint64_t wake_up;

	for (;;) {
		wake_up = CLOCK_NEVER;
		if (membership->is_stopping)
			return DUTY_STOP;
		if (membership->state == LINK_DOWN && membership->connection)
			return DUTY_DROP;
		if (membership->state == LINK_OPEN)
			return DUTY_JOIN;
		if (membership->is_renewing &&
		    (membership->state == LINK_JOINED || membership->state == LINK_DOWN))
			return DUTY_KEY;
		if (orders_are_waiting(membership->orders))
			return DUTY_ORDERS;
		if (membership->state == LINK_DOWN && membership->failure == 0) {
			if (clock_ns() >= membership->next_attempt)
				return DUTY_CONNECT;
			wake_up = membership->next_attempt;
		} else if (membership->state == LINK_JOINED) {
			if (membership->is_term_due)
				return DUTY_TERM;
			wake_up = membership->is_report_due ? membership->next_report
							    : membership->report_anyway;
			if (clock_ns() >= wake_up)
				return DUTY_REPORT;
		}
		wait_until(membership, wake_up);
	}
}

static void *thread_run(void *argument)
{
	struct membership *membership = argument;
	enum duty duty;

	pthread_mutex_lock(&membership->lock);
	while ((duty = next_duty(membership)) != DUTY_STOP) {
		if (duty == DUTY_REPORT)
			membership->is_report_due = false;
		if (duty == DUTY_TERM)
			membership->is_term_due = false;
		if (duty == DUTY_KEY)
			membership->is_renewing = false;
		pthread_mutex_unlock(&membership->lock);
		switch (duty) {
		case DUTY_DROP:
			drop_connection(membership);
			break;
		case DUTY_CONNECT:
			connect_manager(membership);
			break;
		case DUTY_JOIN:
			join_manager(membership);
			break;
		case DUTY_KEY:
			renew_key(membership);
			break;
		case DUTY_ORDERS:
			orders_work(membership->orders);
			break;
		case DUTY_TERM:
			note_term(membership);
			break;
		case DUTY_REPORT:
			send_report(membership);
			break;
		case DUTY_STOP:
			break;
		}
		pthread_mutex_lock(&membership->lock);
	}
	pthread_mutex_unlock(&membership->lock);
	return NULL;
}

/* ---- Life */

/* Wakes the thread, which has work. */
static void on_queued(void *context)
{
	struct membership *membership = context;

	pthread_mutex_lock(&membership->lock);
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

static int open_orders(struct membership *membership)
{
	const struct orders_options orders = {
		.incarnation = membership->options.incarnation->number,
		.is_registering_quick = !lanes_register_slowly(membership->options.lanes),
		.pool = membership->options.pool,
		.fence = membership->options.fence,
		.stores = membership->options.stores,
		.devices = {membership->options.incarnation->number, membership->options.stores,
			    membership_lend_store, membership},
		.queued = on_queued,
		.context = membership,
	};

	return orders_open(&orders, &membership->orders);
}

int membership_open(const struct membership_options *options, struct membership **out)
{
	struct membership *membership = calloc(1, sizeof(*membership));
	pthread_condattr_t attributes;
	int ret;

	if (!membership)
		return error_code(-ENOMEM);
	membership->options = *options;
	membership->backoff = (struct backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
	ret = join_key_init(&membership->join_key, options->key_file, options->key);
	if (ret == 0 && options->folder)
		ret = identity_load(options->folder, &membership->self);
	if (ret == 0)
		ret = open_orders(membership);
	if (ret != 0) {
		join_key_wipe(&membership->join_key);
		free(membership);
		return ret;
	}
	pthread_mutex_init(&membership->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&membership->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	*out = membership;
	return 0;
}

void membership_close(struct membership *membership)
{
	if (!membership)
		return;
	orders_close(membership->orders);
	pthread_cond_destroy(&membership->changed);
	pthread_mutex_destroy(&membership->lock);
	join_key_wipe(&membership->join_key);
	free(membership);
}

int membership_start(struct membership *membership)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&membership->thread, NULL, thread_run, membership);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0)
		return error_fail(-ret, "start the membership: no thread; raise the limit of "
					"processes");
	pthread_setname_np(membership->thread, "afar-member");
	membership->is_started = true;
	return 0;
}

void membership_stop(struct membership *membership)
{
	if (!membership->is_started)
		return;
	pthread_mutex_lock(&membership->lock);
	membership->is_stopping = true;
	orders_stop(membership->orders);
	pthread_cond_signal(&membership->changed);
	/* Ends a join that waits for its answer. */
	if (membership->connection)
		rpc_connection_close(membership->connection);
	pthread_mutex_unlock(&membership->lock);
	extent_pool_stop(membership->options.pool);
	pthread_join(membership->thread, NULL);
	orders_refuse(membership->orders);

	pthread_mutex_lock(&membership->lock);
	if (membership->connection) {
		rpc_connection_close(membership->connection); /* one made since then */
		while (membership->state != LINK_DOWN)
			pthread_cond_wait(&membership->changed, &membership->lock);
		rpc_connection_unref(membership->connection);
		membership->connection = NULL;
	}
	pthread_mutex_unlock(&membership->lock);
}

void membership_identity(struct membership *membership, struct server_identity *out)
{
	pthread_mutex_lock(&membership->lock);
	*out = membership->self;
	pthread_mutex_unlock(&membership->lock);
}

bool membership_is_joined(struct membership *membership)
{
	bool is_joined;

	pthread_mutex_lock(&membership->lock);
	is_joined = membership->state == LINK_JOINED;
	pthread_mutex_unlock(&membership->lock);
	return is_joined;
}

bool membership_is_kept_out(struct membership *membership)
{
	bool is_kept_out;

	pthread_mutex_lock(&membership->lock);
	is_kept_out = membership->is_kept_out;
	pthread_mutex_unlock(&membership->lock);
	return is_kept_out;
}

int membership_failure(struct membership *membership)
{
	int failure;

	pthread_mutex_lock(&membership->lock);
	failure = membership->failure;
	pthread_mutex_unlock(&membership->lock);
	/* The thread wrote the sentence with `failure`, under the lock, and never again. */
	return failure != 0 ? error_fail(failure, "%s", membership->failure_sentence) : 0;
}

void membership_renew_key(struct membership *membership)
{
	pthread_mutex_lock(&membership->lock);
	membership->is_renewing = true;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

void membership_changed(struct membership *membership)
{
	pthread_mutex_lock(&membership->lock);
	membership->is_report_due = true;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}
