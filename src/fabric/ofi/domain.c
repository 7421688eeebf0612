/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains and the memory registered in them. A key means something in the domain it was made in,
 * and an endpoint is in one domain. A NIC looks keys up in its protection domain. Called through
 * the fabric seam, from any thread. A domain owns libfabric's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/error.h"
#include "fabric/ofi/ofi.h"

#define KEY_TRIES 8 /* random keys that may be taken already */

int ofi_domain_open(struct fabric *base, struct fabric_domain **out)
{
	struct ofi_fabric *fabric = ofi_container(base, struct ofi_fabric);
	struct ofi_domain *domain = calloc(1, sizeof(*domain));
	int ret;

	if (!domain)
		return error_code(-ENOMEM);
	domain->base.fabric = base;
	ret = fi_domain(fabric->fabric, fabric->info, &domain->domain, NULL);
	if (ret != 0) {
		free(domain);
		ret = ofi_errno(ret);
		return error_fail(ret, "open a protection domain of transport %s: %s",
				  base->attributes.transport, afar_strerror(ret));
	}
	*out = &domain->base;
	return 0;
}

void ofi_domain_close(struct fabric_domain *base)
{
	struct ofi_domain *domain = ofi_container(base, struct ofi_domain);

	fi_close(&domain->domain->fid);
	free(domain);
}

/* ---- Memory */

static uint64_t rights(unsigned access)
{
	uint64_t flags = 0;

	if ((access & FABRIC_LOCAL_READ) != 0)
		flags |= FI_WRITE;
	if ((access & FABRIC_LOCAL_WRITE) != 0)
		flags |= FI_READ;
	if ((access & FABRIC_REMOTE_READ) != 0)
		flags |= FI_REMOTE_READ;
	if ((access & FABRIC_REMOTE_WRITE) != 0)
		flags |= FI_REMOTE_WRITE;
	return flags;
}

/* A key that cannot be guessed, of as many bytes as the provider takes. */
static int make_key(const struct ofi_fabric *fabric, uint64_t *key)
{
	size_t size = fabric->info->domain_attr->mr_key_size;

	*key = 0;
	if (size > sizeof(*key))
		size = sizeof(*key);
	return getrandom(key, size, 0) == (ssize_t)size ? 0 : -EIO;
}

static int register_with_key(struct ofi_domain *domain, void *addr, size_t length, uint64_t flags,
			     struct fid_mr **mr)
{
	struct ofi_fabric *fabric = ofi_container(domain->base.fabric, struct ofi_fabric);
	uint64_t key = 0;
	int ret = -FI_ENOKEY;

	for (int i = 0; i < KEY_TRIES && ret == -FI_ENOKEY; i++) {
		if (!fabric->picks_keys && make_key(fabric, &key) != 0)
			return -EIO;
		ret = fi_mr_reg(domain->domain, addr, length, flags, 0, key, 0, mr, NULL);
	}
	return ret == 0 ? 0 : ofi_errno(ret);
}

/* Says what to do if no more memory can be pinned. */
static const char *pinning_advice(char *text, size_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return "; the machine has no more that can be pinned, register less";
	snprintf(text, size,
		 "; the process may pin %llu KiB (RLIMIT_MEMLOCK), raise that: ulimit -l, or "
		 "LimitMEMLOCK= of its service",
		 (unsigned long long)limit.rlim_cur >> 10);
	return text;
}

int ofi_memory_register(struct fabric_domain *base, void *addr, size_t length, unsigned access,
			struct fabric_memory *out)
{
	struct ofi_domain *domain = ofi_container(base, struct ofi_domain);
	struct ofi_fabric *fabric = ofi_container(base->fabric, struct ofi_fabric);
	bool is_remote = (access & (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE)) != 0;
	char advice[160];
	struct fid_mr *mr;
	int ret;

	*out = (struct fabric_memory){.domain = base};
	if (!is_remote && !base->fabric->attributes.needs_local_registration)
		return 0;
	ret = register_with_key(domain, addr, length, rights(access), &mr);
	if (ret != 0)
		return error_fail(ret, "register %zu bytes of memory with %s: %s%s", length,
				  base->fabric->attributes.transport, afar_strerror(ret),
				  ret == -ENOMEM || ret == -EAGAIN
					  ? pinning_advice(advice, sizeof(advice))
					  : "");
	out->handle = mr;
	out->descriptor = fi_mr_desc(mr);
	out->key = fi_mr_key(mr);
	out->base = fabric->is_virtual_addressed ? (uint64_t)(uintptr_t)addr : 0;
	return 0;
}

bool ofi_memory_deregister(struct fabric_memory *memory)
{
	struct fid_mr *mr = memory->handle;

	if (mr)
		fi_close(&mr->fid);
	memory->handle = NULL;
	return true;
}
