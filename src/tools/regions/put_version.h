/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar region put --cow`: a file as the next version of a copy-on-write region. */
#ifndef TOOLS_PUT_VERSION_H
#define TOOLS_PUT_VERSION_H

#include "region.h"

struct version_source {
	const char *name; /* for messages */
	int fd;		  /* of a file, which is read from its position on */
	uint64_t length;
};

/*
 * Publishes a version that equals the file, of which only the units are new that differ. Makes the region if there is none.
 * Reserves what the namespace lacks. Returns 0, after a line that says what has changed, or an exit status.
 */
int put_version(struct cli *cli, const struct region_name *target,
		const struct version_source *source);

#endif
