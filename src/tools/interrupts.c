/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who looks whether it was interrupted and then reads may miss what comes in between, and read for ever. So the first signal
 * starts a timer that interrupts the thread again and again.
 */
#include "interrupts.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_NS 20000000

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

/* One that is ignored, as by nohup, stays so. */
static void catch (int number, const struct sigaction *action)
{
	struct sigaction before;

	if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
		sigaction(number, action, NULL);
}

void catch_interrupts(void)
{
	/* No SA_RESTART: a read that waits for its input ends at once. */
	struct sigaction action = {.sa_handler = interrupt};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};

	event._sigev_un._tid = gettid(); /* this glibc has no name for it */
	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
	has_again = timer_create(CLOCK_MONOTONIC, &event, &again) == 0;
	action.sa_handler = note_interrupt;
	action.sa_flags = (int)SA_RESETHAND;
	catch (SIGINT, &action);
	catch (SIGTERM, &action);
	catch (SIGHUP, &action);
}

bool is_interrupted(void)
{
	return interrupted != 0;
}
