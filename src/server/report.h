/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that a server reports to its manager. */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include <stdbool.h>

#include "rpc/rpc.h"
#include "server/extent.h"
#include "server/lanes.h"

/* A report with what it points to. */
struct report {
	Afar__ServerReport message;
	Afar__LaneReport lanes[LANES_MAX];
	Afar__LaneReport *pointers[LANES_MAX];
	char congestions[LANES_MAX][FABRIC_CONGESTIONS_MAX];
};

/* As they are now. */
void report_fill(struct extent_pool *pool, const struct lanes *lanes, struct report *report);
/* Whether it says more than the last one. The resident memory alone is no news, nor what lanes have moved: they are
 * never still, and told to whoever asks. */
bool report_is_news(const Afar__ServerReport *report, const Afar__ServerReport *last);

#endif
