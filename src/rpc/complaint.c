/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the log about peers that behave wrongly. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "rpc/connection.h"

static void print_refusal(char *out, size_t size, const struct tls *tls, int status)
{
	switch (status) {
	case -AFAR_EAUTH:
		snprintf(out, size,
			 tls && tls_is_known(tls)
				 ? "its secret for the key \"%s\" is not the one known here"
				 : "its key \"%s\" is unknown",
			 tls ? tls_identity(tls) : "");
		break;
	case -AFAR_EMALFORMED:
		snprintf(out, size, "it does not speak TLS 1.3 with a pre-shared key");
		break;
	case -ETIMEDOUT:
		snprintf(out, size, "it proved no key within %u ms", RPC_HANDSHAKE_MS);
		break;
	case -EBUSY:
		snprintf(out, size, "it proved no key and had to make room for others");
		break;
	case -ECONNRESET:
		snprintf(out, size, "it left before it proved a key");
		break;
	default:
		snprintf(out, size, "%s", afar_strerror(status));
		break;
	}
}

void connection_complain(const struct rpc_connection *connection, const struct tls *tls, int status)
{
	char what[160];

	if (connection->was_open) {
		log_limited(loop_complaints(connection->loop), LOG_LEVEL_WARN,
			    "%s (%s): connection ended: %s", connection->peer, connection->identity,
			    error_last_line());
		return;
	}
	print_refusal(what, sizeof(what), tls, status);
	log_limited(loop_complaints(connection->loop), LOG_LEVEL_WARN, "%s: connection refused: %s",
		    connection->peer, what);
}
