/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which transport the tests' data goes over, and the address of this machine that it has: the
 * environment's AFAR_TEST_TRANSPORT and AFAR_TEST_HOST, else tcp on 127.0.0.1. All tests that
 * follow this can run on any transport. scripts/check-verbs runs them on verbs, and those of the
 * seam itself run on local, too. And how slow it is there.
 */
#ifndef TESTS_TRANSPORT_H
#define TESTS_TRANSPORT_H

#include <stdbool.h>

const char *test_transport(void);
bool is_on_tcp(void);
bool is_on_verbs(void);
bool is_on_local(void);
/* One that is driven over another (fabric/driven/). */
bool is_on_driven(void);

/* Returns how many times as long as usual things may take. */
unsigned test_slowness(void);

/* Returns what addresses of this machine begin with, up to a colon. */
const char *test_host(void);

/* An address to listen on there, at any port. It is the same string each time. */
const char *any_port(void);

#endif
