/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of a progress: the ways to its threads, each over a fabric of its own. A port has a listener,
 * and each thread a queue for it. Called by progress.c, which owns all of it.
 */
#include <stddef.h>

#include "base/error.h"
#include "server/data/progress_private.h"

#define SILENCE_MS 10000 /* from connecting to showing a ticket */

/* ---- Queues */

void ports_close_queues(struct progress_thread *thread)
{
	for (unsigned i = 0; i < PORTS_MAX; i++) {
		if (thread->queues[i])
			fabric_queue_close(thread->queues[i]);
	}
}

int ports_open_queues(struct progress_thread *thread)
{
	const struct progress *progress = thread->progress;
	int ret = 0;

	for (unsigned i = 0; i < progress->nr_ports && ret == 0; i++)
		ret = fabric_queue_open(progress->ports[i].fabric, QUEUE_DEPTH, &thread->queues[i]);
	if (ret != 0)
		ports_close_queues(thread);
	return ret;
}

/* ---- Listeners */

void ports_close(struct progress *progress)
{
	for (unsigned i = 0; i < progress->nr_ports; i++) {
		door_stop(progress->ports[i].door);
		fabric_listener_close(progress->ports[i].listener);
	}
}

static int open_port(struct progress *progress, struct fabric *fabric, unsigned nr_fabric,
		     const char *address)
{
	const uint32_t silence_ms = progress->options.silence_ms;
	struct port *port = &progress->ports[progress->nr_ports];
	int ret = fabric_listen(fabric, address, &port->listener);

	if (ret != 0)
		return ret;
	ret = door_start(port->listener, silence_ms ? silence_ms : SILENCE_MS, &port->door);
	if (ret != 0) {
		fabric_listener_close(port->listener);
		return ret;
	}
	port->fabric = fabric;
	port->nr_fabric = nr_fabric;
	progress->nr_ports++;
	return 0;
}

int ports_open(struct progress *progress)
{
	const struct progress_options *options = &progress->options;
	int ret = open_port(progress, options->fabric, options->nr_fabric, options->address);

	for (unsigned i = 0; i < options->nr_beside && ret == 0; i++) {
		const struct progress_way *way = &options->beside[i];

		if (open_port(progress, way->fabric, way->nr_fabric, way->address) != 0)
			log_warn("clients come by no lane over %s: %s",
				 way->fabric->attributes.transport, error_last_line());
	}
	return ret;
}

/* ---- What others ask */

const char *progress_address(const struct progress *progress)
{
	return progress->ports[0].listener->address;
}

unsigned progress_nr_ways(const struct progress *progress)
{
	return progress->nr_ports;
}

void progress_way(const struct progress *progress, unsigned i, struct progress_way *out)
{
	const struct port *port = &progress->ports[i];

	*out = (struct progress_way){port->fabric, port->nr_fabric, port->listener->address};
}

void progress_count(const struct progress *progress, uint64_t *bytes_in, uint64_t *bytes_out)
{
	*bytes_in = *bytes_out = 0;
	for (unsigned i = 0; i < progress->options.nr_threads; i++) {
		for (unsigned j = 0; j < progress->nr_ports; j++) {
			*bytes_in += counter_get(&progress->threads[i].queues[j]->bytes_in);
			*bytes_out += counter_get(&progress->threads[i].queues[j]->bytes_out);
		}
	}
}
