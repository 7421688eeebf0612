/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by `afar fs` and the commands on files. */
#ifndef TOOLS_CMD_FS_H
#define TOOLS_CMD_FS_H

#include "tools/cli/cli.h"

/* Lists the file systems as `afar fs ls` does, or their names alone. Return 0 or the library's error. */
int fs_list(struct cli *cli, json_t *json);
int fs_list_names(struct cli *cli);

/* The actions of `afar fs check --lost` beside listing. */
struct fs_lost_wish {
	bool is_to_remove;
	bool is_sure; /* else it only says what it would remove */
	bool as_json;
};

/* Lists the files of a file system that have lost bytes, or removes them. Returns an exit status. */
int fs_check_lost(struct cli *cli, const char *name, const struct fs_lost_wish *wish);

/* Parses permissions, an octal number up to 7777. Returns 0 or -EINVAL. */
int fs_mode_parse(const char *text, uint32_t *out);

#endif
