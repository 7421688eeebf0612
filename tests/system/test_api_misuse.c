/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Misuses the public API, against real daemons: the answer is one clear line, and nothing has
 * changed.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/volume.h>

#include "lib/api/api.h"
#include "lib/base/child.h"

static void test_bad_sizes(void **state)
{
	struct afar_namespace *ns = make_namespace("sizes", 0, 2 * MIB);
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_mapping *mapping;
	struct afar_region *region;
	uint8_t bytes[16];

	(void)state;
	expect_error(afar_namespace_reserve(ns, 0), -EINVAL);
	assert_true(afar_namespace_reserve(ns, UINT64_MAX) < 0);
	assert_true(afar_namespace_reserve(ns, UINT64_MAX - 4095) < 0);
	expect_error(afar_namespace_reserve(ns, (uint64_t)1 << 50), -ENOSPC);
	expect_error(afar_region_alloc(ns, 0, 0, &region), -EINVAL);
	expect_error(afar_region_alloc(ns, 1000 * MIB, 0, &region), -AFAR_ERESERVE);
	assert_true(afar_region_alloc(ns, UINT64_MAX, 0, &region) < 0);
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_int_equal(stat.allocated_bytes, 0);

	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	expect_error(afar_region_pread(region, bytes, 16, 4081), -ERANGE);
	expect_error(afar_region_pread(region, bytes, 16, UINT64_MAX - 3), -ERANGE);
	expect_error(afar_region_pwrite(region, bytes, 1, 4096), -ERANGE);
	assert_int_equal(afar_region_pread(region, bytes, 0, 4096), 0);
	expect_error(afar_region_pread(region, NULL, 1, 0), -EINVAL);
	expect_error(afar_region_map(region, 0, 0, 0, &mapping), -EINVAL);
	expect_error(afar_region_map(region, 1, 4096, 0, &mapping), -ERANGE);
	expect_error(afar_region_map(region, UINT64_MAX, 2, 0, &mapping), -ERANGE);
	drop_region(region);
	drop_namespace(ns, "sizes");
}

static void test_bad_names(void **state)
{
	static const char *const names[] = {"",	   ".",	   "-a",  ".a",	 "a/b",
					    "a b", "a\nb", "a:b", "\xff"};
	char long_name[AFAR_NAME_MAX + 2];
	struct afar_namespace *ns;

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_true(afar_namespace_create(session, names[i], NULL, &ns) < 0);
	expect_error(afar_namespace_create(session, long_name, NULL, &ns), -EINVAL);
	expect_error(afar_namespace_create(session, NULL, NULL, &ns), -EINVAL);
	expect_error(afar_namespace_open(session, "no-such", &ns), -ENOENT);
	expect_error(afar_namespace_delete(session, "no-such", 0), -ENOENT);
	long_name[AFAR_NAME_MAX] = '\0';
	assert_int_equal(afar_namespace_create(session, long_name, NULL, &ns), 0);
	drop_namespace(ns, long_name);
}

static void test_bad_policies(void **state)
{
	struct afar_policy policy = {.size = sizeof(policy)};
	struct afar_namespace *ns;

	(void)state;
	policy.tier = 9;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EOPNOTSUPP);
	policy.tier = 0;
	policy.stripe_bytes = 5000;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
	policy.stripe_bytes = 2048;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
	policy.stripe_bytes = 0;
	policy.width = 65;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
	policy.width = 0;
	policy.size = 1;
	expect_error(afar_namespace_create(session, "policy", &policy, &ns), -EINVAL);
}

static void test_twice(void **state)
{
	struct afar_namespace *ns = make_namespace("twice", 0, 2 * MIB);
	struct afar_mapping *mapping;
	struct afar_region *region;
	struct afar_namespace *other;

	(void)state;
	expect_error(afar_namespace_create(session, "twice", NULL, &other), -EEXIST);
	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	assert_int_equal(afar_region_map(region, 0, 4096, 0, &mapping), 0);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	expect_error(afar_mapping_unmap(mapping), -EINVAL);
	assert_null(afar_mapping_data(mapping));
	expect_error(afar_mapping_read(mapping, 0, 1), -EINVAL);
	drop_region(region);
	expect_error(afar_region_close(region), -EINVAL);
	expect_error(afar_region_destroy(region), -EINVAL);
	expect_error((int)afar_region_pread(region, &(char){0}, 1, 0), -EINVAL);
	drop_namespace(ns, "twice");
	expect_error(afar_namespace_close(ns), -EINVAL);
	expect_error(afar_namespace_delete(session, "twice", 0), -ENOENT);
	expect_error(afar_namespace_close(NULL), -EINVAL);
}

