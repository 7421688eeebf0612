/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by state.c, state_memory.c and state_sessions.c. */
#ifndef MANAGER_STATE_PRIVATE_H
#define MANAGER_STATE_PRIVATE_H

#include "manager/state.h"

/* Without unlinking. */
void extent_free(struct extent *extent);
void state_free_sessions(struct cds_list_head *sessions);

#endif
