/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of page.html, with a zero behind them. */
#ifndef AFARD_PAGE_H
#define AFARD_PAGE_H

#include <stddef.h>

extern const char page_bytes[];
extern const size_t page_length;

#endif