/* A namespace deleted by one session answers the other with -ENOENT, whatever it asks. */
static void test_deleted_namespace(void **state)
{
	struct afar_namespace *ns = make_namespace("deleted", 0, 2 * MIB);
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_namespace_delete(session, "deleted", 0), 0);
	expect_error(afar_namespace_reserve(ns, MIB), -ENOENT);
	expect_error(afar_region_alloc(ns, 4096, 0, &region), -ENOENT);
	expect_error(afar_region_open(ns, "x", &region), -ENOENT);
	assert_int_equal(afar_namespace_close(ns), 0);
}

static void test_delete_with_regions(void **state)
{
	struct afar_namespace *ns = make_namespace("full", 0, 2 * MIB);
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, 4096, 0, &region), 0);
	expect_error(afar_namespace_delete(session, "full", AFAR_DELETE_REGIONS), -EBUSY);
	assert_int_equal(afar_region_close(region), 0);
	expect_error(afar_namespace_delete(session, "full", 0), -ENOTEMPTY);
	assert_int_equal(afar_namespace_delete(session, "full", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_namespace_close(ns), 0);
}

static void test_session_stays_while_used(void **state)
{
	struct afar_namespace *ns = make_namespace("used", 0, 0);

	(void)state;
	expect_error(afar_session_close(session), -EBUSY);
	drop_namespace(ns, "used");
}

/* A volume of one block, and what is no good on it. */
static void use_badly(struct afar_volume *volume)
{
	static const struct {
		uint64_t offset, length;
	} outside[] = {
		{4096, 1},
		{4095, 2},
		{0, 4097},
		{UINT64_MAX, 1},
		{UINT64_MAX - 4095, 4096},
		{1, SSIZE_MAX},
		{UINT64_MAX, SSIZE_MAX},
	};
	struct afar_volume_stat stat = {.size = sizeof(stat)}, small = {.size = 8};
	uint8_t bytes[16] = {0};

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		const uint64_t offset = outside[i].offset, length = outside[i].length;

		expect_error(afar_volume_pread(volume, bytes, length, offset), -ERANGE);
		expect_error(afar_volume_pwrite(volume, bytes, length, offset, 0), -ERANGE);
		expect_error(afar_volume_zero(volume, offset, length, 0), -ERANGE);
		expect_error(afar_volume_trim(volume, offset, length, 0), -ERANGE);
	}
	expect_error(afar_volume_zero(volume, 1, UINT64_MAX, 0), -ERANGE);
	expect_error(afar_volume_pread(volume, bytes, SIZE_MAX, 0), -EINVAL);
	expect_error(afar_volume_pwrite(volume, bytes, SIZE_MAX, 0, 0), -EINVAL);
	expect_error(afar_volume_pread(volume, NULL, 1, 0), -EINVAL);
	expect_error(afar_volume_pwrite(volume, NULL, 1, 0, 0), -EINVAL);
	expect_error(afar_volume_pwrite(volume, bytes, 1, 0, ~AFAR_OP_DURABLE), -EINVAL);
	expect_error(afar_volume_zero(volume, 0, 1, 1U << 31), -EINVAL);
	expect_error(afar_volume_stat(volume, NULL), -EINVAL);
	expect_error(afar_volume_stat(volume, &small), -EINVAL);
	assert_int_equal(afar_volume_pread(volume, NULL, 0, 4096), 0);
	assert_int_equal(afar_volume_stat(volume, &stat), 0);
	assert_int_equal(stat.bytes, 4096);
}

