/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers from and to memory that is not there, may not be used so, or goes away meanwhile. If a system call or a
 * network card touches it, the transfer ends in an error. If the library itself copies it, it raises SIGSEGV, as
 * memcpy() does: those cases are processes of their own here. Whatever becomes of it, servers and other sessions go on.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/transport.h"

#define BYTES	    (1 * MIB)
#define GOOD_BYTES  (128 * KIB)
#define DISTANCE    ((size_t)64 << 30)
#define NR_CHILDREN 12U
#define NR_ROUNDS   24U

static struct afar_namespace *ns;
static struct afar_region *region, *quiet;
static uint8_t *bad, *good, *copy;
static uint8_t *nowhere; /* far below all that is mapped by itself */

static int setup(void **state)
{
	if (start(state) || afar_namespace_create(session, "bad", NULL, &ns) ||
	    afar_namespace_reserve(ns, 4 * BYTES) ||
	    afar_region_create(ns, "r", BYTES, 0, &region) ||
	    afar_region_create(ns, "quiet", BYTES, 0, &quiet))
		return -1;
	bad = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	nowhere =
		mmap(NULL, DISTANCE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (nowhere == MAP_FAILED || munmap(nowhere, DISTANCE))
		return -1;
	good = malloc(BYTES);
	copy = malloc(BYTES);
	if (bad == MAP_FAILED || !good || !copy)
		return -1;
	fill(good, BYTES, 1);
	return afar_region_pwrite(quiet, good, BYTES, 0) == BYTES ? 0 : -1;
}

static int teardown(void **state)
{
	free(good);
	free(copy);
	munmap(bad, BYTES);
	if (afar_region_destroy(region) || afar_region_close(region) ||
	    afar_region_destroy(quiet) || afar_region_close(quiet) || afar_namespace_close(ns))
		return -1;
	return stop(state);
}

/* All goes on, with the same session and with what others had. */
static void expect_all_well(void)
{
	assert_int_equal(afar_region_pread(quiet, copy, BYTES, 0), BYTES);
	assert_memory_equal(copy, good, BYTES);
	assert_int_equal(afar_region_pwrite(region, good, BYTES, 0), BYTES);
	assert_int_equal(afar_region_pread(region, copy, BYTES, 0), BYTES);
	assert_memory_equal(copy, good, BYTES);
}

static void test_write_from_nowhere(void **state)
{
	(void)state;
	if (is_on_local())
		skip(); /* it copies */
	expect_error((int)afar_region_pwrite(region, nowhere, BYTES, 0), -EFAULT);
	expect_all_well();
	/* Not over verbs: short pieces are copied there, and pinning may read protected memory. */
	if (is_on_verbs())
		return;
	expect_error((int)afar_region_pwrite(region, nowhere, 100, 0), -EFAULT);
	expect_error((int)afar_region_pwrite(region, bad, BYTES, 0), -EFAULT);
	expect_error((int)afar_region_pwrite(region, bad, 100, 0), -EFAULT);
	expect_error((int)afar_region_pwrite(region, bad, 8 * KIB, 100), -EFAULT);
	expect_all_well();
}

static void test_read_into_nowhere(void **state)
{
	(void)state;
	if (is_on_local())
		skip();
	/* Over tcp the first of it is copied. */
	assert_int_equal(mprotect(bad, GOOD_BYTES, PROT_READ | PROT_WRITE), 0);
	expect_error((int)afar_region_pread(region, bad, BYTES, 0), -EFAULT);
	expect_all_well();
	assert_int_equal(mprotect(bad, BYTES, PROT_READ), 0);
	assert_int_equal(mprotect(bad, GOOD_BYTES, PROT_READ | PROT_WRITE), 0);
	expect_error((int)afar_region_pread(region, bad, BYTES, 0), -EFAULT);
	assert_int_equal(mprotect(bad, BYTES, PROT_NONE), 0);
	expect_all_well();
}

/* In a queue the one is at fault, and others on its connection may have to be done again. */
static void test_queue(void **state)
{
	struct afar_iov iov[3] = {
		{.addr = good, .length = 100},
		{.addr = bad, .length = 100},
		{.addr = good + 4096, .length = 100},
	};
	struct afar_completion done[3];
	struct afar_queue *queue;
	struct afar_op ops[3];

	(void)state;
	if (!is_on_tcp())
		skip(); /* unregistered memory is refused, or copied */
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	for (unsigned i = 0; i < 3; i++)
		ops[i] = (struct afar_op){.opcode = AFAR_OP_WRITE,
					  .nr_iov = 1,
					  .iov = &iov[i],
					  .target = afar_region_target(region),
					  .offset = i * 4096,
					  .user_data = i};
	assert_int_equal(afar_queue_submit(queue, ops, 3), 3);
	assert_int_equal(afar_queue_wait(queue, done, 3, 3, -1), 3);
	for (unsigned i = 0; i < 3; i++) {
		if (done[i].user_data == 1)
			assert_int_equal(done[i].result, -EFAULT);
		else
			assert_true(done[i].result == 100 || done[i].result == -AFAR_ESERVER);
	}
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	iov[1].addr = good + 8192;
	assert_int_equal(afar_queue_submit(queue, ops, 3), 3);
	assert_int_equal(afar_queue_wait(queue, done, 3, 3, -1), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(done[i].result, 100);
	assert_int_equal(afar_queue_close(queue), 0);
	expect_all_well();
}

/* ---- Freed meanwhile */

static void *unmap_soon(void *argument)
{
	struct timespec pause = {.tv_nsec = (long)(((uintptr_t)argument >> 12) % 400 * 1000)};

	nanosleep(&pause, NULL);
	munmap(argument, BYTES);
	return NULL;
}

/* Transfers from or to memory that another thread unmaps meanwhile: what is wrong with them, or 0. `*nr_errors` were
 * found out. */
static int race(struct afar_region *with, unsigned seed, unsigned *nr_errors)
{
	for (unsigned round = 0; round < NR_ROUNDS; round++) {
		uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		pthread_t thread;
		ssize_t ret;

		if (memory == MAP_FAILED || pthread_create(&thread, NULL, unmap_soon, memory))
			return 1;
		ret = (seed + round) % 2 ? afar_region_pread(with, memory, BYTES, 0)
					 : afar_region_pwrite(with, memory, BYTES, 0);
		pthread_join(thread, NULL);
		if (ret != (ssize_t)BYTES && ret != -EFAULT)
			return 2;
		*nr_errors += ret < 0;
		/* After an error all goes on. */
		if (ret < 0 && afar_region_pwrite(with, good, 4096, 0) != 4096)
			return 3;
	}
	return 0;
}

static _Noreturn void child(unsigned seed)
{
	struct afar_session *own;
	struct afar_namespace *own_ns;
	struct afar_region *own_region;
	unsigned nr_errors = 0;

	signal(SIGSEGV, SIG_DFL); /* a sanitizer would say so */
	if (afar_session_open(cluster_uri(cluster), NULL, &own) ||
	    afar_namespace_open(own, "bad", &own_ns) || afar_region_open(own_ns, "r", &own_region))
		_exit(4);
	_exit(race(own_region, seed, &nr_errors));
}

static void test_freed_meanwhile(void **state)
{
	unsigned nr_errors = 0;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it ends children of processes with threads */
#endif
	if (is_on_verbs()) { /* what is registered is pinned */
		assert_int_equal(race(region, 0, &nr_errors), 0);
		expect_all_well();
		return;
	}
	for (unsigned i = 0; i < NR_CHILDREN; i++) {
		pid_t pid = fork_child();
		int status;

		if (pid == 0)
			child(i);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFSIGNALED(status))
			assert_int_equal(WTERMSIG(status), SIGSEGV);
		else
			assert_int_equal(WEXITSTATUS(status), 0);
		expect_all_well();
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(kill(cluster_server(cluster, i), 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_from_nowhere),
		cmocka_unit_test(test_read_into_nowhere),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_freed_meanwhile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
