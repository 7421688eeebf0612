/* SPDX-License-Identifier: BSD-3-Clause */
/* afard's configuration file. Called by config.c, before any thread runs. */
#include <errno.h>
#include <ini.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config_private.h"

static const char *const sections[] = {"afard", "manager", "server"};

struct file_reading {
	const char *path;
	struct config *config;
	FILE *file;
	unsigned line; /* the last one read */
	int fault;     /* the first fault's code */
};

static bool is_section(const char *name)
{
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (!strcmp(sections[i], name))
			return true;
	}
	return false;
}

static const struct setting *find_setting(const char *section, const char *name)
{
	for (const struct setting *setting = config_settings; setting->name; setting++) {
		if (setting->section && !strcmp(setting->section, section) &&
		    !strcmp(setting->name, name))
			return setting;
	}
	return NULL;
}

/* Finds the section that has a setting of this name, to help a user who put it into the wrong
 * one. */
static const char *section_of(const char *name)
{
	for (const struct setting *setting = config_settings; setting->name; setting++) {
		if (setting->section && !strcmp(setting->name, name))
			return setting->section;
	}
	return NULL;
}

static int apply_line(struct file_reading *reading, const char *section, const char *name,
		      const char *value)
{
	const struct setting *setting = find_setting(section, name);
	char problem[PROBLEM_MAX];
	const char *home;

	if (!*section)
		return error_fail(
			-EINVAL,
			"%s:%u: '%.64s' is in no section; put it below [afard], [manager] or "
			"[server]",
			reading->path, reading->line, name);
	if (!is_section(section))
		return error_fail(
			-EINVAL,
			"%s:%u: unknown section [%.64s]; use [afard], [manager] or [server]",
			reading->path, reading->line, section);
	if (!setting) {
		home = section_of(name);
		if (home)
			return error_fail(-EINVAL,
					  "%s:%u: '%.64s' does not belong here; put it "
					  "below [%s]",
					  reading->path, reading->line, name, home);
		return error_fail(-EINVAL,
				  "%s:%u: unknown key '%.64s' in [%s]; afard --help lists them",
				  reading->path, reading->line, name, section);
	}
	if (setting->set(reading->config, value, problem))
		return error_fail(-EINVAL, "%s:%u: %s %s", reading->path, reading->line, name,
				  problem);
	return 0;
}

/* Called by inih for each NAME = VALUE. It goes on after a fault: only the first one counts. */
static int take_line(void *user, const char *section, const char *name, const char *value)
{
	struct file_reading *reading = user;

	if (!reading->fault)
		reading->fault = apply_line(reading, section, name, value);
	return 1;
}

/* Gives inih its lines, and so knows their numbers; a line that inih would cut is a fault. */
static char *next_line(char *line, int size, void *stream)
{
	struct file_reading *reading = stream;
	int c = 0, length = 0;

	if (reading->fault)
		return NULL;
	reading->line++;
	while (length < size - 1 && (c = fgetc(reading->file)) != EOF && c != '\n')
		line[length++] = (char)c;
	line[length] = 0;
	if (length == size - 1 && c != '\n')
		reading->fault =
			error_fail(-EINVAL, "%s:%u: the line is too long; at most %d bytes",
				   reading->path, reading->line, size - 2);
	else if (strlen(line) != (size_t)length)
		reading->fault =
			error_fail(-EINVAL, "%s:%u: not text", reading->path, reading->line);
	if (reading->fault || (c == EOF && !length))
		return NULL;
	return line;
}

int config_read_file(const char *path, struct config *config)
{
	struct file_reading reading = {.path = path, .config = config};
	int malformed;

	reading.file = fopen(path, "re");
	if (!reading.file)
		return error_fail(-EINVAL, "read the configuration %s: %s", path,
				  afar_strerror(errno));
	ini_allow_multiline = false;
	malformed = ini_parse_stream(next_line, &reading, take_line, &reading);
	if (!reading.fault && ferror(reading.file))
		reading.fault = error_fail(-EINVAL,
					   "read the configuration %s: it cannot be read; "
					   "name a file",
					   path);
	fclose(reading.file);
	if (reading.fault)
		return reading.fault;
	if (malformed)
		return error_fail(-EINVAL, "%s:%d: neither [SECTION] nor KEY = VALUE", path,
				  malformed);
	return 0;
}
