/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport that is tested; see transport.h. */
#include "lib/base/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *test_transport(void)
{
	const char *named = getenv("AFAR_TEST_TRANSPORT");

	return named ? named : "tcp";
}

bool is_on_tcp(void)
{
	return strcmp(test_transport(), "tcp") == 0;
}

bool is_on_verbs(void)
{
	return strcmp(test_transport(), "verbs") == 0;
}

bool is_on_local(void)
{
	return strcmp(test_transport(), "local") == 0;
}

bool is_on_driven(void)
{
	return strstr(test_transport(), "-driven");
}

unsigned test_slowness(void)
{
	const char *named = getenv("AFAR_SLOWNESS");

	return named ? (unsigned)strtoul(named, NULL, 10) : 1;
}

const char *test_host(void)
{
	const char *named = getenv("AFAR_TEST_HOST");

	if (is_on_local())
		return "unix";
	return named ? named : "127.0.0.1";
}

const char *any_port(void)
{
	static char address[64];

	snprintf(address, sizeof(address), is_on_local() ? "%s:" : "%s:0", test_host());
	return address;
}
