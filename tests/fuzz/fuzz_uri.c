/* SPDX-License-Identifier: BSD-3-Clause */
/* uri_parse(): what it takes is in bounds and survives being written and read again; what it refuses
 * comes with one line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

static void check_taken(const struct uri *uri)
{
	static char text[sizeof(struct uri) + 64];
	const int is_ipv6 = strchr(uri->host, ':') != NULL;
	static struct uri again;

	require(uri->host[0] && strnlen(uri->host, sizeof(uri->host)) < sizeof(uri->host));
	require(uri->port != 0);
	require(strnlen(uri->key_file, sizeof(uri->key_file)) < sizeof(uri->key_file));
	snprintf(text, sizeof(text), "afar://%s%s%s:%u%s%s", is_ipv6 ? "[" : "", uri->host,
		 is_ipv6 ? "]" : "", uri->port, uri->key_file[0] ? "?key=" : "", uri->key_file);
	require(!uri_parse(text, &again));
	require(!strcmp(uri->host, again.host) && uri->port == again.port &&
		!strcmp(uri->key_file, again.key_file));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct uri uri;
	char *text = malloc(size + 1);
	int rc;

	require(text != NULL);
	memcpy(text, data, size);
	text[size] = 0;
	rc = uri_parse(text, &uri);
	free(text);
	if (!rc) {
		check_taken(&uri);
		return 0;
	}
	require(rc == -EINVAL);
	for (const char *at = afar_last_error(); *at; at++)
		require((unsigned char)*at >= ' ' && *at != 0x7f);
	return 0;
}
