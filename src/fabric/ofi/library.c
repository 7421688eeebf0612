/* SPDX-License-Identifier: BSD-3-Clause */
/* The few functions of libfabric that are not inline calls through its objects. */
#include "fabric/ofi/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* NULL: it is not there. */
static struct {
	uint32_t (*version)(void);
	const char *(*strerror)(int errnum);
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
} real;

/* Variables that the program's user has set stay. */
static void prepare_environment(void)
{
	/* The registration cache (verbs) keeps closed keys alive and adds rights that nobody asked for. It
	 * is read once, when libfabric starts. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	/* libinfinipath, which Debian's libfabric brings along, takes signals when it is loaded, to print a
	 * backtrace and exit with 1. An interrupt or a crash is the program's own business. */
	setenv("IPATH_NO_BACKTRACE", "1", 0);
}

static void load(void)
{
	void *library;

	prepare_environment();
	/* Never closed: its threads and exit handlers stay. */
	library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	*(void **)&real.version = dlsym(library, "fi_version");
	*(void **)&real.strerror = dlsym(library, "fi_strerror");
	*(void **)&real.dupinfo = dlsym(library, "fi_dupinfo");
	*(void **)&real.freeinfo = dlsym(library, "fi_freeinfo");
	*(void **)&real.fabric = dlsym(library, "fi_fabric");
	*(void **)&real.getinfo = dlsym(library, "fi_getinfo");
}

bool ofi_library_load(void)
{
	pthread_once(&once, load);
	return real.version && real.strerror && real.dupinfo && real.freeinfo && real.fabric &&
	       real.getinfo;
}

uint32_t fi_version(void)
{
	return ofi_library_load() ? real.version() : 0;
}

const char *fi_strerror(int errnum)
{
	return ofi_library_load() ? real.strerror(errnum) : "no libfabric";
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	return ofi_library_load() ? real.getinfo(version, node, service, flags, hints, info)
				  : -FI_ENOSYS;
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	return ofi_library_load() ? real.dupinfo(info) : NULL;
}

void fi_freeinfo(struct fi_info *info)
{
	if (ofi_library_load())
		real.freeinfo(info);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return ofi_library_load() ? real.fabric(attr, fabric, context) : -FI_ENOSYS;
}
