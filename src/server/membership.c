/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread lives the membership: it connects, joins, does the manager's slow jobs in order, and
 * reports. The rpc loop's callbacks only take notes for it, and do what is quick themselves.
 *
 * A reservation is done by this thread alone or, when the pool has it ready, on the loop while the
 * connection is joined. So what is granted when a join is composed is all that any reservation of an
 * earlier connection can have left behind: the manager sees it listed and has what it does not know of
 * released. An answer that got lost on its way loses no memory.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "memory/segment.h"
#include "server/advertise.h"
#include "server/identity.h"
#include "server/membership.h"
#include "server/report.h"

#define BACKOFF_MIN_MS	   100U
#define BACKOFF_MAX_MS	   2000U
#define JOIN_TIMEOUT_MS	   10000
#define REPORT_INTERVAL_MS 1000
#define NR_JOBS_MAX	   4096U /* of the manager's, waiting */

enum link_state {
	LINK_DOWN,	 /* no connection; `next_attempt` says when to try     */
	LINK_CONNECTING, /* waiting for the loop to say open or closed         */
	LINK_OPEN,	 /* to be joined                                       */
	LINK_JOINED,
	LINK_CLOSING, /* given up; waiting for the loop to say closed       */
};

/* A slow request of the manager's. */
struct job {
	struct cds_list_head node;
	struct rpc_call *call;
	uint64_t epoch; /* of the connection it came on */
	uint64_t deadline;
	/* ExtentsReserve: */
	uint64_t namespace;
	uint64_t bytes;
	/* ExtentsRelease, when not NULL: */
	uint64_t *extents;
	size_t nr_extents;
};

struct membership {
	struct membership_options options;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_started;
	bool is_stopping;
	enum link_state state;
	uint64_t epoch;			   /* counts connections that opened          */
	struct rpc_connection *connection; /* the thread's own reference, or NULL     */
	int closed_status;
	struct server_identity self; /* number 0 before its first join */
	bool is_outage_logged;
	uint32_t backoff_ms;
	uint64_t next_attempt; /* on clock_ns()                                       */

	struct cds_list_head jobs;
	unsigned nr_jobs;
	bool is_working; /* on one of them */

	bool is_report_due;
	uint64_t next_report; /* not before, on clock_ns() */
	Afar__ServerReport reported;
};

static unsigned long long printable(uint64_t number)
{
	return (unsigned long long)number;
}

/* ---- Jobs: what the manager asks and takes long. On the membership's thread. */

static void free_job(struct job *job)
{
	free(job->extents);
	free(job);
}

static void reply_extents(struct membership *membership, struct rpc_call *call,
			  const struct extent_info *infos, size_t nr_infos)
{
	uint64_t incarnation = membership->options.incarnation;
	Afar__Extent *extents = calloc(nr_infos + 1, sizeof(*extents));
	Afar__Extent **pointers = calloc(nr_infos + 1, sizeof(Afar__Extent *));
	Afar__Extents result = AFAR__EXTENTS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	size_t i;

	if (!extents || !pointers) {
		for (i = 0; i < nr_infos; i++)
			extent_pool_release(membership->options.pool, &infos[i].extent, 1);
		rpc_reply_status(call, incarnation, error_code(-ENOMEM));
		goto out_free;
	}
	for (i = 0; i < nr_infos; i++) {
		pointers[i] = &extents[i];
		afar__extent__init(&extents[i]);
		extents[i].extent = infos[i].extent;
		extents[i].namespace_ = infos[i].namespace;
		extents[i].length = infos[i].length;
	}
	result.n_extents = nr_infos;
	result.extents = pointers;
	reply.result_case = AFAR__REPLY__RESULT_EXTENTS;
	reply.extents = &result;
	rpc_reply(call, incarnation, &reply);

out_free:
	free(pointers);
	free(extents);
}

static bool is_current(struct membership *membership, uint64_t epoch)
{
	bool is_same;

	pthread_mutex_lock(&membership->lock);
	is_same = membership->state == LINK_JOINED && membership->epoch == epoch;
	pthread_mutex_unlock(&membership->lock);
	return is_same;
}

