/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions: made, opened, read, written, sealed and attached; see afar.h. */
#ifndef AFAR_REGION_H
#define AFAR_REGION_H

#include <sys/uio.h>

#include <afar/namespace.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_region; /* an allocated segment <address, length> of a namespace */

/* ---- Regions --------------------------------------------------------------------------------- */

/*
 * The address of every namespace's first region. Programs that share nothing but the namespace's
 * name meet there. All try to open it. Those that get -ENOENT allocate it with AFAR_ALLOC_FIRST.
 * One succeeds; the others get -EADDRINUSE and open it (Trivedi, §6.3.1). afar_region_bootstrap()
 * in afar/barrier.h does that.
 */
#define AFAR_FIRST_ADDRESS ((uint64_t)0x1000)

#define AFAR_ALLOC_FIRST 0x1U /* at AFAR_FIRST_ADDRESS, or fail with -EADDRINUSE */
/*
 * The servers' network cards carry out the region's atomics, one-sided, instead of their
 * processors. This never changes. Only sessions over a transport with such atomics (verbs) can use
 * them; all others get -EOPNOTSUPP. Reads and writes are as in any region.
 */
#define AFAR_ALLOC_NIC_ATOMICS 0x2U
/*
 * The region counts as unfinished, for all who list it, until afar_region_finish(): also when whoever fills it
 * dies. It can be opened, read and written like any other.
 */
#define AFAR_ALLOC_UNFINISHED 0x4U
/*
 * Like AFAR_ALLOC_UNFINISHED. Besides, the manager frees the region if it is unfinished when the
 * session that has made it closes it or ends, however that is. So a program that is killed leaves
 * nothing half made. The memory returns to the namespace when nobody else has the region open
 * either.
 */
#define AFAR_ALLOC_TEMPORARY 0x10U
/*
 * The region is copy-on-write: it changes version by version (afar/cow.h). Its first version is all zeros and takes no memory;
 * writers get theirs as they begin. Not with AFAR_ALLOC_NIC_ATOMICS (-EOPNOTSUPP),
 * AFAR_ALLOC_UNFINISHED or AFAR_ALLOC_TEMPORARY (-EINVAL).
 */
#define AFAR_ALLOC_COW 0x8U

struct afar_region_stat {
	size_t size; /* sizeof(struct afar_region_stat), set by the caller */
	uint64_t address;
	uint64_t length;	      /* bytes */
	char name[AFAR_NAME_MAX + 1]; /* empty: it has none */
	uint32_t width;		      /* servers it is striped over */
	uint32_t nr_references;	      /* sessions that have it open */
	uint64_t stripe_bytes;
	uint32_t is_lost; /* part of it was on a server that has restarted, or was removed */
	uint32_t rights; /* the caller's on its namespace: AFAR_RIGHT_… bits; an open region keeps
			   * those it was opened with */
	uint32_t has_nic_atomics; /* it was made with AFAR_ALLOC_NIC_ATOMICS */
	uint32_t is_sealed;	  /* nobody can write it any more */
	uint32_t
		is_unfinished; /* made with AFAR_ALLOC_UNFINISHED or _TEMPORARY, and not finished yet */
	/* For a region made with AFAR_ALLOC_COW; else 0: */
	uint64_t version;  /* the newest one; nr_references counts those who have this one open */
	uint32_t nr_older; /* versions before it that somebody has open still */
	uint32_t nr_older_references;	/* sessions that have one of those open, added up */
	char writer[AFAR_NAME_MAX + 1]; /* the session that is writing the next one; empty: none */
};

