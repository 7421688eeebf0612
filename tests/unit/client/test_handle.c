/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked handles: closed once, by one, when nobody uses them; and open again if that was taken back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/base/handle.h"
#include "unit/group.h"

static void test_closed_once(void **state)
{
	struct handle *handle = handle_new(HANDLE_VOLUME, sizeof(*handle));

	(void)state;
	assert_int_equal(handle_close(handle, HANDLE_QUEUE), -EINVAL);
	assert_true(handle_enter(handle));
	assert_int_equal(handle_close(handle, HANDLE_VOLUME), -EBUSY);
	handle_unuse(handle);
	assert_int_equal(handle_close(handle, HANDLE_VOLUME), 0);
	assert_int_equal(handle_close(handle, HANDLE_VOLUME), -EINVAL);
	assert_false(handle_is(handle, HANDLE_VOLUME));
	assert_false(handle_enter(handle));
	handle_retire(handle);
}

/* Also if a thread is just finding it shut. */
static void test_reopened(void **state)
{
	struct handle *handle = handle_new(HANDLE_VOLUME, sizeof(*handle));

	(void)state;
	assert_int_equal(handle_close(handle, HANDLE_VOLUME), 0);
	handle_use(handle); /* handle_enter() begins so */
	handle_reopen(handle, HANDLE_VOLUME);
	handle_unuse(handle); /* and ends so */
	assert_true(handle_is(handle, HANDLE_VOLUME));
	assert_true(handle_enter(handle));
	handle_unuse(handle);
	assert_int_equal(handle_close(handle, HANDLE_VOLUME), 0);
	handle_retire(handle);
}

TEST_GROUP(handle)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_once),
		cmocka_unit_test(test_reopened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
