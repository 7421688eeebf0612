/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of requests; see http.h. */
#include "http.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Returns whether there is a port, or nothing. */
static bool is_port(const char *text)
{
	if (*text == '\0')
		return true;
	if (*text++ != ':' || *text == '\0')
		return false;
	return text[strspn(text, "0123456789")] == '\0';
}

bool http_host_is_local(const char *host)
{
	static const char *const names[] = {"localhost", "[::1]"};

	if (!host)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t length = strlen(names[i]);

		if (strncasecmp(host, names[i], length) == 0 && is_port(host + length))
			return true;
	}
	/* 127.0.0.0/8, as numbers alone: nobody else can own such a name. */
	if (strncmp(host, "127.", 4) != 0)
		return false;
	return is_port(host + strspn(host, "0123456789."));
}

bool http_wants_openmetrics(const char *accept)
{
	return accept && strcasestr(accept, "application/openmetrics-text") != NULL;
}
