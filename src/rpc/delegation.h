/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long delegations last. A client answers programs from what the manager has delegated to it. When
 * another client changes that, the manager has it dropped first (FileRevoke). A client that does not answer
 * is waited for until its delegation has run out, by the manager's clock.
 *
 * The client's clock starts before it asks, the manager's when it answers. So the client stops first, as long as its clock
 * is not half as fast as the manager's.
 */
#ifndef RPC_DELEGATION_H
#define RPC_DELEGATION_H

#define DELEGATION_USED_MS 500U	 /* the client's, since it asked what was answered last */
#define DELEGATION_KEPT_MS 1000U /* the manager's, since it answered last */

#endif
