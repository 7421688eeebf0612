/* SPDX-License-Identifier: BSD-3-Clause */
/* Local memory that is ready for transfers: mappings and buffers; see afar.h. */
#ifndef AFAR_BUFFER_H
#define AFAR_BUFFER_H

#include <afar/region.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_mapping; /* local, transfer-ready memory bound to a range of a region */
struct afar_buffer;  /* local memory registered for transfers */

/* ---- Mappings -------------------------------------------------------------------------------- */

/*
 * Binds `length` bytes of the region at `offset` to private local memory, and connects to the
 * servers that hold them. The memory is populated and ready for transfers on every transport. Its
 * content is undefined until afar_mapping_read(). `flags` is 0. After unmap the session keeps the
 * memory, up to its cache_bytes, so that mapping again is quick.
 * Errors: -ERANGE (not wholly inside the region), -EINVAL (0 bytes).
 */
int afar_region_map(struct afar_region *region, uint64_t offset, size_t length, unsigned flags,
		    struct afar_mapping **out);

/*
 * Ends a mapping; its memory must not be touched afterwards. Changes that were not written with
 * afar_mapping_write() are dropped. -EBUSY while queue operations use its buffer.
 */
int afar_mapping_unmap(struct afar_mapping *mapping);

/* The mapping's memory, `length` bytes, page-aligned; NULL for an unmapped handle. */
void *afar_mapping_data(const struct afar_mapping *mapping);
size_t afar_mapping_length(const struct afar_mapping *mapping);

/* The mapping's memory as a buffer, for queue operations; owned by the mapping. */
struct afar_buffer *afar_mapping_buffer(const struct afar_mapping *mapping);

/*
 * Transfers a range of the mapping, from the region to the local memory or back; blocks. `offset`
 * is relative to the mapping. One-sided, no set-up. Returns 0.
 * Errors: those of afar_region_pread().
 */
int afar_mapping_read(struct afar_mapping *mapping, size_t offset, size_t length);
int afar_mapping_write(struct afar_mapping *mapping, size_t offset, size_t length);

/* ---- Buffers --------------------------------------------------------------------------------- */

enum afar_memory_kind {
	AFAR_MEMORY_HOST = 0,
};

struct afar_memory {
	size_t size;   /* sizeof(struct afar_memory) */
	uint32_t kind; /* enum afar_memory_kind */
	uint32_t reserved;
	void *addr;
	uint64_t length; /* bytes                                 */
};

#define AFAR_ACCESS_READ  0x1U /* may be the source of writes */
#define AFAR_ACCESS_WRITE 0x2U /* may be the destination of reads */
/* Goes with one of these: servers may access it themselves, for operations with AFAR_OP_DRIVEN. */
#define AFAR_ACCESS_SERVER 0x4U

/*
 * Registers memory of the caller for transfers. It must stay mapped until afar_buffer_unregister().
 * `access`: AFAR_ACCESS_… bits.
 * Errors: -EOPNOTSUPP (kind), -EINVAL (no memory, no access), -ENOMEM (over verbs also: more than
 * the process may pin, RLIMIT_MEMLOCK).
 */
int afar_buffer_register(struct afar_session *session, const struct afar_memory *memory,
			 unsigned access, struct afar_buffer **out);

/* Allocates and registers `length` bytes, on huge pages if there are any. */
int afar_buffer_alloc(struct afar_session *session, size_t length, struct afar_buffer **out);

/* Ends a registration; frees the memory if afar_buffer_alloc() made it. -EBUSY while in use. */
int afar_buffer_unregister(struct afar_buffer *buffer);

void *afar_buffer_data(const struct afar_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
