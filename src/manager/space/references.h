/* SPDX-License-Identifier: BSD-3-Clause */
/* References of sessions to regions; the end of a region comes with its last one (references.c). */
#ifndef MANAGER_REFERENCES_H
#define MANAGER_REFERENCES_H

#include "manager/core_private.h"

struct job;

core_operation region_close;

/* Finds a region by its generation, which a client may have from long ago. -ENOENT, -AFAR_EFREED
 * with a sentence; a region in whose namespace the session has no right is one that was freed. */
int region_find(const struct core *core, const struct session *session, const char *asked,
		uint64_t ns_number, uint64_t address, uint64_t generation, struct region **out);
/* Finds the region that a job changes, as it is now. -AFAR_EFREED, -AFAR_ELOST with a sentence. */
int region_of_job(const struct core *core, const struct job *job, const char *asked,
		  struct region **out);
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

/* Returns what the session may do with the region: RIGHT_READ, RIGHT_WRITE. */
uint32_t region_rights(const struct core *core, const struct session *session,
		       const struct region *region);

#endif
