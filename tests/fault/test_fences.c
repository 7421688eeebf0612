/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fences, with real processes. Transfers that were posted before somebody stood still touch nothing any more
 * once the memory is another namespace's, whoever it was that stood still. The cluster's memory is all in
 * use, so the next namespace gets just what the last one had.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "lib/api/ending.h"
#include "lib/base/bytes.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"
#include "lib/base/transport.h"

#define NR_SERVERS   2U
#define SERVER_BYTES (48 * MIB)
#define ALL_BYTES    (NR_SERVERS * SERVER_BYTES)
#define PIECE_BYTES  (4 * MIB)
#define NR_PIECES    (ALL_BYTES / PIECE_BYTES)

static struct cluster *cluster;

static int start(void **state)
{
	(void)state;
	return cluster_start(NR_SERVERS, SERVER_BYTES, &cluster);
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(cluster);
	return 0;
}

static struct afar_session *open_session(uint32_t timeout_ms)
{
	struct afar_session_options options = {.size = sizeof(options), .timeout_ms = timeout_ms};
	struct afar_session *session;

	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &session), 0);
	return session;
}

/* A namespace with all memory of all servers, as soon as that is free. */
static struct afar_namespace *take_everything(struct afar_session *session, const char *name)
{
	struct afar_namespace *ns;
	int ret;

	assert_int_equal(afar_namespace_create(session, name, NULL, &ns), 0);
	while ((ret = afar_namespace_reserve(ns, ALL_BYTES)) == -ENOSPC || ret == -AFAR_ENOSERVER)
		test_pause();
	if (ret)
		fail_msg("%s", afar_last_error());
	return ns;
}

static void delete_when_nobody_has_it(struct afar_session *session, const char *name)
{
	int ret;

	while ((ret = afar_namespace_delete(session, name, AFAR_DELETE_REGIONS)) == -EBUSY)
		test_pause();
	if (ret)
		fail_msg("%s", afar_last_error());
}

static void fill_region(struct afar_region *region, uint8_t *memory, uint8_t value)
{
	memset(memory, value, ALL_BYTES);
	assert_int_equal(afar_region_pwrite(region, memory, ALL_BYTES, 0), ALL_BYTES);
}

static void expect_all(struct afar_region *region, uint8_t *memory, uint8_t value)
{
	memset(memory, (uint8_t)~value, ALL_BYTES);
	assert_int_equal(afar_region_pread(region, memory, ALL_BYTES, 0), ALL_BYTES);
	assert_int_equal(count_bytes(memory, ALL_BYTES, value), ALL_BYTES);
}

/* ---- A client that stands still */

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "client: %s: %s\n", what, afar_last_error());
	_exit(1);
}

static int say_fd;

struct finding {
	uint64_t nr_leaked;   /* bytes of the next holder that it got to see */
	int64_t first_failed; /* what its transfers failed with              */
	int64_t nr_later;     /* attempts that succeeded after that          */
};

/* The buffer of the memory that is transferred; NULL where unregistered memory will do. */
static struct afar_buffer *buffer;

static int register_if_needed(struct afar_session *session, uint8_t *memory)
{
	const struct afar_memory description = {.size = sizeof(description),
						.kind = AFAR_MEMORY_HOST,
						.addr = memory,
						.length = ALL_BYTES};

	return is_on_tcp() ? 0
			   : afar_buffer_register(session, &description,
						  AFAR_ACCESS_READ | AFAR_ACCESS_WRITE, &buffer);
}

/* Writes or reads one of the region's pieces. */
static unsigned submit_one(struct afar_queue *queue, struct afar_region *region, unsigned piece,
			   uint8_t *memory, bool is_write)
{
	static struct afar_iov iovs[NR_PIECES]; /* must stay until completion */
	struct afar_op op = {.opcode = is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
			     .nr_iov = 1,
			     .target = afar_region_target(region),
			     .offset = piece * PIECE_BYTES,
			     .iov = &iovs[piece],
			     .user_data = piece};

	iovs[piece] = (struct afar_iov){buffer, memory + piece * PIECE_BYTES, PIECE_BYTES};
	return afar_queue_submit(queue, &op, 1) == 1;
}

