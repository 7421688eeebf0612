/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress threads. Each owns a fabric queue for each port, and the connections on them
 * (connections.c). Only the owner uses them; other threads send it commands. The first thread also
 * owns the listeners and deals new connections to the others.
 *
 * A thread works in passes: commands, new connections, connection events, then it moves data. It
 * spins while data comes, and for spin_us longer. Then it arms the queues and sleeps on the
 * descriptors, so an idle server uses no CPU.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "server/data/progress_private.h"

#define SPIN_NS_MAX	  2000000U /* the longest spin, because other work waits */
#define MESSAGES_PER_PASS 256U	   /* then other work has its turn */
#define REQUESTS_PER_PASS 64U
#define HASTY_SPINS	  64U /* one behind the other, then it is looked whether the core is free */
#define HOGGED_NS	  500000U /* a yield that takes longer gave a time slice away */
#define ALONE_SPINS	  4U	  /* as long as others are spins for an engine's only request */

/* ---- Commands */

static void wake(struct progress_thread *thread)
{
	static const uint64_t one = 1;
	ssize_t written;

	/* Fails only if the counter is full, and then the thread wakes up anyway. */
	written = write(thread->wake_fd, &one, sizeof(one));
	(void)written;
	/* This comes last. The thread reads the descriptor only when it sees the flag, and what is
	 * written later would wake it again and again. */
	atomic_store(&thread->has_commands, true);
}

void progress_send(struct progress_thread *thread, struct command *command)
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
	/* Clear it before taking the list: a later command sets both again. */
	nr_read = read(thread->wake_fd, &count, sizeof(count));
	(void)nr_read;
	atomic_store(&thread->has_commands, false);
	pthread_mutex_lock(&thread->lock);
	cds_list_splice(&thread->commands, out);
	CDS_INIT_LIST_HEAD(&thread->commands);
	pthread_mutex_unlock(&thread->lock);
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
			connection_adopt(thread, command->port, &command->request);
			free(command);
			break;
		case COMMAND_CLOSE:
			connections_close(thread, command);
			break;
		case COMMAND_RUN:
			command->run(command->argument);
			free(command);
			break;
		}
	}
}

static void take_requests(struct progress *progress, const struct port *port)
{
	struct fabric_request request;
	int ret = 0;

	/* The listener's descriptor stays readable while there are more requests. */
	for (unsigned i = 0; i < REQUESTS_PER_PASS && ret == 0; i++) {
		ret = fabric_listener_next(port->listener, &request);
		if (ret == 0)
			connection_deal(progress, port, &request);
	}
	if (ret != 0 && ret != -EAGAIN)
		log_limited(&progress->shortages, LOG_LEVEL_ERROR, "%s", error_last_line());
	/* Looking made the transport accept connections that have sent nothing, of which it does
	 * not tell. */
	door_knock(port->door);
}

/* True: somebody may be at a listener. Its descriptor has said so, or nobody has asked that for a
 * while, because the thread did not sleep. */
static bool is_listener_due(struct progress_thread *thread)
{
	const uint64_t now = clock_ns();
	const bool has_slept = thread->has_slept;

	thread->has_slept = false;
	if (thread != &thread->progress->threads[0] ||
	    (!thread->has_callers && !has_slept && now < thread->listen_at))
		return false;
	if (!thread->has_callers && has_slept) {
		thread->listen_at = now + SPIN_NS_MAX;
		return false;
	}
	thread->has_callers = false;
	thread->listen_at = now + SPIN_NS_MAX;
	return true;
}

/* True: some connections were closed. */
static bool take_events_of(struct progress_thread *thread, struct fabric_queue *queue)
{
	struct connection *connection;
	struct fabric_event event;
	bool has_closed = false;

	while (fabric_queue_event(queue, &event) == 1) {
		connection = event.endpoint->owner;
		has_closed |= event.kind == FABRIC_CLOSED;
		if (event.kind == FABRIC_CLOSED)
			connection_close(thread, connection);
		else
			connection_settle(thread, connection);
	}
	return has_closed;
}

