/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that checks whether it was interrupted, and then reads, may miss an interrupt in
 * between, and read for ever. So the first signal starts a timer that interrupts the thread again
 * and again.
 */
#include "interrupts.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_NS 20000000

#ifndef sigev_notify_thread_id /* older glibc has no name for it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

static volatile sig_atomic_t interrupted;
static timer_t again;
static bool has_again;

static void note_interrupt(int number)
{
	const struct itimerspec often = {{0, AGAIN_NS}, {0, AGAIN_NS}};

	interrupted = number;
	if (has_again)
		timer_settime(again, 0, &often, NULL);
}

static void interrupt(int number)
{
	(void)number;
}

bool is_signal_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void catch_interrupts(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	/* No SA_RESTART: a read that waits for its input ends at once. */
	struct sigaction action = {.sa_handler = interrupt};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};

	event.sigev_notify_thread_id = gettid();
	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
	has_again = timer_create(CLOCK_MONOTONIC, &event, &again) == 0;
	action.sa_handler = note_interrupt;
	action.sa_flags = (int)SA_RESETHAND;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!is_signal_ignored(numbers[i]))
			sigaction(numbers[i], &action, NULL);
	}
}

bool is_interrupted(void)
{
	return interrupted != 0;
}
