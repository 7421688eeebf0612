/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that connects again after the namespace's connections were closed, and ignores the
 * sealing, can still write the old place. It cannot reach the new one. Owns nothing.
 */
#include "server/memory/seal.h"

#include <errno.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"

/* A chunk in this process's memory. */
struct span {
	char *from;
	char *to;
	uint64_t length;
};

static int find_span(struct extent_pool *pool, uint64_t namespace, const struct seal_move *move,
		     struct span *out)
{
	uint64_t whole;
	int ret;

	if (move->length == 0 || move->length % CHECKSUM_BLOCK != 0 ||
	    move->to_offset % CHECKSUM_BLOCK != 0 ||
	    __builtin_add_overflow(move->length, checksum_bytes(move->length), &whole))
		return error_fail(-EINVAL, "seal: a chunk is no whole number of blocks of %u bytes",
				  CHECKSUM_BLOCK);
	out->length = move->length;
	ret = extent_pool_span(pool, move->from, namespace, CLASS_DRAM, move->from_offset,
			       move->length, &out->from);
	if (ret == 0)
		ret = extent_pool_span(pool, move->to, namespace, CLASS_DRAM_SEALED,
				       move->to_offset, whole, &out->to);
	return ret ? error_fail(ret,
				"seal: namespace %llu has no such chunk in extent %llu, or no "
				"room for it in extent %llu",
				(unsigned long long)namespace, (unsigned long long)move->from,
				(unsigned long long)move->to)
		   : 0;
}

/* Copies a chunk and adds the checksums of the copy. A client that writes the old place meanwhile
 * may tear the copy, but the checksums still match it. */
static void copy_span(const struct span *span)
{
	char *sums = span->to + span->length;
	uint32_t sum;

	for (uint64_t at = 0; at < span->length; at += CHECKSUM_BLOCK, sums += sizeof(sum)) {
		memcpy(span->to + at, span->from + at, CHECKSUM_BLOCK);
		sum = checksum_crc32c(span->to + at, CHECKSUM_BLOCK);
		memcpy(sums, &sum, sizeof(sum));
	}
}

int seal_check(struct extent_pool *pool, uint64_t namespace, const struct seal_move *moves,
	       size_t nr_moves)
{
	struct span span;
	int ret = 0;

	for (size_t i = 0; i < nr_moves && ret == 0; i++)
		ret = find_span(pool, namespace, &moves[i], &span);
	return ret;
}

int seal_copy(struct extent_pool *pool, uint64_t namespace, const struct seal_move *moves,
	      size_t nr_moves)
{
	struct span span;
	int ret = 0;

	for (size_t i = 0; i < nr_moves && ret == 0; i++) {
		ret = find_span(pool, namespace, &moves[i], &span);
		if (ret == 0)
			copy_span(&span);
	}
	return ret;
}
