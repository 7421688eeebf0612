/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager's requests. The membership's thread makes reservations; if the pool has the memory
 * ready, the loop's thread does while the connection is joined. A release begins on the
 * membership's thread and is answered when its fence is done. Owns the queue of waiting requests.
 */
#include "server/control/orders.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "base/error.h"
#include "memory/segment.h"
#include "server/control/orders_private.h"
#include "server/memory/seal.h"

#define NR_JOBS_MAX 4096U /* of the manager, waiting */

static unsigned long long printable(uint64_t number)
{
	return (unsigned long long)number;
}

void orders_reply(struct orders *orders, struct rpc_call *call, int status)
{
	rpc_reply_status(call, orders->options.incarnation, status);
}

struct pending_reply *orders_pending_reply(const struct orders *orders, struct rpc_call *call)
{
	struct pending_reply *reply = malloc(sizeof(*reply));

	if (reply)
		*reply = (struct pending_reply){call, orders->options.incarnation};
	return reply;
}

static void send_pending_reply(void *argument)
{
	struct pending_reply *reply = argument;

	rpc_reply_status(reply->call, reply->incarnation, 0);
	free(reply);
}

/* ---- Work. On the membership's thread. */

static void free_job(struct job *job)
{
	free(job->extents);
	free(job->names);
	free(job->ranges);
	free(job->moves);
	free(job->path);
	free(job);
}

static void give_back(struct orders *orders, const struct extent_info *infos, size_t nr_infos)
{
	for (size_t i = 0; i < nr_infos; i++)
		extent_pool_release(orders->options.pool, &infos[i].extent, 1);
}

void orders_reply_extents(struct orders *orders, struct rpc_call *call,
			  const struct extent_info *infos, size_t nr_infos)
{
	Afar__Extent *extents = calloc(nr_infos + 1, sizeof(*extents));
	Afar__Extent **pointers = calloc(nr_infos + 1, sizeof(Afar__Extent *));
	Afar__Extents result = AFAR__EXTENTS__INIT;
	Afar__Reply reply = AFAR__REPLY__INIT;
	size_t i;

	if (!extents || !pointers) {
		give_back(orders, infos, nr_infos);
		orders_reply(orders, call, error_code(-ENOMEM));
		goto out_free;
	}
	for (i = 0; i < nr_infos; i++) {
		pointers[i] = &extents[i];
		afar__extent__init(&extents[i]);
		extents[i].extent = infos[i].extent;
		extents[i].namespace_ = infos[i].namespace;
		extents[i].length = infos[i].length;
		extents[i].class_ = infos[i].class;
	}
	result.n_extents = nr_infos;
	result.extents = pointers;
	reply.result_case = AFAR__REPLY__RESULT_EXTENTS;
	reply.extents = &result;
	rpc_reply(call, orders->options.incarnation, &reply);

out_free:
	free(pointers);
	free(extents);
}

bool orders_is_current(struct orders *orders, uint64_t epoch)
{
	bool is_same;

	pthread_mutex_lock(&orders->lock);
	is_same = orders->is_joined && orders->epoch == epoch;
	pthread_mutex_unlock(&orders->lock);
	return is_same;
}

static void run_reserve(struct orders *orders, struct job *job)
{
	struct extent_info *infos;
	size_t nr_infos;
	int ret;

	/* The connection has ended, so the manager will ask again. */
	if (!orders_is_current(orders, job->epoch)) {
		orders_reply(orders, job->call, error_code(-ECANCELED));
		return;
	}
	if (job->class == CLASS_FLASH) {
		orders_reserve_flash(orders, job);
		return;
	}
	ret = (job->class == CLASS_DRAM_SEALED ? extent_pool_reserve_sealed : extent_pool_reserve)(
		orders->options.pool, job->namespace, job->bytes, job->deadline, &infos, &nr_infos);
	if (ret != 0) {
		orders_reply(orders, job->call, ret);
		return;
	}
	if (clock_ns() >= job->deadline) {
		give_back(orders, infos, nr_infos);
		orders_reply(orders, job->call,
			     error_fail(-ETIMEDOUT,
					"reserve %llu MiB: populating took longer than the "
					"deadline; try again",
					printable(job->bytes >> 20)));
	} else {
		orders_reply_extents(orders, job->call, infos, nr_infos);
	}
	free(infos);
}

