/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow calls; see slow.h. Called by the commands that reserve room. */
#include "slow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"
#include "interrupts.h"

#define SHOW_MS 100

static void *run(void *argument)
{
	struct slow_call *call = argument;

	call->result = call->run(call->argument);
	if (call->result)
		snprintf(call->sentence, sizeof(call->sentence), "%s", afar_last_error());
	eventfd_write(call->done_fd, 1);
	return NULL;
}

/* Starts the thread with all signals blocked: they are for the thread that waits. */
static int start(struct slow_call *call)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&call->thread, NULL, run, call);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

int slow_begin(struct slow_call *call)
{
	int ret;

	call->done_fd = eventfd(0, EFD_CLOEXEC);
	if (call->done_fd < 0)
		return cli_fail("%s: %s", call->what, afar_strerror(errno));
	ret = start(call);
	if (!ret)
		return 0;
	close(call->done_fd);
	return cli_fail("%s: no thread: %s; raise the limit of processes", call->what,
			afar_strerror(ret));
}

bool slow_is_done(const struct slow_call *call, int timeout_ms)
{
	struct pollfd pollfd = {.fd = call->done_fd, .events = POLLIN};

	return poll(&pollfd, 1, timeout_ms) == 1;
}

void slow_wait(struct slow_call *call)
{
	const bool is_terminal = isatty(STDERR_FILENO) == 1;
	const uint64_t started_ns = clock_ns();
	bool is_shown = false;

	while (!is_interrupted() && !slow_is_done(call, is_terminal ? SHOW_MS : -1)) {
		if (is_terminal)
			fprintf(stderr, "\r%s  %.1f s\033[K", call->what,
				(double)(clock_ns() - started_ns) / 1e9);
		is_shown = is_terminal;
	}
	if (is_shown)
		fputs("\r\033[K", stderr);
}

void slow_end(struct slow_call *call)
{
	pthread_join(call->thread, NULL);
	close(call->done_fd);
}
