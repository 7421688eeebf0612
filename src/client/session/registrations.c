/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/session/registrations.h"

#include "client/session/buffer.h"

#define NR_MAX 16384U /* each may split a mapping, of which the kernel allows 65530 */
#define BATCH  32U

/* Registers for both directions, because the next transfer may go the other way. */
static int add(void *context, void *addr, size_t length, void **registration)
{
	struct afar_buffer *buffer;
	int ret = buffer_wrap(context, addr, length, AFAR_ACCESS_READ | AFAR_ACCESS_WRITE, &buffer);

	if (!ret)
		*registration = buffer;
	return ret;
}

static void remove_some(void *context, void *const *registrations, size_t nr)
{
	(void)context;
	for (size_t i = 0; i < nr; i++)
		buffer_destroy(registrations[i]);
}

int registrations_open(struct afar_session *session, uint64_t bytes)
{
	const struct registration_cache_options options = {
		.registrar = {add, remove_some, session},
		.bytes_max = bytes,
		.nr_max = NR_MAX,
		.batch = BATCH,
	};

	return bytes ? registration_cache_open(&options, &session->registrations) : 0;
}