bool orders_queue_again(struct orders *orders, struct job *job)
{
	bool is_taken;

	pthread_mutex_lock(&orders->lock);
	is_taken = !orders->is_stopping;
	if (is_taken) {
		cds_list_add_tail(&job->node, &orders->jobs);
		orders->nr_jobs++;
	}
	pthread_mutex_unlock(&orders->lock);
	if (is_taken)
		orders->options.queued(orders->options.context);
	return is_taken;
}

/* Queues the second step of a seal for the membership's thread: the namespace's connections are
 * closed. Runs on a progress thread. */
static void on_sealable(void *argument)
{
	struct job *job = argument;
	struct orders *orders = job->orders;

	job->is_fenced = true;
	if (orders_queue_again(orders, job))
		return;
	orders_reply(orders, job->call, error_fail(-ECANCELED, "the server is stopping"));
	free_job(job);
}

/* Does one of the two steps of a seal. Stops if the manager has connected again, because it may
 * have given the new place to another region since. True: the second step follows. */
static bool run_seal(struct orders *orders, struct job *job)
{
	int ret = error_code(-ECANCELED);

	if (!orders_is_current(orders, job->epoch)) {
		orders_reply(orders, job->call, ret);
		return false;
	}
	if (job->is_fenced) {
		ret = seal_copy(orders->options.pool, job->namespace, job->moves, job->nr_moves);
		orders_reply(orders, job->call, ret);
		return false;
	}
	ret = seal_check(orders->options.pool, job->namespace, job->moves, job->nr_moves);
	if (ret == 0)
		ret = fence_namespace(orders->options.fence, job->namespace, job->generation,
				      on_sealable, job);
	if (ret != 0)
		orders_reply(orders, job->call, ret);
	return ret == 0;
}

/* Releases extents, also if the connection has ended: the manager has decided it, and numbers are
 * never reused. */
static void run_release(struct orders *orders, struct job *job)
{
	struct pending_reply *reply = orders_pending_reply(orders, job->call);
	int ret;

	if (!reply)
		ret = error_code(-ENOMEM);
	else
		ret = fence_extents(orders->options.fence, job->extents, job->nr_extents,
				    send_pending_reply, reply);
	if (ret != 0) {
		free(reply);
		orders_reply(orders, job->call, ret);
	}
}

static struct job *take_job(struct orders *orders)
{
	struct job *job = NULL;

	pthread_mutex_lock(&orders->lock);
	if (!cds_list_empty(&orders->jobs)) {
		job = cds_list_first_entry(&orders->jobs, struct job, node);
		cds_list_del(&job->node);
		orders->nr_jobs--;
		orders->is_working = true;
	}
	pthread_mutex_unlock(&orders->lock);
	return job;
}

void orders_work(struct orders *orders)
{
	struct job *job = take_job(orders);
	bool is_over = true;

	if (!job)
		return;
	if (job->path || job->is_closing)
		orders_device(orders, job);
	else if (job->is_read)
		orders_read(orders, job);
	else if (job->names)
		orders_release_flash(orders, job);
	else if (job->ranges)
		is_over = orders_trim(orders, job);
	else if (job->extents)
		run_release(orders, job);
	else if (job->moves)
		is_over = !run_seal(orders, job);
	else
		run_reserve(orders, job);
	if (is_over)
		free_job(job);
	pthread_mutex_lock(&orders->lock);
	orders->is_working = false;
	pthread_mutex_unlock(&orders->lock);
}

bool orders_are_waiting(struct orders *orders)
{
	bool are_waiting;

	pthread_mutex_lock(&orders->lock);
	are_waiting = !cds_list_empty(&orders->jobs);
	pthread_mutex_unlock(&orders->lock);
	return are_waiting;
}

