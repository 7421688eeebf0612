/* SPDX-License-Identifier: BSD-3-Clause */
/* How servers join (joins.c). */
#ifndef MANAGER_JOINS_H
#define MANAGER_JOINS_H

#include "manager/core_private.h"

core_operation server_join;

#endif
