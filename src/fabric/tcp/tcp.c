/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport tcp, opened: nothing but a first domain. Called through the fabric seam, from any thread. */
#include "fabric/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

static const struct fabric_listening_ops tcp_listening_ops = {
	.listen = tcp_listen,
	.close = tcp_listener_close,
	.fd = tcp_listener_fd,
	.next = tcp_listener_next,
	.sweep = tcp_listener_sweep,
	.congestion = tcp_listener_congestion,
	.accept = tcp_accept,
	.reject = tcp_reject,
};

static const struct fabric_paged_ops tcp_paged_ops = {
	.memory_register = tcp_memory_register_paged,
	.transfer = tcp_paged_transfer,
};

static int tcp_open(const char *transport, const char *address, struct fabric **out)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));
	int ret;

	(void)transport;
	(void)address;
	if (!fabric)
		return error_code(-ENOMEM);
	fabric->ops = &tcp_ops;
	fabric->listening = &tcp_listening_ops;
	fabric->paged = &tcp_paged_ops;
	fabric->attributes = (struct fabric_attributes){
		.transport = tcp_ops.transport,
		.is_target_passive = false,
		.loopback = "127.0.0.1:0",
		.needs_local_registration = false,
		.counts_bytes = true,
		.transfer_bytes_max = TCP_TRANSFER_MAX,
		.gap_bytes = TCP_GAP_BYTES,
		.iov_max = FABRIC_IOV_MAX,
	};
	ret = tcp_domain_open(fabric, &fabric->domain);
	if (ret != 0) {
		free(fabric);
		return ret;
	}
	*out = fabric;
	return 0;
}

static void tcp_close(struct fabric *fabric)
{
	tcp_domain_close(fabric->domain);
	free(fabric);
}

const struct fabric_ops tcp_ops = {
	.transport = "tcp",
	.open = tcp_open,
	.close = tcp_close,
	.domain_open = tcp_domain_open,
	.domain_close = tcp_domain_close,
	.memory_register = tcp_memory_register,
	.memory_deregister = tcp_memory_deregister,
	.queue_open = tcp_queue_open,
	.queue_close = tcp_queue_close,
	.queue_fd = tcp_queue_fd,
	.queue_arm = tcp_queue_arm,
	.queue_poll = tcp_queue_poll,
	.queue_hold = tcp_queue_hold,
	.queue_release = tcp_queue_release,
	.queue_event = tcp_queue_event,
	.connect = tcp_connect,
	.endpoint_close = tcp_endpoint_close,
	.endpoint_congestion = tcp_endpoint_congestion,
	.read = tcp_read,
	.write = tcp_write,
	.receive = tcp_receive,
	.send = tcp_send,
};
