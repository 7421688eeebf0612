/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of checked transfers (paged.h), for transports that have those. */
#ifndef FABRIC_SUMS_H
#define FABRIC_SUMS_H

#include <stdint.h>
#include <sys/uio.h>

/* Makes the sums of the blocks of so many bytes, the last with zeros behind. The pieces have as many
 * bytes at least. */
void fabric_sums_make(const struct iovec *iov, uint64_t length, uint32_t *sums);

#endif
