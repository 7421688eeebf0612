/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts, stops and reaps the children of fault tests; fails the running test when that cannot be
 * done.
 */
#include "lib/base/processes.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/child.h"

void client_start(struct client_process *client, const char *behaviour, const char *uri)
{
	int say[2], go[2];
	char say_fd[16], go_fd[16];

	assert_int_equal(pipe2(say, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	snprintf(say_fd, sizeof(say_fd), "%d", say[1]);
	snprintf(go_fd, sizeof(go_fd), "%d", go[0]);
	client->pid = fork_child();
	assert_true(client->pid >= 0);
	if (client->pid == 0) {
		fcntl(say[1], F_SETFD, 0);
		fcntl(go[0], F_SETFD, 0);
		execl("/proc/self/exe", "client", behaviour, uri, say_fd, go_fd, NULL);
		_exit(1);
	}
	close(say[1]);
	close(go[0]);
	client->says = say[0];
	client->go = go[1];
}

void client_hear(struct client_process *client, void *out, size_t length)
{
	ssize_t got = read(client->says, out, length);
	int status;

	if (got == (ssize_t)length)
		return;
	status = client_reap(client);
	if (WIFSIGNALED(status))
		fail_msg("a client died of signal %d", WTERMSIG(status));
	fail_msg("a client ended with status %d", WEXITSTATUS(status));
}

int client_reap(struct client_process *client)
{
	int status;

	assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
	close(client->says);
	close(client->go);
	client->pid = 0;
	return status;
}

void process_stop(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

void process_continue(pid_t pid)
{
	assert_int_equal(kill(pid, SIGCONT), 0);
}
