/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds of killing, stopping and continuing whatever is running, by dice. Meanwhile clients make namespaces,
 * fill them with a pattern that names their owner, verify and free them. A new namespace holds zeros, and
 * nobody ever finds another owner's pattern. When everything lives again, all memory can be had again.
 *
 * AFAR_ROUNDS and AFAR_SEED say how many rounds and which dice; the seed is printed.
 */
#include <errno.h>
#include <poll.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "lib/base/processes.h"

#define MIB	     ((uint64_t)1 << 20)
#define NR_SERVERS   2U
#define NR_OWNERS    3U
#define SERVER_BYTES (16 * MIB)
#define REGION_BYTES (6 * MIB) /* more than fits for all owners at once: memory goes around */
#define ROUNDS	     40U
#define PATIENCE_MS  250 /* of a round for somebody to verify something */

/* ---- An owner, in a process of its own */

#define NR_WORDS (REGION_BYTES / sizeof(uint64_t))
#define NR_LOOKS 3

struct owner {
	uint64_t number; /* nobody else's, of any process ever: seed, slot and how many before */
	int say;
	struct afar_session *session;
	uint64_t words[NR_WORDS];
};

/* The first letter of each word is 'P', the rest says whose it is. */
static uint64_t pattern_of(const struct owner *owner)
{
	return UINT64_C(0x50) << 56 | owner->number;
}

static _Noreturn void accuse(const struct owner *owner, uint64_t word, const char *when)
{
	fprintf(stderr, "owner %llx found %016llx %s\n", (unsigned long long)owner->number,
		(unsigned long long)word, when);
	_exit(2);
}

/* Also the first bytes of one: a write that is cut off leaves off anywhere, on zeros. */
static bool is_ours(const struct owner *owner, uint64_t word)
{
	uint64_t mask = UINT64_MAX;

	for (unsigned nr_bytes = sizeof(word); nr_bytes > 0; nr_bytes--, mask >>= 8)
		if (word == (pattern_of(owner) & mask))
			return true;
	return word == 0;
}

/* Every word is zero or ours; `is_new`: zero. */
static void look(const struct owner *owner, bool is_new, const char *when)
{
	for (size_t i = 0; i < NR_WORDS; i++)
		if (owner->words[i] != 0 && (is_new || !is_ours(owner, owner->words[i])))
			accuse(owner, owner->words[i], when);
}

/* A read that failed may have brought something, too: that is looked at all the same. */
static bool read_and_look(struct owner *owner, struct afar_region *region, bool is_new,
			  const char *when)
{
	int64_t got;

	memset(owner->words, 0, sizeof(owner->words));
	got = afar_region_pread(region, owner->words, sizeof(owner->words), 0);
	look(owner, is_new, when);
	return got >= 0;
}

static void use(struct owner *owner, struct afar_region *region)
{
	bool is_fine = read_and_look(owner, region, true, "in new memory");

	for (size_t i = 0; i < NR_WORDS; i++)
		owner->words[i] = pattern_of(owner);
	if (afar_region_pwrite(region, owner->words, sizeof(owner->words), 0) < 0)
		is_fine = false;
	/* It looks after an error, too: an owner who was stopped too long reads what it
	 * has no right to any more. */
	for (int i = 0; i < NR_LOOKS; i++)
		is_fine = read_and_look(owner, region, false, "in its own memory") && is_fine;
	if (is_fine && write(owner->say, "v", 1) != 1)
		_exit(1);
}

/* Deletes what processes before this one left in its slot. */
static void clean_up(struct owner *owner, const char *prefix)
{
	struct afar_namespace_stat stats[16] = {{.size = sizeof(stats[0])}};
	int count = afar_namespace_list(owner->session, NULL, stats, 16);

	for (int i = 0; i < count; i++)
		if (strncmp(stats[i].name, prefix, strlen(prefix)) == 0)
			afar_namespace_delete(owner->session, stats[i].name, AFAR_DELETE_REGIONS);
}