static void run_reserve(struct membership *membership, struct job *job)
{
	uint64_t incarnation = membership->options.incarnation;
	struct extent_info *infos;
	size_t nr_infos, i;
	int status;

	/* Nobody waits for it any more: the manager will ask again. */
	if (!is_current(membership, job->epoch)) {
		rpc_reply_status(job->call, incarnation, error_code(-ECANCELED));
		return;
	}
	status = extent_pool_reserve(membership->options.pool, job->namespace, job->bytes,
				     job->deadline, &infos, &nr_infos);
	if (status != 0) {
		rpc_reply_status(job->call, incarnation, status);
		return;
	}
	if (clock_ns() >= job->deadline) {
		for (i = 0; i < nr_infos; i++)
			extent_pool_release(membership->options.pool, &infos[i].extent, 1);
		rpc_reply_status(job->call, incarnation,
				 error_fail(-ETIMEDOUT,
					    "reserve %llu MiB: populating took longer "
					    "than the deadline; try again",
					    printable(job->bytes >> 20)));
	} else {
		reply_extents(membership, job->call, infos, nr_infos);
	}
	free(infos);
}

static void run_release(struct membership *membership, struct job *job)
{
	/* Whatever became of the connection: the manager has decided it, and numbers never return. */
	extent_pool_release(membership->options.pool, job->extents, job->nr_extents);
	rpc_reply_status(job->call, membership->options.incarnation, 0);
}

static void run_job(struct membership *membership, struct job *job)
{
	if (job->extents)
		run_release(membership, job);
	else
		run_reserve(membership, job);
	free_job(job);
}

/* ---- Requests of the manager's. On the loop's thread. */

/* Hands it to the membership's thread, in order. */
static void queue_job(struct membership *membership, struct job *job)
{
	bool is_taken;

	pthread_mutex_lock(&membership->lock);
	is_taken = membership->nr_jobs < NR_JOBS_MAX && !membership->is_stopping;
	if (is_taken) {
		job->epoch = membership->epoch;
		cds_list_add_tail(&job->node, &membership->jobs);
		membership->nr_jobs++;
		pthread_cond_signal(&membership->changed);
	}
	pthread_mutex_unlock(&membership->lock);
	if (is_taken)
		return;
	rpc_reply_status(job->call, membership->options.incarnation,
			 error_fail(-EBUSY, "the server is stopping or has too many requests"));
	free_job(job);
}

/* A reservation that needs no waiting need not wait for the thread either, if nothing is before it. */
static bool reserve_at_once(struct membership *membership, uint64_t namespace, uint64_t bytes,
			    struct rpc_call *call)
{
	struct extent_info *infos;
	size_t nr_infos;
	bool is_free;

	if (!membership->options.is_registering_quick)
		return false;
	pthread_mutex_lock(&membership->lock);
	is_free = membership->state == LINK_JOINED && membership->nr_jobs == 0 &&
		  !membership->is_working;
	pthread_mutex_unlock(&membership->lock);
	if (!is_free || extent_pool_reserve_clean(membership->options.pool, namespace, bytes,
						  &infos, &nr_infos) != 0)
		return false;
	reply_extents(membership, call, infos, nr_infos);
	free(infos);
	return true;
}

static void on_reserve(struct membership *membership, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	const Afar__ExtentsReserve *request = frame->request->extents_reserve;
	uint64_t bytes;
	struct job *job;

	if (__builtin_add_overflow(request->bytes, SEGMENT_MIN - 1, &bytes)) {
		rpc_reply_status(call, membership->options.incarnation,
				 error_fail(-EINVAL, "reserve %llu bytes: too many",
					    printable(request->bytes)));
		return;
	}
	bytes -= bytes % SEGMENT_MIN;
	if (reserve_at_once(membership, request->namespace_, bytes, call))
		return;
	job = calloc(1, sizeof(*job));
	if (!job) {
		rpc_reply_status(call, membership->options.incarnation, error_code(-ENOMEM));
		return;
	}
	job->call = call;
	job->deadline = frame->deadline_ms ? clock_deadline_ms(frame->deadline_ms) : CLOCK_NEVER;
	job->namespace = request->namespace_;
	job->bytes = bytes;
	queue_job(membership, job);
}

