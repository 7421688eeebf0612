/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See program.h. A program has a process group of its own, so that Ctrl-C reaches this process alone, which then ends all of
 * the group. Its output may end long before it does (`sort -o`), so a descriptor of the process says when that is. A user's
 * interrupt can stop the wait for both.
 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define LOOK_MS		50 /* after which an interrupt is noticed at the latest */
#define STOP_TIMEOUT_MS 5000

void program_find(const char *name, char out[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	out[length > 0 ? length : 0] = '\0';
	slash = strrchr(out, '/');
	if (strcmp(name, PROGRAM_AFAR) != 0 || !slash)
		snprintf(out, PATH_MAX, "%s", name);
	else
		snprintf(slash + 1, PATH_MAX - (size_t)(slash + 1 - out), "../src/tools/%s", name);
}

/* It reads nothing: mpiexec would, and stop, because its group is not the terminal's. */
static _Noreturn void exec_into(const char *program, const char *const *arguments, int output,
				pid_t parent)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	dup2(nothing, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	execvp(program, (char *const *)arguments);
	_exit(127);
}

struct listener {
	char *said; /* NULL: nobody wants it */
	size_t size, length;
};

/* Takes what the program has said so far. Returns false when its output has ended. */
static bool listen_to(int output, struct listener *listener)
{
	char dropped[4096];
	size_t room;
	ssize_t nr;

	do {
		room = listener->said ? listener->size - 1 - listener->length : 0;
		nr = read(output, room ? listener->said + listener->length : dropped,
			  room ? room : sizeof(dropped));
		listener->length += room && nr > 0 ? (size_t)nr : 0;
	} while (nr > 0);
	return nr < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Returns when the program has ended, or the user has interrupted. */
static void await(int process, int output, struct listener *listener)
{
	struct pollfd events[] = {{.fd = process, .events = POLLIN},
				  {.fd = output, .events = POLLIN}};

	while (!bench_is_interrupted() && !events[0].revents) {
		if (poll(events, 2, LOOK_MS) > 0 && !listen_to(output, listener))
			events[1].fd = -1;
	}
	listen_to(output, listener);
}

static int reap(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* Kills those of the group that do not end by themselves. */
static void end_group(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	const uint64_t deadline = clock_deadline_ms(STOP_TIMEOUT_MS);

	kill(-pid, SIGTERM);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (!clock_remaining_ms(deadline)) {
			kill(pid, SIGKILL);
			reap(pid);
			break;
		}
		nanosleep(&pause, NULL);
	}
	kill(-pid, SIGKILL);
}

int program_run(const char *const *arguments, char *said, size_t size, double *seconds)
{
	struct listener listener = {said, size, 0};
	const uint64_t begin = clock_ns();
	const pid_t parent = getpid();
	int ends[2], process, status;
	char program[PATH_MAX];
	pid_t pid;

	program_find(arguments[0], program);
	if (pipe2(ends, O_CLOEXEC))
		return bench_fail(-errno, "pipe: %s", strerror(errno));
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	pid = fork();
	if (pid == 0)
		exec_into(program, arguments, ends[1], parent);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return bench_fail(-EAGAIN, "%s: no process for it", arguments[0]);
	}
	setpgid(pid, pid); /* whoever of the two comes first */
	process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (process >= 0)
		await(process, ends[0], &listener);
	close(process);
	close(ends[0]);
	if (said)
		said[listener.length] = '\0';
	if (bench_is_interrupted() || process < 0) {
		end_group(pid);
		return process < 0 ? bench_fail(-ENOSYS, "this kernel has no pidfd_open()")
				   : -EINTR;
	}
	status = reap(pid);
	if (seconds)
		*seconds = (double)(clock_ns() - begin) / 1e9;
	return status ? bench_fail(-EIO, "%s %s: it has failed", arguments[0],
				   arguments[1] ? arguments[1] : "")
		      : 0;
}
