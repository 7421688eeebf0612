/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by store.c, which commits records, store_records.c, which makes them, and load.c, which reads them. */
#ifndef MANAGER_STORE_PRIVATE_H
#define MANAGER_STORE_PRIVATE_H

#include "manager/stored.pb-c.h"
#include "manager/tables/store.h"

#define STORE_FORMAT	    4U
#define STORE_FORMAT_OLDEST 1U /* is read, and becomes the present one */

/* The first byte of a key: a small letter (store.h). In the order in which records are loaded: each names
 * only earlier ones. */
enum store_kind {
	STORE_CLUSTER = 'c',
	STORE_PAST_TERMS = 'h',
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

/*
 * The fields that a row (rows.h) and its record (stored.proto) both have, under one name and as they are. The list
 * of a kind copies all of them, with STORE_PUT or STORE_TAKE. The other fields are in store_records.c and load.c.
 */
#define STORE_PUT(field)  record.field = row->field
#define STORE_TAKE(field) row->field = record->field

#define CLUSTER_FIELDS(COPY) \
	(COPY(next_namespace), COPY(next_server), COPY(next_generation), COPY(accepted_below))
#define PRINCIPAL_FIELDS(COPY) \
	(COPY(number), COPY(is_server), COPY(max_bytes), COPY(is_any), COPY(has_uid), COPY(uid))
#define NAMESPACE_FIELDS(COPY)                                                                     \
	(COPY(number), COPY(tier), COPY(width), COPY(stripe_bytes), COPY(max_bytes),               \
	 COPY(is_volume), COPY(is_files), COPY(identity), COPY(next_address), COPY(has_had_first), \
	 COPY(is_deleted), COPY(is_suspect))
#define REGION_FIELDS(COPY)                                                                        \
	(COPY(generation), COPY(address), COPY(length), COPY(stripe_bytes), COPY(has_nic_atomics), \
	 COPY(is_freed), COPY(layout_number), COPY(is_unfinished), COPY(maker), COPY(family),      \
	 COPY(version), COPY(is_draft), COPY(has_word), COPY(claim))

struct store {
	struct metastore *metastore;
	struct undo *undo;
	void *changes; /* tree of struct change, in the order of the metastore */
	size_t nr_changes;
	size_t nr_table_changes; /* of them */
	uint64_t batch;		 /* that runs, until its commit has ended; from 1 */
	/* These are of a request beside it. */
	bool is_beside;
	bool has_touched; /* has read what the batch has changed, or collected */
};

#endif
