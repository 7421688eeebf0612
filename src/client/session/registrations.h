/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of unregistered memory that a session keeps after the transfers that they were made for
 * (memory/registration_cache.h), if it was opened with registration_bytes. A registration is a
 * buffer of the session's.
 */
#ifndef CLIENT_REGISTRATIONS_H
#define CLIENT_REGISTRATIONS_H

#include "client/session.h"
#include "memory/registration_cache.h"

/* Keeps registrations of up to `bytes` of memory; 0: none, and `session->registrations` stays NULL.
 * Errors as registration_cache_open(). */
int registrations_open(struct afar_session *session, uint64_t bytes);

#endif
