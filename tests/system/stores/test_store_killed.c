/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four clients work on regions on flash while the server, the manager or both are killed, again and
 * again, and started anew. Durable bytes are there, no sync says more than is true, and no bytes of
 * others are seen (store_load.c). At the end nothing has leaked.
 *
 * A killed process leaves the kernel's cache of its device as it is, so this shows nothing about a
 * loss of power. Tests of that are test_store_power.c and, for the layer,
 * tests/flash/test_power_cut.c.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "store_account.h"
#include "store_load.h"

#define FLASH_BYTES (192 * MIB) /* of each server */
#define SERVERS_MAX 2U
#define LINGER_MS   50U
#define SETTLE_MS   60000 /* a session that was lost ends before */

static const char *const names[] = {"even", "odd"};

static struct load_shared *shared;
static pid_t children[LOAD_CLIENTS];
static bool is_whole;	    /* one process is manager and server */
static unsigned nr_servers; /* else */
static unsigned random_state;

static unsigned dice(unsigned sides)
{
	random_state = random_state * 1664525U + 1013904223U;
	return (random_state >> 8) % sides;
}

/* ---- The clients */

static void make_namespaces(void)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = 64 * KIB};

	for (unsigned i = 0; i < 2; i++) {
		struct afar_namespace *ns;

		assert_int_equal(afar_namespace_create(session, names[i], &policy, &ns), 0);
		assert_int_equal(afar_namespace_close(ns), 0);
	}
}

/* Clients are forked where no session was ever open, because those do not survive a fork. */
static void start_clients(void)
{
	for (unsigned i = 0; i < LOAD_CLIENTS; i++) {
		children[i] = fork_child();
		assert_true(children[i] >= 0);
		if (children[i] == 0)
			_exit(load_run(shared, i, cluster_uri(cluster), names[i % 2]));
	}
}

static void check_clients(void)
{
	for (unsigned i = 0; i < LOAD_CLIENTS; i++) {
		int status;

		if (waitpid(children[i], &status, WNOHANG) != 0)
			fail_msg("client %u has ended", i);
	}
}

/* Ends a client without a warning. All that it had open is its session's until its lease has
 * ended. */
static void kill_client(unsigned i)
{
	int status;

	assert_int_equal(kill(children[i], SIGKILL), 0);
	assert_int_equal(waitpid(children[i], &status, 0), children[i]);
	assert_true(WIFSIGNALED(status));
}

static void end_clients(void)
{
	const unsigned nr_killed = (unsigned)test_effort(0, 1, 1); /* leases take 10 s to end */

	for (unsigned i = 0; i < nr_killed; i++)
		kill_client(i);
	shared->is_over = true;
	for (unsigned i = nr_killed; i < LOAD_CLIENTS; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
}

static unsigned count_steps(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < LOAD_CLIENTS; i++)
		nr += shared->clients[i].nr_steps;
	return nr;
}

static void await_steps(unsigned nr)
{
	unsigned until = count_steps() + nr;

	while (count_steps() < until) {
		check_clients();
		test_pause();
	}
}

/* Lets the clients meet what is away. Not for long: all of them may be waiting for it. */
static void linger(unsigned nr)
{
	unsigned until = count_steps() + nr;

	for (unsigned i = 0; i < LINGER_MS && count_steps() < until; i++)
		test_pause();
}

/* Waits until each client has done something since. */
static void await_all(void)
{
	for (unsigned i = 0; i < LOAD_CLIENTS; i++) {
		unsigned from = shared->clients[i].nr_steps;

		while (shared->clients[i].nr_steps - from < 3) {
			check_clients();
			test_pause();
		}
	}
}

/* ---- Killing */

static void kill_server(unsigned i)
{
	shared->nr_begun++;
	if (is_whole)
		cluster_kill_manager(cluster);
	else
		cluster_kill_server(cluster, i);
	shared->nr_over++;
}

static void spawn_server(unsigned i)
{
	assert_int_equal(is_whole ? cluster_respawn_manager(cluster)
				  : cluster_respawn_server(cluster, i),
			 0);
}

/* Sometimes it is killed again while it starts. */
static void restart_server(unsigned i)
{
	spawn_server(i);
	while (dice(3) == 0) {
		for (unsigned left = dice(30); left > 0; left--)
			test_pause();
		kill_server(i);
		spawn_server(i);
	}
	assert_int_equal(
		is_whole ? cluster_await_manager(cluster) : cluster_await_server(cluster, i), 0);
}

static void run_round(void)
{
	unsigned what = is_whole ? 0 : dice(4);
	unsigned first = is_whole ? 0 : dice(nr_servers);
	unsigned nr = what == 1 ? 0 : is_whole ? 1 : 1 + dice(nr_servers);

	await_steps(20 + dice(400));
	for (unsigned i = 0; i < nr; i++)
		kill_server((first + i) % SERVERS_MAX);
	if (what == 2)
		linger(dice(20));
	if (what != 0)
		cluster_kill_manager(cluster);
	if (dice(2))
		linger(dice(8));
	if (what != 0)
		assert_int_equal(cluster_restart_manager(cluster), 0);
	for (unsigned i = 0; i < nr; i++)
		restart_server((first + i) % SERVERS_MAX);
	shared->nr_back = shared->nr_over;
	await_all();
}

/* ---- Leaks */

static bool is_settled(struct account *account)
{
	account_take(session, account);
	return account->nr_regions == 0 && account->allocated == 0 && account->releasing == 0 &&
	       account->nr_orphans == 0 && account->granted == account->reserved &&
	       account->reported == account->granted;
}

