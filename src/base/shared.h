/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes of this machine can be given. Each piece is a file of its own without
 * a name (memfd), because a process that has the descriptor has all of the file. The memory's owner
 * makes and ends it here. A transport asks which descriptor stands behind an address. Thread-safe.
 *
 * Nobody can make the file longer or shorter, whoever has the descriptor, so its owner never
 * touches a page that is not there.
 */
#ifndef BASE_SHARED_H
#define BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/* Maps `length` zeroed bytes, a multiple of the page, at a multiple of `alignment`, a power of two.
 * It populates nothing. -ENOMEM, -EMFILE, -ENFILE, with a sentence. */
int shared_map(size_t length, size_t alignment, void **addr);
/* Unmaps the memory and frees its pages. Nobody sees their content any more. Other processes that
 * still have it mapped see zeroes, and nobody else sees what they write there. */
void shared_unmap(void *addr);
/* Returns the owner's descriptor of the memory that is exactly this. -1: it is no such memory, or
 * only a part of one, or more. */
int shared_descriptor(const void *addr, size_t length);

/* Makes the memory read-only for good, except through its owner's mapping, whoever has or gets the
 * descriptor. Call it before the memory is lent. -EINVAL (it is no such memory) or the kernel's
 * error, with a sentence. */
int shared_make_read_only(const void *addr, size_t length);
/* Call it before you give somebody the descriptor. It freezes what may be done with the file. */
bool shared_keep(int fd);

#endif
