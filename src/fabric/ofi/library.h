/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric, loaded when it is first needed. Debian's brings libraries for other vendors' networks along,
 * which take 200 ms when they are loaded: a program that only asks the manager, like most commands, does
 * without. library.c defines libfabric's functions as calls to the real ones, so that users of it just
 * include its headers.
 */
#ifndef FABRIC_OFI_LIBRARY_H
#define FABRIC_OFI_LIBRARY_H

#include <stdbool.h>

/* Loads it, if it is not yet; whether it is there. Any thread, any number of times. */
bool ofi_library_load(void);

#endif
