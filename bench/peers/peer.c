/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts, watches and ends other people's programs for suites `peers` and `file`. */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"

#define STOP_TIMEOUT_MS 5000

bool peer_is_installed(const char *program)
{
	const char *folders = getenv("PATH");
	char path[PATH_MAX];

	while (folders && *folders) {
		size_t length = strcspn(folders, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)length, folders, program);
		if (access(path, X_OK) == 0)
			return true;
		folders += length + (folders[length] == ':');
	}
	return false;
}

int peer_find_built(const char *name, char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0)
		return -ENOENT;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	if (snprintf(out, PATH_MAX, "%s/%s", self, name) >= PATH_MAX)
		return -ENOENT;
	return access(out, X_OK) ? -ENOENT : 0;
}

int peer_find_port(uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (probe < 0 || bind(probe, (const struct sockaddr *)&address, sizeof(address)) ||
	    getsockname(probe, (struct sockaddr *)&address, &length))
		ret = bench_fail(-errno, "a free port: %s", strerror(errno));
	if (probe >= 0)
		close(probe);
	*port = ntohs(address.sin_port);
	return ret;
}

int peer_open(struct peer *peer)
{
	*peer = (struct peer){.pid = 0};
	snprintf(peer->folder, sizeof(peer->folder), "/tmp/afar-bench-peer-XXXXXX");
	if (mkdtemp(peer->folder))
		return 0;
	peer->folder[0] = '\0';
	return bench_fail(-errno, "a folder in /tmp: %s", strerror(errno));
}

static _Noreturn void exec_peer(const struct peer *peer, const char *const *arguments,
				const char *const *environment, pid_t parent)
{
	char log[sizeof(peer->folder) + sizeof("/log")];
	int log_fd, null_fd;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(126);
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	for (; *environment; environment++)
		putenv((char *)(uintptr_t)*environment);
	snprintf(log, sizeof(log), "%s/log", peer->folder);
	log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	null_fd = open("/dev/null", O_RDONLY);
	dup2(null_fd, STDIN_FILENO);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	execvp(arguments[0], (char *const *)(uintptr_t)arguments);
	_exit(127);
}

int peer_run(struct peer *peer, const char *const *arguments, const char *const *environment)
{
	pid_t parent = getpid();
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return bench_fail(-errno, "fork: %s", strerror(errno));
	if (!pid)
		exec_peer(peer, arguments, environment, parent);
	setpgid(pid, pid); /* whoever of the two comes first */
	peer->pid = pid;
	return 0;
}

bool peer_is_alive(struct peer *peer)
{
	if (peer->pid && waitpid(peer->pid, NULL, WNOHANG) == peer->pid)
		peer->pid = 0;
	return peer->pid != 0;
}

int peer_fail(const struct peer *peer, const char *what, int status)
{
	char path[sizeof(peer->folder) + sizeof("/log")];
	char line[256], last[256] = "nothing";
	FILE *file;

	snprintf(path, sizeof(path), "%s/log", peer->folder);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			memcpy(last, line, sizeof(last));
	}
	if (file)
		fclose(file);
	return bench_fail(status, "%s; it said: %s", what, last);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat;
	(void)kind;
	(void)place;
	return remove(path);
}

static void end_group(struct peer *peer)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t deadline = clock_deadline_ms(STOP_TIMEOUT_MS);
	pid_t group = peer->pid;

	kill(-group, SIGTERM);
	while (peer_is_alive(peer) && clock_remaining_ms(deadline))
		nanosleep(&pause, NULL);
	kill(-group, SIGKILL); /* what else is left of it */
	if (peer->pid)
		waitpid(peer->pid, NULL, 0);
	peer->pid = 0;
}

void peer_stop(struct peer *peer)
{
	if (peer_is_alive(peer))
		end_group(peer);
}

void peer_close(struct peer *peer)
{
	peer_stop(peer);
	if (peer->folder[0])
		nftw(peer->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	peer->folder[0] = '\0';
}
