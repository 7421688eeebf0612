/* SPDX-License-Identifier: BSD-3-Clause */
/* See library.h. The run path of this library leads to the libafar that was built or installed with it. */
#include "library.h"

#include <dlfcn.h>
#include <stddef.h>

#define FILE_NAME "libafar.so.0"

struct library library;

const char *library_load(void)
{
	void *handle = library.afar_file_writex ? NULL : dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);

	if (library.afar_file_writex)
		return NULL;
	if (!handle)
		return dlerror();
#define FIND(function)                                                        \
	library.function = (__typeof__(&(function)))dlsym(handle, #function); \
	if (!library.function)                                                \
		return FILE_NAME " has no " #function ": it is another version";
	LIBRARY_CALLS(FIND)
#undef FIND
	return NULL;
}
