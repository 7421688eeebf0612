/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress threads. Each owns a fabric queue and the connections on it, and alone touches them; others
 * send it commands. The first also owns the listener and deals new connections out.
 *
 * A thread works in passes: commands, new connections, connection events, then it moves data. As long
 * as data comes, and spin_us longer, it spins; then it arms the queue and sleeps on the descriptors: an
 * idle server uses no CPU.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <urcu/list.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "server/complaint.h"
#include "server/door.h"
#include "server/mailbox.h"
#include "server/mover.h"
#include "server/progress.h"

#define QUEUE_DEPTH	  (2 * MESSAGE_CREDITS) /* replies, and what clients ask to be moved */
#define CONTEXT_MOVE	  UINT64_C(0x80) /* of a move; with its number. Else it is the mailbox's */
#define SPIN_NS_MAX	  2000000U	 /* of one spin, however much there is to do: others wait */
#define MESSAGES_PER_PASS 256U		 /* then the others look                              */
#define REQUESTS_PER_PASS 64U
#define SILENCE_MS	  10000 /* from connecting to asking to be let in             */
#define CONNECT_MS	  10000 /* from being accepted to being connected             */

enum { WATCH_QUEUE, WATCH_WAKE, WATCH_LISTENER, NR_WATCHED };

/* A data connection. Owned by its thread, on its list. */
struct connection {
	uint64_t
		number; /* first: the tree is searched for it. What its operations have as context */
	struct cds_list_head node;
	struct fabric_endpoint *endpoint;
	struct mailbox *mailbox;
	struct mover_line line;
	struct progress_thread *thread;
	struct admission admission;
	struct domain *domain;	   /* that it is accepted into */
	uint64_t connect_deadline; /* on clock_ns(); CLOCK_NEVER once it is connected */
	bool is_ending;		   /* its peer has been told to let go */
};

enum command_kind { COMMAND_ADOPT, COMMAND_CLOSE };

struct command {
	struct cds_list_head node;
	enum command_kind kind;
	struct fabric_request request;	  /* COMMAND_ADOPT                            */
	struct progress_closing *closing; /* COMMAND_CLOSE: which the command is part of */
};

/* The closing of connections, on its way through all threads. Freed by the last. */
struct progress_closing {
	struct progress *progress;
	struct progress_order order;
	atomic_uint nr_left;	   /* threads that have not closed theirs yet */
	struct command commands[]; /* one per thread */
};

struct progress_thread {
	struct progress *progress;
	pthread_t thread;
	struct fabric_queue *queue;
	struct pollfd watched[NR_WATCHED];
	nfds_t nr_watched; /* with the listener or without */
	struct cds_list_head connections;
	struct cds_list_head waiting; /* commands to close, until peers have let go */
	void *by_number;	      /* tree of them */
	uint64_t last_number; /* in steps of 256: the low bits are the mailbox's and the mover's */
	struct mover mover;
	unsigned nr_connecting;
	atomic_uint nr_connections; /* dealt to it, closed ones taken off */

	int wake_fd;
	pthread_mutex_t lock; /* of the commands */
	struct cds_list_head commands;
	atomic_bool has_commands;
};

struct progress {
	struct progress_options options;
	struct fabric_listener *listener;
	struct door *door;
	struct progress_thread *threads;
	atomic_bool is_stopping;
	atomic_uint nr_connections;
	struct complaints rejections, shortages;
};

/* ---- Commands */

static void wake(struct progress_thread *thread)
{
	static const uint64_t one = 1;
	ssize_t written;

	atomic_store(&thread->has_commands, true);
	/* It fails only when the counter is full, and then the thread wakes up anyway. */
	written = write(thread->wake_fd, &one, sizeof(one));
	(void)written;
}

static void send_command(struct progress_thread *thread, struct command *command)
{
	pthread_mutex_lock(&thread->lock);
	cds_list_add_tail(&command->node, &thread->commands);
	pthread_mutex_unlock(&thread->lock);
	wake(thread);
}

