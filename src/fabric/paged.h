/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric seam: memory that is not there, and transfers that only it has.
 *
 * Where the target takes part in transfers, memory for peers can be a pager's. It is written
 * durably, and moved with sums. A fabric without this capability has `paged` NULL.
 */
#ifndef FABRIC_PAGED_H
#define FABRIC_PAGED_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/page_guard.h"
#include "fabric/fabric.h"

#define FABRIC_PAGED_MAX (UINT64_C(1) << 20) /* bytes of one transfer to paged memory */

/*
 * A pager may keep pages in slabs. A slab is a file of shared memory (base/shared.h) that nobody else can write. It
 * has the pages, then a guard for each (base/page_guard.h). All pages of a slab are of one domain's namespace. A peer that can
 * be given memory itself, and has read a page, can be told where that is. It finds the page there again without
 * the pager, as long as the guard shows it.
 */
#define FABRIC_PAGE	  4096U
#define FABRIC_SLAB_PAGES 512U
#define FABRIC_SLAB_BYTES (FABRIC_SLAB_PAGES * (FABRIC_PAGE + sizeof(struct page_guard)))
#define FABRIC_SLABS_MAX  8192U

struct fabric_reference {
	int fd;		/* of the slab; the pager's, while the transfer is there */
	uint64_t slab;	/* a number that no other slab of the pager's has, or had */
	uint32_t place; /* of the page: the slab's index in FABRIC_SLAB_PAGES, and the page in it */
	uint64_t generation; /* 0: there is no reference */
};

/* One transfer of a peer to paged memory. It belongs to the transport. */
struct fabric_paged {
	struct fabric_pager *pager;
	void *owner;	 /* of the endpoint it came by, as given to accept */
	uint64_t offset; /* into the registered memory; inside of it */
	uint64_t length; /* 1 to FABRIC_PAGED_MAX */
	bool is_write;
	bool is_durable; /* a write: it ends once it survives the loss of power */
	bool is_checked; /* it begins with a block of CHECKSUM_BLOCK bytes, and has sums */
	void *addr;	 /* where the bytes are, or are to be: `take` sets it */
	/* If it is checked, where the CRC32C of each block is, or is to be: `take` sets it, too. The
	 * sum of a block that the transfer has in part is that with zeros behind. A write begins
	 * with those that its peer has made. A read has those that are kept when it ends. */
	uint32_t *sums;
	void *taken;				   /* the pager's own note */
	bool takes_reference;			   /* a read: the peer would remember one */
	struct fabric_reference reference;	   /* a read of one page: `take` may set it */
	int status;				   /* for fabric_paged_ended() */
	void (*ended)(struct fabric_paged *paged); /* the transport's */
};

/*
 * Memory that is not there: a program brings its bytes and keeps them, transfer by transfer. A peer
 * reads and writes it as other memory. All calls come on the thread of the endpoint's queue. A call
 * may call fabric_paged_ended(), and nothing else of the fabric. A pager stays as long as its
 * registrations, and until all its transfers have left.
 */
struct fabric_pager {
	/* Takes memory for all bytes of the transfer, and its sums: sets `addr`, `sums` and
	 * `taken`. -EAGAIN: there is none now. The transfer, and what is behind it on the
	 * connection, waits. Each poll of the queue asks again, in the order in which connections
	 * began to wait. So poll the queue when there may be memory again. Another error: the
	 * transfer fails with it. */
	int (*take)(struct fabric_pager *pager, struct fabric_paged *paged);
	/* A read: brings the bytes to `addr`. A write: they are at `addr`; keeps them. Calls
	 * fabric_paged_ended() when it has ended, from within this call or later. */
	void (*begin)(struct fabric_pager *pager, struct fabric_paged *paged);
	/* The transport is done with a transfer for which `take` returned 0: its reply is sent, or
	 * its connection is closed. The pager looks at `paged` no more. If the transfer has begun
	 * and not ended, the memory stays the pager's until its device is done with it;
	 * fabric_paged_ended() is not called. */
	void (*leave)(struct fabric_pager *pager, struct fabric_paged *paged);
	/* A peer says that it has read a page by reference. It may be wrong. `generation` has the lower 32 bits. */
	void (*used)(struct fabric_pager *pager, uint32_t place, uint32_t generation);
};

struct fabric_paged_ops {
	/* Registers `length` bytes that are the pager's, for peers. One transfer to them is at most
	 * FABRIC_PAGED_MAX bytes; a longer one ends the connection. A transfer that the pager
	 * cannot carry out ends alone (fabric_completion.is_alone). Deregister it as other memory;
	 * a transfer in progress goes on. */
	int (*memory_register)(struct fabric_domain *domain, struct fabric_pager *pager,
			       uint64_t length, unsigned access, struct fabric_memory *out);
	/* A write that completes when its bytes survive the loss of power. For paged memory alone;
	 * to other memory it ends the connection. */
	int (*write_durable)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	/*
	 * Transfers that are checked from our memory to what is behind the pager, and back. Sums of
	 * all blocks go with the bytes. Those of a write are made here, before the call returns, so
	 * its memory must be there. Those of a read are compared when its bytes are in our memory.
	 * A transfer is of FABRIC_PAGED_MAX bytes at most, and begins with a block. It ends inside
	 * of one only if there are zeros behind, and a write makes them zeros. -EBADMSG alone: some
	 * block is other than it was sent. For paged memory alone; to other memory it ends the
	 * connection. -ENOMEM: the transfer was not started, and the endpoint stays.
	 */
	int (*read_checked)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			    unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
	int (*write_checked)(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
			     unsigned nr_pieces, uint64_t remote, uint64_t key, bool is_durable,
			     uint64_t context);
};

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_memory_register_paged(struct fabric_domain *domain,
					       struct fabric_pager *pager, uint64_t length,
					       unsigned access, struct fabric_memory *out)
{
	const struct fabric_paged_ops *paged = domain->fabric->paged;

	return paged ? paged->memory_register(domain, pager, length, access, out) : -EOPNOTSUPP;
}

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_write_durable(struct fabric_endpoint *endpoint,
				       const struct fabric_piece *pieces, unsigned nr_pieces,
				       uint64_t remote, uint64_t key, uint64_t context)
{
	const struct fabric_paged_ops *paged = endpoint->queue->fabric->paged;

	return paged ? paged->write_durable(endpoint, pieces, nr_pieces, remote, key, context)
		     : -EOPNOTSUPP;
}

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_read_checked(struct fabric_endpoint *endpoint,
				      const struct fabric_piece *pieces, unsigned nr_pieces,
				      uint64_t remote, uint64_t key, uint64_t context)
{
	const struct fabric_paged_ops *paged = endpoint->queue->fabric->paged;

	return paged ? paged->read_checked(endpoint, pieces, nr_pieces, remote, key, context)
		     : -EOPNOTSUPP;
}

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_write_checked(struct fabric_endpoint *endpoint,
				       const struct fabric_piece *pieces, unsigned nr_pieces,
				       uint64_t remote, uint64_t key, bool is_durable,
				       uint64_t context)
{
	const struct fabric_paged_ops *paged = endpoint->queue->fabric->paged;

	return paged ? paged->write_checked(endpoint, pieces, nr_pieces, remote, key, is_durable,
					    context)
		     : -EOPNOTSUPP;
}

/* The pager says, once, how a transfer that it has begun has ended: 0, or a negative code. The
 * reply goes out in the next poll of the queue, and nobody may sleep before. */
static inline void fabric_paged_ended(struct fabric_paged *paged, int status)
{
	paged->status = status;
	paged->ended(paged);
}

#endif