/* Sessions that have ended, trims and releases are cleared up behind everybody's back. */
static void await_settled(struct account *account)
{
	const uint64_t deadline = clock_deadline_ms(SETTLE_MS);

	while (!is_settled(account)) {
		if (clock_remaining_ms(deadline) == 0)
			fail_msg("leaked: %llu regions, %llu bytes allocated, %llu reserved, %llu "
				 "granted, %llu of these being released, %llu there, %llu orphans",
				 (unsigned long long)account->nr_regions,
				 (unsigned long long)account->allocated,
				 (unsigned long long)account->reserved,
				 (unsigned long long)account->granted,
				 (unsigned long long)account->releasing,
				 (unsigned long long)account->reported,
				 (unsigned long long)account->nr_orphans);
		test_pause();
	}
	assert_int_equal(account->nr_stores, is_whole ? 1 : nr_servers);
}

/* All that was made can be had again, and reads as zeros: nothing of the clients is there. */
static void take_all(void)
{
	const struct afar_policy policy = {
		.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .stripe_bytes = MIB};
	const uint64_t bytes = FLASH_BYTES / 2 * (is_whole ? 1 : nr_servers);
	uint8_t *memory = malloc(MIB);
	struct afar_region *region;
	struct afar_namespace *ns;

	assert_non_null(memory);
	assert_int_equal(afar_namespace_create(session, "all", &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, bytes), 0);
	assert_int_equal(afar_region_alloc(ns, bytes, 0, &region), 0);
	for (uint64_t at = 0; at < bytes; at += MIB) {
		assert_int_equal(afar_region_pread(region, memory, MIB, at), MIB);
		assert_int_equal(count_bytes(memory, MIB, 0), MIB);
	}
	drop_region(region);
	drop_namespace(ns, "all");
	free(memory);
}

/* Frees what clients have left that were killed. */
static void free_left(const char *name)
{
	struct afar_region_stat left = {.size = sizeof(left)};
	struct afar_namespace *ns;
	int nr;

	assert_int_equal(afar_namespace_open(session, name, &ns), 0);
	while ((nr = afar_region_list(ns, 0, &left, 1)) == 1)
		assert_int_equal(afar_region_delete_at(ns, left.address), 0);
	assert_int_equal(nr, 0);
	assert_int_equal(afar_namespace_close(ns), 0);
}

static void check_leaks(void)
{
	struct account account;

	for (unsigned i = 0; i < 2; i++)
		free_left(names[i]);
	await_settled(&account);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(afar_namespace_delete(session, names[i], 0), 0);
	await_settled(&account);
	assert_int_equal(account.granted, 0);
	take_all();
	await_settled(&account);
	assert_int_equal(account.granted, 0);
}

/* ---- Tests */

static void begin_session(void)
{
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
}

/* In a process of its own, so that this one has no session when it forks. */
static void prepare(void)
{
	pid_t pid = fork_child();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		begin_session();
		make_namespaces();
		_exit(afar_session_close(session) != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void say_counts(unsigned nr_rounds)
{
	unsigned nr_failures = 0, nr_syncs = 0, nr_unsynced = 0;

	for (unsigned i = 0; i < LOAD_CLIENTS; i++) {
		nr_failures += shared->clients[i].nr_failures;
		nr_syncs += shared->clients[i].nr_syncs;
		nr_unsynced += shared->clients[i].nr_unsynced;
	}
	print_message("%u rounds, the server killed %u times: %u steps, %u calls failed, %u syncs, "
		      "of which %u said that writes may be lost\n",
		      nr_rounds, shared->nr_begun, count_steps(), nr_failures, nr_syncs,
		      nr_unsynced);
}

static void run_rounds(void)
{
	unsigned nr_rounds = (unsigned)test_effort(6, 20, 200);
	const char *seed = getenv("AFAR_SEED");

	random_state = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
	print_message("AFAR_SEED=%u\n", random_state);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->nr_servers = is_whole ? 1 : nr_servers;
	prepare();
	start_clients();
	for (unsigned i = 0; i < nr_rounds; i++)
		run_round();
	end_clients();
	say_counts(nr_rounds);
	munmap(shared, sizeof(*shared));
}

static void check_and_stop(void)
{
	begin_session();
	check_leaks();
	assert_int_equal(afar_session_close(session), 0);
	cluster_stop(cluster);
}

static void test_apart(void **state)
{
	(void)state;
	is_whole = false;
	assert_int_equal(cluster_start_flash(nr_servers, 64 * MIB, FLASH_BYTES, &cluster), 0);
	run_rounds();
	check_and_stop();
}

static void test_in_one_process(void **state)
{
	(void)state;
	is_whole = true;
	assert_int_equal(cluster_start_whole(64 * MIB, FLASH_BYTES, &cluster), 0);
	run_rounds();
	check_and_stop();
}

/* One test for each process: one that had a session open cannot fork clients. */
int main(int argc, char **argv)
{
	const struct CMUnitTest apart[] = {cmocka_unit_test(test_apart)};
	const struct CMUnitTest in_one[] = {cmocka_unit_test(test_in_one_process)};

	if (argc != 2)
		return 2;
	nr_servers = strcmp(argv[1], "two-servers") == 0 ? SERVERS_MAX : 1;
	return strcmp(argv[1], "in-one") != 0 ? cmocka_run_group_tests(apart, NULL, NULL)
					      : cmocka_run_group_tests(in_one, NULL, NULL);
}
