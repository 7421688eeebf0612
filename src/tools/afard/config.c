/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * afard's configuration. A setting is a row of one table: it is the flag --NAME and the key NAME of
 * one section of the file. It has one line of help, and one function that checks and keeps its
 * value. Called once, by main(), before any thread runs.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/error.h"
#include "base/uri.h"
#include "config_private.h"
#include "server/server.h"
#include "tools/cli/size.h"
#include "tools/cli/wrap.h"

#define MEMORY_MIN    ((uint64_t)2 << 20)
#define PROGRESS_MAX  64
#define SPIN_US_MAX   1000000
#define SLOW_MS	      1000
#define SLOW_MS_MAX   3600000
#define LEASE_MS_MIN  100
#define LEASE_MS_MAX  3600000
#define SCRUB_DEFAULT ((uint64_t)8 << 20)

__attribute__((format(printf, 2, 3))) static int refuse(char problem[PROBLEM_MAX],
							const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem, PROBLEM_MAX, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int keep_text(char *out, size_t size, const char *value, char problem[PROBLEM_MAX])
{
	size_t length = strlen(value);

	if (!length)
		return refuse(problem, "is empty; leave it out or give it a value");
	if (length >= size)
		return refuse(problem, "is too long; at most %zu bytes", size - 1);
	memcpy(out, value, length + 1);
	return 0;
}

static int keep_size(uint64_t *out, const char *value, char problem[PROBLEM_MAX])
{
	int ret = size_parse(value, out);

	if (ret == -ERANGE)
		return refuse(problem, "'%.64s' does not fit 64 bits; give a smaller size", value);
	if (ret)
		return refuse(problem, "'%.64s' is not a size; write for example 512M or 8G",
			      value);
	return 0;
}

static int keep_number(uint32_t *out, const char *value, uint32_t min, uint32_t max,
		       char problem[PROBLEM_MAX])
{
	uint64_t number;

	if (number_parse(value, max, &number) || number < min)
		return refuse(problem, "'%.64s' is not a number from %u to %u", value, min, max);
	*out = (uint32_t)number;
	return 0;
}

/* Checks and keeps HOST:PORT, where HOST may be in brackets. */
static int keep_address(char *out, size_t size, const char *value, char problem[PROBLEM_MAX])
{
	char text[CONFIG_TEXT_MAX + 16];
	const char *colon = strrchr(value, ':');
	struct uri uri;
	uint64_t port;

	/* Port 0 (any) is only for listening: a URI does not have it. */
	if (!colon || colon == value || strlen(value) >= size ||
	    number_parse(colon + 1, UINT16_MAX, &port))
		return refuse(problem, "'%.64s' is not HOST:PORT", value);
	snprintf(text, sizeof(text), "afar://%.*s:1", (int)(colon - value), value);
	if (strchr(value, '?') || strchr(value, '/') || uri_parse(text, &uri))
		return refuse(problem, "'%.64s' is not HOST:PORT", value);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

/* ---- The settings */

static int set_role(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	if (!strcmp(value, "manager"))
		config->role = ROLE_MANAGER;
	else if (!strcmp(value, "server"))
		config->role = ROLE_SERVER;
	else if (!strcmp(value, "all"))
		config->role = ROLE_ALL;
	else
		return refuse(problem, "'%.64s' is no role; use manager, server or all", value);
	return 0;
}

static int set_data(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_text(config->data, sizeof(config->data), value, problem);
}

static int set_key(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_text(config->key, sizeof(config->key), value, problem);
}

static int set_log(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	if (log_level_parse(value, &config->log_level))
		return refuse(problem, "'%.64s' is no level; use none, error, warn, info or debug",
			      value);
	return 0;
}

static int set_log_format(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	if (log_format_parse(value, &config->log_format))
		return refuse(problem, "'%.64s' is no format; use text or json", value);
	return 0;
}

static int set_slow(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_number(&config->slow_ms, value, 0, SLOW_MS_MAX, problem);
}

/* Keeps HOST:PORT, or a port of this machine alone. */
static int set_metrics(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	char text[CONFIG_TEXT_MAX];
	uint64_t port;

	if (number_parse(value, UINT16_MAX, &port) != 0)
		return keep_address(config->metrics, sizeof(config->metrics), value, problem);
	snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)port);
	return keep_address(config->metrics, sizeof(config->metrics), text, problem);
}

