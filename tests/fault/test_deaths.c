/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deaths: the manager, a server, a client is killed while calls and transfers run. Nothing that was
 * acknowledged is missing, nothing is done twice, and whoever does not need the dead goes on.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "lib/api/ending.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "lib/base/transport.h"

#define MIB ((uint64_t)1 << 20)

static struct cluster *cluster;

static int start(void **state)
{
	(void)state;
	return cluster_start(2, 256 * MIB, &cluster);
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(cluster);
	return 0;
}

static struct afar_session *open_session(void)
{
	struct afar_session *session;

	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	return session;
}

static struct afar_namespace *make_namespace(struct afar_session *session, const char *name,
					     uint32_t width, uint64_t reserve)
{
	struct afar_policy policy = {.size = sizeof(policy), .width = width};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, name, &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

/* Stops a child and waits until all of its threads stand: until then they may do a lot. */
static void stop_process(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

/* ---- The manager */

#define NR_ALLOCATORS  8
#define NR_ALLOCATIONS 40

struct allocator {
	pthread_t thread;
	unsigned number;
	unsigned nr_made;
	int status;
	char error[256];
};

static atomic_uint nr_allocated;
static pthread_barrier_t have_opened; /* who finds no manager is told so at once */

/* Makes named regions until told to stop; each name tells who made it and as which. */
static void *allocate(void *argument)
{
	struct allocator *allocator = argument;
	struct afar_session *session = NULL;
	struct afar_namespace *ns = NULL;
	struct afar_region *region;
	char name[32];

	allocator->status = afar_session_open(cluster_uri(cluster), NULL, &session);
	pthread_barrier_wait(&have_opened);
	if (!allocator->status)
		allocator->status = afar_namespace_open(session, "calls", &ns);
	for (unsigned i = 0; i < NR_ALLOCATIONS && !allocator->status; i++) {
		snprintf(name, sizeof(name), "%u-%u", allocator->number, i);
		allocator->status = afar_region_create(ns, name, 4096, 0, &region);
		if (!allocator->status) {
			allocator->nr_made++;
			atomic_fetch_add(&nr_allocated, 1);
			allocator->status = afar_region_close(region);
		}
	}
	if (allocator->status)
		snprintf(allocator->error, sizeof(allocator->error), "%s", afar_last_error());
	if (ns)
		afar_namespace_close(ns);
	if (session)
		afar_session_close(session);
	return NULL;
}

/*
 * Eight clients make regions while the manager is killed and started again three times. Every call
 * succeeds in the end, and each has made exactly one region. A call done twice would fail with -EEXIST.
 */
static void test_manager_restarts_under_calls(void **state)
{
	static struct allocator allocators[NR_ALLOCATORS];
	struct afar_session *session = open_session();
	struct afar_namespace *ns = make_namespace(session, "calls", 0, 64 * MIB);
	struct afar_region_stat stats[NR_ALLOCATORS * NR_ALLOCATIONS + 1] = {
		{.size = sizeof(stats[0])}};

	(void)state;
	assert_int_equal(pthread_barrier_init(&have_opened, NULL, NR_ALLOCATORS), 0);
	for (unsigned i = 0; i < NR_ALLOCATORS; i++) {
		allocators[i].number = i;
		assert_int_equal(
			pthread_create(&allocators[i].thread, NULL, allocate, &allocators[i]), 0);
	}
	for (unsigned deaths = 1; deaths <= 3; deaths++) {
		while (atomic_load(&nr_allocated) < deaths * NR_ALLOCATORS * NR_ALLOCATIONS / 5)
			test_pause();
		cluster_kill_manager(cluster);
		assert_int_equal(cluster_restart_manager(cluster), 0);
	}
	for (unsigned i = 0; i < NR_ALLOCATORS; i++) {
		pthread_join(allocators[i].thread, NULL);
		if (allocators[i].status)
			fail_msg("client %u after %u: %s", i, allocators[i].nr_made,
				 allocators[i].error);
	}
	pthread_barrier_destroy(&have_opened);
	assert_int_equal(afar_region_list(ns, 0, stats, NR_ALLOCATORS * NR_ALLOCATIONS + 1),
			 NR_ALLOCATORS * NR_ALLOCATIONS);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "calls", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(session), 0);
}

/* An open region can be read while the manager is away, and closed when it is back. */
static void test_data_path_needs_no_manager(void **state)
{
	struct afar_session *session = open_session();
	struct afar_namespace *ns = make_namespace(session, "away", 0, 8 * MIB);
	static uint8_t sent[3 * MIB], got[3 * MIB];
	struct afar_region *region;

	(void)state;
	memset(sent, 0x5a, sizeof(sent));
	assert_int_equal(afar_region_create(ns, "r", sizeof(sent), 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, sent, sizeof(sent), 0), sizeof(sent));
	cluster_kill_manager(cluster);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(afar_region_pread(region, got, sizeof(got), 0), sizeof(got));
		assert_memory_equal(sent, got, sizeof(got));
	}
	assert_int_equal(cluster_restart_manager(cluster), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_region_open(ns, "r", &region), 0);
	assert_int_equal(afar_region_pread(region, got, sizeof(got), 0), sizeof(got));
	assert_memory_equal(sent, got, sizeof(got));
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "away", 0), 0);
	assert_int_equal(afar_session_close(session), 0);
}

