/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon: a manager, a server, or both on one loop. It owns the data folder (locked while it
 * runs, so that no two daemons share one) and the keys in its files. It also owns DIR/cluster,
 * which tells `afar` on this machine where the cluster is. It starts what its configuration says,
 * announces itself, sleeps until a signal, and stops in reverse order. SIGHUP has a server read its
 * key anew.
 *
 * `afard --check FOLDER` looks at a manager's records instead.
 *
 * Exit status: 0 stopped by a signal, 1 could not start, 2 not understood.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "afard_check.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/key.h"
#include "base/slow.h"
#include "base/uri.h"
#include "config.h"
#include "manager/manager.h"
#include "manager/members/principals.h"
#include "metrics/metrics.h"
#include "notify.h"
#include "rpc/rpc.h"
#include "server/server.h"

#define NR_KEYS_MAX 256

/* A manager makes these keys at its first start: one to use the cluster, one to join it. */
#define OPERATOR_FILE	  "key"
#define OPERATOR_IDENTITY "admin"
#define SERVER_FILE	  "server.key"
#define SERVER_IDENTITY	  "server"

/* A server that gave up wakes main() with this signal. It is ignored by default, so one that comes
 * late does nothing. */
#define WAKE_SIGNAL SIGURG

struct daemon {
	struct config config;
	sigset_t stop_signals;
	int folder_fd; /* of config.data, with the lock */
	char folder[PATH_MAX];
	char manager_folder[PATH_MAX];
	char server_folder[PATH_MAX];
	char own_flash[PATH_MAX];     /* the store that the server keeps in its folder */
	char operator_file[PATH_MAX]; /* absolute; empty: this daemon has no manager */
	char join_file[PATH_MAX];     /* of a server without a manager: read anew while it runs */
	struct key operators[NR_KEYS_MAX];
	size_t nr_operators;
	struct key servers[NR_KEYS_MAX]; /* our own server joins with the first */
	size_t nr_servers;
	struct uri manager_uri; /* of the manager to join */
	char cluster_uri[CONFIG_TEXT_MAX + PATH_MAX];
	bool has_cluster_file;
	struct rpc_loop *loop;
	struct manager *manager;
	struct server *server;
	struct metrics *metrics; /* NULL: nobody asked for it */
};

/* ---- The data folder */

static int make_folder(const char *path)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_fail(-errno, "make the folder %s: %s; choose another with --data",
				  path, afar_strerror(errno));
	return 0;
}

static int name_inner(const struct daemon *daemon, const char *name, char out[PATH_MAX])
{
	int length = snprintf(out, PATH_MAX, "%s/%s", daemon->folder, name);

	if (length < 0 || length >= PATH_MAX)
		return error_fail(-ENAMETOOLONG,
				  "use the folder %s: its name is too long; choose another with "
				  "--data",
				  daemon->folder);
	return 0;
}

static int make_inner_folder(struct daemon *daemon, const char *name, char out[PATH_MAX])
{
	int ret = name_inner(daemon, name, out);

	return ret ? ret : make_folder(out);
}

/* Opens and locks the folder itself, so that no lock file is left, and the lock ends with the
 * process. */
static int open_folder(struct daemon *daemon)
{
	const char *path = daemon->config.data;
	int ret;

	ret = make_folder(path);
	if (ret)
		return ret;
	daemon->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (daemon->folder_fd < 0 || !realpath(path, daemon->folder))
		return error_fail(-errno, "use the folder %s: %s; choose another with --data", path,
				  afar_strerror(errno));
	if (strpbrk(daemon->folder, "\r\n"))
		return error_fail(-EINVAL,
				  "use the folder %s: its name has a line break; choose "
				  "another with --data",
				  path);
	if (flock(daemon->folder_fd, LOCK_EX | LOCK_NB))
		return error_fail(-EBUSY,
				  "use the folder %s: another afard runs in it; stop that one or "
				  "choose another folder with --data",
				  path);
	if (daemon->config.role & ROLE_MANAGER) {
		ret = make_inner_folder(daemon, "manager", daemon->manager_folder);
		if (ret)
			return ret;
	}
	if (daemon->config.role & ROLE_SERVER)
		return make_inner_folder(daemon, "server", daemon->server_folder);
	return 0;
}

/* ---- Keys */

