/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's call waits for servers and ignores signals. So a thread of its own makes it, while
 * the thread that takes the signals shows the time and cancels. Called by ns reserve and region
 * put.
 */
#include "reserve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"
#include "interrupts.h"

#define UNIT	     ((uint64_t)2 << 20) /* the unit of reservations */
#define SHOW_MS	     100
#define CANCEL_MS    60 /* how long to wait for the manager's answer */
#define SENTENCE_MAX 512

struct reservation {
	struct afar_namespace *ns;
	uint64_t bytes;
	int done_fd; /* an eventfd, readable when: */
	int result;
	char sentence[SENTENCE_MAX];
};

static void *reserve_run(void *argument)
{
	struct reservation *reservation = argument;

	reservation->result = afar_namespace_reserve(reservation->ns, reservation->bytes);
	if (reservation->result)
		snprintf(reservation->sentence, SENTENCE_MAX, "%s", afar_last_error());
	eventfd_write(reservation->done_fd, 1);
	return NULL;
}

/* Starts the thread with all signals blocked: they are for the thread that waits. */
static int start(struct reservation *reservation, pthread_t *out)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(out, NULL, reserve_run, reservation);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

static void show(const struct reservation *reservation, uint64_t started_ns)
{
	char text[SIZE_TEXT_MAX];

	fprintf(stderr, "\rreserving %s  %.1f s\033[K", size_text(reservation->bytes, text),
		(double)(clock_ns() - started_ns) / 1e9);
}

static bool is_done(const struct reservation *reservation, int timeout_ms)
{
	struct pollfd pollfd = {.fd = reservation->done_fd, .events = POLLIN};

	return poll(&pollfd, 1, timeout_ms) == 1;
}

/* Ends the process without waiting for the thread: the session cannot be used any more. */
static _Noreturn void leave(void)
{
	fflush(stdout);
	_exit(CLI_INTERRUPTED);
}

static void cancel(const struct reservation *reservation)
{
	uint64_t deadline = clock_deadline_ms(CANCEL_MS);

	afar_namespace_reserve_cancel(reservation->ns);
	while (!is_done(reservation, CANCEL_MS / 4)) {
		if (clock_ns() >= deadline)
			leave();
	}
}

static void wait_done(const struct reservation *reservation)
{
	const bool is_terminal = isatty(STDERR_FILENO) == 1;
	const uint64_t started_ns = clock_ns();
	bool is_shown = false;

	while (!is_interrupted() && !is_done(reservation, is_terminal ? SHOW_MS : -1)) {
		if (is_terminal)
			show(reservation, started_ns);
		is_shown = is_terminal;
	}
	if (is_shown)
		fputs("\r\033[K", stderr);
	if (is_interrupted())
		cancel(reservation);
}

int reserve_shown(struct afar_namespace *ns, uint64_t bytes)
{
	struct reservation reservation = {.ns = ns, .bytes = bytes};
	pthread_t thread;
	int ret;

	reservation.done_fd = eventfd(0, EFD_CLOEXEC);
	if (reservation.done_fd < 0)
		return cli_fail("reserve: %s", afar_strerror(errno));
	ret = start(&reservation, &thread);
	if (!ret) {
		wait_done(&reservation);
		pthread_join(thread, NULL);
	}
	close(reservation.done_fd);
	if (ret)
		return cli_fail("reserve: no thread: %s; raise the limit of processes",
				afar_strerror(ret));
	if (reservation.result == -ECANCELED)
		return CLI_INTERRUPTED;
	return reservation.result ? cli_fail("%s", reservation.sentence) : 0;
}

uint64_t reserve_rounded(uint64_t bytes)
{
	uint64_t rounded;

	if (__builtin_add_overflow(bytes, UNIT - 1, &rounded))
		return UINT64_MAX;
	return rounded / UNIT * UNIT;
}

void reserve_undo(struct afar_namespace *ns, uint64_t bytes)
{
	if (bytes)
		afar_namespace_release(ns, reserve_rounded(bytes), NULL);
}
