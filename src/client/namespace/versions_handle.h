/* SPDX-License-Identifier: BSD-3-Clause */
/* A handle's version of a copy-on-write region, and views of memory that it does not show (versions_handle.c). */
#ifndef CLIENT_VERSIONS_HANDLE_H
#define CLIENT_VERSIONS_HANDLE_H

#include <afar/cow.h>

#include "client/namespace/region.h"

/* A target that shows memory of the region which the handle itself does not. */
struct version_view {
	struct afar_target target;
};
struct versions {
	uint64_t number;	   /* of the version that the handle is at */
	uint64_t claim;		   /* of the last version that it began, or tried to */
	uint32_t claim_ms;	   /* the claim to write it lasts so long unused; 0: for ever */
	uint64_t unit;		   /* bytes */
	bool has_word;		   /* behind the region's bytes: the newest version's number */
	bool is_draft;		   /* begun, and not known to be published */
	bool is_torn;		   /* a prepare has failed: bytes are missing */
	bool is_asked;		   /* the manager was asked to publish it, and may have */
	struct version_view *word; /* on the word; NULL: not used yet */
	pthread_mutex_t lock;	   /* guards `word` */
};
/* Takes what the manager says of the version that the handle is at. */
void versions_take_info(struct versions *versions, const Afar__RegionInfo *info);
/* Makes a view of what a layout shows: -ENOMEM, and those of target_init_beside(); and ends it. NULL is allowed. */
int version_view_open(struct afar_target *target, const struct layout *shown,
		      struct version_view **out);
void version_view_close(struct version_view *view);

/* Versions of copy-on-write regions. Makes what a new handle of one needs: -ENOMEM; and frees it. */
int versions_open(struct afar_region *region, const Afar__RegionInfo *info);
void versions_close(struct afar_region *region);

#endif
