/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coordination of the processes of one program: they find each other, share out work and wait for
 * each other. They do so by bytes in a region that all of them read and write one-sided. No server
 * takes part.
 *
 * The members of a barrier are numbered from 0, as ranks are. Member 0 coordinates: it begins each
 * phase, and hears from the others when they have finished it. The others are its workers. A
 * program may use a barrier in two ways, and mix them:
 *
 *  - Among equals: every member calls afar_barrier_wait() at the end of each phase.
 *  - Work assignment: member 0 calls afar_barrier_start(), with a piece of work for each, and
 *    afar_barrier_collect(). The others call afar_barrier_next(), work, and call
 *    afar_barrier_report().
 *
 * Any number of phases may follow. Nobody is ever in a phase that member 0 has not begun. Member 0
 * begins none before every other member has reported the one before.
 *
 * Waiting: nobody wakes a waiter, because no program is told of a one-sided write. A waiter reads
 * again and again. For options.spin_us it makes no pause, though it lets other threads have its
 * core if they need it. Then its pauses are a quarter of the time it has waited, up to
 * options.pause_us_max. So a wait ends at most a quarter later than it could have, and never more
 * than pause_us_max later.
 *
 * Timeouts bound the waiting for members. The session's timeout also bounds each read or write
 * under way, which matters when a server of the region does not answer.
 *
 * Deaths: only deadlines tell of a member's death. After -ETIMEDOUT the same call may be made
 * again, to go on waiting. A barrier does not go on without a member that has not reported. Close
 * it, which ends the others' waits with -ESHUTDOWN, and open another with the members that are
 * left. If member 0 dies, the others' waits end with -ETIMEDOUT. A new member 0 may then open the
 * barrier again at the same place, with others that do so too. A process that was given up must
 * have ended before another takes its number. Its late report is not taken for the other's, but may
 * wipe that out.
 *
 * Memory model: in the phases after that, the others see what a member wrote before reporting a
 * phase, and member 0 before beginning one. These writes must be visible on all paths by then:
 * flushed with AFAR_OP_FLUSH, or, with the transport tcp alone, complete. Functions of the barrier
 * flush their own writes.
 *
 * Threads: a barrier belongs to one thread at a time. afar.h has the rules for all functions.
 *
 * Coordination by one-byte fields, each written by one side while the other reads, is that of
 * RStore's applications. So is the first address at which programs meet (A. Trivedi, "End-to-End
 * Considerations in the Unification of High-Performance I/O", ETH Zürich 2016, §6.3.1 and §6.5.1).
 */
#ifndef AFAR_BARRIER_H
#define AFAR_BARRIER_H

#include <afar/afar.h>

