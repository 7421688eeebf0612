/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs that cross the ABI begin with their size and may grow at their end: what a program built
 * against another release of the header gives or wants is made to fit here (include/afar/afar.h,
 * "Sizes").
 */
#ifndef CLIENT_ABI_H
#define CLIENT_ABI_H

#include <stddef.h>

/*
 * Copies the caller's struct `given` into `known`, of `known_size` bytes: what an older, smaller one has
 * not is zero; what a newer one has more must be zero. `oldest`: the size in the first release that had
 * it. -EINVAL with a sentence that names the struct `name`.
 */
int abi_take(void *known, size_t known_size, size_t oldest, const void *given, const char *name);

/* Whether the library can fill in structs of the size that the caller has set in `*out`; -EINVAL. */
int abi_check_out(const void *out, size_t oldest, const char *name);

/* Copies `known` into the caller's struct of `size` bytes, which have been checked: cut, or with zeroes
 * at its end. */
void abi_give(void *out, size_t size, const void *known, size_t known_size);

#endif
