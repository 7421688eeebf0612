/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cluster URIs: taking one apart, and finding the one to use when nobody names one. Called by the
 * client when it opens a session and by the programs for their arguments; owns nothing.
 */
#include "base/uri.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define SCHEME	     "afar://"
#define FORM	     "a cluster is afar://HOST[:PORT][?key=FILE]"
#define CLUSTER_FILE "./afar-data/cluster"
#define MACHINE_FILE "/etc/afar/cluster" /* `afar init` and `afar join` write it */
#define LOCAL_URI    "afar://127.0.0.1"

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_"

/* An IPv6 address, or one with a zone: "fe80::1%eth0". */
static bool is_ipv6(const char *host)
{
	const char *zone = strchr(host, '%');
	char address[INET6_ADDRSTRLEN];
	size_t length = zone ? (size_t)(zone - host) : strlen(host);
	struct in6_addr ignored;

	if (length >= sizeof(address))
		return false;
	memcpy(address, host, length);
	address[length] = 0;
	if (inet_pton(AF_INET6, address, &ignored) != 1)
		return false;
	return !zone || (zone[1] && !zone[1 + strspn(zone + 1, NAME_BYTES)]);
}

/* Takes HOST or [IPV6] off `*at`. */
static int parse_host(const char *text, const char **at, struct uri *out)
{
	const bool is_bracketed = **at == '[';
	const char *start = *at + is_bracketed;
	const size_t length = strcspn(start, is_bracketed ? "]" : ":?");

	if (!length)
		return error_fail(-EINVAL, "cluster '%s': has no host; " FORM, text);
	if (length >= sizeof(out->host))
		return error_fail(-EINVAL, "cluster '%.60s...': the host is longer than %d bytes",
				  text, URI_HOST_MAX - 1);
	memcpy(out->host, start, length);
	out->host[length] = 0;
	*at = start + length;
	if (!is_bracketed) {
		if (strspn(out->host, NAME_BYTES) == length)
			return 0;
		return error_fail(-EINVAL, "cluster '%s': '%s' is no name of a host; " FORM, text,
				  out->host);
	}
	if (**at != ']')
		return error_fail(-EINVAL, "cluster '%s': lacks the ']' after the IPv6 address",
				  text);
	(*at)++;
	if (!is_ipv6(out->host))
		return error_fail(-EINVAL, "cluster '%s': '%s' is no IPv6 address", text,
				  out->host);
	return 0;
}

/* Takes :PORT off `*at` if it is there. */
static int parse_port(const char *text, const char **at, struct uri *out)
{
	unsigned port = 0;

	out->port = URI_DEFAULT_PORT;
	if (**at != ':')
		return 0;
	for ((*at)++; **at >= '0' && **at <= '9' && port <= UINT16_MAX; (*at)++)
		port = port * 10 + (unsigned)(**at - '0');
	if (!port || port > UINT16_MAX || (**at && **at != '?'))
		return error_fail(-EINVAL,
				  "cluster '%s': the port is no number from 1 to 65535 (an IPv6 "
				  "address stands in brackets)",
				  text);
	out->port = (uint16_t)port;
	return 0;
}

/* Takes the rest, ?key=FILE or nothing: the name of the file goes to the end, whatever is in it. */
static int parse_key_file(const char *text, const char *at, struct uri *out)
{
	static const char option[] = "?key=";
	size_t length;

	out->key_file[0] = 0;
	if (!*at)
		return 0;
	if (strncmp(at, option, sizeof(option) - 1) != 0)
		return error_fail(-EINVAL, "cluster '%s': '%s' is not understood; " FORM, text, at);
	at += sizeof(option) - 1;
	length = strlen(at);
	if (!length)
		return error_fail(-EINVAL, "cluster '%s': names no key file after '?key='", text);
	if (length >= sizeof(out->key_file))
		return error_fail(-EINVAL, "cluster '%.60s...': the key file's name is too long",
				  text);
	memcpy(out->key_file, at, length + 1);
	return 0;
}

int uri_parse(const char *text, struct uri *out)
{
	const char *at = text;
	int ret;

	if (!text || strncmp(text, SCHEME, sizeof(SCHEME) - 1) != 0)
		return error_fail(-EINVAL, "cluster '%s': does not begin with " SCHEME "; " FORM,
				  text ? text : "");
	at += sizeof(SCHEME) - 1;
	ret = parse_host(text, &at, out);
	if (!ret)
		ret = parse_port(text, &at, out);
	if (!ret)
		ret = parse_key_file(text, at, out);
	return ret;
}

static int copy_uri(const char *from, const char *text, char *out, size_t size)
{
	const size_t length = strlen(text);

	if (length >= size)
		return error_fail(-EINVAL, "%s: is longer than a cluster's URI can be", from);
	memcpy(out, text, length + 1);
	return 0;
}

/* Copies the first line of the file `path`, which is open as `fd`, without its newline. */
static int read_line(const char *path, int fd, char *out, size_t size)
{
	size_t length = 0;
	ssize_t taken;

	do {
		taken = read(fd, out + length, size - length);
		if (taken < 0 && errno == EINTR)
			continue;
		if (taken < 0)
			return error_fail(-errno, "%s: cannot be read: %s", path,
					  afar_strerror(errno));
		length += (size_t)taken;
	} while (taken && length < size && !memchr(out, '\n', length));

	if (memchr(out, '\n', length))
		length = (size_t)((char *)memchr(out, '\n', length) - out);
	else if (length == size)
		return error_fail(-EINVAL, "%s: is longer than a cluster's URI can be", path);
	if (!length || memchr(out, 0, length))
		return error_fail(-EINVAL,
				  "%s: does not hold the URI of a cluster; remove it, or set "
				  "AFAR_CLUSTER",
				  path);
	out[length] = 0;
	return 0;
}

/* Checks what the file `path` says; a sentence about it names the file. */
static int check_uri(const char *path, const char *text)
{
	char line[ERROR_LINE_BYTES];
	struct uri uri;
	const int ret = uri_parse(text, &uri);

	if (!ret)
		return 0;
	snprintf(line, sizeof(line), "%s", error_last_line());
	return error_fail(ret, "%s: %s", path, line);
}

/* Returns -ENOENT, without a sentence, if there is no such file. */
static int read_uri(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ret;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return -ENOENT;
	if (fd < 0)
		return error_fail(-errno, "%s: cannot be read: %s", path, afar_strerror(errno));
	ret = read_line(path, fd, out, size);
	close(fd);
	if (!ret)
		ret = check_uri(path, out);
	return ret;
}

int uri_default(char *out, size_t size)
{
	const char *chosen = getenv("AFAR_CLUSTER");
	int ret;

	if (chosen && *chosen)
		return copy_uri("AFAR_CLUSTER", chosen, out, size);
	ret = read_uri(CLUSTER_FILE, out, size);
	if (ret == -ENOENT)
		ret = read_uri(MACHINE_FILE, out, size);
	return ret == -ENOENT ? copy_uri(LOCAL_URI, LOCAL_URI, out, size) : ret;
}