/*
 * Binds reserved memory to a new region of `bytes`: metadata only, one call to the manager. Its
 * content is undefined: zero where the memory is fresh; elsewhere the remains of earlier regions of
 * this same namespace. The region outlives the session, but for AFAR_ALLOC_TEMPORARY. A region made
 * by `_alloc` is known by its address alone. One made by `_create` is also known by a name (1 to
 * AFAR_NAME_MAX bytes without control characters). `out` may be NULL ("Making").
 * Errors: -EINVAL (0 bytes, past 2^64, unknown flag, name), -AFAR_ERESERVE (beyond the
 * reservation), -EADDRINUSE (AFAR_ALLOC_FIRST), -EEXIST (name), -EOPNOTSUPP
 * (AFAR_ALLOC_NIC_ATOMICS: the session's transport to the servers has no atomics).
 */
int afar_region_alloc(struct afar_namespace *ns, uint64_t bytes, unsigned flags,
		      struct afar_region **out);
int afar_region_create(struct afar_namespace *ns, const char *name, uint64_t bytes, unsigned flags,
		       struct afar_region **out);

/*
 * Says, durably, that a region that was made with AFAR_ALLOC_UNFINISHED or AFAR_ALLOC_TEMPORARY is complete. One call to the
 * manager. Flush earlier writes first (AFAR_OP_FLUSH) if others may read them over other paths. Does
 * nothing to a region that is finished.
 * Errors: -EACCES (without AFAR_RIGHT_WRITE), -AFAR_EFREED.
 */
int afar_region_finish(struct afar_region *region);

/*
 * Opens a region by name, or the one that begins at `address`: one call to the manager, for its
 * layout. Later, afar_region_map(), afar_queue_connect(), or the first blocking read or write fetch
 * the keys of its extents and connect to its servers.
 * Errors: -ENOENT, -AFAR_ELOST.
 */
int afar_region_open(struct afar_namespace *ns, const char *name, struct afar_region **out);
int afar_region_open_at(struct afar_namespace *ns, uint64_t address, struct afar_region **out);

/*
 * Closes the handle; the region lives on. -EBUSY while it is mapped, attached or has operations in
 * flight.
 *
 * After a write with an unknown outcome, it asks the region's servers to close the old connection.
 * This may take a second if a server does not answer. Until the server has done so, it may still
 * carry out that write. So the session keeps its reference: the memory of a freed region must not
 * become another's before. The session looks again when it next deals with regions, and at its own
 * end.
 */
int afar_region_close(struct afar_region *region);

/*
 * Ends the region for everybody. Its name and address are gone at once; its memory returns to the
 * namespace when the last session that has it open closes it. The handle stays, for
 * afar_region_close().
 * Errors: -AFAR_EFREED (freed before, by this or another handle).
 */
int afar_region_destroy(struct afar_region *region);

/*
 * Frees a region that is not open here, even if its servers are gone: the way to get rid of a lost
 * one.
 * Errors: -ENOENT (none, or freed before).
 */
int afar_region_delete(struct afar_namespace *ns, const char *name);
int afar_region_delete_at(struct afar_namespace *ns, uint64_t address);

int afar_region_stat(struct afar_region *region, struct afar_region_stat *out);

/*
 * Lists the regions of a namespace in order of address. Puts up to `max` entries with an address
 * above `after` (0: all) into `out`; the caller has set the first entry's `size`. Returns how many.
 */
int afar_region_list(struct afar_namespace *ns, uint64_t after, struct afar_region_stat *out,
		     unsigned max);

/*
 * Reads or writes the bytes at `offset` one-sided, from or to any memory; blocks until they are
 * transferred. All or nothing: returns the byte count asked for, or an error. After an error any
 * part may have been written. Nothing is moved if the range is not wholly inside the region.
 *
 * If the transport needs registered memory, more than 64 KiB of unregistered memory are registered for the
 * transfer. Less is copied part by part, and so is more if the process may pin no more memory.
 *
 * Memory that is not there is -EFAULT where the kernel notices, and SIGSEGV where the library
 * copies: afar_region(3).
 *
 * Connections are made at the first use. A server closes a session's connections when memory that
 * the session could reach becomes another's. A transfer that meets that is repeated over a new one.
 *
 * Errors: -ERANGE (past the end), -EINVAL (more than SSIZE_MAX, more than IOV_MAX pieces), -EACCES
 * (a write without AFAR_RIGHT_WRITE: nothing was moved), -EROFS (a write to a sealed region:
 * nothing was moved), -AFAR_ESERVER, -AFAR_ELOST, -ETIMEDOUT (outcome of a write unknown; the
 * memory is quiescent).
 */
