/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells a process from its forked children. A child must not use an object that was made before the
 * fork(), because the object's threads are missing and its locks may be held. */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

/* Returns a number that differs between a process and its forked children, if the process has asked
 * for it before the fork(). */
unsigned forks_generation(void);

#endif
