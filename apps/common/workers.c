/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and watching the workers of a job; see workers.h. Called by main() of each program. A worker is this program
 * again, with --worker. A worker's output goes into memory: of many that fail for one reason, only one is heard.
 */
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "team.h"

#define ARGUMENTS_MAX 40
#define NUMBER_MAX    24
#define PAUSE_NS      2000000
#define STOP_MS	      3000 /* for one to end by itself after SIGTERM */

/* ---- Flags */

static unsigned nr_cores(void)
{
	cpu_set_t cores;

	return sched_getaffinity(0, sizeof(cores), &cores) ? 1 : (unsigned)CPU_COUNT(&cores);
}

/* Parses "I/N". */
static int parse_worker(const struct cli_command *command, struct job_flags *flags)
{
	unsigned worker, nr;
	int end = 0;

	if (sscanf(flags->worker, "%5u/%5u%n", &worker, &nr, &end) != 2 || flags->worker[end] ||
	    !nr || nr > TEAM_WORKERS_MAX || worker >= nr)
		return cli_misuse(command,
				  "--worker '%.64s' is not I/N: a number from 0 on, and how many "
				  "there are, up to %u",
				  flags->worker, TEAM_WORKERS_MAX);
	flags->number = worker;
	flags->nr = nr;
	return 0;
}

/* A job of one machine needs a name that nobody else has. */
static void name_job(const char *program, struct job_flags *flags)
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = clock_ns();
	snprintf(flags->name, sizeof(flags->name), "%s-%d-%016" PRIx64, program, (int)getpid(),
		 number);
}

int workers_take_flags(const struct cli_command *command, const char *program, unsigned nr_default,
		       struct job_flags *flags)
{
	uint64_t nr = nr_default ? nr_default : nr_cores();

	if (!flags->worker != !flags->job)
		return cli_misuse(command, "--worker and --job go together: they are for workers "
					   "that are started one by one");
	if (flags->worker && flags->workers)
		return cli_misuse(command, "--worker says how many there are: leave --workers out");
	if (flags->job && (!*flags->job || strpbrk(flags->job, "/:@") || strlen(flags->job) > 64))
		return cli_misuse(command,
				  "--job '%.64s' is no name: give 1 to 64 bytes without / : @",
				  flags->job);
	if (flags->worker) {
		snprintf(flags->name, sizeof(flags->name), "%s", flags->job);
		return parse_worker(command, flags);
	}
	if (flags->workers && (number_parse(flags->workers, TEAM_WORKERS_MAX, &nr) || !nr))
		return cli_misuse(command, "--workers '%.64s' is not a number from 1 to %u",
				  flags->workers, TEAM_WORKERS_MAX);
	name_job(program, flags);
	flags->nr = (unsigned)(nr < TEAM_WORKERS_MAX ? nr : TEAM_WORKERS_MAX);
	return 0;
}

/* ---- Starting */

