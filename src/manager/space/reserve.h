/* SPDX-License-Identifier: BSD-3-Clause */
/* Reserving: a kind of job (reserve.c). */
#ifndef MANAGER_RESERVE_H
#define MANAGER_RESERVE_H

#include "manager/core_private.h"

core_operation namespace_reserve, reserve_cancel;

#endif
