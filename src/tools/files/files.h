/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the commands on files share: paths, the file systems that a command has open, and
 * failing with the path that the user typed. A path is "/FS/path": its first name is the file system.
 *
 * Functions return 0 or a negative code of the library, unless they say that they return an exit status.
 */
#ifndef TOOLS_FILES_H
#define TOOLS_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include <afar/file.h>

#include "tools/cli/cli.h"

#define FILES_LIST_MAX 512 /* entries of a directory that are asked for at once */

/* The file systems that one command has open. */
struct files {
	struct cli *cli;
	const struct cli_command *command;
	bool is_read_only;
	struct files_open *open; /* a list */
};

struct files_path {
	const char *text; /* as it was typed */
	char fs[AFAR_NAME_MAX + 1];
	/* In the file system. It begins with '/', and ends with none unless it is the root's. */
	char path[AFAR_FILE_PATH_MAX + 1];
	bool is_folder; /* a '/' was typed at its end */
};

/* A name in a directory that is there. */
struct files_place {
	struct afar_fs *fs;
	uint64_t dir;
	char name[AFAR_FILE_NAME_MAX + 1];
	bool is_folder; /* a '/' was typed behind it: only a directory may be made there */
};

/* Opens the session. Returns 0, or CLI_FAILED with a line. */
int files_begin(struct cli *cli, const struct cli_command *command, bool is_read_only,
		struct files *out);
/* Has all that was written made durable, where that is possible. Returns 0, or CLI_FAILED with a line. */
int files_sync(struct files *files);
/* Closes what is open, and the session; passes `status` on. */
int files_end(struct files *files, int status);

/* Parses "/FS/path". Returns 0, or CLI_USAGE with a line. */
int files_path_parse(const struct cli_command *command, const char *text, struct files_path *out);
bool files_path_is_root(const struct files_path *path);
/* Returns the last name of a path, local or not, for what is made of it elsewhere; of a root the file
 * system's. Empty if it is "." or "..", whose content alone is meant. */
const char *files_path_name(const struct files_path *path);

/* Opens the path's file system, or finds it open. Returns 0, or CLI_FAILED with a line. */
int files_open(struct files *files, const struct files_path *path, struct afar_fs **out);
/* Finds what the path leads to. A path with a '/' at its end is followed, and must be a directory's. */
int files_walk(struct afar_fs *fs, const struct files_path *path, unsigned flags,
	       struct afar_file_stat *out);
/* Finds the directory that the path's last name is in, or would be. -EINVAL: it has none, because it
 * is the root or ends with "." or "..". */
int files_parent(struct afar_fs *fs, const struct files_path *path, struct files_place *out);

/*
 * Parses the path, opens its file system, and finds what it leads to, or the place of its last name.
 * Return 0, or an exit status with a line, which begins with `what` ("remove").
 */
int files_find_inode(struct files *files, const char *what, const char *text, unsigned flags,
		     struct afar_fs **fs, struct afar_file_stat *out);
int files_find_place(struct files *files, const char *what, const char *text,
		     struct files_place *out);
/*
 * Finds where something called `name` goes if the user says `text`: into the directory of that path if
 * it is one, else under that path. Returns as the above do. `is_inside`, if not NULL, becomes whether it
 * is the former.
 */
int files_find_target(struct files *files, const char *what, const char *text, const char *name,
		      struct files_place *out, bool *is_inside);

/* Refuses, with a line, that several go to a path that is no directory. Returns 0 or an exit status. */
int files_check_folder(struct files *files, const char *what, const char *text);

/* Writes one line, "WHAT PATH: why; what to do", about the call that has just failed with `error`.
 * Returns CLI_FAILED. */
int files_fail(const char *what, const char *path, int error);
/* Likewise after files_parent(). */
int files_fail_place(const char *what, const char *path, int error);

/* Joins two parts of a path with a '/', unless one is there. The caller frees it; NULL: no memory. */
char *files_join(const char *folder, const char *name);
/* Returns the path without its last name: "." or "/" if that leaves none. Owned and failing likewise. */
char *files_folder(const char *path);

/* Runs `one` on each argument, whatever fails. Returns 0, or the first exit status that is not 0. */
typedef int files_one(struct files *files, const char *text, void *context);
int files_each(struct files *files, char **arguments, int nr, files_one *one, void *context);

/* The commands that have source files of their own. */
int files_put(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_get(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_cat(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_ls(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_stat(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_df(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_du(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_walk_find(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_chmod(struct cli *cli, const struct cli_command *command, int argc, char **argv);
int files_chown(struct cli *cli, const struct cli_command *command, int argc, char **argv);

#endif