static void take_commands(struct progress_thread *thread, struct cds_list_head *out)
{
	uint64_t count;
	ssize_t nr_read;

	CDS_INIT_LIST_HEAD(out);
	/* Cleared before the list is taken: a later command sets both again. */
	nr_read = read(thread->wake_fd, &count, sizeof(count));
	(void)nr_read;
	atomic_store(&thread->has_commands, false);
	pthread_mutex_lock(&thread->lock);
	cds_list_splice(&thread->commands, out);
	CDS_INIT_LIST_HEAD(&thread->commands);
	pthread_mutex_unlock(&thread->lock);
}

/* ---- Connections */

static void log_rejection(struct progress *progress, const char *peer, const char *why)
{
	if (complaints_allow(&progress->rejections))
		log_warn("rejected a data connection from %s: %s", peer, why);
}

static void count_connection(struct progress_thread *thread, int change)
{
	struct progress *progress = thread->progress;

	atomic_fetch_add(&progress->nr_connections, (unsigned)change);
	atomic_fetch_add(&thread->nr_connections, (unsigned)change);
}

static void note_settled(struct progress_thread *thread, struct connection *connection)
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

static struct connection *find_connection(struct progress_thread *thread, uint64_t number)
{
	struct connection *const *found = tfind(&number, &thread->by_number, compare_numbers);

	return found ? *found : NULL;
}

static void close_connection(struct progress_thread *thread, struct connection *connection)
{
	fabric_endpoint_close(connection->endpoint);
	mover_leave(&thread->mover, &connection->line);
	mailbox_close(connection->mailbox);
	tdelete(connection, &thread->by_number, compare_numbers);
	domains_put(thread->progress->options.domains, connection->domain);
	note_settled(thread, connection);
	cds_list_del(&connection->node);
	free(connection);
	count_connection(thread, -1);
	thread->progress->options.changed(thread->progress->options.context);
}

static bool serve(void *argument, unsigned slot, const struct message_request *request,
		  struct message_reply *reply)
{
	struct connection *connection = argument;
	const struct progress_options *options = &connection->thread->progress->options;
	char *addr;

	if (message_is_move(request->kind)) {
		reply->status =
			options->locate(options->context, &connection->admission, request, &addr);
		if (reply->status == 0)
			mover_ask(&connection->thread->mover, &connection->line, slot, request,
				  addr);
		return reply->status != 0;
	}
	options->serve(options->context, &connection->admission, request, reply);
	return true;
}

static int open_mailbox(struct connection *connection)
{
	const struct mailbox_options options = {
		.domain = connection->domain->on[connection->thread->progress->options.nr_fabric],
		.context = connection->number,
		.serve = serve,
		.argument = connection,
	};

	return mailbox_open(&options, &connection->mailbox);
}

/* What is attached is not closed with other memory of its namespace: where transfers may be half through, nobody
 * gets in with a ticket for that. */
static int check_attaching(const struct progress *progress, const struct admission *admission)
{
	if (admission->attaches == 0 || progress->options.fabric->attributes.needs_shared_memory)
		return 0;
	return error_fail(-EACCES, "the ticket is for attaching memory, which cannot be done here");
}

/* Accepts a stranger, or rejects it. The ticket is redeemed here, on the thread that will own the
 * connection: an end of the session either comes before and revokes it, or finds the connection. */