/* ---- Clients that are processes of their own: this program, run again */

struct client_process {
	pid_t pid;
	int says; /* what it says comes out here */
	int go;	  /* what it waits for goes in here */
};

static void start_client(struct client_process *client, const char *behaviour)
{
	int say[2], go[2];
	char say_fd[16], go_fd[16];

	assert_int_equal(pipe(say), 0);
	assert_int_equal(pipe(go), 0);
	snprintf(say_fd, sizeof(say_fd), "%d", say[1]);
	snprintf(go_fd, sizeof(go_fd), "%d", go[0]);
	client->pid = fork_child();
	assert_true(client->pid >= 0);
	if (client->pid == 0) {
		close(say[0]);
		close(go[1]);
		execl("/proc/self/exe", "client", behaviour, cluster_uri(cluster), say_fd, go_fd,
		      NULL);
		_exit(1);
	}
	close(say[1]);
	close(go[0]);
	client->says = say[0];
	client->go = go[1];
}

static void reap_client(struct client_process *client)
{
	assert_int_equal(waitpid(client->pid, NULL, 0), client->pid);
	close(client->says);
	close(client->go);
}

/* A client that is killed in `behaviour` leaves nothing that holds others up. Everything it had can be
 * freed, and all of the cluster's memory can be reserved again. */
static void kill_client_during(const char *behaviour)
{
	struct afar_session *session = open_session();
	struct afar_namespace *ns = make_namespace(session, "killed", 0, 64 * MIB);
	struct client_process client;
	char byte;

	start_client(&client, behaviour);
	assert_int_equal(read(client.says, &byte, 1), 1);
	assert_int_equal(kill(client.pid, SIGKILL), 0);
	reap_client(&client);

	/* Its references end with its session: by the end of its lease at the latest. */
	for (;;) {
		int ret = afar_namespace_delete(session, "killed", AFAR_DELETE_REGIONS);

		if (ret != -EBUSY) {
			assert_int_equal(ret, 0);
			break;
		}
		test_pause();
	}
	assert_int_equal(afar_namespace_close(ns), 0);
	ns = make_namespace(session, "after", 0, 2 * MIB);
	/* A reservation that was under way comes back once it is through: what leaks, hangs this. */
	while (afar_namespace_reserve(ns, 500 * MIB) == -ENOSPC)
		test_pause();
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "after", 0), 0);
	assert_int_equal(afar_session_close(session), 0);
}

static void reserve_for_ever(struct afar_namespace *ns, int say, int go)
{
	(void)go;
	if (write(say, "r", 1) != 1)
		_exit(1);
	for (;;) {
		if (afar_namespace_reserve(ns, 16 * MIB))
			afar_namespace_release(ns, UINT64_MAX, NULL);
	}
}

static void allocate_for_ever(struct afar_namespace *ns, int say, int go)
{
	(void)go;
	if (write(say, "a", 1) != 1)
		_exit(1);
	for (;;) {
		struct afar_region *region;

		if (afar_region_alloc(ns, 64 << 10, 0, &region))
			_exit(1);
		if (afar_region_destroy(region) || afar_region_close(region))
			_exit(1);
	}
}

static void write_for_ever(struct afar_namespace *ns, int say, int go)
{
	struct afar_region *region;
	static uint8_t bytes[4 * MIB];

	(void)go;
	if (afar_region_create(ns, "w", sizeof(bytes), 0, &region) ||
	    afar_region_pwrite(region, bytes, sizeof(bytes), 0) < 0 || write(say, "w", 1) != 1)
		_exit(1);
	for (;;)
		afar_region_pwrite(region, bytes, sizeof(bytes), 0);
}

static void test_client_killed_in_reserve(void **state)
{
	(void)state;
	kill_client_during("reserve");
}

static void test_client_killed_in_alloc(void **state)
{
	(void)state;
	kill_client_during("allocate");
}