static void take_events(struct progress_thread *thread)
{
	bool has_closed = false;

	for (unsigned i = 0; i < thread->progress->nr_ports; i++)
		has_closed |= take_events_of(thread, thread->queues[i]);
	if (has_closed && !cds_list_empty(&thread->waiting))
		connections_look_again(thread);
}

/* Sends the reply of a move, which may end the connection. */
static void on_moved(struct mover_line *line, unsigned slot, int status)
{
	struct connection *connection = caa_container_of(line, struct connection, line);

	if (mailbox_answer(connection->mailbox, slot, status, 0) != 0)
		connection_close(connection->thread, connection);
}

/* Takes a completion: a message has come or gone, or a move is over. Connections that are closed
 * may still have completions. */
static void take_completion(struct progress_thread *thread,
			    const struct fabric_completion *completion)
{
	struct connection *connection =
		connection_find(thread, completion->context & ~UINT64_C(0xff));

	if (!connection || connection->is_ending)
		return;
	if ((completion->context & CONTEXT_MOVE) && completion->status == 0)
		mover_end(&thread->mover, &connection->line, completion->context % CONTEXT_MOVE);
	else if (completion->status || mailbox_complete(connection->mailbox, completion) != 0)
		connection_close(thread, connection);
}

/* Reads a queue, which is what moves data. Completions tell only of messages and of our own
 * moves; clients' one-sided transfers have none. True: something moved. */
static bool move_data_of(struct progress_thread *thread, struct fabric_queue *queue)
{
	struct fabric_completion completions[QUEUE_DEPTH];
	bool has_moved = false;
	unsigned nr_taken = 0;
	int nr;

	do {
		nr = fabric_queue_poll(queue, completions, QUEUE_DEPTH);
		if (nr > 1)
			fabric_queue_hold(queue);
		for (int i = 0; i < nr; i++)
			take_completion(thread, &completions[i]);
		if (nr > 1)
			fabric_queue_release(queue);
		mover_begin(&thread->mover, clock_ns());
		nr_taken += (unsigned)nr;
		has_moved = has_moved || nr > 0 || queue->has_moved;
		/* A peer with many messages must not keep others from being heard, nor commands
		 * from ending it. */
	} while (nr == (int)QUEUE_DEPTH && nr_taken < MESSAGES_PER_PASS &&
		 !atomic_load(&thread->has_commands));
	return has_moved;
}

static bool move_data(struct progress_thread *thread)
{
	const unsigned nr_ports = thread->progress->nr_ports;
	bool has_moved = false;

	/* Looking at a queue without endpoints would cost the others a system call. */
	for (unsigned i = 0; i < nr_ports; i++) {
		if (nr_ports == 1 || thread->nr_on[i] > 0)
			has_moved |= move_data_of(thread, thread->queues[i]);
	}
	return has_moved;
}

/* Has the engine move on. True: something has ended. Requests of the engine may also have ended
 * outside of its poll, in a command that waited for one of its own. */
static bool poll_engine(struct progress_thread *thread)
{
	const struct progress_engine *engine = thread->progress->options.engine;
	bool has_ended = engine && engine->poll(engine->context);

	if (!cds_list_empty(&thread->closed) && connections_sweep(thread))
		has_ended = true;
	return has_ended;
}

static void close_late(struct progress_thread *thread)
{
	struct connection *connection, *next;
	uint64_t now = clock_ns();

	if (thread->nr_connecting == 0)
		return;
	cds_list_for_each_entry_safe (connection, next, &thread->connections, node) {
		if (connection->connect_deadline <= now && !connection->is_ending)
			connection_close(thread, connection);
	}
}

