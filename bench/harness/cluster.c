/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts and stops the daemons of a private cluster. Each has its own folder and its own log in the
 * cluster's temporary folder. Each has its own process group, too, so that an interrupt from the
 * terminal goes to this process alone, which then stops them in order.
 */
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define READY_TIMEOUT_MS 30000
#define STOP_TIMEOUT_MS	 10000
#define READY_FD	 3
#define URI_MAX		 4400
#define ARGUMENTS_MAX	 40

struct daemon_process {
	pid_t pid;
	int ready_fd; /* becomes readable when it is ready, or ends; 0: nobody waits for that */
	char folder[96];
	const char *moved_store; /* NULL: it has none */
};

struct cluster {
	char folder[64];
	char program[PATH_MAX];
	char uri[URI_MAX];
	struct daemon_process manager;
	struct daemon_process servers[CLUSTER_SERVERS_MAX];
	unsigned nr_servers;
	uint64_t server_bytes;
	uint64_t stage_bytes;
	uint64_t flash_bytes; /* of a store of each server; 0: none */
	bool is_whole;	      /* the one server is in the manager's process */
	const char *host;     /* of the manager; NULL: own_host */
	/* Each process has another, so that a port stays the cluster's over a restart. Connections and all others that
	 * take any free port take one of 127.0.0.1. */
	char own_host[16];
	const char *transport; /* of its data */
	const char *lanes;     /* of its servers; NULL: one over the transport */
	const char *flash;     /* that its server lends; NULL: none */
	const char *scrub;     /* the rate; NULL: the usual one */
	const char *cache;     /* NULL: nothing is said of it */
	bool is_sleepy;
	bool has_metrics;
};

static int find_program(char *out, size_t size)
{
	const char *named = getenv("AFARD");
	char self[PATH_MAX];
	ssize_t length;
	char *slash;

	if (named && *named) {
		snprintf(out, size, "%s", named);
	} else {
		length = readlink("/proc/self/exe", self, sizeof(self) - 1);
		if (length < 0)
			return bench_fail(-errno, "/proc/self/exe: %s", strerror(errno));
		self[length] = '\0';
		slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
		if (snprintf(out, size, "%s/../src/tools/afard", self) >= (int)size)
			return bench_fail(-ENAMETOOLONG, "%s: too long a path", self);
	}
	if (access(out, X_OK))
		return bench_fail(-errno, "the daemon %s: %s; name it with $AFARD", out,
				  strerror(errno));
	return 0;
}

/* ---- One daemon */

/* In the child: from here to exec only what is safe after fork. */
static _Noreturn void exec_daemon(const struct cluster *cluster, struct daemon_process *process,
				  char *const arguments[], int ready_fd, pid_t parent)
{
	char log[128];
	int log_fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	setpgid(0, 0);
	snprintf(log, sizeof(log), "%s/log", process->folder);
	log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	if (ready_fd == READY_FD)
		fcntl(READY_FD, F_SETFD, 0);
	else
		dup2(ready_fd, READY_FD);
	close_range(READY_FD + 1, ~0U, 0); /* libfabric's sockets of this process among them */
	execv(cluster->program, arguments);
	_exit(127);
}

static int spawn_daemon(struct cluster *cluster, struct daemon_process *process,
			char *const arguments[])
{
	pid_t parent = getpid();
	int ready[2];

	if (mkdir(process->folder, 0700) && errno != EEXIST)
		return bench_fail(-errno, "%s: %s", process->folder, strerror(errno));
	if (pipe2(ready, O_CLOEXEC))
		return bench_fail(-errno, "pipe: %s", strerror(errno));
	fflush(NULL);
	process->pid = fork();
	if (!process->pid)
		exec_daemon(cluster, process, arguments, ready[1], parent);
	close(ready[1]);
	process->ready_fd = ready[0];
	if (process->pid < 0) {
		int ret = -errno;

		process->pid = 0;
		close(ready[0]);
		return bench_fail(ret, "fork: %s", strerror(-ret));
	}
	return 0;
}