static void test_client_killed_in_write(void **state)
{
	(void)state;
	kill_client_during("write");
}

/* A client that was stopped for longer than its lease finds its session ended, and its memory another's:
 * it must not write there. */
static void write_once_more(struct afar_namespace *ns, int say, int go)
{
	struct afar_region *region;
	static uint8_t bytes[4096];
	int64_t results[4];

	memset(bytes, 'X', sizeof(bytes));
	if (afar_region_create(ns, "a", sizeof(bytes), 0, &region) ||
	    afar_region_pwrite(region, bytes, sizeof(bytes), 0) < 0 || write(say, "s", 1) != 1 ||
	    read(go, bytes, 1) != 1)
		_exit(1);
	for (int i = 0; i < 4; i++)
		results[i] = afar_region_pwrite(region, bytes, sizeof(bytes), 0);
	_exit(write(say, results, sizeof(results)) != sizeof(results));
}

static void test_client_stopped_past_its_lease(void **state)
{
	struct afar_session *session = open_session();
	struct afar_namespace *ns = make_namespace(session, "stopped", 1, 2 * MIB);
	static uint8_t written[2 * MIB], found[2 * MIB];
	struct afar_region *region;
	struct client_process client;
	int64_t results[4];
	char byte;

	(void)state;
	start_client(&client, "stopped");
	assert_int_equal(read(client.says, &byte, 1), 1);
	stop_process(client.pid);
	/* The restart ends its connection; stopped, it cannot resume before its lease ends. */
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	assert_int_equal(afar_region_delete(ns, "a"), 0);
	while (afar_region_create(ns, "b", 2 * MIB, 0, &region) == -AFAR_ERESERVE)
		test_pause();
	memset(written, 'B', sizeof(written));
	assert_int_equal(afar_region_pwrite(region, written, sizeof(written), 0), sizeof(written));

	assert_int_equal(kill(client.pid, SIGCONT), 0);
	assert_int_equal(write(client.go, "g", 1), 1);
	assert_int_equal(read(client.says, results, sizeof(results)), sizeof(results));
	for (int i = 0; i < 4; i++)
		assert_true(results[i] < 0);
	reap_client(&client);
	assert_int_equal(afar_region_pread(region, found, sizeof(found), 0), sizeof(found));
	assert_memory_equal(written, found, sizeof(found));

	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "stopped", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(session), 0);
}

/* ---- A server */

/* A program that sleeps on a queue's descriptor wakes when an operation's time is up. It also wakes for one that was
 * submitted after the queue had been armed for others. It wakes no more when nothing is in flight. */
