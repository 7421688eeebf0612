/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens transports, and registers the session's memory with them. */
#include "client/session/fabrics.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "fabric/mapped.h"

void fabrics_init(struct fabrics *fabrics)
{
	pthread_mutex_init(&fabrics->lock, NULL);
	CDS_INIT_LIST_HEAD(&fabrics->memories);
}

void fabrics_close(struct fabrics *fabrics)
{
	for (unsigned i = 0; i < fabrics->nr_known; i++) {
		if (fabrics->known[i].fabric)
			fabric_close(fabrics->known[i].fabric);
	}
	pthread_mutex_destroy(&fabrics->lock);
}

/* ---- With the lock held */

/* Our writes are read by the target, and our reads written. */
static unsigned lent_access(unsigned access)
{
	return access | ((access & FABRIC_LOCAL_READ) != 0 ? FABRIC_REMOTE_READ : 0U) |
	       ((access & FABRIC_LOCAL_WRITE) != 0 ? FABRIC_REMOTE_WRITE : 0U);
}

static int register_on(struct fabrics *fabrics, const struct fabric *fabric, unsigned number,
		       struct fabrics_memory *memory)
{
	unsigned access = memory->access;
	int ret;

	if (!fabric)
		return 0;
	if (!fabric_is_driven(fabric))
		access &= FABRIC_LOCAL;
	if (fabric->attributes.lends_local_memory)
		access = lent_access(access);
	if (!fabric->attributes.needs_local_registration && !(access & ~(unsigned)FABRIC_LOCAL))
		return 0;
	ret = fabric_memory_register(fabric->domain, memory->addr, memory->length, access,
				     &memory->on[number]);
	if (!ret && memory->on[number].handle) {
		fabrics->nr_registered_ever++;
		fabrics->registered_bytes += memory->length;
	}
	return ret;
}

static void deregister_on(struct fabrics *fabrics, unsigned number, struct fabrics_memory *memory)
{
	if (memory->on[number].handle) {
		fabric_memory_deregister(&memory->on[number]);
		fabrics->registered_bytes -= memory->length;
	}
	memory->on[number] = (struct fabric_memory){0};
}

/* Registers all of the session's memory, or none of it. */
static int register_all(struct fabrics *fabrics, const struct fabric *fabric, unsigned number)
{
	struct fabrics_memory *memory, *done;
	int ret = 0;

	cds_list_for_each_entry (memory, &fabrics->memories, node) {
		ret = register_on(fabrics, fabric, number, memory);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	cds_list_for_each_entry (done, &fabrics->memories, node) {
		if (done == memory)
			break;
		deregister_on(fabrics, number, done);
	}
	return ret;
}

static void note(void *argument)
{
	fabric_note_deaths(argument);
}

/* Has the control thread watch the fabric's descriptor, because a thread that transfers has no time
 * for that. */
static int watch(const struct fabrics *fabrics, struct fabric *fabric)
{
	int fd = fabric_deaths_fd(fabric);

	return fd >= 0 && fabrics->loop ? rpc_loop_watch(fabrics->loop, fd, note, fabric) : 0;
}

static int open_fabric(struct fabrics *fabrics, const char *transport, const char *address,
		       unsigned number)
{
	struct fabric *fabric = NULL;
	int ret = fabric_open_at(transport, address, &fabric);

	if (!ret) {
		fabric->congestion = fabrics->congestion;
		ret = register_all(fabrics, fabric, number);
		if (!ret)
			ret = watch(fabrics, fabric);
		if (ret)
			fabric_close(fabric);
	}
	if (ret)
		return ret;
	fabrics->known[number].fabric = fabric;
	if (fabric->attributes.needs_local_registration)
		fabrics->needs_registration = true;
	return 0;
}

static int add_fabric(struct fabrics *fabrics, const char *transport, const char *address,
		      unsigned *number)
{
	size_t length = strlen(transport);
	int ret;

	if (fabrics->nr_known == FABRICS_MAX || length >= FABRIC_TRANSPORT_MAX)
		return error_fail(-ENODEV,
				  "use transport '%.32s': this session uses %u others already",
				  transport, fabrics->nr_known);
	*number = fabrics->nr_known++;
	memcpy(fabrics->known[*number].transport, transport, length + 1);
	ret = open_fabric(fabrics, transport, address, *number);
	/* Forgets the fabric, so that the next request tries to open it again. */
	if (error_is_shortage(-ret) || ret == -EAGAIN)
		fabrics->nr_known--;
	return ret;
}

/* ---- What others call */

/* Returns whether a fabric can reach an address. One that could not be opened stands for its whole
 * transport. */
static bool is_for(struct fabric *fabric, const char *known, const char *transport,
		   const char *address)
{
	return strcmp(known, transport) == 0 && (!fabric || fabric_reaches(fabric, address));
}

int fabrics_get(struct fabrics *fabrics, const char *transport, const char *address,
		unsigned *number)
{
	unsigned i = 0;
	int ret = 0;

	pthread_mutex_lock(&fabrics->lock);
	while (i < fabrics->nr_known &&
	       !is_for(fabrics->known[i].fabric, fabrics->known[i].transport, transport, address))
		i++;
	if (i == fabrics->nr_known)
		ret = add_fabric(fabrics, transport, address, &i);
	else if (!fabrics->known[i].fabric)
		ret = error_fail(-ENODEV, "use transport %s: this machine does not have it",
				 transport);
	pthread_mutex_unlock(&fabrics->lock);
	*number = i;
	return ret;
}

int fabrics_register(struct fabrics *fabrics, struct fabrics_memory *memory)
{
	int ret = 0;

	pthread_mutex_lock(&fabrics->lock);
	for (unsigned i = 0; i < fabrics->nr_known && !ret; i++)
		ret = register_on(fabrics, fabrics->known[i].fabric, i, memory);
	if (!ret)
		cds_list_add(&memory->node, &fabrics->memories);
	for (unsigned i = 0; i < fabrics->nr_known && ret; i++)
		deregister_on(fabrics, i, memory);
	pthread_mutex_unlock(&fabrics->lock);
	return ret;
}

void fabrics_deregister(struct fabrics *fabrics, struct fabrics_memory *memory)
{
	pthread_mutex_lock(&fabrics->lock);
	cds_list_del(&memory->node);
	for (unsigned i = 0; i < fabrics->nr_known; i++)
		deregister_on(fabrics, i, memory);
	pthread_mutex_unlock(&fabrics->lock);
}

void fabrics_stat(struct fabrics *fabrics, struct fabrics_stat *out)
{
	pthread_mutex_lock(&fabrics->lock);
	*out = (struct fabrics_stat){fabrics->nr_registered_ever, fabrics->registered_bytes};
	pthread_mutex_unlock(&fabrics->lock);
}
