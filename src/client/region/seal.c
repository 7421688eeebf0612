/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealing a region: the manager has it copied and its layout replaced. The session takes the new
 * layout at once. */
#include <errno.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/region.h"

static int seal(struct afar_target *target)
{
	Afar__RegionSeal message = AFAR__REGION_SEAL__INIT;

	message.namespace_ = target->ns;
	message.address = target->address;
	message.generation = target->generation;
	return target_change(target, RPC_REQUEST(REGION_SEAL, region_seal, &message));
}

PUBLIC_CALL(int, afar_region_seal, (struct afar_region *region), (region))
{
	struct afar_target *target;
	int ret = region_check(region);

	if (ret)
		return ret;
	target = &region->target;
	if (target->is_sealed)
		return 0;
	if (!handle_enter(&target->handle))
		return error_fail(-EINVAL, "seal a region: it is being closed");
	target_flush(target);
	ret = seal(target);
	handle_unuse(&target->handle);
	return ret;
}
