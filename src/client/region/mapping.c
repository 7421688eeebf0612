/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings: local memory bound to a range of a region, read and written without any set-up. */
#include <errno.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/namespace/region.h"
#include "client/session/buffer.h"
#include "client/target/same_host.h"

struct afar_mapping {
	struct handle handle;
	struct afar_region *region;
	struct afar_buffer *buffer; /* in use while transfers run, so that unmap waits for them */
	uint64_t offset;	    /* into the region */
	size_t length;
};

static int check_mapping(const struct afar_mapping *mapping)
{
	if (!handle_is(mapping, HANDLE_MAPPING))
		return error_fail(-EINVAL, "use a mapping: the handle is null or unmapped");
	return region_check(mapping->region);
}

/* Makes a mapping. The caller has counted it into the region. */
static int mapping_new(struct afar_region *region, uint64_t offset, size_t length,
		       struct afar_mapping **out)
{
	struct afar_mapping *mapping;
	int ret = target_connect(&region->target);

	if (ret)
		return ret;
	mapping = handle_new(HANDLE_MAPPING, sizeof(*mapping));
	if (!mapping)
		return error_code(-ENOMEM);
	mapping->region = region;
	mapping->offset = offset;
	mapping->length = length;
	ret = buffer_new(region->target.session, length, &mapping->buffer);
	if (ret) {
		handle_discard(mapping);
		return ret;
	}
	mapping->buffer->is_mapping = true;
	*out = mapping;
	return 0;
}

PUBLIC_CALL(int, afar_region_map,
	    (struct afar_region *region, uint64_t offset, size_t length, unsigned flags,
	     struct afar_mapping **out),
	    (region, offset, length, flags, out))
{
	int ret = region_check(region);

	if (ret)
		return ret;
	if (!out || flags || length == 0)
		return error_fail(-EINVAL,
				  "map a region: out is null, flags are not 0, or length is 0");
	if (!range_is_inside(offset, length, region->target.length))
		return error_fail(-ERANGE, "map %zu bytes at %llu of a region: it has %llu", length,
				  (unsigned long long)offset,
				  (unsigned long long)region->target.length);
	if (!handle_enter(&region->target.handle))
		return error_fail(-EINVAL, "map a region: it is being closed");
	ret = mapping_new(region, offset, length, out);
	if (ret)
		handle_unuse(&region->target.handle);
	else
		region->nr_mappings++;
	return ret;
}

PUBLIC_CALL(int, afar_mapping_unmap, (struct afar_mapping *mapping), (mapping))
{
	struct afar_region *region;
	int ret;

	if (!handle_is(mapping, HANDLE_MAPPING))
		return error_fail(-EINVAL, "unmap: the handle is null or was unmapped before");
	ret = check_mapping(mapping);
	if (ret)
		return ret;
	region = mapping->region;
	ret = handle_close(mapping->buffer, HANDLE_BUFFER);
	if (ret == -EBUSY)
		return error_fail(ret, "unmap: operations on the mapping's memory are in flight");
	if (!ret)
		ret = handle_close(mapping, HANDLE_MAPPING);
	if (ret)
		return error_fail(ret, "unmap: the mapping was unmapped before");
	same_host_wait(&region->target);
	buffer_destroy(mapping->buffer);
	handle_retire(mapping);
	region->nr_mappings--;
	handle_unuse(&region->target.handle);
	return 0;
}

void *afar_mapping_data(const struct afar_mapping *mapping)
{
	return handle_is(mapping, HANDLE_MAPPING) ? mapping->buffer->addr : NULL;
}

size_t afar_mapping_length(const struct afar_mapping *mapping)
{
	return handle_is(mapping, HANDLE_MAPPING) ? mapping->length : 0;
}

struct afar_buffer *afar_mapping_buffer(const struct afar_mapping *mapping)
{
	return handle_is(mapping, HANDLE_MAPPING) ? mapping->buffer : NULL;
}

static int transfer(struct afar_mapping *mapping, uint16_t opcode, size_t offset, size_t length)
{
	struct afar_iov iov;
	int ret = check_mapping(mapping);

	if (ret)
		return ret;
	if (!range_is_inside(offset, length, mapping->length))
		return error_fail(-ERANGE, "%s %zu bytes at %zu of a mapping: it has %zu",
				  opcode == AFAR_OP_READ ? "read" : "write", length, offset,
				  mapping->length);
	iov = (struct afar_iov){
		.buffer = mapping->buffer,
		.addr = (char *)mapping->buffer->addr + offset,
		.length = length,
	};
	return target_transfer(&mapping->region->target, opcode, 0, &iov, 1,
			       mapping->offset + offset, length);
}

PUBLIC_CALL(int, afar_mapping_read, (struct afar_mapping *mapping, size_t offset, size_t length),
	    (mapping, offset, length))
{
	return transfer(mapping, AFAR_OP_READ, offset, length);
}

PUBLIC_CALL(int, afar_mapping_write, (struct afar_mapping *mapping, size_t offset, size_t length),
	    (mapping, offset, length))
{
	return transfer(mapping, AFAR_OP_WRITE, offset, length);
}