/* Keeps all pieces in flight until a transfer fails; says so when the first is through. */
static void transfer_until_failure(struct afar_session *session, struct afar_region *region,
				   uint8_t *memory, bool is_write, int say, struct finding *finding)
{
	struct afar_completion done;
	struct afar_queue *queue;
	unsigned nr_flying = 0;
	bool has_said = false;

	if (afar_queue_open(session, NULL, &queue) ||
	    afar_queue_connect(queue, afar_region_target(region)))
		give_up("connect");
	for (unsigned i = 0; i < NR_PIECES; i++)
		nr_flying += submit_one(queue, region, i, memory, is_write);
	while (nr_flying > 0) {
		if (afar_queue_wait(queue, &done, 1, 1, -1) != 1)
			give_up("wait");
		nr_flying--;
		if (!has_said && write(say, "s", 1) != 1)
			give_up("say");
		has_said = true;
		if (done.result < 0 && !finding->first_failed)
			finding->first_failed = done.result;
		if (done.result >= 0 && !is_write)
			finding->nr_leaked += count_bytes(memory + done.user_data * PIECE_BYTES,
							  PIECE_BYTES, 'B');
		if (!finding->first_failed)
			nr_flying += submit_one(queue, region, (unsigned)done.user_data, memory,
						is_write);
	}
	/* Reads that failed may have brought bytes into the memory, too. */
	if (!is_write)
		finding->nr_leaked += count_bytes(memory, ALL_BYTES, 'B');
}

static _Noreturn void run_transfers(struct afar_session *session, int say, bool is_write)
{
	struct finding finding = {0};
	uint8_t *memory = malloc(ALL_BYTES);
	struct afar_namespace *ns;
	struct afar_region *region;

	if (!memory || afar_namespace_open(session, "old", &ns) ||
	    afar_region_open(ns, "r", &region))
		give_up("open the region");
	memset(memory, 'X', ALL_BYTES);
	if (register_if_needed(session, memory))
		give_up("register memory");
	transfer_until_failure(session, region, memory, is_write, say, &finding);
	for (unsigned i = 0; i < 4; i++) {
		finding.nr_later += afar_region_pwrite(region, "XXXX", 4, i * PIECE_BYTES) >= 0;
		finding.nr_later +=
			afar_region_pread(region, memory, PIECE_BYTES, i * PIECE_BYTES) >= 0;
		finding.nr_leaked += count_bytes(memory, PIECE_BYTES, 'B');
	}
	/* With everything open: what is to be seen has been. */
	_exit(write(say, &finding, sizeof(finding)) != sizeof(finding));
}

/* The range is not to be touched any more: what there was to find has been found. */
static _Noreturn void report_fault(int number)
{
	struct finding finding = {.first_failed = -number};

	_exit(write(say_fd, &finding, sizeof(finding)) != sizeof(finding));
}

/* Stores into all of the region's memory, again and again, until that is not its own any more. Another thread
 * takes it away meanwhile: this is to be seen, and is no race. */
__attribute__((no_sanitize("thread"))) static _Noreturn void
run_stores(struct afar_session *session)
{
	struct sigaction action = {.sa_handler = report_fault};
	struct finding finding = {0};
	struct afar_namespace *ns;
	struct afar_region *region;
	uint8_t *attached;
	void *addr;

	if (afar_namespace_open(session, "old", &ns) || afar_region_open(ns, "r", &region) ||
	    afar_region_attach(region, 0, ALL_BYTES, PROT_READ | PROT_WRITE, &addr))
		give_up("attach the region");
	attached = addr;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGSEGV, &action, NULL) || write(say_fd, "s", 1) != 1)
		give_up("say");
	for (size_t i = 0; finding.nr_leaked == 0; i = (i + 64) % ALL_BYTES) {
		finding.nr_leaked += attached[i] == 'B';
		*(volatile uint8_t *)&attached[i] = 'X';
	}
	_exit(write(say_fd, &finding, sizeof(finding)) != sizeof(finding));
}

