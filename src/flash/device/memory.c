/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks through iovecs, and has the pool of buffers; see memory.h. */
#include "flash/device/memory.h"

#include <string.h>

#include "flash/ftl_private.h"

/* Returns the memory at the cursor, at most `bytes`, and moves the cursor behind it. */
static struct iovec take(const struct iovec *iov, unsigned *index, size_t *offset, size_t bytes)
{
	struct iovec part;

	while (*offset == iov[*index].iov_len) {
		++*index;
		*offset = 0;
	}
	part.iov_base = (char *)iov[*index].iov_base + *offset;
	part.iov_len = iov[*index].iov_len - *offset;
	if (part.iov_len > bytes)
		part.iov_len = bytes;
	*offset += part.iov_len;
	return part;
}

void memory_skip(const struct iovec *iov, unsigned *index, size_t *offset, size_t bytes)
{
	while (bytes)
		bytes -= take(iov, index, offset, bytes).iov_len;
}

void memory_gather(const struct iovec *iov, unsigned index, size_t offset, void *to, size_t bytes)
{
	char *at = to;

	while (bytes) {
		struct iovec part = take(iov, &index, &offset, bytes);

		memcpy(at, part.iov_base, part.iov_len);
		at += part.iov_len;
		bytes -= part.iov_len;
	}
}

void memory_scatter(const struct iovec *iov, unsigned index, size_t offset, const void *from,
		    size_t bytes)
{
	const char *at = from;

	while (bytes) {
		struct iovec part = take(iov, &index, &offset, bytes);

		memcpy(part.iov_base, at, part.iov_len);
		at += part.iov_len;
		bytes -= part.iov_len;
	}
}

void memory_zero(const struct iovec *iov, unsigned index, size_t offset, size_t bytes)
{
	while (bytes) {
		struct iovec part = take(iov, &index, &offset, bytes);

		memset(part.iov_base, 0, part.iov_len);
		bytes -= part.iov_len;
	}
}

uint32_t memory_direct_blocks(const struct iovec *iov, unsigned nr_iov, unsigned index,
			      size_t offset, uint32_t alignment, uint32_t nr_max)
{
	uint32_t nr = 0;

	while (nr < nr_max) {
		struct iovec part;

		while (index < nr_iov && offset == iov[index].iov_len) {
			index++;
			offset = 0;
		}
		if (index == nr_iov)
			break;
		part = take(iov, &index, &offset, FTL_BLOCK);
		if (part.iov_len < FTL_BLOCK || (uintptr_t)part.iov_base % alignment)
			break;
		nr++;
	}
	return nr;
}

unsigned memory_add(struct iovec *out, unsigned nr, void *base, size_t length)
{
	if (nr && (char *)out[nr - 1].iov_base + out[nr - 1].iov_len == base) {
		out[nr - 1].iov_len += length;
		return nr;
	}
	out[nr] = (struct iovec){base, length};
	return nr + 1;
}

unsigned memory_iovecs(const struct iovec *iov, unsigned index, size_t offset, size_t bytes,
		       struct iovec *out, unsigned nr)
{
	while (bytes) {
		struct iovec part = take(iov, &index, &offset, bytes);

		nr = memory_add(out, nr, part.iov_base, part.iov_len);
		bytes -= part.iov_len;
	}
	return nr;
}

bool memory_is_whole(const struct iovec *iov, unsigned nr_iov, size_t length)
{
	size_t sum = 0;

	for (unsigned i = 0; i < nr_iov; i++) {
		if (__builtin_add_overflow(sum, iov[i].iov_len, &sum))
			return false;
	}
	return sum == length;
}

struct bounce *bounce_take(struct ftl *ftl, unsigned kept)
{
	struct bounce *bounce;

	if (ftl->nr_spare_bounces <= kept)
		return NULL;
	bounce = cds_list_first_entry(&ftl->spare_bounces, struct bounce, node);
	cds_list_del(&bounce->node);
	bounce->users = 1;
	ftl->nr_spare_bounces--;
	return bounce;
}

void bounce_give(struct ftl *ftl, struct bounce *bounce)
{
	if (!bounce || --bounce->users)
		return;
	cds_list_add(&bounce->node, &ftl->spare_bounces);
	ftl->nr_spare_bounces++;
}
