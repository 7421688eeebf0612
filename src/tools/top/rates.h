/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes what a cluster did between two answers of afar_session_status(). It uses no clock, and
 * does no input or output. */
#ifndef TOOLS_RATES_H
#define TOOLS_RATES_H

#include <jansson.h>

/*
 * Returns the rates, as afar-json(5) describes the output of `afar top --json`, the busiest sessions
 * first. Rates that cannot be told are null: those of servers and sessions that are in one answer
 * only, or have said nothing new. `before` may be NULL. Whatever the two say, numbers in the result
 * are finite and not negative. NULL: no memory.
 */
json_t *rates_between(const json_t *before, const json_t *now);

#endif
