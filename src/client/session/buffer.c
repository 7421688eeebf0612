/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers: explicit registration of the caller's memory, and memory of the session's segments. */
#include "client/session/buffer.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"

#define PAGE ((uint64_t)4096)

static uint64_t round_up(uint64_t length, uint64_t unit)
{
	return (length + unit - 1) / unit * unit;
}

static int register_memory(struct afar_buffer *buffer)
{
	buffer->memory.addr = buffer->addr;
	buffer->memory.length = buffer->length;
	if (buffer->access & AFAR_ACCESS_READ)
		buffer->memory.access |= FABRIC_LOCAL_READ;
	if (buffer->access & AFAR_ACCESS_READ && buffer->access & AFAR_ACCESS_SERVER)
		buffer->memory.access |= FABRIC_REMOTE_READ;
	if (buffer->access & AFAR_ACCESS_WRITE)
		buffer->memory.access |= FABRIC_LOCAL_WRITE;
	if (buffer->access & AFAR_ACCESS_WRITE && buffer->access & AFAR_ACCESS_SERVER)
		buffer->memory.access |= FABRIC_REMOTE_WRITE;
	return fabrics_register(&buffer->session->fabrics, &buffer->memory);
}

/* Takes memory of a huge page or more from the session's segments, and gives it back there. Shorter
 * memory would waste a huge page each. */
static int allocate(struct afar_buffer *buffer)
{
	int is_fresh;

	buffer->length = round_up(buffer->length, PAGE);
	if (buffer->length >= SEGMENT_MIN) {
		buffer->length = round_up(buffer->length, SEGMENT_MIN);
		return segment_cache_take(buffer->session->segments, buffer->length, &buffer->addr,
					  &is_fresh);
	}
	buffer->addr = mmap(NULL, buffer->length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer->addr == MAP_FAILED) {
		buffer->addr = NULL;
		return error_code(-ENOMEM);
	}
	return 0;
}

static void release(struct afar_buffer *buffer)
{
	if (!buffer->is_ours || !buffer->addr)
		return;
	if (buffer->length >= SEGMENT_MIN)
		segment_cache_give(buffer->session->segments, buffer->addr, buffer->length);
	else
		munmap(buffer->addr, buffer->length);
}

int buffer_new(struct afar_session *session, uint64_t length, struct afar_buffer **out)
{
	struct afar_buffer *buffer;
	int ret;

	if (length == 0 || length > SIZE_MAX - SEGMENT_MIN)
		return error_fail(-EINVAL,
				  "allocate a buffer of %llu bytes: there is no such memory",
				  (unsigned long long)length);
	buffer = handle_new(HANDLE_BUFFER, sizeof(*buffer));
	if (!buffer)
		return error_code(-ENOMEM);
	buffer->session = session;
	buffer->length = length;
	buffer->access = AFAR_ACCESS_READ | AFAR_ACCESS_WRITE;
	buffer->is_ours = true;
	ret = allocate(buffer);
	if (!ret)
		ret = register_memory(buffer);
	if (ret) {
		release(buffer);
		handle_discard(buffer);
		return ret;
	}
	*out = buffer;
	return 0;
}

int buffer_wrap(struct afar_session *session, void *addr, uint64_t length, unsigned access,
		struct afar_buffer **out)
{
	struct afar_buffer *buffer = handle_new(HANDLE_BUFFER, sizeof(*buffer));
	int ret;

	if (!buffer)
		return error_code(-ENOMEM);
	buffer->session = session;
	buffer->addr = addr;
	buffer->length = length;
	buffer->access = access;
	ret = register_memory(buffer);
	if (ret) {
		handle_discard(buffer);
		return ret;
	}
	*out = buffer;
	return 0;
}

void buffer_destroy(struct afar_buffer *buffer)
{
	fabrics_deregister(&buffer->session->fabrics, &buffer->memory);
	release(buffer);
	handle_retire(buffer);
}

static int check_memory(const struct afar_memory *memory, unsigned access)
{
	if (memory->kind != AFAR_MEMORY_HOST)
		return error_fail(-EOPNOTSUPP,
				  "register memory of kind %u: only host memory can be",
				  memory->kind);
	if (!memory->addr || memory->length == 0 ||
	    memory->length > UINTPTR_MAX - (uintptr_t)memory->addr)
		return error_fail(-EINVAL, "register memory: it is null, empty or wraps around");
	if ((access & (AFAR_ACCESS_READ | AFAR_ACCESS_WRITE)) == 0 ||
	    (access & ~(AFAR_ACCESS_READ | AFAR_ACCESS_WRITE | AFAR_ACCESS_SERVER)))
		return error_fail(-EINVAL, "register memory: access must be AFAR_ACCESS_ bits, one "
					   "of _READ and _WRITE among them");
	return 0;
}

PUBLIC_CALL(int, afar_buffer_register,
	    (struct afar_session *session, const struct afar_memory *given, unsigned access,
	     struct afar_buffer **out),
	    (session, given, access, out))
{
	struct afar_memory memory;
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!given || !out)
		return error_fail(-EINVAL, "register memory: its description or out is null");
	ret = ABI_TAKE(&memory, given, afar_memory, length);
	if (!ret)
		ret = check_memory(&memory, access);
	if (ret)
		return ret;
	ret = buffer_wrap(session, memory.addr, memory.length, access, out);
	if (!ret)
		handle_use(&session->handle);
	return ret;
}

PUBLIC_CALL(int, afar_buffer_alloc,
	    (struct afar_session *session, size_t length, struct afar_buffer **out),
	    (session, length, out))
{
	int ret = session_check(session);

	if (ret)
		return ret;
	if (!out)
		return error_fail(-EINVAL,
				  "allocate a buffer: there is nowhere to put it (out is null)");
	ret = buffer_new(session, length, out);
	if (!ret)
		handle_use(&session->handle);
	return ret;
}

PUBLIC_CALL(int, afar_buffer_unregister, (struct afar_buffer *buffer), (buffer))
{
	struct afar_session *session;
	int ret;

	if (!handle_is(buffer, HANDLE_BUFFER))
		return error_fail(-EINVAL, "unregister a buffer: the handle is null or closed");
	session = buffer->session;
	ret = session_check(session);
	if (ret)
		return ret;
	if (buffer->is_mapping)
		return error_fail(-EINVAL,
				  "unregister a buffer: it belongs to a mapping; unmap that");
	ret = handle_close(buffer, HANDLE_BUFFER);
	if (ret)
		return error_fail(ret, "unregister a buffer: %s",
				  ret == -EBUSY ? "operations on it are in flight"
						: "it is closed already");
	buffer_destroy(buffer);
	handle_unuse(&session->handle);
	return 0;
}

void *afar_buffer_data(const struct afar_buffer *buffer)
{
	return handle_is(buffer, HANDLE_BUFFER) ? buffer->addr : NULL;
}
