/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies and rights, as flags give them and tables show them, for `afar ns` and `afar volume`. */
#ifndef TOOLS_POLICY_H
#define TOOLS_POLICY_H

#include "tools/cli/cli.h"

/* The values of --tier, --width and --stripe; NULL: not given. */
struct policy_flags {
	const char *tier, *width, *stripe;
};

/* Reads a policy from the flags, without its max_bytes. Returns 0, or CLI_USAGE with a line. */
int policy_read(const struct cli_command *command, const struct policy_flags *flags,
		struct afar_policy *out);

/* Returns the word for a tier, "?" for one that is not known. */
const char *policy_tier(uint32_t tier);

/* Parses "none", "r" or "rw". Returns whether it is one of them. */
bool policy_parse_rights(const char *word, unsigned *out);
/* Returns the word for rights, "?" for others. */
const char *policy_rights(uint32_t rights);

#endif
