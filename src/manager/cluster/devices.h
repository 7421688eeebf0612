/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that operators add to running servers, and take from them: both are jobs (devices.c). */
#ifndef MANAGER_DEVICES_H
#define MANAGER_DEVICES_H

#include "manager/core_private.h"

/* devices.c */
core_operation store_add, store_remove, store_lend;

#endif