static void test_volumes(void **state)
{
	struct afar_volume_options options = {.size = sizeof(options)};
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	struct afar_namespace *ns = make_namespace("plain", 0, 0);
	struct afar_volume *volume = NULL, *other;
	uint8_t byte;

	(void)state;
	for (uint64_t bytes = 0; bytes < 8192; bytes += 1365)
		expect_error(afar_volume_create(session, "v", bytes, NULL, NULL), -EINVAL);
	assert_true(afar_volume_create(session, "v", UINT64_MAX - 4095, NULL, NULL) < 0);
	assert_true(afar_volume_create(session, "v", (uint64_t)1 << 63, NULL, NULL) < 0);
	expect_error(afar_volume_stat_by_name(session, "v", &stat),
		     -ENOENT); /* nothing is left of them */
	expect_error(afar_volume_create(session, NULL, 4096, NULL, NULL), -EINVAL);
	expect_error(afar_volume_create(NULL, "v", 4096, NULL, NULL), -EINVAL);
	expect_error(afar_volume_create(session, "plain", 4096, NULL, NULL), -EEXIST);
	assert_int_equal(afar_volume_create(session, "v", 4096, NULL, NULL), 0);

	expect_error(afar_volume_open(session, "plain", NULL, &volume), -EINVAL);
	expect_error(afar_volume_open(session, "none", NULL, &volume), -ENOENT);
	expect_error(afar_volume_open(session, "v", NULL, NULL), -EINVAL);
	options.mode = 3;
	expect_error(afar_volume_open(session, "v", &options, &volume), -EINVAL);
	options.mode = AFAR_VOLUME_EXCLUSIVE;
	options.flags = 2;
	expect_error(afar_volume_open(session, "v", &options, &volume), -EINVAL);
	assert_null(volume);
	assert_int_equal(afar_volume_open(session, "v", NULL, &volume), 0);
	use_badly(volume);

	/* While it is open it stays, whoever asks. It may grow. */
	expect_error(afar_volume_open(session, "v", NULL, &other), -EBUSY);
	expect_error(afar_volume_delete(session, "v"), -EBUSY);
	expect_error(afar_namespace_delete(session, "v", AFAR_DELETE_REGIONS), -EINVAL);
	expect_error(afar_volume_resize(session, "v", 1), -EINVAL);
	assert_true(afar_volume_resize(session, "v", UINT64_MAX - 4095) < 0);
	assert_int_equal(afar_volume_resize(session, "v", 8192), 0);
	expect_error(afar_volume_resize(session, "v", 4096), -EBUSY);
	expect_error(afar_volume_pread(volume, &byte, 1, 8191), -ERANGE);
	assert_int_equal(afar_volume_stat(volume, &stat), 0);
	assert_int_equal(afar_volume_pwrite(volume, "x", 1, 8191, 0), 1);
	assert_int_equal(afar_volume_close(volume), 0);
	expect_error(afar_volume_close(volume), -EINVAL);
	expect_error(afar_volume_close(NULL), -EINVAL);
	expect_error(afar_volume_pread(volume, &byte, 1, 0), -EINVAL);
	expect_error(afar_volume_stat(volume, &stat), -EINVAL);
	expect_error(afar_volume_sync(volume), -EINVAL);
	expect_error(afar_volume_sync(NULL), -EINVAL);
	assert_null(afar_volume_target(volume));

	/* Bytes behind a smaller end are zeros when they are there again. */
	assert_int_equal(afar_volume_resize(session, "v", 4096), 0);
	assert_int_equal(afar_volume_resize(session, "v", 8192), 0);
	assert_int_equal(afar_volume_open(session, "v", NULL, &volume), 0);
	assert_int_equal(afar_volume_pread(volume, &byte, 1, 8191), 1);
	assert_int_equal(byte, 0);
	assert_int_equal(afar_volume_close(volume), 0);
	expect_error(afar_volume_delete(session, "plain"), -ENOENT);
	assert_int_equal(afar_volume_delete(session, "v"), 0);
	drop_namespace(ns, "plain");
}

static void test_wrong_addresses(void **state)
{
	static const char *const uris[] = {"afar://",	     "http://localhost", "afar://h:0",
					   "afar://h:99999", "afar://[::1",	 "x"};
	const struct afar_session_options nowhere = {.size = sizeof(nowhere), .path = "rdma"};
	struct afar_session *other;

	(void)state;
	for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
		expect_error(afar_session_open(uris[i], NULL, &other), -EINVAL);
	expect_error(afar_session_open(cluster_uri(cluster), &nowhere, &other), -EINVAL);
	assert_non_null(strstr(afar_last_error(), "use tcp, local or verbs"));
	expect_error(afar_session_open("afar://127.0.0.1:1?key=/nowhere/key", NULL, &other),
		     -ENOENT);
}

static void test_child_of_fork(void **state)
{
	struct afar_namespace *ns;
	int status;
	pid_t child;

	(void)state;
	child = fork_child();
	assert_true(child >= 0);
	if (child == 0)
		_exit(afar_namespace_open(session, "x", &ns) == -AFAR_EFORKED ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect_error(afar_namespace_open(session, "x", &ns), -ENOENT); /* the parent goes on */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test(test_bad_names),
		cmocka_unit_test(test_bad_policies),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_deleted_namespace),
		cmocka_unit_test(test_delete_with_regions),
		cmocka_unit_test(test_session_stays_while_used),
		cmocka_unit_test(test_volumes),
		cmocka_unit_test(test_wrong_addresses),
		cmocka_unit_test(test_child_of_fork),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
