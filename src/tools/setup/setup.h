/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a machine of a cluster, as `afar init` and `afar join` lay them down. A plan is filled first, then
 * compared with what is there, and only then written: a refusal leaves everything as it was. Files that are there already
 * stay, so that a command that was cut short, or is given again, ends well.
 *
 * Functions that return int return 0, or an exit status after one line.
 */
#ifndef TOOLS_SETUP_H
#define TOOLS_SETUP_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tools/cli/cli.h"

#define SETUP_ITEMS_MAX 12
#define SETUP_UNITS_MAX 2
#define SETUP_HOST_MAX	120
#define SETUP_TEXT_MAX	65536 /* of a file */

enum setup_kind {
	SETUP_FOLDER,
	SETUP_FILE,    /* another text at its place is refused */
	SETUP_CLUSTER, /* likewise: a machine is in one cluster */
	SETUP_KEY,     /* likewise, readable by its owner alone, and never shown */
	SETUP_MADE,    /* a key that is made here: one at its place is kept */
	SETUP_LINK,
};

struct setup_item {
	enum setup_kind kind;
	bool is_daemons; /* it belongs to the user that the daemons run as, if there is one */
	char path[PATH_MAX];
	char *text; /* of a file, or where a link leads */
};

struct setup {
	const char *verb; /* "init", for messages */
	bool is_dry;	  /* says what it would do */
	bool is_here;	  /* for this machine, not in a folder of --root */
	char root[PATH_MAX];
	struct setup_item items[SETUP_ITEMS_MAX];
	size_t nr_items;
	const char *units
		[SETUP_UNITS_MAX]; /* instances of afard@.service, which are also the names of their files */
	size_t nr_units;
	bool is_short; /* of memory, or a path is too long */
};

/* The flags that both commands take; a text is NULL if its flag is not given. */
struct setup_flags {
	const char *name, *memory, *flash, *root, *is_dry;
};

/* Begins a plan, and checks the flags. */
int setup_begin(struct setup *setup, const struct cli *cli, const struct cli_command *command,
		const struct setup_flags *flags);
/* Frees it, and wipes its keys. */
void setup_end(struct setup *setup);

/* Takes HOST[:PORT] apart, and writes HOST:PORT, with brackets around an IPv6 address, to `out`. */
int setup_address(const struct cli_command *command, const char *text,
		  char out[SETUP_HOST_MAX + 16]);

/* Adds an item at `path` below the root; `format` makes its text. */
__attribute__((format(printf, 5, 6))) void setup_add(struct setup *setup, enum setup_kind kind,
						     bool is_daemons, const char *path,
						     const char *format, ...);
/* Adds what every machine has: /etc/afar with the cluster, whose manager is at `address`, and /var/lib/afar. */
void setup_add_machine(struct setup *setup, const char *address);
/* Adds the settings of a server. It joins the manager at `address` with the key file `key`, a path below the root. */
void setup_add_server(struct setup *setup, const struct setup_flags *flags, const char *address,
		      const char *key);

/* Compares the plan with what is there, lays it down, and says so. */
int setup_write(struct setup *setup);
/* Has systemd start the units now and at each boot, or says how to start them. */
int setup_start(struct setup *setup);

#endif
