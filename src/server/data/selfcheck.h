/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that a transport of this machine enforces keys, on which all isolation depends. Nothing can
 * be written through a key that is for reading, or that has been closed. Drivers, their settings
 * and their caches of registrations decide that, so a server tests it before it lends anything.
 */
#ifndef SERVER_SELFCHECK_H
#define SERVER_SELFCHECK_H

#include "fabric/fabric.h"

/*
 * Connects to itself at `address` (HOST:PORT of this machine, port 0: any), and tries such writes.
 * Takes milliseconds. With a sentence: -EPERM (a write went through), -ETIMEDOUT or another error
 * (it could not be tried).
 */
int selfcheck(struct fabric *fabric, const char *address);

#endif
