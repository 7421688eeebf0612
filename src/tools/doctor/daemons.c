/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what this machine's daemons are configured to use: their keys and folders, ports, and devices. */
#include <errno.h>
#include <glob.h>
#include <grp.h>
#include <ini.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

#define CONFIGS "/etc/afar/*.ini"

/* ---- Configurations */

/* Keeps what checks ask for. afard itself says what is wrong with the rest. */
static int take_value(void *user, const char *section, const char *name, const char *value)
{
	struct doctor_config *config = user;
	const struct {
		const char *section, *name;
		char *out;
	} texts[] = {
		{"afard", "data", config->data},
		{"afard", "key", config->key},
		{"manager", "listen", config->listen},
		{"server", "control", config->control},
		{"server", "data-listen", config->lanes},
		{"server", "transport", config->transport},
		{"server", "memory", config->memory},
		{"server", "flash-port", config->flash_port},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!strcmp(section, texts[i].section) && !strcmp(name, texts[i].name))
			snprintf(texts[i].out, DOCTOR_VALUE_MAX, "%s", value);
	}
	if (!strcmp(section, "afard") && !strcmp(name, "role")) {
		config->is_manager = strcmp(value, "server") != 0;
		config->is_server = strcmp(value, "manager") != 0;
	}
	if (!strcmp(section, "server") && !strcmp(name, "flash") &&
	    config->nr_flash < DOCTOR_FLASH_MAX)
		snprintf(config->flash[config->nr_flash++], DOCTOR_VALUE_MAX, "%s", value);
	return 1;
}

bool doctor_take_config(struct doctor *doctor, const char *path)
{
	struct doctor_config *config = &doctor->configs[doctor->nr_configs];
	int ret;

	if (doctor->nr_configs == DOCTOR_CONFIGS_MAX)
		return true;
	*config = (struct doctor_config){.is_manager = true, .is_server = true};
	snprintf(config->path, sizeof(config->path), "%s", path);
	ret = ini_parse(path, take_value, config);
	if (ret == 0) {
		doctor->nr_configs++;
		return true;
	}
	if (ret > 0)
		doctor_say(doctor, VERDICT_BAD, "configuration", "see afard.ini(5)",
			   "%s: line %d is not understood", path, ret);
	else
		doctor_say(doctor, VERDICT_BAD, "configuration", "check its name and its mode",
			   "%s cannot be read", path);
	return false;
}

void doctor_take_configs(struct doctor *doctor)
{
	char pattern[PATH_MAX];
	glob_t found = {0};

	doctor_path(doctor, CONFIGS, pattern);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			doctor_take_config(doctor, found.gl_pathv[i]);
	}
	globfree(&found);
}

/* ---- Keys and folders */

/* Says what is wrong with a file of keys that is there. `owner`: who has to read it; -1: anybody. */
static void check_key(struct doctor *doctor, const char *path, const struct stat *found,
		      uid_t owner)
{
	if (!S_ISREG(found->st_mode))
		doctor_say(doctor, VERDICT_BAD, "keys", "put a key file there", "%s is no file",
			   path);
	else if (found->st_mode & 077)
		doctor_say(doctor, VERDICT_BAD, "keys",
			   "chmod 600 it, and make new keys if others "
			   "may have read them",
			   "%s has mode %04o, so others can reach its secrets", path,
			   (unsigned)found->st_mode & 07777);
	else if (owner != (uid_t)-1 && found->st_uid != owner && owner != 0)
		doctor_say(
			doctor, VERDICT_BAD, "keys", "chown it to afard's user",
			"%s belongs to user %u, and afard, which runs as user %u, cannot read it",
			path, (unsigned)found->st_uid, (unsigned)owner);
	else
		doctor_say(doctor, VERDICT_OK, "keys", NULL, "%s is its owner's alone", path);
}