/* Does all work of a pass except for moving data. */
static void look_around(struct progress_thread *thread)
{
	if (atomic_load(&thread->has_commands))
		run_commands(thread);
	if (is_listener_due(thread)) {
		for (unsigned i = 0; i < thread->progress->nr_ports; i++)
			take_requests(thread->progress, &thread->progress->ports[i]);
	}
	take_events(thread);
	close_late(thread);
}

/*
 * How long to spin for more. Operations of an engine take longer than a round trip. To yield the
 * core to others for all of their time slice, in between, would take longer still. A thread that
 * sleeps instead gets the core back as soon as there is something to do.
 */
static uint64_t spin_time_ns(struct progress_thread *thread)
{
	const struct progress_options *options = &thread->progress->options;

	if (options->engine && thread->is_hogged && ++thread->nr_hasty % HASTY_SPINS != 0)
		return 0;
	return options->spin_us * (uint64_t)1000;
}

/*
 * When a spin without anything to do is over. It is longer while a client waits for an engine's only
 * request. A device takes longer than a round trip, and a durable write waits for it twice. A core that
 * has slept wakes up late, in a virtual machine all the more.
 */
static uint64_t spin_deadline(struct progress_thread *thread, uint64_t now, uint64_t spin_ns)
{
	const struct progress_engine *engine = thread->progress->options.engine;
	bool is_alone = spin_ns > 0 && engine && engine->is_alone(engine->context);

	return now + (is_alone ? ALONE_SPINS * spin_ns : spin_ns);
}

/* Pauses between two looks, and learns whether that costs a time slice. */
static uint64_t pause_spin(struct progress_thread *thread, uint64_t now)
{
	uint64_t paused = spin_pause(&thread->spin, now);

	if (paused != now)
		thread->is_hogged = paused - now > HOGGED_NS;
	return paused;
}

/* Moves data until there has been none for spin_us. False: other work has its turn, but there may
 * be more data. */
static bool spin(struct progress_thread *thread)
{
	const uint64_t spin_ns = spin_time_ns(thread);
	uint64_t now = clock_ns();
	uint64_t deadline = spin_deadline(thread, now, spin_ns), last = now + SPIN_NS_MAX;

	spin_begin(&thread->spin, now);
	do {
		/* Replies to requests that the engine has ended leave with the data that moves
		 * next. The next look at the engine starts requests that come then; nobody sleeps
		 * without it. */
		bool has_moved = poll_engine(thread);

		has_moved |= move_data(thread);
		now = clock_ns();
		if (has_moved) {
			deadline = spin_deadline(thread, now, spin_ns);
			spin_begin(&thread->spin, now);
		} else if (spin_ns > 0) {
			now = pause_spin(thread, now);
		}
	} while (now < deadline && now < last && !atomic_load(&thread->has_commands));
	return now >= deadline;
}

/* True: all queues will wake the thread. A transfer on one of several may free memory of an engine that
 * another queue waits for. So it sleeps only if nothing has moved since all were looked at. */
static bool arm(struct progress_thread *thread)
{
	const unsigned nr_ports = thread->progress->nr_ports;

	if (nr_ports > 1 && move_data(thread))
		return false;
	for (unsigned i = 0; i < nr_ports; i++) {
		if (fabric_queue_arm(thread->queues[i]) != 0)
			return false;
	}
	return true;
}

/* How long to sleep at most; -1: any time. */
static int sleep_ms(struct progress_thread *thread)
{
	const struct progress_engine *engine = thread->progress->options.engine;
	int ms = mover_sleep_ms(&thread->mover, thread->nr_connecting > 0 ? CONNECT_MS : -1);
	uint64_t due = engine && engine->due ? engine->due(engine->context) : CLOCK_NEVER;
	int due_ms = due == CLOCK_NEVER ? -1 : clock_remaining_ms(due);

	return due_ms >= 0 && (ms < 0 || due_ms < ms) ? due_ms : ms;
}

