/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport of libfabric, opened. Asks the provider for every mr_mode and obeys the ones it insists on.
 * Called through the fabric seam; owns libfabric's fabric, which any thread may use.
 */
#include "fabric/ofi/ofi.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fabric/ofi/library.h"

static struct fi_info *make_hints(const char *provider, uint64_t capabilities)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = capabilities;
	/* We use no remote CQ data, so it costs nothing to let it consume receives. */
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (!hints->fabric_attr->prov_name) {
		fi_freeinfo(hints);
		return NULL;
	}
	return hints;
}

/* At an address, whose host is as people write it; or anywhere, if it is NULL. */
static int look_for(const char *provider, uint64_t capabilities, const char *host,
		    struct fi_info **out)
{
	struct fi_info *hints = make_hints(provider, capabilities);
	int ret;

	if (!hints)
		return -ENOMEM;
	if (host)
		hints->addr_format = strchr(host, ':') ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
	ret = fi_getinfo(FI_VERSION(1, 17), host, NULL, 0, hints, out);
	fi_freeinfo(hints);
	return ret == -FI_ENODATA ? -ENODEV : ret;
}

/* There are devices without atomics. */
static int find_provider(const char *provider, const char *host, struct fi_info **out)
{
	int ret = look_for(provider, FI_MSG | FI_RMA | FI_ATOMIC, host, out);

	return ret == -ENODEV ? look_for(provider, FI_MSG | FI_RMA, host, out) : ret;
}

/* ---- Devices */

static bool is_any(const struct fabric_address *address)
{
	const struct sockaddr_in *ipv4 = (const void *)&address->storage;
	const struct sockaddr_in6 *ipv6 = (const void *)&address->storage;

	return address->storage.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr)
						      : ipv4->sin_addr.s_addr == INADDR_ANY;
}

/* The host of an address, as numbers; empty: any. */
static int find_host(const char *what, const char *address, char host[static FABRIC_ADDRESS_MAX])
{
	struct fabric_address resolved;
	int ret;

	host[0] = '\0';
	if (!address)
		return 0;
	ret = fabric_address_resolve(what, address, false, &resolved);
	if (ret != 0 || is_any(&resolved))
		return ret;
	ret = getnameinfo((const void *)&resolved.storage, resolved.length, host,
			  FABRIC_ADDRESS_MAX, NULL, 0, NI_NUMERICHOST);
	return ret == 0 ? 0 : error_fail(-EINVAL, "%s %s: %s", what, address, gai_strerror(ret));
}

static bool is_same_device(const struct fi_info *a, const struct fi_info *b)
{
	return strcmp(a->domain_attr->name, b->domain_attr->name) == 0;
}

/* libfabric lists a device's capabilities in several forms, one after another. */
static bool is_only_device(const struct fi_info *found)
{
	for (const struct fi_info *info = found; info; info = info->next) {
		if (!is_same_device(info, found))
			return false;
	}
	return true;
}

/* Looks at all of them, since what is found for an address is of its device alone. */
static bool has_one_device(const char *provider)
{
	struct fi_info *all;
	bool has_one;

	if (look_for(provider, FI_MSG | FI_RMA, NULL, &all) != 0)
		return true;
	has_one = is_only_device(all);
	fi_freeinfo(all);
	return has_one;
}

static bool ofi_reaches(struct fabric *base, const char *address)
{
	struct ofi_fabric *fabric = ofi_container(base, struct ofi_fabric);
	char host[FABRIC_ADDRESS_MAX];
	struct fi_info *info;
	bool is_reached;

	if (fabric->is_only_device || find_host("get to", address, host) != 0 || host[0] == '\0')
		return true;
	if (look_for(base->ops->transport, FI_MSG | FI_RMA, host, &info) != 0)
		return false;
	is_reached = is_same_device(info, fabric->info);
	fi_freeinfo(info);
	return is_reached;
}

static const struct fabric_listening_ops ofi_listening_ops = {
	.listen = ofi_listen,
	.close = ofi_listener_close,
	.fd = ofi_listener_fd,
	.next = ofi_listener_next,
	.accept = ofi_accept,
	.reject = ofi_reject,
};

static const struct fabric_atomics_ops ofi_atomics_ops = {
	.are_by_nic = ofi_has_atomics,
	.fetch_add = ofi_fetch_add,
	.compare_swap = ofi_compare_swap,
};

