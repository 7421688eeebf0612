/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of checked transfers, at the end that has asked. They are made of memory that is to be
 * written, and compared with what has come of a read. An endpoint has memory for the sums of all
 * its requests, from the first checked one on. Called by endpoint.c, stream.c and paged.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sums.h"
#include "fabric/tcp/paged.h"

int tcp_sums_open(struct tcp_endpoint *endpoint)
{
	const size_t nr = (size_t)endpoint->expected_mask + 1;

	if (!endpoint->sums)
		endpoint->sums = calloc(nr, TCP_SUMS_MAX * sizeof(*endpoint->sums));
	return endpoint->sums ? 0 : -ENOMEM;
}

static uint32_t *sums_of(const struct tcp_endpoint *endpoint, const struct tcp_expected *expected)
{
	return endpoint->sums + (size_t)(expected - endpoint->expected) * TCP_SUMS_MAX;
}

void tcp_sums_prepare(const struct tcp_endpoint *endpoint, struct tcp_expected *expected,
		      struct tcp_outgoing *out)
{
	const struct iovec piece = {sums_of(endpoint, expected), tcp_sums_bytes(expected->length)};

	if (tcp_is_read(out->type)) {
		expected->iov[expected->nr_iov++] = piece;
		return;
	}
	fabric_sums_make(out->iov, expected->length, piece.iov_base);
	tcp_sums_swap(piece.iov_base, expected->length);
	out->iov[out->nr_iov++] = piece;
	out->length += piece.iov_len;
}

bool tcp_sums_fit(const struct tcp_endpoint *endpoint)
{
	const struct tcp_expected *expected =
		&endpoint->expected[endpoint->expected_first & endpoint->expected_mask];
	uint32_t sums[TCP_SUMS_MAX];

	fabric_sums_make(expected->iov, expected->length, sums);
	tcp_sums_swap(sums, expected->length);
	return memcmp(sums, sums_of(endpoint, expected), tcp_sums_bytes(expected->length)) == 0;
}

void tcp_sums_swap(uint32_t *sums, uint64_t length)
{
	for (uint64_t i = 0; i < tcp_sums_bytes(length) / sizeof(*sums); i++)
		sums[i] = htole32(sums[i]);
}
