/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric, loaded when it is first needed. Debian's libfabric brings libraries for other vendors'
 * networks along, which take 200 ms to load. A program that only asks the manager, like most
 * commands, does without. In library.c libfabric's functions are defined as calls to the real ones,
 * so code that uses them just includes libfabric's headers.
 */
#ifndef FABRIC_OFI_LIBRARY_H
#define FABRIC_OFI_LIBRARY_H

#include <stdbool.h>

/* Loads libfabric, unless it is loaded already. False: it is not there. Any thread may call it, any
 * number of times. */
bool ofi_library_load(void);

#endif
