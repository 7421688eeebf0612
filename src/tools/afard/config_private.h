/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings, for the two that apply it: config.c takes flags, config_file.c a file. */
#ifndef TOOLS_CONFIG_PRIVATE_H
#define TOOLS_CONFIG_PRIVATE_H

#include "config.h"

#define PROBLEM_MAX 256

/* Checks `value` and keeps it. On -EINVAL `problem` says what is wrong and what to write
 * instead. */
typedef int set_function(struct config *config, const char *value, char problem[PROBLEM_MAX]);

struct setting {
	const char *name;
	const char *section; /* of the file; NULL: a flag only */
	const char *argument;
	const char *help;
	set_function *set;
};

/* Ends with a NULL name. */
extern const struct setting config_settings[];

/* Applies a file's settings. -EINVAL: with a sentence that begins with FILE:LINE. */
int config_read_file(const char *path, struct config *config);

#endif