static int load_principals(const char *path, struct key keys[NR_KEYS_MAX], size_t *nr_keys)
{
	int found = key_load_principals(path, keys, NR_KEYS_MAX);

	if (found < 0)
		return found;
	*nr_keys = (size_t)found;
	return 0;
}

/* Reads a file of the data folder, or makes it with one key if there is none. */
static int load_or_make_principals(const char *path, const char *identity,
				   struct key keys[NR_KEYS_MAX], size_t *nr_keys)
{
	int ret = key_load_or_make(path, identity, &keys[0]);

	return ret ? ret : load_principals(path, keys, nr_keys);
}

/* Loads the operators' keys: those that --key names, otherwise DIR/key. */
static int load_operators(struct daemon *daemon)
{
	const char *path = daemon->config.key;
	char own[PATH_MAX];
	int ret;

	if (*path) {
		ret = load_principals(path, daemon->operators, &daemon->nr_operators);
	} else {
		path = own;
		ret = name_inner(daemon, OPERATOR_FILE, own);
		if (!ret)
			ret = load_or_make_principals(own, OPERATOR_IDENTITY, daemon->operators,
						      &daemon->nr_operators);
	}
	if (ret)
		return ret;
	if (!realpath(path, daemon->operator_file))
		return error_fail(-errno, "find the key file %s: %s", path, afar_strerror(errno));
	return 0;
}

/* Loads the servers' keys: at a manager those of DIR/server.key. */
static int load_servers(struct daemon *daemon)
{
	char path[PATH_MAX];
	uint8_t secret[KEY_BYTES];
	struct key_list operators = {daemon->operators, daemon->nr_operators};
	int ret;

	ret = name_inner(daemon, SERVER_FILE, path);
	if (!ret)
		ret = load_or_make_principals(path, SERVER_IDENTITY, daemon->servers,
					      &daemon->nr_servers);
	for (size_t i = 0; i < daemon->nr_servers && !ret; i++) {
		if (key_list_find(&operators, daemon->servers[i].identity, secret))
			ret = error_fail(-EINVAL,
					 "key file '%s': '%s' is in '%s', too; a principal is a "
					 "server or a client, rename one",
					 path, daemon->servers[i].identity, daemon->operator_file);
	}
	explicit_bzero(secret, sizeof(secret));
	return ret;
}

/* Loads the keys that a server without a manager may join with: those of the file that --key names, otherwise
 * of DIR/server.key. */
static int load_join_keys(struct daemon *daemon)
{
	int ret = 0;

	if (daemon->config.key[0])
		snprintf(daemon->join_file, sizeof(daemon->join_file), "%s", daemon->config.key);
	else
		ret = name_inner(daemon, SERVER_FILE, daemon->join_file);
	if (ret)
		return ret;
	if (!daemon->config.key[0] && access(daemon->join_file, F_OK))
		return error_fail(-ENOENT,
				  "start a server in %s: it has no " SERVER_FILE
				  "; copy the manager's there, or name it with --key",
				  daemon->config.data);
	return load_principals(daemon->join_file, daemon->servers, &daemon->nr_servers);
}

static int load_keys(struct daemon *daemon)
{
	int ret;

	if (!(daemon->config.role & ROLE_MANAGER))
		return load_join_keys(daemon);
	ret = load_operators(daemon);
	return ret ? ret : load_servers(daemon);
}

/* ---- Where the cluster is */

/* Writes the HOST:PORT at which to reach a listener at `address`. A wildcard is reached on this
 * machine. */
static void reachable(const char *address, char *out, size_t size)
{
	if (!strncmp(address, "0.0.0.0:", 8))
		snprintf(out, size, "127.0.0.1:%s", address + 8);
	else if (!strncmp(address, "[::]:", 5))
		snprintf(out, size, "[::1]:%s", address + 5);
	else
		snprintf(out, size, "%s", address);
}

/* Finds the manager's address. Call it after our own manager, if there is one, has its port. */
static int find_manager(struct daemon *daemon)
{
	char address[CONFIG_TEXT_MAX];

	if (daemon->manager) {
		reachable(manager_address(daemon->manager), address, sizeof(address));
		snprintf(daemon->config.manager, sizeof(daemon->config.manager), "afar://%s",
			 address);
	}
	return uri_parse(daemon->config.manager, &daemon->manager_uri);
}