struct command {
	const char *words[ARGUMENTS_MAX];
	unsigned nr;
	char which[NUMBER_MAX], timeout[NUMBER_MAX];
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
static void write_command(const struct cli *cli, const struct job_flags *flags, unsigned i,
			  const char *const *words, struct command *out)
{
	snprintf(out->which, sizeof(out->which), "%u/%u", i, flags->nr);
	snprintf(out->timeout, sizeof(out->timeout), "%u", cli->timeout_ms / 1000);
	out->nr = 0;
	add(out, program_invocation_short_name);
	add(out, words[0]);
	add_flag(out, "--cluster", cli->cluster);
	add_flag(out, "--key", cli->key_file);
	add_flag(out, "--path", cli->path);
	add_flag(out, "--timeout", cli->timeout_ms ? out->timeout : NULL);
	add_flag(out, "--worker", out->which);
	add_flag(out, "--job", flags->name);
	for (const char *const *word = words + 1; *word; word++)
		add(out, *word);
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

static int start(const struct command *command, struct worker *worker)
{
	pid_t parent = getpid();

	worker->lines = memfd_create("afar-worker", MFD_CLOEXEC);
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

int workers_start(const struct cli *cli, const char *what, const struct job_flags *flags,
		  const char *const *words, struct workers *out)
{
	struct command command;
	int ret = 0;

	*out = (struct workers){.what = what, .nr = flags->nr - 1};
	out->workers = calloc(out->nr + 1, sizeof(*out->workers));
	if (!out->workers)
		return cli_fail("%s: out of memory", what);
	for (unsigned i = 0; i < out->nr; i++)
		out->workers[i].lines = -1;
	for (unsigned i = 0; i < out->nr && !ret; i++) {
		write_command(cli, flags, i + 1, words, &command);
		ret = start(&command, &out->workers[i]);
	}
	return ret ? cli_fail("%s: start a worker: %s; use fewer --workers", what,
			      afar_strerror(ret))
		   : 0;
}

/* ---- Watching */

bool workers_look(struct workers *workers)
{
	for (unsigned i = 0; i < workers->nr; i++) {
		struct worker *worker = &workers->workers[i];

		if (!worker->pid || waitpid(worker->pid, &worker->status, WNOHANG) != worker->pid)
			continue;
		worker->pid = 0;
		if (worker->status && !workers->failed)
			workers->failed = worker;
	}
	return workers->failed != NULL;
}

static bool are_running(const struct workers *workers)
{
	for (unsigned i = 0; i < workers->nr; i++) {
		if (workers->workers[i].pid)
			return true;
	}
	return false;
}

void workers_wait(struct workers *workers, int timeout_ms)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline = clock_deadline_ms(timeout_ms);

	while (!workers_look(workers) && are_running(workers) && clock_ns() < deadline)
		nanosleep(&pause, NULL);
}

static void signal_all(const struct workers *workers, int number)
{
	for (unsigned i = 0; i < workers->nr; i++) {
		if (workers->workers[i].pid)
			kill(workers->workers[i].pid, number);
	}
}

void workers_stop(struct workers *workers)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline = clock_deadline_ms(STOP_MS);

	signal_all(workers, SIGTERM);
	/* A worker that was stopped would not end. */
	signal_all(workers, SIGCONT);
	while (workers_look(workers), are_running(workers) && clock_ns() < deadline)
		nanosleep(&pause, NULL);
	signal_all(workers, SIGKILL);
	for (unsigned i = 0; i < workers->nr; i++) {
		if (workers->workers[i].pid)
			waitpid(workers->workers[i].pid, &workers->workers[i].status, 0);
		workers->workers[i].pid = 0;
	}
}

void workers_free(struct workers *workers)
{
	for (unsigned i = 0; i < workers->nr && workers->workers; i++) {
		if (workers->workers[i].lines >= 0)
			close(workers->workers[i].lines);
	}
	free(workers->workers);
	*workers = (struct workers){0};
}

/* ---- What they say */

/* Reads the beginning of what a worker has said. */
static void read_lines(const struct worker *worker, char *out, size_t size)
{
	ssize_t n = worker->lines < 0 ? 0 : pread(worker->lines, out, size - 1, 0);

	out[n > 0 ? n : 0] = '\0';
}

void workers_tell(const struct workers *workers)
{
	char lines[1024];

	for (unsigned i = 0; i < workers->nr; i++) {
		read_lines(&workers->workers[i], lines, sizeof(lines));
		fputs(lines, stderr);
	}
}

int workers_complain(const struct workers *workers)
{
	const struct worker *failed = workers->failed;
	unsigned number = (unsigned)(failed - workers->workers) + 1;
	char lines[1024], *line = lines;

	if (WIFSIGNALED(failed->status))
		return cli_fail("%s: worker %u of %u was killed by signal %d; nothing was written",
				workers->what, number, workers->nr + 1, WTERMSIG(failed->status));
	read_lines(failed, lines, sizeof(lines));
	lines[strcspn(lines, "\n")] = '\0';
	if (!strncmp(line, "afar: ", 6))
		line += 6;
	if (*line)
		return cli_fail("%s", line);
	return cli_fail("%s: worker %u of %u ended with %d; nothing was written", workers->what,
			number, workers->nr + 1, WEXITSTATUS(failed->status));
}
