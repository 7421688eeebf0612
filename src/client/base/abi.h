/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs that cross the ABI begin with their size and may grow at their end. These functions
 * convert between the struct of the release that a program was built against and ours
 * (include/afar/afar.h, "Sizes"). Such a struct is inside another one only as its last member, or by a
 * pointer, because members behind it would move. In tests/grown all of them grow.
 */
#ifndef CLIENT_ABI_H
#define CLIENT_ABI_H

#include <stddef.h>

/*
 * Copies the caller's struct `given` into `known`, of `attr_cache_size` bytes. Members that an older,
 * smaller struct lacks become zero; the part that a newer one has in addition must be zero.
 * `oldest`: the size in the first release that had the struct. -EINVAL with a sentence that names
 * the struct `name`.
 */
int abi_take(void *known, size_t attr_cache_size, size_t oldest, const void *given,
	     const char *name);

/* The size of `struct type` in a release in which `last` was its last member. */
#define ABI_SIZE(type, last)                                                                   \
	((offsetof(struct type, last) + sizeof(((struct type *)NULL)->last) + sizeof(size_t) - \
	  1) /                                                                                 \
	 sizeof(size_t) * sizeof(size_t))

/* Copies the caller's `struct type`, whose last member was `last` in the first release that had it. */
#define ABI_TAKE(known, given, type, last) \
	abi_take(known, sizeof(struct type), ABI_SIZE(type, last), given, #type)

/* Checks the caller's `struct type` likewise, which the library is to fill in. */
#define ABI_CHECK_OUT(out, type, last) abi_check_out(out, ABI_SIZE(type, last), #type)

/* Checks that the library can fill in structs of the size that the caller has set in `*out`;
 * -EINVAL. */
int abi_check_out(const void *out, size_t oldest, const char *name);

/* Copies `known` into the caller's struct of `size` bytes, which have been checked. Cuts it, or
 * adds zeros at the end. */
void abi_give(void *out, size_t size, const void *known, size_t attr_cache_size);

#endif