/* `is_needed`: that it is not there is wrong. */
static void look_at_key(struct doctor *doctor, const char *name, uid_t owner, bool is_needed)
{
	char path[PATH_MAX];
	struct stat found;

	doctor_path(doctor, name, path);
	if (stat(path, &found) == 0)
		check_key(doctor, path, &found, owner);
	else if (errno == EACCES)
		doctor_say(doctor, VERDICT_WARN, "keys", "run afar doctor as root",
			   "%s cannot be looked at by this user", path);
	else if (is_needed)
		doctor_say(doctor, VERDICT_BAD, "keys",
			   "copy it there with mode 600, or run 'afar join' with a new word",
			   "%s does not exist", path);
}

static void check_folder(struct doctor *doctor, const char *path, const struct stat *found)
{
	if (found->st_mode & 07)
		doctor_say(doctor, VERDICT_BAD, "folder", "chmod 700 it",
			   "%s has mode %04o, so others can look into the daemon's folder", path,
			   (unsigned)found->st_mode & 07777);
	else
		doctor_say(doctor, VERDICT_OK, "folder", NULL, "%s", path);
}

/* Returns who runs the daemon: the owner of its folder; -1: it is not made yet. */
static uid_t look_at_folder(struct doctor *doctor, const struct doctor_config *config)
{
	char path[PATH_MAX];
	struct stat found;

	if (!*config->data)
		return (uid_t)-1;
	doctor_path(doctor, config->data, path);
	if (stat(path, &found) != 0)
		return (uid_t)-1;
	check_folder(doctor, path, &found);
	return found.st_uid;
}

static void check_keys(struct doctor *doctor, const struct doctor_config *config, uid_t owner)
{
	char name[DOCTOR_VALUE_MAX + 16];

	if (*config->key)
		look_at_key(doctor, config->key, owner, true);
	if (!*config->data)
		return;
	snprintf(name, sizeof(name), "%s/key", config->data);
	if (config->is_manager && !*config->key)
		look_at_key(doctor, name, owner, false); /* its first start makes it */
	snprintf(name, sizeof(name), "%s/server.key", config->data);
	if (config->is_manager || !*config->key)
		look_at_key(doctor, name, owner, !config->is_manager);
}

/* ---- Ports */

/* Returns whether something of this machine listens on the port, at any address. */
static bool is_listened(const struct doctor *doctor, const char *table, unsigned port)
{
	char path[PATH_MAX], line[512];
	bool is_found = false;
	unsigned local, state;
	FILE *file;

	doctor_path(doctor, table, path);
	file = fopen(path, "re");
	while (file && !is_found && fgets(line, sizeof(line), file))
		is_found = sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local,
				  &state) == 2 &&
			   local == port && state == 0x0a; /* TCP_LISTEN */
	if (file)
		fclose(file);
	return is_found;
}

/* Returns whether the kernel may give the port to a connection that leaves. */
static bool may_be_taken(const struct doctor *doctor, unsigned port)
{
	char range[64], reserved[4096], *rest = reserved;
	unsigned first, last;

	if (!doctor_read(doctor, "/proc/sys/net/ipv4/ip_local_port_range", range, sizeof(range)) ||
	    sscanf(range, "%u %u", &first, &last) != 2 || port < first || port > last)
		return false;
	doctor_read(doctor, "/proc/sys/net/ipv4/ip_local_reserved_ports", reserved,
		    sizeof(reserved));
	for (const char *part; (part = strsep(&rest, ",")) && *part;) {
		const int nr = sscanf(part, "%u-%u", &first, &last);

		if (nr >= 1 && port >= first && port <= (nr == 2 ? last : first))
			return false;
	}
	return true;
}

static void check_port(struct doctor *doctor, const char *what, unsigned port)
{
	const bool is_taken = is_listened(doctor, "/proc/net/tcp", port) ||
			      is_listened(doctor, "/proc/net/tcp6", port);

	if (is_taken && doctor->nr_daemons == 0)
		doctor_say(doctor, VERDICT_BAD, "ports",
			   "end that program ('ss -ltnp' shows it), or choose another port",
			   "%s %u: another program has it, because no afard runs here", what, port);
	else if (may_be_taken(doctor, port))
		doctor_say(doctor, VERDICT_WARN, "ports",
			   "add it to net.ipv4.ip_local_reserved_ports, or choose one outside of "
			   "ip_local_port_range",
			   "%s %u: a connection may take it before afard starts", what, port);
	else
		doctor_say(doctor, VERDICT_OK, "ports", NULL, "%s %u: %s", what, port,
			   is_taken ? "afard listens" : "free");
}