static void adopt(struct progress_thread *thread, struct fabric_request *request)
{
	struct progress *progress = thread->progress;
	struct connection *connection;

	connection = calloc(1, sizeof(*connection));
	if (!connection) {
		error_code(-ENOMEM);
		goto out_reject;
	}
	connection->thread = thread;
	connection->number = thread->last_number += 256;
	if (progress->options.admit(progress->options.context, request->private_data,
				    request->private_length, &connection->admission) != 0 ||
	    check_attaching(progress, &connection->admission) != 0)
		goto out_reject;
	if (domains_get(progress->options.domains, connection->admission.reach,
			&connection->domain) != 0)
		goto out_reject;
	if (open_mailbox(connection) != 0)
		goto out_put;
	if (!tsearch(connection, &thread->by_number, compare_numbers)) {
		error_code(-ENOMEM);
		goto out_mailbox;
	}
	if (fabric_accept(request, thread->queue,
			  connection->domain->on[progress->options.nr_fabric], connection,
			  &connection->endpoint) != 0)
		goto out_number;
	mover_enter(&connection->line, connection->endpoint, connection->number | CONTEXT_MOVE);
	connection->connect_deadline = clock_deadline_ms(CONNECT_MS);
	thread->nr_connecting++;
	cds_list_add(&connection->node, &thread->connections);
	if (mover_join(&thread->mover, &connection->line, connection->admission.session) != 0 ||
	    mailbox_start(connection->mailbox, connection->endpoint) != 0)
		close_connection(thread, connection);
	progress->options.changed(progress->options.context);
	return;

out_number:
	tdelete(connection, &thread->by_number, compare_numbers);
out_mailbox:
	mailbox_close(connection->mailbox);
out_put:
	domains_put(progress->options.domains, connection->domain);
out_reject:
	log_rejection(progress, request->peer, afar_last_error());
	free(connection);
	fabric_reject(progress->listener, request);
	count_connection(thread, -1);
}

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

/* Descriptors are handed out from the lowest: the next one tells how many there are at least. A connection takes
 * one or a few, as the transport has it. */
static bool has_descriptors(const struct progress *progress)
{
	const uint32_t max = progress->options.nr_descriptors_max;
	int next = fcntl(fabric_listener_fd(progress->listener), F_DUPFD_CLOEXEC, 0);

	if (next < 0)
		return false;
	close(next);
	return max == 0 || (uint32_t)next < max;
}

/* Gives one request to the thread with the fewest connections. */
static void deal(struct progress *progress, struct fabric_request *request)
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
		adopt(thread, request);
		return;
	}
	command = calloc(1, sizeof(*command));
	if (!command)
		goto out_reject;
	command->kind = COMMAND_ADOPT;
	command->request = *request;
	count_connection(thread, 1);
	send_command(thread, command);
	return;

out_reject:
	fabric_reject(progress->listener, request);
}

/* This thread has none of its connections left. Afterwards `closing` may be gone. */
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

/* Closes a connection, or begins to. False: its peer is waited for. One that has begun moves nothing any more, but is
 * only closed when its peer has let go. */
static bool end_connection(struct progress_thread *thread, struct connection *connection,
			   bool must_let_go)
{
	if (must_let_go && !connection->is_ending)
		connection->is_ending = fabric_endpoint_end(connection->endpoint);
	if (connection->is_ending)
		return !must_let_go;
	close_connection(thread, connection);
	return true;
}

/* Afterwards the command's closing may be gone. */
static void close_some(struct progress_thread *thread, struct command *command)
{
	struct progress_closing *closing = command->closing;
	struct connection *connection, *next;
	bool are_closed = true;

	cds_list_for_each_entry_safe (connection, next, &thread->connections, node) {
		if (is_concerned(closing, connection) &&
		    !end_connection(thread, connection, closing->order.must_let_go))
			are_closed = false;
	}
	if (are_closed)
		finish_closing(closing);
	else
		cds_list_add_tail(&command->node, &thread->waiting);
}

/* Those that came after the closing are none of its business: who was cut off may have connected again. */
static bool awaits_some(const struct progress_thread *thread,
			const struct progress_closing *closing)
{
	const struct connection *connection;

	cds_list_for_each_entry (connection, &thread->connections, node) {
		if (connection->is_ending && is_concerned(closing, connection))
			return true;
	}
	return false;
}

/* A connection that was waited for may have gone. */
static void finish_waiting(struct progress_thread *thread)
{
	struct command *command, *next;

	cds_list_for_each_entry_safe (command, next, &thread->waiting, node) {
		if (awaits_some(thread, command->closing))
			continue;
		cds_list_del(&command->node);
		finish_closing(command->closing);
	}
}

/* ---- A pass */

