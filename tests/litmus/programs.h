/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs of the litmus tests. Each role of each is a process, whose command line tells it what to do. It says in
 * a pipe that it is ready, and then what it has found.
 */
#ifndef TESTS_PROGRAMS_H
#define TESTS_PROGRAMS_H

#include <stdint.h>

#define ROLE_TEXT_MAX 96U

/* How the writer keeps its flag behind its data. */
enum order {
	BY_NOTHING,
	BY_AFTER,
	BY_FLUSH,	/* and a flag after that */
	BY_FLUSH_EARLY, /* the same, where writes complete early: flushes read behind them */
	BY_AFTER_EARLY, /* that does not suffice */
	BY_TWO_QUEUES,	/* data and flush through one, then the flag through another */
};

struct role {
	char name; /* 'w'riter, 'r'eader, 'x' or 'y', 'b'egin or 'c'ome to a barrier */
	unsigned order;
	unsigned nr_rounds; /* each in all slots */
	unsigned data_bytes;
	unsigned is_pair; /* the reader asks for flag and data in one go */
	int meeting;	  /* the descriptor */
};

struct findings {
	uint64_t nr_stale; /* rounds in which what is forbidden was seen          */
	uint64_t nr_back;  /* reads of the flag that saw an older one than before */
};

/* For client_start(). `out` is of ROLE_TEXT_MAX bytes. */
void role_write(const struct role *role, char *out);
/* Runs what client_start() has started: returns the status that the process is to end with. */
int role_run(char **argv);

#endif
