/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar bench` is the one harness that measures Afar's speed. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

/*
 * `bench [SUITE] [--json] [--long] [--reps N] [--row SUBSTRING]` lists the suites, or measures one and
 * prints a table or JSON. Returns the exit status: 0 if everything could be measured (whether bars
 * were met or not), 1 if something failed, 2 for a wrong command line, 130 or 143 after an interrupt, whereupon it
 * prints what it has measured so far.
 */
int bench_main(int argc, char **argv);

#endif
