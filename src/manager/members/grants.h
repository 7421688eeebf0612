/* SPDX-License-Identifier: BSD-3-Clause */
/* Granting rights on namespaces, and taking them back (grants.c). */
#ifndef MANAGER_GRANTS_H
#define MANAGER_GRANTS_H

#include "manager/core_private.h"

core_operation namespace_grant;

#endif
