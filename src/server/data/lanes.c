/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's lanes, in the order in which its operator named them; clients and the domains number
 * them so, too. Owns their fabrics, their progress threads and the domains over them. Called by
 * server.c; by fence.c and control.c for closing.
 */
#include "server/data/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "server/data/advertise.h"
#include "server/data/selfcheck.h"

struct lane {
	struct server_lane options;
	struct progress *progress;
	struct nic nic;
	int node; /* that it is at */
	bool is_bound;
};

struct lanes {
	struct lane lanes[LANES_MAX];
	struct fabric *fabrics[LANES_MAX];
	unsigned nr_lanes;
	pthread_rwlock_t beside_lock; /* guards the next two */
	struct progress *beside[LANES_BESIDE_MAX];
	unsigned nr_beside;
	struct domains *domains;
	const char *sysfs;
};

/* A closing of connections on all lanes. The last lane frees it. */
struct lanes_closing {
	struct lanes *lanes; /* whose `beside_lock` is held until it has begun */
	struct progress_order order;
	atomic_uint nr_left;
	unsigned nr_lanes;
	struct progress_closing *on[LANES_MAX + LANES_BESIDE_MAX];
};

/*
 * Tests that the transport enforces its keys; otherwise the server lends nothing over it. Tests
 * over the machine's own loopback; if the transport has none, over the address that clients will
 * use.
 */
static int check_fabric(struct fabric *fabric, const char *listening,
			const struct lanes_manager *manager)
{
	char address[ADVERTISE_MAX];
	char *colon;

	if (fabric->attributes.loopback)
		return selfcheck(fabric, fabric->attributes.loopback);
	advertise(listening, manager->host, manager->port, address);
	colon = strrchr(address, ':');
	if (!colon)
		return error_fail(-EINVAL, "start the server: '%s' is not HOST:PORT", listening);
	snprintf(colon, sizeof(address) - (size_t)(colon - address), ":0");
	return selfcheck(fabric, address);
}

int lanes_open(const struct server_lane *options, unsigned nr_lanes,
	       const struct lanes_manager *manager, struct lanes **out)
{
	struct lanes *lanes;
	int ret = 0;

	if (nr_lanes == 0 || nr_lanes > LANES_MAX)
		return error_fail(-EINVAL, "start the server: %u lanes, but 1 to %u are possible",
				  nr_lanes, LANES_MAX);
	lanes = calloc(1, sizeof(*lanes));
	if (!lanes)
		return error_code(-ENOMEM);
	pthread_rwlock_init(&lanes->beside_lock, NULL);
	for (unsigned i = 0; i < nr_lanes && ret == 0; i++) {
		lanes->lanes[i].options = options[i];
		lanes->nr_lanes++;
		ret = fabric_open_at(options[i].transport, options[i].address, &lanes->fabrics[i]);
		if (ret != 0)
			break;
		lanes->fabrics[i]->congestion = options[i].congestion;
		ret = check_fabric(lanes->fabrics[i], options[i].address, manager);
	}
	if (ret == 0)
		ret = domains_open(lanes->fabrics, lanes->nr_lanes, &lanes->domains);
	if (ret != 0) {
		lanes_close(lanes);
		return ret;
	}
	*out = lanes;
	return 0;
}

/* Finds the lane's network card, and the processors of its node. NULL: any, because the node is
 * unknown, or has none for this process. */
static const cpu_set_t *place(const char *sysfs, struct lane *lane, cpu_set_t *processors)
{
	nic_find(sysfs, lane->options.address, &lane->nic);
	lane->node = nic_node(sysfs, &lane->nic);
	if (lane->node == NIC_NODE_UNKNOWN)
		return NULL;
	lane->is_bound = nic_processors(sysfs, lane->node, processors);
	if (!lane->is_bound)
		log_warn("lane %s %s: its network card %s is at NUMA node %d, of whose processors "
			 "this process may use none",
			 lane->options.transport, lane->options.address, lane->nic.interface,
			 lane->node);
	return lane->is_bound ? processors : NULL;
}

/* Returns whether the server can move data itself. Other fabrics would need our memory registered
 * for that, or the client's shared. */
