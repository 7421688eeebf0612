/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's end; see ending.h. Called by plugin.c. */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "ending.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_MS	 2000
#define LEAVE_MS 300 /* that nbdkit has to end by itself when all is closed */

static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
#define NR_SIGNALS (sizeof(numbers) / sizeof(numbers[0]))

static struct {
	struct ending calls;
	bool has_begun;
	pthread_t thread;
	int bell[2]; /* what is written there asks for the end */
	struct sigaction before[NR_SIGNALS];
	pthread_rwlock_t gate; /* requests hold it to read */
	bool is_closed;	       /* guarded by the gate */
	pthread_mutex_t lock;
	pthread_cond_t left;
	bool have_left; /* guarded by the lock: nbdkit's clients */
} ending = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Requests */

bool ending_enter(void)
{
	pthread_rwlock_rdlock(&ending.gate);
	if (!ending.is_closed)
		return true;
	pthread_rwlock_unlock(&ending.gate);
	return false;
}

void ending_leave(void)
{
	pthread_rwlock_unlock(&ending.gate);
}

/* Waits for the requests that are under way. */
static void close_gate(void)
{
	pthread_rwlock_wrlock(&ending.gate);
	ending.is_closed = true;
	pthread_rwlock_unlock(&ending.gate);
}

/* ---- Asking */

void ending_ask(void)
{
	const int before = errno;
	/* If the pipe is full, the thread has been asked. */
	ssize_t written = write(ending.bell[1], "", 1);

	(void)written;
	errno = before;
}

static void on_signal(int number)
{
	for (size_t i = 0; i < NR_SIGNALS; i++) {
		if (numbers[i] == number)
			ending.before[i].sa_handler(number);
	}
	ending_ask();
}

/* Puts our handler before nbdkit's. Signals for which it has none are left alone. */
static void listen_for_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESTART};

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < NR_SIGNALS; i++) {
		struct sigaction *before = &ending.before[i];

		if (sigaction(numbers[i], NULL, before) == 0 && !(before->sa_flags & SA_SIGINFO) &&
		    before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

static void wait_until_asked(void)
{
	struct pollfd bell = {.fd = ending.bell[0], .events = POLLIN};

	while (poll(&bell, 1, LOOK_MS) <= 0 && !ending.calls.is_over())
		;
}

/* ---- The thread */

/* Returns whether nbdkit ends by itself, because no client stays. */
static bool nbdkit_ends(void)
{
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until = clock_to_timespec(clock_from_timespec(until) + LEAVE_MS * UINT64_C(1000000));
	pthread_mutex_lock(&ending.lock);
	while (!ending.have_left && ret == 0)
		ret = pthread_cond_timedwait(&ending.left, &ending.lock, &until);
	ret = ending.have_left;
	pthread_mutex_unlock(&ending.lock);
	return ret;
}

static void *run(void *unused)
{
	int status;

	wait_until_asked();
	nbdkit_shutdown();
	close_gate();
	status = ending.calls.conclude();
	if (!nbdkit_ends())
		_exit(status);
	return unused;
}

int ending_start(const struct ending *calls)
{
	pthread_rwlockattr_t attributes;
	sigset_t all, before;
	int ret;

	ending.calls = *calls;
	if (pipe2(ending.bell, O_CLOEXEC | O_NONBLOCK))
		return errno;
	/* Clients that ask on and on must not keep the gate open. */
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&ending.gate, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	pthread_cond_init(&ending.left, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&ending.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	ending.has_begun = ret == 0;
	if (ret == 0)
		listen_for_signals();
	return ret;
}

void ending_wait(void)
{
	if (!ending.has_begun)
		return;
	ending_ask();
	pthread_mutex_lock(&ending.lock);
	ending.have_left = true;
	pthread_cond_signal(&ending.left);
	pthread_mutex_unlock(&ending.lock);
	pthread_join(ending.thread, NULL);
}
