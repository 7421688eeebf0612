/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and watching the workers of a sort; see sort_workers.h. Called by cmd_sort.c. A worker is this program again,
 * with --worker. What it says goes into memory: of many that fail for one reason, only one is heard.
 */
#include "sort_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define ARGUMENTS_MAX 28
#define NUMBER_MAX    24
#define PAUSE_NS      2000000
#define STOP_MS	      3000 /* for one to end by itself after SIGTERM */

/* ---- Starting */

struct command {
	const char *words[ARGUMENTS_MAX];
	unsigned nr;
	char which[NUMBER_MAX], timeout[NUMBER_MAX], bucket[NUMBER_MAX];
};

static void add(struct command *command, const char *word)
{
	command->words[command->nr++] = word;
}

static void add_flag(struct command *command, const char *flag, const char *value)
{
	if (!value)
		return;
	add(command, flag);
	add(command, value);
}

/* The line that starts worker `i`. */
static void write_command(const struct cli *cli, const struct sort_options *options, unsigned i,
			  struct command *out)
{
	snprintf(out->which, sizeof(out->which), "%u/%u", i, options->nr_workers);
	snprintf(out->timeout, sizeof(out->timeout), "%u", cli->timeout_ms / 1000);
	out->nr = 0;
	add(out, "afar");
	add(out, "sort");
	add(out, "run");
	add_flag(out, "--cluster", cli->cluster);
	add_flag(out, "--key", cli->key_file);
	add_flag(out, "--path", cli->path);
	add_flag(out, "--timeout", cli->timeout_ms ? out->timeout : NULL);
	add_flag(out, "--ns", options->ns);
	add_flag(out, "--worker", out->which);
	add_flag(out, "--job", options->job);
	if (options->is_lines)
		add(out, "--lines");
	if (options->is_verbose)
		add(out, "--verbose");
	add(out, "--");
	add(out, options->input);
	add(out, options->output);
	add(out, NULL);
}

static _Noreturn void become(const struct command *command, pid_t parent, int lines)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED); /* it died before the line above */
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
	    dup2(lines, STDERR_FILENO) < 0)
		_exit(CLI_FAILED);
	execv("/proc/self/exe", (char **)(uintptr_t)command->words);
	_exit(CLI_FAILED);
}

static int start(const struct command *command, struct sort_worker *worker)
{
	pid_t parent = getpid();

	worker->lines = memfd_create("afar-sort", MFD_CLOEXEC);
	if (worker->lines < 0)
		return -errno;
	worker->pid = fork();
	if (worker->pid < 0) {
		worker->pid = 0;
		return -errno;
	}
	if (!worker->pid)
		become(command, parent, worker->lines);
	return 0;
}

int sort_workers_start(const struct cli *cli, const struct sort_options *options,
		       struct sort_workers *out)
{
	struct command command;
	int ret = 0;

	*out = (struct sort_workers){.nr = options->nr_workers - 1};
	out->workers = calloc(out->nr + 1, sizeof(*out->workers));
	if (!out->workers)
		return cli_fail("sort %s: out of memory", options->input);
	for (unsigned i = 0; i < out->nr; i++)
		out->workers[i].lines = -1;
	for (unsigned i = 0; i < out->nr && !ret; i++) {
		write_command(cli, options, i + 1, &command);
		ret = start(&command, &out->workers[i]);
	}
	return ret ? cli_fail("sort %s: start a worker: %s; use fewer --workers", options->input,
			      afar_strerror(ret))
		   : 0;
}

/* ---- Watching */

bool sort_workers_look(struct sort_workers *workers)
{
	for (unsigned i = 0; i < workers->nr; i++) {
		struct sort_worker *worker = &workers->workers[i];

		if (!worker->pid || waitpid(worker->pid, &worker->status, WNOHANG) != worker->pid)
			continue;
		worker->pid = 0;
		if (worker->status && !workers->failed)
			workers->failed = worker;
	}
	return workers->failed != NULL;
}

static bool are_running(const struct sort_workers *workers)
{
	for (unsigned i = 0; i < workers->nr; i++) {
		if (workers->workers[i].pid)
			return true;
	}
	return false;
}

void sort_workers_wait(struct sort_workers *workers, int timeout_ms)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline = clock_deadline_ms(timeout_ms);

	while (!sort_workers_look(workers) && are_running(workers) && clock_ns() < deadline)
		nanosleep(&pause, NULL);
}

static void signal_all(const struct sort_workers *workers, int number)
{
	for (unsigned i = 0; i < workers->nr; i++) {
		if (workers->workers[i].pid)
			kill(workers->workers[i].pid, number);
	}
}

void sort_workers_stop(struct sort_workers *workers)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline = clock_deadline_ms(STOP_MS);

	signal_all(workers, SIGTERM);
	/* A worker that was stopped would not end. */
	signal_all(workers, SIGCONT);
	while (sort_workers_look(workers), are_running(workers) && clock_ns() < deadline)
		nanosleep(&pause, NULL);
	signal_all(workers, SIGKILL);
	for (unsigned i = 0; i < workers->nr; i++) {
		if (workers->workers[i].pid)
			waitpid(workers->workers[i].pid, &workers->workers[i].status, 0);
		workers->workers[i].pid = 0;
	}
}

void sort_workers_free(struct sort_workers *workers)
{
	for (unsigned i = 0; i < workers->nr && workers->workers; i++) {
		if (workers->workers[i].lines >= 0)
			close(workers->workers[i].lines);
	}
	free(workers->workers);
	*workers = (struct sort_workers){0};
}

/* ---- What they say */

/* Reads the beginning of what a worker has said. */
static void read_lines(const struct sort_worker *worker, char *out, size_t size)
{
	ssize_t n = worker->lines < 0 ? 0 : pread(worker->lines, out, size - 1, 0);

	out[n > 0 ? n : 0] = '\0';
}

void sort_workers_tell(const struct sort_workers *workers)
{
	char lines[1024];

	for (unsigned i = 0; i < workers->nr; i++) {
		read_lines(&workers->workers[i], lines, sizeof(lines));
		fputs(lines, stderr);
	}
}

int sort_workers_complain(const struct sort_workers *workers, const struct sort_options *options)
{
	const struct sort_worker *failed = workers->failed;
	unsigned number = (unsigned)(failed - workers->workers) + 1;
	char lines[1024], *line = lines;

	if (WIFSIGNALED(failed->status))
		return cli_fail(
			"sort %s: worker %u of %u was killed by signal %d; nothing was written",
			options->input, number, options->nr_workers, WTERMSIG(failed->status));
	read_lines(failed, lines, sizeof(lines));
	lines[strcspn(lines, "\n")] = '\0';
	if (!strncmp(line, "afar: ", 6))
		line += 6;
	if (*line)
		return cli_fail("%s", line);
	return cli_fail("sort %s: worker %u of %u ended with %d; nothing was written",
			options->input, number, options->nr_workers, WEXITSTATUS(failed->status));
}
