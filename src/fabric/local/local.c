/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport local, opened: nothing but a first domain. Called through the fabric seam, from any thread. */
#include "fabric/local/local.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "fabric/local/exchange.h"
#include "fabric/local/memory.h"

static const struct fabric_listening_ops local_listening_ops = {
	.listen = local_listen,
	.close = local_listener_close,
	.fd = local_listener_fd,
	.next = local_listener_next,
	.sweep = local_listener_sweep,
	.accept = local_accept,
	.reject = local_reject,
};

static const struct fabric_mapped_ops local_mapped_ops = {
	.prepare = local_prepare,
	.attach = local_attach,
	.window = local_window,
	.end = local_endpoint_end,
	.deaths_fd = local_deaths_fd,
	.note_deaths = local_deaths_note,
};

static const struct fabric_paged_ops local_paged_ops = {
	.memory_register = local_memory_register_paged,
	.transfer = local_paged_transfer,
};

static const struct fabric_atomics_ops local_atomics_ops = {
	.fetch_add = local_fetch_add,
	.compare_swap = local_compare_swap,
};

static int local_open(const char *transport, const char *address, struct fabric **out)
{
	struct local_fabric *local = calloc(1, sizeof(*local));
	struct fabric *fabric;
	int ret;

	(void)transport;
	(void)address;
	if (!local)
		return error_code(-ENOMEM);
	fabric = &local->base;
	fabric->ops = &local_ops;
	fabric->listening = &local_listening_ops;
	fabric->paged = &local_paged_ops;
	fabric->mapped = &local_mapped_ops;
	fabric->atomics = &local_atomics_ops;
	fabric->attributes = (struct fabric_attributes){
		.transport = local_ops.transport,
		.is_target_passive = true,
		.needs_local_registration = false,
		.needs_shared_memory = true,
		.has_processor_atomics = true,
		.loopback = "unix:",
		.transfer_bytes_max = LOCAL_TRANSFER_MAX,
		.gap_bytes = LOCAL_GAP_BYTES,
		.iov_max = FABRIC_IOV_MAX,
	};
	ret = local_deaths_open(local);
	if (ret != 0)
		goto out_free;
	ret = local_domain_open(fabric, &fabric->domain);
	if (ret != 0)
		goto out_deaths;
	*out = fabric;
	return 0;

out_deaths:
	local_deaths_close(local);
out_free:
	free(local);
	return ret;
}

static bool local_is_same_host(const char *address)
{
	struct sockaddr_un place;

	return local_place_find(address, &place) == 0;
}

static void local_close(struct fabric *fabric)
{
	struct local_fabric *local = local_container(fabric, struct local_fabric);

	local_domain_close(fabric->domain);
	local_deaths_close(local);
	free(local);
}

const struct fabric_ops local_ops = {
	.transport = "local",
	.open = local_open,
	.is_same_host = local_is_same_host,
	.close = local_close,
	.domain_open = local_domain_open,
	.domain_close = local_domain_close,
	.memory_register = local_memory_register,
	.memory_deregister = local_memory_deregister,
	.queue_open = local_queue_open,
	.queue_close = local_queue_close,
	.queue_fd = local_queue_fd,
	.queue_arm = local_queue_arm,
	.queue_poll = local_queue_poll,
	.queue_event = local_queue_event,
	.connect = local_connect,
	.endpoint_close = local_endpoint_close,
	.read = local_read,
	.write = local_write,
	.receive = local_receive,
	.send = local_send,
};