/* ---- Requests. On the loop's thread. */

void orders_queue(struct orders *orders, struct job *job)
{
	bool is_taken;

	pthread_mutex_lock(&orders->lock);
	is_taken = orders->nr_jobs < NR_JOBS_MAX && !orders->is_stopping;
	if (is_taken) {
		job->epoch = orders->epoch;
		cds_list_add_tail(&job->node, &orders->jobs);
		orders->nr_jobs++;
	}
	pthread_mutex_unlock(&orders->lock);
	if (is_taken) {
		orders->options.queued(orders->options.context);
		return;
	}
	orders_reply(orders, job->call,
		     error_fail(-EBUSY, "the server is stopping or has too many requests"));
	free_job(job);
}

/* Makes a reservation on the loop's thread, if it need not wait and no job is before it. */
static bool reserve_at_once(struct orders *orders, uint64_t namespace, uint64_t bytes,
			    struct rpc_call *call)
{
	struct extent_info *infos;
	size_t nr_infos;
	bool is_free;

	if (!orders->options.is_registering_quick)
		return false;
	pthread_mutex_lock(&orders->lock);
	is_free = orders->is_joined && orders->nr_jobs == 0 && !orders->is_working;
	pthread_mutex_unlock(&orders->lock);
	if (!is_free || extent_pool_reserve_clean(orders->options.pool, namespace, bytes, &infos,
						  &nr_infos) != 0)
		return false;
	orders_reply_extents(orders, call, infos, nr_infos);
	free(infos);
	return true;
}

static void on_reserve(struct orders *orders, const Afar__Frame *frame, struct rpc_call *call)
{
	const Afar__ExtentsReserve *request = frame->request->extents_reserve;
	uint64_t bytes;
	struct job *job;

	if (__builtin_add_overflow(request->bytes, SEGMENT_MIN - 1, &bytes)) {
		orders_reply(orders, call,
			     error_fail(-EINVAL, "reserve %llu bytes: too many",
					printable(request->bytes)));
		return;
	}
	if (request->class_ >= NR_CLASSES) {
		orders_reply(orders, call,
			     error_fail(-EOPNOTSUPP,
					"reserve %llu bytes: memory of class %u is not known here; "
					"use servers and a manager of one version",
					printable(request->bytes), request->class_));
		return;
	}
	bytes -= bytes % SEGMENT_MIN;
	if (request->class_ == CLASS_DRAM &&
	    reserve_at_once(orders, request->namespace_, bytes, call))
		return;
	job = calloc(1, sizeof(*job));
	if (!job) {
		orders_reply(orders, call, error_code(-ENOMEM));
		return;
	}
	job->call = call;
	job->deadline = frame->deadline_ms ? clock_deadline_ms(frame->deadline_ms) : CLOCK_NEVER;
	job->namespace = request->namespace_;
	job->bytes = bytes;
	job->class = (enum extent_class)request->class_;
	job->store = request->store;
	orders_queue(orders, job);
}

static void on_release(struct orders *orders, const Afar__ExtentsRelease *request,
		       struct rpc_call *call)
{
	struct job *job = calloc(1, sizeof(*job));
	uint64_t *extents = calloc(request->n_extents + 1, sizeof(*extents));

	if (!job || !extents) {
		free(job);
		free(extents);
		orders_reply(orders, call, error_code(-ENOMEM));
		return;
	}
	if (request->n_extents > 0)
		memcpy(extents, request->extents, request->n_extents * sizeof(*extents));
	job->call = call;
	job->extents = extents;
	job->nr_extents = request->n_extents;
	orders_queue(orders, job);
}

