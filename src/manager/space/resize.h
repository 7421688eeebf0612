/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions become longer or shorter: the latter is a kind of job (resize.c). */
#ifndef MANAGER_RESIZE_H
#define MANAGER_RESIZE_H

#include "manager/core_private.h"

core_operation region_resize;
/* It waits for a job that changes the region's layout, and for memory that is about to be free. */
core_wait resize_wait;

#endif
