/* SPDX-License-Identifier: BSD-3-Clause */
/* What was made before a fork() is not the child's: its threads are not there, and its locks may be held. */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

/* Another number in a child than in the process that it was forked from, which asked for it before. */
unsigned forks_generation(void);

#endif
