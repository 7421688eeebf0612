/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking reads and writes of volumes, zeros, trims and syncs. volume_retry.c does them for volumes that
 * wait for their servers. */
#include <errno.h>
#include <limits.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/volume/volume.h"

static int check_range(const struct afar_volume *volume, const char *verb, uint64_t offset,
		       uint64_t length)
{
	uint64_t bytes = volume->region->target.length;

	if (range_is_inside(offset, length, bytes))
		return 0;
	return error_fail(-ERANGE, "%s %llu bytes at %llu of volume '%s': it has %llu", verb,
			  (unsigned long long)length, (unsigned long long)offset, volume->ns->name,
			  (unsigned long long)bytes);
}

/* Checks a change. Takes the durable flag off where all is as durable as it gets. */
static int check_change(const struct afar_volume *volume, const char *verb, unsigned *flags,
			uint64_t offset, uint64_t length)
{
	const struct afar_target *target = &volume->region->target;

	if (*flags & ~AFAR_OP_DURABLE)
		return error_fail(-EINVAL, "%s volume '%s': the only flag is AFAR_OP_DURABLE", verb,
				  volume->ns->name);
	if (!target_may(target, AFAR_OP_WRITE))
		return error_fail(-EACCES, "%s volume '%s': it is open to read alone", verb,
				  volume->ns->name);
	if (!target->is_flash)
		*flags = 0;
	return check_range(volume, verb, offset, length);
}

static int read_volume(struct afar_volume *volume, void *data, size_t length, uint64_t offset)
{
	const struct afar_iov iov = {.addr = data, .length = length};
	const struct afar_op op = {
		.opcode = AFAR_OP_READ,
		.target = &volume->region->target,
		.offset = offset,
		.nr_iov = 1,
		.iov = &iov,
	};

	if (volume->retry_ns != 0)
		return volume_carry_out(volume, &op, length);
	return target_transfer(op.target, AFAR_OP_READ, 0, &iov, 1, offset, length);
}

PUBLIC_CALL(ssize_t, afar_volume_pread,
	    (struct afar_volume *volume, void *data, size_t length, uint64_t offset),
	    (volume, data, length, offset))
{
	int ret = volume_enter(volume);

	if (ret)
		return ret;
	if (length > SSIZE_MAX || (!data && length != 0))
		ret = error_fail(-EINVAL, "read volume '%s': the memory is null or too long",
				 volume->ns->name);
	if (ret == 0)
		ret = check_range(volume, "read", offset, length);
	if (ret == 0 && length != 0)
		ret = read_volume(volume, data, length, offset);
	handle_unuse(&volume->handle);
	return ret ? ret : (ssize_t)length;
}

/* In pieces that have room in the log. */
static int write_logged(struct afar_volume *volume, const char *data, size_t length,
			uint64_t offset, unsigned flags)
{
	size_t max = volume_log_write_max(volume->log);
	int ret = 0;

	while (length != 0 && ret == 0) {
		size_t piece = length < max ? length : max;
		const struct afar_iov iov = {.addr = (void *)data, .length = piece};
		const struct afar_op op = {
			.opcode = AFAR_OP_WRITE,
			.flags = flags,
			.target = &volume->region->target,
			.offset = offset,
			.nr_iov = 1,
			.iov = &iov,
		};

		ret = volume_change(volume, &op, piece);
		data += piece;
		length -= piece;
		offset += piece;
	}
	return ret;
}

static int write_volume(struct afar_volume *volume, const void *data, size_t length,
			uint64_t offset, unsigned flags)
{
	const struct afar_iov iov = {.addr = (void *)data, .length = length};
	const struct afar_op op = {
		.opcode = AFAR_OP_WRITE,
		.flags = flags,
		.target = &volume->region->target,
		.offset = offset,
		.nr_iov = 1,
		.iov = &iov,
	};

	if (volume->log)
		return write_logged(volume, data, length, offset, flags);
	if (volume->retry_ns != 0)
		return volume_carry_out(volume, &op, length);
	return target_transfer(op.target, AFAR_OP_WRITE, flags, &iov, 1, offset, length);
}

PUBLIC_CALL(ssize_t, afar_volume_pwrite,
	    (struct afar_volume *volume, const void *data, size_t length, uint64_t offset,
	     unsigned flags),
	    (volume, data, length, offset, flags))
{
	int ret = volume_enter(volume);

	if (ret)
		return ret;
	if (length > SSIZE_MAX || (!data && length != 0))
		ret = error_fail(-EINVAL, "write volume '%s': the memory is null or too long",
				 volume->ns->name);
	if (ret == 0)
		ret = check_change(volume, "write", &flags, offset, length);
	if (ret == 0 && length != 0)
		ret = write_volume(volume, data, length, offset, flags);
	handle_unuse(&volume->handle);
	return ret ? ret : (ssize_t)length;
}

static int clear(struct afar_volume *volume, uint16_t opcode, const char *verb, uint64_t offset,
		 uint64_t length, unsigned flags)
{
	struct afar_op op = {.opcode = opcode, .offset = offset, .operand = length};
	int ret = volume_enter(volume);

	if (ret)
		return ret;
	op.target = &volume->region->target;
	ret = check_change(volume, verb, &flags, offset, length);
	op.flags = flags;
	if (ret != 0 || length == 0)
		;
	else if (volume->log)
		ret = volume_change(volume, &op, length);
	else if (volume->retry_ns != 0)
		ret = volume_carry_out(volume, &op, length);
	else
		ret = target_zero(op.target, opcode, flags, offset, length);
	handle_unuse(&volume->handle);
	return ret;
}

PUBLIC_CALL(int, afar_volume_zero,
	    (struct afar_volume *volume, uint64_t offset, uint64_t length, unsigned flags),
	    (volume, offset, length, flags))
{
	return clear(volume, AFAR_OP_ZERO, "zero a part of", offset, length, flags);
}

PUBLIC_CALL(int, afar_volume_trim,
	    (struct afar_volume *volume, uint64_t offset, uint64_t length, unsigned flags),
	    (volume, offset, length, flags))
{
	return clear(volume, AFAR_OP_TRIM, "trim", offset, length, flags);
}

PUBLIC_CALL(int, afar_volume_sync, (struct afar_volume *volume), (volume))
{
	int ret = volume_enter(volume);

	if (ret)
		return ret;
	if (volume->retry_ns != 0)
		ret = volume_sync(volume);
	else
		ret = target_sync(&volume->region->target);
	handle_unuse(&volume->handle);
	return ret;
}