static int set_listen(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_address(config->listen, sizeof(config->listen), value, problem);
}

static int set_lease(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_number(&config->lease_ms, value, LEASE_MS_MIN, LEASE_MS_MAX, problem);
}

static int set_own_ends(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	config->gives_ends = strcmp(value, "yes") == 0;
	if (!config->gives_ends && strcmp(value, "no") != 0)
		return refuse(problem, "'%.64s' is neither yes nor no", value);
	return 0;
}

static int set_claim(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_number(&config->claim_ms, value, LEASE_MS_MIN, LEASE_MS_MAX, problem);
}

static int set_manager(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	char text[sizeof(config->manager)];
	struct uri uri;
	int length;

	length = snprintf(text, sizeof(text), "%s%s", strstr(value, "://") ? "" : "afar://", value);
	if (length < 0 || (size_t)length >= sizeof(text) || uri_parse(text, &uri))
		return refuse(problem, "'%.64s' is neither HOST:PORT nor afar://HOST:PORT", value);
	memcpy(config->manager, text, (size_t)length + 1);
	return 0;
}

static int set_name(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	for (const char *at = value; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return refuse(problem, "has control characters; use printable ones");
	}
	if (strlen(value) > 255)
		return refuse(problem, "is too long; at most 255 bytes");
	return keep_text(config->name, sizeof(config->name), value, problem);
}

