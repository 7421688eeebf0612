/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The line on stderr that says how far a suite is, and how long the rest takes. On a terminal each line takes the place of
 * the one before, and counts repetitions, too. Elsewhere there is one line for each row that begins.
 */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdbool.h>

/* Begins a suite of so many rows. `seconds`: what they take together, about; 0: nobody knows. */
void progress_begin(const char *suite, unsigned nr_rows, double seconds);
/* Says that the rows of the next stage wait for what it sets up. */
void progress_setup(void);
/* Says that the next row begins. `seconds`: its part of the suite's, which is 1 for each where nobody knows. */
void progress_row(const char *name, double seconds);
/* Says that a repetition of the row begins, counted from 0. */
void progress_repetition(unsigned repetition, unsigned nr_repetitions);
/* Counts a row that is left out: the rest takes the less. */
void progress_skip(double seconds);

#endif
