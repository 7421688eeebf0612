/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MANAGER_RECORDS_CHECK_H
#define MANAGER_RECORDS_CHECK_H

#include "manager/core_private.h"

core_operation check_records;

#endif
