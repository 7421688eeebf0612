/* SPDX-License-Identifier: BSD-3-Clause */
/* Signal handlers of the program. They may run anywhere, so they must not run inside of libafar, nor call it. */
#ifndef PRELOAD_SIGNALS_H
#define PRELOAD_SIGNALS_H

#include <stdbool.h>

/* This thread is inside of libafar: own.h sets it. */
extern _Thread_local bool own_is_inside __attribute__((tls_model("initial-exec")));

/* Returns whether this thread runs a handler. */
bool signals_in_handler(void);
/* Has the handlers run whose signals came while the thread was inside. */
void signals_deliver(void);

#endif
