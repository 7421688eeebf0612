/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: create, open, delete, list, release (namespaces.c). */
#ifndef MANAGER_NAMESPACES_H
#define MANAGER_NAMESPACES_H

#include "manager/core_private.h"

core_operation namespace_create, namespace_open, namespace_delete, namespace_list,
	namespace_release, namespace_accept;
/* Releases whole extents in which nothing is, of at most so many bytes together. `*given`: of how many. -ENOMEM. */
int namespace_give_back(struct core *core, struct namespace *ns, uint64_t bytes, uint64_t *given);

#endif
