/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy-on-write regions: one program at a time writes the next version of a region, while all others read the last one
 * that was published. A reader never sees a part of one version beside a part of another.
 *
 *	writer                                        reader
 *	afar_region_begin(region, &range, 1);         afar_region_open(ns, "model", &region);
 *	afar_region_pwrite(region, data, n, at);      afar_region_pread(region, …);    always the same version
 *	afar_region_publish(region);                  afar_region_refresh(region);     the newest one
 *
 * A region is divided into units: the namespace's stripe unit, or a multiple of it if the region has more than 16384.
 * The writer says which bytes it is about to write. The units of these get new memory; all other units are shared with the
 * versions before. So a new version costs memory and time for what changes in it. The library
 * copies the bytes that the writer leaves as they are into a unit's new memory, one-sided.
 *
 * A handle is at one version. It changes only when the program calls one of the functions here. The
 * version stays, also if the program is stopped, until the handle is closed or taken to another
 * version. If the session ends, the version stays until every server has closed the session's
 * connections. The memory that no version needs any more goes back to the namespace.
 *
 * Such regions are read like all others. They have no atomics, and are neither attached nor sealed: -EOPNOTSUPP.
 *
 * Rules of afar.h hold: functions return 0 or a negative code, and afar_last_error() says more. Functions that move a handle
 * (all but afar_region_version() and afar_region_newest()) block for calls to the manager. No operation on the handle
 * may be in flight meanwhile, in any thread: -EBUSY, as far as that is seen. Mappings stay. A version may be on servers that the one
 * before was not on: connect queues again (afar_queue_connect()).
 *
 * The idea: Trivedi, End-to-End Considerations in the Unification of High-Performance I/O, §6.2.7. There, a writer leases
 * new chunks for 10 s. Here no clock takes memory from anybody: a writer that is idle loses its claim alone, and only to
 * somebody who wants it.
 */
#ifndef AFAR_COW_H
#define AFAR_COW_H

#include <stdint.h>

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_range {
	uint64_t offset; /* bytes into the region */
	uint64_t length;
};

/*
 * Begins the next version of a region made with AFAR_ALLOC_COW, whose only writer the caller is until it publishes or
 * abandons it. The handle is taken to the newest version first, so nobody's changes are lost, and prepares the ranges as
 * afar_region_prepare() does. From then on it reads what it has written. `ranges` may be NULL if `nr_ranges` is 0.
 *
 * The claim to write is the session's. If its program dies, the claim ends with the session's lease, and the region is as it
 * was. If it lives and does not use the version for 30 s (`afard --claim-ms`), the next one who begins a version has the claim. Reading and writing
 * are use, and so are beginning and preparing. The program's writes are not published then, and it
 * may go on writing there. Nobody else gets the memory of its version before it abandons that or
 * closes the handle.
 *
 * Errors: -EBUSY (somebody is writing a version, and the last error says who and since when; this handle has begun one), -EINVAL (the
 * region is not copy-on-write), -EACCES (no right to write), -ERANGE, -ENOSPC (the namespace has no free memory for the
 * ranges' units), -AFAR_EFREED, -AFAR_ELOST, -AFAR_ESERVER, -ETIMEDOUT, -ENOMEM. After each of them the handle has not begun,
 * unless a server that does not answer may still carry out a write to the version. Then it can only
 * be abandoned.
 */
int afar_region_begin(struct afar_region *region, const struct afar_range *ranges,
		      unsigned nr_ranges);

/*
 * Does what afar_region_begin() does, but first waits up to `timeout_ms` milliseconds (-1: no
 * limit) while somebody else is writing a version. The wait ends when that one is published or
 * abandoned, its session ends, or it has not been used for the time of a claim. -EBUSY after
 * `timeout_ms`, and the last error says who has begun one, since when, and when he used it last.
 * Wait in short steps to be able to give it up.
 */
int afar_region_begin_within(struct afar_region *region, const struct afar_range *ranges,
			     unsigned nr_ranges, int timeout_ms);

/*
 * Says that these ranges of the version that the handle has begun are about to be written: what they touch gets new memory.
 * Their bytes are undefined until they are written; all others are as they were. Does nothing for units that have been
 * prepared before: what was written stays. A write to anything else fails with -EROFS; a longer one may have been
 * done in part then. Ranges may overlap. Few calls with many ranges are better than many calls: each is a commit of the manager.
 *
 * Errors: -EINVAL (no version is begun), -ESTALE (another session has taken the claim: abandon it), -ERANGE, -ENOSPC (nothing has changed), -AFAR_EFREED, -AFAR_ELOST, -AFAR_ESERVER,
 * -ETIMEDOUT, -ENOMEM. After errors other than -EINVAL, -ESTALE, -ERANGE, -ENOSPC and -EBUSY the version may lack bytes, and can only be abandoned.
 */
int afar_region_prepare(struct afar_region *region, const struct afar_range *ranges,
			unsigned nr_ranges);

/*
 * Makes the version that the handle has begun the newest one, by one commit. All of it is visible to whoever opens or
 * refreshes the region afterwards, and nothing of it before. The handle stays at this version, and writes no more.
 *
 * All writes must have completed. Those of blocking calls are made visible first; those of queues need an AFAR_OP_FLUSH
 * over some transports (afar.h). On flash everything is made durable first.
 *
 * Errors: -EINVAL (no version is begun, or a prepare has failed), -ESTALE (it was not used for a while, and another session has taken the claim to write: nothing of
 * this version is visible; abandon it), -EBUSY (operations are in flight), -AFAR_ESERVER (a server
 * may still carry out a write whose outcome is unknown, and cannot be reached: try again), -AFAR_EFREED, -AFAR_ELOST,
 * -AFAR_EUNSYNCED, -ETIMEDOUT and -AFAR_EMANAGER (it may have been published: call again, which is safe). After an error
 * the version is still begun: publish it later, or abandon it.
 */
int afar_region_publish(struct afar_region *region);

/*
 * Gives up the version that the handle has begun, and takes the handle to the newest published one. The new memory goes
 * back to the namespace. Closing the handle does the same.
 * Errors: -EINVAL (no version is begun), -EBUSY, -AFAR_ESERVER (as for publishing), -AFAR_EFREED, -AFAR_ELOST, -ETIMEDOUT.
 */
int afar_region_abandon(struct afar_region *region);

/*
 * Takes the handle to the newest version. Does nothing if it is there. Returns 0 or an error: -EINVAL (not
 * copy-on-write), -EBUSY (the handle has begun a version, or operations are in flight), -AFAR_EFREED, -AFAR_ELOST,
 * -ETIMEDOUT. The handle is where it was then.
 */
int afar_region_refresh(struct afar_region *region);

/* Returns the number of the version that the handle is at, or has begun. They count from 1, which is all zeros. 0: the region
 * is not copy-on-write. Does not block. */
uint64_t afar_region_version(const struct afar_region *region);

/*
 * Tells whether there is a newer version, cheaply: reads one word, one-sided, that writers set after they have
 * published. It is a hint. `*version` is never below the handle's own, and may be behind: if a writer died just after it had
 * published, until the next one publishes. On flash this asks the manager. Only afar_region_refresh() takes the handle there.
 * Errors: -EINVAL (not copy-on-write; `version` is null), those of reading.
 */
int afar_region_newest(struct afar_region *region, uint64_t *version);

#ifdef __cplusplus
}
#endif

#endif
