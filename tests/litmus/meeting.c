/* SPDX-License-Identifier: BSD-3-Clause */
/* A barrier of two, who spin for a moment and then sleep. Where there are fewer cores than processes, a sleeper is
 * woken sooner than a spinner is let run again. So the other gets there sooner. */
#include "meeting.h"

#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define SPINS 1000U

int meeting_new(void)
{
	int fd = memfd_create("litmus", 0);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(struct meeting)), 0);
	return fd;
}

struct meeting *meeting_join(int fd)
{
	struct meeting *meeting =
		mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (meeting == MAP_FAILED) {
		perror("share a page");
		_exit(1);
	}
	return meeting;
}

static void futex(struct meeting *meeting, int what, uint32_t value)
{
	syscall(SYS_futex, &meeting->nr_come, what, value, NULL, NULL, 0);
}

void meeting_wait(struct meeting *meeting)
{
	const uint32_t place = atomic_fetch_add(&meeting->nr_come, 1);

	if (place % 2 == 1) {
		futex(meeting, FUTEX_WAKE, 1);
		return;
	}
	for (unsigned i = 0; atomic_load(&meeting->nr_come) == place + 1; i++) {
		if (i >= SPINS)
			futex(meeting, FUTEX_WAIT, place + 1U);
	}
}
