/* SPDX-License-Identifier: BSD-3-Clause */
/* Every request asks here before it changes something: does the layer still take changes, and can the blocks be the caller's? */
#include <errno.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/ftl_private.h"

int ftl_failure(const struct ftl *ftl)
{
	return ftl->failed ? ftl->failed : ftl->journal.failed;
}

int ftl_refusal(const struct ftl *ftl)
{
	return ftl->is_read_only ? -EROFS : ftl_failure(ftl);
}

void ftl_fail(struct ftl *ftl, int code)
{
	if (ftl->failed)
		return;
	log_error("flash: nothing can be changed any more: %s", afar_strerror(code));
	ftl->failed = code;
}

bool ftl_is_range(uint64_t lba, uint64_t count)
{
	return ftl_lba_range(lba) < FTL_NR_RANGES && count <= UINT64_C(1) << 32 &&
	       ftl_lba_block(lba) + count <= UINT64_C(1) << 32;
}