static void on_release(struct membership *membership, const Afar__ExtentsRelease *request,
		       struct rpc_call *call)
{
	struct job *job = calloc(1, sizeof(*job));
	uint64_t *extents = calloc(request->n_extents + 1, sizeof(*extents));

	if (!job || !extents) {
		free(job);
		free(extents);
		rpc_reply_status(call, membership->options.incarnation, error_code(-ENOMEM));
		return;
	}
	if (request->n_extents > 0)
		memcpy(extents, request->extents, request->n_extents * sizeof(*extents));
	job->call = call;
	job->extents = extents;
	job->nr_extents = request->n_extents;
	queue_job(membership, job);
}

/* What remains to be said when a session's connections are closed. */
struct farewell {
	struct rpc_call *call;
	uint64_t incarnation;
};

static void say_ended(void *argument)
{
	struct farewell *farewell = argument;

	rpc_reply_status(farewell->call, farewell->incarnation, 0);
	free(farewell);
}

static void on_session_end(struct membership *membership, uint64_t session, struct rpc_call *call)
{
	struct farewell *farewell = malloc(sizeof(*farewell));
	int status;

	if (!farewell) {
		status = error_code(-ENOMEM);
		goto out_fail;
	}
	*farewell = (struct farewell){call, membership->options.incarnation};
	/* In this order: no unused ticket may be redeemed behind the closing. */
	status = tickets_revoke(membership->options.tickets, session);
	if (status != 0)
		goto out_fail;
	status = progress_end_session(membership->options.progress, session, say_ended, farewell);
	if (status == 0)
		return;

out_fail:
	free(farewell);
	rpc_reply_status(call, membership->options.incarnation, status);
}

static void on_request(struct rpc_connection *connection, const Afar__Frame *frame,
		       struct rpc_call *call)
{
	struct membership *membership = rpc_connection_context(connection);
	const Afar__Request *request = frame->request;

	switch (request->call_case) {
	case AFAR__REQUEST__CALL_EXTENTS_RESERVE:
		on_reserve(membership, frame, call);
		break;
	case AFAR__REQUEST__CALL_EXTENTS_RELEASE:
		on_release(membership, request->extents_release, call);
		break;
	case AFAR__REQUEST__CALL_SESSION_END:
		on_session_end(membership, request->session_end->session, call);
		break;
	case AFAR__REQUEST__CALL_PING:
		rpc_reply_status(call, membership->options.incarnation, 0);
		break;
	default:
		rpc_reply_status(call, membership->options.incarnation,
				 error_fail(-EOPNOTSUPP, "call %d: a server does not take it",
					    (int)request->call_case));
	}
}

