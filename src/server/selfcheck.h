/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a transport of this machine keeps what all isolation rests on: nothing can be written through a
 * key that is for reading, or that has been closed. It is a matter of drivers, their settings and their
 * caches of registrations, so a server tries it before it lends anything.
 */
#ifndef SERVER_SELFCHECK_H
#define SERVER_SELFCHECK_H

#include "fabric/fabric.h"

/*
 * Connects to itself at `address` (HOST:PORT of this machine, port 0: any) and tries. Takes milliseconds.
 * With a sentence: -EPERM (such a write went through), -ETIMEDOUT or another error (it could not be tried).
 */
int selfcheck(struct fabric *fabric, const char *address);

#endif