ssize_t afar_region_pread(struct afar_region *region, void *data, size_t length, uint64_t offset);
ssize_t afar_region_pwrite(struct afar_region *region, const void *data, size_t length,
			   uint64_t offset);

/*
 * Makes durable all that has completed on the region before the call, by anybody, if it is on flash
 * (AFAR_OP_SYNC). In memory it does nothing. Blocks. Errors: -AFAR_EUNSYNCED: writes that had
 * completed since the region was opened or last synced may be lost; said once. -AFAR_ESERVER: a
 * store's server cannot be reached; -EIO: a device has failed.
 */
int afar_region_sync(struct afar_region *region);
ssize_t afar_region_readv(struct afar_region *region, const struct iovec *iov, int nr_iov,
			  uint64_t offset);
ssize_t afar_region_writev(struct afar_region *region, const struct iovec *iov, int nr_iov,
			   uint64_t offset);

/*
 * Atomics on the little-endian 64-bit word at `offset`, a multiple of 8; they block until done.
 * `*before` (may be NULL) gets the old word. compare_swap stores `operand` if the word is
 * `compare`.
 *
 * A processor of the server's machine carries them out. So all atomics on one word are atomic
 * against each other, whichever transports their callers use. They are not atomic against reads and
 * writes of other sizes. Over `local` that processor is the caller's. Otherwise an atomic is one
 * message to the server and back: nothing else on the data path needs the server's CPU.
 *
 * Errors: -EINVAL (not a multiple of 8), -ERANGE, -EACCES, -EROFS, -AFAR_ESERVER, -AFAR_ELOST,
 * -ETIMEDOUT. An atomic is not repeated when its connection is lost: after the last three it may
 * have been done, or not.
 */
int afar_region_fetch_add(struct afar_region *region, uint64_t offset, uint64_t operand,
			  uint64_t *before);
int afar_region_compare_swap(struct afar_region *region, uint64_t offset, uint64_t compare,
			     uint64_t operand, uint64_t *before);

/* ---- Longer and shorter regions -------------------------------------------------------------- */

/*
 * Gives the region `bytes`: one call to the manager, for everybody who uses it. Its content behind
 * its former end is undefined, as in a new region. Its address stays, and names its beginning
 * alone: a region that has grown may reach past the address where another begins.
 *
 * Longer: memory is bound to its end, which must be reserved. This handle has it at once. Others,
 * also of this session, see it when they call afar_region_stat(), or open the region. Queues that
 * use such a handle then need afar_queue_connect() again.
 *
 * Shorter: the region's servers close the namespace's data connections once. Operations of queues
 * on them end with -AFAR_ESERVER, and queues need afar_queue_connect() again. Blocking reads and
 * writes continue by themselves. When all have done so, no handle reaches what was cut off.
 * Operations there end with -ERANGE, unless they were done before. Only then is that memory free
 * for others of its namespace; afar_namespace_release() gives it back to the servers. Attached
 * ranges of the region become inaccessible, as when it is sealed.
 *
 * If it fails, or the manager dies meanwhile, the region has its former length or the new one.
 * Blocks. Resizings of a region happen one after another, and not during a sealing.
 * Errors: -EINVAL (0 bytes, past 2^64, the region of a volume or a file system), -EACCES (without
 * AFAR_RIGHT_WRITE), -EROFS (sealed), -EOPNOTSUPP (copy-on-write), -AFAR_ERESERVE (beyond the
 * reservation, or in too many pieces), -AFAR_EFREED, -AFAR_ELOST, -AFAR_ESERVER (a server of it
 * cannot be reached; only if it becomes shorter), -ETIMEDOUT (outcome unknown).
 */
