/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners: strangers' connection requests, one by one, each to be accepted (endpoint.c) or rejected.
 * A listener owns libfabric's passive endpoint and an EQ of its own. So any thread can wait for
 * requests beside the queues that serve the connections.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fabric/ofi/ofi.h"

/* Makes the information that libfabric needs to listen on `address`. */
static struct fi_info *listen_info(const struct ofi_fabric *fabric,
				   const struct fabric_address *address)
{
	struct fi_info *info = fi_dupinfo(fabric->info);

	if (!info)
		return NULL;
	free(info->src_addr);
	info->src_addrlen = address->length;
	info->src_addr = malloc(address->length);
	if (!info->src_addr) {
		fi_freeinfo(info);
		return NULL;
	}
	memcpy(info->src_addr, &address->storage, address->length);
	info->addr_format = ofi_address_format(address);
	return info;
}

static int print_name(struct ofi_listener *listener)
{
	struct sockaddr_storage name = {0};
	size_t length = sizeof(name);
	int ret = fi_getname(&listener->pep->fid, &name, &length);

	if (ret != 0)
		return ret;
	fabric_address_print(&name, listener->base.address);
	return 0;
}

static int start(struct ofi_listener *listener, struct fi_info *info)
{
	struct ofi_fabric *fabric = ofi_container(listener->base.fabric, struct ofi_fabric);
	int ret = fi_passive_ep(fabric->fabric, info, &listener->pep, NULL);

	if (ret != 0)
		return ofi_errno(ret);
	ret = fi_pep_bind(listener->pep, &listener->eq->fid, 0);
	if (ret == 0)
		ret = fi_listen(listener->pep);
	if (ret == 0)
		ret = print_name(listener);
	if (ret != 0) {
		fi_close(&listener->pep->fid);
		return ofi_errno(ret);
	}
	return 0;
}

int ofi_listen(struct fabric *base, const char *address, struct fabric_listener **out)
{
	struct ofi_fabric *fabric = ofi_container(base, struct ofi_fabric);
	struct ofi_listener *listener;
	struct fabric_address local;
	struct fi_info *info;
	int ret;

	ret = fabric_address_resolve("listen on", address, true, &local);
	if (ret != 0)
		return ret;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_code(-ENOMEM);
	listener->base.fabric = base;
	info = listen_info(fabric, &local);
	if (!info) {
		ret = -ENOMEM;
		goto out_free;
	}
	ret = ofi_eq_open(fabric, &listener->eq, &listener->fd);
	if (ret != 0)
		goto out_info;
	ret = start(listener, info);
	if (ret != 0)
		goto out_eq;
	fi_freeinfo(info);
	*out = &listener->base;
	return 0;

out_eq:
	fi_close(&listener->eq->fid);
out_info:
	fi_freeinfo(info);
out_free:
	free(listener);
	return error_fail(ret, "listen on %s: %s%s", address, afar_strerror(ret),
			  ret == -EADDRINUSE	  ? "; choose another port, or port 0 for any"
			  : ret == -EADDRNOTAVAIL ? "; choose an address of this machine"
						  : "");
}

int ofi_listener_fd(struct fabric_listener *base)
{
	return ofi_container(base, struct ofi_listener)->fd;
}

/* The next connection request of the EQ: its length, or -FI_EAGAIN. */
static ssize_t read_request(struct ofi_listener *listener, struct fi_eq_cm_entry *entry,
			    size_t size)
{
	struct fi_eq_err_entry error = {0};
	uint32_t kind = 0;
	ssize_t ret;

	for (;;) {
		ret = fi_eq_read(listener->eq, &kind, entry, size, 0);
		if (ret == -FI_EAVAIL && fi_eq_readerr(listener->eq, &error, 0) >= 0)
			continue;
		if (ret < 0)
			return -FI_EAGAIN;
		if (kind == FI_CONNREQ && (size_t)ret >= sizeof(*entry))
			return ret;
	}
}

/* Gives up a request that libfabric has told us of. */
static void turn_away(struct ofi_listener *listener, struct fi_info *info)
{
	fi_reject(listener->pep, info->handle, NULL, 0);
	fi_freeinfo(info);
}

int ofi_listener_next(struct fabric_listener *base, struct fabric_request *out)
{
	struct ofi_listener *listener = ofi_container(base, struct ofi_listener);
	struct ofi_fabric *fabric = ofi_container(base->fabric, struct ofi_fabric);
	struct fid *fid = &listener->eq->fid;
	union {
		struct fi_eq_cm_entry entry;
		uint8_t bytes[sizeof(struct fi_eq_cm_entry) + OFI_EVENT_DATA_MAX];
	} event;
	ssize_t length;

	memset(out, 0, sizeof(*out));
	length = read_request(listener, &event.entry, sizeof(event));
	/* The descriptor would not report a request that has come since. */
	if (length < 0 && fi_trywait(fabric->fabric, &fid, 1) == -FI_EAGAIN)
		length = read_request(listener, &event.entry, sizeof(event));
	if (length < 0)
		return -EAGAIN;
	out->handle = event.entry.info;
	out->private_length = (size_t)length - sizeof(event.entry);
	if (out->private_length > FABRIC_PRIVATE_MAX)
		out->private_length = FABRIC_PRIVATE_MAX;
	memcpy(out->private_data, event.entry.data, out->private_length);
	fabric_address_print(event.entry.info->dest_addr, out->peer);
	return 0;
}

/* A request that failed to be accepted may come here too, with or without what libfabric had. */
void ofi_reject(struct fabric_listener *base, struct fabric_request *request)
{
	struct ofi_listener *listener = ofi_container(base, struct ofi_listener);

	if (!request->handle)
		return;
	turn_away(listener, request->handle);
	request->handle = NULL;
}

static void reject_all(struct fabric_listener *base)
{
	struct fabric_request request;

	while (ofi_listener_next(base, &request) == 0)
		ofi_reject(base, &request);
}

void ofi_listener_close(struct fabric_listener *base)
{
	struct ofi_listener *listener = ofi_container(base, struct ofi_listener);

	reject_all(base);
	fi_close(&listener->pep->fid);
	fi_close(&listener->eq->fid);
	free(listener);
}
