/* SPDX-License-Identifier: BSD-3-Clause */
/* key_parse(): no more keys than asked for, each with an identity that could be written back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/key.h"

#define NR_KEYS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key keys[NR_KEYS + 1];
	struct key untouched;
	int found;

	memset(&untouched, 0xa5, sizeof(untouched));
	memset(keys, 0xa5, sizeof(keys));
	found = key_parse((const char *)data, size, "fuzz", keys, NR_KEYS);
	require(found == -EINVAL || (found >= 0 && found <= NR_KEYS));
	require(!memcmp(&keys[NR_KEYS], &untouched, sizeof(untouched)));
	for (int i = 0; i < found; i++) {
		const size_t length = strnlen(keys[i].identity, sizeof(keys[i].identity));

		require(length >= 1 && length <= KEY_IDENTITY_MAX);
		require(!strpbrk(keys[i].identity, ": \t\r\n"));
		for (int j = 0; j < i; j++)
			require(strcmp(keys[i].identity, keys[j].identity) != 0);
	}
	return 0;
}
