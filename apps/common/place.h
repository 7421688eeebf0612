/* SPDX-License-Identifier: BSD-3-Clause */
/* Where items come from and go to: a region, or a file of this machine. */
#ifndef APPS_COMMON_PLACE_H
#define APPS_COMMON_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <afar/afar.h>

#include "tools/copy/ends.h"

struct place {
	struct end end;		   /* with the text as it was typed; its kind is none */
	struct afar_namespace *ns; /* NULL: a file */
	uint64_t length;
	char part[PATH_MAX]; /* the file while it is made; empty: it is not */
};

/* Returns whether `text` names a region. */
bool place_is_region(const char *text);
/* Copies the namespace's name out of a region's. Returns 0, or -EINVAL with a line. */
int place_namespace(const char *text, char out[AFAR_NAME_MAX + 1]);

/* Opens what is there, to read. */
int place_open(struct afar_session *session, const char *text, struct place *out);
/*
 * Makes what is to be written, `bytes` long: an unfinished region, or a file beside the one it will replace. The file
 * has the name of the `program` in its own. The namespace must have the memory. A region of 0 bytes is -EINVAL. If the
 * process is killed, the manager removes the region; the file stays, until somebody makes it again.
 */
int place_create(struct afar_session *session, const char *text, uint64_t bytes,
		 const char *program, bool may_replace, struct place *out);
/* Opens what another process has made so, to write. */
int place_join(struct afar_session *session, const char *text, const char *program,
	       struct place *out);

/* Says that it is complete: makes it durable where it is on flash, and gives a file its name. */
int place_finish(struct place *place);
/* Removes what was made or joined, and not finished by anybody. Does nothing if it is gone. */
void place_discard(struct place *place);
void place_close(struct place *place);

#endif
