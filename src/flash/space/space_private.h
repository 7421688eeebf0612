/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of the address space share: space.c (changes), space_look.c,
 * space_open.c. */
#ifndef FLASH_SPACE_PRIVATE_H
#define FLASH_SPACE_PRIVATE_H

#include <urcu/list.h>

#include "flash/space/space.h"
#include "flash/space/space_table.h"

struct space {
	struct ftl *ftl;
	struct space_table table;
	unsigned nr_under_way;
	struct cds_list_head repeats; /* space_open.c's */
};

/* Returns how many blocks of a range can be found when no change is under way. */
static inline uint64_t space_visible(const struct space_record *record)
{
	switch ((enum space_intent)record->intent) {
	case SPACE_SHRINKING:
		return record->keep;
	case SPACE_REMOVING:
		return 0;
	default:
		return record->length;
	}
}

/* space.c: begins the rest of the change that the range's record intends, which a crash interrupted. */
void space_resume(struct space *space, struct space_request *request, struct space_entry *entry);

#endif