static void run_commands(struct progress_thread *thread)
{
	struct command *command, *next;
	struct cds_list_head commands;

	take_commands(thread, &commands);
	cds_list_for_each_entry_safe (command, next, &commands, node) {
		switch (command->kind) {
		case COMMAND_ADOPT:
			adopt(thread, &command->request);
			free(command);
			break;
		case COMMAND_CLOSE:
			close_some(thread, command);
			break;
		}
	}
}

static void take_requests(struct progress_thread *thread)
{
	struct progress *progress = thread->progress;
	struct fabric_request request;
	int status = 0;

	/* The listener's descriptor stays readable while there are more. */
	for (unsigned i = 0; i < REQUESTS_PER_PASS && status == 0; i++) {
		status = fabric_listener_next(progress->listener, &request);
		if (status == 0)
			deal(progress, &request);
	}
	if (status != 0 && status != -EAGAIN && complaints_allow(&progress->shortages))
		log_error("%s", afar_last_error());
	/* Looking has had the transport take in those who say nothing, of whom nobody tells. */
	door_knock(progress->door);
}

static void take_events(struct progress_thread *thread)
{
	struct connection *connection;
	struct fabric_event event;
	bool has_closed = false;

	while (fabric_queue_event(thread->queue, &event) == 1) {
		connection = event.endpoint->owner;
		has_closed |= event.kind == FABRIC_CLOSED;
		if (event.kind == FABRIC_CLOSED)
			close_connection(thread, connection);
		else
			note_settled(thread, connection);
	}
	if (has_closed && !cds_list_empty(&thread->waiting))
		finish_waiting(thread);
}

/* Its reply may be the end of the connection. */
static void on_moved(struct mover_line *line, unsigned slot, int status)
{
	struct connection *connection = caa_container_of(line, struct connection, line);

	if (mailbox_answer(connection->mailbox, slot, status) != 0)
		close_connection(connection->thread, connection);
}

/* A message has come or gone, or a move is over. Those of connections that are closed may still be told of. */
static void take_completion(struct progress_thread *thread,
			    const struct fabric_completion *completion)
{
	struct connection *connection =
		find_connection(thread, completion->context & ~UINT64_C(0xff));

	if (!connection || connection->is_ending)
		return;
	if ((completion->context & CONTEXT_MOVE) && completion->status == 0)
		mover_end(&thread->mover, &connection->line, completion->context % CONTEXT_MOVE);
	else if (completion->status || mailbox_complete(connection->mailbox, completion) != 0)
		close_connection(thread, connection);
}

/* Reading the queue is what moves data. Completions tell of messages and of what we move ourselves: of clients' transfers
 * there are none. True: something was moved. */
static bool move_data(struct progress_thread *thread)
{
	struct fabric_completion completions[QUEUE_DEPTH];
	bool has_moved = false;
	unsigned nr_taken = 0;
	int nr;

	do {
		nr = fabric_queue_poll(thread->queue, completions, QUEUE_DEPTH);
		if (nr > 1)
			fabric_queue_hold(thread->queue);
		for (int i = 0; i < nr; i++)
			take_completion(thread, &completions[i]);
		if (nr > 1)
			fabric_queue_release(thread->queue);
		mover_begin(&thread->mover, clock_ns());
		nr_taken += (unsigned)nr;
		has_moved = has_moved || nr > 0 || thread->queue->has_moved;
		/* Who has much to say does not keep others from being heard, nor from having him put out. */
	} while (nr == (int)QUEUE_DEPTH && nr_taken < MESSAGES_PER_PASS &&
		 !atomic_load(&thread->has_commands));
	return has_moved;
}

static void close_late(struct progress_thread *thread)
{
	struct connection *connection, *next;
	uint64_t now = clock_ns();

	if (thread->nr_connecting == 0)
		return;
	cds_list_for_each_entry_safe (connection, next, &thread->connections, node) {
		if (connection->connect_deadline <= now && !connection->is_ending)
			close_connection(thread, connection);
	}
}

/* Everything but moving data. */
static void look_around(struct progress_thread *thread)
{
	if (atomic_load(&thread->has_commands))
		run_commands(thread);
	if (thread->nr_watched > WATCH_LISTENER)
		take_requests(thread);
	take_events(thread);
	close_late(thread);
}

