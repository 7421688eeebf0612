/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puppets: processes with a session each that do what the test says, one order at a time, and tell what
 * came of it. An order may block in the puppet while the test goes on.
 */
#ifndef TESTS_PUPPET_H
#define TESTS_PUPPET_H

#include <stdint.h>

#include <afar/barrier.h>

#include "lib/base/processes.h"

#define PUPPET_WORK_BYTES 40 /* of each member */

enum puppet_order {
	PUPPET_BOOTSTRAP = 1, /* the first region, of `bytes`; value: is_first                    */
	PUPPET_CHURN,	/* bootstraps `count` times, and frees what it has made; value: how often */
	PUPPET_OPEN,	/* a barrier                                                        */
	PUPPET_WAIT,	/* its functions                                                    */
	PUPPET_START,	/* with work of `value` + i for member i                            */
	PUPPET_COLLECT, /* reply: statuses                                                  */
	PUPPET_NEXT,	/* value: the work                                                  */
	PUPPET_REPORT,	/* `value`                                                          */
	PUPPET_CLOSE,
	PUPPET_PHASES,	 /* `count` waits: value: how often somebody was where it must not be */
	PUPPET_REOPENS,	 /* `count` times: opens the barrier, three waits, closes it          */
	PUPPET_SEND_OFF, /* `count` times: opens, a phase of work and a report, closes at once */
	PUPPET_CPU,	 /* value: µs of CPU the process has used                             */
};

struct puppet_command {
	enum puppet_order order;
	uint32_t nr_members, member, count;
	uint64_t offset; /* of the barrier; what PUPPET_PHASES watches lies behind it */
	uint64_t bytes;
	uint64_t work_bytes;
	int64_t value;
	int timeout_ms;
};

#define PUPPET_MEMBERS_MAX 16

struct puppet_reply {
	int ret;
	int64_t value;
	int statuses[PUPPET_MEMBERS_MAX];
	char line[256]; /* afar_last_error() */
};

/* Starts a puppet with a session and the namespace `name` open. */
void puppet_start(struct client_process *puppet, const char *uri, const char *name);
void puppet_tell(struct client_process *puppet, const struct puppet_command *command);
/* Waits for the outcome of the oldest order that was not heard of. */
struct puppet_reply puppet_hear(struct client_process *puppet);
/* Both. */
struct puppet_reply puppet_do(struct client_process *puppet, const struct puppet_command *command);
/* Ends it in good order: fails the test when it does not end well. */
void puppet_end(struct client_process *puppet);
void puppet_kill(struct client_process *puppet);

/* main() runs this when it is started as a puppet: argv as client_start() makes it. Returns its status. */
int puppet_main(char **argv);

#endif
