/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the same calls in two directories: one of a file system that everybody trusts, and one of a mount. A
 * case is a script; running it writes a transcript of what each call returned. Nobody says what is right: both
 * transcripts must be the same.
 *
 * A script is steps, divided by ';': "open 0 f rw,creat 644; write 0 hello; stat f". Numbers of files
 * are the script's own, 0 to 15. In words, "@N" is a name of N bytes, "@@N" a path of N bytes that leads here,
 * "_" is nothing, and ~ is a blank.
 */
#ifndef POSIX_H
#define POSIX_H

#include <stdbool.h>
#include <stddef.h>

#define WORDS_MAX 8
#define FILES_MAX 16

struct posix_case {
	const char *name;
	const char *script;
};

/* The tables; each ends with a NULL name. */
extern const struct posix_case posix_name_cases[];
extern const struct posix_case posix_file_cases[];
extern const struct posix_case posix_attribute_cases[];
extern const struct posix_case posix_user_cases[]; /* for root */

/* Makes further cases, from matrices: calls `take` with each. */
typedef void posix_take(const char *name, const char *script, bool needs_root);
void posix_generate(posix_take *take);

/* A running script has this. Each runs in a process of its own. */
struct posix_run {
	int fds[FILES_MAX];
	void *folder; /* DIR */
	char *mapped[FILES_MAX];
	size_t mapped_length[FILES_MAX];
	long tell;
};

/* Writes to the transcript. */
__attribute__((format(printf, 1, 2))) void posix_note(const char *format, ...);

struct posix_step {
	const char *name;
	int min_words; /* behind the name */
	void (*run)(struct posix_run *run, int nr, char **words);
};

/* The tables; each ends with a NULL name. */
extern const struct posix_step posix_steps_who[];
extern const struct posix_step posix_steps_names[];
extern const struct posix_step posix_steps_files[];
extern const struct posix_step posix_steps_folders[];

#endif
