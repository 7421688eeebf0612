/* SPDX-License-Identifier: BSD-3-Clause */
/* The first region of a namespace: programs that start at once open it, and one of them makes
 * it. */
#include <afar/barrier.h>

#include <errno.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/region.h"

static int check_length(struct afar_region *region, uint64_t bytes)
{
	uint64_t length = region->target.length;

	if (length >= bytes)
		return 0;
	afar_region_close(region);
	return error_fail(
		-ERANGE,
		"bootstrap with %llu bytes: the first region of '%s' is there and has %llu; free "
		"it, or ask for so much",
		(unsigned long long)bytes, region->ns->name, (unsigned long long)length);
}

/* Tries once. -EADDRINUSE: another program has made the region between our two calls. It may be
 * gone again. */
static int open_or_make(struct afar_namespace *ns, uint64_t bytes, struct afar_region **out,
			int *is_first)
{
	int ret = afar_region_open_at(ns, AFAR_FIRST_ADDRESS, out);

	*is_first = 0;
	if (ret != -ENOENT)
		return ret;
	ret = afar_region_alloc(ns, bytes, AFAR_ALLOC_FIRST, out);
	*is_first = !ret;
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_region_bootstrap,
		     (struct afar_namespace *ns, uint64_t bytes, struct afar_region **out,
		      int *is_first),
		     (ns, bytes, out, is_first))
{
	int ret = namespace_check(ns), has_made_it;
	uint64_t deadline;

	if (ret)
		return ret;
	if (!out || bytes == 0)
		return error_fail(-EINVAL, "bootstrap: out is null or the region has 0 bytes");
	deadline = session_deadline(ns->session);
	do {
		ret = open_or_make(ns, bytes, out, &has_made_it);
	} while (ret == -EADDRINUSE && clock_ns() < deadline);
	if (ret == -EADDRINUSE)
		return error_fail(
			-ETIMEDOUT,
			"bootstrap: the first region of '%s' was made and freed by others "
			"until the time was up",
			ns->name);
	if (!ret)
		ret = check_length(*out, bytes);
	if (!ret && is_first)
		*is_first = has_made_it;
	return ret;
}