/* Moves data until there has been none for spin_us. False: others have their turn, but there may be more. */
static bool spin(struct progress_thread *thread)
{
	const uint64_t spin_ns = thread->progress->options.spin_us * (uint64_t)1000;
	uint64_t now = clock_ns();
	uint64_t deadline = now + spin_ns, last = now + SPIN_NS_MAX;

	do {
		bool has_moved = move_data(thread);

		now = clock_ns();
		if (has_moved)
			deadline = now + spin_ns;
	} while (now < deadline && now < last && !atomic_load(&thread->has_commands));
	return now >= deadline;
}

static void sleep_until_ready(struct progress_thread *thread)
{
	/* Whoever stops us sets this before waking us: the wake-up may have been taken already. */
	if (atomic_load(&thread->progress->is_stopping) || fabric_queue_arm(thread->queue) != 0)
		return;
	poll(thread->watched, thread->nr_watched,
	     mover_sleep_ms(&thread->mover, thread->nr_connecting > 0 ? CONNECT_MS : -1));
}

static void *thread_run(void *argument)
{
	struct progress_thread *thread = argument;
	struct connection *connection, *next;

	while (!atomic_load(&thread->progress->is_stopping)) {
		look_around(thread);
		if (spin(thread))
			sleep_until_ready(thread);
	}
	cds_list_for_each_entry_safe (connection, next, &thread->connections, node)
		close_connection(thread, connection);
	finish_waiting(thread);
	return NULL;
}

/* ---- Life */

static void watch(struct progress_thread *thread)
{
	struct progress *progress = thread->progress;
	bool is_first = thread == &progress->threads[0];

	thread->watched[WATCH_QUEUE].fd = fabric_queue_fd(thread->queue);
	thread->watched[WATCH_WAKE].fd = thread->wake_fd;
	thread->watched[WATCH_LISTENER].fd = fabric_listener_fd(progress->listener);
	thread->nr_watched = is_first ? NR_WATCHED : WATCH_LISTENER;
	for (unsigned i = 0; i < NR_WATCHED; i++)
		thread->watched[i].events = POLLIN;
}

static int start_thread(struct progress_thread *thread, unsigned number)
{
	struct progress *progress = thread->progress;
	pthread_attr_t attributes;
	sigset_t all, before;
	char name[16];
	int status;

	pthread_mutex_init(&thread->lock, NULL);
	CDS_INIT_LIST_HEAD(&thread->commands);
	CDS_INIT_LIST_HEAD(&thread->connections);
	CDS_INIT_LIST_HEAD(&thread->waiting);
	status = mover_open(&thread->mover, progress->options.stage_bytes, on_moved);
	if (status != 0)
		goto out_lock;
	thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->wake_fd < 0) {
		status = error_code(-errno);
		goto out_mover;
	}
	status = fabric_queue_open(progress->options.fabric, QUEUE_DEPTH, &thread->queue);
	if (status != 0)
		goto out_wake;
	watch(thread);

	sigfillset(&all);
	pthread_attr_init(&attributes);
	if (progress->options.processors)
		pthread_attr_setaffinity_np(&attributes, sizeof(*progress->options.processors),
					    progress->options.processors);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = -pthread_create(&thread->thread, &attributes, thread_run, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (status != 0) {
		error_fail(status, "start a progress thread: no thread; raise the limit of "
				   "processes");
		goto out_queue;
	}
	snprintf(name, sizeof(name), "afar-data-%u", number % 1000);
	pthread_setname_np(thread->thread, name);
	return 0;

out_queue:
	fabric_queue_close(thread->queue);
out_wake:
	close(thread->wake_fd);
out_mover:
	mover_close(&thread->mover);
out_lock:
	pthread_mutex_destroy(&thread->lock);
	return status;
}

