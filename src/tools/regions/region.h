/* SPDX-License-Identifier: BSD-3-Clause */
/* Naming a region on the command line, for the commands of `afar region`. */
#ifndef TOOLS_REGION_H
#define TOOLS_REGION_H

#include "tools/cli/cli.h"

/* A name of the form NS:NAME, or NS:@0xADDRESS for any region, also one without a name. */
struct region_name {
	const char *text; /* as it was typed */
	char ns[AFAR_NAME_MAX + 1];
	const char *name; /* NULL: by address */
	uint64_t address;
};

/* Returns 0, or CLI_USAGE with a line. */
int region_name_parse(const struct cli_command *command, const char *text, struct region_name *out);

/* Opens the namespace. Returns 0, or CLI_FAILED with a line. */
int region_open_namespace(struct cli *cli, const struct region_name *name,
			  struct afar_namespace **out);
/* Opens the region. Returns 0 or the library's error. */
int region_open_named(struct afar_namespace *ns, const struct region_name *name,
		      struct afar_region **out);

/* Notes if the region is striped over fewer servers than its namespace asks for and its length
 * allows. */
void region_note_width(struct afar_namespace *ns, const struct region_name *name,
		       const struct afar_region_stat *stat);

/* The two commands that move bytes. */
int region_put(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int region_get(struct cli *cli, const struct cli_command *command, int argc, char **argv);

#endif
