/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: alloc, open, close, free, list (regions.c). */
#ifndef MANAGER_REGIONS_H
#define MANAGER_REGIONS_H

#include "manager/core_private.h"

/* How people call a namespace, a volume and a file system, and the group of commands about it. */
static inline const char *kind_noun(bool is_volume, bool is_files)
{
	return !is_volume ? "namespace" : is_files ? "file system" : "volume";
}
static inline const char *kind_command(bool is_volume, bool is_files)
{
	return !is_volume ? "ns" : is_files ? "fs" : "volume";
}
static inline const char *namespace_noun(const struct namespace *ns)
{
	return kind_noun(ns->is_volume, ns->is_files);
}
static inline const char *namespace_command(const struct namespace *ns)
{
	return kind_command(ns->is_volume, ns->is_files);
}

core_operation region_alloc, region_open, region_free_operation, region_list, region_access,
	region_look, region_finish;

#endif