static void stop_thread(struct progress_thread *thread)
{
	struct command *command, *next;

	pthread_join(thread->thread, NULL);
	/* What was dealt to it while it stopped. */
	cds_list_for_each_entry_safe (command, next, &thread->commands, node) {
		switch (command->kind) {
		case COMMAND_ADOPT:
			fabric_reject(thread->progress->listener, &command->request);
			free(command);
			break;
		case COMMAND_CLOSE:
			close_some(thread, command);
			break;
		}
	}
	fabric_queue_close(thread->queue);
	mover_close(&thread->mover);
	close(thread->wake_fd);
	pthread_mutex_destroy(&thread->lock);
}

/* Ends the threads from `first` on; the one that deals first, if it is among them. */
static void stop_threads(struct progress *progress, unsigned first)
{
	unsigned i;

	atomic_store(&progress->is_stopping, true);
	for (i = first; i < progress->options.nr_threads; i++)
		wake(&progress->threads[i]);
	for (i = first; i < progress->options.nr_threads; i++)
		stop_thread(&progress->threads[i]);
}

int progress_start(const struct progress_options *options, struct progress **out)
{
	struct progress *progress = calloc(1, sizeof(*progress));
	unsigned first;
	int status;

	if (!progress)
		return error_code(-ENOMEM);
	progress->options = *options;
	progress->threads = calloc(options->nr_threads, sizeof(*progress->threads));
	if (!progress->threads) {
		status = error_code(-ENOMEM);
		goto out_free;
	}
	status = fabric_listen(options->fabric, options->address, &progress->listener);
	if (status != 0)
		goto out_threads;
	status =
		door_start(progress->listener,
			   options->silence_ms ? options->silence_ms : SILENCE_MS, &progress->door);
	if (status != 0)
		goto out_listener;
	/* The one that listens last: it deals to all others. */
	for (first = options->nr_threads; first > 0; first--) {
		progress->threads[first - 1].progress = progress;
		status = start_thread(&progress->threads[first - 1], first - 1);
		if (status != 0)
			goto out_stop;
	}
	*out = progress;
	return 0;

out_stop:
	stop_threads(progress, first);
	door_stop(progress->door);
out_listener:
	fabric_listener_close(progress->listener);
out_threads:
	free(progress->threads);
out_free:
	free(progress);
	return status;
}

void progress_stop(struct progress *progress)
{
	if (!progress)
		return;
	stop_threads(progress, 0);
	door_stop(progress->door);
	fabric_listener_close(progress->listener);
	free(progress->threads);
	free(progress);
}

/* ---- What others ask */

const char *progress_address(const struct progress *progress)
{
	return progress->listener->address;
}

uint32_t progress_nr_connections(const struct progress *progress)
{
	return atomic_load(&progress->nr_connections);
}

void progress_count(const struct progress *progress, uint64_t *bytes_in, uint64_t *bytes_out)
{
	*bytes_in = *bytes_out = 0;
	for (unsigned i = 0; i < progress->options.nr_threads; i++) {
		*bytes_in += counter_get(&progress->threads[i].queue->bytes_in);
		*bytes_out += counter_get(&progress->threads[i].queue->bytes_out);
	}
}

int progress_closing_new(struct progress *progress, struct progress_closing **out)
{
	unsigned nr_threads = progress->options.nr_threads;
	struct progress_closing *closing =
		calloc(1, sizeof(*closing) + nr_threads * sizeof(closing->commands[0]));

	if (!closing)
		return error_code(-ENOMEM);
	closing->progress = progress;
	atomic_init(&closing->nr_left, nr_threads);
	for (unsigned i = 0; i < nr_threads; i++) {
		closing->commands[i].kind = COMMAND_CLOSE;
		closing->commands[i].closing = closing;
	}
	*out = closing;
	return 0;
}

void progress_closing_drop(struct progress_closing *closing)
{
	free(closing);
}

void progress_close(struct progress_closing *closing, const struct progress_order *order)
{
	struct progress *progress = closing->progress;
	unsigned nr_threads = progress->options.nr_threads;

	closing->order = *order;
	/* Until the last one has its command, the closing is not freed. */
	for (unsigned i = 0; i < nr_threads; i++)
		send_command(&progress->threads[i], &closing->commands[i]);
}
