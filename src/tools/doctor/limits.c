/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of processes: of the daemons that run here, or, if there are none, of a daemon that this shell would start. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define DESCRIPTORS_FEW	 1024 /* a quarter is for files, three quarters for connections */
#define DESCRIPTORS_FAIR 16384

/* ---- Locked memory */

static bool has_cards(const struct doctor *doctor)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	bool is_found = false;
	DIR *folder;

	doctor_path(doctor, "/sys/class/infiniband", path);
	folder = opendir(path);
	while (folder && !is_found && (entry = readdir(folder)))
		is_found = entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return is_found;
}

static bool wants_verbs(const struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->nr_configs; i++) {
		if (!strcmp(doctor->configs[i].transport, "verbs") ||
		    strstr(doctor->configs[i].lanes, "verbs:"))
			return true;
	}
	return false;
}

static void check_locked(struct doctor *doctor, const char *who, uint64_t limit)
{
	static const char remedy[] =
		"set LimitMEMLOCK=infinity in its unit, or 'ulimit -l unlimited'";
	char text[SIZE_TEXT_MAX];

	size_text(limit, text);
	if (limit == UINT64_MAX)
		doctor_say(doctor, VERDICT_OK, "locked-memory", NULL, "%s: no limit", who);
	else if (wants_verbs(doctor))
		doctor_say(doctor, VERDICT_BAD, "locked-memory", remedy,
			   "%s: at most %s, and lanes of verbs pin all memory that they lend", who,
			   text);
	else if (has_cards(doctor))
		doctor_say(
			doctor, VERDICT_WARN, "locked-memory", remedy,
			"%s: at most %s, and with an RDMA device transfers over verbs pin memory",
			who, text);
	else
		doctor_say(doctor, VERDICT_OK, "locked-memory", NULL,
			   "%s: at most %s, which tcp and local do not need", who, text);
}

/* ---- Descriptors */

static void check_descriptors(struct doctor *doctor, const char *who, uint64_t limit)
{
	if (limit >= DESCRIPTORS_FAIR)
		doctor_say(doctor, VERDICT_OK, "descriptors", NULL, "%s: at least %d", who,
			   DESCRIPTORS_FAIR);
	else
		doctor_say(doctor, limit < DESCRIPTORS_FEW ? VERDICT_BAD : VERDICT_WARN,
			   "descriptors",
			   "set LimitNOFILE=524288 in its unit, or raise 'ulimit -Hn'",
			   "%s: at most %llu, so a server takes no more than %llu connections", who,
			   (unsigned long long)limit, (unsigned long long)limit / 4 * 3);
}

/* ---- Memory */

/* The number of kB in the line of /proc/meminfo that begins with `name`, in bytes; 0: there is none. */
static uint64_t memory_of(const char *meminfo, const char *name)
{
	const char *line = strstr(meminfo, name);

	return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

static void check_room(struct doctor *doctor, const struct doctor_config *config, uint64_t wanted)
{
	char meminfo[4096], wanted_text[SIZE_TEXT_MAX], there_text[SIZE_TEXT_MAX];
	uint64_t total, available;

	if (!doctor_read(doctor, "/proc/meminfo", meminfo, sizeof(meminfo)))
		return;
	total = memory_of(meminfo, "MemTotal:");
	available = memory_of(meminfo, "MemAvailable:");
	size_text(wanted, wanted_text);
	if (wanted > total)
		doctor_say(doctor, VERDICT_BAD, "memory", "lower 'memory'",
			   "%s lends %s, more than the machine's %s", config->path, wanted_text,
			   size_text(total, there_text));
	else if (wanted > available && doctor->nr_daemons == 0)
		doctor_say(doctor, VERDICT_WARN, "memory", "lower 'memory', or end what uses it",
			   "%s lends %s, and %s are available", config->path, wanted_text,
			   size_text(available, there_text));
	else
		doctor_say(doctor, VERDICT_OK, "memory", NULL, "%s lends %s of %s", config->path,
			   wanted_text, size_text(total, there_text));
}

static void check_memory(struct doctor *doctor, const struct doctor_daemon *process,
			 const struct doctor_config *config)
{
	char limit_text[SIZE_TEXT_MAX], wanted_text[SIZE_TEXT_MAX];
	uint64_t wanted;

	if (!config->is_server || size_parse(config->memory, &wanted) != 0)
		return; /* the default is half of what there is */
	if (wanted > process->group_bytes)
		doctor_say(doctor, VERDICT_BAD, "memory",
			   "raise MemoryMax of the unit, or lower 'memory'",
			   "%s lends %s, and its control group has at most %s: it would be killed",
			   config->path, size_text(wanted, wanted_text),
			   size_text(process->group_bytes, limit_text));
	else
		check_room(doctor, config, wanted);
}

static void check_process(struct doctor *doctor, const char *who,
			  const struct doctor_daemon *process)
{
	check_locked(doctor, who, process->memlock);
	check_descriptors(doctor, who, process->descriptors);
}

void doctor_limits(struct doctor *doctor)
{
	struct doctor_daemon own;
	char who[32];

	doctor_read_process(doctor, "self", &own);
	if (doctor->nr_daemons == 0)
		check_process(doctor, "this shell", &own);
	for (unsigned i = 0; i < doctor->nr_daemons; i++) {
		snprintf(who, sizeof(who), "afard %d", doctor->daemons[i].pid);
		check_process(doctor, who, &doctor->daemons[i]);
		/* The unit's limit counts, and any daemon here may be the server's. */
		if (doctor->daemons[i].group_bytes < own.group_bytes || i == 0)
			own.group_bytes = doctor->daemons[i].group_bytes;
	}
	for (unsigned i = 0; i < doctor->nr_configs; i++)
		check_memory(doctor, &own, &doctor->configs[i]);
}
