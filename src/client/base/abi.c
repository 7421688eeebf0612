/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts or pads structs of other releases. */
#include "client/base/abi.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

#define SIZE_MOST 4096 /* no release has a longer struct; a larger size was probably never set */

static size_t size_of(const void *given)
{
	size_t size;

	memcpy(&size, given, sizeof(size));
	return size;
}

static int check_size(size_t size, size_t oldest, const char *name)
{
	/* Entries of a list lie one behind another, so each must keep the next one aligned. */
	if (size >= oldest && size <= SIZE_MOST && size % sizeof(size_t) == 0)
		return 0;
	return error_fail(-EINVAL, "use a struct %s: its size is %zu; set it to sizeof(struct %s)",
			  name, size, name);
}

static bool is_zero(const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

int abi_take(void *known, size_t attr_cache_size, size_t oldest, const void *given,
	     const char *name)
{
	size_t size = size_of(given);
	int ret = check_size(size, oldest, name);

	if (ret)
		return ret;
	if (size > attr_cache_size &&
	    !is_zero((const char *)given + attr_cache_size, size - attr_cache_size))
		return error_fail(-EINVAL,
				  "use a struct %s: it asks for what only a newer release of the "
				  "library can do",
				  name);
	memset(known, 0, attr_cache_size);
	memcpy(known, given, size < attr_cache_size ? size : attr_cache_size);
	return 0;
}

int abi_check_out(const void *out, size_t oldest, const char *name)
{
	return check_size(size_of(out), oldest, name);
}

void abi_give(void *out, size_t size, const void *known, size_t attr_cache_size)
{
	memset(out, 0, size);
	memcpy(out, known, size < attr_cache_size ? size : attr_cache_size);
	memcpy(out, &size, sizeof(size));
}
