/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that all devices make of an operation before they take it, and classes of errors. */
#include "flash/device/device.h"

#include <errno.h>

static bool is_inside(const struct flash_device *device, const struct flash_io *io, uint32_t unit)
{
	return io->length > 0 && io->offset % unit == 0 && io->length % unit == 0 &&
	       io->offset <= device->size && io->length <= device->size - io->offset;
}

static bool is_memory_right(const struct flash_device *device, const struct flash_io *io)
{
	uint64_t sum = 0;

	if (io->nr_iov == 0 || io->nr_iov > FLASH_IOV_MAX)
		return false;
	for (unsigned i = 0; i < io->nr_iov; i++) {
		const struct iovec *iov = &io->iov[i];

		if (iov->iov_len == 0 || iov->iov_len % device->sector != 0 ||
		    (uintptr_t)iov->iov_base % device->sector != 0 ||
		    __builtin_add_overflow(sum, iov->iov_len, &sum))
			return false;
	}
	return sum == io->length;
}

bool flash_device_is_media_error(int result)
{
	switch (result) {
	case -EIO:
	case -ENODATA:	 /* the medium's, as the kernel says it */
	case -EREMOTEIO: /* the target's                        */
	case -EILSEQ:	 /* protection information is wrong     */
		return true;
	default:
		return false;
	}
}

bool flash_device_is_gone(int result)
{
	return result == -ENODEV || result == -ENXIO;
}

int flash_device_check(const struct flash_device *device, const struct flash_io *io)
{
	bool is_right = false;

	switch (io->opcode) {
	case FLASH_IO_READ:
	case FLASH_IO_WRITE:
		is_right = is_inside(device, io, device->sector) && is_memory_right(device, io);
		break;
	case FLASH_IO_DISCARD:
		if (device->discard_unit == 0)
			return -EOPNOTSUPP;
		is_right = is_inside(device, io, device->discard_unit);
		break;
	case FLASH_IO_FLUSH:
		is_right = true;
		break;
	}
	return is_right ? 0 : -EINVAL;
}

int flash_device_end_all(struct cds_list_head *list)
{
	CDS_LIST_HEAD(now);
	int nr = 0;

	cds_list_splice(list, &now);
	CDS_INIT_LIST_HEAD(list);
	while (!cds_list_empty(&now)) {
		struct flash_io *io = cds_list_first_entry(&now, struct flash_io, node);

		cds_list_del(&io->node);
		nr++;
		io->done(io);
	}
	return nr;
}
