/* SPDX-License-Identifier: BSD-3-Clause */
/* The session and the memory that a data connection was admitted for: a ticket says it (control/tickets.h). */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include <stdint.h>

#include "server/memory/domains.h"

/* The purpose for which a data connection is admitted. */
struct admission {
	uint64_t session;
	struct reach reach;
	uint64_t connection; /* its number: the nonce of its ticket */
	/* Generation of the layout whose memory the client has in its address space; 0: it is for
	 * transfers. An attached client loses the memory only when its session or that layout ends,
	 * and is waited for then. */
	uint64_t attaches;
	uint64_t changes; /* number of the last change of a layout in the namespace; 0: none */
};

#endif