/* The last thing a daemon said, for people to read. */
static void show_last_words(const struct daemon_process *process)
{
	char path[128];
	char line[512];
	char last[512] = "nothing";
	FILE *file;

	snprintf(path, sizeof(path), "%s/log", process->folder);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		memcpy(last, line, sizeof(last));
	}
	fclose(file);
	bench_fail(0, "a daemon did not become ready; it said: %s", last);
}

/* Waits for the line that tells that the daemon is ready. */
static int await_ready(struct daemon_process *process, char *line, size_t size)
{
	struct pollfd waited = {.fd = process->ready_fd, .events = POLLIN};
	uint64_t deadline = clock_deadline_ms(READY_TIMEOUT_MS);
	size_t length = 0;

	while (length + 1 < size && !memchr(line, '\n', length)) {
		int left_ms = clock_remaining_ms(deadline);
		ssize_t got;

		if (bench_is_interrupted())
			return -EINTR;
		if (!left_ms)
			break;
		if (poll(&waited, 1, left_ms) <= 0)
			continue;
		got = read(process->ready_fd, line + length, size - 1 - length);
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	line[length] = '\0';
	close(process->ready_fd);
	process->ready_fd = 0;
	if (!strchr(line, '\n')) {
		show_last_words(process);
		return -ETIMEDOUT;
	}
	*strchr(line, '\n') = '\0';
	return 0;
}

static void reap_daemon(struct daemon_process *process)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t deadline = clock_deadline_ms(STOP_TIMEOUT_MS);

	if (process->pid <= 0)
		return;
	while (waitpid(process->pid, NULL, WNOHANG) == 0) {
		if (!clock_remaining_ms(deadline)) {
			bench_fail(0, "a daemon did not stop on SIGTERM within %d s: killed",
				   STOP_TIMEOUT_MS / 1000);
			kill(process->pid, SIGKILL);
			waitpid(process->pid, NULL, 0);
			break;
		}
		nanosleep(&pause, NULL);
	}
	process->pid = 0;
}

/* ---- The cluster */

/* HOST:PORT of a URI that the manager wrote; any port of its host before it has. */
static void read_address(const char *uri, const char *host, char *out, size_t size)
{
	const char *begin = strstr(uri, "://");

	if (!begin) {
		snprintf(out, size, "%s:0", host);
		return;
	}
	begin += 3;
	snprintf(out, size, "%.*s", (int)strcspn(begin, "?"), begin);
}