static void on_opened(struct rpc_connection *connection)
{
	struct membership *membership = rpc_connection_context(connection);

	pthread_mutex_lock(&membership->lock);
	membership->epoch++;
	if (membership->state == LINK_CONNECTING)
		membership->state = LINK_OPEN;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

static void on_closed(struct rpc_connection *connection, int status)
{
	struct membership *membership = rpc_connection_context(connection);

	pthread_mutex_lock(&membership->lock);
	membership->state = LINK_DOWN;
	membership->closed_status = status;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}

/* ---- The connection. On the membership's thread. */

/* One line per outage, not one per attempt. */
static void log_outage(struct membership *membership, const char *what)
{
	bool is_first;

	pthread_mutex_lock(&membership->lock);
	is_first = !membership->is_outage_logged && !membership->is_stopping;
	membership->is_outage_logged = true;
	pthread_mutex_unlock(&membership->lock);
	if (is_first)
		log_warn("manager %s:%u: %s; trying again until it is back",
			 membership->options.manager_host, membership->options.manager_port, what);
}

/* With the lock held: the next attempt comes later than the last did. */
static void back_off(struct membership *membership)
{
	membership->state = LINK_DOWN;
	membership->next_attempt = clock_deadline_ms(membership->backoff_ms);
	membership->backoff_ms *= 2;
	if (membership->backoff_ms > BACKOFF_MAX_MS)
		membership->backoff_ms = BACKOFF_MAX_MS;
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
	int status;

	pthread_mutex_lock(&membership->lock);
	membership->state = LINK_CONNECTING;
	pthread_mutex_unlock(&membership->lock);
	status = rpc_connect(options->loop, options->manager_host, options->manager_port,
			     options->key, &handlers, membership, &connection);
	pthread_mutex_lock(&membership->lock);
	if (status == 0)
		membership->connection = connection;
	else
		back_off(membership);
	pthread_mutex_unlock(&membership->lock);
	if (status != 0)
		log_outage(membership, afar_last_error());
}

/* The loop has said that the connection is closed. */
static void mourn(struct membership *membership)
{
	int status;

	pthread_mutex_lock(&membership->lock);
	rpc_connection_unref(membership->connection);
	membership->connection = NULL;
	status = membership->closed_status;
	back_off(membership);
	pthread_mutex_unlock(&membership->lock);
	log_outage(membership, status == 0 ? "the connection was closed" : afar_strerror(status));
}

/* ---- Joining. On the membership's thread. */

static void take_identity(struct membership *membership, const Afar__ServerJoined *joined)
{
	const char *folder = membership->options.folder;
	struct server_identity *self = &membership->self;

	if (self->number == joined->server && strcmp(self->cluster, joined->cluster) == 0)
		return;
	pthread_mutex_lock(&membership->lock);
	self->number = joined->server;
	strcpy(self->cluster, joined->cluster); /* check_joined() has seen that it fits */
	pthread_mutex_unlock(&membership->lock);
	if (folder && identity_save(folder, self) != 0)
		log_error("%s", afar_last_error());
}

static int check_joined(const Afar__Frame *frame)
{
	const Afar__Reply *reply = frame->reply;

	if (reply->result_case != AFAR__REPLY__RESULT_SERVER_JOINED ||
	    reply->server_joined->server == 0 ||
	    reply->server_joined->cluster[strcspn(reply->server_joined->cluster, " \n")] != '\0' ||
	    strlen(reply->server_joined->cluster) - 1 >= IDENTITY_CLUSTER_MAX)
		return error_fail(-AFAR_EMALFORMED, "join: the manager's answer does not say who "
						    "this server is");
	return 0;
}

/* Sends the join with everything filled in and acts on the answer. */
static int exchange_join(struct membership *membership, Afar__ServerJoin *join)
{
	const struct membership_options *options = &membership->options;
	const struct rpc_envelope envelope = {
		.incarnation = options->incarnation,
		.deadline = clock_deadline_ms(JOIN_TIMEOUT_MS),
	};
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__ServerJoined *joined;
	Afar__Frame *frame;
	int status;

	request.call_case = AFAR__REQUEST__CALL_SERVER_JOIN;
	request.server_join = join;
	status = rpc_call(membership->connection, &envelope, &request, &frame);
	if (status != 0)
		return status;
	status = check_joined(frame);
	if (status == 0) {
		joined = frame->reply->server_joined;
		take_identity(membership, joined);
		extent_pool_release(options->pool, joined->release, joined->n_release);
	}
	afar__frame__free_unpacked(frame, NULL);
	return status;
}

static int send_join(struct membership *membership)
{
	const struct membership_options *options = &membership->options;
	char control[ADVERTISE_MAX], data[ADVERTISE_MAX];
	Afar__Lane lane = AFAR__LANE__INIT, *lanes[] = {&lane};
	Afar__Server self = AFAR__SERVER__INIT;
	Afar__ServerJoin join = AFAR__SERVER_JOIN__INIT;
	struct extent_pool_stat stat;
	struct extent_info *infos = NULL;
	Afar__Extent *extents, **pointers;
	size_t nr_infos = 0, i;
	int status;

	status = extent_pool_list(options->pool, &infos, &nr_infos);
	if (status != 0)
		return status;
	extents = calloc(nr_infos + 1, sizeof(*extents));
	pointers = calloc(nr_infos + 1, sizeof(Afar__Extent *));
	if (!extents || !pointers) {
		status = error_code(-ENOMEM);
		goto out_free;
	}
	for (i = 0; i < nr_infos; i++) {
		pointers[i] = &extents[i];
		afar__extent__init(&extents[i]);
		extents[i].extent = infos[i].extent;
		extents[i].namespace_ = infos[i].namespace;
		extents[i].length = infos[i].length;
	}
	extent_pool_stat(options->pool, &stat);
	advertise(options->control_address, options->manager_host, options->manager_port, control);
	advertise(options->data_address, options->manager_host, options->manager_port, data);
	lane.transport = (char *)options->transport;
	lane.address = data;
	self.server = membership->self.number;
	self.name = (char *)options->name;
	self.incarnation = options->incarnation;
	self.control_address = control;
	self.n_lanes = 1;
	self.lanes = lanes;
	join.self = &self;
	join.cluster = membership->self.cluster;
	join.capacity_bytes = stat.capacity_bytes;
	join.n_extents = nr_infos;
	join.extents = pointers;
	status = exchange_join(membership, &join);

out_free:
	free(pointers);
	free(extents);
	free(infos);
	return status;
}

static void join_manager(struct membership *membership)
{
	int status = send_join(membership);

	if (status != 0)
		log_outage(membership, afar_last_error());
	pthread_mutex_lock(&membership->lock);
	if (membership->state == LINK_OPEN && status == 0) {
		membership->state = LINK_JOINED;
		membership->is_outage_logged = false;
		membership->backoff_ms = BACKOFF_MIN_MS;
		membership->is_report_due = true;
		membership->reported.capacity_bytes = 0; /* no report is like it */
	} else if (membership->state == LINK_OPEN) {
		membership->state = LINK_CLOSING;
		rpc_connection_close(membership->connection);
	}
	pthread_mutex_unlock(&membership->lock);
	if (status == 0)
		log_info("joined the cluster of manager %s:%u as server %llu",
			 membership->options.manager_host, membership->options.manager_port,
			 printable(membership->self.number));
}

/* ---- Reporting. On the membership's thread. */

/* The manager's answer to a report tells us nothing. */
static void ignore_reply(void *argument, const Afar__Frame *reply, int status)
{
	(void)argument;
	(void)reply;
	(void)status;
}

static void send_report(struct membership *membership)
{
	const struct rpc_envelope envelope = {
		.incarnation = membership->options.incarnation,
		.deadline = clock_deadline_ms(JOIN_TIMEOUT_MS),
	};
	Afar__Request request = AFAR__REQUEST__INIT;
	Afar__ServerReport report;

	report_fill(membership->options.pool, membership->options.progress, &report);
	if (!report_is_news(&report, &membership->reported))
		return;
	membership->reported = report;
	request.call_case = AFAR__REQUEST__CALL_SERVER_REPORT;
	request.server_report = &report;
	/* When it cannot be sent, the connection is about to be closed, and a new one reports anew. */
	rpc_send(membership->connection, &envelope, &request, ignore_reply, NULL);
	pthread_mutex_lock(&membership->lock);
	membership->next_report = clock_deadline_ms(REPORT_INTERVAL_MS);
	pthread_mutex_unlock(&membership->lock);
}

/* ---- The thread */

/* Until somebody signals, or `deadline`. With the lock held. */
static void wait_until(struct membership *membership, uint64_t deadline)
{
	struct timespec until;

	if (deadline == CLOCK_NEVER) {
		pthread_cond_wait(&membership->changed, &membership->lock);
		return;
	}
	until.tv_sec = (time_t)(deadline / 1000000000U);
	until.tv_nsec = (long)(deadline % 1000000000U);
	pthread_cond_timedwait(&membership->changed, &membership->lock, &until);
}

enum duty { DUTY_MOURN, DUTY_CONNECT, DUTY_JOIN, DUTY_JOB, DUTY_REPORT, DUTY_STOP };

/* The most urgent thing to do; waits when there is none. With the lock held. */
static enum duty next_duty(struct membership *membership)
{
	uint64_t wake_up;

	for (;;) {
		wake_up = CLOCK_NEVER;
		if (membership->is_stopping)
			return DUTY_STOP;
		if (membership->state == LINK_DOWN && membership->connection)
			return DUTY_MOURN;
		if (membership->state == LINK_OPEN)
			return DUTY_JOIN;
		if (!cds_list_empty(&membership->jobs))
			return DUTY_JOB;
		if (membership->state == LINK_DOWN) {
			if (clock_ns() >= membership->next_attempt)
				return DUTY_CONNECT;
			wake_up = membership->next_attempt;
		} else if (membership->state == LINK_JOINED && membership->is_report_due) {
			if (clock_ns() >= membership->next_report)
				return DUTY_REPORT;
			wake_up = membership->next_report;
		}
		wait_until(membership, wake_up);
	}
}

/* With the lock held. */
static struct job *take_job(struct membership *membership)
{
	struct job *job = cds_list_first_entry(&membership->jobs, struct job, node);

	cds_list_del(&job->node);
	membership->nr_jobs--;
	membership->is_working = true;
	return job;
}

static void *thread_run(void *argument)
{
	struct membership *membership = argument;
	struct job *job = NULL;
	enum duty duty;

	pthread_mutex_lock(&membership->lock);
	while ((duty = next_duty(membership)) != DUTY_STOP) {
		if (duty == DUTY_JOB)
			job = take_job(membership);
		if (duty == DUTY_REPORT)
			membership->is_report_due = false;
		pthread_mutex_unlock(&membership->lock);
		switch (duty) {
		case DUTY_MOURN:
			mourn(membership);
			break;
		case DUTY_CONNECT:
			connect_manager(membership);
			break;
		case DUTY_JOIN:
			join_manager(membership);
			break;
		case DUTY_JOB:
			run_job(membership, job);
			break;
		case DUTY_REPORT:
			send_report(membership);
			break;
		case DUTY_STOP:
			break;
		}
		pthread_mutex_lock(&membership->lock);
		membership->is_working = false;
	}
	pthread_mutex_unlock(&membership->lock);
	return NULL;
}

/* ---- Life */

int membership_open(const struct membership_options *options, struct membership **out)
{
	struct membership *membership = calloc(1, sizeof(*membership));
	pthread_condattr_t attributes;
	int status;

	if (!membership)
		return error_code(-ENOMEM);
	membership->options = *options;
	membership->backoff_ms = BACKOFF_MIN_MS;
	afar__server_report__init(&membership->reported);
	CDS_INIT_LIST_HEAD(&membership->jobs);
	if (options->folder) {
		status = identity_load(options->folder, &membership->self);
		if (status != 0) {
			free(membership);
			return status;
		}
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
	pthread_cond_destroy(&membership->changed);
	pthread_mutex_destroy(&membership->lock);
	free(membership);
}

int membership_start(struct membership *membership)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&membership->thread, NULL, thread_run, membership);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0)
		return error_fail(-error, "start the membership: no thread; raise the limit of "
					  "processes");
	pthread_setname_np(membership->thread, "afar-member");
	membership->is_started = true;
	return 0;
}

