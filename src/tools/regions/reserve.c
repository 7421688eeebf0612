/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations; see reserve.h. Called by ns reserve and region put. */
#include "reserve.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/cli/cli.h"
#include "tools/cli/interrupts.h"
#include "tools/cli/slow.h"

#define UNIT	  ((uint64_t)2 << 20) /* the unit of reservations */
#define CANCEL_MS 60		      /* how long to wait for the manager's answer */

struct reservation {
	struct afar_namespace *ns;
	uint64_t bytes;
};

static int reserve_run(void *argument)
{
	const struct reservation *reservation = argument;

	return afar_namespace_reserve(reservation->ns, reservation->bytes);
}

/* Ends the process without waiting for the thread: the session cannot be used any more. */
static _Noreturn void leave(void)
{
	fflush(stdout);
	_exit(CLI_INTERRUPTED);
}

static void cancel(const struct reservation *reservation, const struct slow_call *call)
{
	uint64_t deadline = clock_deadline_ms(CANCEL_MS);

	afar_namespace_reserve_cancel(reservation->ns);
	while (!slow_is_done(call, CANCEL_MS / 4)) {
		if (clock_ns() >= deadline)
			leave();
	}
}

int reserve_shown(struct afar_namespace *ns, uint64_t bytes)
{
	struct reservation reservation = {.ns = ns, .bytes = bytes};
	char size[SIZE_TEXT_MAX], what[SIZE_TEXT_MAX + 16];
	struct slow_call call = {.run = reserve_run, .argument = &reservation, .what = what};
	int ret;

	snprintf(what, sizeof(what), "reserving %s", size_text(bytes, size));
	ret = slow_begin(&call);
	if (ret)
		return ret;
	slow_wait(&call);
	if (is_interrupted())
		cancel(&reservation, &call);
	slow_end(&call);
	if (call.result == -ECANCELED)
		return CLI_INTERRUPTED;
	return call.result ? cli_fail("%s", call.sentence) : 0;
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