static void let_it_fail(struct client_process *client)
{
	struct finding finding;

	process_continue(client->pid);
	client_hear(client, &finding, sizeof(finding));
	assert_int_equal(client_reap(client), 0);
	assert_true(finding.first_failed < 0);
	assert_int_equal(finding.nr_later, 0);
	assert_int_equal(finding.nr_leaked, 0);
}

/* The client is stopped in the middle of its transfers, its session ends, its memory goes to another
 * namespace, and it continues. */
static void stop_client_during(const char *behaviour)
{
	struct afar_session *session = open_session(0);
	struct afar_namespace *ns = take_everything(session, "old");
	uint8_t *memory = malloc(ALL_BYTES);
	struct client_process client;
	struct afar_region *region;
	bool has_failed = false;
	char byte;

	assert_non_null(memory);
	assert_int_equal(afar_region_create(ns, "r", ALL_BYTES, 0, &region), 0);
	fill_region(region, memory, 'A');
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	client_start(&client, behaviour, cluster_uri(cluster));
	client_hear(&client, &byte, 1);
	process_stop(client.pid);
	/* The restart ends its connection; stopped, it cannot resume before its lease ends. */
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);

	delete_when_nobody_has_it(session, "old");
	/* A client that has been given the memory itself, and is at it, is waited for. */
	if (is_on_local() && is_a_session_ending(session)) {
		let_it_fail(&client);
		has_failed = true;
	}
	ns = take_everything(session, "new");
	assert_int_equal(afar_region_create(ns, "r", ALL_BYTES, 0, &region), 0);
	expect_all(region, memory, 0);
	fill_region(region, memory, 'B');
	if (!has_failed)
		let_it_fail(&client);
	expect_all(region, memory, 'B');

	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "new", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_session_close(session), 0);
	free(memory);
}

static void test_client_stopped_while_writing(void **state)
{
	(void)state;
	stop_client_during("write");
}

static void test_client_stopped_while_reading(void **state)
{
	(void)state;
	stop_client_during("read");
}

static void test_client_stopped_while_attached(void **state)
{
	(void)state;
	if (!is_on_local())
		skip();
	stop_client_during("attached");
}

/* ---- Servers that stand still */

static void post_writes(struct afar_queue *queue, struct afar_region *region, uint8_t *memory)
{
	for (unsigned i = 0; i < NR_PIECES; i++)
		assert_int_equal(submit_one(queue, region, i, memory, true), 1);
}

/* Each of them fails, and from then on its memory is the caller's: nobody reads it any more. */
static void expect_timeouts(struct afar_queue *queue, uint8_t *memory)
{
	struct afar_completion done;

	for (unsigned i = 0; i < NR_PIECES; i++) {
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		if (done.result != -ETIMEDOUT && done.result != -ECANCELED)
			fail_msg("a write to a stopped server: %s",
				 afar_error_name((int)done.result));
		memset(memory + done.user_data * PIECE_BYTES, 'Z', PIECE_BYTES);
	}
}

static void expect_done(struct afar_queue *queue)
{
	struct afar_completion done;

	for (unsigned i = 0; i < NR_PIECES; i++) {
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.result, PIECE_BYTES);
	}
}

static void read_all(struct afar_queue *queue, struct afar_region *region, uint8_t *memory)
{
	for (unsigned i = 0; i < NR_PIECES; i++)
		assert_int_equal(submit_one(queue, region, i, memory, false), 1);
	expect_done(queue);
}

/* The region has what was there before, or what was written, and nothing of what
 * the memory held afterwards. */
