/* SPDX-License-Identifier: BSD-3-Clause */
/* The metastore in memory of the manager's tests; its commits fail when told to. */
#ifndef TESTS_MANAGER_MEMORY_STORE_H
#define TESTS_MANAGER_MEMORY_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manager/metastore/metastore.h"

struct memory_pair {
	struct meta_bytes key, value;
};
struct memory_store {
	struct metastore base;
	struct memory_pair *pairs; /* in order */
	size_t nr_pairs;
	uint64_t nr_commits;
	uint64_t fail_at; /* the how many-th commit from now fails; 0: none */
	int failure;
	bool is_broken;	  /* every commit fails */
	bool does_forget; /* commits succeed and do nothing */
	/* Is called in the middle of each commit: before anything has changed, and if it succeeds once more when it
	 * has changed. NULL: nobody. */
	void (*hold)(void *argument, bool is_done);
	void *hold_argument;
};
void memory_store_open(struct memory_store *store);
void memory_store_close(struct memory_store *store);
/* Keeps what is in it, and puts that back. `saved` is gone then. */
void memory_store_save(const struct memory_store *store, struct memory_store *saved);
void memory_store_restore(struct memory_store *store, struct memory_store *saved);
/* The order of keys. */
int memory_store_compare(struct meta_bytes left, struct meta_bytes right);

#endif