static void sleep_until_ready(struct progress_thread *thread)
{
	/* The thread that stops us sets this before it wakes us, because the wake-up may have been
	 * taken already. */
	if (atomic_load(&thread->progress->is_stopping) || poll_engine(thread) || !arm(thread))
		return;
	thread->has_callers |= sleep_for(thread, sleep_ms(thread));
	thread->has_slept = true;
}

/* Opens the engine and tells progress_start() what came of it. */
static int open_engine(struct progress_thread *thread)
{
	const struct progress_engine *engine = thread->progress->options.engine;
	struct progress *progress = thread->progress;

	if (!engine)
		return 0;
	progress->open_status = engine->open(engine->context);
	if (progress->open_status != 0)
		snprintf(progress->open_sentence, sizeof(progress->open_sentence), "%s",
			 error_last_line());
	sem_post(&progress->opened);
	return progress->open_status;
}

/* Waits until nothing is under way for closed connections, and closes the engine. */
static void close_engine(struct progress_thread *thread)
{
	const struct progress_engine *engine = thread->progress->options.engine;

	if (!engine)
		return;
	sleep_for_engine_alone(thread);
	/* A command may leave another, and closings wait for requests of the engine. */
	while (atomic_load(&thread->has_commands) || !cds_list_empty(&thread->closed)) {
		if (atomic_load(&thread->has_commands))
			run_commands(thread);
		if (poll_engine(thread) || cds_list_empty(&thread->closed))
			continue;
		sleep_for(thread, -1);
	}
	engine->close(engine->context);
}

static void close_connections(struct progress_thread *thread)
{
	struct connection *connection, *next;

	cds_list_for_each_entry_safe (connection, next, &thread->connections, node)
		connection_close(thread, connection);
}

static void *thread_run(void *argument)
{
	struct progress_thread *thread = argument;

	if (open_engine(thread) != 0)
		return NULL;
	while (!atomic_load(&thread->progress->is_stopping)) {
		look_around(thread);
		if (spin(thread))
			sleep_until_ready(thread);
	}
	close_connections(thread);
	close_engine(thread);
	close_connections(thread); /* of a last command */
	connections_look_again(thread);
	return NULL;
}

/* ---- Life */

static int start_thread(struct progress_thread *thread, unsigned number)
{
	struct progress *progress = thread->progress;
	pthread_attr_t attributes;
	sigset_t all, before;
	char name[16];
	int ret;

	pthread_mutex_init(&thread->lock, NULL);
	CDS_INIT_LIST_HEAD(&thread->commands);
	CDS_INIT_LIST_HEAD(&thread->connections);
	CDS_INIT_LIST_HEAD(&thread->closed);
	CDS_INIT_LIST_HEAD(&thread->waiting);
	ret = mover_open(&thread->mover, progress->options.stage_bytes, on_moved);
	if (ret != 0)
		goto out_lock;
	thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->wake_fd < 0) {
		ret = error_code(-errno);
		goto out_mover;
	}
	ret = ports_open_queues(thread);
	if (ret != 0)
		goto out_wake;
	ret = sleep_open(thread);
	if (ret != 0)
		goto out_queue;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	if (progress->options.processors)
		pthread_attr_setaffinity_np(&attributes, sizeof(*progress->options.processors),
					    progress->options.processors);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&thread->thread, &attributes, thread_run, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (ret != 0) {
		error_fail(ret, "start a progress thread: no thread; raise the limit of "
				"processes");
		goto out_sleep;
	}
	snprintf(name, sizeof(name), "afar-data-%u", number % 1000);
	pthread_setname_np(thread->thread, name);
	return 0;

out_sleep:
	close(thread->sleep_fd);
out_queue:
	ports_close_queues(thread);
out_wake:
	close(thread->wake_fd);
out_mover:
	mover_close(&thread->mover);
out_lock:
	pthread_mutex_destroy(&thread->lock);
	return ret;
}

