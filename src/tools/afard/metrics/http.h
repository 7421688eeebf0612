/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at headers of requests, before anything is answered (http.c). Pure. */
#ifndef AFARD_HTTP_H
#define AFARD_HTTP_H

#include <stdbool.h>

/* Returns whether a Host header names this machine itself. A stranger's page, whose name leads here, has another one (DNS
 * rebinding). NULL: there is none, as programs do it. */
bool http_host_is_local(const char *host);
/* Returns whether an Accept header asks for OpenMetrics. NULL: there is none. */
bool http_wants_openmetrics(const char *accept);

#endif
