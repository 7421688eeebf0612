/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that a server reports to its manager. */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include <stdbool.h>

#include "rpc/rpc.h"
#include "server/extent.h"
#include "server/lanes.h"

/* As they are now. */
void report_fill(struct extent_pool *pool, const struct lanes *lanes, Afar__ServerReport *out);
/* Whether it says more than the last one. The resident memory alone is no news: it is never still. */
bool report_is_news(const Afar__ServerReport *report, const Afar__ServerReport *last);

#endif
