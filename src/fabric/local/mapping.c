/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that a connection's peer has lent: mapped when it comes, found again for each transfer, copied
 * from and to. Called by the endpoint's thread; an endpoint owns its mappings.
 */
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fabric/local/local.h"

static int compare_keys(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

struct local_mapping *local_mapping_find(struct local_endpoint *endpoint, uint64_t key)
{
	struct local_mapping **known = &endpoint->known[key % LOCAL_KNOWN];
	struct local_mapping *const *found;

	if (*known && (*known)->key == key)
		return *known;
	found = tfind(&key, &endpoint->mappings, compare_keys);
	if (!found)
		return NULL;
	*known = *found;
	return *found;
}

/* Memory that nobody can make shorter: we never touch a page that is not there. */
static bool is_good(const struct local_message *lent, int fd)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &file) == 0 &&
	       file.st_size > 0 && (uint64_t)file.st_size == lent->length;
}

static bool map(struct local_mapping *mapping, int fd)
{
	const int protection =
		PROT_READ | ((mapping->access & FABRIC_REMOTE_WRITE) != 0 ? PROT_WRITE : 0);
	void *addr = mmap(NULL, mapping->length, protection, MAP_SHARED, fd, 0);

	if (addr == MAP_FAILED)
		return false;
	/* A child would keep it for longer than we have it. */
	madvise(addr, mapping->length, MADV_DONTFORK);
	madvise(addr, mapping->length, MADV_DONTDUMP);
	mapping->addr = addr;
	return true;
}

bool local_mapping_add(struct local_endpoint *endpoint, const struct local_message *lent, int fd)
{
	struct local_mapping *mapping;

	if (!is_good(lent, fd))
		return false;
	mapping = malloc(sizeof(*mapping));
	if (!mapping)
		return false;
	*mapping = (struct local_mapping){
		.key = lent->key, .length = lent->length, .access = lent->access};
	if (!map(mapping, fd))
		goto out_free;
	if (!tsearch(mapping, &endpoint->mappings, compare_keys))
		goto out_unmap;
	return true;

out_unmap:
	munmap(mapping->addr, mapping->length);
out_free:
	free(mapping);
	return false;
}

static void end(struct local_mapping *mapping)
{
	munmap(mapping->addr, mapping->length);
	free(mapping);
}

void local_mapping_remove(struct local_endpoint *endpoint, uint64_t key)
{
	struct local_mapping *mapping = local_mapping_find(endpoint, key);

	if (!mapping)
		return;
	endpoint->known[key % LOCAL_KNOWN] = NULL;
	tdelete(mapping, &endpoint->mappings, compare_keys);
	end(mapping);
}

void local_mapping_remove_all(struct local_endpoint *endpoint)
{
	memset(endpoint->known, 0, sizeof(endpoint->known));
	while (endpoint->mappings) {
		struct local_mapping *first = *(struct local_mapping **)endpoint->mappings;

		tdelete(first, &endpoint->mappings, compare_keys);
		end(first);
	}
}

/* ---- Copying */

static bool is_allowed(const struct local_mapping *mapping, bool is_write, uint64_t offset,
		       uint64_t length)
{
	const unsigned access = is_write ? FABRIC_REMOTE_WRITE : FABRIC_REMOTE_READ;
	uint64_t end;

	return (mapping->access & access) != 0 && !__builtin_add_overflow(offset, length, &end) &&
	       end <= mapping->length;
}

bool local_mapping_copy(const struct local_mapping *mapping, bool is_write,
			const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t offset)
{
	uint64_t length = 0;

	for (unsigned i = 0; i < nr_pieces; i++)
		length += pieces[i].length; /* at most LOCAL_TRANSFER_MAX in all */
	if (!is_allowed(mapping, is_write, offset, length))
		return false;
	for (unsigned i = 0; i < nr_pieces; i++) {
		uint8_t *lent = mapping->addr + offset;

		if (pieces[i].length == 0)
			continue;
		if (is_write)
			memcpy(lent, pieces[i].addr, pieces[i].length);
		else
			memcpy(pieces[i].addr, lent, pieces[i].length);
		offset += pieces[i].length;
	}
	return true;
}
