/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near targets: this process has windows (fabric/mapped.h) on their memory, because their servers are on
 * this machine. Blocking calls copy through the windows on the caller's thread, without a queue or
 * a lock. They read the clock only for samples of their time.
 */
#ifndef CLIENT_NEAR_H
#define CLIENT_NEAR_H

#include "client/target/target.h"

/*
 * Transfers like target_transfer(), on a range that has been checked, if all of it is on this host and no
 * check fails. False: use a queue, from the beginning. The caller need not count itself into
 * anything.
 */
bool same_host_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
			uint32_t nr_iov, uint64_t offset, uint64_t length);

/* Transfers a range that is chosen within the epoch section, because it may be taken away. `choose` gives its
 * offset, waits for nothing and returns false if it does not know. Plain memory of at most NEAR_CHOSEN_MAX
 * bytes. False: nothing, or any part, was done. */
#define NEAR_CHOSEN_MAX (UINT64_C(8) << 20)
typedef bool same_host_choose(const void *argument, uint64_t *offset);
bool same_host_transfer_chosen(struct afar_target *target, uint16_t opcode, void *data,
			       uint64_t length, same_host_choose *choose, const void *argument);

/* Does an atomic like target_atomic(). -EAGAIN: nothing was done; use a queue. -AFAR_ESERVER: it
 * may have been done. */
int same_host_atomic(const struct afar_op *op);

/* Waits for threads that still copy. Call it after closing the target's handle, or that of memory
 * used with it. */
void same_host_wait(const struct afar_target *target);

/* Waits likewise, and gives back the windows of a closed target. */
void same_host_close(struct afar_target *target);

#endif
