/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the incarnation of a server that starts. Owns nothing. */
#include "server/control/incarnation.h"

#include <errno.h>
#include <openssl/rand.h>

#include "base/error.h"

int incarnation_draw(struct incarnation *out)
{
	*out = (struct incarnation){.began = clock_ns()};
	while (out->number == 0) {
		if (RAND_bytes((unsigned char *)&out->number, sizeof(out->number)) != 1 ||
		    RAND_bytes(out->signing_key, sizeof(out->signing_key)) != 1)
			return error_fail(-EIO, "start the server: no randomness");
	}
	return 0;
}