static void own_once(struct owner *owner, const char *name)
{
	struct afar_namespace *ns;
	struct afar_region *region;

	if (afar_namespace_create(owner->session, name, NULL, &ns))
		return;
	if (!afar_namespace_reserve(ns, REGION_BYTES) &&
	    !afar_region_create(ns, "r", REGION_BYTES, 0, &region)) {
		use(owner, region);
		afar_region_destroy(region);
		afar_region_close(region);
	}
	afar_namespace_close(ns);
	afar_namespace_delete(owner->session, name, AFAR_DELETE_REGIONS);
}

/* One session for each namespace: an end of a session is a fence, too. */
static _Noreturn void own_for_ever(struct owner *owner, const char *uri, const char *slot)
{
	struct afar_session_options options = {.size = sizeof(options), .timeout_ms = 1500};
	char prefix[32], name[64];

	snprintf(prefix, sizeof(prefix), "%s-", slot);
	for (;; owner->number++) {
		if (afar_session_open(uri, &options, &owner->session)) {
			sched_yield();
			continue;
		}
		clean_up(owner, prefix);
		snprintf(name, sizeof(name), "%s%llx", prefix, (unsigned long long)owner->number);
		own_once(owner, name);
		afar_session_close(owner->session);
	}
}

/* client SLOT URI SAY-FD GO-FD; the number to count from comes in. */
static int run_owner(char **argv)
{
	struct owner *owner = calloc(1, sizeof(*owner));

	if (!owner ||
	    read(atoi(argv[4]), &owner->number, sizeof(owner->number)) != sizeof(owner->number))
		return 1;
	owner->say = atoi(argv[3]);
	own_for_ever(owner, argv[2], argv[1]);
}

/* ---- Who kills them */

enum { TARGET_MANAGER, TARGET_SERVER, TARGET_OWNER = TARGET_SERVER + NR_SERVERS };
#define NR_TARGETS (TARGET_OWNER + NR_OWNERS)

static struct cluster *cluster;
static struct client_process owners[NR_OWNERS];
static bool is_stopped[NR_TARGETS];
static uint64_t nr_started, nr_verified;

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void start_owner(unsigned slot)
{
	/* Room for 2^32 namespaces of this process. */
	uint64_t number = ++nr_started << 32;
	char name[16];

	snprintf(name, sizeof(name), "owner%u", slot);
	client_start(&owners[slot], name, cluster_uri(cluster));
	assert_int_equal(write(owners[slot].go, &number, sizeof(number)), sizeof(number));
}

static pid_t pid_of(unsigned target)
{
	if (target == TARGET_MANAGER)
		return cluster_manager(cluster);
	if (target < TARGET_OWNER)
		return cluster_server(cluster, target - TARGET_SERVER);
	return owners[target - TARGET_OWNER].pid;
}

static void set_stopped(unsigned target, bool is_to_stop)
{
	if (is_stopped[target] == is_to_stop)
		return;
	if (is_to_stop)
		process_stop(pid_of(target));
	else
		process_continue(pid_of(target));
	is_stopped[target] = is_to_stop;
}

static void end_owner(unsigned slot)
{
	int status;

	assert_int_equal(kill(owners[slot].pid, SIGKILL), 0);
	status = client_reap(&owners[slot]);
	/* It may have had something to say before we came. */
	if (WIFEXITED(status))
		fail_msg("an owner ended by itself with status %d", WEXITSTATUS(status));
}

/* A daemon is back when it says that it is ready, a server when the manager has let it in. */
static void kill_and_restart(unsigned target)
{
	is_stopped[target] = false;
	if (target == TARGET_MANAGER) {
		cluster_kill_manager(cluster);
		assert_int_equal(cluster_restart_manager(cluster), 0);
	} else if (target < TARGET_OWNER) {
		set_stopped(TARGET_MANAGER, false);
		cluster_kill_server(cluster, target - TARGET_SERVER);
		assert_int_equal(cluster_restart_server(cluster, target - TARGET_SERVER), 0);
	} else {
		end_owner(target - TARGET_OWNER);
		start_owner(target - TARGET_OWNER);
	}
}

