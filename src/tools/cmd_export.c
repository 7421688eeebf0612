/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar export`: lends a volume to NBD clients as long as it runs. Makes the socket, and starts
 * nbdkit with our plugin (src/frontends/nbd), which serves it. Tells nbdkit to end when it is
 * interrupted.
 *
 * nbdkit gets the socket as systemd would give it. The plugin writes "ready" into a pipe once it has
 * the volume open, and "synced" after the last sync; the pipe's end is the end of nbdkit. So nothing
 * is waited for by looking again and again. What nbdkit says on standard error comes through a
 * pipe, too, and is shown line by line as our own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <afar/volume.h>

#include "cli.h"
#include "door.h"
#include "interrupts.h"

#define PLUGIN		"nbdkit-afar-plugin.so"
#define RETRY_DEFAULT_S 60
#define RETRY_MAX_S	(UINT32_MAX / 1000)
#define THREADS_MAX	1024
#define ARGUMENTS_MAX	24
#define SOCKET_FD	3 /* in nbdkit; systemd's convention */
#define READY_FD	4
#define NOT_FOUND	127 /* nbdkit's exit status if there is none, as a shell's */
#define LINE_MAX_BYTES	2048

/* ---- What was asked */

struct request {
	const char *volume;
	char asked[AFAR_NAME_MAX + 16]; /* "export VOLUME", for messages */
	const char *read_only, *shared, *take_over, *retry, *threads, *socket, *port, *address;
	uint64_t retry_s, nr_threads, port_number;
};

static int read_number(const struct cli_command *command, const char *flag, const char *text,
		       uint64_t min, uint64_t max, uint64_t *out)
{
	if (text && (number_parse(text, max, out) || *out < min))
		return cli_misuse(command,
				  "%s '%.64s' is not a number from %" PRIu64 " to %" PRIu64, flag,
				  text, min, max);
	return 0;
}

static int check_request(const struct cli_command *command, struct request *request)
{
	int ret;

	if (request->read_only && request->shared)
		return cli_misuse(command, "--read-only and --shared exclude each other");
	if (request->socket && request->port)
		return cli_misuse(command, "--socket and --port exclude each other");
	if (request->address && !request->port)
		return cli_misuse(command, "--address goes with --port");
	if (request->socket && !*request->socket)
		return cli_misuse(command, "--socket needs a path");
	ret = read_number(command, "--retry", request->retry, 0, RETRY_MAX_S, &request->retry_s);
	if (!ret)
		ret = read_number(command, "--threads", request->threads, 1, THREADS_MAX,
				  &request->nr_threads);
	if (!ret)
		ret = read_number(command, "--port", request->port, 0, UINT16_MAX,
				  &request->port_number);
	snprintf(request->asked, sizeof(request->asked), "export %.255s", request->volume);
	return ret;
}

/* Looks the volume up, which also shows early that cluster and key are right. */
static int look(struct cli *cli, struct request *request)
{
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	int ret, status = cli_open(cli);

	if (status)
		return status;
	ret = afar_volume_look(cli->session, request->volume, &stat);
	if (ret)
		return cli_close(cli, cli_fail_last(ret));
	if (!request->retry && stat.tier == AFAR_TIER_FLASH)
		request->retry_s = RETRY_DEFAULT_S;
	return cli_close(cli, 0);
}

static int open_door(const struct request *request, struct door *door)
{
	if (request->port)
		return door_open_port(door, request->asked,
				      request->address ? request->address : "127.0.0.1",
				      (uint16_t)request->port_number);
	if (request->socket)
		return door_open_path(door, request->asked, request->socket);
	return door_open_private(door, request->asked);
}

/* ---- nbdkit */

/* Finds the plugin that was built or installed with this program. */
static int find_plugin(const struct request *request, char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash &&
	    snprintf(out, PATH_MAX, "%.*s/../frontends/nbd/" PLUGIN, (int)(slash - self), self) <
		    PATH_MAX &&
	    access(out, R_OK) == 0)
		return 0;
	snprintf(out, PATH_MAX, "%s/" PLUGIN, AFAR_NBDKIT_PLUGINDIR);
	if (*AFAR_NBDKIT_PLUGINDIR && access(out, R_OK) == 0)
		return 0;
	return cli_fail("%s: find the plugin of nbdkit, " PLUGIN ": it is not installed; build "
			"Afar where nbdkit's header is (apt install nbdkit-plugin-dev)",
			request->asked);
}

/* nbdkit's arguments; each text is freed. */
struct command_line {
	char *words[ARGUMENTS_MAX];
	size_t nr;
	bool is_short; /* of memory */
};

__attribute__((format(printf, 2, 3))) static void add(struct command_line *line, const char *format,
						      ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (line->nr + 1 == ARGUMENTS_MAX ||
	    vasprintf(&line->words[line->nr], format, arguments) < 0) {
		line->words[line->nr] = NULL;
		line->is_short = true;
	} else {
		line->nr++;
	}
	va_end(arguments);
}

static void fill_command_line(const struct cli *cli, const struct request *request,
			      const char *plugin, struct command_line *line)
{
	add(line, "nbdkit");
	add(line, "--foreground");
	if (request->threads)
		add(line, "--threads=%" PRIu64, request->nr_threads);
	add(line, "%s", plugin);
	add(line, "volume=%s", request->volume);
	add(line, "mode=%s",
	    request->read_only ? "read-only"
	    : request->shared  ? "shared"
			       : "exclusive");
	add(line, "take-over=%s", request->take_over ? "true" : "false");
	add(line, "retry=%" PRIu64, request->retry_s);
	add(line, "ready-fd=%d", READY_FD);
	if (cli->cluster)
		add(line, "cluster=%s", cli->cluster);
	if (cli->key_file)
		add(line, "key=%s", cli->key_file);
	if (cli->path)
		add(line, "path=%s", cli->path);
	if (cli->timeout_ms)
		add(line, "timeout=%u", cli->timeout_ms / 1000);
}

static void free_command_line(struct command_line *line)
{
	for (size_t i = 0; i < line->nr; i++)
		free(line->words[i]);
}

struct nbdkit {
	pid_t pid;
	int told_fd; /* the plugin writes there */
	int said_fd; /* its standard error */
	bool is_ready, is_synced;
	unsigned nr_said;
	char told[64];
	size_t told_length;
	char said[LINE_MAX_BYTES];
	size_t said_length;
};

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
static _Noreturn void become(const struct command_line *line, pid_t parent, int socket, int told,
			     int said)
{
	char pid[16];
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* Above the numbers that they get, and closed by exec. */
	socket = fcntl(socket, F_DUPFD_CLOEXEC, READY_FD + 1);
	told = fcntl(told, F_DUPFD_CLOEXEC, READY_FD + 1);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
	    dup2(said, STDERR_FILENO) < 0 || dup2(socket, SOCKET_FD) < 0 ||
	    dup2(told, READY_FD) < 0)
		_exit(CLI_FAILED);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	/* It must not outlive us, even if we are killed. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	execvp(line->words[0], line->words);
	_exit(errno == ENOENT ? NOT_FOUND : NOT_FOUND - 1);
}

static int start(const struct request *request, const struct command_line *line, int socket,
		 struct nbdkit *nbdkit)
{
	const pid_t self = getpid();
	int told[2] = {-1, -1}, said[2] = {-1, -1};
	sigset_t all, before;
	int ret = 0;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	if (pipe2(told, O_CLOEXEC) || pipe2(said, O_CLOEXEC)) {
		ret = errno;
	} else {
		nbdkit->pid = fork();
		ret = nbdkit->pid < 0 ? errno : 0;
		if (nbdkit->pid == 0) {
			reset_signals(&before);
			become(line, self, socket, told[1], said[1]);
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
				request->asked, afar_strerror(ret));
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
	if (strcmp(line, "ready") == 0)
		nbdkit->is_ready = true;
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

/* Prints the URI, as all that will ever come from us. Whoever reads it up to its end need not wait
 * for ours. */
static void announce(const struct door *door)
{
	int nothing;

	puts(door->uri);
	fflush(stdout);
	nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (nothing >= 0) {
		dup2(nothing, STDOUT_FILENO);
		close(nothing);
	}
}

/* Returns when nbdkit has closed both pipes, because it has ended. */
static void watch(struct nbdkit *nbdkit, const struct door *door)
{
	struct pollfd fds[2] = {{.fd = nbdkit->told_fd, .events = POLLIN},
				{.fd = nbdkit->said_fd, .events = POLLIN}};
	bool is_announced = false, is_asked_to_end = false;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		if (is_interrupted() && !is_asked_to_end) {
			kill(nbdkit->pid, SIGTERM);
			is_asked_to_end = true;
		}
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents && !take_from_stderr(nbdkit))
			fds[1].fd = -1;
		if (fds[0].revents && !take_from_plugin(nbdkit))
			fds[0].fd = -1;
		if (nbdkit->is_ready && !is_announced) {
			announce(door);
			is_announced = true;
		}
	}
}

/* Says how a process ended. */
static void end_text(int status, char out[64])
{
	if (WIFSIGNALED(status))
		snprintf(out, 64, "by signal %d", WTERMSIG(status));
	else
		snprintf(out, 64, "with status %d", WEXITSTATUS(status));
}

/* Waits for nbdkit's end. Returns our exit status, with a line unless all is well. */
static int conclude(const struct request *request, const struct nbdkit *nbdkit)
{
	char how[64];
	int status = 0;

	while (waitpid(nbdkit->pid, &status, 0) < 0 && errno == EINTR)
		;
	end_text(status, how);
	if (is_interrupted() && !nbdkit->is_ready)
		return CLI_INTERRUPTED;
	if (is_interrupted() && nbdkit->is_synced)
		return 0;
	if (is_interrupted())
		return cli_fail("%s: nbdkit ended %s without a last sync: what clients had not "
				"flushed may be lost",
				request->asked, how);
	if (nbdkit->is_ready)
		return cli_fail(
			"%s: nbdkit ended by itself, %s: its clients are cut off; start the "
			"export again",
			request->asked, how);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
		return cli_fail("%s: find nbdkit, which serves it: it is not in PATH; install it: "
				"apt install nbdkit",
				request->asked);
	/* What nbdkit has said is the line. */
	return nbdkit->nr_said
		       ? CLI_FAILED
		       : cli_fail("%s: nbdkit ended %s before it served; 'nbdkit --version' "
				  "shows if it works",
				  request->asked, how);
}

static int serve(const struct request *request, const struct command_line *line, struct door *door)
{
	struct nbdkit nbdkit = {0};
	int ret;

	catch_interrupts();
	ret = start(request, line, door->fd, &nbdkit);
	if (ret)
		return ret;
	close(door->fd); /* it is nbdkit's: nobody waits at it once nbdkit has ended */
	door->fd = -1;
	watch(&nbdkit, door);
	close(nbdkit.told_fd);
	close(nbdkit.said_fd);
	return conclude(request, &nbdkit);
}

static int export(const struct cli *cli, const struct request *request)
{
	struct command_line line = {0};
	struct door door = {.fd = -1};
	char plugin[PATH_MAX];
	int ret;

	ret = find_plugin(request, plugin);
	if (ret)
		return ret;
	fill_command_line(cli, request, plugin, &line);
	ret = line.is_short ? cli_fail("%s: out of memory", request->asked)
			    : open_door(request, &door);
	if (!ret && !door.is_local)
		cli_note("NBD over TCP is neither encrypted nor authenticated: whoever reaches %s "
			 "can use %s",
			 door.uri, request->volume);
	if (!ret)
		ret = serve(request, &line, &door);
	door_close(&door);
	free_command_line(&line);
	return ret;
}

static int run_export(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	struct request request = {0};
	const struct cli_flag flags[] = {
		{"read-only", NULL, "nobody can write through it", &request.read_only},
		{"shared", NULL, "others may write it meanwhile", &request.shared},
		{"take-over", NULL, "end the sessions of those who are in the way",
		 &request.take_over},
		{"retry", "SECONDS",
		 "how long to wait for a server that is away (default: 60 on flash, else 0)",
		 &request.retry},
		{"threads", "N", "requests at once (default 16)", &request.threads},
		{"socket", "PATH", "the Unix socket (default: a new one in a private folder)",
		 &request.socket},
		{"port", "N", "a TCP port instead; 0: any that is free", &request.port},
		{"address", "ADDRESS", "where the port is (default 127.0.0.1)", &request.address},
		{0},
	};
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	request.volume = arguments[0];
	status = check_request(command, &request);
	if (!status)
		status = look(cli, &request);
	return status ? status : export(cli, &request);
}

const struct cli_command export_commands[] = {
	{"export",
	 "VOLUME [--read-only] [--shared] [--take-over] [--retry SECONDS] [--threads N] "
	 "[--socket PATH] [--port N] [--address ADDRESS]",
	 "lend a volume to NBD clients", run_export},
	{0},
};
