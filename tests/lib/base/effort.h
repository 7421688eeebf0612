/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Says how much a test does that searches, rolls dice or guesses, and how it
 * waits for what nobody tells.
 */
#ifndef TESTS_EFFORT_H
#define TESTS_EFFORT_H

#include <stdint.h>

/*
 * Returns `quick` by default: somebody who has just changed something waits for that. Returns
 * `thorough` with AFAR_THOROUGH=1, which every change is tried with, and `longest` with
 * AFAR_LONG=1, which takes hours.
 */
uint64_t test_effort(uint64_t quick, uint64_t thorough, uint64_t longest);

/* Sleeps between two looks at another process, 1 ms, and so leaves it the processor. */
void test_pause(void);

#endif