/* Refuses what is left. No new ones come: is_stopping is set. */
static void refuse_jobs(struct membership *membership)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &membership->jobs, node) {
		rpc_reply_status(job->call, membership->options.incarnation,
				 error_fail(-ECANCELED, "the server is stopping"));
		free_job(job);
	}
}

void membership_stop(struct membership *membership)
{
	if (!membership->is_started)
		return;
	pthread_mutex_lock(&membership->lock);
	membership->is_stopping = true;
	pthread_cond_signal(&membership->changed);
	/* A join that waits for its answer gets none. */
	if (membership->connection)
		rpc_connection_close(membership->connection);
	pthread_mutex_unlock(&membership->lock);
	extent_pool_stop(membership->options.pool);
	pthread_join(membership->thread, NULL);
	refuse_jobs(membership);

	pthread_mutex_lock(&membership->lock);
	if (membership->connection) {
		rpc_connection_close(membership->connection); /* one made since */
		while (membership->state != LINK_DOWN)
			pthread_cond_wait(&membership->changed, &membership->lock);
		rpc_connection_unref(membership->connection);
		membership->connection = NULL;
	}
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

void membership_changed(struct membership *membership)
{
	pthread_mutex_lock(&membership->lock);
	membership->is_report_due = true;
	pthread_cond_signal(&membership->changed);
	pthread_mutex_unlock(&membership->lock);
}
