/* SPDX-License-Identifier: BSD-3-Clause */
/* Names the manager's records for people, who hear it when one is damaged. */
#ifndef MANAGER_RECORD_NAMES_H
#define MANAGER_RECORD_NAMES_H

#include "manager/metastore/metastore.h"

#define RECORD_NAME_MAX 512U /* bytes, final 0 included */

/* Writes "inode 12 of file system 3" and the like, of a record with this key. */
void record_name(struct meta_bytes key, char out[RECORD_NAME_MAX]);

#endif
