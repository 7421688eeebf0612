/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for ganesha.c where there is no libnfs to build with. */
#include <errno.h>

#include "ganesha.h"

const char *ganesha_missing(void)
{
	return "not built: apt install libnfs-dev nfs-ganesha nfs-ganesha-vfs, and build again";
}

int ganesha_open(const char *folder, struct ganesha **out)
{
	(void)folder;
	(void)out;
	return -ENOENT;
}

void ganesha_close(struct ganesha *ganesha)
{
	(void)ganesha;
}

int ganesha_make(struct ganesha *ganesha, const char *name, const void *data, size_t length)
{
	(void)ganesha;
	(void)name;
	(void)data;
	(void)length;
	return -ENOENT;
}

int ganesha_append(struct ganesha *ganesha, const char *name, uint64_t end, const void *data,
		   size_t length)
{
	(void)ganesha;
	(void)name;
	(void)end;
	(void)data;
	(void)length;
	return -ENOENT;
}

int ganesha_look(struct ganesha *ganesha, const char *name)
{
	(void)ganesha;
	(void)name;
	return -ENOENT;
}

int ganesha_read(struct ganesha *ganesha, const char *name, void *data, size_t length)
{
	(void)ganesha;
	(void)name;
	(void)data;
	(void)length;
	return -ENOENT;
}

int ganesha_remove(struct ganesha *ganesha, const char *name)
{
	(void)ganesha;
	(void)name;
	return -ENOENT;
}

int ganesha_stream(struct ganesha *ganesha, const char *name, void *data, size_t size,
		   uint64_t bytes)
{
	(void)ganesha;
	(void)name;
	(void)data;
	(void)size;
	(void)bytes;
	return -ENOENT;
}
