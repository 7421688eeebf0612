/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar export`: lends a volume to NBD clients as long as it runs. Makes the socket, and starts
 * nbdkit (nbdkit.h), which serves it. Tells nbdkit to end when it is interrupted.
 *
 * nbdkit may crash: version 1.32 does when a client leaves while answers to it are under way. The socket is ours, so
 * another nbdkit goes on at it, and clients that connect meanwhile wait. Its session takes the place of that of the
 * one before.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <afar/volume.h>

#include "door.h"
#include "nbdkit.h"
#include "tools/cli/commands.h"
#include "tools/cli/interrupts.h"
#include "tools/cli/program.h"

#define PLUGIN		"nbdkit-afar-plugin.so"
#define RETRY_DEFAULT_S 60
#define RETRY_MAX_S	(UINT32_MAX / 1000)
#define THREADS_MAX	1024
#define ARGUMENTS_MAX	24

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
	ret = afar_volume_stat_by_name(cli->session, request->volume, &stat);
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
	static const char *const places[] = {"../frontends/nbd", AFAR_NBDKIT_PLUGINDIR, NULL};

	if (program_find(PLUGIN, R_OK, places, out))
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

static void free_command_line(struct command_line *line)
{
	for (size_t i = 0; i < line->nr; i++)
		free(line->words[i]);
}

/* ---- Serving */

/* A process that ends is followed by another one after such a pause, and after the last of them by none. One that has
 * served so long begins them anew. */
static const int pauses_ms[] = {0, 500, 1000, 2000, 4000};
#define NR_PAUSES (sizeof(pauses_ms) / sizeof(pauses_ms[0]))
#define STEADY_S  2

struct service {
	const struct cli *cli;
	const struct request *request;
	const char *plugin;
	struct door *door;
	struct nbdkit nbdkit;	    /* the process now */
	char session[20];	    /* of the process that had the volume open last; empty: none */
	char mark[NBDKIT_MARK_MAX]; /* what that one remembered of it */
	bool has_served;
	time_t since;	/* when this process began to serve; 0: it has not */
	size_t nr_ends; /* in a row */
};

static void fill_command_line(const struct service *service, struct command_line *line)
{
	const struct request *request = service->request;
	const struct cli *cli = service->cli;

	add(line, "nbdkit");
	add(line, "--foreground");
	if (request->threads)
		add(line, "--threads=%" PRIu64, request->nr_threads);
	add(line, "%s", service->plugin);
	add(line, "volume=%s", request->volume);
	add(line, "mode=%s",
	    request->read_only ? "read-only"
	    : request->shared  ? "shared"
			       : "exclusive");
	/* Once it has been taken over, whoever takes it over from us may keep it. */
	if (request->take_over && !service->has_served)
		add(line, "take-over=true");
	if (*service->session)
		add(line, "replaces=%s", service->session);
	if (*service->mark)
		add(line, "mark=%s", service->mark);
	add(line, "retry=%" PRIu64, request->retry_s);
	add(line, "ready-fd=%d", NBDKIT_READY_FD);
	if (cli->cluster)
		add(line, "cluster=%s", cli->cluster);
	if (cli->key_file)
		add(line, "key=%s", cli->key_file);
	if (cli->path)
		add(line, "path=%s", cli->path);
	if (cli->timeout_ms)
		add(line, "timeout=%u", cli->timeout_ms / 1000);
}

/* Prints the URI, as all that will ever come from us. Then ends our output, so that its reader need
 * not wait for our own end. */
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

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void be_ready(void *argument)
{
	struct service *service = argument;

	service->since = now_s();
	if (!service->has_served)
		announce(service->door);
	service->has_served = true;
}

/* Runs one process to its end. Returns 0, or an exit status with a line if it could not be started. */
static int run_once(struct service *service)
{
	struct command_line line = {0};
	int ret;

	fill_command_line(service, &line);
	ret = line.is_short ? cli_fail("%s: out of memory", service->request->asked)
			    : nbdkit_start(&service->nbdkit, service->request->asked, line.words,
					   service->door->fd);
	free_command_line(&line);
	if (ret)
		return ret;
	service->since = 0;
	nbdkit_watch(&service->nbdkit, be_ready, service);
	if (*service->nbdkit.session)
		strcpy(service->session, service->nbdkit.session);
	if (*service->nbdkit.mark)
		strcpy(service->mark, service->nbdkit.mark);
	return 0;
}

/* True: it crashed, or could not serve again after that. Not if somebody told it to end, and not if it has no session
 * any more: another program has the volume then. */
static bool has_failed(const struct service *service)
{
	const struct nbdkit *nbdkit = &service->nbdkit;

	return service->has_served && !is_interrupted() && !nbdkit->is_over && !nbdkit->is_synced &&
	       (WIFSIGNALED(nbdkit->status) || !nbdkit->is_ready);
}

/* Waits, and says for what. Returns false if it shall not be started again. */
static bool may_start_again(struct service *service)
{
	struct timespec pause;
	char how[64], when[32] = "";
	int ms;

	if (service->since != 0 && now_s() - service->since >= STEADY_S)
		service->nr_ends = 0;
	if (service->nr_ends == NR_PAUSES)
		return false;
	ms = pauses_ms[service->nr_ends++];
	pause.tv_sec = ms / 1000;
	pause.tv_nsec = ms % 1000 * 1000000L;
	if (ms != 0)
		snprintf(when, sizeof(when), " in %d.%d s", ms / 1000, ms % 1000 / 100);
	nbdkit_end_text(&service->nbdkit, how);
	cli_note("%s: nbdkit ended %s, and its clients are cut off; another one starts at the same "
		 "address%s",
		 service->request->asked, how, when);
	nanosleep(&pause, NULL); /* a signal ends it */
	return !is_interrupted();
}

/* ---- Its end */

static int conclude_interrupted(const struct service *service, const char *how)
{
	const char *asked = service->request->asked;

	if (!service->has_served)
		return CLI_INTERRUPTED;
	if (service->nbdkit.is_synced)
		return 0;
	if (service->nbdkit.is_late)
		return cli_fail(
			"%s: the volume could not be synced and closed in %d s: what clients "
			"had not flushed may be lost; 'afar status' shows servers that are "
			"away",
			asked, NBDKIT_END_S);
	return cli_fail("%s: nbdkit ended %s without a last sync: what clients had not flushed may "
			"be lost",
			asked, how);
}

/* Returns our exit status, with a line unless all is well. */
static int conclude(const struct service *service)
{
	const struct nbdkit *nbdkit = &service->nbdkit;
	const char *asked = service->request->asked;
	char how[64];

	nbdkit_end_text(nbdkit, how);
	if (is_interrupted())
		return conclude_interrupted(service, how);
	if (nbdkit->is_another)
		return cli_fail("%s: the volume that it had is gone, and what has its name now, if "
				"anything, is another one: its clients are cut off; export that",
				asked);
	if (nbdkit->is_over)
		return cli_fail(
			"%s: its session has ended, because somebody took the volume over, the "
			"manager did not hear of it for too long, or its key is not accepted any "
			"more: its clients are cut off; 'afar volume stat %s' shows who has it",
			asked, service->request->volume);
	if (has_failed(service))
		return cli_fail(
			"%s: nbdkit ended %s, which makes %zu times in a row: its clients are "
			"cut off; mend what it says, and start the export again",
			asked, how, service->nr_ends + 1);
	if (service->has_served)
		return cli_fail("%s: somebody ended nbdkit, %s: its clients are cut off; start the "
				"export again",
				asked, nbdkit->is_synced ? "which has synced" : how);
	if (WIFEXITED(nbdkit->status) && WEXITSTATUS(nbdkit->status) == NBDKIT_NOT_FOUND)
		return cli_fail("%s: find nbdkit, which serves it: it is not in PATH; install it: "
				"apt install nbdkit",
				asked);
	/* The lines of nbdkit say why. */
	return nbdkit->nr_said
		       ? CLI_FAILED
		       : cli_fail("%s: nbdkit ended %s before it served; 'nbdkit --version' "
				  "shows if it works",
				  asked, how);
}

static int serve(const struct cli *cli, const struct request *request, const char *plugin,
		 struct door *door)
{
	struct service service = {.cli = cli, .request = request, .plugin = plugin, .door = door};
	int ret;

	catch_interrupts();
	do {
		ret = run_once(&service);
		if (ret)
			return ret;
	} while (has_failed(&service) && may_start_again(&service));
	return conclude(&service);
}

static int export(const struct cli *cli, const struct request *request)
{
	struct door door = {.fd = -1};
	char plugin[PATH_MAX];
	int ret;

	ret = find_plugin(request, plugin);
	if (!ret)
		ret = open_door(request, &door);
	if (!ret && !door.is_local)
		cli_note("NBD over TCP is neither encrypted nor authenticated: whoever reaches %s "
			 "can use %s",
			 door.uri, request->volume);
	if (!ret)
		ret = serve(cli, request, plugin, &door);
	door_close(&door);
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