static int compose_cluster_uri(struct daemon *daemon)
{
	const struct uri *uri = &daemon->manager_uri;
	const char *key_file = daemon->manager ? daemon->operator_file : uri->key_file;
	bool is_ipv6 = strchr(uri->host, ':');
	int length;

	length = snprintf(daemon->cluster_uri, sizeof(daemon->cluster_uri), "afar://%s%s%s:%u%s%s",
			  is_ipv6 ? "[" : "", uri->host, is_ipv6 ? "]" : "", uri->port,
			  *key_file ? "?key=" : "", key_file);
	if (length < 0 || (size_t)length >= sizeof(daemon->cluster_uri))
		return error_fail(-ENAMETOOLONG,
				  "name the cluster: the path of %s is too long; "
				  "choose another folder with --data",
				  key_file);
	return 0;
}

/* ---- Starting */

static int start_manager(struct daemon *daemon)
{
	const struct manager_options options = {
		.address = daemon->config.listen,
		.folder = daemon->manager_folder,
		.operators = daemon->operators,
		.nr_operators = daemon->nr_operators,
		.servers = daemon->servers,
		.nr_servers = daemon->nr_servers,
		.lease_ms = daemon->config.lease_ms,
		.claim_ms = daemon->config.claim_ms,
		.gives_ends = daemon->config.gives_ends,
	};

	return manager_start(daemon->loop, &options, &daemon->manager);
}

/*
 * Returns where a server listens by default. If its manager is reached only on this machine, so is
 * the server. Otherwise it listens on all addresses, and finds the one to tell.
 */
static const char *default_address(const char *manager_host)
{
	if (!strncmp(manager_host, "127.", 4) || !strcmp(manager_host, "localhost"))
		return "127.0.0.1:0";
	if (!strcmp(manager_host, "::1"))
		return "[::1]:0";
	return strchr(manager_host, ':') ? "[::]:0" : "0.0.0.0:0";
}

static void server_gave_up(void *context)
{
	(void)context;
	kill(getpid(), WAKE_SIGNAL);
}

static bool is_same_file(const char *path, const char *other)
{
	struct stat stat_of_path, stat_of_other;

	if (stat(path, &stat_of_path) != 0 || stat(other, &stat_of_other) != 0)
		return strcmp(path, other) == 0;
	if (S_ISBLK(stat_of_path.st_mode) && S_ISBLK(stat_of_other.st_mode))
		return stat_of_path.st_rdev == stat_of_other.st_rdev;
	return stat_of_path.st_dev == stat_of_other.st_dev &&
	       stat_of_path.st_ino == stat_of_other.st_ino;
}

static int check_once(const struct server_store *stores, unsigned nr_stores)
{
	for (unsigned i = 0; i < nr_stores; i++) {
		for (unsigned j = 0; j < i; j++) {
			if (is_same_file(stores[i].path, stores[j].path))
				return error_fail(
					-EEXIST,
					"open the store %s: it is given twice, as %s too; "
					"leave one out",
					stores[i].path, stores[j].path);
		}
	}
	return 0;
}

/* Lists the devices of flash. The file in the server's folder is opened whenever it is there. */
static int list_stores(struct daemon *daemon, struct server_store stores[CONFIG_FLASH_MAX + 1],
		       unsigned *nr_stores)
{
	const struct config *config = &daemon->config;
	bool has_own = false;
	int length = snprintf(daemon->own_flash, sizeof(daemon->own_flash), "%s/flash",
			      daemon->server_folder);

	if (length < 0 || (size_t)length >= sizeof(daemon->own_flash))
		return error_fail(-ENAMETOOLONG,
				  "use the folder %s: its name is too long; choose another with "
				  "--data",
				  daemon->server_folder);
	*nr_stores = 0;
	for (unsigned i = 0; i < config->nr_flash; i++) {
		const struct config_flash *flash = &config->flash[i];

		has_own |= !flash->path[0] || is_same_file(flash->path, daemon->own_flash);
		stores[(*nr_stores)++] = (struct server_store){
			flash->path[0] ? flash->path : daemon->own_flash, flash->bytes};
	}
	if (!has_own && access(daemon->own_flash, F_OK) == 0)
		stores[(*nr_stores)++] = (struct server_store){daemon->own_flash, 0};
	return check_once(stores, *nr_stores);
}

