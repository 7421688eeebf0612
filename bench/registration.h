/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of suite `registration`, and what they share. */
#ifndef BENCH_REGISTRATION_H
#define BENCH_REGISTRATION_H

#include "harness.h"
#include "memory/registration_cache.h"

#define NR_ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

extern const struct bench_stage registration_lookup_stage, registration_pinning_stage;

/* A registrar that registers nothing, at no cost: what is left is the cache's own. */
extern const struct registrar registrar_of_nothing;

#endif
