/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a request is looked at before anything is answered (http.c). Pure. */
#ifndef AFARD_HTTP_H
#define AFARD_HTTP_H

#include <stdbool.h>

/* Whether a Host header is of this machine itself: a page of a stranger's, whose name leads here, has another one
 * (DNS rebinding). NULL: there is none, as programs do it. */
bool http_host_is_local(const char *host);
/* Whether an Accept header asks for OpenMetrics. NULL: there is none. */
bool http_wants_openmetrics(const char *accept);

#endif
