/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread frees, moves, drops or maps memory anew, or gives it back as the heap's end. Another looks it up in the
 * cache of registrations meanwhile: not once does it find one that was made of what was there before. A third thread
 * forks meanwhile. The registrar writes down which of the memories that were at an address it registered. AFAR_LONG=1
 * goes on for a million rounds, and tells how far it is.
 *
 * Without asking for pending changes, these rounds do find stale ones: the harness can tell.
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
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

#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "memory/registration_cache.h"

#define SPOT_BYTES ((size_t)64 << 10)
#define DISTANCE   ((size_t)64 << 30)
#define HEAP_BYTES (16 << 20)

#define ROUNDS_QUICK 4000UL
#define ROUNDS	     20000UL
#define ROUNDS_LONG  1000000UL
#define FORK_EVERY \
	64UL /* rounds: who forks all the time keeps the others from the memory they change */
#define TELL_EVERY 50000UL /* rounds */

enum change { CHANGE_UNMAP, CHANGE_MOVE, CHANGE_DROP, CHANGE_MAP_OVER, CHANGE_SHRINK, NR_CHANGES };
enum turn { TURN_CHANGER, TURN_BOTH, TURN_OVER };

static struct registration_cache *cache;
static char *hole, *elsewhere;	   /* far below everything that the system maps by itself */
static char *heap_end;		   /* of what malloc() uses: behind it the program break is ours */
static char *spot;		   /* of this round: the hole, or behind the heap */
static atomic_ulong memory_number; /* of what is at `spot` */
static atomic_ulong nr_played;
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
	case CHANGE_SHRINK:
		brk(spot);
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
		if (change != CHANGE_DROP && change != CHANGE_MAP_OVER) {
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

static void fork_once(void)
{
	pid_t pid = fork_child();

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void *fork_run(void *argument)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	unsigned long next = 0;

	(void)argument;
	while (!atomic_load(&is_over)) {
		unsigned long played = atomic_load(&nr_played);

		if (played >= next) {
			next = played + FORK_EVERY;
			fork_once();
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void make_spot(void)
{
	if (change == CHANGE_SHRINK) {
		spot = heap_end;
		munmap(spot, SPOT_BYTES); /* who used it last mapped it */
		assert_int_equal(brk(spot + SPOT_BYTES), 0);
		memset(spot, 1, SPOT_BYTES);
	} else {
		spot = hole;
		map(spot, MAP_FIXED);
	}
}

static void play_round(void)
{
	munmap(elsewhere, SPOT_BYTES);
	make_spot();
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
	atomic_store(&nr_played, 0);
	nr_stale = 0;
	assert_int_equal(pthread_create(&user, NULL, user_run, NULL), 0);
	assert_int_equal(pthread_create(&forker, NULL, fork_run, NULL), 0);
	for (unsigned long round = 0; round < nr_rounds && nr_stale == 0; round++) {
		change = (enum change)(round % nr_changes);
		play_round();
		atomic_store(&nr_played, round + 1);
		if ((round + 1) % TELL_EVERY == 0)
			print_message("%lu rounds\n", round + 1);
	}
	atomic_store(&is_over, true);
	pthread_join(user, NULL);
	pthread_join(forker, NULL);
	munmap(hole, SPOT_BYTES);
	munmap(heap_end, SPOT_BYTES);
	munmap(elsewhere, SPOT_BYTES);
	registration_cache_close(cache);
	return nr_stale;
}

static void test_never_stale(void **state)
{
	(void)state;
	assert_int_equal(play(test_effort(ROUNDS_QUICK, ROUNDS, ROUNDS_LONG), false, NR_CHANGES),
			 0);
}

static void test_would_be_stale(void **state)
{
	(void)state;
	assert_int_not_equal(play(ROUNDS_LONG, true, CHANGE_UNMAP + 1), 0);
}

/* Addresses that are free there stay free: others map from above. */
static int choose_hole(void)
{
	hole = mmap(NULL, DISTANCE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (hole == MAP_FAILED)
		return -1;
	elsewhere = hole + 16 * SPOT_BYTES;
	return munmap(hole, DISTANCE);
}

/* malloc() has more than it will need, keeps it, and asks for no more. */
static int choose_heap_end(void)
{
	void *volatile memory; /* else both calls could be left out */
	uintptr_t end;

	mallopt(M_MMAP_THRESHOLD, 2 * HEAP_BYTES);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	memory = malloc(HEAP_BYTES);
	free(memory);
	end = (uintptr_t)sbrk(0);
	end += -end % SPOT_BYTES;
	heap_end = (char *)end; /* NOLINT(performance-no-int-to-ptr) */
	return brk(heap_end);
}

static int choose_spots(void **state)
{
	(void)state;
	return choose_hole() || choose_heap_end() ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_stale),
		cmocka_unit_test(test_would_be_stale),
	};

	return cmocka_run_group_tests(tests, choose_spots, NULL);
}
