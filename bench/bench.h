/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar bench`: the one harness that all of Afar's speed is measured with. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

/*
 * `bench [SUITE] [--json] [--reps N] [--row SUBSTRING]`: lists the suites, or measures one and prints a
 * table or JSON. Returns the exit status: 0 when everything could be measured (whether bars were met
 * or not), 1 when something failed, 2 for a wrong command line, 130 when it was interrupted.
 */
int bench_main(int argc, char **argv);

#endif
