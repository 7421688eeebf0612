/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of `afar` and of the programs that it runs. It has tables of commands, flags, the session, failing with
 * one line, and showing sizes and names. It uses only the public API.
 *
 * A command returns 0, CLI_FAILED after one line on standard error, CLI_USAGE if it was not
 * understood, or CLI_INTERRUPTED. It returns CLI_NO_READER, without a line, if nobody reads its
 * output any more.
 */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/afar.h>
#include <jansson.h>

#include "printable.h"
#include "size.h"

#define CLI_FAILED	1
#define CLI_USAGE	2
#define CLI_INTERRUPTED 130
#define CLI_NO_READER	141 /* as if SIGPIPE had ended it */

#define CLI_ARGUMENTS_MAX 4
#define CLI_WIDTH_ALL	  64 /* a namespace's width: all servers, at most so many */

/* The state of the command that runs: the global flags, and the session once it is open. */
struct cli {
	const struct cli_command *const *groups; /* the tables of all groups; ended by NULL */
	const char *cluster;
	const char *key_file;
	const char *path;
	uint32_t timeout_ms;
	struct afar_session *session;
};

struct cli_command {
	const char *name;      /* as typed: "ns create" */
	const char *arguments; /* for the usage: "NAME" */
	const char *summary;
	int (*run)(struct cli *cli, const struct cli_command *command, int argc, char **argv);
};

/* A flag of one command, --NAME; a name of one letter is given as -N. `*value` becomes its argument, or ""
 * for a switch. It stays NULL if the flag is not given. */
struct cli_flag {
	const char *name;
	const char *argument; /* NULL: a switch */
	const char *help;
	const char **value;
};

/* Finds the command that argv begins with, in `*words` words; NULL: none. */
const struct cli_command *cli_find(const struct cli *cli, int argc, char **argv, int *words);

/* The flags of every command. */
extern const struct cli_flag cli_global_flags[];

/* `help`, of any program's groups. */
extern const struct cli_command help_commands[];

/* To be called first: the locale, and signals that a failing write is enough for. */
void cli_begin(void);
/* Takes the global flags and runs the command behind them. `group` is its first word if that is not typed; NULL: it is. */
int cli_run(struct cli *cli, const char *group, int argc, char **argv);
/* Ends standard output. Returns what main() returns: `status`, or why the output is not complete. */
int cli_end(int status);

/*
 * Takes the command's flags (`flags` ends with a NULL name; NULL: none) and the global ones, in any
 * position. Leaves from `min` to `max` other arguments in `arguments`. Returns their number, or -1
 * with the exit status in `*status` after an error line or after --help.
 */
int cli_arguments(struct cli *cli, const struct cli_command *command, const struct cli_flag *flags,
		  int argc, char **argv, int min, int max, const char *arguments[CLI_ARGUMENTS_MAX],
		  int *status);

/*
 * Like cli_arguments(), for any number of arguments from `min` on (`max` -1: no limit), which
 * `*arguments` then shows, inside of `argv`.
 */
int cli_argument_list(struct cli *cli, const struct cli_command *command,
		      const struct cli_flag *flags, int argc, char **argv, int min, int max,
		      char ***arguments, int *status);

/* Keeps --timeout's value. Returns 0, or CLI_USAGE with a line. */
int cli_set_timeout(struct cli *cli, const char *value);

/* Opens the session. Returns 0, or CLI_FAILED with a line. */
int cli_open(struct cli *cli);
/* Closes the session if it is open and passes `status` on. */
int cli_close(struct cli *cli, int status);

/* Writes "afar: TEXT" on standard error. Returns CLI_FAILED. */
__attribute__((format(printf, 1, 2))) int cli_fail(const char *format, ...);
/* Writes "afar: note: TEXT" on standard error, for a result that the user may not expect. */
__attribute__((format(printf, 1, 2))) void cli_note(const char *format, ...);
/* Fails with the library's sentence about the call that failed with `error`. */
int cli_fail_last(int error);
/* Writes "afar: TEXT" and where help is. Returns CLI_USAGE. `command` may be NULL. */
__attribute__((format(printf, 2, 3))) int cli_misuse(const struct cli_command *command,
						     const char *format, ...);

/*
 * Parses a size that the user gave for `what`. Returns 0, or CLI_USAGE with a line, also for a size
 * of 0.
 */
int cli_size(const struct cli_command *command, const char *what, const char *text, uint64_t *out);
/* Like cli_size(), for a limit: "none" is 0. */
int cli_limit(const struct cli_command *command, const char *what, const char *text, uint64_t *out);

/* Makes a JSON text; null if it is empty, or not UTF-8, which JSON needs. The text may come from
 * others. */
json_t *cli_json_text(const char *text);
/* Returns the ending of the word for so many things: "s", or nothing. */
static inline const char *cli_plural(int64_t nr)
{
	return nr == 1 ? "" : "s";
}

/* Makes a JSON number. They are signed here, so a larger value becomes the largest. */
json_t *cli_json_number(uint64_t value);
/* Prints `json` and drops it. NULL: there was no memory for it. Returns 0, or CLI_FAILED with a
 * line. */
int cli_print_json(json_t *json);

/* Prints a list as a table, or gathers its entries in the array `json` if that is not NULL. Returns 0, or
 * the library's error. */
typedef int cli_lister(struct cli *cli, json_t *json);
/* Runs a command that takes --json alone and lists with the caller's session. Returns its exit status. */
int cli_list(struct cli *cli, const struct cli_command *command, int argc, char **argv,
	     cli_lister *list);

/* Prints `text` for a person. Bytes that cannot be printed, which a peer may have sent, become
 * \xNN. */
void cli_print(const char *text);
/* Prints it likewise, and fills up to `width` columns. */
void cli_print_padded(const char *text, size_t width);

#endif
