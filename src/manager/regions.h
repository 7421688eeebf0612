/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces (namespaces.c), the regions in them (regions.c), who has them open (references.c), where their
 * bytes go (region_places.c), and what lets sessions at their memory (access.c). */
#ifndef MANAGER_REGIONS_H
#define MANAGER_REGIONS_H

#include "manager/core_private.h"

core_operation namespace_create, namespace_open, namespace_delete, namespace_list,
	namespace_release, namespace_accept;
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
/* Releases whole extents in which nothing is, of at most so many bytes together. `*given`: of how many. -ENOMEM. */
int namespace_give_back(struct core *core, struct namespace *ns, uint64_t bytes, uint64_t *given);

core_operation region_alloc, region_open, region_close, region_free_operation, region_list,
	region_access, region_look, region_finish;

/* ---- region_places.c */

struct placement;
/* Takes `bytes`, a multiple of SPACE_UNIT, out of what the namespace has free. What it took is taken
 * back with the operation. -AFAR_ERESERVE, -ETIMEDOUT, with a sentence; -ENOMEM. */
int region_place(struct core *core, struct namespace *ns, uint64_t bytes, struct placement *out);
/* Takes one run of so many bytes likewise. -ENOSPC without a sentence: no run is so long; -ENOMEM. */
int region_place_unit(struct core *core, struct namespace *ns, uint64_t bytes,
		      struct placement *out);

/* ---- references.c */

/* Finds a region by its generation, which a client may have from long ago. -ENOENT, -AFAR_EFREED
 * with a sentence; a region in whose namespace the session has no right is one that was freed. */
int region_find(const struct core *core, const struct session *session, const char *asked,
		uint64_t ns_number, uint64_t address, uint64_t generation, struct region **out);
/* Finds the reference of a session that has the region open, else -EINVAL with a sentence. */
int region_find_reference(const struct session *session, const char *asked,
			  const struct region *region, struct reference **out);
/* Counts the session into those that have the region open, in a mode if it is new there. -ENOMEM. */
int region_take_reference(struct core *core, struct session *session, struct region *region,
			  enum volume_mode mode);
/* Drops a reference. The region's memory returns when it was the last to a freed region.
 * -ENOMEM. */
int region_drop(struct core *core, struct reference *reference);

/* Gives the memory of a freed region back when nobody has it open, and does nothing before. On flash
 * the region waits for trims then. -ENOMEM. */
int region_reclaim(struct core *core, struct region *region);
/* Gives it back at once: it waits for nothing. -ENOMEM. */
int region_remove(struct core *core, struct region *region);
/* It is freed: nobody opens it any more. Its memory waits for those that have it open. -ENOMEM. */
int region_end(struct core *core, struct region *region);
/* Gives the memory of a deleted namespace back once no region is left. -ENOMEM. */
int namespace_finish(struct core *core, struct namespace *ns);
/* An extent of a namespace goes, with nothing in it. -ENOMEM. */
int namespace_release_extent(struct core *core, struct extent *extent);

/* Versions of copy-on-write regions: versions.c. */
core_operation region_begin, region_prepare, region_publish, region_use;
core_wait versions_wait;
/* A begin that may wait does so until the writer has ended, or has not used its claim for a while. */
core_wait versions_wait_to_begin;
/* Gives a region its unit, and a layout in which nothing has been written. -AFAR_ERESERVE, with a sentence; -ENOMEM. */
int versions_first_layout(struct core *core, struct namespace *ns, struct region *region);
/* Finds the newest version of a region. -AFAR_EFREED, with a sentence. */
int versions_find_newest(const char *asked, const struct region *region, struct region **out);
/* Counts the versions before the newest one that sessions have open, and those sessions, added up. */
void versions_count(const struct region *newest, uint32_t *nr_older, uint32_t *nr_references);
/* Returns who is writing the next version, for people; empty: nobody. The caller's to free; NULL: no memory. */
char *versions_writer(const struct core *core, const struct region *newest);
/* Marks in a layout's message what nobody writes. Does nothing for a region without versions. */
void versions_freeze(const struct region *region, Layout__Layout *message);

/* Returns what the session may do with the region: RIGHT_READ, RIGHT_WRITE. */
uint32_t region_rights(const struct core *core, const struct session *session,
		       const struct region *region);
/* Tells of servers of the region that are down. -ENOMEM. */
int access_tell_away(const struct core *core, const struct region *region, Afar__Accesses *out);
/* Makes passes and capabilities for the servers of the region's chunks that are connected. -ENOMEM:
 * `*out` is empty. */
int access_make(const struct core *core, const struct session *session, const struct region *region,
		Afar__Access ***out, size_t *nr_out);

#endif
