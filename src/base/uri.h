/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a cluster is, "afar://HOST[:PORT][?key=FILE]", and the key that opens it. */
#ifndef BASE_URI_H
#define BASE_URI_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define URI_DEFAULT_PORT 7411
#define URI_HOST_MAX	 256

struct uri {
	char host[URI_HOST_MAX]; /* name or address; IPv6 without its brackets */
	uint16_t port;
	char key_file[PATH_MAX]; /* empty: the URI has none */
};

/* Parses `text`. -EINVAL, with a sentence: it is malformed. */
int uri_parse(const char *text, struct uri *out);

/*
 * Writes the URI of the default cluster to `out`, which has at least PATH_MAX + 512 bytes. It is
 * $AFAR_CLUSTER; otherwise the content of ./afar-data/cluster, which afard writes; otherwise that of
 * /etc/afar/cluster, this machine's; otherwise "afar://127.0.0.1". Errors, with a sentence: -EINVAL (it is too long, or the file has no URI), or
 * those of reading the file.
 */
int uri_default(char *out, size_t size);

#endif