static int set_memory(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	struct sysinfo machine;
	char text[SIZE_TEXT_MAX];
	uint64_t there;
	int ret;

	ret = keep_size(&config->memory_bytes, value, problem);
	if (ret)
		return ret;
	if (config->memory_bytes < MEMORY_MIN)
		return refuse(problem, "'%.64s' is too small; give at least 2M", value);
	if (sysinfo(&machine))
		return 0;
	there = ((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit;
	if (config->memory_bytes > there)
		return refuse(problem, "'%.64s' is more than this machine has; give less than %s",
			      value, size_text(there, text));
	return 0;
}

static int set_pool(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_size(&config->pool_bytes, value, problem);
}

static int set_control(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_address(config->control, sizeof(config->control), value, problem);
}

static bool is_transport(const char *name, size_t length)
{
	static const char *const transports[] = {"tcp", "verbs"};

	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (strlen(transports[i]) == length && !memcmp(transports[i], name, length))
			return true;
	}
	return false;
}

/* Keeps "local", at a place of its own choice, or "local:/PATH". */
static int keep_local_lane(struct config_lane *lane, const char *place, char problem[PROBLEM_MAX])
{
	if (*place && (place[0] != ':' || place[1] != '/'))
		return refuse(problem, "'local%.64s' is neither local nor local:/PATH", place);
	strcpy(lane->transport, "local");
	snprintf(lane->address, sizeof(lane->address), "unix:%s", *place ? place + 1 : "");
	return 0;
}

/* Keeps local[:/PATH] or [TRANSPORT:]HOST:PORT. */
static int keep_lane(struct config_lane *lane, const char *value, char problem[PROBLEM_MAX])
{
	const char *colon = strchr(value, ':');

	*lane = (struct config_lane){0};
	if (!strcmp(value, "local") || !strncmp(value, "local:", strlen("local:")))
		return keep_local_lane(lane, value + strlen("local"), problem);
	if (colon && is_transport(value, (size_t)(colon - value))) {
		memcpy(lane->transport, value, (size_t)(colon - value));
		value = colon + 1;
	}
	return keep_address(lane->address, sizeof(lane->address), value, problem);
}

/* Keeps lanes, with commas between them. */
static int set_data_listen(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	char text[CONFIG_TEXT_MAX], *rest = text, *lane;
	int ret = keep_text(text, sizeof(text), value, problem);

	config->nr_lanes = 0;
	while (!ret && (lane = strsep(&rest, ","))) {
		if (config->nr_lanes == CONFIG_LANES_MAX)
			return refuse(problem, "has more than %d addresses", CONFIG_LANES_MAX);
		ret = keep_lane(&config->lanes[config->nr_lanes++], lane, problem);
	}
	return ret;
}

static int set_transport(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	if (!is_transport(value, strlen(value)))
		return refuse(problem, "'%.64s' is no transport; use tcp or verbs", value);
	return keep_text(config->transport, sizeof(config->transport), value, problem);
}

static int set_progress(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_number(&config->nr_progress, value, 1, PROGRESS_MAX, problem);
}

static int set_spin(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	int ret = keep_number(&config->spin_us, value, 0, SPIN_US_MAX, problem);

	if (ret == 0 && config->spin_us == 0)
		config->spin_us = UINT32_MAX; /* because 0 is a server's default */
	return ret;
}

static int set_stage(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_size(&config->stage_bytes, value, problem);
}

/* Keeps one more device: a path, or a size of a file in the server's folder. */
static int set_flash(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	struct config_flash *flash = &config->flash[config->nr_flash];
	uint64_t bytes;

	if (config->nr_flash == CONFIG_FLASH_MAX)
		return refuse(problem, "is given more than %d times", CONFIG_FLASH_MAX);
	*flash = (struct config_flash){0};
	if (size_parse(value, &bytes) == 0) {
		if (bytes % 4096 || bytes > INT64_MAX || bytes == 0)
			return refuse(problem,
				      "'%.64s' is no multiple of 4096 that a file can have", value);
		flash->bytes = bytes;
	} else if (keep_text(flash->path, sizeof(flash->path), value, problem)) {
		return -EINVAL;
	}
	for (unsigned i = 0; i < config->nr_flash && flash->bytes != 0; i++) {
		if (config->flash[i].bytes != 0)
			return refuse(problem,
				      "'%.64s' is a second size; the data folder has one such file",
				      value);
	}
	config->nr_flash++;
	return 0;
}

/* A server has up to CONFIG_FLASH_MAX stores, also with those that come later, each with a port of its own. */
static int set_flash_port(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	uint32_t port = 0;
	int ret = keep_number(&port, value, 1, UINT16_MAX + 1 - CONFIG_FLASH_MAX, problem);

	config->flash_port = (uint16_t)port;
	return ret;
}

static int set_scrub(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_size(&config->scrub_bytes_per_s, value, problem);
}

static int set_cache(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	return keep_size(&config->cache_bytes, value, problem);
}

static int set_congestion(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	int ret = server_congestion_check(value, problem, PROBLEM_MAX);

	return ret ? ret
		   : keep_text(config->congestion, sizeof(config->congestion), value, problem);
}

static int set_ready_fd(struct config *config, const char *value, char problem[PROBLEM_MAX])
{
	uint32_t fd = 0;
	int ret;

	ret = keep_number(&fd, value, 0, INT_MAX, problem);
	if (ret)
		return ret;
	if (fcntl((int)fd, F_GETFD) < 0)
		return refuse(problem, "'%.64s' is not an open descriptor", value);
	config->ready_fd = (int)fd;
	return 0;
}

const struct setting config_settings[] = {
	{"role", "afard", "ROLE", "manager, server or all (default)", set_role},
	{"data", "afard", "DIR", "folder for what must outlive the daemon (default ./afar-data)",
	 set_data},
	{"key", "afard", "FILE",
	 "a manager's operators (default DIR/key); a server's own (DIR/server.key)", set_key},
	{"log", "afard", "LEVEL", "none, error, warn (default), info or debug", set_log},
	{"log-format", "afard", "FORMAT",
	 "of these lines: text (default), or json, an object in each line", set_log_format},
	{"slow", "afard", "MS",
	 "log what takes so long, of the manager and of stores (default 1000; 0: nothing)",
	 set_slow},
	{"metrics", "afard", "[HOST:]PORT",
	 "show metrics and a status page there (default: not; without HOST: to this machine alone)",
	 set_metrics},
	{"listen", "manager", "HOST:PORT",
	 "where the manager is reached (default 127.0.0.1:7411; port 0: any)", set_listen},
	{"lease-ms", "manager", "N",
	 "how long a session outlives its lost connection (default 10000)", set_lease},
	{"claim-ms", "manager", "N",
	 "how long a session that writes a version keeps others out unused (default 30000)",
	 set_claim},
	{"own-ends", "manager", "yes|no",
	 "let a session that alone has a file open not tell where it ends (default yes)",
	 set_own_ends},
	{"manager", "server", "HOST:PORT", "the manager to join; afar://… too (default 127.0.0.1)",
	 set_manager},
	{"name", "server", "NAME", "the server's name, for people (default: the machine's)",
	 set_name},
	{"memory", "server", "SIZE", "memory to lend at most (default: half of the machine's)",
	 set_memory},
	{"flash", "server", "PATH|SIZE",
	 "a file or block device with a flash layer, to lend, again for each; or the size of a "
	 "file that is made in the data folder",
	 set_flash},
	{"flash-port", "server", "N",
	 "clients reach the first store at this port, each further at the next (default: any)",
	 set_flash_port},
	{"scrub", "server", "SIZE",
	 "read so much of each flash device per second, to find bad blocks (default 8M; 0: not)",
	 set_scrub},
	{"cache", "server", "SIZE",
	 "of the memory, for pages of its flash that were read (default: none)", set_cache},
	{"pool", "server", "SIZE", "zeroed memory kept ready (default: all that came back)",
	 set_pool},
	{"control", "server", "HOST:PORT",
	 "where clients reach the server (default: as the manager is reached)", set_control},
	{"data-listen", "server", "LANES",
	 "where clients reach its memory, the best first: local or [TRANSPORT:]HOST:PORT, with "
	 "commas "
	 "(default: local and as the control)",
	 set_data_listen},
	{"transport", "server", "NAME",
	 "of lanes that name none: tcp (default) or verbs, at an RDMA device's address",
	 set_transport},
	{"progress", "server", "N", "threads that serve transfers (default 1)", set_progress},
	{"spin-us", "server", "N",
	 "how long they spin before they sleep (default 50; 0: not at all)", set_spin},
	{"stage", "server", "SIZE",
	 "buffers of each, to stage server-driven transfers through (default: none, direct)",
	 set_stage},
	{"congestion", "server", "NAME",
	 "congestion control of what it sends over tcp: auto (default), system, or a name",
	 set_congestion},
	{"ready-fd", NULL, "N", "write a line with the cluster's URI to descriptor N when ready",
	 set_ready_fd},
	{0},
};
#define NR_SETTINGS (sizeof(config_settings) / sizeof(config_settings[0]) - 1)

/* ---- The flags */

#define FLAG_COLUMNS 27

enum { FLAG_CONFIG = 1000, FLAG_VERSION, FLAG_HELP };

static void show_help(void)
{
	char flag[64];

	wrap_words("Usage: afard [--role manager|server|all] [FLAG…]", 0, 6);
	putchar('\n');
	wrap_words("Runs a part of an Afar cluster until SIGTERM or SIGINT.", 0, 0);
	putchar('\n');
	for (size_t i = 0; i < NR_SETTINGS; i++) {
		snprintf(flag, sizeof(flag), "--%s %s", config_settings[i].name,
			 config_settings[i].argument);
		wrap_entry(flag, FLAG_COLUMNS, config_settings[i].help);
	}
	wrap_entry("--config FILE", FLAG_COLUMNS, "the same settings in a file; flags come first");
	wrap_entry("--check FOLDER", FLAG_COLUMNS,
		   "instead: look whether the records of a manager that does not run are damaged");
	wrap_entry("--version", FLAG_COLUMNS, "the version");
	wrap_entry("--help", FLAG_COLUMNS, "this");
	putchar('\n');
	wrap_words("Sizes take K, M, G or T. In the file the settings are NAME = VALUE in the "
		   "sections [afard], [manager] and [server]; see afard(8).",
		   0, 0);
}

static void fill_options(struct option options[NR_SETTINGS + 4])
{
	size_t n = 0;

	for (; n < NR_SETTINGS; n++)
		options[n] =
			(struct option){config_settings[n].name, required_argument, NULL, (int)n};
	options[n++] = (struct option){"config", required_argument, NULL, FLAG_CONFIG};
	options[n++] = (struct option){"version", no_argument, NULL, FLAG_VERSION};
	options[n++] = (struct option){"help", no_argument, NULL, FLAG_HELP};
	options[n] = (struct option){0};
}

struct flags {
	const char *values[NR_SETTINGS]; /* the last of each */
	/* All of --flash, up to a NULL; one too many is refused later. */
	const char *flash[CONFIG_FLASH_MAX + 2];
	unsigned nr_flash;
	const char *file;
};

static void take_value(struct flags *flags, int setting, const char *value)
{
	flags->values[setting] = value;
	if (config_settings[setting].set == set_flash && flags->nr_flash <= CONFIG_FLASH_MAX)
		flags->flash[flags->nr_flash++] = value;
}

/* Takes the flags; nothing is applied yet. */
static int take_flags(int argc, char **argv, struct flags *flags)
{
	struct option options[NR_SETTINGS + 4];
	int flag;

	fill_options(options);
	opterr = 0;
	while ((flag = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (flag) {
		case FLAG_CONFIG:
			flags->file = optarg;
			break;
		case FLAG_VERSION:
			printf("afard %s\n", AFAR_PROGRAM_VERSION);
			return CONFIG_SHOWN;
		case FLAG_HELP:
			show_help();
			return CONFIG_SHOWN;
		case ':':
			return error_fail(-EINVAL, "%.64s: needs a value; see afard --help",
					  argv[optind - 1]);
		case '?':
			if (optopt >= ' ' && optopt < 0x7f)
				return error_fail(-EINVAL, "-%c: unknown flag; see afard --help",
						  optopt);
			return error_fail(-EINVAL, "%.64s: unknown flag; see afard --help",
					  argv[optind - 1]);
		default:
			take_value(flags, flag, optarg);
		}
	}
	if (optind < argc)
		return error_fail(-EINVAL, "'%.64s': unexpected argument; see afard --help",
				  argv[optind]);
	return CONFIG_RUN;
}

/* The devices that flags name replace those of the file. */
static int apply_flash(struct config *config, const struct flags *flags, char problem[PROBLEM_MAX])
{
	int ret = 0;

	config->nr_flash = 0;
	for (const char *const *value = flags->flash; *value && ret == 0; value++)
		ret = set_flash(config, *value, problem);
	return ret;
}

static int apply_flags(struct config *config, const struct flags *flags)
{
	char problem[PROBLEM_MAX];

	for (size_t i = 0; i < NR_SETTINGS; i++) {
		int ret = 0;

		if (config_settings[i].set == set_flash && flags->nr_flash != 0)
			ret = apply_flash(config, flags, problem);
		else if (flags->values[i])
			ret = config_settings[i].set(config, flags->values[i], problem);
		if (ret)
			return error_fail(-EINVAL, "--%s: %s", config_settings[i].name, problem);
	}
	return CONFIG_RUN;
}

int config_read(int argc, char **argv, struct config *out)
{
	struct flags flags = {0};
	int ret;

	*out = (struct config){
		.role = ROLE_ALL,
		.data = "afar-data",
		.scrub_bytes_per_s = SCRUB_DEFAULT,
		.gives_ends = true,
		.listen = "127.0.0.1:7411",
		.manager = "afar://127.0.0.1",
		.transport = "tcp",
		.log_level = LOG_LEVEL_WARN,
		.slow_ms = SLOW_MS,
		.ready_fd = -1,
	};
	ret = take_flags(argc, argv, &flags);
	if (ret != CONFIG_RUN)
		return ret;
	if (flags.file) {
		ret = config_read_file(flags.file, out);
		if (ret)
			return ret;
	}
	return apply_flags(out, &flags);
}
