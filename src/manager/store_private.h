/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by store.c, which writes records, and load.c, which reads them. */
#ifndef MANAGER_STORE_PRIVATE_H
#define MANAGER_STORE_PRIVATE_H

#include "manager/store.h"
#include "manager/stored.pb-c.h"

#define STORE_FORMAT	    4U
#define STORE_FORMAT_OLDEST 1U /* is read, and becomes the present one */

/* The first byte of a key. In the order in which records are loaded: each names only earlier
 * ones. */
enum store_kind {
	STORE_CLUSTER = 'c',
	STORE_PRINCIPAL = 'k',
	STORE_NAMESPACE = 'n',
	STORE_GRANTS = 'g',
	STORE_SERVER = 's',
	STORE_REMOVAL = 'x',
	STORE_FLASH = 't',
	STORE_EXTENT = 'e',
	STORE_REGION = 'r',
	STORE_SESSION = 'u',
	STORE_REFERENCE = 'f',
	STORE_OUTCOME = 'o',
};

struct store {
	struct metastore *metastore;
	struct undo *undo;
	void *changes; /* tree of struct change, in the order of the metastore */
	size_t nr_changes;
};

#endif
