/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport whose writes complete before they are in the target's memory, as on verbs, made of any other. The
 * completion comes at once, and the write goes its way some time later. Reads and writes behind it, over the same
 * connection, come after it all the same.
 */
#ifndef TESTS_EARLY_H
#define TESTS_EARLY_H

#include "fabric/fabric.h"

/* From now on, for the one fabric of this process that it can be done to. Its queues belong to one thread. While that
 * thread polls any of them, writes that are still held back go on their way. */
void early_begin(struct fabric *fabric);

#endif
