/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Features of managers (SessionOpened.features): calls and fields that an older manager would take for something else. A
 * client sends them only to a manager that says that it knows them.
 */
#ifndef RPC_MANAGER_FEATURES_H
#define RPC_MANAGER_FEATURES_H

#define RPC_FEATURE_REPLACES 0x1U /* VolumeTakeOver.session, RegionOpen.after */
#define RPC_FEATURE_KEPT \
	0x2U /* a client may have files open that its programs have closed: FileRevoke */
#define RPC_FEATURE_RANGES 0x4U /* FileExtend.ranges */
#define RPC_FEATURE_ENDS   0x8U /* FileExtend.wants_end, and FileEnd's */

/* Servers have such bits, too (ServerJoin.features). */
#define RPC_SERVER_READS 0x1U /* ExtentRead */

#endif
