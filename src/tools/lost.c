/* SPDX-License-Identifier: BSD-3-Clause */
/* See lost.h. */
#include "lost.h"

#include <inttypes.h>
#include <stdio.h>

#define LIST_MAX     64
#define NAME_COLUMNS 24

static void print_region(const struct afar_server_region *region)
{
	char length[SIZE_TEXT_MAX];

	cli_print_padded(region->ns, NAME_COLUMNS);
	printf(" 0x%-16" PRIx64 " %11s  ", region->address, size_text(region->length, length));
	cli_print(region->name);
	putchar('\n');
}

int64_t lost_print(struct cli *cli, lost_call *call, uint64_t number)
{
	struct afar_server_region regions[LIST_MAX];
	uint64_t after = 0;
	int64_t total = 0;
	int n;

	do {
		regions[0].size = sizeof(regions[0]);
		n = call(cli->session, number, after, regions, LIST_MAX);
		if (n > 0 && total == 0)
			printf("%-*s %-18s %11s  %s\n", NAME_COLUMNS, "NAMESPACE", "ADDRESS",
			       "LENGTH", "NAME");
		for (int i = 0; i < n; i++)
			print_region(&regions[i]);
		if (n > 0)
			after = regions[n - 1].generation;
		total += n;
	} while (n > 0);
	return n < 0 ? n : total;
}
