/* SPDX-License-Identifier: BSD-3-Clause */
/* The boundary of libafar-graph: lines of failures, and structs that may grow; see graph.h. Each public call uses it. */
#include <errno.h>
#include <string.h>

#include "graph.h"
#include "tools/copy/failure.h"

int graph_return(int ret)
{
	if (ret == -ECANCELED)
		return afar_fail(ret, "graph: it ends early, because is_ended() said so");
	return ret < 0 ? afar_fail(ret, app_failure()) : ret;
}

/* Reads the size that a struct begins with. */
static size_t size_of(const void *given)
{
	size_t size;

	memcpy(&size, given, sizeof(size));
	return size;
}

static int fail_size(const char *name, size_t size)
{
	return app_fail(-EINVAL,
			"struct %s: no release has one of %zu bytes; set size to its sizeof", name,
			size);
}

int graph_take(void *known, size_t known_bytes, size_t oldest, const void *given, const char *name)
{
	const size_t size = given ? size_of(given) : 0;
	const char *bytes = given;

	if (!given)
		return app_fail(-EINVAL, "struct %s: it is null", name);
	if (size < oldest || size % sizeof(size_t))
		return fail_size(name, size);
	for (size_t i = known_bytes; i < size; i++)
		if (bytes[i])
			return app_fail(-EINVAL,
					"struct %s: it asks for what this release does not know",
					name);
	memset(known, 0, known_bytes);
	memcpy(known, given, size < known_bytes ? size : known_bytes);
	return 0;
}

int graph_give(void *given, const void *known, size_t known_bytes, size_t oldest, const char *name)
{
	const size_t size = given ? size_of(given) : 0;

	if (!given || size < oldest || size % sizeof(size_t))
		return fail_size(name, size);
	memset(given, 0, size);
	memcpy(given, known, size < known_bytes ? size : known_bytes);
	memcpy(given, &size, sizeof(size));
	return 0;
}
