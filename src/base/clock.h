/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock, and deadlines on it. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER   UINT64_MAX	   /* a deadline that does not come */
#define CLOCK_TICK_NS ((uint64_t)10000000) /* the coarse clock may be behind by this much */

static inline uint64_t clock_from_timespec(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

static inline struct timespec clock_to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000U),
				 .tv_nsec = (long)(ns % 1000000000U)};
}

/* Returns nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return clock_from_timespec(now);
}

/* Returns the time of the last tick. It is cheaper, for callers that ask often and need it only
 * roughly. */
static inline uint64_t clock_coarse_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return clock_from_timespec(now);
}

/* Waits for `span_ns` without a system call, and without touching memory that others use. */
static inline void clock_pause_ns(uint64_t span_ns)
{
	uint64_t end = clock_ns() + span_ns;

	while (clock_ns() < end) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("isb");
#endif
	}
}

/* Returns the time `timeout_ms` from now; negative: CLOCK_NEVER. */
static inline uint64_t clock_deadline_ms(int64_t timeout_ms)
{
	return timeout_ms < 0 ? CLOCK_NEVER : clock_ns() + (uint64_t)timeout_ms * 1000000U;
}

/* Returns the milliseconds until `deadline`, rounded up, for poll() and epoll_wait(). -1: it is
 * CLOCK_NEVER. 0: it has passed. */
static inline int clock_remaining_ms(uint64_t deadline)
{
	uint64_t now;

	if (deadline == CLOCK_NEVER)
		return -1;
	now = clock_ns();
	if (deadline <= now)
		return 0;
	now = (deadline - now + 999999U) / 1000000U;
	return now > INT_MAX ? INT_MAX : (int)now;
}

#endif
