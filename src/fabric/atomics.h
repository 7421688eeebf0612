/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: atomics on a peer's memory.
 *
 * NICs have some that need no running target. Where memory is mapped, they are the processor's
 * (has_processor_atomics). A fabric without this capability has `atomics` NULL.
 */
#ifndef FABRIC_ATOMICS_H
#define FABRIC_ATOMICS_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct fabric_atomics_ops {
	/* True: NICs carry them out, without a target that runs. The first call may try them for a
	 * moment. Any thread. NULL: no, they are the processor's. */
	bool (*are_by_nic)(struct fabric *fabric);
	/* On the 64-bit word at `remote`, a multiple of 8, in the target's byte order. The key must
	 * allow writing. On completion `result`, of 8 bytes, holds the old word. They are atomic
	 * only against others that go through the target's same NIC: not against its processor
	 * (unless has_processor_atomics), nor against reads and writes. The attribute
	 * writes_need_flush applies, as to writes. */
	int (*fetch_add)(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			 uint64_t remote, uint64_t key, uint64_t operand, uint64_t context);
	int (*compare_swap)(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
			    uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
			    uint64_t context);
};

static inline bool fabric_has_atomics(struct fabric *fabric)
{
	const struct fabric_atomics_ops *atomics = fabric->atomics;

	return atomics && atomics->are_by_nic && atomics->are_by_nic(fabric);
}

static inline int fabric_fetch_add(struct fabric_endpoint *endpoint,
				   const struct fabric_piece *result, uint64_t remote, uint64_t key,
				   uint64_t operand, uint64_t context)
{
	return endpoint->queue->fabric->atomics->fetch_add(endpoint, result, remote, key, operand,
							   context);
}

static inline int fabric_compare_swap(struct fabric_endpoint *endpoint,
				      const struct fabric_piece *result, uint64_t remote,
				      uint64_t key, uint64_t compare, uint64_t operand,
				      uint64_t context)
{
	return endpoint->queue->fabric->atomics->compare_swap(endpoint, result, remote, key,
							      compare, operand, context);
}

#endif
