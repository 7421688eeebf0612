/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attached regions: loads and stores are on the memory of the servers itself. A client that may not touch it any
 * more gets a SIGSEGV, never what somebody else has there. Over transports that do not give memory it is refused.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/transport.h"

#define LENGTH (5 * MIB + 4321)
#define RW     (PROT_READ | PROT_WRITE)

static uint8_t *attach(struct afar_region *region, uint64_t offset, size_t length, unsigned prot)
{
	void *addr = NULL;

	if (afar_region_attach(region, offset, length, prot, &addr))
		fail_msg("%s", afar_last_error());
	assert_non_null(addr);
	return addr;
}

static void detach(struct afar_region *region, uint8_t *addr)
{
	assert_int_equal(afar_region_detach(region, addr), 0);
}

/* ---- Touching what may be gone */

static sigjmp_buf on_fault;

static void jump(int number)
{
	siglongjmp(on_fault, number);
}

/* Others take it away meanwhile, which is what is to be seen, and no race. */
__attribute__((no_sanitize("thread"))) static bool can_touch(volatile uint8_t *addr, bool is_write)
{
	struct sigaction action = {.sa_handler = jump}, before;
	volatile bool is_there = false;

	sigemptyset(&action.sa_mask);
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	if (sigsetjmp(on_fault, 1) == 0) {
		if (is_write)
			*addr = 0xee;
		else
			(void)*addr;
		is_there = true;
	}
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	return is_there;
}

/* ---- What it is */

static void test_is_the_memory(void **state)
{
	static uint8_t data[LENGTH], got[LENGTH];
	struct afar_namespace *ns;
	struct afar_region *region;
	struct view other;
	uint8_t *mine, *theirs, *part;
	uint64_t before;

	(void)state;
	if (!is_on_local())
		skip();
	ns = make_namespace("memory", 64 * KIB, 16 * MIB);
	assert_int_equal(afar_region_create(ns, "r", LENGTH, 0, &region), 0);
	fill(data, LENGTH, 1);
	assert_int_equal(afar_region_pwrite(region, data, LENGTH, 0), (ssize_t)LENGTH);
	open_view(&other, "memory", "r");
	mine = attach(region, 0, LENGTH, RW);
	theirs = attach(other.region, 0, LENGTH, PROT_READ);
	assert_memory_equal(mine, data, LENGTH);
	assert_memory_equal(theirs, data, LENGTH);
	assert_false(can_touch(theirs, true));
	/* One stores, the other loads, and whoever calls reads the same. */
	fill(mine, LENGTH, 2);
	assert_memory_equal(theirs, mine, LENGTH);
	assert_int_equal(afar_region_pread(other.region, got, LENGTH, 0), (ssize_t)LENGTH);
	assert_memory_equal(got, mine, LENGTH);
	assert_int_equal(afar_region_pwrite(other.region, data, LENGTH, 0), (ssize_t)LENGTH);
	assert_memory_equal(mine, data, LENGTH);
	/* A part, across stripe units. */
	part = attach(region, 3 * 64 * KIB + 4096, 200001, RW);
	assert_memory_equal(part, data + 3 * 64 * KIB + 4096, 200001);
	part[70000] ^= 0xff;
	assert_int_equal(mine[3 * 64 * KIB + 4096 + 70000], part[70000]);
	/* The processor's atomics are those of the server's. */
	memset(mine, 0, 8);
	atomic_fetch_add((_Atomic uint64_t *)(void *)mine, 40);
	assert_int_equal(afar_region_fetch_add(other.region, 0, 2, &before), 0);
	assert_int_equal(before, 40);
	assert_int_equal(atomic_load((_Atomic uint64_t *)(void *)mine), 42);

	expect_error(afar_region_close(region), -EBUSY);
	expect_error(afar_region_detach(other.region, mine), -EINVAL);
	expect_error(afar_region_detach(region, mine + 4096), -EINVAL);
	detach(region, part);
	assert_true(can_touch(mine, true));
	detach(region, mine);
	expect_error(afar_region_detach(region, mine), -EINVAL);
	assert_true(can_touch(theirs, false));
	detach(other.region, theirs);
	close_view(&other);
	drop_region(region);
	drop_namespace(ns, "memory");
}

