/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares what is stored of a file system with itself. Each unit of the pool is free, in one file,
 * or being zeroed. Each inode has as many names as it says, and each directory as many entries. It
 * reads everything, and changes nothing. Sizes of files that are being written are not compared.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"
#include "manager/tables/record_names.h"

#define FAULTS_MAX	100U
#define FAULT_BYTES_MAX 256U

/* The findings about an inode, beside what it says. */
struct found {
	uint64_t ino;
	const struct inode *says;
	uint64_t nr_names;
	uint64_t nr_entries;
	uint64_t nr_directories; /* of the entries */
	uint64_t nr_units;
	bool is_unlinked;
};

struct check {
	struct fs *fs;
	struct found *found; /* in order of ino */
	size_t nr_found, max_found;
	uint8_t *taken; /* a bit for each unit of the pool */
	uint64_t nr_units;
	char *text; /* faults, each ended by 0 */
	size_t length;
	unsigned nr_faults;
};

__attribute__((format(printf, 2, 3))) static int fault(struct check *check, const char *format, ...)
{
	char line[FAULT_BYTES_MAX];
	va_list arguments;
	size_t length;
	char *more;

	if (check->nr_faults++ >= FAULTS_MAX)
		return 0;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	length = strlen(line) + 1;
	more = realloc(check->text, check->length + length);
	if (!more)
		return error_code(-ENOMEM);
	memcpy(more + check->length, line, length);
	check->text = more;
	check->length += length;
	return 0;
}

static unsigned long long printable(uint64_t number)
{
	return number;
}