static void stop_thread(struct progress_thread *thread)
{
	struct command *command, *next;

	pthread_join(thread->thread, NULL);
	/* These commands came while the thread stopped. */
	cds_list_for_each_entry_safe (command, next, &thread->commands, node) {
		switch (command->kind) {
		case COMMAND_ADOPT:
			fabric_reject(command->port->listener, &command->request);
			free(command);
			break;
		case COMMAND_CLOSE:
			connections_close(thread, command);
			break;
		case COMMAND_RUN:
			command->run(command->argument);
			free(command);
			break;
		}
	}
	close(thread->sleep_fd);
	ports_close_queues(thread);
	mover_close(&thread->mover);
	close(thread->wake_fd);
	pthread_mutex_destroy(&thread->lock);
}

/* Ends the threads from `first` on. If the first thread is among them, it ends first, because it
 * deals. */
static void stop_threads(struct progress *progress, unsigned first)
{
	unsigned i;

	atomic_store(&progress->is_stopping, true);
	for (i = first; i < progress->options.nr_threads; i++)
		wake(&progress->threads[i]);
	for (i = first; i < progress->options.nr_threads; i++)
		stop_thread(&progress->threads[i]);
}

/* Waits until the engine is open, or could not be opened. */
static int await_engine(struct progress *progress)
{
	if (!progress->options.engine)
		return 0;
	while (sem_wait(&progress->opened) != 0)
		;
	return progress->open_status == 0
		       ? 0
		       : error_fail(progress->open_status, "%s", progress->open_sentence);
}

int progress_start(const struct progress_options *options, struct progress **out)
{
	struct progress *progress = calloc(1, sizeof(*progress));
	unsigned first;
	int ret;

	if (!progress)
		return error_code(-ENOMEM);
	progress->options = *options;
	congestion_init(&progress->congestion);
	sem_init(&progress->opened, 0, 0);
	progress->threads = calloc(options->nr_threads, sizeof(*progress->threads));
	if (!progress->threads) {
		ret = error_code(-ENOMEM);
		goto out_free;
	}
	ret = ports_open(progress);
	if (ret != 0)
		goto out_threads;
	/* Starts the listening thread last, because it deals to all others. */
	for (first = options->nr_threads; first > 0; first--) {
		progress->threads[first - 1].progress = progress;
		ret = start_thread(&progress->threads[first - 1], first - 1);
		if (ret != 0)
			goto out_stop;
	}
	ret = await_engine(progress);
	if (ret != 0)
		goto out_stop;
	*out = progress;
	return 0;

out_stop:
	stop_threads(progress, first);
	ports_close(progress);
out_threads:
	free(progress->threads);
out_free:
	sem_destroy(&progress->opened);
	congestion_destroy(&progress->congestion);
	free(progress);
	return ret;
}

void progress_stop(struct progress *progress)
{
	if (!progress)
		return;
	stop_threads(progress, 0);
	ports_close(progress);
	free(progress->threads);
	sem_destroy(&progress->opened);
	congestion_destroy(&progress->congestion);
	free(progress);
}

/* ---- What others ask */

uint32_t progress_nr_connections(const struct progress *progress)
{
	return atomic_load(&progress->nr_connections);
}

void progress_congestion(struct progress *progress, char out[static FABRIC_CONGESTIONS_MAX])
{
	congestion_list(&progress->congestion, out);
	if (!out[0])
		fabric_listener_congestion(progress->ports[0].listener, out);
}

int progress_run(struct progress *progress, void (*run)(void *argument), void *argument)
{
	struct command *command = calloc(1, sizeof(*command));

	if (!command)
		return error_code(-ENOMEM);
	command->kind = COMMAND_RUN;
	command->run = run;
	command->argument = argument;
	progress_send(&progress->threads[0], command);
	return 0;
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
	/* `closing` is not freed before the last thread has its command. */
	for (unsigned i = 0; i < nr_threads; i++)
		progress_send(&progress->threads[i], &closing->commands[i]);
}