static const char *environment(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

static void describe_lanes(const struct cluster *cluster, char *out, size_t size)
{
	const char *host = environment("AFAR_TEST_HOST", cluster->own_host);

	if (cluster->lanes)
		snprintf(out, size, "%s", cluster->lanes);
	else if (strcmp(cluster->transport, "local") == 0)
		snprintf(out, size, "local");
	else if (strcmp(cluster->transport, CLUSTER_LOCAL_AND_TCP) == 0)
		snprintf(out, size, "local,tcp:%s:0", host);
	else
		snprintf(out, size, "%s:%s:0", cluster->transport, host);
}

/* The text of a daemon's arguments. */
struct arguments {
	char *list[ARGUMENTS_MAX]; /* NULL behind the last */
	unsigned nr;
	char address[128];
	char key[128];
	char memory[32], stage[32], flash[32];
	char name[24];
	char lanes[96];
	char control[32];
	char congestion[32];
	char metrics[32];
};

static void add(struct arguments *arguments, const char *flag, const char *value)
{
	arguments->list[arguments->nr++] = (char *)flag;
	arguments->list[arguments->nr++] = (char *)value;
}

static void begin_arguments(struct arguments *arguments, const struct cluster *cluster,
			    const char *role, const struct daemon_process *process)
{
	memset(arguments, 0, sizeof(*arguments));
	arguments->list[arguments->nr++] = (char *)cluster->program;
	add(arguments, "--role", role);
	add(arguments, "--data", process->folder);
	add(arguments, "--ready-fd", "3");
	snprintf(arguments->metrics, sizeof(arguments->metrics), "%s:0", cluster->own_host);
	if (cluster->has_metrics)
		add(arguments, "--metrics", arguments->metrics);
}

/* Adds what a server lends, and how it is reached. */
static void add_server(struct arguments *arguments, const struct cluster *cluster, unsigned i,
		       const struct daemon_process *server)
{
	describe_lanes(cluster, arguments->lanes, sizeof(arguments->lanes));
	snprintf(arguments->control, sizeof(arguments->control), "%s:0", cluster->own_host);
	snprintf(arguments->memory, sizeof(arguments->memory), "%lluM",
		 (unsigned long long)cluster->server_bytes >> 20);
	snprintf(arguments->stage, sizeof(arguments->stage), "%llu",
		 (unsigned long long)cluster->stage_bytes);
	snprintf(arguments->flash, sizeof(arguments->flash), "%lluM",
		 (unsigned long long)cluster->flash_bytes >> 20);
	snprintf(arguments->name, sizeof(arguments->name), "bench-%u", i);
	snprintf(arguments->congestion, sizeof(arguments->congestion), "%s",
		 environment("AFAR_CONGESTION", "auto"));
	add(arguments, "--memory", arguments->memory);
	add(arguments, "--name", arguments->name);
	if (cluster->host == cluster->own_host)
		add(arguments, "--control", arguments->control);
	add(arguments, "--data-listen", arguments->lanes);
	add(arguments, "--stage", arguments->stage);
	add(arguments, "--congestion", arguments->congestion);
	if (server->moved_store)
		add(arguments, "--flash", server->moved_store);
	else if (cluster->flash)
		add(arguments, "--flash", cluster->flash);
	else if (cluster->flash_bytes)
		add(arguments, "--flash", arguments->flash);
	if (cluster->scrub)
		add(arguments, "--scrub", cluster->scrub);
	if (cluster->cache)
		add(arguments, "--cache", cluster->cache);
	if (cluster->is_sleepy)
		add(arguments, "--spin-us", "0");
}

static int spawn_manager(struct cluster *cluster)
{
	struct daemon_process *manager = &cluster->manager;
	struct arguments arguments;

	snprintf(manager->folder, sizeof(manager->folder), "%s/manager", cluster->folder);
	begin_arguments(&arguments, cluster, cluster->is_whole ? "all" : "manager", manager);
	read_address(cluster->uri, cluster->host, arguments.address, sizeof(arguments.address));
	add(&arguments, "--listen", arguments.address);
	add(&arguments, "--own-ends", environment("AFAR_OWN_ENDS", "yes"));
	if (cluster->is_whole)
		add_server(&arguments, cluster, 0, manager);
	return spawn_daemon(cluster, manager, arguments.list);
}

static int start_manager(struct cluster *cluster)
{
	int ret = spawn_manager(cluster);

	return ret ? ret : cluster_await_manager(cluster);
}

static int start_server(struct cluster *cluster, unsigned i)
{
	struct daemon_process *server = &cluster->servers[i];
	struct arguments arguments;
	char folder[sizeof(server->folder)];

	snprintf(folder, sizeof(folder), "%s/server-%u", cluster->folder, i);
	memcpy(server->folder, folder, sizeof(folder)); /* gcc cannot tell the two folders apart */
	begin_arguments(&arguments, cluster, "server", server);
	snprintf(arguments.key, sizeof(arguments.key), "%s/server.key", cluster->manager.folder);
	add(&arguments, "--manager", cluster->uri);
	add(&arguments, "--key", arguments.key);
	add_server(&arguments, cluster, i, server);
	return spawn_daemon(cluster, server, arguments.list);
}

static int start_servers(struct cluster *cluster, unsigned nr)
{
	char line[URI_MAX];
	int ret = 0;

	for (unsigned i = 0; i < nr && !ret; i++) {
		ret = start_server(cluster, i);
		if (!ret)
			cluster->nr_servers = i + 1;
	}
	for (unsigned i = 0; i < cluster->nr_servers && !ret; i++)
		ret = await_ready(&cluster->servers[i], line, sizeof(line));
	return ret;
}

/* Starts a cluster like `wanted`. */
static int start(const struct cluster *wanted, unsigned nr_servers, struct cluster **out)
{
	struct cluster *cluster = malloc(sizeof(*cluster));
	const pid_t pid = getpid();
	int ret;

	if (!cluster)
		return bench_fail(-ENOMEM, "no memory for a cluster");
	*cluster = *wanted;
	snprintf(cluster->own_host, sizeof(cluster->own_host), "127.%u.%u.%u",
		 64 + (unsigned)pid / 65536 % 128, (unsigned)pid / 256 % 256, (unsigned)pid % 256);
	if (!cluster->host)
		cluster->host = cluster->own_host;
	snprintf(cluster->folder, sizeof(cluster->folder), "/tmp/afar-bench-XXXXXX");
	if (!mkdtemp(cluster->folder)) {
		ret = bench_fail(-errno, "a folder in /tmp: %s", strerror(errno));
		free(cluster);
		return ret;
	}
	ret = find_program(cluster->program, sizeof(cluster->program));
	if (!ret)
		ret = start_manager(cluster);
	if (!ret)
		ret = start_servers(cluster, nr_servers);
	if (ret) {
		cluster_stop(cluster);
		return ret;
	}
	*out = cluster;
	return 0;
}

int cluster_start_over(const char *transport, unsigned nr_servers, uint64_t server_bytes,
		       struct cluster **out)
{
	const struct cluster wanted = {.transport = transport, .server_bytes = server_bytes};

	return start(&wanted, nr_servers, out);
}

int cluster_start_staged(uint64_t stage_bytes, uint64_t server_bytes, struct cluster **out)
{
	const struct cluster wanted = {
		.transport = "tcp", .server_bytes = server_bytes, .stage_bytes = stage_bytes};

	return start(&wanted, 1, out);
}

int cluster_start_on_store(const struct cluster_store *store, uint64_t server_bytes,
			   struct cluster **out)
{
	const struct cluster wanted = {.transport = store->transport ? store->transport : "tcp",
				       .server_bytes = server_bytes,
				       .flash = store->path,
				       .cache = store->cache,
				       .scrub = store->scrub,
				       .is_sleepy = store->is_sleepy,
				       .has_metrics = store->has_metrics};

	return start(&wanted, 1, out);
}

int cluster_start_at(const char *host, const char *lanes, uint64_t server_bytes,
		     struct cluster **out)
{
	const struct cluster wanted = {.host = host, .lanes = lanes, .server_bytes = server_bytes};

	return start(&wanted, 1, out);
}

int cluster_start(unsigned nr_servers, uint64_t server_bytes, struct cluster **out)
{
	return cluster_start_over(environment("AFAR_TEST_TRANSPORT", "tcp"), nr_servers,
				  server_bytes, out);
}

int cluster_start_flash(unsigned nr_servers, uint64_t server_bytes, uint64_t flash_bytes,
			struct cluster **out)
{
	const struct cluster wanted = {
		.transport = "tcp", .server_bytes = server_bytes, .flash_bytes = flash_bytes};

	return start(&wanted, nr_servers, out);
}

int cluster_start_whole(uint64_t server_bytes, uint64_t flash_bytes, struct cluster **out)
{
	const struct cluster wanted = {.transport = "tcp",
				       .server_bytes = server_bytes,
				       .flash_bytes = flash_bytes,
				       .is_whole = true};

	return start(&wanted, 0, out);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat;
	(void)kind;
	(void)place;
	return remove(path);
}

/* The manager lives longest: a server's last words are to it. */
void cluster_stop(struct cluster *cluster)
{
	if (!cluster)
		return;
	for (unsigned i = 0; i < cluster->nr_servers; i++) {
		if (cluster->servers[i].pid > 0)
			kill(cluster->servers[i].pid, SIGTERM);
	}
	for (unsigned i = 0; i < cluster->nr_servers; i++)
		reap_daemon(&cluster->servers[i]);
	if (cluster->manager.pid > 0)
		kill(cluster->manager.pid, SIGTERM);
	reap_daemon(&cluster->manager);
	nftw(cluster->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(cluster);
}

/* ---- Deaths and second lives */

static void kill_daemon(struct daemon_process *process)
{
	if (process->pid <= 0)
		return;
	kill(process->pid, SIGKILL);
	reap_daemon(process);
	if (process->ready_fd > 0)
		close(process->ready_fd);
	process->ready_fd = 0;
}

void cluster_kill_manager(struct cluster *cluster)
{
	kill_daemon(&cluster->manager);
}

int cluster_restart_manager(struct cluster *cluster)
{
	return start_manager(cluster);
}

void cluster_kill_server(struct cluster *cluster, unsigned i)
{
	kill_daemon(&cluster->servers[i]);
}

int cluster_restart_server(struct cluster *cluster, unsigned i)
{
	int ret = start_server(cluster, i);

	return ret ? ret : cluster_await_server(cluster, i);
}

int cluster_respawn_manager(struct cluster *cluster)
{
	return spawn_manager(cluster);
}

int cluster_await_manager(struct cluster *cluster)
{
	return await_ready(&cluster->manager, cluster->uri, sizeof(cluster->uri));
}

int cluster_respawn_server(struct cluster *cluster, unsigned i)
{
	return start_server(cluster, i);
}

int cluster_await_server(struct cluster *cluster, unsigned i)
{
	char line[URI_MAX];

	return await_ready(&cluster->servers[i], line, sizeof(line));
}

void cluster_stop_server(struct cluster *cluster, unsigned i)
{
	if (cluster->servers[i].pid <= 0)
		return;
	kill(cluster->servers[i].pid, SIGTERM);
	reap_daemon(&cluster->servers[i]);
}

void cluster_set_scrub(struct cluster *cluster, const char *rate)
{
	cluster->scrub = rate;
}

void cluster_move_store(struct cluster *cluster, unsigned i, const char *path)
{
	cluster->servers[i].moved_store = path;
}

const char *cluster_server_folder(const struct cluster *cluster, unsigned i)
{
	return cluster->is_whole ? cluster->manager.folder : cluster->servers[i].folder;
}

int cluster_metrics(const struct cluster *cluster, unsigned i, char *out, size_t size)
{
	const struct daemon_process *process =
		i < CLUSTER_SERVERS_MAX ? &cluster->servers[i] : &cluster->manager;
	static const char said[] = "afard: metrics at http://";
	char path[128], line[512];
	int ret = -ENOENT;
	FILE *file;

	snprintf(path, sizeof(path), "%s/log", process->folder);
	file = fopen(path, "re");
	while (file && ret && fgets(line, sizeof(line), file)) {
		if (strncmp(line, said, sizeof(said) - 1) != 0)
			continue;
		snprintf(out, size, "%.*s", (int)strcspn(line + sizeof(said) - 1, "/\n"),
			 line + sizeof(said) - 1);
		ret = 0;
	}
	if (file)
		fclose(file);
	return ret ? bench_fail(ret, "%s: it does not say where the metrics are", path) : 0;
}

const char *cluster_uri(const struct cluster *cluster)
{
	return cluster->uri;
}

pid_t cluster_manager(const struct cluster *cluster)
{
	return cluster->manager.pid;
}

pid_t cluster_server(const struct cluster *cluster, unsigned i)
{
	return cluster->servers[i].pid;
}
