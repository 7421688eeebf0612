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

/*
 * A transfer to paged memory may have:
 *
 * DURABLE: a write that completes once its bytes survive the loss of power.
 * CHECKED: it begins with a block of CHECKSUM_BLOCK bytes, and has sums.
 *
 * The others are hints. They change no byte and no promise: a transport may leave them away, and a pager
 * need not heed them. A peer may be sent those alone that it is known to know.
 *
 * ONCE:    of a read. Its peer will not ask for the bytes again, so they need not be kept in memory.
 * BRIEF:   of a write. The bytes will soon be written again, or trimmed …
 * COLD:    … or not for long. Not both.
 */
enum fabric_paged_flags {
	FABRIC_PAGED_WRITE = 0x1,
	FABRIC_PAGED_DURABLE = 0x2,
	FABRIC_PAGED_CHECKED = 0x4,
	FABRIC_PAGED_ONCE = 0x8,
	FABRIC_PAGED_BRIEF = 0x10,
	FABRIC_PAGED_COLD = 0x20,
};
#define FABRIC_PAGED_HINTS ((unsigned)FABRIC_PAGED_ONCE | FABRIC_PAGED_BRIEF | FABRIC_PAGED_COLD)

/* Returns whether a transfer may have these hints together. */
static inline bool fabric_paged_hints_fit(unsigned hints, bool is_write)
{
	return hints == 0 || (is_write ? hints == FABRIC_PAGED_BRIEF || hints == FABRIC_PAGED_COLD
				       : hints == FABRIC_PAGED_ONCE);
}

/* One transfer of a peer to paged memory. It belongs to the transport. */
struct fabric_paged {
	struct fabric_pager *pager;
	void *owner;	 /* of the endpoint it came by, as given to accept */
	uint64_t offset; /* into the registered memory; inside of it */
	uint64_t length; /* 1 to FABRIC_PAGED_MAX */
	bool is_write;
	bool is_durable; /* a write: it ends once it survives the loss of power */
	bool is_checked; /* it begins with a block of CHECKSUM_BLOCK bytes, and has sums */
	unsigned hints;	 /* FABRIC_PAGED_ONCE, …; those that fit it */
	/* A device moves the bytes at `addr` themselves: memory that was lent (fabric_paged_lend())
	 * is best. */
	bool is_moved_in_place;
	void *addr; /* where the bytes are, or are to be: `take` sets it */
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
	/* Says which memory pagers will take for transfers. It stays until the fabric is closed. NULL: it
	 * does not matter. */
	int (*lend)(struct fabric *fabric, void *addr, size_t length);
	/*
	 * Starts a transfer, as fabric_read() and fabric_write() do, for paged memory alone. One that is
	 * durable or checked ends the connection if it is to other memory. -ENOMEM: a checked one was
	 * not started, and the endpoint stays.
	 *
	 * A checked one is from our memory to what is behind the pager, or back. Sums of all blocks go
	 * with the bytes. Those of a write are made here, before the call returns, so its memory must
	 * be there. Those of a read are compared when its bytes are in our memory. It is of
	 * FABRIC_PAGED_MAX bytes at most, and begins with a block. It ends inside of one only if there
	 * are zeros behind, and a write makes them zeros. -EBADMSG alone: some block is other than it
	 * was sent.
	 */
	int (*transfer)(struct fabric_endpoint *endpoint, unsigned flags,
			const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			uint64_t key, uint64_t context);
};

/* -EOPNOTSUPP: the transport cannot. */
static inline int fabric_memory_register_paged(struct fabric_domain *domain,
					       struct fabric_pager *pager, uint64_t length,
					       unsigned access, struct fabric_memory *out)
{
	const struct fabric_paged_ops *paged = domain->fabric->paged;

	return paged ? paged->memory_register(domain, pager, length, access, out) : -EOPNOTSUPP;
}

/* Call it before anything is served. Errors, with a sentence: those of fabric_memory_register(),
 * -ENOSPC. */
static inline int fabric_paged_lend(struct fabric *fabric, void *addr, size_t length)
{
	return fabric->paged && fabric->paged->lend ? fabric->paged->lend(fabric, addr, length) : 0;
}

/* `flags`: FABRIC_PAGED_…. -EOPNOTSUPP: the transport cannot. */
static inline int fabric_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
					const struct fabric_piece *pieces, unsigned nr_pieces,
					uint64_t remote, uint64_t key, uint64_t context)
{
	const struct fabric_paged_ops *paged = endpoint->queue->fabric->paged;

	return paged ? paged->transfer(endpoint, flags, pieces, nr_pieces, remote, key, context)
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