static bool can_move(const struct fabric *fabric)
{
	return !fabric->attributes.needs_local_registration &&
	       !fabric->attributes.needs_shared_memory;
}

int lanes_start(struct lanes *lanes, const char *sysfs, const struct progress_options *common)
{
	struct progress_options options = *common;
	cpu_set_t processors;
	int ret = 0;

	lanes->sysfs = sysfs;
	for (unsigned i = 0; i < lanes->nr_lanes && ret == 0; i++) {
		options.processors = place(sysfs, &lanes->lanes[i], &processors);
		options.domains = lanes->domains;
		options.fabric = lanes->fabrics[i];
		options.nr_fabric = i;
		options.address = lanes->lanes[i].options.address;
		options.locate = can_move(lanes->fabrics[i]) ? common->locate : NULL;
		options.stage_bytes = can_move(lanes->fabrics[i]) ? common->stage_bytes : 0;
		ret = progress_start(&options, &lanes->lanes[i].progress);
	}
	return ret;
}

void lanes_stop(struct lanes *lanes)
{
	if (!lanes)
		return;
	for (unsigned i = 0; i < lanes->nr_lanes; i++) {
		progress_stop(lanes->lanes[i].progress);
		lanes->lanes[i].progress = NULL;
	}
}

void lanes_close(struct lanes *lanes)
{
	if (!lanes)
		return;
	domains_close(lanes->domains);
	for (unsigned i = 0; i < lanes->nr_lanes; i++) {
		if (lanes->fabrics[i])
			fabric_close(lanes->fabrics[i]);
	}
	pthread_rwlock_destroy(&lanes->beside_lock);
	free(lanes);
}

/* ---- What others ask */

int server_congestion_check(const char *name, char *problem, size_t size)
{
	return fabric_congestion_check(name, problem, size);
}

struct domains *lanes_domains(const struct lanes *lanes)
{
	return lanes->domains;
}

unsigned lanes_nr(const struct lanes *lanes)
{
	return lanes->nr_lanes;
}

const char *lanes_transport(const struct lanes *lanes, unsigned i)
{
	return lanes->fabrics[i]->attributes.transport;
}

const char *lanes_near_transport(const struct lanes *lanes)
{
	for (unsigned i = 0; i < lanes->nr_lanes; i++) {
		if (lanes->fabrics[i]->attributes.needs_shared_memory && lanes->fabrics[i]->paged)
			return lanes_transport(lanes, i);
	}
	return NULL;
}

bool lanes_find_driven(const struct lanes *lanes, char transport[static FABRIC_NAME_MAX],
		       char host[static FABRIC_ADDRESS_MAX])
{
	for (unsigned i = 0; i < lanes->nr_lanes; i++) {
		const char *address = lanes->lanes[i].options.address;
		const char *colon = strrchr(address, ':');

		if (lanes->fabrics[i]->paged || !colon || colon - address >= FABRIC_ADDRESS_MAX)
			continue;
		fabric_name_paged(lanes->fabrics[i], transport);
		memcpy(host, address, (size_t)(colon - address));
		host[colon - address] = '\0';
		return true;
	}
	return false;
}

const char *lanes_address(const struct lanes *lanes, unsigned i)
{
	return progress_address(lanes->lanes[i].progress);
}

bool lanes_register_slowly(const struct lanes *lanes)
{
	for (unsigned i = 0; i < lanes->nr_lanes; i++) {
		if (lanes->fabrics[i]->attributes.needs_local_registration)
			return true;
	}
	return false;
}

bool lanes_need_shared_memory(const struct lanes *lanes)
{
	for (unsigned i = 0; i < lanes->nr_lanes; i++) {
		if (lanes->fabrics[i]->attributes.needs_shared_memory)
			return true;
	}
	return false;
}

uint32_t lanes_nr_connections(const struct lanes *lanes)
{
	uint32_t nr = 0;

	for (unsigned i = 0; i < lanes->nr_lanes; i++)
		nr += progress_nr_connections(lanes->lanes[i].progress);
	return nr;
}

