/* SPDX-License-Identifier: BSD-3-Clause */
/* What a cluster did between two answers of afar_session_status(). Pure: no clock, no input or output. */
#ifndef TOOLS_RATES_H
#define TOOLS_RATES_H

#include <jansson.h>

/*
 * The rates, as afar(1) describes the output of `afar top --json`; the busiest sessions first. What cannot be told is
 * null: of servers and sessions that are in one answer alone, or have said nothing new. `before` may be
 * NULL. Whatever the two say, numbers in the result are finite and not negative. NULL: no memory.
 */
json_t *rates_between(const json_t *before, const json_t *now);

#endif
