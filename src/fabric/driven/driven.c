/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric over another one: opening, and listeners. Called through the fabric seam, from any
 * thread.
 */
#include "fabric/driven/driven.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Listeners */

static struct fabric_listener *below(struct fabric_listener *listener)
{
	return driven_container(listener, struct driven_listener)->below;
}

static int start_listening(struct fabric *base, const char *address, struct fabric_listener **out)
{
	struct driven_fabric *fabric = driven_container(base, struct driven_fabric);
	struct driven_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener)
		return error_code(-ENOMEM);
	fabric->below->congestion = base->congestion;
	ret = fabric_listen(fabric->below, address, &listener->below);
	if (ret != 0) {
		free(listener);
		return ret;
	}
	listener->base.fabric = base;
	memcpy(listener->base.address, listener->below->address, sizeof(listener->base.address));
	*out = &listener->base;
	return 0;
}

static void close_listener(struct fabric_listener *base)
{
	struct driven_listener *listener = driven_container(base, struct driven_listener);

	fabric_listener_close(listener->below);
	free(listener);
}

static int listener_fd(struct fabric_listener *listener)
{
	return fabric_listener_fd(below(listener));
}

static int listener_next(struct fabric_listener *listener, struct fabric_request *out)
{
	return fabric_listener_next(below(listener), out);
}

static size_t listener_sweep(struct fabric_listener *listener,
			     const struct fabric_patience *patience)
{
	return fabric_listener_sweep(below(listener), patience);
}

static void listener_congestion(struct fabric_listener *listener,
				char out[static FABRIC_CONGESTION_MAX])
{
	fabric_listener_congestion(below(listener), out);
}

static void reject(struct fabric_listener *listener, struct fabric_request *request)
{
	fabric_reject(below(listener), request);
}

static const struct fabric_listening_ops driven_listening_ops = {
	.listen = start_listening,
	.close = close_listener,
	.fd = listener_fd,
	.next = listener_next,
	.sweep = listener_sweep,
	.congestion = listener_congestion,
	.accept = driven_accept,
	.reject = reject,
};

static const struct fabric_paged_ops driven_paged_ops = {
	.memory_register = driven_paged_register,
	.lend = driven_lend,
	.transfer = driven_paged_transfer,
};

/* ---- The fabric */

static bool reaches(struct fabric *base, const char *address)
{
	return fabric_reaches(driven_container(base, struct driven_fabric)->below, address);
}

static void close_driven(struct fabric *base)
{
	struct driven_fabric *fabric = driven_container(base, struct driven_fabric);

	for (unsigned i = 0; i < fabric->nr_lent; i++)
		fabric_memory_deregister(&fabric->lent[i].memory);
	driven_domain_close(base->domain);
	fabric_close(fabric->below);
	free(fabric);
}

static const struct fabric_ops driven_ops = {
	.transport = "driven",
	.reaches = reaches,
	.close = close_driven,
	.domain_open = driven_domain_open,
	.domain_close = driven_domain_close,
	.memory_register = driven_memory_register,
	.memory_deregister = driven_memory_deregister,
	.queue_open = driven_queue_open,
	.queue_close = driven_queue_close,
	.queue_fd = driven_queue_fd,
	.queue_arm = driven_queue_arm,
	.queue_poll = driven_queue_poll,
	.queue_hold = driven_queue_hold,
	.queue_release = driven_queue_release,
	.queue_event = driven_queue_event,
	.connect = driven_connect,
	.endpoint_close = driven_endpoint_close,
	.endpoint_congestion = driven_endpoint_congestion,
	.read = driven_read,
	.write = driven_write,
	.receive = driven_receive,
	.send = driven_send,
};

static void describe(struct driven_fabric *fabric)
{
	const struct fabric_attributes *below = &fabric->below->attributes;

	snprintf(fabric->name, sizeof(fabric->name), "%s" DRIVEN_SUFFIX, below->transport);
	fabric->base.ops = &driven_ops;
	fabric->base.listening = &driven_listening_ops;
	fabric->base.paged = &driven_paged_ops;
	fabric->base.attributes = (struct fabric_attributes){
		.transport = fabric->name,
		.needs_local_registration = true,
		.lends_local_memory = true,
		.loopback = below->loopback,
		.counts_bytes = true,
		.transfer_bytes_max = FABRIC_PAGED_MAX,
		.iov_max = FABRIC_IOV_MAX,
	};
}

int driven_open_over(struct fabric *below, struct fabric **out)
{
	struct driven_fabric *fabric = calloc(1, sizeof(*fabric));
	int ret;

	if (!fabric)
		return error_code(-ENOMEM);
	fabric->below = below;
	describe(fabric);
	ret = driven_domain_open(&fabric->base, &fabric->base.domain);
	if (ret != 0) {
		free(fabric);
		return ret;
	}
	below->nr_receives = DRIVEN_RECEIVES;
	*out = &fabric->base;
	return 0;
}

int driven_open(const char *transport, const char *address, struct fabric **out)
{
	struct fabric *below;
	int ret = fabric_open_at(transport, address, &below);

	if (ret != 0)
		return ret;
	ret = below->attributes.needs_shared_memory
		      ? error_fail(-EINVAL, "open a transport: %s cannot be driven", transport)
		      : driven_open_over(below, out);
	if (ret != 0)
		fabric_close(below);
	return ret;
}
