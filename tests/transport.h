/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which transport the tests' data goes over, and the address of this machine that it has: the
 * environment's AFAR_TEST_TRANSPORT and AFAR_TEST_HOST, else tcp on 127.0.0.1. All that follow this
 * can run on any transport; scripts/check-verbs runs them on verbs, and those of the seam itself run on local, too. And how
 * slow it is there.
 */
#ifndef TESTS_TRANSPORT_H
#define TESTS_TRANSPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const char *test_transport(void)
{
	const char *named = getenv("AFAR_TEST_TRANSPORT");

	return named ? named : "tcp";
}

static inline bool is_on_tcp(void)
{
	return strcmp(test_transport(), "tcp") == 0;
}

static inline bool is_on_verbs(void)
{
	return strcmp(test_transport(), "verbs") == 0;
}

static inline bool is_on_local(void)
{
	return strcmp(test_transport(), "local") == 0;
}

/* How many times as long as usual things may take. */
static inline unsigned test_slowness(void)
{
	const char *named = getenv("AFAR_SLOWNESS");

	return named ? (unsigned)strtoul(named, NULL, 10) : 1;
}

/* What addresses of this machine begin with, up to a colon. */
static inline const char *test_host(void)
{
	const char *named = getenv("AFAR_TEST_HOST");

	if (is_on_local())
		return "unix";
	return named ? named : "127.0.0.1";
}

/* Any port there, to listen on. */
static inline const char *any_port(void)
{
	static char address[64];

	snprintf(address, sizeof(address), is_on_local() ? "%s:" : "%s:0", test_host());
	return address;
}

#endif