static int start_server(struct daemon *daemon)
{
	const struct config *config = &daemon->config;
	struct server_store stores[CONFIG_FLASH_MAX + 1];
	unsigned nr_stores;
	int ret = list_stores(daemon, stores, &nr_stores);
	const char *address = default_address(daemon->manager_uri.host);
	struct server_lane lanes[CONFIG_LANES_MAX] = {{"local", "unix:"},
						      {config->transport, address}};
	struct server_options options = {
		.name = config->name[0] ? config->name : NULL,
		.manager_host = daemon->manager_uri.host,
		.manager_port = daemon->manager_uri.port,
		.key = &daemon->servers[0],
		.key_file = *daemon->join_file ? daemon->join_file : NULL,
		.control_address = config->control[0] ? config->control : address,
		.lanes = lanes,
		.nr_lanes = config->nr_lanes ? config->nr_lanes : 2,
		.folder = daemon->server_folder,
		.stores = stores,
		.stores_port = config->flash_port,
		.scrub_bytes_per_s = config->scrub_bytes_per_s,
		.cache_bytes = config->cache_bytes,
		.capacity_bytes = config->memory_bytes,
		.pool_bytes = config->pool_bytes,
		.nr_progress = config->nr_progress,
		.spin_us = config->spin_us,
		.stage_bytes = config->stage_bytes,
		.gave_up = server_gave_up,
	};

	if (ret)
		return ret;
	options.nr_stores = nr_stores;
	for (unsigned i = 0; i < config->nr_lanes; i++) {
		const struct config_lane *lane = &config->lanes[i];

		lanes[i].transport = lane->transport[0] ? lane->transport : config->transport;
		lanes[i].address = lane->address;
	}
	for (unsigned i = 0; i < options.nr_lanes && config->congestion[0]; i++)
		lanes[i].congestion = config->congestion;
	return server_start(daemon->loop, &options, &daemon->server);
}

static int start_metrics(struct daemon *daemon)
{
	const struct metrics_options options = {
		.address = daemon->config.metrics,
		.manager = daemon->manager,
		.server = daemon->server,
	};

	return metrics_start(&options, &daemon->metrics);
}

static int start(struct daemon *daemon)
{
	int ret;

	ret = uri_parse(daemon->config.manager, &daemon->manager_uri);
	if (!ret)
		ret = open_folder(daemon);
	if (!ret)
		ret = load_keys(daemon);
	if (!ret)
		ret = rpc_loop_start("afard", &daemon->loop);
	if (!ret && daemon->config.role & ROLE_MANAGER)
		ret = start_manager(daemon);
	if (!ret)
		ret = find_manager(daemon);
	if (!ret)
		ret = compose_cluster_uri(daemon);
	if (!ret && daemon->config.role & ROLE_SERVER)
		ret = start_server(daemon);
	if (!ret && daemon->config.metrics[0])
		ret = start_metrics(daemon);
	return ret;
}

/* Does what a signal asks for. Returns whether the daemon shall end. */
static bool take_signal(struct daemon *daemon, int signal_number)
{
	if (signal_number == SIGHUP && daemon->server)
		server_renew_key(daemon->server);
	if (signal_number == SIGHUP)
		return false;
	if (signal_number == WAKE_SIGNAL)
		return daemon->server && server_failure(daemon->server);
	return signal_number > 0;
}

static void await_end(struct daemon *daemon)
{
	int signal_number;

	do {
		signal_number = sigwaitinfo(&daemon->stop_signals, NULL);
	} while (!take_signal(daemon, signal_number));
}

/* Returns whether nothing is left to wait for. A manager is needed by the operator who decides about its older
 * records. */
static bool is_ready(const struct daemon *daemon)
{
	return !daemon->server || server_is_joined(daemon->server) ||
	       (daemon->manager && server_is_kept_out(daemon->server));
}

/* Waits until the server is in the cluster, for as long as that takes. False: a signal came
 * first. */
static bool await_joined(struct daemon *daemon)
{
	struct timespec pause = {.tv_nsec = 5000000};

	if (!is_ready(daemon))
		notify("STATUS=waiting until the manager takes the server in");
	while (!is_ready(daemon)) {
		if (take_signal(daemon, sigtimedwait(&daemon->stop_signals, NULL, &pause)))
			return false;
		if (pause.tv_nsec < 160000000)
			pause.tv_nsec *= 2;
	}
	return true;
}

