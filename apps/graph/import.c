/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Edges from a file. In text, each has a line, "FROM TO" or "FROM TO WEIGHT", with blanks or tabs between. Empty lines,
 * and those that begin with # or %, are left out. In binary: two 32-bit words, or three.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gather.h"
#include "tools/copy/failure.h"

#define ASK_EVERY 65536U

struct reading {
	const struct graph_source *source;
	struct graph_edges *edges;
	FILE *file;
	uint64_t number; /* of the line or edge, from 1 */
	char where[320];
};

static const char *where(struct reading *reading)
{
	snprintf(reading->where, sizeof(reading->where), "%.256s:%llu", reading->source->path,
		 (unsigned long long)reading->number);
	return reading->where;
}

static bool is_ended(const struct reading *reading)
{
	const struct graph_source *source = reading->source;

	return reading->number % ASK_EVERY == 0 && source->is_ended &&
	       source->is_ended(source->context);
}

/* ---- Text */

static const char *skip_blanks(const char *at)
{
	while (isblank((unsigned char)*at))
		at++;
	return at;
}

/* Parses the number that `*at` begins with, and moves on behind it. */
static int take_number(struct reading *reading, const char **at, const char *what, uint32_t *out)
{
	unsigned long long number;
	const char *begin = skip_blanks(*at);
	char *end;

	if (*begin == '-')
		return app_fail(-EINVAL, "%s: %s '%.*s' is negative; none may be", where(reading),
				what, (int)strcspn(begin, " \t\r\n"), begin);
	errno = 0;
	number = strtoull(begin, &end, 10);
	if (!isdigit((unsigned char)*begin) || (*end && !isspace((unsigned char)*end)))
		return app_fail(
			-EINVAL,
			"%s: '%.*s' is no number, where the %s should be; a line is FROM TO%s",
			where(reading),
			(int)strcspn(begin, "\r\n") > 40 ? 40 : (int)strcspn(begin, "\r\n"), begin,
			what, reading->source->is_weighted ? " WEIGHT" : "");
	if (errno || number >= UINT32_MAX)
		return app_fail(-EINVAL, "%s: %s %.*s is more than %u", where(reading), what,
				(int)(end - begin) > 40 ? 40 : (int)(end - begin), begin,
				UINT32_MAX - 1);
	*out = (uint32_t)number;
	*at = end;
	return 0;
}

static int take_line(struct reading *reading, const char *line)
{
	struct graph_edge edge = {.weight = 1};
	const char *at = skip_blanks(line);
	int ret;

	if (*at == '#' || *at == '%' || !at[strspn(at, " \t\r\n")])
		return 0;
	ret = take_number(reading, &at, "vertex", &edge.from);
	if (!ret)
		ret = take_number(reading, &at, "vertex", &edge.to);
	if (!ret && reading->source->is_weighted)
		ret = take_number(reading, &at, "weight", &edge.weight);
	if (ret)
		return ret;
	at += strspn(at, " \t\r\n");
	if (*at)
		return app_fail(-EINVAL, "%s: there is more on the line than an edge: '%.40s'%s",
				where(reading), at,
				reading->source->is_weighted ? "" : "; say --weighted for weights");
	return edges_add(reading->edges, reading->source, where(reading), &edge);
}

static int take_lines(struct reading *reading)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	int ret = 0;

	while (!ret && (length = getline(&line, &size, reading->file)) >= 0) {
		reading->number++;
		if (strlen(line) != (size_t)length)
			ret = app_fail(-EINVAL,
				       "%s: it is no text; say --binary for pairs of words",
				       where(reading));
		else
			ret = is_ended(reading) ? -ECANCELED : take_line(reading, line);
	}
	free(line);
	return ret;
}

/* ---- Binary */

static int take_words(struct reading *reading)
{
	const size_t nr = reading->source->is_weighted ? 3 : 2;
	uint32_t words[3] = {0, 0, htole32(1)};
	size_t bytes;
	int ret = 0;

	while (!ret && (bytes = fread(words, 1, 4 * nr, reading->file)) > 0) {
		const struct graph_edge edge = {le32toh(words[0]), le32toh(words[1]),
						le32toh(words[2])};

		reading->number++;
		if (bytes != 4 * nr)
			return app_fail(-EINVAL,
					"%s: the last edge is cut short: it has %zu bytes of %zu",
					where(reading), bytes, 4 * nr);
		ret = is_ended(reading)
			      ? -ECANCELED
			      : edges_add(reading->edges, reading->source, where(reading), &edge);
	}
	return ret;
}

int edges_import(const struct graph_source *source, struct graph_edges *edges)
{
	struct reading reading = {.source = source, .edges = edges};
	int ret;

	reading.file = fopen(source->path, "re");
	if (!reading.file)
		return app_fail(-errno, "open %s: %s", source->path, afar_strerror(-errno));
	ret = source->is_binary ? take_words(&reading) : take_lines(&reading);
	if (!ret && ferror(reading.file))
		ret = app_fail(-EIO, "read %s: %s", source->path, afar_strerror(-EIO));
	fclose(reading.file);
	return ret;
}