static void test_says_what_is_wrong(void **state)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	void *addr;

	(void)state;
	ns = make_namespace("wrong", 64 * KIB, 8 * MIB);
	assert_int_equal(afar_region_alloc(ns, LENGTH, 0, &region), 0);
	expect_error(afar_region_attach(NULL, 0, 4096, RW, &addr), -EINVAL);
	expect_error(afar_region_attach(region, 0, 4096, RW, NULL), -EINVAL);
	expect_error(afar_region_attach(region, 0, 0, RW, &addr), -EINVAL);
	expect_error(afar_region_attach(region, 0, 4096, PROT_NONE, &addr), -EINVAL);
	expect_error(afar_region_attach(region, 0, 4096, PROT_WRITE, &addr), -EINVAL);
	expect_error(afar_region_attach(region, 0, 4096, RW | PROT_EXEC, &addr), -EINVAL);
	expect_error(afar_region_attach(region, 0, LENGTH + 1, RW, &addr), -ERANGE);
	expect_error(afar_region_attach(region, UINT64_MAX, 2, RW, &addr), -ERANGE);
	expect_error(afar_region_attach(region, 8, 4096, RW, &addr), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "4096"));
	expect_error(afar_region_detach(region, NULL), -EINVAL);
	expect_error(afar_region_detach(NULL, &addr), -EINVAL);
	if (!is_on_local()) {
		expect_error(afar_region_attach(region, 0, LENGTH, PROT_READ, &addr), -EOPNOTSUPP);
		assert_non_null(strstr(afar_last_error(), "server bench-"));
		assert_non_null(strstr(afar_last_error(), "no lane"));
	}
	drop_region(region);
	drop_namespace(ns, "wrong");
}

/* ---- Until when */

/* Other memory of the namespace may come and go. */
static void test_stays_beside_what_is_released(void **state)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	uint8_t *addr;

	(void)state;
	if (!is_on_local())
		skip();
	ns = make_namespace("beside", 64 * KIB, 8 * MIB);
	assert_int_equal(afar_region_create(ns, "r", LENGTH, 0, &region), 0);
	addr = attach(region, 0, LENGTH, RW);
	for (uint8_t i = 0; i < 3; i++) {
		struct afar_region *passing;
		uint64_t released;

		assert_int_equal(afar_namespace_reserve(ns, 64 * MIB), 0);
		assert_int_equal(afar_region_alloc(ns, 40 * MIB, 0, &passing), 0);
		assert_int_equal(afar_region_pwrite(passing, "x", 1, 0), 1);
		drop_region(passing);
		assert_int_equal(afar_namespace_release(ns, UINT64_MAX, &released), 0);
		assert_true(released > 0);
		assert_true(can_touch(addr, false));
		memset(addr, i, LENGTH);
	}
	detach(region, addr);
	drop_region(region);
	drop_namespace(ns, "beside");
}

static void test_is_let_go_when_sealed(void **state)
{
	static uint8_t data[LENGTH];
	struct afar_namespace *ns;
	struct afar_region *region, *beside, *next;
	struct view other, neighbour;
	uint8_t *mine, *theirs, *kept;
	void *addr;

	(void)state;
	if (!is_on_local())
		skip();
	ns = make_namespace("sealed", 64 * KIB, 16 * MIB);
	assert_int_equal(afar_region_create(ns, "r", LENGTH, 0, &region), 0);
	assert_int_equal(afar_region_create(ns, "beside", MIB, 0, &beside), 0);
	open_view(&other, "sealed", "r");
	open_view(&neighbour, "sealed", "beside");
	mine = attach(region, 0, LENGTH, RW);
	theirs = attach(other.region, 0, LENGTH, RW);
	kept = attach(neighbour.region, 0, MIB, RW);
	fill(data, LENGTH, 3);
	memcpy(theirs, data, LENGTH);
	assert_int_equal(afar_region_seal(region), 0);
	for (size_t i = 0; i < LENGTH; i += 64 * KIB) {
		assert_false(can_touch(mine + i, true));
		assert_false(can_touch(theirs + i, false));
	}
	/* The attached memory of another region is as it was. */
	assert_true(can_touch(kept, true));
	/* The old place is somebody else's. */
	assert_int_equal(afar_region_alloc(ns, 8 * MIB, 0, &next), 0);
	detach(region, mine);
	detach(other.region, theirs);
	expect_error(afar_region_attach(region, 0, LENGTH, RW, &addr), -EROFS);
	expect_error(afar_region_attach(other.region, 0, LENGTH, RW, &addr), -EROFS);
	theirs = attach(other.region, 0, LENGTH, PROT_READ);
	assert_memory_equal(theirs, data, LENGTH);
	assert_false(can_touch(theirs, true));
	assert_int_equal(mprotect(theirs, 4096, RW), -1);
	assert_int_equal(afar_region_verify(other.region, 0, LENGTH, NULL), 0);
	detach(other.region, theirs);
	detach(neighbour.region, kept);
	close_view(&other);
	close_view(&neighbour);
	drop_region(next);
	drop_region(beside);
	drop_region(region);
	drop_namespace(ns, "sealed");
}

