/* SPDX-License-Identifier: BSD-3-Clause */
/* libafar's own calls: its threads and descriptors, which the program is not to notice. */
#ifndef PRELOAD_OWN_H
#define PRELOAD_OWN_H

#include <stdbool.h>

#include "signals.h"

/* Says that this thread is inside of libafar: its calls are the C library's, and descriptors that it makes are moved out of the way. */
struct own {
	bool was_inside;
	int cancel, error;
};

/* Nobody may cancel the thread in between. errno is afterwards as it was before. */
struct own own_enter(void);
void own_leave(const struct own *own);

/* Returns the descriptor under a number that programs do not expect to get, if this thread is inside; otherwise as it is. It keeps errno. */
int own_move(int fd);
/* Returns whether a descriptor is libafar's, and the program's thread must leave it alone. */
bool own_has(int fd);

#endif
