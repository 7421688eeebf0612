/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes to send around. */
#ifndef TESTS_BYTES_H
#define TESTS_BYTES_H

#include <stddef.h>
#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* Fills the memory with bytes that look random; another seed makes others. */
void fill(void *data, size_t length, unsigned seed);

/* Returns how many of the bytes have the value. */
size_t count_bytes(const void *data, size_t length, uint8_t value);

#endif
