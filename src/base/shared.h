/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes of this machine can be given: each piece is a file of its own without a name
 * (memfd), because who has the descriptor has all of the file. The memory's owner makes and ends it here; a
 * transport asks which descriptor stands behind an address. Thread-safe.
 *
 * Nobody, whoever has the descriptor, can make the file longer or shorter: its owner never touches a page
 * that is not there.
 */
#ifndef BASE_SHARED_H
#define BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/* Maps `length` zeroed bytes, a multiple of the page, at a multiple of `alignment`, a power of two. Nothing
 * is populated. -ENOMEM, -EMFILE, -ENFILE, with a sentence. */
int shared_map(size_t length, size_t alignment, void **addr);
/* Unmaps it and frees its pages, which are not seen by anybody any more, whatever other processes still have
 * mapped: there they are zeroes, that nobody else sees. */
void shared_unmap(void *addr);
/* The descriptor of the memory that is exactly this, its owner's; -1: it is no such memory, or a part of
 * one, or more. */
int shared_descriptor(const void *addr, size_t length);

/* From now on nobody can write the memory, whoever has or gets the descriptor, but through its owner's mapping.
 * For good, and before it is lent. -EINVAL (it is no such memory), or the kernel's, with a sentence. */
int shared_make_read_only(const void *addr, size_t length);
/* To be called before somebody is given the descriptor: what may be done with the file stays as it is. */
bool shared_keep(int fd);

#endif
