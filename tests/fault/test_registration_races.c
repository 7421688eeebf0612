/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that one thread frees, moves, drops or maps anew while another looks it up in the cache of registrations:
 * not once is a registration found that was made of what was there before. A third thread forks all the time.
 * The registrar writes down which of the memories that were at an address it registered. AFAR_LONG=1 goes on for
 * a million rounds.
 *
 * The same rounds without asking for pending changes do find stale ones: the harness can tell.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/registration_cache.h"

#define SPOT_BYTES ((size_t)64 << 10)
#define DISTANCE   ((size_t)64 << 30)

enum change { CHANGE_UNMAP, CHANGE_MOVE, CHANGE_DROP, CHANGE_MAP_OVER, NR_CHANGES };
enum turn { TURN_CHANGER, TURN_BOTH, TURN_OVER };

static struct registration_cache *cache;
static char *spot, *elsewhere;	   /* far below everything that the system maps by itself */
static atomic_ulong memory_number; /* of what is at `spot` */
static atomic_int turn;
static atomic_bool is_changed, is_over;
static enum change change;
static unsigned long nr_stale;

/* ---- The registrar: a registration is the number of the memory it was made of */

static int add(void *context, void *addr, size_t length, void **registration)
{
	(void)context;
	(void)addr;
	(void)length;
	*registration = (void *)(uintptr_t)atomic_load(&memory_number);
	return 0;
}

static void remove_some(void *context, void *const *registrations, size_t nr)
{
	(void)context;
	(void)registrations;
	(void)nr;
}

/* ---- One who changes, and one who uses */

static bool use(void)
{
	unsigned long number = atomic_load(&memory_number);
	struct registration *registration;
	bool is_fresh;

	if (registration_take(cache, spot, SPOT_BYTES, &registration) != 0)
		return false;
	is_fresh = (uintptr_t)registration_handle(registration) >= number;
	registration_give(cache, registration);
	return is_fresh;
}

static char *map(char *addr, int flags)
{
	return mmap(addr, SPOT_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
}

static void make_change(void)
{
	switch (change) {
	case CHANGE_UNMAP:
		munmap(spot, SPOT_BYTES);
		break;
	case CHANGE_MOVE:
		mremap(spot, SPOT_BYTES, SPOT_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
		break;
	case CHANGE_DROP:
		madvise(spot, SPOT_BYTES, MADV_DONTNEED);
		/* Last: nothing that was registered meanwhile may be found any more. */
		atomic_fetch_add(&memory_number, 1);
		break;
	default:
		/* First: what the other registers meanwhile may be of the new one. */
		atomic_fetch_add(&memory_number, 1);
		map(spot, MAP_FIXED);
	}
}

/* Maps what is free as soon as it is, which is before who freed it goes on. */
static void map_what_is_free(void)
{
	while (map(spot, MAP_FIXED_NOREPLACE) == MAP_FAILED)
		sched_yield();
	atomic_fetch_add(&memory_number, 1);
}

static void *user_run(void *argument)
{
	(void)argument;
	while (!atomic_load(&is_over)) {
		if (atomic_load(&turn) != TURN_BOTH) {
			sched_yield();
			continue;
		}
		if (change == CHANGE_UNMAP || change == CHANGE_MOVE) {
			map_what_is_free();
		} else {
			/* Beside the change either is good. */
			while (!atomic_load(&is_changed))
				use();
		}
		nr_stale += !use();
		atomic_store(&turn, TURN_OVER);
	}
	return NULL;
}

static void *fork_run(void *argument)
{
	const struct timespec pause = {.tv_nsec = 2000000};

	(void)argument;
	while (!atomic_load(&is_over)) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void play_round(void)
{
	munmap(elsewhere, SPOT_BYTES);
	map(spot, MAP_FIXED);
	atomic_fetch_add(&memory_number, 1);
	use();
	atomic_store(&is_changed, false);
	atomic_store(&turn, TURN_BOTH);
	make_change();
	atomic_store(&is_changed, true);
	while (atomic_load(&turn) != TURN_OVER)
		sched_yield();
}

/* Until `nr_rounds` are over, or one was stale. */
static unsigned long play(unsigned long nr_rounds, bool trusts_thread, unsigned nr_changes)
{
	const struct registration_cache_options options = {
		.registrar = {.add = add, .remove = remove_some},
		.bytes_max = 64 * SPOT_BYTES,
		.nr_max = 64,
		.batch = 8,
		.trusts_thread = trusts_thread,
	};
	pthread_t user, forker;

	assert_int_equal(registration_cache_open(&options, &cache), 0);
	atomic_store(&is_over, false);
	atomic_store(&turn, TURN_CHANGER);
	nr_stale = 0;
	assert_int_equal(pthread_create(&user, NULL, user_run, NULL), 0);
	assert_int_equal(pthread_create(&forker, NULL, fork_run, NULL), 0);
	for (unsigned long round = 0; round < nr_rounds && nr_stale == 0; round++) {
		change = (enum change)(round % nr_changes);
		play_round();
	}
	atomic_store(&is_over, true);
	pthread_join(user, NULL);
	pthread_join(forker, NULL);
	munmap(spot, SPOT_BYTES);
	munmap(elsewhere, SPOT_BYTES);
	registration_cache_close(cache);
	return nr_stale;
}

static void test_never_stale(void **state)
{
	(void)state;
	assert_int_equal(play(getenv("AFAR_LONG") ? 1000000 : 20000, false, NR_CHANGES), 0);
}

static void test_would_be_stale(void **state)
{
	(void)state;
	assert_int_not_equal(play(1000000, true, CHANGE_UNMAP + 1), 0);
}

/* What is free there stays free: others map from above. */
static int choose_spot(void **state)
{
	(void)state;
	spot = mmap(NULL, DISTANCE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (spot == MAP_FAILED)
		return -1;
	elsewhere = spot + 16 * SPOT_BYTES;
	return munmap(spot, DISTANCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_stale),
		cmocka_unit_test(test_would_be_stale),
	};

	return cmocka_run_group_tests(tests, choose_spot, NULL);
}