/* Writes DIR/cluster aside and renames it, so that no program reads half of it. */
static int write_cluster_file(struct daemon *daemon)
{
	const char *aside = "cluster.new";
	int fd, ret = 0;

	fd = openat(daemon->folder_fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd < 0 || dprintf(fd, "%s\n", daemon->cluster_uri) < 0)
		ret = -errno;
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	if (!ret && renameat(daemon->folder_fd, aside, daemon->folder_fd, "cluster"))
		ret = -errno;
	if (ret) {
		unlinkat(daemon->folder_fd, aside, 0);
		return error_fail(ret, "write %s/cluster: %s", daemon->folder, afar_strerror(-ret));
	}
	daemon->has_cluster_file = true;
	return 0;
}

static int announce(struct daemon *daemon)
{
	int ret;

	if (daemon->manager) {
		ret = write_cluster_file(daemon);
		if (ret)
			return ret;
	}
	printf("afard: ready on %s\n", daemon->cluster_uri);
	if (daemon->metrics)
		printf("afard: metrics at http://%s/%s\n", metrics_address(daemon->metrics),
		       metrics_is_local(daemon->metrics) ? "" : ", for all who reach that address");
	fflush(stdout);
	if (daemon->config.ready_fd >= 0) {
		dprintf(daemon->config.ready_fd, "%s\n", daemon->cluster_uri);
		if (daemon->config.ready_fd > STDERR_FILENO)
			close(daemon->config.ready_fd);
	}
	notify("READY=1\nSTATUS=ready");
	return 0;
}

/* ---- Stopping */

static void stop(struct daemon *daemon)
{
	if (daemon->has_cluster_file)
		unlinkat(daemon->folder_fd, "cluster", 0);
	metrics_stop(daemon->metrics);
	if (daemon->server)
		server_stop(daemon->server);
	if (daemon->manager)
		manager_stop(daemon->manager);
	if (daemon->loop)
		rpc_loop_stop(daemon->loop);
	if (daemon->folder_fd >= 0)
		close(daemon->folder_fd);
	explicit_bzero(daemon->operators, sizeof(daemon->operators));
	explicit_bzero(daemon->servers, sizeof(daemon->servers));
}

/*
 * Blocks the signals, and the threads inherit that. Only main() takes these signals, by waiting for
 * them. An interrupt that was ignored from the start, by a shell's background job, stays ignored. SIGHUP never ends a
 * daemon.
 */
static void block_stop_signals(struct daemon *daemon)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
	struct sigaction action;

	sigemptyset(&daemon->stop_signals);
	sigaddset(&daemon->stop_signals, WAKE_SIGNAL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &action);
		if (numbers[i] != SIGINT || action.sa_handler != SIG_IGN)
			sigaddset(&daemon->stop_signals, numbers[i]);
	}
	sigprocmask(SIG_BLOCK, &daemon->stop_signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* The line is written even where the log has none. */
static int complain(enum log_level level, int status)
{
	if (log_is_plain()) {
		fprintf(stderr, "afard: %s\n", error_last_line());
		return status;
	}
	log_set_level(level == LOG_LEVEL_NONE ? LOG_LEVEL_ERROR : level);
	log_error("%s", error_last_line());
	return status;
}

int main(int argc, char **argv)
{
	static struct daemon daemon = {.folder_fd = -1};
	int ret;

	/* A core would have all keys in it, and the memory that is lent. */
	prctl(PR_SET_DUMPABLE, 0);
	/* libfabric's verbs cache would keep closed keys alive. Set this before libfabric
	 * starts. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	if (argc == 3 && strcmp(argv[1], "--check") == 0)
		return check_folder(argv[2]);
	block_stop_signals(&daemon);
	ret = config_read(argc, argv, &daemon.config);
	if (ret < 0)
		return complain(daemon.config.log_level, 2);
	if (ret == CONFIG_SHOWN)
		return 0;
	log_set_level(daemon.config.log_level);
	log_set_format(daemon.config.log_format);
	atomic_store(&slow_threshold_ns, (uint64_t)daemon.config.slow_ms * 1000000U);
	epoch_prepare();

	ret = start(&daemon);
	if (!ret && await_joined(&daemon)) {
		ret = announce(&daemon);
		if (!ret)
			await_end(&daemon);
	}
	if (!ret && daemon.server)
		ret = server_failure(daemon.server);
	if (ret)
		complain(daemon.config.log_level, 1);
	/* From here on a second signal ends the process at once, but for SIGHUP. */
	signal(SIGHUP, SIG_IGN);
	notify("STOPPING=1\nSTATUS=stopping");
	sigprocmask(SIG_UNBLOCK, &daemon.stop_signals, NULL);
	stop(&daemon);
	return ret ? 1 : 0;
}
