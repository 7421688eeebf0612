/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing a region: the manager replaces its layout. This handle takes the new one at once; changes.c says how others hear of
 * a shorter one. */
#include <errno.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/region.h"

static int resize(struct afar_target *target, uint64_t bytes)
{
	Afar__RegionResize message = AFAR__REGION_RESIZE__INIT;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	message.bytes = bytes;
	return target_change(target, RPC_REQUEST(REGION_RESIZE, region_resize, &message));
}

PUBLIC_CALL(int, afar_region_resize, (struct afar_region *region, uint64_t bytes), (region, bytes))
{
	int ret = region_check(region);

	if (ret)
		return ret;
	if (!handle_enter(&region->target.handle))
		return error_fail(-EINVAL, "resize a region: it is being closed");
	ret = resize(&region->target, bytes);
	handle_unuse(&region->target.handle);
	return ret;
}