/* Checks the port at the end of HOST:PORT; any port needs no check. */
static void check_address(struct doctor *doctor, const char *what, const char *address)
{
	const char *colon = strrchr(address, ':');
	uint64_t port;

	if (colon && number_parse(colon + 1, UINT16_MAX, &port) == 0 && port != 0)
		check_port(doctor, what, (unsigned)port);
}

static void check_ports(struct doctor *doctor, const struct doctor_config *config)
{
	char lanes[DOCTOR_VALUE_MAX], *rest = lanes;

	if (config->is_manager)
		check_address(doctor, "manager", *config->listen ? config->listen : ":7411");
	if (!config->is_server)
		return;
	check_address(doctor, "control", config->control);
	memcpy(lanes, config->lanes, sizeof(lanes));
	for (const char *lane; (lane = strsep(&rest, ","));) {
		if (strncmp(lane, "local", strlen("local")) != 0)
			check_address(doctor, "lane", lane);
	}
	if (*config->flash_port) {
		snprintf(lanes, sizeof(lanes), ":%.100s", config->flash_port);
		check_address(doctor, "store", lanes);
	}
}

/* ---- Devices */

static bool is_member(uid_t user, gid_t wanted)
{
	const struct passwd *entry = getpwuid(user);
	gid_t groups[128];
	int nr = sizeof(groups) / sizeof(groups[0]);

	if (!entry || getgrouplist(entry->pw_name, entry->pw_gid, groups, &nr) < 0)
		return false;
	for (int i = 0; i < nr; i++) {
		if (groups[i] == wanted)
			return true;
	}
	return false;
}

/* Returns whether the user may read and write it, as its mode says. */
static bool may_write(uid_t user, const struct stat *found)
{
	if (user == 0 || user == (uid_t)-1)
		return true;
	if (found->st_uid == user)
		return (found->st_mode & 0600) == 0600;
	if (is_member(user, found->st_gid))
		return (found->st_mode & 0060) == 0060;
	return (found->st_mode & 0006) == 0006;
}

static void check_device(struct doctor *doctor, const char *name, uid_t user)
{
	char path[PATH_MAX];
	struct stat found;

	doctor_path(doctor, name, path);
	if (stat(path, &found) != 0)
		doctor_say(doctor, VERDICT_BAD, "devices",
			   "name one that is there, by /dev/disk/by-id where names change",
			   "%s: %s", path, afar_strerror(-errno));
	else if (!S_ISBLK(found.st_mode) && !S_ISREG(found.st_mode))
		doctor_say(doctor, VERDICT_BAD, "devices", "name one of these",
			   "%s is neither a block device nor a file", path);
	else if (!may_write(user, &found))
		doctor_say(doctor, VERDICT_BAD, "devices",
			   "give it to that user by a udev rule, or the user to its group",
			   "%s (mode %04o) cannot be written by afard, which runs as user %u", path,
			   (unsigned)found.st_mode & 07777, (unsigned)user);
	else
		doctor_say(doctor, VERDICT_OK, "devices", NULL, "%s can be opened", path);
}

void doctor_daemons(struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->nr_configs; i++) {
		const struct doctor_config *config = &doctor->configs[i];
		const uid_t user = look_at_folder(doctor, config);

		check_keys(doctor, config, user);
		check_ports(doctor, config);
		for (unsigned j = 0; j < config->nr_flash; j++) {
			if (config->flash[j][0] == '/') /* else a size */
				check_device(doctor, config->flash[j], user);
		}
	}
	if (doctor->nr_configs == 0)
		doctor_say(doctor, VERDICT_OK, "daemons", NULL,
			   "none are configured here: there is no " CONFIGS);
}
