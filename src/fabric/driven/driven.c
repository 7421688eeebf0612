/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric over another one: opening, domains and their keys, memory, listeners. Called through the
 * fabric seam, from any thread.
 */
#include "fabric/driven/driven.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Domains */

static int open_domain(struct fabric *fabric, struct fabric_domain **out)
{
	struct driven_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return error_code(-ENOMEM);
	domain->base.fabric = fabric;
	pthread_rwlock_init(&domain->lock, NULL);
	*out = &domain->base;
	return 0;
}

static void close_domain(struct fabric_domain *base)
{
	struct driven_domain *domain = driven_container(base, struct driven_domain);

	pthread_rwlock_destroy(&domain->lock);
	free(domain);
}

const char *driven_find_pager(struct driven_domain *domain, const struct driven_ask *ask,
			      struct fabric_pager **out)
{
	const unsigned access =
		(ask->flags & DRIVEN_WRITE) != 0 ? FABRIC_REMOTE_WRITE : FABRIC_REMOTE_READ;
	const char *problem = NULL;
	const struct driven_paged *paged;
	const struct keyed *found;

	pthread_rwlock_rdlock(&domain->lock);
	found = key_book_find(&domain->keys, ask->key);
	paged = found ? caa_container_of(found, const struct driven_paged, keyed) : NULL;
	if (!paged)
		problem = "a key that it does not have, or that has ended";
	else if ((paged->access & access) == 0)
		problem = "an access that it does not have";
	else if (ask->offset > paged->length || ask->length > paged->length - ask->offset)
		problem = "bytes outside of what the key is for";
	else
		*out = paged->pager;
	pthread_rwlock_unlock(&domain->lock);
	return problem;
}

/* ---- Paged memory */

static int register_paged(struct fabric_domain *base, struct fabric_pager *pager, uint64_t length,
			  unsigned access, struct fabric_memory *out)
{
	struct driven_domain *domain = driven_container(base, struct driven_domain);
	struct driven_paged *paged = malloc(sizeof(*paged));
	int ret;

	*out = (struct fabric_memory){.domain = base};
	if (!paged)
		return error_code(-ENOMEM);
	*paged = (struct driven_paged){.pager = pager, .length = length, .access = access};
	pthread_rwlock_wrlock(&domain->lock);
	ret = key_book_add(&domain->keys, &paged->keyed);
	pthread_rwlock_unlock(&domain->lock);
	if (ret != 0) {
		free(paged);
		return error_code(ret);
	}
	out->handle = paged;
	out->key = paged->keyed.key;
	return 0;
}

static void deregister_paged(struct fabric_memory *memory)
{
	struct driven_domain *domain = driven_container(memory->domain, struct driven_domain);
	struct driven_paged *paged = memory->handle;

	pthread_rwlock_wrlock(&domain->lock);
	key_book_remove(&domain->keys, &paged->keyed);
	pthread_rwlock_unlock(&domain->lock);
	free(paged);
}

/* ---- Lent memory */

/* Peers can be lent memory of connecting ends alone. Memory for messages is copied, and needs no
 * registration. */
static int register_memory(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			   struct fabric_memory *out)
{
	struct driven_fabric *fabric = driven_container(domain->fabric, struct driven_fabric);
	struct driven_memory *memory;
	int ret;

	*out = (struct fabric_memory){.domain = domain};
	if ((access & (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE)) == 0)
		return 0;
	if (domain != fabric->base.domain)
		return error_fail(-EOPNOTSUPP, "register memory with %s: it lends a pager's alone",
				  fabric->name);
	memory = malloc(sizeof(*memory));
	if (!memory)
		return error_code(-ENOMEM);
	memory->addr = addr;
	ret = fabric_memory_register(fabric->below->domain, addr, length, access, &memory->below);
	if (ret != 0) {
		free(memory);
		return ret;
	}
	out->handle = memory;
	out->descriptor = memory;
	return 0;
}

static bool deregister_memory(struct fabric_memory *memory)
{
	bool is_ours = true;

	if (memory->descriptor) {
		struct driven_memory *lent = memory->handle;

		is_ours = fabric_memory_deregister(&lent->below);
		free(lent);
	} else if (memory->handle) {
		deregister_paged(memory);
	}
	memory->handle = memory->descriptor = NULL;
	return is_ours;
}

static int lend(struct fabric *base, void *addr, size_t length)
{
	struct driven_fabric *fabric = driven_container(base, struct driven_fabric);
	int ret;

	if (fabric->nr_lent == DRIVEN_LENT_MAX)
		return error_code(-ENOSPC);
	ret = fabric_memory_register(fabric->below->domain, addr, length, FABRIC_LOCAL,
				     &fabric->lent[fabric->nr_lent].memory);
	if (ret != 0)
		return ret;
	fabric->lent[fabric->nr_lent].addr = addr;
	fabric->lent[fabric->nr_lent++].length = length;
	return 0;
}

bool driven_find_lent(const struct driven_fabric *fabric, const void *addr, uint64_t length,
		      void **descriptor)
{
	const uint8_t *begin = addr;

	for (unsigned i = 0; i < fabric->nr_lent; i++) {
		const uint8_t *lent = fabric->lent[i].addr;

		if (begin < lent || begin + length > lent + fabric->lent[i].length)
			continue;
		*descriptor = fabric->lent[i].memory.descriptor;
		return true;
	}
	return false;
}

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
	.memory_register = register_paged,
	.lend = lend,
	.write_durable = driven_write_durable,
	.read_checked = driven_read_checked,
	.write_checked = driven_write_checked,
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
	close_domain(base->domain);
	fabric_close(fabric->below);
	free(fabric);
}

static const struct fabric_ops driven_ops = {
	.transport = "driven",
	.reaches = reaches,
	.close = close_driven,
	.domain_open = open_domain,
	.domain_close = close_domain,
	.memory_register = register_memory,
	.memory_deregister = deregister_memory,
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
	ret = open_domain(&fabric->base, &fabric->base.domain);
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