#ifdef __cplusplus
extern "C" {
#endif

struct afar_barrier; /* one member's part in a barrier */

/*
 * Opens the namespace's first region, at AFAR_FIRST_ADDRESS, or allocates it with `bytes`. However
 * many programs call this at once, exactly one allocates it, and the others open it, even if it is
 * freed meanwhile. `*is_first` (may be NULL) gets 1 in the one that has allocated it, and 0 in the
 * others. The region in `*out` is the caller's to close. Its content is undefined, in the others
 * too, because the first may not have written anything yet. A barrier can be opened in it all the
 * same. Blocks; bounded by the session's timeout. The namespace must have the memory reserved.
 * Errors: -EINVAL (0 bytes, past 2^64), -ERANGE (the region is there and has fewer bytes than
 * `bytes`), -AFAR_ERESERVE (beyond the reservation), -AFAR_ELOST (a server that held it has
 * restarted: delete it), -ETIMEDOUT (until then it came and went). Trivedi, §6.3.1.
 */
int afar_region_bootstrap(struct afar_namespace *ns, uint64_t bytes, struct afar_region **out,
			  int *is_first);

#define AFAR_BARRIER_MEMBERS_MAX 65536U
#define AFAR_BARRIER_ALIGNMENT	 64U /* bytes: of a barrier's offset in its region */

/* Bytes of a region that a barrier of `nr_members` takes, with `work_bytes` of work for each. */
#define AFAR_BARRIER_BYTES(nr_members, work_bytes) \
	((uint64_t)(nr_members) * ((uint64_t)192 + (uint64_t)(work_bytes)))

struct afar_barrier_options {
	size_t size;	 /* sizeof(struct afar_barrier_options) */
	uint64_t offset; /* of the barrier in the region; a multiple of AFAR_BARRIER_ALIGNMENT */
	uint64_t work_bytes;   /* of work that can be assigned to each member; 0: none */
	uint32_t nr_members;   /* 1 to AFAR_BARRIER_MEMBERS_MAX, with member 0; equal in all */
	uint32_t member;       /* the caller's number: 0 to nr_members - 1; 0 coordinates */
	uint32_t spin_us;      /* how long a wait reads without pauses; 0: 1000; ~0: not at all */
	uint32_t pause_us_max; /* the longest pause between two reads of a wait; 0: 10 000 */
};

/*
 * Opens a barrier in AFAR_BARRIER_BYTES() of a region from options->offset on, and waits until all
 * its members have come. Each member calls this, in any order; it returns in none before all are
 * there. Blocks, up to `timeout_ms` milliseconds (-1: no limit). The region stays the caller's, and
 * cannot be closed before the barrier. The memory may hold anything at the beginning. From then on
 * it is the barrier's, until all have closed it. Then the same or other processes may open a
 * barrier there again at once.
 * Errors: -EINVAL (options; or they differ from those of member 0), -ERANGE (not wholly inside the
 * region), -ETIMEDOUT (not all have come; afar_last_error() names those that member 0 has missed),
 * -EEXIST (another process has come as the same member), -AFAR_EVERSION (member 0 uses another
 * layout), and those of afar_region_pwrite(): -EACCES, -AFAR_ESERVER, -AFAR_ELOST.
 */
int afar_barrier_open(struct afar_region *region, const struct afar_barrier_options *options,
		      int timeout_ms, struct afar_barrier **out);

/*
 * Ends the caller's part and tells the others, as far as possible. After member 0 has closed it,
 * the others' waits end with -ESHUTDOWN, except for a phase that it has begun. After another member
 * has closed it, member 0 gets -ESHUTDOWN as that member's status, without waiting; reports from
 * before still count. Blocks for a write. Returns 0, even if nobody could be told.
 */
int afar_barrier_close(struct afar_barrier *barrier);

/*
 * Among equals: ends the caller's phase and waits until all have ended it, for `timeout_ms`
 * milliseconds (-1: no limit). Every member calls it. For member 0 it is afar_barrier_collect(),
 * then afar_barrier_start(); for the others afar_barrier_report(0), unless they have reported, then
 * afar_barrier_next(). Returns 0 when the next phase has begun. At member 0 it may return a count
 * instead: so many members have reported an error or closed the barrier. The next phase has not
 * begun then. Continue with afar_barrier_start(), or close.
 * Errors: those of the functions it consists of.
 */
int afar_barrier_wait(struct afar_barrier *barrier, int timeout_ms);

/* ---- Work assignment: member 0 */

/*
 * Begins the next phase. `work` has nr_members entries of work_bytes each, in order of member; each
 * other member gets its own with afar_barrier_next(). NULL: they get the entries of the phase
 * before. The memory is the caller's again when this returns. Blocks for two writes.
 * Errors: -EINVAL (not member 0), -EBUSY (the phase before is not collected: somebody is in it),
 * and those of afar_region_pwrite(). After one of those it may be called again.
 */
int afar_barrier_start(struct afar_barrier *barrier, const void *work);

/*
 * Waits until every other member has reported the phase, for `timeout_ms` milliseconds (-1: no
 * limit). `statuses` (may be NULL) has room for nr_members entries. Each entry gets 0 (finished),
 * the negative code that the member reported, -ESHUTDOWN (it closed the barrier before it
 * finished), or -ETIMEDOUT (nothing was heard). Entry 0 is 0. Returns how many are neither 0 nor
 * -ETIMEDOUT. May be called again, with the same outcome once all have reported.
 * Errors: -ETIMEDOUT (not all have reported; `statuses` is filled in), -EINVAL (not member 0), and
 * those of afar_region_pread(), after which `statuses` is as it was.
 */
int afar_barrier_collect(struct afar_barrier *barrier, int *statuses, int timeout_ms);

/* ---- Work assignment: the others */

/*
 * Waits until member 0 begins the next phase, for `timeout_ms` milliseconds (-1: no limit). Copies
 * the caller's work, work_bytes long, to `work`; NULL: it does not look at it. The caller must have
 * reported the phase before, unless it is the one in which the barrier was opened.
 * Errors: -ETIMEDOUT, -ESHUTDOWN (member 0 has closed the barrier, or it was opened anew), -EINVAL
 * (member 0; phase not reported), and those of afar_region_pread(). After all but -ESHUTDOWN it may
 * be called again.
 */
int afar_barrier_next(struct afar_barrier *barrier, void *work, int timeout_ms);

/*
 * Tells member 0 that the caller has finished the phase (`status` 0), or could not (a negative
 * code). The code is one of Afar, of errno, or the program's own. The caller's writes should be
 * visible before. Call it once in each phase. Blocks for one write, two for an error.
 * Errors: -EINVAL (member 0; a positive status; reported before), and those of
 * afar_region_pwrite(); after one of those it may be called again.
 */
int afar_barrier_report(struct afar_barrier *barrier, int status);

#ifdef __cplusplus
}
#endif
#endif