static void test_server_stopped_under_an_event_loop(void **state)
{
	struct afar_session_options hasty = {.size = sizeof(hasty), .timeout_ms = 3000};
	struct afar_iov iov = {.addr = calloc(1, 8), .length = 8};
	struct afar_op op = {.opcode = AFAR_OP_WRITE, .nr_iov = 1, .iov = &iov};
	struct afar_completion done;
	struct afar_session *session;
	struct afar_region *region;
	struct afar_namespace *ns;
	struct afar_queue *queue;
	struct pollfd fd = {.events = POLLIN};

	(void)state;
	if (!is_on_tcp()) {
		free(iov.addr);
		skip();
	}
	assert_int_equal(afar_session_open(cluster_uri(cluster), &hasty, &session), 0);
	ns = make_namespace(session, "loop", 1, 2 * MIB);
	assert_int_equal(afar_region_create(ns, "r", 2 * MIB, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	op.target = afar_region_target(region);
	fd.fd = afar_queue_fd(queue);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
		while (afar_queue_wait(queue, &done, 1, 0, 0) == 0) {
			if (afar_queue_arm(queue) == 0)
				assert_int_equal(poll(&fd, 1, 20000), 1);
		}
		assert_int_equal(done.result, 8);
	}
	/* It was not armed again: the time comes that one of those would have had. */
	assert_int_equal(poll(&fd, 1, 20000), 1);
	for (unsigned i = 0; i < 2; i++)
		stop_process(cluster_server(cluster, i));
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	while (afar_queue_arm(queue) != 0)
		assert_int_equal(afar_queue_wait(queue, &done, 1, 0, 0), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	while (afar_queue_wait(queue, &done, 1, 0, 0) == 0) {
		if (afar_queue_arm(queue) == 0)
			assert_int_equal(poll(&fd, 1, 20000), 1);
	}
	assert_int_equal(done.result, -ETIMEDOUT);
	while (afar_queue_arm(queue) != 0)
		assert_int_equal(afar_queue_wait(queue, &done, 1, 0, 0), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	for (unsigned i = 0; i < 2; i++)
		kill(cluster_server(cluster, i), SIGCONT);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_session_close(session), 0);
	free(iov.addr);
}

/*
 * A write times out on servers that are stopped and is done when they go on. Its memory must not be another
 * region's by then: it comes back when the session is closed, which ends its connections.
 */
static void test_servers_stopped_under_a_write(void **state)
{
	struct afar_session_options hasty = {.size = sizeof(hasty), .timeout_ms = 3000};
	struct afar_session *session, *other = open_session();
	struct afar_namespace *ns, *again;
	static uint8_t bytes[2 * MIB];
	struct afar_region *region;

	(void)state;
	if (!is_on_tcp()) { /* a NIC does not wait for a server that is stopped */
		assert_int_equal(afar_session_close(other), 0);
		skip();
	}
	assert_int_equal(afar_session_open(cluster_uri(cluster), &hasty, &session), 0);
	ns = make_namespace(session, "late", 1, 2 * MIB);
	assert_int_equal(afar_region_create(ns, "r", sizeof(bytes), 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, bytes, sizeof(bytes), 0), sizeof(bytes));
	for (unsigned i = 0; i < 2; i++)
		stop_process(cluster_server(cluster, i));
	assert_int_equal(afar_region_pwrite(region, bytes, sizeof(bytes), 0), -ETIMEDOUT);
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
	for (unsigned i = 0; i < 2; i++)
		kill(cluster_server(cluster, i), SIGCONT);

	assert_int_equal(afar_namespace_open(other, "late", &again), 0);
	assert_int_equal(afar_region_create(again, "s", sizeof(bytes), 0, &region), -AFAR_ERESERVE);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_session_close(session), 0);
	while (afar_region_create(again, "s", sizeof(bytes), 0, &region) == -AFAR_ERESERVE)
		test_pause();
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(again), 0);
	assert_int_equal(afar_namespace_delete(other, "late", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(other), 0);
}

struct writer {
	pthread_t thread;
	struct afar_namespace *ns;
	struct afar_region *region;
	atomic_uint nr_written;
	atomic_bool is_over; /* told to stop, or failed */
	int64_t result;
	uint64_t ended_at;
};

static void *write_until_it_fails(void *argument)
{
	struct writer *writer = argument;
	static uint8_t bytes[MIB];

	while (!atomic_load(&writer->is_over)) {
		writer->result = afar_region_pwrite(writer->region, bytes, sizeof(bytes), 0);
		if (writer->result < 0)
			break;
		atomic_fetch_add(&writer->nr_written, 1);
	}
	writer->ended_at = clock_ns();
	atomic_store(&writer->is_over, true);
	return NULL;
}

static void await_writes(struct writer *writer, unsigned count)
{
	unsigned seen = atomic_load(&writer->nr_written);

	while (atomic_load(&writer->nr_written) < seen + count && !atomic_load(&writer->is_over))
		test_pause();
}

static void start_writer(struct writer *writer, struct afar_session *session, const char *name,
			 uint64_t reserve)
{
	writer->ns = make_namespace(session, name, 1, reserve);
	assert_int_equal(afar_region_create(writer->ns, "r", MIB, 0, &writer->region), 0);
	assert_int_equal(pthread_create(&writer->thread, NULL, write_until_it_fails, writer), 0);
	await_writes(writer, 10);
}

static void end_writer(struct writer *writer)
{
	assert_int_equal(afar_region_close(writer->region), 0);
	assert_int_equal(afar_namespace_close(writer->ns), 0);
}

/* The dead server's successor has lost the data and says so; the namespace can be used again. */
static void expect_lost(struct writer *writer)
{
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_region *region;
	uint8_t byte = 1;

	assert_int_equal(afar_region_open(writer->ns, "r", &region), -AFAR_ELOST);
	assert_int_equal(afar_region_list(writer->ns, 0, &stat, 1), 1);
	assert_int_equal(stat.is_lost, 1);
	assert_int_equal(afar_region_delete(writer->ns, "r"), 0);
	assert_int_equal(afar_namespace_reserve(writer->ns, 4 * MIB), 0);
	assert_int_equal(afar_region_create(writer->ns, "r2", MIB, 0, &region), 0);
	assert_int_equal(afar_region_pread(region, &byte, 1, MIB - 1), 1);
	assert_int_equal(byte, 0);
	assert_int_equal(afar_region_close(region), 0);
}

static void test_server_killed_under_load(void **state)
{
	struct afar_session *session = open_session(), *next;
	static struct writer writers[2];
	struct writer *doomed, *safe;
	uint64_t killed_at;

	(void)state;
	/* The emptiest server first: two namespaces of width 1 lie on two servers. */
	start_writer(&writers[0], session, "one", 4 * MIB);
	start_writer(&writers[1], session, "other", 64 * MIB);
	cluster_kill_server(cluster, 0);
	killed_at = clock_ns();
	while (!atomic_load(&writers[0].is_over) && !atomic_load(&writers[1].is_over))
		test_pause();
	doomed = atomic_load(&writers[0].is_over) ? &writers[0] : &writers[1];
	safe = doomed == &writers[0] ? &writers[1] : &writers[0];
	pthread_join(doomed->thread, NULL);
	assert_int_equal(doomed->result, -AFAR_ESERVER);
	/* A promise to users, not a measurement: whoever used the dead server hears within 2 s. */
	assert_true(doomed->ended_at < killed_at + UINT64_C(2000000000) * test_slowness());

	await_writes(safe, 10);
	assert_false(atomic_load(&safe->is_over));
	atomic_store(&safe->is_over, true);
	pthread_join(safe->thread, NULL);
	assert_int_equal(safe->result, MIB);

	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	expect_lost(doomed);
	end_writer(doomed);
	end_writer(safe);
	/* The outcome of the last write is unknown, so the session holds the region until it is closed. */
	assert_int_equal(afar_session_close(session), 0);
	next = open_session();
	assert_int_equal(afar_namespace_delete(next, "one", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_namespace_delete(next, "other", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(next), 0);
}

/* A copy to the memory of a dead server goes well for as long as nobody says so: not until somebody polls. */
static void test_dead_server_is_noticed_without_polling(void **state)
{
	static uint8_t bytes[2 * MIB];
	const struct afar_iov iov = {.addr = bytes, .length = sizeof(bytes)};
	struct afar_op write = {.opcode = AFAR_OP_WRITE, .iov = &iov, .nr_iov = 1};
	struct afar_session *session;
	struct afar_completion done;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queue;
	char *json;

	(void)state;
	if (!is_on_local())
		skip();
	session = open_session();
	ns = make_namespace(session, "noticed", 2, 4 * MIB);
	assert_int_equal(afar_region_create(ns, "r", sizeof(bytes), 0, &region), 0);
	write.target = afar_region_target(region);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, write.target), 0);
	assert_int_equal(afar_queue_submit(queue, &write, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, sizeof(bytes));
	cluster_kill_server(cluster, 0);
	/* The thread that brings the manager's answer sees the deaths before it. */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(afar_session_status(session, &json), 0);
		free(json);
	}
	assert_int_equal(afar_queue_submit(queue, &write, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, -AFAR_ESERVER);

	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	/* The outcome of the last write is unknown: the session holds the region until it is closed. */
	assert_int_equal(afar_session_close(session), 0);
	session = open_session();
	assert_int_equal(afar_namespace_delete(session, "noticed", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(session), 0);
}

/* Behaviours of clients, and the namespace of each. */
static const struct {
	const char *name;
	const char *ns;
	void (*run)(struct afar_namespace *ns, int say, int go);
} behaviours[] = {
	{"reserve", "killed", reserve_for_ever},
	{"allocate", "killed", allocate_for_ever},
	{"write", "killed", write_for_ever},
	{"stopped", "stopped", write_once_more},
};

/* client BEHAVIOUR URI SAY-FD GO-FD */
static int run_client(char **argv)
{
	struct afar_session_options options = {.size = sizeof(options), .timeout_ms = 5000};
	struct afar_session *session;
	struct afar_namespace *ns;

	for (size_t i = 0; i < sizeof(behaviours) / sizeof(behaviours[0]); i++) {
		if (strcmp(argv[1], behaviours[i].name) != 0)
			continue;
		if (afar_session_open(argv[2], &options, &session) ||
		    afar_namespace_open(session, behaviours[i].ns, &ns))
			return 1;
		behaviours[i].run(ns, atoi(argv[3]), atoi(argv[4]));
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 5)
		return run_client(argv);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manager_restarts_under_calls),
		cmocka_unit_test(test_data_path_needs_no_manager),
		cmocka_unit_test(test_client_killed_in_reserve),
		cmocka_unit_test(test_client_killed_in_alloc),
		cmocka_unit_test(test_client_killed_in_write),
		cmocka_unit_test(test_client_stopped_past_its_lease),
		cmocka_unit_test(test_server_stopped_under_an_event_loop),
		cmocka_unit_test(test_servers_stopped_under_a_write),
		cmocka_unit_test(test_server_killed_under_load),
		cmocka_unit_test(test_dead_server_is_noticed_without_polling),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
