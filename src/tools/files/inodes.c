/* SPDX-License-Identifier: BSD-3-Clause */
/* See inodes.h. A hash table with open addressing, at most half full. Called by du and the copying of
 * trees. */
#include "inodes.h"

#include <stdbool.h>
#include <stdlib.h>

struct inodes_entry {
	uint64_t device, ino;
	void *value;
	bool is_taken;
};

static struct inodes_entry *find(struct inodes_entry *entries, size_t room, uint64_t device,
				 uint64_t ino)
{
	uint64_t hash = (ino ^ device << 32) * 0x9e3779b97f4a7c15U;
	size_t at = (size_t)(hash >> 20) & (room - 1);

	while (entries[at].is_taken && (entries[at].ino != ino || entries[at].device != device))
		at = (at + 1) & (room - 1);
	return &entries[at];
}

static bool grow(struct inodes *inodes)
{
	size_t room = inodes->room ? 2 * inodes->room : 256;
	struct inodes_entry *entries = calloc(room, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < inodes->room; i++) {
		const struct inodes_entry *old = &inodes->entries[i];

		if (old->is_taken)
			*find(entries, room, old->device, old->ino) = *old;
	}
	free(inodes->entries);
	inodes->entries = entries;
	inodes->room = room;
	return true;
}

void **inodes_find(struct inodes *inodes, uint64_t device, uint64_t ino, int *is_new)
{
	struct inodes_entry *entry;

	if (2 * inodes->nr >= inodes->room && !grow(inodes))
		return NULL;
	entry = find(inodes->entries, inodes->room, device, ino);
	*is_new = !entry->is_taken;
	if (!entry->is_taken) {
		*entry = (struct inodes_entry){device, ino, NULL, true};
		inodes->nr++;
	}
	return &entry->value;
}

void inodes_free(struct inodes *inodes, void (*drop)(void *value))
{
	for (size_t i = 0; drop && i < inodes->room; i++) {
		if (inodes->entries[i].is_taken)
			drop(inodes->entries[i].value);
	}
	free(inodes->entries);
	*inodes = (struct inodes){0};
}