int afar_region_resize(struct afar_region *region, uint64_t bytes);

/* ---- Sealed regions -------------------------------------------------------------------------- */

/*
 * Makes the region immutable, for good and for everybody, its owner and operators included. It
 * holds what was written before, and nothing changes it any more. It can be opened, read and freed
 * as before; writes and atomics answer -EROFS. Its bytes never change, so caches may keep them. Its
 * servers copy it to memory that they lend for reading alone, with a CRC32C for each 4096 bytes,
 * which afar_region_verify() checks.
 *
 * A write that was acknowledged before the call is in it, if it was flushed (AFAR_OP_FLUSH). The
 * call itself flushes blocking calls. A write that is under way is in it, or fails. The servers
 * close the namespace's data connections once: operations on them end with -AFAR_ESERVER, and
 * queues need afar_queue_connect() again. Blocking reads and writes continue by themselves. Sealing
 * a sealed region does nothing and returns 0.
 *
 * The copy takes as many bytes again, and a little more for the sums. Afterwards the region's
 * former memory is free for others of its namespace. For owner and operators, the call reserves the
 * memory that the namespace lacks; for others the namespace must have enough free sealed memory.
 * Blocks. Whatever happens meanwhile, the region ends as it was, or sealed.
 * Errors: -EACCES (without AFAR_RIGHT_WRITE), -AFAR_EFREED, -AFAR_ELOST, -ENOSPC, -AFAR_ERESERVE,
 * -AFAR_ESERVER (a server of it cannot be reached).
 */
int afar_region_seal(struct afar_region *region);

/*
 * Reads the blocks of 4096 bytes that [offset, offset + length) touches, and compares them with the
 * sums made when the region was sealed. 0: all are right. -EBADMSG: one is not, and `*bad` (may be
 * NULL) gets its offset.
 * Errors: -EINVAL (not sealed), -ERANGE, -EBADMSG, those of afar_region_pread().
 */
int afar_region_verify(struct afar_region *region, uint64_t offset, uint64_t length, uint64_t *bad);

/* ---- Attaching ------------------------------------------------------------------------------- */

/*
 * Maps the region's memory itself, `length` bytes at `offset`, into the caller's address space,
 * contiguous at `*addr`, however it is striped. Loads and stores then go to the servers' memory
 * without a call. All servers of the range must be on this machine and lend their memory (transport
 * local). `prot` is PROT_READ or PROT_READ | PROT_WRITE of <sys/mman.h>; a sealed region can be
 * attached for reading alone. `offset` is a multiple of the page, because whole pages are attached;
 * `length` need not be. See docs/memory-model.md for what loads and stores of several processes
 * see.
 *
 * The whole range becomes inaccessible when the session ends, the region is sealed or made shorter,
 * or a server of the range ends or restarts. From then on until it is detached, touching it raises SIGSEGV. It
 * never becomes anybody else's memory. Do not give it to the kernel or to devices for longer than a
 * call (no O_DIRECT, no registering). A forked child does not have it.
 *
 * Each stripe unit is a mapping of its own to the kernel, which limits them (vm.max_map_count).
 * Errors: -EOPNOTSUPP (a server of the range is elsewhere: the sentence says which and why),
 * -EINVAL, -ERANGE, -EACCES (the caller may not write it), -EROFS (sealed), -ENOMEM, -AFAR_ELOST,
 * -AFAR_ESERVER, -ETIMEDOUT.
 */
int afar_region_attach(struct afar_region *region, uint64_t offset, size_t length, unsigned prot,
		       void **addr);

/* Unmaps it: `addr` as afar_region_attach() gave it. The region cannot be closed before. -EINVAL:
 * it is not attached there. */
int afar_region_detach(struct afar_region *region, void *addr);

#ifdef __cplusplus
}
#endif
#endif
