/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the kernel's, below the root that tests choose. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

void doctor_path(const struct doctor *doctor, const char *name, char out[PATH_MAX])
{
	const size_t length = strlen(doctor->root);
	const bool is_below = length > 0 && strncmp(name, doctor->root, length) == 0;

	snprintf(out, PATH_MAX, "%s%s", is_below ? "" : doctor->root, name);
}

bool doctor_read(const struct doctor *doctor, const char *name, char *out, size_t size)
{
	char path[PATH_MAX];
	ssize_t taken = 1;
	size_t length = 0;
	int fd;

	*out = '\0';
	doctor_path(doctor, name, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	while (length + 1 < size && (taken = read(fd, out + length, size - 1 - length)) > 0)
		length += (size_t)taken;
	close(fd);
	while (length > 0 && out[length - 1] == '\n')
		length--;
	out[length] = '\0';
	return taken >= 0;
}

bool doctor_number(const struct doctor *doctor, const char *name, uint64_t *out)
{
	char text[64];

	return doctor_read(doctor, name, text, sizeof(text)) &&
	       number_parse(text, UINT64_MAX, out) == 0;
}

bool doctor_exists(const struct doctor *doctor, const char *name)
{
	char path[PATH_MAX];

	doctor_path(doctor, name, path);
	return access(path, F_OK) == 0;
}

bool doctor_has_word(const char *text, const char *word)
{
	const size_t length = strlen(word);

	for (; *text; text += strcspn(text, " \t\n")) {
		text += strspn(text, " \t\n");
		if (strncmp(text, word, length) == 0 && strcspn(text, " \t\n") == length)
			return true;
	}
	return false;
}

/* ---- Processes */

/* The hard limit in the line that begins with `name`. */
static uint64_t limit_of(const char *limits, const char *name)
{
	const char *line = strstr(limits, name);
	char hard[32];
	uint64_t value;

	if (!line || sscanf(line + strlen(name), "%*s %31s", hard) != 1 ||
	    number_parse(hard, UINT64_MAX, &value) != 0)
		return UINT64_MAX;
	return value;
}

/* Returns the least limit of memory of a control group and those around it. `group` is cut meanwhile. */
static uint64_t limit_of_group(const struct doctor *doctor, char *group)
{
	uint64_t least = UINT64_MAX, limit;
	char name[PATH_MAX];

	for (;;) {
		snprintf(name, sizeof(name), "/sys/fs/cgroup%s/memory.max", group);
		if (doctor_number(doctor, name, &limit) && limit < least)
			least = limit;
		if (!*group)
			return least;
		*strrchr(group, '/') = '\0';
	}
}

/* The second version has one line for all: "0::/system.slice/afard.service". */
static uint64_t group_limit(const struct doctor *doctor, const char *process)
{
	char name[64], text[4096], *line;

	snprintf(name, sizeof(name), "/proc/%s/cgroup", process);
	if (!doctor_read(doctor, name, text, sizeof(text)))
		return UINT64_MAX;
	line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	if (!line)
		return UINT64_MAX;
	line = strchr(line, '/');
	line[strcspn(line, "\n")] = '\0';
	if (line[1] == '\0')
		*line = '\0';
	return limit_of_group(doctor, line);
}

void doctor_read_process(const struct doctor *doctor, const char *process,
			 struct doctor_daemon *out)
{
	char name[64], limits[4096];

	snprintf(name, sizeof(name), "/proc/%s/limits", process);
	doctor_read(doctor, name, limits, sizeof(limits));
	*out = (struct doctor_daemon){
		.pid = atoi(process),
		.memlock = limit_of(limits, "Max locked memory"),
		.descriptors = limit_of(limits, "Max open files"),
		.group_bytes = group_limit(doctor, process),
	};
}

static bool is_daemon(const struct doctor *doctor, const char *process)
{
	char name[64], command[32];

	if (!isdigit((unsigned char)*process) || strlen(process) > 10)
		return false;
	snprintf(name, sizeof(name), "/proc/%s/comm", process);
	return doctor_read(doctor, name, command, sizeof(command)) && !strcmp(command, "afard");
}

void doctor_find_daemons(struct doctor *doctor)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *folder;

	doctor_path(doctor, "/proc", path);
	folder = opendir(path);
	while (folder && doctor->nr_daemons < DOCTOR_DAEMONS_MAX && (entry = readdir(folder))) {
		if (is_daemon(doctor, entry->d_name))
			doctor_read_process(doctor, entry->d_name,
					    &doctor->daemons[doctor->nr_daemons++]);
	}
	if (folder)
		closedir(folder);
}
