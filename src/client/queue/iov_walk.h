/* SPDX-License-Identifier: BSD-3-Clause */
/* A place in an operation's memory, whose pieces follow each other. */
#ifndef CLIENT_IOV_WALK_H
#define CLIENT_IOV_WALK_H

#include <stddef.h>
#include <stdint.h>

#include <afar/afar.h>

struct iov_walk {
	const struct afar_iov *piece; /* that it is in */
	size_t offset;		      /* into that */
};

/* Goes behind the next bytes that are in one piece, at most `max`. Returns how many, and where they are; 0: the piece
 * was empty. There are more bytes. */
static inline uint64_t iov_walk_on(struct iov_walk *at, uint64_t max, void **addr)
{
	const struct afar_iov *piece = at->piece;
	uint64_t left = piece->length - at->offset;

	*addr = (char *)piece->addr + at->offset;
	if (max < left) {
		at->offset += max;
		return max;
	}
	*at = (struct iov_walk){piece + 1, 0};
	return left;
}

#endif
