/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar doctor`: what it looks at, and what it finds. Facts are read from files below a root folder, so
 * that tests can lay out a machine of their own there. Each check says one finding, or nothing where
 * the machine does not tell.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/cli/cli.h"

#define DOCTOR_DAEMONS_MAX 16
#define DOCTOR_CONFIGS_MAX 8
#define DOCTOR_FLASH_MAX   16
#define DOCTOR_VALUE_MAX   512

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_BAD };

/* An afard that runs on this machine. */
struct doctor_daemon {
	int pid;
	uint64_t memlock; /* the hard limits; UINT64_MAX: none */
	uint64_t descriptors;
	uint64_t group_bytes; /* its control groups' least limit of memory; UINT64_MAX: none */
};

/* A configuration file of afard. Texts are empty if the file does not say it. */
struct doctor_config {
	char path[PATH_MAX];
	bool is_manager, is_server;
	char data[DOCTOR_VALUE_MAX];
	char key[DOCTOR_VALUE_MAX];
	char listen[DOCTOR_VALUE_MAX];
	char control[DOCTOR_VALUE_MAX];
	char lanes[DOCTOR_VALUE_MAX];
	char transport[DOCTOR_VALUE_MAX];
	char memory[DOCTOR_VALUE_MAX];
	char flash_port[DOCTOR_VALUE_MAX];
	char flash[DOCTOR_FLASH_MAX][DOCTOR_VALUE_MAX];
	unsigned nr_flash;
};

struct doctor {
	const char *root; /* empty: this machine itself */
	json_t *findings; /* an array that gathers them; NULL: they are printed */
	unsigned nr[VERDICT_BAD + 1];
	struct doctor_daemon daemons[DOCTOR_DAEMONS_MAX];
	unsigned nr_daemons;
	struct doctor_config configs[DOCTOR_CONFIGS_MAX];
	unsigned nr_configs;
};

/* ---- Findings: say.c */

/* Says what was looked at (`check`, a word), and what was found. `remedy`: what to do; NULL: nothing. */
__attribute__((format(printf, 5, 6))) void doctor_say(struct doctor *doctor, enum verdict verdict,
						      const char *check, const char *remedy,
						      const char *format, ...);

/* ---- Facts: facts.c */

/* Names a file below the root. A name that begins with the root already stays. */
void doctor_path(const struct doctor *doctor, const char *name, char out[PATH_MAX]);
/* Reads a small file, without the newlines at its end. False: it cannot be read, and `out` is empty. */
bool doctor_read(const struct doctor *doctor, const char *name, char *out, size_t size);
/* Reads a file that is one number. False: it is none. */
bool doctor_number(const struct doctor *doctor, const char *name, uint64_t *out);
bool doctor_exists(const struct doctor *doctor, const char *name);
/* True: `text` has this word between blanks. */
bool doctor_has_word(const char *text, const char *word);
/* Finds the daemons that run. */
void doctor_find_daemons(struct doctor *doctor);
/* The limits of a process: "self", or a number. */
void doctor_read_process(const struct doctor *doctor, const char *process,
			 struct doctor_daemon *out);

/* ---- Checks */

void doctor_kernel(struct doctor *doctor); /* clock, kernel, TCP, huge pages, io_uring, FUSE */
void doctor_limits(struct doctor *doctor); /* of processes: locked memory, descriptors, memory */
void doctor_daemons(
	struct doctor *doctor); /* what the daemons are configured to use: keys, ports, devices */
void doctor_cluster(struct doctor *doctor, struct cli *cli); /* as it is seen from here */
/* Checks what afar_session_status() has told, between two times of this machine's clock. */
void doctor_status(struct doctor *doctor, const json_t *status, int64_t before, int64_t after);

/* Reads a configuration. False: it cannot be read, which is said. */
bool doctor_take_config(struct doctor *doctor, const char *path);
/* Takes all in /etc/afar. */
void doctor_take_configs(struct doctor *doctor);

#endif
