/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport whose writes complete before they are in the target's memory, as on verbs, made of any other:
 * the completion comes at once, and the write goes its way some time later. What is read or written behind it, over
 * the same connection, comes after it all the same.
 */
#ifndef TESTS_EARLY_H
#define TESTS_EARLY_H

#include "fabric/fabric.h"

/* From now on, for the one fabric of this process that it can be done to. Its queues belong to one thread. What is still
 * held back goes on its way while that polls any of them. */
void early_begin(struct fabric *fabric);

#endif