static void on_seal(struct orders *orders, const Afar__ExtentsSeal *request, struct rpc_call *call)
{
	struct job *job = calloc(1, sizeof(*job));
	struct seal_move *moves = calloc(request->n_moves + 1, sizeof(*moves));

	if (!job || !moves) {
		free(job);
		free(moves);
		orders_reply(orders, call, error_code(-ENOMEM));
		return;
	}
	for (size_t i = 0; i < request->n_moves; i++) {
		const Afar__SealMove *move = request->moves[i];

		moves[i] = (struct seal_move){move->from, move->from_offset, move->to,
					      move->to_offset, move->length};
	}
	job->call = call;
	job->namespace = request->namespace_;
	job->moves = moves;
	job->nr_moves = request->n_moves;
	job->generation = request->generation;
	job->orders = orders;
	orders_queue(orders, job);
}

static void on_session_end(struct orders *orders, uint64_t session, struct rpc_call *call)
{
	struct pending_reply *reply = orders_pending_reply(orders, call);
	int ret;

	if (!reply)
		ret = error_code(-ENOMEM);
	else
		ret = fence_session(orders->options.fence, session, send_pending_reply, reply);
	if (ret != 0) {
		free(reply);
		orders_reply(orders, call, ret);
	}
}

void orders_request(struct orders *orders, const Afar__Frame *frame, struct rpc_call *call)
{
	const Afar__Request *request = frame->request;

	switch (request->call_case) {
	case AFAR__REQUEST__CALL_EXTENTS_RESERVE:
		on_reserve(orders, frame, call);
		break;
	case AFAR__REQUEST__CALL_EXTENTS_RELEASE:
		if (request->extents_release->store != 0)
			orders_on_release_flash(orders, request->extents_release, call);
		else
			on_release(orders, request->extents_release, call);
		break;
	case AFAR__REQUEST__CALL_EXTENTS_TRIM:
		orders_on_trim(orders, request->extents_trim, call);
		break;
	case AFAR__REQUEST__CALL_EXTENT_READ:
		orders_on_read(orders, request->extent_read, call);
		break;
	case AFAR__REQUEST__CALL_EXTENTS_SEAL:
		on_seal(orders, request->extents_seal, call);
		break;
	case AFAR__REQUEST__CALL_STORE_OPEN:
		orders_on_device(orders, request->store_open->path, 0, call);
		break;
	case AFAR__REQUEST__CALL_STORE_CLOSE:
		orders_on_device(orders, NULL, request->store_close->store, call);
		break;
	case AFAR__REQUEST__CALL_SESSION_END:
		on_session_end(orders, request->session_end->session, call);
		break;
	case AFAR__REQUEST__CALL_PING:
		orders_reply(orders, call, 0);
		break;
	default:
		orders_reply(orders, call,
			     error_fail(-EOPNOTSUPP, "call %d: a server does not take it",
					(int)request->call_case));
	}
}

/* ---- The connection */

void orders_connected(struct orders *orders)
{
	pthread_mutex_lock(&orders->lock);
	orders->epoch++;
	orders->is_joined = false;
	pthread_mutex_unlock(&orders->lock);
}

void orders_set_joined(struct orders *orders, bool is_joined)
{
	pthread_mutex_lock(&orders->lock);
	orders->is_joined = is_joined;
	pthread_mutex_unlock(&orders->lock);
}

/* ---- Life */

int orders_open(const struct orders_options *options, struct orders **out)
{
	struct orders *orders = calloc(1, sizeof(*orders));

	if (!orders)
		return error_code(-ENOMEM);
	orders->options = *options;
	pthread_mutex_init(&orders->lock, NULL);
	CDS_INIT_LIST_HEAD(&orders->jobs);
	*out = orders;
	return 0;
}

void orders_close(struct orders *orders)
{
	if (!orders)
		return;
	pthread_mutex_destroy(&orders->lock);
	free(orders);
}

void orders_stop(struct orders *orders)
{
	pthread_mutex_lock(&orders->lock);
	orders->is_stopping = true;
	pthread_mutex_unlock(&orders->lock);
}

void orders_refuse(struct orders *orders)
{
	struct job *job, *next;

	cds_list_for_each_entry_safe (job, next, &orders->jobs, node) {
		cds_list_del(&job->node);
		orders_reply(orders, job->call, error_fail(-ECANCELED, "the server is stopping"));
		free_job(job);
	}
}