struct sealer {
	struct afar_region *region;
	atomic_bool is_done;
};

static void *run_sealer(void *argument)
{
	struct sealer *sealer = argument;

	assert_int_equal(afar_region_seal(sealer->region), 0);
	sealer->is_done = true;
	return NULL;
}

/* A process that has it attached cannot let go while it is stopped; one that is killed need not. */
static void test_sealing_waits_for_who_is_stopped(void **state)
{
	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it starts no threads in a process that was forked */
#endif
	if (!is_on_local())
		skip();
	for (int round = 0; round < 2; round++) {
		const char *name = round == 0 ? "continued" : "killed";
		struct afar_namespace *ns = make_namespace(name, 64 * KIB, 16 * MIB);
		struct sealer sealer = {0};
		pthread_t thread;
		int says[2];
		char byte;
		pid_t pid;

		assert_int_equal(afar_region_create(ns, "r", MIB, 0, &sealer.region), 0);
		assert_int_equal(pipe(says), 0);
		pid = fork_child();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct view view;

			open_view(&view, name, "r");
			attach(view.region, 0, MIB, RW);
			_exit(write(says[1], "a", 1) == 1 && pause() == 0);
		}
		assert_int_equal(read(says[0], &byte, 1), 1);
		assert_int_equal(kill(pid, SIGSTOP), 0);
		assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
		assert_int_equal(pthread_create(&thread, NULL, run_sealer, &sealer), 0);
		for (int i = 0; i < 5; i++) {
			char *json;

			assert_int_equal(afar_session_status(session, &json), 0);
			free(json);
			assert_false(sealer.is_done);
		}
		assert_int_equal(kill(pid, round == 0 ? SIGCONT : SIGKILL), 0);
		pthread_join(thread, NULL);
		assert_true(sealer.is_done);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		close(says[0]);
		close(says[1]);
		/* The child's session, which nobody has closed, has it for a while. */
		drop_region(sealer.region);
		assert_int_equal(afar_namespace_close(ns), 0);
	}
}

static void test_is_not_a_childs(void **state)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	uint8_t *addr;
	int status;
	pid_t pid;

	(void)state;
	if (!is_on_local())
		skip();
	ns = make_namespace("forked", 64 * KIB, 4 * MIB);
	assert_int_equal(afar_region_alloc(ns, MIB, 0, &region), 0);
	addr = attach(region, 0, MIB, RW);
	pid = fork_child();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(can_touch(addr, true) || afar_region_detach(region, addr) != -AFAR_EFORKED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(can_touch(addr, true));
	detach(region, addr);
	drop_region(region);
	drop_namespace(ns, "forked");
}

/* Last: what was on the server is lost. */
static void test_ends_with_its_server(void **state)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	uint8_t *addr;
	void *again;

	(void)state;
	if (!is_on_local())
		skip();
	ns = make_namespace("lost", 64 * KIB, 4 * MIB);
	assert_int_equal(afar_region_create(ns, "r", 2 * MIB, 0, &region), 0);
	addr = attach(region, 0, 2 * MIB, RW);
	cluster_kill_server(cluster, 0);
	/* All of it, also what the other server has. */
	for (size_t i = 0; i < 2 * MIB; i += 4096) {
		while (can_touch(addr + i, true))
			sched_yield();
	}
	assert_int_equal(cluster_restart_server(cluster, 0), 0);
	expect_error(afar_region_attach(region, 0, 2 * MIB, RW, &again), -AFAR_ELOST);
	detach(region, addr);
	drop_region(region);
	drop_namespace(ns, "lost");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_the_memory),
		cmocka_unit_test(test_says_what_is_wrong),
		cmocka_unit_test(test_stays_beside_what_is_released),
		cmocka_unit_test(test_is_let_go_when_sealed),
		cmocka_unit_test(test_sealing_waits_for_who_is_stopped),
		cmocka_unit_test(test_is_not_a_childs),
		cmocka_unit_test(test_ends_with_its_server),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