static void expect_no_late_bytes(struct afar_region *region, uint8_t *memory)
{
	size_t nr_old, nr_written;

	assert_int_equal(afar_region_pread(region, memory, ALL_BYTES, 0), ALL_BYTES);
	nr_old = count_bytes(memory, ALL_BYTES, 'I');
	nr_written = count_bytes(memory, ALL_BYTES, 'A');
	assert_int_equal(count_bytes(memory, ALL_BYTES, 'Z'), 0);
	assert_int_equal(nr_old + nr_written, ALL_BYTES);
}

static void servers_stopped_while_written_to(void)
{
	struct afar_session *session = open_session(6000), *other = open_session(0);
	uint8_t *memory = malloc(ALL_BYTES), *seen = malloc(ALL_BYTES);
	struct afar_namespace *ns = take_everything(other, "old"), *same, *next;
	struct afar_region *region, *again;
	struct afar_queue *queue;

	assert_non_null(memory);
	assert_non_null(seen);
	assert_int_equal(afar_namespace_open(session, "old", &same), 0);
	assert_int_equal(afar_region_create(same, "r", ALL_BYTES, 0, &region), 0);
	fill_region(region, memory, 'I');
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	memset(memory, 'A', ALL_BYTES);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		process_stop(cluster_server(cluster, i));
	post_writes(queue, region, memory);
	expect_timeouts(queue, memory);
	for (unsigned i = 0; i < NR_SERVERS; i++)
		process_continue(cluster_server(cluster, i));

	/* The servers go on with what they had of the writes, until they are asked for new connections. The queue
	 * goes on over those, and has nothing of the writes left to send. */
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	read_all(queue, region, seen);
	assert_int_equal(count_bytes(seen, ALL_BYTES, 'Z'), 0);
	assert_int_equal(afar_region_open(ns, "r", &again), 0);
	expect_no_late_bytes(again, seen);
	/* They do not overtake what is written from now on. */
	memset(memory, 'C', ALL_BYTES);
	post_writes(queue, region, memory);
	expect_done(queue);
	expect_all(again, seen, 'C');
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_region_destroy(region), 0);
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_region_close(again), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
	/* The servers have said that nothing of the writes is left, so the session does not hold the region. */
	assert_int_equal(afar_namespace_delete(other, "old", AFAR_DELETE_REGIONS), 0);
	next = take_everything(other, "new");
	assert_int_equal(afar_region_create(next, "r", ALL_BYTES, 0, &region), 0);
	expect_all(region, seen, 0);
	fill_region(region, seen, 'B');
	expect_all(region, seen, 'B');
	assert_int_equal(afar_region_close(region), 0);
	assert_int_equal(afar_namespace_close(next), 0);
	assert_int_equal(afar_namespace_delete(other, "new", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_namespace_close(same), 0);
	assert_int_equal(afar_session_close(session), 0);
	assert_int_equal(afar_session_close(other), 0);
	free(memory);
	free(seen);
}

static void test_servers_stopped_while_written_to(void **state)
{
	(void)state;
	if (!is_on_tcp()) /* a NIC does not wait for a server that is stopped */
		skip();
	servers_stopped_while_written_to();
}

/* client BEHAVIOUR URI SAY-FD GO-FD */
static int run_client(char **argv)
{
	struct afar_session_options options = {.size = sizeof(options), .timeout_ms = 30000};
	struct afar_session *session;

	if (afar_session_open(argv[2], &options, &session))
		give_up("open a session");
	say_fd = atoi(argv[3]);
	if (strcmp(argv[1], "attached") == 0)
		run_stores(session);
	run_transfers(session, atoi(argv[3]), strcmp(argv[1], "write") == 0);
}

int main(int argc, char **argv)
{
	if (argc == 5)
		return run_client(argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_client_stopped_while_writing),
		cmocka_unit_test(test_client_stopped_while_reading),
		cmocka_unit_test(test_client_stopped_while_attached),
		cmocka_unit_test(test_servers_stopped_while_written_to),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
