/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: one connection each, opened from either side, and the transfers on it. Called by whoever
 * owns the endpoint's queue. An endpoint owns libfabric's endpoint and one of the 64 places of a CQ.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fabric/ofi/ofi.h"

/* ---- Opening */

/* Makes libfabric's endpoint as deep as the queue, or as deep as the provider can. */
static int create_at_depth(struct ofi_queue *queue, struct fi_info *info,
			   struct ofi_endpoint *endpoint)
{
	struct fid_domain *domain = endpoint->cq->domain->domain;
	size_t offered = info->tx_attr->size;
	int ret;

	/* No more is received, and verbs sets room in the CQ apart for it. */
	info->rx_attr->size = queue->base.fabric->nr_receives;
	if (offered < queue->depth)
		info->tx_attr->size = queue->depth;
	ret = fi_endpoint(domain, info, &endpoint->ep, endpoint);
	while (ret != 0 && offered < info->tx_attr->size) {
		info->tx_attr->size /= 2;
		if (info->tx_attr->size < offered)
			info->tx_attr->size = offered;
		ret = fi_endpoint(domain, info, &endpoint->ep, endpoint);
	}
	return ret;
}

/* Makes an enabled endpoint of `info` in a place of a CQ, listed as live; or returns NULL and an error.
 * `*was_taken` tells whether libfabric has taken over what info->handle stands for. */
static struct ofi_endpoint *open_endpoint(struct ofi_queue *queue, struct fabric_domain *domain,
					  struct fi_info *info, bool is_connecting, void *owner,
					  bool *was_taken, int *error)
{
	struct ofi_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int ret = -ENOMEM;

	*was_taken = false;
	if (!endpoint)
		goto out_fail;
	endpoint->base.queue = &queue->base;
	endpoint->base.owner = owner;
	CDS_INIT_LIST_HEAD(&endpoint->eventful);
	ret = ofi_queue_take_place(queue, ofi_container(domain, struct ofi_domain), is_connecting,
				   &endpoint->cq);
	if (ret != 0)
		goto out_free;
	ret = create_at_depth(queue, info, endpoint);
	if (ret != 0)
		goto out_place;
	*was_taken = true;
	ret = fi_ep_bind(endpoint->ep, &queue->eq->fid, 0);
	if (ret == 0)
		ret = fi_ep_bind(endpoint->ep, &endpoint->cq->cq->fid, FI_TRANSMIT | FI_RECV);
	if (ret == 0)
		ret = fi_enable(endpoint->ep);
	if (ret != 0)
		goto out_endpoint;
	cds_list_add_tail(&endpoint->node, &queue->live);
	return endpoint;

out_endpoint:
	fi_close(&endpoint->ep->fid);
out_place:
	ofi_queue_give_place(queue, endpoint->cq);
out_free:
	free(endpoint);
out_fail:
	*error = ofi_errno(ret);
	return NULL;
}

/* Makes the information that libfabric needs to connect to `address`. */
static struct fi_info *connect_info(const struct ofi_fabric *fabric,
				    const struct fabric_address *address)
{
	struct fi_info *info = fi_dupinfo(fabric->info);

	if (!info)
		return NULL;
	/* Its source address is one of many of this machine: the route decides. */
	free(info->src_addr);
	info->src_addr = NULL;
	info->src_addrlen = 0;
	free(info->dest_addr);
	info->dest_addrlen = address->length;
	info->dest_addr = malloc(address->length);
	if (!info->dest_addr) {
		fi_freeinfo(info);
		return NULL;
	}
	memcpy(info->dest_addr, &address->storage, address->length);
	info->addr_format = ofi_address_format(address);
	return info;
}

int ofi_connect(struct fabric_queue *base, const char *address, const void *private_data,
		size_t private_length, void *owner, struct fabric_endpoint **out)
{
	struct ofi_queue *queue = ofi_container(base, struct ofi_queue);
	struct ofi_fabric *fabric = ofi_container(base->fabric, struct ofi_fabric);
	struct ofi_endpoint *endpoint;
	struct fabric_address peer;
	struct fi_info *info;
	bool was_taken;
	int ret;

	if (private_length > FABRIC_PRIVATE_MAX)
		return error_code(-EINVAL);
	ret = fabric_address_resolve("connect to", address, false, &peer);
	if (ret != 0)
		return ret;
	/*
	 * An endpoint is of the device that the route takes, and must be in a domain of ours. Asks
	 * first, because libfabric 2 finds the route only after fi_connect() has returned.
	 */
	if (!fabric_reaches(base->fabric, address))
		return error_fail(-EHOSTUNREACH,
				  "connect to %s: it is not by device %s that one gets there",
				  address, fabric->info->domain_attr->name);
	info = connect_info(fabric, &peer);
	if (!info)
		return error_code(-ENOMEM);
	endpoint = open_endpoint(queue, base->fabric->domain, info, true, owner, &was_taken, &ret);
	fi_freeinfo(info);
	if (!endpoint)
		goto out_fail;
	ret = fi_connect(endpoint->ep, &peer.storage, private_data, private_length);
	if (ret != 0) {
		ofi_endpoint_close(&endpoint->base);
		ret = ofi_errno(ret);
		goto out_fail;
	}
	*out = &endpoint->base;
	return 0;

out_fail:
	return error_fail(ret, "connect to %s: %s", address, afar_strerror(ret));
}

