/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/metastore/lmdb_check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "manager/metastore/lmdb_pages.h"
#include "manager/metastore/sums.h"

struct check {
	struct lmdb_findings *findings;
	metastore_found *found;
	void *argument;
};

static void tell(const struct check *check, struct meta_bytes key, const char *sentence)
{
	if (check->findings->first[0] == '\0')
		snprintf(check->findings->first, sizeof(check->findings->first), "%s", sentence);
	if (check->found)
		check->found(check->argument, key, sentence);
}

static void see_fault(void *argument, const char *sentence)
{
	const struct check *check = argument;

	check->findings->nr_pages++;
	tell(check, (struct meta_bytes){0}, sentence);
}

static void see_pair(void *argument, struct meta_bytes key, struct meta_bytes stored)
{
	const struct check *check = argument;
	struct meta_bytes value;
	int ret = sums_check(key, stored, &value);

	sums_add(&check->findings->totals, stored);
	if (ret == -EBADMSG) {
		check->findings->nr_values++;
		tell(check, key, "the value of a record is damaged");
	} else if (ret < 0) {
		check->findings->nr_keys++;
		tell(check, key, "the key of a record is damaged");
	}
}

int lmdb_check(int fd, const struct redo_checkpoint *checkpoint, metastore_found *found,
	       void *argument, struct lmdb_findings *out)
{
	struct check check = {out, found, argument};
	const struct pages_visitor visitor = {see_pair, see_fault, &check};

	*out = (struct lmdb_findings){0};
	return pages_walk(fd, checkpoint->heads, checkpoint->length, &visitor);
}