static struct found *find(const struct check *check, uint64_t ino)
{
	size_t low = 0, high = check->nr_found;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (check->found[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return low < check->nr_found && check->found[low].ino == ino ? &check->found[low] : NULL;
}

/* ---- Inodes */

static int take_inode(void *argument, uint64_t ino, struct inode *inode)
{
	struct check *check = argument;

	if (check->nr_found == check->max_found) {
		size_t max = check->max_found * 2 + 64;
		struct found *more = reallocarray(check->found, max, sizeof(*more));

		if (!more) {
			free(inode);
			return error_code(-ENOMEM);
		}
		check->found = more;
		check->max_found = max;
	}
	check->found[check->nr_found++] = (struct found){.ino = ino, .says = inode};
	if (!inode_has_sane_stripes(inode))
		return fault(check,
			     "inode %llu has stripes of %llu bytes over %u servers, as none can",
			     printable(ino), printable(inode->stripe_bytes), inode->width);
	return 0;
}

static int take_name(void *argument, uint64_t dir, const char *name, uint64_t ino, uint32_t type)
{
	struct check *check = argument;
	struct found *parent = find(check, dir), *child = find(check, ino);

	if (!parent || !inode_is_directory(parent->says))
		return fault(check, "'%.100s' is in directory %llu, which there is not", name,
			     printable(dir));
	parent->nr_entries++;
	if (!child)
		return fault(check, "'%.100s' in directory %llu is inode %llu, which there is not",
			     name, printable(dir), printable(ino));
	child->nr_names++;
	if (type != (child->says->mode & S_IFMT))
		return fault(check, "'%.100s' in directory %llu is of another type than inode %llu",
			     name, printable(dir), printable(ino));
	if (!inode_is_directory(child->says))
		return 0;
	parent->nr_directories++;
	return child->says->parent == dir
		       ? 0
		       : fault(check, "directory %llu is in %llu, and says in %llu", printable(ino),
			       printable(dir), printable(child->says->parent));
}

static int take_unlinked(void *argument, uint64_t ino)
{
	struct check *check = argument;
	struct found *found = find(check, ino);

	if (!found)
		return fault(check, "inode %llu is open and has no name, and there is none",
			     printable(ino));
	found->is_unlinked = true;
	return 0;
}

/* ---- The pool */

static int take_units(struct check *check, uint64_t unit, uint64_t nr, const char *whose,
		      uint64_t number)
{
	if (nr == 0 || unit >= check->nr_units || nr > check->nr_units - unit)
		return fault(check, "%s %llu has units %llu to %llu of a pool of %llu", whose,
			     printable(number), printable(unit), printable(unit + nr),
			     printable(check->nr_units));
	for (uint64_t i = unit; i < unit + nr; i++) {
		uint8_t bit = (uint8_t)(1U << i % 8);

		if (check->taken[i / 8] & bit)
			return fault(check, "%s %llu has unit %llu, which is another's, too", whose,
				     printable(number), printable(i));
		check->taken[i / 8] |= bit;
	}
	return 0;
}

static int take_run(void *argument, uint64_t ino, const struct run *run)
{
	struct check *check = argument;
	struct found *found = find(check, ino);

	if (!found)
		return fault(check, "inode %llu has a part of the pool, and there is none",
			     printable(ino));
	found->nr_units += run->nr;
	return take_units(check, run->pool_unit, run->nr, "inode", ino);
}

static int take_scrubs(struct check *check)
{
	const struct scrub *scrub;
	int ret = 0;

	cds_list_for_each_entry (scrub, &check->fs->scrubs, node)
		for (size_t i = 0; i < scrub->nr && ret == 0; i++)
			ret = take_units(check, scrub->runs[i].pool_unit, scrub->runs[i].nr,
					 "scrub", scrub->number);
	return ret;
}

/* Units that servers have lost are in files, or nobody's. Takes the latter, and compares how many
 * of them files have. */
static int take_lost(struct check *check)
{
	const struct namespace *ns = fs_namespace(check->fs);
	const struct region *region = ns ? volume_region(ns) : NULL;
	uint64_t nr_in_files = 0, end = check->nr_units * FILE_UNIT, offset = 0;

	if (!region || layout_lost_bytes(region->layout) == 0)
		end = 0;
	while (offset < end) {
		struct layout_piece piece = layout_piece_at(region->layout, offset, end - offset);
		uint64_t unit = offset / FILE_UNIT, behind = unit + piece.length / FILE_UNIT;

		for (; piece.lost && unit < behind; unit++) {
			nr_in_files += (check->taken[unit / 8] & 1U << unit % 8) != 0;
			check->taken[unit / 8] |= (uint8_t)(1U << unit % 8);
		}
		offset += piece.length;
	}
	if (nr_in_files == check->fs->nr_lost_units)
		return 0;
	return fault(check, "files have %llu units that are lost, and the file system says %llu",
		     printable(nr_in_files), printable(check->fs->nr_lost_units));
}

/* The units that are left must be those that are free. */
static int take_free(struct check *check)
{
	const struct space *space = &check->fs->space;
	uint64_t nr_lost = 0;
	int ret = 0;

	for (size_t i = 0; i < space->nr_runs && ret == 0; i++)
		ret = take_units(check, space->runs[i].offset / FILE_UNIT,
				 space->runs[i].length / FILE_UNIT, "free run", i);
	for (uint64_t i = 0; i < check->nr_units; i++)
		nr_lost += !(check->taken[i / 8] & 1U << i % 8);
	if (ret == 0 && nr_lost != 0)
		ret = fault(check, "%llu units of the pool are nobody's, and not free",
			    printable(nr_lost));
	return ret;
}

/* ---- What inodes say */

static int compare(struct check *check, const struct found *found)
{
	const struct inode *says = found->says;
	bool is_directory = inode_is_directory(says);
	uint64_t links = is_directory ? 2 + found->nr_directories : found->nr_names;
	int ret = 0;

	if (is_directory && found->nr_names != (found->ino == check->fs->root ? 0U : 1U))
		ret = fault(check, "directory %llu has %llu names", printable(found->ino),
			    printable(found->nr_names));
	if (ret == 0 && says->nlink != links)
		ret = fault(check, "inode %llu says %u links, and has %llu", printable(found->ino),
			    says->nlink, printable(links));
	if (ret == 0 && is_directory && says->nr_entries != found->nr_entries)
		ret = fault(check, "directory %llu says %llu entries, and has %llu",
			    printable(found->ino), printable(says->nr_entries),
			    printable(found->nr_entries));
	if (ret == 0 && says->nr_units != found->nr_units)
		ret = fault(check, "inode %llu says %llu units, and has %llu",
			    printable(found->ino), printable(says->nr_units),
			    printable(found->nr_units));
	if (ret == 0 && (links == 0) != found->is_unlinked)
		ret = fault(check, "inode %llu has %s name, and is %slisted as open without one",
			    printable(found->ino), links == 0 ? "no" : "a",
			    found->is_unlinked ? "" : "not ");
	return ret;
}

static int compare_all(struct check *check)
{
	int ret = 0;

	for (size_t i = 0; i < check->nr_found && ret == 0; i++)
		ret = compare(check, &check->found[i]);
	if (ret == 0 && check->nr_found != check->fs->nr_inodes)
		ret = fault(check, "the file system says %llu inodes, and has %zu",
			    printable(check->fs->nr_inodes), check->nr_found);
	if (ret == 0 && !find(check, check->fs->root))
		ret = fault(check, "there is no root directory");
	return ret;
}

/* ---- Damaged records */

static int take_damaged(void *argument, struct meta_bytes key, bool is_damaged)
{
	struct check *check = argument;
	char name[RECORD_NAME_MAX];

	if (!is_damaged)
		return 0;
	record_name(key, name);
	return fault(check, "%s: its record is damaged", name);
}

/* ---- The whole */

static int compare_records(struct check *check)
{
	struct fs *fs = check->fs;
	int ret = record_range_inodes(fs, take_inode, check);

	if (ret == 0)
		ret = record_range_all_names(fs, take_name, check);
	if (ret == 0)
		ret = record_range_unlinked(fs, take_unlinked, check);
	if (ret == 0)
		ret = record_range_all_runs(fs, take_run, check);
	if (ret == 0)
		ret = take_lost(check);
	if (ret == 0)
		ret = take_scrubs(check);
	if (ret == 0)
		ret = take_free(check);
	return ret == 0 ? compare_all(check) : ret;
}

int files_check(struct fs *fs, Afar__FileResult *result)
{
	struct check check = {.fs = fs, .nr_units = fs->space.length / FILE_UNIT};
	int ret;

	check.taken = calloc(1, check.nr_units / 8 + 1);
	ret = check.taken ? record_check(fs, take_damaged, &check) : error_code(-ENOMEM);
	if (ret == 0 && check.nr_faults == 0) /* what is damaged cannot be compared */
		ret = compare_records(&check);
	for (size_t i = 0; i < check.nr_found; i++)
		free((void *)(uintptr_t)check.found[i].says);
	free(check.found);
	free(check.taken);
	result->data.data = (uint8_t *)check.text;
	result->data.len = check.length;
	return ret;
}
