/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data connections of progress threads: accepts them with a ticket, deals them to threads, and
 * closes them for fences. Some it closes at once, others when their peers have let go. Nothing here
 * waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "fabric/mapped.h"
#include "server/data/progress_private.h"

static void log_rejection(struct progress *progress, const char *peer, const char *why)
{
	log_limited(&progress->rejections, LOG_LEVEL_WARN, "rejected a data connection from %s: %s",
		    peer, why);
}

static void count_connection(struct progress_thread *thread, int change)
{
	struct progress *progress = thread->progress;

	atomic_fetch_add(&progress->nr_connections, (unsigned)change);
	atomic_fetch_add(&thread->nr_connections, (unsigned)change);
}

void connection_settle(struct progress_thread *thread, struct connection *connection)
{
	if (connection->connect_deadline != CLOCK_NEVER)
		thread->nr_connecting--;
	connection->connect_deadline = CLOCK_NEVER;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

struct connection *connection_find(struct progress_thread *thread, uint64_t number)
{
	struct connection *const *found = tfind(&number, &thread->by_number, compare_numbers);

	return found ? *found : NULL;
}

/* The connection is over. */
static void connection_free(struct progress_thread *thread, struct connection *connection)
{
	const struct progress_engine *engine = thread->progress->options.engine;

	if (engine)
		engine->left(engine->context, &connection->work);
	cds_list_del(&connection->node);
	free(connection);
}

void connection_close(struct progress_thread *thread, struct connection *connection)
{
	congestion_leave(&thread->progress->congestion, connection->congestion);
	fabric_endpoint_close(connection->endpoint);
	thread->nr_on[connection->port - thread->progress->ports]--;
	mover_leave(&thread->mover, &connection->line);
	mailbox_close(connection->mailbox);
	tdelete(connection, &thread->by_number, compare_numbers);
	domains_put(thread->progress->options.domains, connection->domain);
	connection_settle(thread, connection);
	connection->endpoint = NULL;
	connection->mailbox = NULL;
	if (connection->work.nr_under_way == 0)
		connection_free(thread, connection);
	else
		cds_list_move(&connection->node, &thread->closed);
	count_connection(thread, -1);
	thread->progress->options.changed(thread->progress->options.context);
}

/* ---- Opening */

static bool serve(void *argument, unsigned slot, const struct message_request *request,
		  struct message_reply *reply)
{
	struct connection *connection = argument;
	const struct progress_options *options = &connection->thread->progress->options;
	char *addr;

	if (message_is_move(request->kind)) {
		reply->status = options->locate
					? options->locate(options->context, &connection->admission,
							  request, &addr)
					: -EOPNOTSUPP;
		if (reply->status == 0)
			mover_ask(&connection->thread->mover, &connection->line, slot, request,
				  addr);
		return reply->status != 0;
	}
	if (options->serve(options->context, &connection->admission, request, reply,
			   &(struct progress_message){connection, slot}))
		return true;
	connection->work.nr_under_way++;
	return false;
}

void progress_answer(const struct progress_message *message, const struct message_reply *reply)
{
	struct connection *connection = message->connection;

	connection->work.nr_under_way--;
	if (connection->mailbox &&
	    mailbox_answer(connection->mailbox, message->slot, reply->status, reply->value) != 0)
		connection_close(connection->thread, connection);
}

struct progress_work *progress_work(void *owner)
{
	return &((struct connection *)owner)->work;
}

const char *progress_transport(const void *owner)
{
	const struct connection *connection = owner;

	return connection->endpoint->queue->fabric->attributes.transport;
}

static int open_mailbox(struct connection *connection)
{
	const struct mailbox_options options = {
		.domain = connection->domain->on[connection->port->nr_fabric],
		.context = connection->number,
		.serve = serve,
		.argument = connection,
	};

	return mailbox_open(&options, &connection->mailbox);
}

/* Lets a ticket for attaching in only where peers can have the memory itself. Such a connection is
 * not closed with other memory of its namespace, and elsewhere a transfer on it may be half
 * through. */
static int check_attaching(const struct port *port, const struct admission *admission)
{
	if (admission->attaches == 0 || port->fabric->attributes.needs_shared_memory)
		return 0;
	return error_fail(-EACCES, "the ticket is for attaching memory, which cannot be done here");
}

/* Redeems the ticket on the thread that will own the connection. So the end of a session either
 * comes before and revokes the ticket, or finds the connection. */
void connection_adopt(struct progress_thread *thread, const struct port *port,
		      struct fabric_request *request)
{
	struct progress *progress = thread->progress;
	struct connection *connection;

	connection = calloc(1, sizeof(*connection));
	if (!connection) {
		error_code(-ENOMEM);
		goto out_reject;
	}
	connection->thread = thread;
	connection->port = port;
	connection->number = thread->last_number += 256;
	if (progress->options.admit(progress->options.context, request->private_data,
				    request->private_length, &connection->admission) != 0 ||
	    check_attaching(port, &connection->admission) != 0)
		goto out_reject;
	if (domains_get(progress->options.domains, connection->admission.reach,
			&connection->domain) != 0)
		goto out_reject;
	connection->work.session = connection->admission.session;
	if (open_mailbox(connection) != 0)
		goto out_put;
	if (!tsearch(connection, &thread->by_number, compare_numbers)) {
		error_code(-ENOMEM);
		goto out_mailbox;
	}
	if (fabric_accept(request, thread->queues[port - progress->ports],
			  connection->domain->on[port->nr_fabric], connection,
			  &connection->endpoint) != 0)
		goto out_number;
	thread->nr_on[port - progress->ports]++;
	fabric_endpoint_congestion(connection->endpoint, connection->congestion);
	congestion_enter(&progress->congestion, connection->congestion);
	mover_enter(&connection->line, connection->endpoint, connection->number | CONTEXT_MOVE);
	connection->connect_deadline = clock_deadline_ms(CONNECT_MS);
	thread->nr_connecting++;
	cds_list_add(&connection->node, &thread->connections);
	if (mover_join(&thread->mover, &connection->line, connection->admission.session) != 0 ||
	    mailbox_start(connection->mailbox, connection->endpoint) != 0)
		connection_close(thread, connection);
	progress->options.changed(progress->options.context);
	return;

out_number:
	tdelete(connection, &thread->by_number, compare_numbers);
out_mailbox:
	mailbox_close(connection->mailbox);
out_put:
	domains_put(progress->options.domains, connection->domain);
out_reject:
	log_rejection(progress, request->peer, error_last_line());
	free(connection);
	fabric_reject(port->listener, request);
	count_connection(thread, -1);
}

/* ---- Dealing */

static struct progress_thread *least_loaded(struct progress *progress)
{
	struct progress_thread *least = &progress->threads[0];
	unsigned i;

	for (i = 1; i < progress->options.nr_threads; i++) {
		if (atomic_load(&progress->threads[i].nr_connections) <
		    atomic_load(&least->nr_connections))
			least = &progress->threads[i];
	}
	return least;
}

/* Returns whether descriptors are left for a connection. The kernel hands out the lowest free
 * descriptor, so the next one tells how many there are at least. A connection takes one or a few,
 * by its transport. */
static bool has_descriptors(const struct progress *progress)
{
	const uint32_t max = progress->options.nr_descriptors_max;
	int next = fcntl(fabric_listener_fd(progress->ports[0].listener), F_DUPFD_CLOEXEC, 0);

	if (next < 0)
		return false;
	close(next);
	return max == 0 || (uint32_t)next < max;
}

void connection_deal(struct progress *progress, const struct port *port,
		     struct fabric_request *request)
{
	struct progress_thread *thread = least_loaded(progress);
	struct command *command = NULL;

	if (!has_descriptors(progress)) {
		log_rejection(progress, request->peer,
			      "too many connections; raise the limit of open files");
		goto out_reject;
	}
	if (thread == &progress->threads[0]) {
		count_connection(thread, 1);
		connection_adopt(thread, port, request);
		return;
	}
	command = calloc(1, sizeof(*command));
	if (!command)
		goto out_reject;
	command->kind = COMMAND_ADOPT;
	command->request = *request;
	command->port = port;
	count_connection(thread, 1);
	progress_send(thread, command);
	return;

out_reject:
	fabric_reject(port->listener, request);
}

/* ---- Closing */

/* Call it when this thread has closed its connections. Afterwards `closing` may be freed. */
static void finish_closing(struct progress_closing *closing)
{
	if (atomic_fetch_sub(&closing->nr_left, 1) == 1) {
		closing->order.done(closing->order.argument);
		progress_closing_drop(closing);
	}
}

static bool is_concerned(const struct progress_closing *closing,
			 const struct connection *connection)
{
	return closing->order.concerns(closing->order.argument, &connection->admission);
}

/* Closes a connection, or asks its peer to let go of the memory. False: wait for the peer.
 * Meanwhile the connection moves no data, and it is closed only when the peer has let go. */
static bool end_connection(struct progress_thread *thread, struct connection *connection,
			   bool must_let_go)
{
	if (must_let_go && !connection->is_ending)
		connection->is_ending = fabric_endpoint_end(connection->endpoint);
	if (connection->is_ending)
		return !must_let_go;
	connection_close(thread, connection);
	return true;
}

/* True: the engine has work under way for a closed connection that it concerns. */
static bool awaits_engine(const struct progress_thread *thread, const struct command *command)
{
	const struct connection *connection;

	cds_list_for_each_entry (connection, &thread->closed, node) {
		if (connection->number <= command->last_number &&
		    is_concerned(command->closing, connection))
			return true;
	}
	return false;
}

void connections_close(struct progress_thread *thread, struct command *command)
{
	struct progress_closing *closing = command->closing;
	struct connection *connection, *next;
	bool are_closed = true;

	cds_list_for_each_entry_safe (connection, next, &thread->connections, node) {
		if (is_concerned(closing, connection) &&
		    !end_connection(thread, connection, closing->order.must_let_go))
			are_closed = false;
	}
	command->last_number = thread->last_number;
	if (are_closed && !awaits_engine(thread, command))
		finish_closing(closing);
	else
		cds_list_add_tail(&command->node, &thread->waiting);
}

/* True if the closing still waits for some connection. Connections that came after it do not
 * concern it: a client that was cut off may have connected again. */
static bool awaits_some(const struct progress_thread *thread, const struct command *command)
{
	const struct connection *connection;

	cds_list_for_each_entry (connection, &thread->connections, node) {
		if (connection->is_ending && is_concerned(command->closing, connection))
			return true;
	}
	return awaits_engine(thread, command);
}

bool connections_sweep(struct progress_thread *thread)
{
	struct connection *connection, *next;
	bool has_gone = false;

	cds_list_for_each_entry_safe (connection, next, &thread->closed, node) {
		if (connection->work.nr_under_way > 0)
			continue;
		connection_free(thread, connection);
		has_gone = true;
	}
	if (has_gone && !cds_list_empty(&thread->waiting))
		connections_look_again(thread);
	return has_gone;
}

void connections_look_again(struct progress_thread *thread)
{
	struct command *command, *next;

	cds_list_for_each_entry_safe (command, next, &thread->waiting, node) {
		if (awaits_some(thread, command))
			continue;
		cds_list_del(&command->node);
		finish_closing(command->closing);
	}
}
