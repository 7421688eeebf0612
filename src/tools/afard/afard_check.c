/* SPDX-License-Identifier: BSD-3-Clause */
#include "afard_check.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "manager/metastore/metastore.h"
#include "manager/tables/record_names.h"

static void print_found(void *argument, struct meta_bytes key, const char *sentence)
{
	char name[RECORD_NAME_MAX];

	*(bool *)argument = true;
	if (key.length != 0) {
		record_name(key, name);
		printf("%s: %s\n", name, sentence);
	} else {
		printf("%s\n", sentence);
	}
}

int check_folder(const char *folder)
{
	char inner[PATH_MAX + 32], data[PATH_MAX + 32];
	bool is_damaged = false;
	int64_t nr;

	snprintf(inner, sizeof(inner), "%.*s/manager", PATH_MAX, folder);
	snprintf(data, sizeof(data), "%.*s/data.mdb", PATH_MAX, folder);
	nr = metastore_lmdb_check(access(data, F_OK) < 0 && access(inner, F_OK) == 0 ? inner
										     : folder,
				  print_found, &is_damaged);
	if (nr < 0) {
		fprintf(stderr, "afard: %s\n", error_last_line());
		return 1;
	}
	if (!is_damaged) {
		printf("%" PRId64 " records, all as they were committed\n", nr);
		return 0;
	}
	fprintf(stderr,
		"afard: check %s: it is damaged, as shown; put the whole folder back from a copy\n",
		folder);
	return 1;
}
