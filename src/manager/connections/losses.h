/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells what is lost with a server, or with a store (losses.c). */
#ifndef MANAGER_LOSSES_H
#define MANAGER_LOSSES_H

#include "manager/core_private.h"

core_operation loss_list;
/* Finds where a server's memory is, or with a number of one a store. -ENOENT, with a sentence. */
int losses_home(const struct core *core, uint64_t server_number, uint64_t store_number,
		struct layout_home *out);

#endif
