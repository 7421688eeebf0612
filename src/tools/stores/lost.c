/* SPDX-License-Identifier: BSD-3-Clause */
/* See lost.h. */
#include "lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX     64
#define NAME_COLUMNS 24
#define FILES_MAX    1000000U /* counted of a file system */

const struct lost_calls lost_with_server = {afar_server_regions, afar_server_losses};
const struct lost_calls lost_with_store = {afar_store_regions, afar_store_losses};

struct losses {
	struct afar_loss *entries;
	size_t nr, max;
	bool is_short; /* of memory */
};

/* ---- Gathering */

static void take(void *argument, const struct afar_loss *loss)
{
	struct losses *losses = argument;

	if (losses->nr == losses->max) {
		size_t max = losses->max * 2 + 16;
		struct afar_loss *more = reallocarray(losses->entries, max, sizeof(*more));

		losses->is_short |= !more;
		if (!more)
			return;
		losses->entries = more;
		losses->max = max;
	}
	losses->entries[losses->nr++] = *loss;
}

static bool is_a_pool(const struct losses *losses, const char *ns)
{
	for (size_t i = 0; i < losses->nr; i++)
		if (losses->entries[i].kind == AFAR_LOSS_FILES &&
		    !strcmp(losses->entries[i].ns, ns))
			return true;
	return false;
}

/* ---- Regions, one by one */

static void print_region(const struct afar_server_region *region)
{
	char length[SIZE_TEXT_MAX];

	cli_print_padded(region->ns, NAME_COLUMNS);
	printf(" 0x%-16" PRIx64 " %11s  ", region->address, size_text(region->length, length));
	cli_print(region->name);
	putchar('\n');
}

static int print_regions(struct cli *cli, const struct lost_calls *calls, uint64_t number,
			 const struct losses *losses)
{
	struct afar_server_region regions[LIST_MAX];
	bool has_heading = false;
	uint64_t after = 0;
	int n;

	do {
		regions[0].size = sizeof(regions[0]);
		n = calls->list(cli->session, number, after, regions, LIST_MAX);
		for (int i = 0; i < n; i++) {
			/* Only a part of a file system's pool goes: it is told by files. */
			if (is_a_pool(losses, regions[i].ns))
				continue;
			if (!has_heading)
				printf("%-*s %-18s %11s  %s\n", NAME_COLUMNS, "NAMESPACE",
				       "ADDRESS", "LENGTH", "NAME");
			has_heading = true;
			print_region(&regions[i]);
		}
		if (n > 0)
			after = regions[n - 1].generation;
	} while (n > 0);
	if (has_heading)
		putchar('\n');
	return n;
}

/* ---- Namespaces */

static const char *nouns[][2] = {
	[AFAR_LOSS_REGIONS] = {"region", "regions"},
	[AFAR_LOSS_VOLUME] = {"volume", "volumes"},
	[AFAR_LOSS_FILES] = {"file", "files"},
};
#define NR_KINDS (sizeof(nouns) / sizeof(nouns[0]))

static void print_loss(const struct afar_loss *loss)
{
	static const char *kinds[] = {"regions", "volume", "file system"};
	char bytes[SIZE_TEXT_MAX], nr[64];

	snprintf(nr, sizeof(nr), "%s%" PRIu64 " %s", loss->is_cut ? "at least " : "", loss->nr,
		 nouns[loss->kind][loss->nr == 1 ? 0 : 1]);
	cli_print_padded(loss->ns, NAME_COLUMNS);
	printf(" %-11s  %-24s %s%s\n", kinds[loss->kind], nr, loss->is_cut ? "at least " : "",
	       size_text(loss->bytes, bytes));
}

static void print_losses(const struct losses *losses)
{
	if (losses->nr != 0)
		printf("%-*s %-11s  %-24s %s\n", NAME_COLUMNS, "NAMESPACE", "KIND", "LOST",
		       "BYTES");
	for (size_t i = 0; i < losses->nr; i++)
		print_loss(&losses->entries[i]);
	if (losses->nr != 0)
		putchar('\n');
}

/* ---- All together */

/* Regions are told of in any case. */
static void sum_up(const struct losses *losses, char out[LOST_TEXT_MAX])
{
	uint64_t sums[NR_KINDS] = {0};
	bool is_cut = false;
	size_t length, nr_parts = 1, part = 0;

	for (size_t i = 0; i < losses->nr; i++) {
		sums[losses->entries[i].kind] += losses->entries[i].nr;
		is_cut |= losses->entries[i].is_cut;
	}
	nr_parts += sums[AFAR_LOSS_VOLUME] != 0 ? 1 : 0;
	nr_parts += sums[AFAR_LOSS_FILES] != 0 ? 1 : 0;
	out[0] = '\0';
	for (size_t i = 0; i < NR_KINDS; i++) {
		if (sums[i] == 0 && i != AFAR_LOSS_REGIONS)
			continue;
		length = strlen(out);
		snprintf(out + length, LOST_TEXT_MAX - length, "%s%s%" PRIu64 " %s",
			 part == 0	       ? ""
			 : part + 1 < nr_parts ? ", "
					       : " and ",
			 is_cut && i == AFAR_LOSS_FILES ? "at least " : "", sums[i],
			 nouns[i][sums[i] == 1 ? 0 : 1]);
		part++;
	}
}

const char *lost_verb(const char lost[LOST_TEXT_MAX])
{
	return !strcmp(lost, "1 region") ? "is" : "are";
}

int lost_print(struct cli *cli, const struct lost_calls *calls, uint64_t number,
	       char out[LOST_TEXT_MAX])
{
	struct losses losses = {0};
	int ret = calls->count(cli->session, number, FILES_MAX, take, &losses);

	if (!ret && !losses.is_short)
		ret = print_regions(cli, calls, number, &losses);
	if (!ret && !losses.is_short) {
		print_losses(&losses);
		sum_up(&losses, out);
	}
	free(losses.entries);
	if (ret)
		return cli_fail_last(ret);
	return losses.is_short ? cli_fail("tell what is lost: no memory") : 0;
}