static void describe(struct ofi_fabric *fabric, const struct fabric_ops *ops)
{
	const struct fi_info *info = fabric->info;
	uint64_t mr_mode = (uint64_t)info->domain_attr->mr_mode;
	struct fabric_attributes *attributes = &fabric->base.attributes;
	size_t iov_max = info->tx_attr->iov_limit;

	fabric->base.ops = ops;
	fabric->base.listening = &ofi_listening_ops;
	fabric->base.atomics = &ofi_atomics_ops;
	fabric->is_virtual_addressed = (mr_mode & FI_MR_VIRT_ADDR) != 0;
	fabric->picks_keys = (mr_mode & FI_MR_PROV_KEY) != 0;

	attributes->transport = ops->transport;
	attributes->is_target_passive = true;
	/* A write is acknowledged when the NIC has it. */
	attributes->writes_need_flush = true;
	if ((info->caps & FI_ATOMIC) == 0)
		fabric->atomics = OFI_ATOMICS_NONE;
	attributes->needs_local_registration = (mr_mode & FI_MR_LOCAL) != 0;
	attributes->transfer_bytes_max = info->ep_attr->max_msg_size;
	attributes->iov_max = iov_max < FABRIC_IOV_MAX ? (uint32_t)iov_max : FABRIC_IOV_MAX;
}

static void ofi_close(struct fabric *base)
{
	struct ofi_fabric *fabric = ofi_container(base, struct ofi_fabric);

	ofi_domain_close(base->domain);
	fi_close(&fabric->fabric->fid);
	fi_freeinfo(fabric->info);
	pthread_mutex_destroy(&fabric->atomics_lock);
	free(fabric);
}

static int open_transport(const struct fabric_ops *ops, const char *address, struct fabric **out)
{
	struct ofi_fabric *fabric;
	char host[FABRIC_ADDRESS_MAX];
	int ret;

	if (!ofi_library_load())
		return error_fail(-ENODEV,
				  "open transport %s: there is no libfabric.so.1; install "
				  "libfabric 1.17 or later",
				  ops->transport);
	ret = find_host("open a transport at", address, host);
	if (ret != 0)
		return ret;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return error_code(-ENOMEM);
	ret = find_provider(ops->transport, host[0] != '\0' ? host : NULL, &fabric->info);
	if (ret != 0)
		goto out_free;
	ret = fi_fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);
	if (ret != 0)
		goto out_info;
	describe(fabric, ops);
	fabric->is_only_device = has_one_device(ops->transport);
	pthread_mutex_init(&fabric->atomics_lock, NULL);
	ret = ofi_domain_open(&fabric->base, &fabric->base.domain);
	if (ret != 0)
		goto out_fabric;
	*out = &fabric->base;
	return 0;

out_fabric:
	pthread_mutex_destroy(&fabric->atomics_lock);
	fi_close(&fabric->fabric->fid);
out_info:
	fi_freeinfo(fabric->info);
out_free:
	free(fabric);
	ret = ofi_errno(ret);
	return error_fail(ret, "open transport %s%s%s: %s; is its device there, or use another",
			  ops->transport, address ? " at " : "", address ? address : "",
			  afar_strerror(ret));
}

static int open_verbs(const char *transport, const char *address, struct fabric **out)
{
	(void)transport;
	return open_transport(&ofi_verbs_ops, address, out);
}

const struct fabric_ops ofi_verbs_ops = {
	.transport = "verbs",
	.open = open_verbs,
	.reaches = ofi_reaches,
	.close = ofi_close,
	.domain_open = ofi_domain_open,
	.domain_close = ofi_domain_close,
	.memory_register = ofi_memory_register,
	.memory_deregister = ofi_memory_deregister,
	.queue_open = ofi_queue_open,
	.queue_close = ofi_queue_close,
	.queue_fd = ofi_queue_fd,
	.queue_arm = ofi_queue_arm,
	.queue_poll = ofi_queue_poll,
	.queue_event = ofi_queue_event,
	.connect = ofi_connect,
	.endpoint_close = ofi_endpoint_close,
	.read = ofi_read,
	.write = ofi_write,
	.receive = ofi_receive,
	.send = ofi_send,
};
