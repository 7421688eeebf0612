/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts bytes and closes connections. stream.c calls it when it keeps or drops bytes, connection.c
 * when connections come and go. */
#include "rpc/buffer_cap.h"

#include <errno.h>

#include "base/error.h"
#include "rpc/connection.h"

static struct buffer_cap_part *find_largest(struct buffer_cap *cap)
{
	struct buffer_cap_part *part, *largest = NULL;
	size_t most = 0;

	cds_list_for_each_entry (part, &cap->parts, node) {
		size_t bytes = atomic_load(&part->bytes);

		if (bytes > most) {
			most = bytes;
			largest = part;
		}
	}
	return largest;
}

static void put_out(struct buffer_cap_part *part)
{
	struct rpc_connection *connection = caa_container_of(part, struct rpc_connection, buffered);

	error_fail(
		-ENOBUFS,
		"%zu MiB of unfinished or unread messages, the most of all, and no room for more",
		atomic_load(&part->bytes) >> 20);
	connection_complain(connection, NULL, -ENOBUFS);
	connection_finish(connection, -ENOBUFS);
}

static void relieve(struct loop_task *task)
{
	struct buffer_cap *cap = caa_container_of(task, struct buffer_cap, relief);
	struct buffer_cap_part *largest;

	while (atomic_load(&cap->bytes) > BUFFER_CAP_BYTES) {
		largest = find_largest(cap);
		if (!largest)
			return;
		put_out(largest);
	}
}

void buffer_cap_enter(struct buffer_cap *cap, struct buffer_cap_part *part)
{
	part->cap = cap;
	cap->relief.run = relieve;
	cds_list_add_tail(&part->node, &cap->parts);
}

void buffer_cap_leave(struct buffer_cap_part *part)
{
	if (!part->cap)
		return;
	atomic_fetch_sub(&part->cap->bytes, atomic_exchange(&part->bytes, 0));
	cds_list_del(&part->node);
	part->cap = NULL;
}

void buffer_cap_add(struct rpc_loop *loop, struct buffer_cap_part *part, size_t bytes)
{
	if (!part->cap)
		return;
	atomic_fetch_add(&part->bytes, bytes);
	if (atomic_fetch_add(&part->cap->bytes, bytes) + bytes > BUFFER_CAP_BYTES)
		loop_task_queue(loop, &part->cap->relief);
}

void buffer_cap_remove(struct buffer_cap_part *part, size_t bytes)
{
	if (!part->cap)
		return;
	atomic_fetch_sub(&part->bytes, bytes);
	atomic_fetch_sub(&part->cap->bytes, bytes);
}
