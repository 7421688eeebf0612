/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions of copy-on-write regions (versions.c). */
#ifndef MANAGER_VERSIONS_H
#define MANAGER_VERSIONS_H

#include "manager/core_private.h"

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

#endif
