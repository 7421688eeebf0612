/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs that cross the ABI begin with their size and may grow at their end. These functions
 * convert between the struct of the release that a program was built against and ours
 * (include/afar/afar.h, "Sizes").
 */
#ifndef CLIENT_ABI_H
#define CLIENT_ABI_H

#include <stddef.h>

/*
 * Copies the caller's struct `given` into `known`, of `known_size` bytes. Members that an older,
 * smaller struct lacks become zero; the part that a newer one has in addition must be zero.
 * `oldest`: the size in the first release that had the struct. -EINVAL with a sentence that names
 * the struct `name`.
 */
int abi_take(void *known, size_t known_size, size_t oldest, const void *given, const char *name);

/* Checks that the library can fill in structs of the size that the caller has set in `*out`;
 * -EINVAL. */
int abi_check_out(const void *out, size_t oldest, const char *name);

/* Copies `known` into the caller's struct of `size` bytes, which have been checked. Cuts it, or
 * adds zeros at the end. */
void abi_give(void *out, size_t size, const void *known, size_t known_size);

#endif