/* Counts what owners say; one that ended has found something. */
static void hear(unsigned slot)
{
	char bytes[64];
	ssize_t got = read(owners[slot].says, bytes, sizeof(bytes));

	if (got <= 0)
		fail_msg("an owner ended by itself with status %d",
			 WEXITSTATUS(client_reap(&owners[slot])));
	nr_verified += (uint64_t)got;
}

/* Until somebody has verified something, or has had the time to. */
static void let_owners_work(void)
{
	struct pollfd waited[NR_OWNERS];

	for (unsigned i = 0; i < NR_OWNERS; i++)
		waited[i] = (struct pollfd){.fd = owners[i].says, .events = POLLIN};
	if (poll(waited, NR_OWNERS, PATIENCE_MS) <= 0)
		return;
	for (unsigned i = 0; i < NR_OWNERS; i++)
		if (waited[i].revents)
			hear(i);
}

static void play_round(struct random_data *dice)
{
	int32_t which, what;
	unsigned target;

	random_r(dice, &which);
	random_r(dice, &what);
	target = (unsigned)which % NR_TARGETS;
	if (what % 3 == 0)
		kill_and_restart(target);
	else
		set_stopped(target, !is_stopped[target]);
	let_owners_work();
}

/* A leak makes this hang. */
static void expect_everything_free(void)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_session *session;
	struct afar_namespace *ns;

	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &session), 0);
	while (afar_namespace_list(session, NULL, &stat, 1) > 0)
		if (afar_namespace_delete(session, stat.name, AFAR_DELETE_REGIONS) == -EBUSY)
			sched_yield();
	assert_int_equal(afar_namespace_create(session, "all", NULL, &ns), 0);
	while (afar_namespace_reserve(ns, NR_SERVERS * SERVER_BYTES))
		sched_yield();
	assert_int_equal(afar_namespace_close(ns), 0);
	assert_int_equal(afar_namespace_delete(session, "all", 0), 0);
	assert_int_equal(afar_session_close(session), 0);
}

static void test_nobody_finds_anothers_pattern(void **state)
{
	uint64_t seed = number_from("AFAR_SEED", (uint64_t)time(NULL));
	uint64_t nr_rounds = number_from("AFAR_ROUNDS", ROUNDS);
	char dice_state[128] = {0};
	struct random_data dice = {0};

	(void)state;
	print_message("AFAR_SEED=%llu AFAR_ROUNDS=%llu\n", (unsigned long long)seed,
		      (unsigned long long)nr_rounds);
	initstate_r((unsigned)seed, dice_state, sizeof(dice_state), &dice);
	for (unsigned i = 0; i < NR_OWNERS; i++)
		start_owner(i);
	for (uint64_t round = 0; round < nr_rounds; round++)
		play_round(&dice);
	for (unsigned target = 0; target < NR_TARGETS; target++)
		set_stopped(target, false);
	while (nr_verified == 0)
		let_owners_work();
	for (unsigned i = 0; i < NR_OWNERS; i++)
		end_owner(i);
	print_message("%llu namespaces verified\n", (unsigned long long)nr_verified);
	expect_everything_free();
}

static int start(void **state)
{
	(void)state;
	return cluster_start(NR_SERVERS, SERVER_BYTES, &cluster);
}

/* Also after a failure in the middle of a round. */
static int stop(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_OWNERS; i++) {
		if (owners[i].pid > 0) {
			kill(owners[i].pid, SIGKILL);
			waitpid(owners[i].pid, NULL, 0);
		}
	}
	for (unsigned target = 0; target < TARGET_OWNER; target++)
		kill(pid_of(target), SIGCONT);
	cluster_stop(cluster);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5)
		return run_owner(argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_finds_anothers_pattern),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
