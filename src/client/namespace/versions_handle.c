/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of copy-on-write regions: each has a version, and views of the memory of others. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/namespace/region.h"
#include "client/namespace/versions_handle.h"

void versions_take_info(struct versions *versions, const Afar__RegionInfo *info)
{
	versions->number = info->version;
	versions->is_draft = info->is_draft != 0;
	versions->claim_ms = info->claim_ms;
	versions->is_torn = versions->is_asked = false;
}

int versions_open(struct afar_region *region, const Afar__RegionInfo *info)
{
	struct versions *versions;

	if (info->stripe_bytes == 0)
		return error_fail(
			-AFAR_EMALFORMED,
			"open a copy-on-write region: its units have 0 bytes; the manager "
			"is faulty");
	versions = calloc(1, sizeof(*versions));
	if (!versions)
		return error_code(-ENOMEM);
	pthread_mutex_init(&versions->lock, NULL);
	versions->unit = info->stripe_bytes;
	versions->has_word = info->word_bytes >= sizeof(uint64_t);
	versions_take_info(versions, info);
	region->versions = versions;
	region->target.is_published = !versions->is_draft;
	return 0;
}

void version_view_close(struct version_view *view)
{
	if (!view)
		return;
	target_destroy(&view->target);
	handle_discard(view);
}

void versions_close(struct afar_region *region)
{
	if (!region->versions)
		return;
	version_view_close(region->versions->word);
	pthread_mutex_destroy(&region->versions->lock);
	free(region->versions);
	region->versions = NULL;
}

static const struct target_kind view_kind = {
	.noun = "copy-on-write region",
	.handle = HANDLE_REGION,
	.opcodes = 1U << AFAR_OP_READ | 1U << AFAR_OP_FLUSH | 1U << AFAR_OP_COMPARE_SWAP,
};

int version_view_open(struct afar_target *target, const struct layout *shown,
		      struct version_view **out)
{
	struct version_view *view = handle_new(HANDLE_REGION, sizeof(*view));
	struct layout *layout = layout_duplicate(shown);
	int ret = -ENOMEM;

	if (view && layout)
		ret = target_init_beside(&view->target, &view_kind, target, layout);
	else
		layout_free(layout);
	if (ret) {
		handle_discard(view);
		return error_code(ret);
	}
	*out = view;
	return 0;
}