int ofi_accept(struct fabric_request *request, struct fabric_queue *base,
	       struct fabric_domain *domain, void *owner, struct fabric_endpoint **out)
{
	struct ofi_queue *queue = ofi_container(base, struct ofi_queue);
	struct fi_info *info = request->handle;
	struct ofi_endpoint *endpoint;
	bool was_taken;
	int ret;

	endpoint = open_endpoint(queue, domain, info, false, owner, &was_taken, &ret);
	if (was_taken) {
		fi_freeinfo(info);
		request->handle = NULL;
	}
	if (!endpoint)
		goto out_fail;
	ret = fi_accept(endpoint->ep, NULL, 0);
	if (ret != 0) {
		ofi_endpoint_close(&endpoint->base);
		ret = ofi_errno(ret);
		goto out_fail;
	}
	*out = &endpoint->base;
	return 0;

out_fail:
	return error_fail(ret, "accept %s: %s", request->peer, afar_strerror(ret));
}

/* ---- Closing */

void ofi_endpoint_close(struct fabric_endpoint *base)
{
	struct ofi_endpoint *endpoint = ofi_container(base, struct ofi_endpoint);
	struct ofi_queue *queue = ofi_container(base->queue, struct ofi_queue);

	fi_close(&endpoint->ep->fid);
	cds_list_del(&endpoint->node);
	cds_list_del(&endpoint->eventful);
	/* Take the events that the EQ still has for it now, because the next endpoint may be at the
	 * same address. */
	ofi_queue_drain_events(queue);
	ofi_queue_give_place(queue, endpoint->cq);
	free(endpoint);
}

/* ---- Transfers */

enum direction { READ, WRITE };

static inline int transfer(struct fabric_endpoint *base, enum direction direction,
			   const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			   uint64_t key, uint64_t context)
{
	struct ofi_endpoint *endpoint = ofi_container(base, struct ofi_endpoint);
	struct ofi_queue *queue = ofi_container(base->queue, struct ofi_queue);
	struct ofi_fabric *fabric = ofi_container(queue->base.fabric, struct ofi_fabric);
	const struct fabric_attributes *attributes = &fabric->base.attributes;
	struct iovec iov[FABRIC_IOV_MAX];
	void *descriptors[FABRIC_IOV_MAX];
	struct fi_rma_iov target = {.addr = remote, .key = key};
	struct fi_msg_rma message = {
		.msg_iov = iov,
		.desc = descriptors,
		.iov_count = nr_pieces,
		.rma_iov = &target,
		.rma_iov_count = 1,
		.context = (void *)(uintptr_t)context,
	};
	ssize_t ret;

	if (endpoint->state != OFI_CONNECTED)
		return -ENOTCONN;
	if (nr_pieces == 0 || nr_pieces > attributes->iov_max || context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < nr_pieces; i++) {
		iov[i].iov_base = pieces[i].addr;
		iov[i].iov_len = pieces[i].length;
		descriptors[i] = pieces[i].descriptor;
		if (__builtin_add_overflow(target.len, pieces[i].length, &target.len))
			return -EINVAL;
		if (attributes->needs_local_registration && !descriptors[i])
			return -EINVAL;
	}
	if (target.len > attributes->transfer_bytes_max)
		return -EMSGSIZE;
	ret = direction == READ ? fi_readmsg(endpoint->ep, &message, FI_COMPLETION)
				: fi_writemsg(endpoint->ep, &message, FI_COMPLETION);
	return ofi_posted(endpoint, ret);
}

int ofi_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	return transfer(endpoint, READ, pieces, nr_pieces, remote, key, context);
}

int ofi_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	return transfer(endpoint, WRITE, pieces, nr_pieces, remote, key, context);
}

/* ---- Messages */

/* Connecting ends may post before they are connected; the provider keeps it. */
int ofi_receive(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct ofi_endpoint *endpoint = ofi_container(base, struct ofi_endpoint);
	ssize_t ret;

	if (endpoint->state == OFI_CLOSED)
		return -ENOTCONN;
	ret = fi_recv(endpoint->ep, piece->addr, piece->length, piece->descriptor, 0,
		      (void *)(uintptr_t)context);
	if (ret == 0)
		return 0;
	return ret == -FI_EAGAIN ? -EAGAIN : ofi_errno(ret);
}

int ofi_send(struct fabric_endpoint *base, const struct fabric_piece *piece, uint64_t context)
{
	struct ofi_endpoint *endpoint = ofi_container(base, struct ofi_endpoint);
	ssize_t ret;

	/* The accepting end can be sent to, and answer, before it hears that it is connected. */
	if (endpoint->state == OFI_CLOSED)
		return -ENOTCONN;
	ret = fi_send(endpoint->ep, piece->addr, piece->length, piece->descriptor, 0,
		      (void *)(uintptr_t)context);
	return ofi_posted(endpoint, ret);
}
