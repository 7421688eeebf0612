/* SPDX-License-Identifier: BSD-3-Clause */
/* The files versions….c share this: a handle's version of a copy-on-write region. */
#ifndef CLIENT_VERSIONS_H
#define CLIENT_VERSIONS_H

#include <afar/cow.h>

#endif
