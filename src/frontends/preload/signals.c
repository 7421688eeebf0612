/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See signals.h. Our handler calls the program's. While the thread is inside of libafar, where locks are held, it keeps
 * the signal instead, and sends it again on the way out. The kernel does so, too, while a mount is asked. Faults are the program's at once.
 *
 * Owns the handlers' addresses. The child of a vfork() shares them: there they change only if it sets a handler.
 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"

#define KEPT_MAX 16 /* signals; those beyond are handled at once */

/* A handler's address, with these in bits that no address has. */
#define WITH_INFO UINT64_C(0x8000000000000000)
#define ONCE	  UINT64_C(0x4000000000000000) /* SA_RESETHAND: it cannot be sent again */

typedef void (*with_info)(int number, siginfo_t *info, void *context);

static atomic_ullong handlers[NSIG];

_Thread_local bool own_is_inside __attribute__((tls_model("initial-exec")));

/* Where the outermost handler has been called from; NULL: none. */
static _Thread_local char *frame __attribute__((tls_model("initial-exec")));
static _Thread_local atomic_uint nr_kept __attribute__((tls_model("initial-exec")));
static _Thread_local struct {
	int number;
	siginfo_t info;
} kept[KEPT_MAX] __attribute__((tls_model("initial-exec")));

bool signals_in_handler(void)
{
	/* Stacks grow down. A frame at that place or above it is of a thread that has jumped out. */
	if (frame && (char *)__builtin_frame_address(0) >= frame)
		frame = NULL;
	return frame != NULL;
}

static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

static bool keep(int number, const siginfo_t *info)
{
	unsigned at = atomic_load_explicit(&nr_kept, memory_order_relaxed);

	/* Those of old are pending once, however often they come. */
	for (unsigned i = 0; number < SIGRTMIN && i < at && i < KEPT_MAX; i++)
		if (kept[i].number == number)
			return true;
	at = atomic_fetch_add_explicit(&nr_kept, 1, memory_order_relaxed);
	if (at >= KEPT_MAX)
		return false;
	kept[at].number = number;
	kept[at].info = *info;
	return true;
}

static void handle(int number, siginfo_t *info, void *context)
{
	const unsigned long long handler = handlers[number];
	const uintptr_t address = (uintptr_t)(handler & ~(WITH_INFO | ONCE));
	const bool was_in = signals_in_handler();

	if (own_is_inside && !is_fault(number) && !(handler & ONCE) && keep(number, info))
		return;
	if (!was_in)
		frame = __builtin_frame_address(0);
	if (handler & WITH_INFO)
		((with_info)address)(number, info, context);
	else
		((void (*)(int))address)(number);
	if (!was_in)
		frame = NULL;
}

void signals_deliver(void)
{
	const int error = errno;
	unsigned nr = atomic_load_explicit(&nr_kept, memory_order_relaxed);

	if (!nr)
		return;
	nr = atomic_exchange(&nr_kept, 0);
	for (unsigned i = 0; i < nr && i < KEPT_MAX; i++) {
		siginfo_t info = kept[i].info;

		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), kept[i].number, &info);
	}
	errno = error;
}

TAKEN int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction ours;
	unsigned long long before;
	int ret;

	if (number <= 0 || number >= NSIG)
		return REAL(sigaction)(number, action, old);
	before = handlers[number];
	if (action && action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
		ours = *action;
		ours.sa_sigaction = handle;
		ours.sa_flags |= SA_SIGINFO;
		handlers[number] = (uintptr_t)action->sa_sigaction |
				   (action->sa_flags & SA_SIGINFO ? WITH_INFO : 0) |
				   ((unsigned)action->sa_flags & SA_RESETHAND ? ONCE : 0);
		action = &ours;
	}
	ret = REAL(sigaction)(number, action, old);
	if (ret)
		handlers[number] = before;
	else if (old && old->sa_sigaction == handle) {
		old->sa_sigaction = (with_info)(uintptr_t)(before & ~(WITH_INFO | ONCE));
		if (!(before & WITH_INFO))
			old->sa_flags &= ~SA_SIGINFO;
	}
	return ret;
}

TAKEN sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, number);
	return sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}
