/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking reads and writes of regions, from and to any memory. */
#include <errno.h>
#include <limits.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/region.h"

static int check_range(const struct afar_region *region, const char *verb, uint64_t offset,
		       uint64_t length)
{
	if (length > SSIZE_MAX)
		return error_fail(-EINVAL, "%s %llu bytes of a region: the most at once is %llu",
				  verb, (unsigned long long)length, (unsigned long long)SSIZE_MAX);
	if (!range_is_inside(offset, length, region->target.length))
		return error_fail(-ERANGE, "%s %llu bytes at %llu of a region: it has %llu", verb,
				  (unsigned long long)length, (unsigned long long)offset,
				  (unsigned long long)region->target.length);
	return 0;
}

/* Pieces of length 0 may be null. */
static int check_piece(const char *verb, const void *addr, size_t length)
{
	return addr || !length ? 0 : error_fail(-EINVAL, "%s a region: the memory is null", verb);
}

static ssize_t transfer_one(struct afar_region *region, uint16_t opcode, void *data, size_t length,
			    uint64_t offset)
{
	const char *verb = opcode == AFAR_OP_READ ? "read" : "write";
	struct afar_iov piece = {.addr = data, .length = length};
	int ret = region_check(region);

	if (!ret)
		ret = check_piece(verb, data, length);
	if (!ret)
		ret = check_range(region, verb, offset, length);
	if (!ret)
		ret = target_transfer(&region->target, opcode, 0, &piece, 1, offset, length);
	return ret ? ret : (ssize_t)length;
}

static ssize_t transfer_many(struct afar_region *region, uint16_t opcode, const struct iovec *iov,
			     int nr_iov, uint64_t offset)
{
	const char *verb = opcode == AFAR_OP_READ ? "read" : "write";
	struct afar_iov pieces[IOV_MAX];
	uint64_t length = 0;
	int ret = region_check(region);

	if (ret)
		return ret;
	if (nr_iov < 0 || nr_iov > IOV_MAX || (nr_iov && !iov))
		return error_fail(-EINVAL, "%s a region by %d pieces of memory: the most is %d",
				  verb, nr_iov, IOV_MAX);
	for (int i = 0; i < nr_iov; i++) {
		ret = check_piece(verb, iov[i].iov_base, iov[i].iov_len);
		if (ret)
			return ret;
		if (__builtin_add_overflow(length, iov[i].iov_len, &length))
			return error_fail(-EINVAL, "%s a region: the pieces are longer than 2^64",
					  verb);
		pieces[i] = (struct afar_iov){.addr = iov[i].iov_base, .length = iov[i].iov_len};
	}
	ret = check_range(region, verb, offset, length);
	if (!ret)
		ret = target_transfer(&region->target, opcode, 0, pieces, (uint32_t)nr_iov, offset,
				      length);
	return ret ? ret : (ssize_t)length;
}

PUBLIC_CALL(ssize_t, afar_region_readv,
	    (struct afar_region *region, const struct iovec *iov, int nr_iov, uint64_t offset),
	    (region, iov, nr_iov, offset))
{
	return transfer_many(region, AFAR_OP_READ, iov, nr_iov, offset);
}

PUBLIC_CALL(ssize_t, afar_region_writev,
	    (struct afar_region *region, const struct iovec *iov, int nr_iov, uint64_t offset),
	    (region, iov, nr_iov, offset))
{
	return transfer_many(region, AFAR_OP_WRITE, iov, nr_iov, offset);
}

static int do_atomic(struct afar_region *region, const struct afar_op *wanted, uint64_t *before)
{
	struct afar_op op = *wanted;
	uint64_t value;
	const struct afar_iov iov = {.addr = &value, .length = sizeof(value)};
	int ret = region_check(region);

	if (!ret && !target_takes(&region->target, op.opcode))
		ret = error_fail(-EOPNOTSUPP,
				 "do an atomic on the region at %#llx: a %s has none; use another "
				 "region for words that programs share",
				 (unsigned long long)region->target.address,
				 region->target.kind->noun);
	if (!ret && op.offset % sizeof(value))
		ret = error_fail(-EINVAL, "do an atomic at %llu of a region: not a multiple of 8",
				 (unsigned long long)op.offset);
	if (!ret)
		ret = check_range(region, "do an atomic on", op.offset, sizeof(value));
	if (ret)
		return ret;
	op.target = &region->target;
	op.iov = &iov;
	op.nr_iov = 1;
	ret = target_atomic(&op);
	if (!ret && before)
		*before = value;
	return ret;
}

PUBLIC_CALL(int, afar_region_fetch_add,
	    (struct afar_region *region, uint64_t offset, uint64_t operand, uint64_t *before),
	    (region, offset, operand, before))
{
	const struct afar_op op = {
		.opcode = AFAR_OP_FETCH_ADD, .offset = offset, .operand = operand};

	return do_atomic(region, &op, before);
}

PUBLIC_CALL(int, afar_region_compare_swap,
	    (struct afar_region *region, uint64_t offset, uint64_t compare, uint64_t operand,
	     uint64_t *before),
	    (region, offset, compare, operand, before))
{
	const struct afar_op op = {.opcode = AFAR_OP_COMPARE_SWAP,
				   .offset = offset,
				   .operand = operand,
				   .compare = compare};

	return do_atomic(region, &op, before);
}

PUBLIC_CALL(int, afar_region_sync, (struct afar_region *region), (region))
{
	int ret = region_check(region);

	if (ret || region->target.is_flash)
		return ret ? ret : target_sync(&region->target);
	/* There is nothing to do, but what there was is not to be relied on. */
	return session_is_stale(region->target.session) ? session_fail_ended(region->target.session)
							: 0;
}

PUBLIC_CALL(ssize_t, afar_region_pread,
	    (struct afar_region *region, void *data, size_t length, uint64_t offset),
	    (region, data, length, offset))
{
	return transfer_one(region, AFAR_OP_READ, data, length, offset);
}

PUBLIC_CALL(ssize_t, afar_region_pwrite,
	    (struct afar_region *region, const void *data, size_t length, uint64_t offset),
	    (region, data, length, offset))
{
	return transfer_one(region, AFAR_OP_WRITE, (void *)data, length, offset);
}
