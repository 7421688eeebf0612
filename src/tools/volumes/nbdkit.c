/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that serves an export; see nbdkit.h. Called by `afar export`. */
#include "nbdkit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/cli/interrupts.h"

#define SOCKET_FD 3 /* in nbdkit; systemd's convention */
#define LOOK_MS	  1000

/* ---- Starting */

/* Until now signals were blocked, because our own handlers would have lost them. */
static void reset_signals(const sigset_t *mask)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!is_signal_ignored(numbers[i]))
			signal(numbers[i], SIG_DFL);
	}
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* Becomes nbdkit. It is a child of a process without other threads. */
static _Noreturn void become(char *const words[], pid_t parent, int socket, int told, int said)
{
	char pid[16];
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* Above the numbers that they get, and closed by exec. */
	socket = fcntl(socket, F_DUPFD_CLOEXEC, NBDKIT_READY_FD + 1);
	told = fcntl(told, F_DUPFD_CLOEXEC, NBDKIT_READY_FD + 1);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
	    dup2(said, STDERR_FILENO) < 0 || dup2(socket, SOCKET_FD) < 0 ||
	    dup2(told, NBDKIT_READY_FD) < 0)
		_exit(CLI_FAILED);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	/* It must not outlive us, even if we are killed. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	execvp(words[0], words);
	_exit(errno == ENOENT ? NBDKIT_NOT_FOUND : NBDKIT_NOT_FOUND - 1);
}

int nbdkit_start(struct nbdkit *nbdkit, const char *asked, char *const words[], int socket)
{
	const pid_t self = getpid();
	int told[2] = {-1, -1}, said[2] = {-1, -1};
	sigset_t all, before;
	int ret = 0;

	*nbdkit = (struct nbdkit){.told_fd = -1, .said_fd = -1};
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	if (pipe2(told, O_CLOEXEC) || pipe2(said, O_CLOEXEC)) {
		ret = errno;
	} else {
		nbdkit->pid = fork();
		ret = nbdkit->pid < 0 ? errno : 0;
		if (nbdkit->pid == 0) {
			reset_signals(&before);
			become(words, self, socket, told[1], said[1]);
		}
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	for (int i = 0; i < 2; i++) {
		int unused_told = ret || i ? told[i] : -1, unused_said = ret || i ? said[i] : -1;

		if (unused_told >= 0)
			close(unused_told);
		if (unused_said >= 0)
			close(unused_said);
	}
	if (ret)
		return cli_fail("%s: start nbdkit: %s; raise the limit of processes and open files",
				asked, afar_strerror(ret));
	nbdkit->told_fd = told[0];
	nbdkit->said_fd = said[0];
	return 0;
}

/* ---- While it runs */

/* Shows a line of nbdkit's: "nbdkit: afar[2]: error: TEXT" as "nbdkit: TEXT". */
static void show_said(struct nbdkit *nbdkit, const char *line)
{
	static const char name[] = "nbdkit: ", kind[] = "error: ";
	const char *text = strncmp(line, name, strlen(name)) ? line : line + strlen(name);
	const char *error = text == line ? NULL : strstr(text, kind);

	if (!*text)
		return;
	nbdkit->nr_said++;
	cli_fail("nbdkit: %s", error ? error + strlen(kind) : text);
}

/* Reads what there is and hands it on by lines. Returns whether there may be more later. */
static bool take_lines(struct nbdkit *nbdkit, int fd, char *buffer, size_t size, size_t *length,
		       void (*take)(struct nbdkit *nbdkit, const char *line))
{
	ssize_t nr = read(fd, buffer + *length, size - 1 - *length);
	char *line = buffer, *end;

	if (nr < 0)
		return errno == EINTR || errno == EAGAIN;
	*length += (size_t)nr;
	buffer[*length] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		take(nbdkit, line);
		line = end + 1;
	}
	*length -= (size_t)(line - buffer);
	memmove(buffer, line, *length + 1);
	/* The last line may lack its end; a long one is cut. */
	if (*length && (nr == 0 || *length == size - 1)) {
		take(nbdkit, buffer);
		*length = 0;
	}
	return nr > 0;
}

static void take_told(struct nbdkit *nbdkit, const char *line)
{
	static const char session[] = "session ", mark[] = "mark ";
	const size_t length = strlen(line);

	if (strcmp(line, "ready") == 0)
		nbdkit->is_ready = true;
	else if (strcmp(line, "over") == 0)
		nbdkit->is_over = true;
	else if (strcmp(line, "another") == 0)
		nbdkit->is_over = nbdkit->is_another = true;
	else if (strncmp(line, session, strlen(session)) == 0)
		snprintf(nbdkit->session, sizeof(nbdkit->session), "%s", line + strlen(session));
	else if (strncmp(line, mark, strlen(mark)) == 0 && line[length - 1] == ';') /* all of it */
		snprintf(nbdkit->mark, sizeof(nbdkit->mark), "%s", line + strlen(mark));
	else if (strcmp(line, "synced") == 0)
		nbdkit->is_synced = true;
}

static bool take_from_plugin(struct nbdkit *nbdkit)
{
	return take_lines(nbdkit, nbdkit->told_fd, nbdkit->told, sizeof(nbdkit->told),
			  &nbdkit->told_length, take_told);
}

static bool take_from_stderr(struct nbdkit *nbdkit)
{
	return take_lines(nbdkit, nbdkit->said_fd, nbdkit->said, sizeof(nbdkit->said),
			  &nbdkit->said_length, show_said);
}

/* ---- Its end */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Tells it once to end, if it should, and kills it when its time is over. `*end_by` begins as 0. Returns how long to
 * wait for what it says, as for poll(). */
static int hurry(struct nbdkit *nbdkit, uint64_t *end_by)
{
	const uint64_t now = now_ms();

	if (nbdkit->is_late || (!is_interrupted() && !nbdkit->is_over))
		return -1;
	if (*end_by == 0) {
		kill(nbdkit->pid, SIGTERM);
		*end_by = now + NBDKIT_END_S * 1000;
	}
	if (now < *end_by)
		return (int)(*end_by - now);
	kill(nbdkit->pid, SIGKILL);
	nbdkit->is_late = true;
	return -1;
}

void nbdkit_watch(struct nbdkit *nbdkit, void (*be_ready)(void *argument), void *argument)
{
	struct pollfd fds[2] = {{.fd = nbdkit->told_fd, .events = POLLIN},
				{.fd = nbdkit->said_fd, .events = POLLIN}};
	bool is_known = false;
	uint64_t end_by = 0;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		const int left = hurry(nbdkit, &end_by);

		/* A signal that came after that look is seen a second later. */
		if (poll(fds, 2, left < 0 || left > LOOK_MS ? LOOK_MS : left) <= 0)
			continue;
		if (fds[1].revents && !take_from_stderr(nbdkit))
			fds[1].fd = -1;
		if (fds[0].revents && !take_from_plugin(nbdkit))
			fds[0].fd = -1;
		if (nbdkit->is_ready && !is_known) {
			be_ready(argument);
			is_known = true;
		}
	}
	close(nbdkit->told_fd);
	close(nbdkit->said_fd);
	while (waitpid(nbdkit->pid, &nbdkit->status, 0) < 0 && errno == EINTR)
		;
}

void nbdkit_end_text(const struct nbdkit *nbdkit, char out[64])
{
	const int status = nbdkit->status;

	if (WIFSIGNALED(status))
		snprintf(out, 64, "by signal %d", WTERMSIG(status));
	else
		snprintf(out, 64, "with status %d", WEXITSTATUS(status));
}