void lanes_stat(const struct lanes *lanes, unsigned i, struct lane_stat *out)
{
	const struct lane *lane = &lanes->lanes[i];

	*out = (struct lane_stat){
		.nr_connections = progress_nr_connections(lane->progress),
		.node = lane->node,
		.is_bound = lane->is_bound,
		.link = nic_link(lanes->sysfs, &lane->nic),
	};
	progress_congestion(lane->progress, out->congestion);
	if (lanes->fabrics[i]->attributes.counts_bytes) {
		out->counted_by = LANE_COUNTED_BY_TRANSPORT;
		progress_count(lane->progress, &out->bytes_in, &out->bytes_out);
	} else if (nic_count(lanes->sysfs, &lane->nic, &out->bytes_in, &out->bytes_out)) {
		out->counted_by = LANE_COUNTED_BY_PORT;
	}
}

/* ---- Closing connections */

int lanes_add_beside(struct lanes *lanes, struct progress *progress)
{
	int ret = 0;

	pthread_rwlock_wrlock(&lanes->beside_lock);
	if (lanes->nr_beside < LANES_BESIDE_MAX)
		lanes->beside[lanes->nr_beside++] = progress;
	else
		ret = error_fail(-ENOSPC, "open a store: a server has at most %u",
				 LANES_BESIDE_MAX);
	pthread_rwlock_unlock(&lanes->beside_lock);
	return ret;
}

void lanes_drop_beside(struct lanes *lanes, struct progress *progress)
{
	unsigned i = 0;

	pthread_rwlock_wrlock(&lanes->beside_lock);
	while (lanes->beside[i] != progress)
		i++;
	lanes->beside[i] = lanes->beside[--lanes->nr_beside];
	pthread_rwlock_unlock(&lanes->beside_lock);
}

int lanes_closing_new(struct lanes *lanes, struct lanes_closing **out)
{
	struct lanes_closing *closing = calloc(1, sizeof(*closing));
	unsigned nr_lanes;
	int ret = 0;

	if (!closing)
		return error_code(-ENOMEM);
	pthread_rwlock_rdlock(&lanes->beside_lock);
	closing->lanes = lanes;
	nr_lanes = lanes->nr_lanes + lanes->nr_beside;
	atomic_init(&closing->nr_left, nr_lanes);
	for (unsigned i = 0; i < nr_lanes && ret == 0; i++) {
		ret = progress_closing_new(i < lanes->nr_lanes ? lanes->lanes[i].progress
							       : lanes->beside[i - lanes->nr_lanes],
					   &closing->on[i]);
		if (ret == 0)
			closing->nr_lanes++;
	}
	if (ret != 0)
		lanes_closing_drop(closing);
	else
		*out = closing;
	return ret;
}

void lanes_closing_drop(struct lanes_closing *closing)
{
	for (unsigned i = 0; i < closing->nr_lanes; i++)
		progress_closing_drop(closing->on[i]);
	pthread_rwlock_unlock(&closing->lanes->beside_lock);
	free(closing);
}

static bool concerns(const void *argument, const struct admission *connection)
{
	const struct progress_order *order = &((const struct lanes_closing *)argument)->order;

	return order->concerns(order->argument, connection);
}

/* Runs when a lane has closed its connections. Each lane does its closings in the order of the
 * calls, so the last lanes of two closings keep that order. */
static void lane_done(void *argument)
{
	struct lanes_closing *closing = argument;

	if (atomic_fetch_sub(&closing->nr_left, 1) != 1)
		return;
	closing->order.done(closing->order.argument);
	free(closing);
}

void lanes_close_connections(struct lanes_closing *closing, const struct progress_order *order)
{
	const struct progress_order on_each = {concerns, lane_done, closing, order->must_let_go};
	unsigned nr_lanes = closing->nr_lanes;
	struct lanes *lanes = closing->lanes;

	closing->order = *order;
	/* `closing` is not freed before the last lane has its part. */
	for (unsigned i = 0; i < nr_lanes; i++)
		progress_close(closing->on[i], &on_each);
	pthread_rwlock_unlock(&lanes->beside_lock);
}
